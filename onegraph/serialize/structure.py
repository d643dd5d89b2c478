"""Checks the connections between the ops of a file: producers, order, and agreement between uses of a tensor."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from ..errors import FormatError
from ..opset.shapes import compatible, is_dense, known_dims, merge, overlaps, show
from ..opset.signature import Shape
from .document import OpForm, TensorForm

MAX_STRIDE = 2**48  # as for the inputs of the builder


def producers(ops: Sequence[OpForm]) -> dict[int, int]:
    """Map each produced tensor id to the index of its op; FormatError if an op or two outputs share an id."""
    by_id: dict[int, int] = {}
    ids: dict[int, str] = {}
    for index, op in enumerate(ops):
        if op.id in ids:
            raise FormatError(f"{op.where}.id", op.id, f"an id of its own; it is that of {ids[op.id]}")
        ids[op.id] = op.where
        for use in op.outputs:
            if use.id in by_id:
                maker_place = ops[by_id[use.id]].where
                raise FormatError(f"{use.where}.id", use.id, f"an id of its own; {maker_place} produces that tensor")
            by_id[use.id] = index
    return by_id


def ordered(ops: Sequence[OpForm], producers: Mapping[int, int]) -> list[int]:
    """Indices of the ops, sorted so that producers come first and else in file order; FormatError for a cycle."""
    waits = [{producers[use.id] for use in op.inputs if use.id in producers} for op in ops]
    readers: list[list[int]] = [[] for _ in ops]
    for index, sources in enumerate(waits):
        for source in sources:
            readers[source].append(index)
    missing = [len(sources) for sources in waits]
    ready = [index for index, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for reader in readers[index]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    if len(order) < len(ops):
        stuck = [ops[index].where for index in sorted(set(range(len(ops))) - set(order))]
        raise FormatError(f"{stuck[0]}.inputs", f"a cycle among {', '.join(stuck[:8])}", "ops without a cycle")
    return order


def agreed_type(uses: Sequence[TensorForm]) -> None:
    """Raise FormatError if uses of one tensor have different data types."""
    known = next((use for use in uses if use.dtype is not None), uses[0])
    for use in uses:
        if use.dtype not in (None, known.dtype):
            raise FormatError(f"{use.where}.dtype", str(use.dtype), f"{known.dtype}, as {known.where} has it")


def agreed_shape(shape: Shape, first: TensorForm, uses: Sequence[TensorForm]) -> Shape:
    """``shape`` of use ``first``, with unknown dims taken from other uses; FormatError if a use contradicts it."""
    for use in uses:
        if use is not first:
            if not compatible(shape, use.shape):
                raise FormatError(f"{use.where}.shape", show(use.shape), f"{show(shape)}, as {first.where} has it")
            shape = merge(shape, use.shape)
    return shape


def declared_strides(uses: Sequence[TensorForm]) -> tuple[int, ...] | None:
    """The strides of the first use that has any; None if no use has strides."""
    return next((use.strides for use in uses if use.strides is not None), None)


def useful_strides(strides: tuple[int, ...] | None, shape: Shape) -> tuple[int, ...] | None:
    """``strides`` if the strides are known, not dense row-major, and without overlapping elements; else None."""
    if strides is None or shape is None or None in shape or any(stride >= MAX_STRIDE for stride in strides):
        return None
    dims = known_dims(shape)
    return None if is_dense(dims, strides) or overlaps(dims, strides) else strides
