"""Lowers nodes that select elements by indices or find indices."""

from __future__ import annotations

import numpy as np

from ....lowering.emitter import Array, Value, shape_of
from ....lowering.layout import inverse, moved
from ....lowering.movement import as_s64, is_replaceable, part, transpose, with_part
from ....opset.dtypes import DataType
from ....opset.shapes import known_dims
from ..node import Node, Unsettled, lowers


@lowers("Gather", "GatherElements")
def gather(node: Node) -> Value:
    """Elements or slices that indices name."""
    return node.emit.op(node.proto.op_type, [node.value(0), node.value(1)], {"axis": node.attr("axis", 0)})


@lowers("GatherND")
def gather_nd(node: Node) -> Value:
    """Elements or slices that tuples of indices name."""
    attrs = {"batch_dims": node.attr("batch_dims", 0)}
    return node.emit.op("GatherND", [node.value(0), node.value(1)], attrs)


@lowers("ScatterElements", "ScatterND")
def scatter(node: Node) -> Value:
    """A tensor with updates at some places."""
    kind = "ScatterND" if node.proto.op_type == "ScatterND" else "ScatterElements"
    attrs = {"reduction": node.attr("reduction", "none")}
    if kind == "ScatterND" and attrs["reduction"] == "none" and (assigned := _with_box(node)) is not None:
        return assigned
    if kind == "ScatterElements":
        attrs["axis"] = node.attr("axis", 0)
    return node.emit.op(kind, [node.value(index) for index in range(3)], attrs)


def _with_box(node: Node) -> Value | None:
    """The result of a ScatterND whose places are a box: those of an assignment to slices, as PyTorch exports it."""
    src, indices, updates, shape = node.value(0), node.optional(1), node.value(2), node.shape(0)
    if not isinstance(indices, np.ndarray) or indices.dtype.kind != "i" or not shape or None in shape:
        return None
    dims = [*known_dims(shape)]
    box = _box(indices, dims)
    if box is None or not all(is_replaceable(dim, places) for dim, places in zip(dims, box, strict=False)):
        return None
    if shape_of(updates) != (*map(len, box), *dims[len(box) :]):
        return None
    order = (*range(len(shape)),)
    layout = moved(node.emit, src)
    if layout is not None:
        src, order = layout
        updates = transpose(node.emit, updates, inverse(order))
    # From the inside out: each part is put into the slices that hold it.
    outer = [src]
    for axis, places in zip(order, box[:-1], strict=False):
        outer.append(part(node.emit, outer[-1], axis, places.start, places.stop, places.step))
    for axis, places in reversed([*zip(order, box, strict=False)]):
        updates = with_part(node.emit, outer.pop(), updates, axis, places)
    return transpose(node.emit, updates, order)


def _box(indices: Array, shape: list[int]) -> list[range] | None:
    """The places along each of the first axes, if tuples of indices name all of their combinations in order."""
    if 0 in indices.shape or not 2 <= indices.ndim == indices.shape[-1] + 1 <= len(shape) + 1:
        return None
    count = indices.shape[-1]
    box = []
    for axis in range(count):
        along = indices[(0,) * axis + (slice(None),) + (0,) * (count - axis - 1) + (axis,)].astype(np.int64)
        along = np.where(along < 0, along + shape[axis], along)
        step = int(along[1] - along[0]) if along.size > 1 else 1
        places = range(int(along[0]), int(along[-1]) + 1, max(step, 1))
        every = along.reshape(-1, *(1,) * (count - axis - 1))
        wrapped = np.where(indices[..., axis] < 0, indices[..., axis] + shape[axis], indices[..., axis])
        if places.start < 0 or places.stop > shape[axis] or [*places] != along.tolist() or np.any(wrapped != every):
            return None
        box.append(places)
    return box


@lowers("OneHot")
def one_hot(node: Node) -> Value:
    """One number at the place of each index, and another one elsewhere."""
    inputs = [as_s64(node.emit, node.value(0)), as_s64(node.emit, node.value(1)), node.value(2)]
    return node.emit.op("OneHot", inputs, {"axis": node.attr("axis", -1)})


@lowers("ArgMax", "ArgMin")
def arg(node: Node) -> Value:
    """The place of the largest or smallest element."""
    attrs = {
        "axis": node.attr("axis", 0),
        "keep_dims": bool(node.attr("keepdims", 1)),
        "last": bool(node.attr("select_last_index", 0)),
    }
    return node.emit.op(node.proto.op_type, [node.value(0)], attrs)


@lowers("TopK")
def top_k(node: Node) -> tuple[Value, ...]:
    """The largest or smallest elements, sorted."""
    attrs = {"axis": node.attr("axis", -1), "largest": bool(node.attr("largest", 1))}
    return node.emit.ends("TopK", [node.value(0), node.value(1)], attrs)


@lowers("NonZero")
def non_zero(node: Node) -> Value:
    """The indices of elements other than 0."""
    return node.emit.op("NonZero", [node.value(0)])


@lowers("CumSum")
def running(node: Node) -> Value:
    """Sums or products along an axis."""
    axis = node.integers(1) or [0]
    attrs = {"axis": axis[0], "exclusive": bool(node.attr("exclusive", 0)), "reverse": bool(node.attr("reverse", 0))}
    return node.emit.op(node.proto.op_type, [node.value(0)], attrs)


@lowers("Range")
def range_(node: Node) -> Value:
    """Numbers at equal distances."""
    return node.emit.op("Range", [node.value(0), node.value(1), node.value(2)])


@lowers("Trilu")
def triangle(node: Node) -> Value:
    """One triangle of each matrix."""
    offset = node.integers(1) or [0]
    attrs = {"upper": bool(node.attr("upper", 1)), "offset": offset[0]}
    return node.emit.op("Triangle", [node.value(0)], attrs)


@lowers("EyeLike")
def eye(node: Node) -> Value:
    """Ones on a diagonal."""
    shape = node.shape()
    if shape is None or len(shape) != 2 or None in shape:
        raise Unsettled("the shape is unknown")
    rows, columns = shape
    dtype: DataType = node.importer.dtype(node.attr("dtype"), node.where) if node.has("dtype") else node.dtype()
    result: Array = np.eye(int(rows), int(columns), k=node.attr("k", 0)).astype(dtype.numpy)
    return result


@lowers("NonMaxSuppression")
def non_max_suppression(node: Node) -> Value:
    """The best boxes of each class without those that overlap a better one."""
    limits: list[Value] = [np.array(0, np.int64), np.array(0, np.float32), np.array(-np.inf, np.float32)]
    for place in range(3):
        limit = node.optional(2 + place)
        limits[place] = limits[place] if limit is None else limit
    attrs = {"center": bool(node.attr("center_point_box", 0))}
    return node.emit.op("NonMaxSuppression", [node.value(0), node.value(1), *limits], attrs)
