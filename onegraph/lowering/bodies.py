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

    def op(self, kind: str, *others: Operand) -> Expression:
        """See :class:`Expression`."""
        emit, src = self.emit, self.value
        if kind == "OneMinus":
            found = binary(emit, "Subtract", filled(1, src), src)
        elif kind == "Square":
            found = multiply(emit, src, src)
        elif kind == "Pow":
            found = emit.op(kind, [src, *(one.value for one in others if isinstance(one, Emitted))], edition="legacy-1")
        elif not others:
            found = unary(emit, kind, src, ATTRS.get(kind))
        else:
            like = src if kind != "Select" else next(one.value for one in others if isinstance(one, Emitted))
            values = [one.value if isinstance(one, Emitted) else filled(float(one), like) for one in others]  # type: ignore[arg-type]
            if kind == "Select":
                found = select(emit, src, *values)
            else:
                found = PAIRS[kind](emit, src, *values) if kind in PAIRS else binary(emit, kind, src, *values)
        return Emitted(emit, found)

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
        kept = [dim or now[axis] for axis, dim in enumerate(shape)]
        if None in kept:
            attrs = {"shape": [*shape], "special_zero": True}
            return Emitted(self.emit, self.emit.op("StaticReshape", [self.value], attrs))
        return Emitted(self.emit, reshape(self.emit, self.value, numbers(*known_dims(tuple(kept)))))

    def transpose(self, order: Sequence[int]) -> Expression:
        """See :class:`Expression`."""
        return Emitted(self.emit, transpose(self.emit, self.value, order))


def add_body(emit: Emitter, call: Call, inputs: Sequence[Value | None]) -> list[Value]:
    """Add the body of an op; returns its results."""
    found = expand(call, [None if value is None else Emitted(emit, value) for value in inputs])
    return [one.value for one in found if isinstance(one, Emitted)]
