"""Lowers ATen ops that put, add or order elements at places that indices name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from ...._util.open_sizes import is_open
from ....lowering.bags import WRONG, reduced_bags
from ....lowering.elementwise import binary, select
from ....lowering.emitter import Value, dtype_of, numbers
from ....lowering.movement import cast, concat, expand, part, reshape, transpose, unsqueeze
from ....lowering.reduction import reduce as least_of
from ....opset.dtypes import DataType
from ....opset.shapes import broadcast, known_dims
from ..node import AtenNode, NotLowered, lowers

# By PyTorch's reduction: that of the ops, and what changes nothing.
REDUCTIONS = {"sum": ("add", 0), "add": ("add", 0), "prod": ("mul", 1), "multiply": ("mul", 1)}
LARGEST = 2  # PyTorch's number for the mode of an embedding bag
BAG_MODES = "Sum", "Mean", "Max"  # by that number
EXTREMES = {"amax": "max", "amin": "min"}


@lowers("scatter.src", "scatter.value", "scatter_add.default", "scatter.reduce", "scatter_reduce.two")
def scatter(node: AtenNode) -> Value:
    """self with elements of src, or a number, at the indices along an axis; or combined with what is there."""
    shape, axis, src = node.shape("index"), node.axis("dim"), node.value("self")
    reduction = "sum" if "scatter_add" in node.name else node["reduce"]
    if not node.shape("self") or not shape:
        raise NotLowered("one number, which has no axes")
    if hasattr(node["src"], "shape"):
        updates: Value = node.value_as("src", node.result_dtype)
        for place, size in enumerate(shape):
            updates = part(node.emit, updates, place, 0, size) if node.shape("src")[place] != size else updates
    else:
        updates = node.filled(shape, node["value"], node.result_dtype)
    index, attrs = node.value("index"), {"axis": axis}
    if reduction is None:
        return _changed(node, "ScatterElements", src, index, updates, attrs)
    if reduction in REDUCTIONS:
        kind, neutral = REDUCTIONS[reduction]
    elif reduction in EXTREMES:
        kind, neutral = EXTREMES[reduction], _limit(node.result_dtype, reduction == "amax")
    else:
        raise NotLowered(f"the reduction {reduction}")
    if node["include_self"] is False:
        neutral_dst = node.filled(shape, neutral, node.result_dtype)
        src = _changed(node, "ScatterElements", src, index, neutral_dst, attrs)
    return _changed(node, "ScatterElements", src, index, updates, {**attrs, "reduction": kind})


def _changed(node: AtenNode, kind: str, src: Value, index: Value, updates: Value, attrs: dict[str, Any]) -> Value:
    return node.emit.op(kind, [src, index, updates], attrs, edition="host")


def _limit(dtype: DataType, is_least: bool) -> Any:
    """The least or the largest number of a data type."""
    kind: Any = dtype.numpy
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return limits.min if is_least else limits.max
    return -np.inf if is_least else np.inf


@lowers("index_put.default", "_unsafe_index_put.default")
def index_put(node: AtenNode) -> Value:
    """self with values at the places that tensors of indices name, or with values added there."""
    order, indices = _places(node, node["indices"])
    count, named, shape = len(indices), _named(indices), node.shape("self")
    first, emit = min(order[:count]), node.emit
    attrs = {"reduction": "add"} if node["accumulate"] else {}
    updates = node.value_as("values", node.result_dtype)
    if order[:count] == [*range(first, first + count)]:  # the values have the axes of the indices in their place
        before, trailing = shape[:first], shape[first + count :]
        rank = first + len(named)
        rows = [reshape(emit, node.counted(dim), _along(axis, dim, rank)) for axis, dim in enumerate(before)]
        named = *before, *named
        updates = expand(emit, updates, [*named, *trailing])
        places = _tuples(node, [*rows, *indices], named)
        return _changed(node, "ScatterND", node.value("self"), places, updates, attrs)
    src = transpose(emit, node.value("self"), order)
    updates = expand(emit, updates, [*named, *[shape[axis] for axis in order[count:]]])
    result = _changed(node, "ScatterND", src, _tuples(node, indices, named), updates, attrs)
    return transpose(emit, result, [order.index(axis) for axis in range(len(order))])


def _along(axis: int, dim: int, rank: int) -> list[int]:
    """The shape of a vector along an axis."""
    return [dim if place == axis else 1 for place in range(rank)]


@lowers("masked_scatter.default")
def masked_scatter(node: AtenNode) -> Value:
    """self with the elements of source, in their order, where the mask is True."""
    emit, whole = node.emit, node.result_shape
    mask, source = expand(emit, node.value("mask"), whole), node.value_as("source", node.result_dtype)
    counted = emit.op("CumSum", [cast(emit, reshape(emit, mask, [-1]), DataType.s64)], {"axis": 0})
    places = reshape(emit, binary(emit, "Subtract", counted, numbers(1)), whole)  # -1 before the first one is not read
    result = emit.op("Gather", [reshape(emit, source, [-1]), places], {"axis": 0})
    return select(emit, mask, result, expand(emit, node.value("self"), whole))


def gathered(node: AtenNode) -> Value:
    """The elements of self at the places that tensors of indices along several axes name."""
    order, indices = _places(node, node["indices"])
    count, named = len(indices), _named(indices)
    axes = sorted(order[:count])
    src = transpose(node.emit, node.value("self"), order)
    result = node.emit.op("GatherND", [src, _tuples(node, indices, named)], edition="host")
    if axes != [*range(axes[0], axes[0] + count)]:
        return result
    # The axes of the indices take the place of the indexed ones.
    size, before = len(named), axes[0]
    rank = size + len(order) - count
    return transpose(node.emit, result, [*range(size, size + before), *range(size), *range(size + before, rank)])


def _places(node: AtenNode, by_axis: Sequence[Any]) -> tuple[list[int], list[Value]]:
    """The axes of self with the indexed ones first, and the indices."""
    indexed = [(axis, one) for axis, one in enumerate(by_axis) if one is not None]
    if any(np.dtype(getattr(one.dtype, "numpy", one.dtype)).kind not in "iu" for _, one in indexed):
        raise NotLowered("a mask in the place of indices")
    axes = [axis for axis, _ in indexed]
    rest = [axis for axis in range(len(node.shape("self"))) if axis not in axes]
    return [*axes, *rest], [one for _, one in indexed]


def _named(indices: Sequence[Value]) -> tuple[int, ...]:
    """The shape of the indices together."""
    return known_dims(reduce(broadcast, [index.shape for index in indices]))


def _tuples(node: AtenNode, indices: Sequence[Value], shape: Sequence[int]) -> Value:
    """The indices of each place side by side, along a new last axis."""
    wide = [expand(node.emit, cast(node.emit, index, DataType.s64), shape) for index in indices]
    return concat(node.emit, [unsqueeze(node.emit, one, [len(shape)]) for one in wide], len(shape))


@lowers("sort.default", "sort.stable")
def sort(node: AtenNode) -> list[Value]:
    """All elements along an axis in order, and their places; equal ones keep their order."""
    src, shape = node.value("self"), node.shape("self")
    if not shape:
        return [src, np.array(0)]
    dim = -1 if node["dim"] is None else node["dim"]
    axis = int(dim) % len(shape)
    attrs, size = {"axis": axis, "largest": bool(node["descending"])}, shape[axis]
    opened = node.open_value((1,), DataType.s64, (size,), lambda emit, sizes: sizes([size]), lambda: numbers(size))
    count = numbers(size) if opened is None else opened
    if dtype_of(src) is DataType.boolean:
        values, places = node.emit.ends("TopK", [cast(node.emit, src, DataType.s32), count], attrs)
        sorted_ends = [cast(node.emit, values, DataType.boolean), places]
    else:
        sorted_ends = [*node.emit.ends("TopK", [src, count], attrs)]
    return [reshape(node.emit, one, shape) for one in sorted_ends]  # the op does not know an open size


@lowers("diagonal.default")
def diagonal(node: AtenNode) -> Value:
    """The elements on a diagonal of each matrix along two axes, as the last axis."""
    shape, rank = node.shape("self"), len(node.shape("self"))
    offset = node["offset"] or 0
    dims = [0 if node["dim1"] is None else node["dim1"], 1 if node["dim2"] is None else node["dim2"]]
    first, second = (int(axis) % rank for axis in dims)
    batch_axes = [axis for axis in range(rank) if axis not in (first, second)]
    rows, columns = shape[first], shape[second]
    src = transpose(node.emit, node.value("self"), [*batch_axes, first, second])
    flat = reshape(node.emit, src, [*[shape[axis] for axis in batch_axes], rows * columns])
    start = offset if offset >= 0 else -offset * columns
    places = node.counted(node.result_shape[-1], start, columns + 1)
    return node.emit.op("Gather", [flat, places], {"axis": len(batch_axes)})


@lowers("_embedding_bag.default", "_embedding_bag_forward_only.default")
def embedding_bag(node: AtenNode) -> list[Value | None]:
    """The sum, mean or largest numbers of the rows in each bag; offsets say where bags begin."""
    emit, weight, indices = node.emit, node.value("weight"), node.value("indices")
    mode, padding = node["mode"] or 0, -1 if node["padding_idx"] is None else node["padding_idx"]
    if padding >= 0 or any(place in node.read for place in (1, 2, 3)):
        raise NotLowered("a padding, or results for the gradient")
    ends, bags = cast(emit, node.value("offsets"), DataType.s64), node.result_shape[0]
    ends = part(emit, ends, 0, 0, bags)  # the last offset may be the number of indices
    (count,) = _named([indices])
    rows = emit.op("Gather", [weight, indices], {"axis": 0})
    if node["per_sample_weights"] is not None:
        rows = binary(emit, "Multiply", rows, unsqueeze(emit, node.value("per_sample_weights"), [1]))
    ends = concat(emit, [ends, numbers(count)], 0)
    result = reduced_bags(emit, f"Reduce{BAG_MODES[mode]}", rows, ends)
    if mode == LARGEST:  # of no rows, it is 0
        is_empty = binary(emit, "Equal", part(emit, ends, 0, 1, bags + 1), part(emit, ends, 0, 0, bags))
        result = select(emit, reshape(emit, is_empty, [bags, 1]), np.zeros((), node.result_dtype.numpy), result)
    return [result, None, None, None]


# By PyTorch's name: the reduction, whether it is that of the negated numbers, and how a first number is joined.
SEGMENTS = {
    "sum": ("ReduceSum", False, "Add"),
    "mean": ("ReduceMean", False, ""),
    "max": ("ReduceMax", False, "Maximum"),
    "min": ("ReduceMax", True, "Minimum"),
}


@lowers("segment_reduce.default")
def segment_reduce(node: AtenNode) -> Value:
    """The sum, mean, largest or smallest numbers of segments of rows, whose lengths add up to the number of rows."""
    emit, rows, initial = node.emit, node.value("data"), node["initial"]
    is_plain = (
        node["lengths"] is not None and node["offsets"] is None and node["indices"] is None and not node["unsafe"]
    )
    kind, is_negated, join = SEGMENTS.get(node["reduce"], ("", False, ""))
    if not is_plain or not kind or node["axis"] or len(node.shape("lengths")) != 1 or 0 in node.shape("lengths"):
        raise NotLowered("no lengths along the first axis alone, or a product")
    if initial is not None and not join:
        raise NotLowered("a mean that begins with a number")
    lengths = cast(emit, node.value("lengths"), DataType.s64)
    ends = emit.op("CumSum", [lengths], {"axis": 0, "exclusive": False, "reverse": False})
    count, (segments,) = numbers(*node.shape("data")[:1]), node.shape("lengths")
    is_other = emit.op("Not", [binary(emit, "Equal", part(emit, ends, 0, segments - 1, segments), count)])
    is_wrong = binary(
        emit, "Or", is_other, binary(emit, "Less", least_of(emit, "ReduceMin", lengths, [0], keep=True), numbers(0))
    )
    wrong = binary(emit, "Multiply", cast(emit, is_wrong, DataType.s64), numbers(WRONG))
    # Lengths that do not fit choose an index that is out of range.
    ends = concat(emit, [emit.op("Gather", [numbers(0), wrong], {"axis": 0}), ends], 0)
    result = reduced_bags(emit, kind, emit.op("Negative", [rows]) if is_negated else rows, ends)
    if is_negated:
        result = emit.op("Negative", [result])
    if node["reduce"] == "mean":  # no rows have none
        is_empty = reshape(
            emit, binary(emit, "Equal", lengths, numbers(0)), [segments, *[1] * (len(node.shape("data")) - 1)]
        )
        result = select(emit, is_empty, np.array(np.nan).astype(node.result_dtype.numpy), result)
    if initial is not None:
        result = binary(emit, join, result, np.array(initial).astype(node.result_dtype.numpy))
    return result


@lowers("searchsorted.Tensor", "bucketize.Tensor")
def searched(node: AtenNode) -> Value:
    """How many elements of a sorted vector are in front of each number, by a search that halves the vector."""
    edges = "boundaries" if "bucketize" in node.name else "sorted_sequence"
    emit, shape, src = node.emit, node.shape(edges), node.value("self")
    if node["sorter"] is not None or is_open(shape[-1:]) or node.dtype(edges) is not node.dtype("self"):
        raise NotLowered("an order of its own, a vector whose size changes, or numbers of two data types")
    is_right = bool(node["right"]) or node["side"] == "right"
    beyond, size = "Greater" if is_right else "GreaterEqual", shape[-1]
    kind, axis = ("Gather", 0) if len(shape) == 1 else ("GatherElements", len(shape) - 1)
    count = node.filled(node.shape("self"), 0, DataType.s64)
    for bit in reversed(range(size.bit_length())):
        more = binary(emit, "Add", count, numbers(1 << bit)[0])
        last = binary(emit, "Subtract", binary(emit, "Minimum", more, numbers(size)[0]), numbers(1)[0])
        edge = emit.op(kind, [node.value(edges), last], {"axis": axis})
        is_beyond = binary(emit, "Or", binary(emit, beyond, edge, src), binary(emit, "Greater", more, numbers(size)[0]))
        count = select(emit, is_beyond, count, more)
    return cast(emit, count, node.result_dtype)
