"""Reduces equal bags of rows at once: exporters write an EmbeddingBag as a loop over its bags."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...ir.op import LogicalTensor, Op
from ...opset.kinds import REDUCTIONS
from ..emitter import Emitter, Value, numbers
from ..movement import reshape, slice_
from .table import again, contents, made, operand_of, rewrites


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
    first = _bag(emit, op.inputs[0])
    rank = len(op.outputs[0].shape or ())
    axis = op.attrs.get("axis")
    if first is None or len(op.inputs) < 2 or not isinstance(axis, int) or axis not in (0, -rank):
        return None
    size, count = first.end - first.start, len(op.inputs)
    for place, value in enumerate(op.inputs):
        bag = _bag(emit, value)
        start = first.start + place * size
        if bag is None or not bag.is_like(first) or (bag.start, bag.end) != (start, start + size):
            return None
    part = slice_(emit, first.indices, [first.start], [first.start + count * size], [0])
    rows = again(emit, first.gather, [first.gather.inputs[0], reshape(emit, part, numbers(count, size))])
    return again(emit, first.reduction, [rows], axes=(1,), keep_dims=False)


def _bag(emit: Emitter, value: LogicalTensor | None) -> Bag | None:
    """The bag whose result (1, ...) is a value; None for other values."""
    shaped = made(emit, value, "StaticReshape", "Reshape")
    reduction = made(emit, value if shaped is None else operand_of(shaped), *REDUCTIONS)
    if value is None or reduction is None or len(reduction.inputs) > 1 or reduction.attrs.get("axes") != (0,):
        return None
    gather = made(emit, operand_of(reduction), "Gather")
    slice_ = None if gather is None else made(emit, gather.inputs[1], "Slice")
    if gather is None or slice_ is None or gather.attrs.get("axis", 0) != 0:
        return None
    indices, (table, row) = operand_of(slice_), (operand_of(gather).shape, value.shape)
    places = [contents(input_) for input_ in slice_.inputs[1:]]
    if table is None or row != (1, *table[1:]) or indices.shape is None or len(indices.shape) != 1:
        return None
    if len(places) > 3 and (places[3] is None or not np.array_equal(places[3], [1])):
        return None
    if indices.shape[0] is None or len(places) < 2 or any(place is None or place.size != 1 for place in places[:2]):
        return None
    start, end, _ = slice(*(int(place.item()) for place in places[:2] if place is not None)).indices(indices.shape[0])
    return Bag(reduction, gather, indices, start, end) if start < end else None
