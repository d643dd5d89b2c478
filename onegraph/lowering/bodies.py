"""Adds the bodies of composed ops to a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..opset.bodies import Expression, Operand, expand
from ..opset.schema import Call
from ..opset.shapes import known_dims
from .elementwise import add, binary, filled, multiply, select, unary
from .emitter import Emitter, Value, numbers, shape_of
from .movement import dims_of, reshape, transpose, unsqueeze
from .reduction import reduce

PAIRS: Mapping[str, Callable[[Emitter, Value, Value], Value]] = {"Add": add, "Multiply": multiply}
ATTRS = {"SoftPlus": {"beta": 1.0}}


class Emitted(Expression):
    """A value of a graph."""

    def __init__(self, emit: Emitter, value: Value) -> None:
        self.emit, self.value = emit, value

    def op(self, kind: str, *operands: Operand) -> Expression:
        """See :class:`Expression`."""
        emit, src = self.emit, self.value
        if kind == "OneMinus":
            value = binary(emit, "Subtract", filled(1, src), src)
        elif kind == "Square":
            value = multiply(emit, src, src)
        elif kind == "Pow":
            value = emit.op(
                kind,
                [src, *(operand.value for operand in operands if isinstance(operand, Emitted))],
                edition="legacy-1",
            )
        elif not operands:
            value = unary(emit, kind, src, ATTRS.get(kind))
        else:
            like = src if kind != "Select" else next(end.value for end in operands if isinstance(end, Emitted))
            values = [end.value if isinstance(end, Emitted) else filled(float(end), like) for end in operands]  # type: ignore[arg-type]
            if kind == "Select":
                value = select(emit, src, *values)
            else:
                value = PAIRS[kind](emit, src, *values) if kind in PAIRS else binary(emit, kind, src, *values)
        return Emitted(emit, value)

    def reduce(self, kind: str, axes: Sequence[int], *, keep: bool = True) -> Expression:
        """See :class:`Expression`."""
        return Emitted(self.emit, reduce(self.emit, kind, self.value, [*axes], keep))

    def unsqueeze(self, axes: Sequence[int]) -> Expression:
        """See :class:`Expression`."""
        return Emitted(self.emit, unsqueeze(self.emit, self.value, [*axes]))

    def along(self, axis: int, rank: int) -> Expression:
        """See :class:`Expression`."""
        if axis == rank - 1:
            return self
        return Emitted(self.emit, reshape(self.emit, self.value, numbers(-1, *(1,) * (rank - 1 - axis))))

    def reshape(self, shape: Sequence[int] | Expression) -> Expression:
        """See :class:`Expression`."""
        if isinstance(shape, Emitted):
            dims = shape_of(shape.value)
            if dims is None or dims.count(None) > 1:
                return Emitted(self.emit, reshape(self.emit, self.value, dims_of(self.emit, shape.value)))
            shape = [-1 if dim is None else dim for dim in dims]
        assert not isinstance(shape, Expression)
        now = (*(shape_of(self.value) or ()), *[None] * len(shape))
        dims_now = [dim or now[axis] for axis, dim in enumerate(shape)]
        if None in dims_now:
            attrs = {"shape": [*shape], "special_zero": True}
            return Emitted(self.emit, self.emit.op("StaticReshape", [self.value], attrs))
        return Emitted(self.emit, reshape(self.emit, self.value, numbers(*known_dims(tuple(dims_now)))))

    def transpose(self, order: Sequence[int]) -> Expression:
        """See :class:`Expression`."""
        return Emitted(self.emit, transpose(self.emit, self.value, order))


def add_body(emit: Emitter, call: Call, inputs: Sequence[Value | None]) -> list[Value]:
    """Add the body of an op; returns its results."""
    results = expand(call, [None if value is None else Emitted(emit, value) for value in inputs])
    return [result.value for result in results if isinstance(result, Emitted)]
