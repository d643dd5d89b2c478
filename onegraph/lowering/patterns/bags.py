"""Reduces equal bags of rows at once: exporters write an EmbeddingBag as a loop over its bags."""

from __future__ import annotations

from typing import NamedTuple

from ...ir.op import LogicalTensor, Op
from ...opset.kinds import REDUCTIONS
from ...opset.shapes import known, known_dims
from ..emitter import Emitter, Value, numbers
from ..movement import reshape, slice_
from .table import again, made, number, operand_of, rewrites


class Bag(NamedTuple):
    """A reduction of the rows of a table that neighbouring indices name, from ``start`` up to ``end``."""

    reduction: Op
    gather: Op
    indices: LogicalTensor
    start: int
    end: int

    def is_like(self, second: Bag) -> bool:
        """Whether another bag differs in its place alone."""
        ops = (self.reduction, second.reduction), (self.gather, second.gather)
        is_same = all(
            (own_op.kind, own_op.attrs, own_op.edition) == (two.kind, two.attrs, two.edition) for own_op, two in ops
        )
        return is_same and self.indices is second.indices and self.gather.inputs[0] is second.gather.inputs[0]


@rewrites("Concat")
def bags_at_once(emit: Emitter, op: Op) -> Value | None:
    """Results of bags that lie one behind another, as one Gather and one reduction."""
    first = _bag(emit, operand_of(op))
    if first is None or len(op.inputs) < 2 or op.attrs["axis"] not in (0, -len(known_dims(op.outputs[0].shape))):
        return None
    size, count = first.end - first.start, len(op.inputs)
    for place in range(count):
        bag = _bag(emit, operand_of(op, place))
        start = first.start + place * size
        if bag is None or not bag.is_like(first) or (bag.start, bag.end) != (start, start + size):
            return None
    part = slice_(emit, first.indices, [first.start], [first.start + count * size], [0])
    rows = again(emit, first.gather, [first.gather.inputs[0], reshape(emit, part, numbers(count, size))])
    return again(emit, first.reduction, [rows], axes=(1,), keep_dims=False)


def _bag(emit: Emitter, value: LogicalTensor) -> Bag | None:
    """The bag whose result (1, ...) is a value; None for other values."""
    shaped = made(emit, value, "StaticReshape", "Reshape")
    reduction = made(emit, value if shaped is None else operand_of(shaped), *REDUCTIONS)
    if reduction is None or reduction.attrs.get("axes") != (0,):
        return None
    gather = made(emit, operand_of(reduction), "Gather")
    if gather is None or gather.attrs.get("axis", 0) != 0:
        return None
    slice_ = made(emit, gather.inputs[1], "Slice")
    if slice_ is None:
        return None
    indices, table = operand_of(slice_), operand_of(gather).shape
    if table is None or value.shape != (1, *table[1:]) or not known(indices.shape) or len(indices.shape) != 1:
        return None
    begin, stop, *rest = map(number, slice_.inputs[1:])
    if begin is None or stop is None or rest[1:] not in ([], [1]):
        return None
    start, end, _ = slice(int(begin), int(stop)).indices(indices.shape[0])
    return Bag(reduction, gather, indices, start, end) if start < end else None
