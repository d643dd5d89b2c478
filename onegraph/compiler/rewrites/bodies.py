"""Composes ops of the library by the bodies of ops, in f32."""

from __future__ import annotations

from collections.abc import Sequence

from ...opset.bodies import Expression, Operand, expand
from ...opset.schema import Call
from ..ir.part import Source
from .form import Form, FormBuilder, scalar


class Composed(Expression):
    """A value of a form. No body that is made into one reshapes a tensor or orders its axes."""

    def __init__(self, parts: FormBuilder, source: Source) -> None:
        self.parts, self.source = parts, source

    def op(self, kind: str, *operands: Operand) -> Expression:
        """See :class:`Expression`."""
        rank = len(self.parts.shape(self.source))
        sources = [end.source if isinstance(end, Composed) else scalar(float(end), rank) for end in operands]  # type: ignore[arg-type]
        if kind == "OneMinus":
            return Composed(self.parts, self.parts.add("Subtract", scalar(1, rank), self.source))
        return Composed(self.parts, self.parts.add(kind, self.source, *sources))

    def reduce(self, kind: str, axes: Sequence[int], *, keep: bool = True) -> Expression:
        """See :class:`Expression`."""
        if keep and all(self.parts.shape(self.source)[axis] == 1 for axis in axes):
            return self
        return Composed(self.parts, self.parts.add(kind, self.source, axes=tuple(axes), keep_dims=keep))

    def unsqueeze(self, axes: Sequence[int]) -> Expression:
        """See :class:`Expression`."""
        dims = iter(self.parts.shape(self.source))
        rank = len(self.parts.shape(self.source)) + len(axes)
        shape = [1 if axis in axes else next(dims) for axis in range(rank)]
        return Composed(self.parts, self.parts.reshape(self.source, shape))

    def along(self, axis: int, rank: int) -> Expression:
        """See :class:`Expression`."""
        return Composed(self.parts, self.parts.along(self.source, rank, axis))


def by_body(call: Call, note: str) -> Form:
    """An op as the ops of its body."""
    parts = FormBuilder(call)
    inputs = iter(parts.wide())
    operands = [None if tensor is None else Composed(parts, next(inputs)) for tensor in call.inputs]
    results = [result.source for result in expand(call, operands) if isinstance(result, Composed)]
    return parts.form(*results, note=note)
