"""Lowers ATen ops that rearrange elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...._util.open_sizes import is_open
from ....lowering import movement as lowering
from ....lowering.blocks import MOST_PLACES
from ....lowering.elementwise import binary
from ....lowering.emitter import Value, rank_of, shape_of
from ....lowering.layout import inverse
from ....lowering.movement import part
from ....lowering.open_values import OpenInput
from ....lowering.shares import Shares, padded_places, shared
from ....opset.dtypes import DataType
from ..layouts import Layout
from ..node import AtenNode, NotLowered, lowers

COPIES = ("alias", "clone", "detach", "lift_fresh_copy", "contiguous", "lift_fresh")
WHOLE = 2**63 - 1  # the end of an axis of any size


def transpose(node: AtenNode, src: Value, order: Sequence[int]) -> Value:
    """src with its axes in another order; of a known array a view."""
    if isinstance(src, np.ndarray):
        return src.transpose([*order])
    return lowering.transpose(node.emit, src, order)


def reshape(node: AtenNode, src: Value, shape: Sequence[int]) -> Value:
    """src in another shape."""
    if isinstance(src, np.ndarray):
        return src.reshape([*shape])
    return lowering.reshape(node.emit, src, [*shape])


@lowers(*(f"{name}.default" for name in COPIES))
def identity(node: AtenNode) -> Value:
    """The tensor itself: results are functional, so that nobody writes into a copy."""
    return node.value("self")


@lowers(
    "view.default", "_unsafe_view.default", "reshape.default", "unsqueeze.default", "squeeze.default", "squeeze.dim",
    "squeeze.dims", "flatten.using_ints", "_reshape_alias.default",
)  # fmt: skip
def view(node: AtenNode) -> Value:
    """The elements in their order in another shape."""
    return reshape(node, node.value("self"), node.result_shape)


@lowers("permute.default")
def permute(node: AtenNode) -> Value:
    """Axes in another order."""
    src = node.value("self")
    rank = len(node.result_shape)
    return transpose(node, src, [axis % rank for axis in node["dims"]])


@lowers("as_strided.default")
def as_strided(node: AtenNode) -> Value:
    """The memory of a tensor with other axes, if both take all of it once."""
    src, result = Layout.of(node.fakes["self"]), Layout.of(node.result)
    if node["storage_offset"] or any((one.strides or one.repeated or one.overlaps) for one in (src, result)):
        raise NotLowered("a part of the memory, or memory that is repeated")
    rows = reshape(node, transpose(node, node.value("self"), src.order), result.dims)
    return transpose(node, rows, inverse(result.order))


@lowers("transpose.int", "t.default")
def swap(node: AtenNode) -> Value:
    """Two axes exchanged."""
    rank = len(node.result_shape)
    order = [*range(rank)]
    if rank > 1:
        first, second = (0, 1) if "aten.t." in node.name else (node["dim0"] % rank, node["dim1"] % rank)
        order[first], order[second] = order[second], order[first]
    return transpose(node, node.value("self"), order)


@lowers("expand.default")
def expand(node: AtenNode) -> Value:
    """src broadcast to a shape."""
    return lowering.expand(node.emit, node.value("self"), node.result_shape)


@lowers("repeat.default")
def repeat(node: AtenNode) -> Value:
    """src several times along its axes."""
    src, times = node.value("self"), [*node["repeats"]]
    shape = [1] * (len(times) - len(node.shape("self"))) + [*node.shape("self")]
    widened = reshape(node, src, shape)
    for axis, count in enumerate(times):
        if shape[axis] == 1 or count == 1:
            continue
        widened = lowering.concat(node.emit, [widened] * count, axis)
        shape[axis] *= count
    return lowering.expand(node.emit, widened, node.result_shape)


@lowers("slice.Tensor")
def slice_(node: AtenNode) -> Value:
    """A part along one axis."""
    shape = node.shape("self")
    axis = node.axis("dim")
    size, step = shape[axis], node["step"]
    if node.emit.opened is not None and is_open((node["start"], node["end"])):
        first = node["start"] or 0
        return _rows(node, axis, first + size if first < 0 else first, node.result_shape[axis], step)
    if is_open((size,)):
        return _ends(node, axis, node["start"], node["end"], step)
    start, end, _ = slice(node["start"], node["end"], step).indices(size)
    return part(node.emit, node.value("self"), axis, start, end, step)


def _ends(node: AtenNode, axis: int, start: int | None, end: int | None, step: int = 1) -> Value:
    """self[start:end:step] along an open axis, whose places the op reads as Python does."""
    first, last = 0 if start is None else start, WHOLE if end is None else end
    if first == 0 and step == 1 and (last is node.shape("self")[axis] or last == WHOLE):
        return node.value("self")
    return lowering.slice_(node.emit, node.value("self"), [first], [last], [axis], [step])


def _rows(node: AtenNode, axis: int, first: int, count: int, step: int = 1) -> Value:
    """So many rows of self along an axis, where a size is open."""
    emit = node.emit
    if emit.opened is None:  # a program takes sizes at the call
        return _ends(node, axis, first, first + (count - 1) * step + 1, step)
    places = OpenInput("places", (axis, first, first + count * step, step))
    index = emit.opened.value(emit.graph, DataType.s64, (count,), places)
    return emit.op("Gather", [node.value("self"), index], {"axis": axis})


@lowers("select.int")
def select(node: AtenNode) -> Value:
    """One index along an axis."""
    shape = node.shape("self")
    axis = node.axis("dim")
    if is_open((shape[axis],)):
        first = node["index"]
        row = _rows(node, axis, first, 1) if is_open((first,)) else _ends(node, axis, first, first + 1 or None)
        return reshape(node, row, node.result_shape)
    index = node["index"] % shape[axis]
    return reshape(node, part(node.emit, node.value("self"), axis, index, index + 1), node.result_shape)


@lowers("split.Tensor", "split_with_sizes.default", "unbind.int", "chunk.default")
def split(node: AtenNode) -> list[Value]:
    """Parts along one axis."""
    src, axis = node.value("self"), node.axis("dim")
    result, start = [], 0
    for like in node.like:
        size = 1 if "unbind" in node.name else like.shape[axis]
        result.append(reshape(node, part(node.emit, src, axis, start, start + size), [*like.shape]))
        start += size
    return result


@lowers("cat.default", "stack.default")
def concat(node: AtenNode) -> Value:
    """Tensors joined along one axis."""
    sources = [lowering.cast(node.emit, one, node.result_dtype) for one in node["tensors"]]
    rank = len(node.result_shape)
    axis = (node["dim"] or 0) % rank
    if "stack" in node.name:
        shape = [*node.result_shape]
        shape[axis] = 1
        sources = [reshape(node, source, shape) for source in sources]
    # An empty vector joins tensors of any rank.
    sources = [source for source in sources if rank_of(source) == rank] or sources
    return lowering.concat(node.emit, sources, axis)


PADS = {"reflection_pad": "reflect", "replication_pad": "edge"}


@lowers(*(f"{name}{count}d.default" for name in ("reflection_pad", "replication_pad") for count in (1, 2, 3)))
def pad_with_elements(node: AtenNode) -> Value:
    """Elements of the tensor itself around it."""
    begin, end, mode = _around(node)
    return node.emit.op("Pad", [node.value("self"), np.array([*begin, *end])], {"mode": mode}, edition="host")


def _around(node: AtenNode) -> tuple[list[int], list[int], str]:
    """The elements before and behind each axis, and which ones these are."""
    rank, pads = len(node.shape("self")), [*node["padding"]]
    if min(pads) < 0:
        raise NotLowered("padding that takes elements away")
    begin, end = [0] * rank, [0] * rank
    for place in range(len(pads) // 2):
        begin[rank - 1 - place], end[rank - 1 - place] = pads[2 * place], pads[2 * place + 1]
    return begin, end, next(mode for name, mode in PADS.items() if name in node.name)


@lowers(*(f"{name}{count}d_backward.default" for name in ("reflection_pad", "replication_pad") for count in (1, 2, 3)))
def pad_with_elements_backward(node: AtenNode) -> Value:
    """The sums of the gradients of the places where each element is."""
    (begin, end, mode), shape, shares = _around(node), node.shape("self"), dict[int, Shares]()
    if is_open(shape):
        raise NotLowered("a size that changes")
    for axis, size in enumerate(shape):
        if begin[axis] or end[axis]:
            places = padded_places(size, begin[axis], end[axis], mode)[:, None]
            shares[axis] = Shares(places, np.ones(places.shape)).turned(size)
    return shared(node.emit, node.value("grad_output"), shares)


@lowers("constant_pad_nd.default")
def constant_pad(node: AtenNode) -> Value:
    """A number around the elements; negative padding takes elements away."""
    src, rank = node.value("self"), len(node.shape("self"))
    pads = [*node["pad"]]
    begin, end = [0] * rank, [0] * rank
    for place in range(len(pads) // 2):
        axis = rank - 1 - place
        begin[axis], end[axis] = pads[2 * place], pads[2 * place + 1]
    if is_open(pads):
        raise NotLowered("a padding whose size changes")
    if is_open(node.shape("self")):
        number = np.array(node["value"] or 0).astype(node.result_dtype.numpy)
        return node.emit.op("Pad", [src, np.array([*begin, *end]), number], {"mode": "constant"}, edition="host")
    for axis, size in enumerate(node.shape("self")):
        low, high = max(-begin[axis], 0), max(-end[axis], 0)
        if low or high:
            src = part(node.emit, src, axis, low, size - high)
    before, after = ([max(count, 0) for count in counts] for counts in (begin, end))
    return lowering.padded(node.emit, src, before, after, node["value"] or 0)


@lowers("unfold.default")
def windows(node: AtenNode) -> Value:
    """The windows along one axis; their elements are a new last axis."""
    src, shape, size, step = node.value("self"), [*node.shape("self")], node["size"], node["step"]
    if not shape:
        return reshape(node, src, node.result_shape)
    axis = node["dimension"] % len(shape)
    count = node.result_shape[axis]
    last = [*node.result_shape[:-1], 1]
    if not size:
        raise NotLowered("windows of no elements")
    if size > MOST_PLACES:
        first = lowering.unsqueeze(node.emit, node.counted(count, 0, step), [1])
        result = node.emit.op("Gather", [src, binary(node.emit, "Add", first, np.arange(size)[None])], {"axis": axis})
        return transpose(node, result, [*range(axis + 1), *range(axis + 2, len(shape) + 1), axis + 1])
    places = [part(node.emit, src, axis, at, at + step * (count - 1) + 1, step) for at in range(size)]
    return lowering.concat(node.emit, [reshape(node, place, last) for place in places], len(shape))


@lowers("roll.default")
def roll(node: AtenNode) -> Value:
    """Elements moved along axes; those that leave at one end come in at the other."""
    src, shape = node.value("self"), node.shape("self")
    if len(node["dims"]) != len(node["shifts"]):
        raise NotLowered("all elements as one row")
    for axis, shift in zip(node["dims"], node["shifts"], strict=True):
        axis %= max(len(shape), 1)
        size = shape[axis]
        if not is_open((size,)):
            shift %= size
        elif not abs(shift) <= size:
            raise NotLowered("a shift beyond an open axis")
        if shift:
            starts, ends = [-shift, 0], [WHOLE, -shift]
            parts = [
                lowering.slice_(node.emit, src, [start], [end], [axis], [1])
                for start, end in zip(starts, ends, strict=True)
            ]
            src = lowering.concat(node.emit, parts, axis)
    return src


@lowers("flip.default")
def flip(node: AtenNode) -> Value:
    """Axes in reverse."""
    src, shape = node.value("self"), node.shape("self")
    if not shape:
        return src
    axes = [axis % len(shape) for axis in node["dims"]]
    if isinstance(src, np.ndarray):
        result: Value = np.flip(src, tuple(axes))
        return result
    return lowering.slice_(node.emit, src, [-1] * len(axes), [-WHOLE] * len(axes), axes, [-1] * len(axes))


@lowers("slice_scatter.default", "select_scatter.default")
def scatter(node: AtenNode) -> Value:
    """self with another tensor in the place of a part along an axis."""
    shape, axis, updates = [*node.shape("self")], node.axis("dim"), node.value("src")
    if "select" in node.name:
        start, end, step = node["index"], node["index"] + 1 or None, 1
        updates = reshape(node, updates, [*shape[:axis], 1, *shape[axis + 1 :]])
    else:
        start, end, step = node["start"] or 0, node["end"], node["step"]
    if not is_open((shape[axis], start, end)):
        places = range(shape[axis])[slice(start, end, step)]
        if lowering.is_replaceable(shape[axis], places):
            return lowering.with_part(node.emit, node.value("self"), updates, axis, places)
        start, step = places.start, places.step
    elif step == 1:
        return _spliced(node, updates, axis, start, end)
    elif start < 0:
        raise NotLowered("a step from a place that is counted from the end of an open axis")
    return _apart(node, updates, axis, start, step)


def _spliced(node: AtenNode, updates: Value, axis: int, start: int, end: int | None) -> Value:
    """self with updates in the place of self[start:end] along an axis, where a size is open."""
    size, pieces = node.shape("self")[axis], [updates]
    if is_open((start,)):
        pieces.insert(0, _rows(node, axis, 0, start))
    elif start != 0:
        pieces.insert(0, _ends(node, axis, 0, start))
    if end is not None and end is not size and is_open((end,)):
        pieces.append(_rows(node, axis, end, size - end))
    elif end is not None and end is not size and end != WHOLE:
        pieces.append(_ends(node, axis, end, None))
    return lowering.concat(node.emit, pieces, axis)


def _apart(node: AtenNode, updates: Value, axis: int, start: int, step: int) -> Value:
    """self with updates at every few places along an axis."""
    emit, rank = node.emit, len(node.result_shape)
    order = [axis, *[other for other in range(rank) if other != axis]]
    src, updates = (transpose(node, one, order) for one in (node.value("self"), updates))
    shape: Any = shape_of(updates)
    index = lowering.unsqueeze(emit, node.counted(shape[0], start, step), [1])
    return transpose(node, emit.op("ScatterND", [src, index, updates], edition="host"), inverse(order))
