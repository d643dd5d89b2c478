"""Writes ops by their bodies, as nodes of functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....opset.bodies import BODIES, Expression, Operand, expand
from ....opset.schema import Call
from .body import NodeValue
from .table import composes

# Names of nodes, where they are not those of the ops.
NODES = {"Subtract": "Sub", "Multiply": "Mul", "Divide": "Div", "Minimum": "Min", "SoftPlus": "Softplus"}
COMPARISONS = {
    "Equal": "Equal",
    "Greater": "Greater",
    "Less": "Less",
    "GreaterEqual": "GreaterOrEqual",
    "LessEqual": "LessOrEqual",
}


class Written(Expression):
    """A value of a function."""

    def __init__(self, value: NodeValue) -> None:
        self.value = value

    def op(self, kind: str, *operands: Operand) -> Expression:
        """See :class:`Expression`."""
        src = self.value
        values: list[Any] = [one.value if isinstance(one, Written) else one for one in operands]
        if kind == "Select":
            return Written(src.where(*values))
        if kind in COMPARISONS:
            return Written(src.compare(COMPARISONS[kind], *values))
        if kind in ("OneMinus", "Square"):
            return Written(1.0 - src if kind == "OneMinus" else src * src)
        return Written(src.op(NODES.get(kind, kind), *values))

    def reduce(self, kind: str, axes: Sequence[int], *, keep: bool = True) -> Expression:
        """See :class:`Expression`."""
        return Written(self.value.reduce(kind, axes, keep))

    def unsqueeze(self, axes: Sequence[int]) -> Expression:
        """See :class:`Expression`."""
        return Written(self.value.op("Unsqueeze", self.value.body.numbers(*axes)))

    def along(self, axis: int, rank: int) -> Expression:
        """See :class:`Expression`."""
        return self if axis == rank - 1 else Written(self.value.reshape(-1, *[1] * (rank - 1 - axis)))

    def reshape(self, shape: Sequence[int] | Expression) -> Expression:
        """See :class:`Expression`."""
        if isinstance(shape, Written):
            return Written(self.value.op("Reshape", shape.value.dims()))
        assert not isinstance(shape, Expression)
        return Written(self.value.reshape(*shape))

    def transpose(self, order: Sequence[int]) -> Expression:
        """See :class:`Expression`."""
        return Written(self.value.transpose(order))


NODES_ALONE = {"BatchNormInference", "GELU"}


@composes(*BODIES.keys() - NODES_ALONE)
def by_body(call: Call, *inputs: NodeValue | None) -> tuple[NodeValue, ...]:
    """The results of the body of an op."""
    expressions = expand(call, [None if value is None else Written(value) for value in inputs])
    return tuple([one.value for one in expressions if isinstance(one, Written)])
