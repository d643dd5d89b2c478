"""Lowers nodes that select elements by indices or find indices."""

from __future__ import annotations

import numpy as np

from ....lowering.emitter import Array, Value, numbers
from ....lowering.movement import as_s64
from ....opset.dtypes import DataType
from ..node import Node, NotLowered, lowers


@lowers("Gather", "GatherElements")
def gather(node: Node) -> Value:
    """Elements or slices that indices name."""
    found: Value = node.emit.op(node.proto.op_type, [node.value(0), node.value(1)], {"axis": node.attr("axis", 0)})
    return found


@lowers("GatherND")
def gather_nd(node: Node) -> Value:
    """Elements or slices that tuples of indices name."""
    attrs = {"batch_dims": node.attr("batch_dims", 0)}
    found: Value = node.emit.op("GatherND", [node.value(0), node.value(1)], attrs)
    return found


@lowers("ScatterElements", "ScatterND", "Scatter")
def scatter(node: Node) -> Value:
    """A tensor with updates at some places."""
    kind = "ScatterND" if node.proto.op_type == "ScatterND" else "ScatterElements"
    attrs = {"reduction": node.attr("reduction", "none")}
    if kind == "ScatterElements":
        attrs["axis"] = node.attr("axis", 0)
    found: Value = node.emit.op(kind, [node.value(index) for index in range(3)], attrs)
    return found


@lowers("OneHot")
def one_hot(node: Node) -> Value:
    """One number at the place of each index, and another one elsewhere."""
    inputs = [as_s64(node.emit, node.value(0)), as_s64(node.emit, node.value(1)), node.value(2)]
    found: Value = node.emit.op("OneHot", inputs, {"axis": node.attr("axis", -1)})
    return found


@lowers("ArgMax", "ArgMin")
def arg(node: Node) -> Value:
    """The place of the largest or smallest element."""
    attrs = {
        "axis": node.attr("axis", 0),
        "keep_dims": bool(node.attr("keepdims", 1)),
        "last": bool(node.attr("select_last_index", 0)),
    }
    found: Value = node.emit.op(node.proto.op_type, [node.value(0)], attrs)
    return found


@lowers("TopK")
def top_k(node: Node) -> tuple[Value, ...]:
    """The largest or smallest elements, sorted; their number is an attribute before op set 10."""
    attrs = {"axis": node.attr("axis", -1), "largest": bool(node.attr("largest", 1))}
    count = numbers(node.attr("k")) if node.has("k") else node.value(1)
    return tuple(node.emit.op("TopK", [node.value(0), count], attrs))


@lowers("NonZero")
def non_zero(node: Node) -> Value:
    """The indices of elements other than 0."""
    found: Value = node.emit.op("NonZero", [node.value(0)])
    return found


@lowers("CumSum")
def cum_sum(node: Node) -> Value:
    """Sums along an axis."""
    axis = node.integers(1) or [0]
    attrs = {"axis": axis[0], "exclusive": bool(node.attr("exclusive", 0)), "reverse": bool(node.attr("reverse", 0))}
    found: Value = node.emit.op("CumSum", [node.value(0)], attrs)
    return found


@lowers("Range")
def range_(node: Node) -> Value:
    """Numbers at equal distances."""
    found: Value = node.emit.op("Range", [node.value(0), node.value(1), node.value(2)])
    return found


@lowers("Trilu")
def triangle(node: Node) -> Value:
    """One triangle of each matrix."""
    offset = node.integers(1) or [0]
    attrs = {"upper": bool(node.attr("upper", 1)), "offset": offset[0]}
    found: Value = node.emit.op("Triangle", [node.value(0)], attrs)
    return found


@lowers("EyeLike")
def eye(node: Node) -> Value:
    """Ones on a diagonal."""
    shape = node.shape()
    if shape is None or len(shape) != 2 or None in shape:
        raise NotLowered("the shape is unknown")
    rows, columns = shape
    dtype: DataType = node.importer.dtype(node.attr("dtype"), node.where) if node.has("dtype") else node.dtype()
    found: Array = np.eye(int(rows), int(columns), k=node.attr("k", 0)).astype(dtype.numpy)
    return found


@lowers("NonMaxSuppression")
def non_max_suppression(node: Node) -> Value:
    """The best boxes of each class without those that overlap a better one."""
    limits: list[Value] = [np.array(0, np.int64), np.array(0, np.float32), np.array(-np.inf, np.float32)]
    for place in range(3):
        given = node.optional(2 + place)
        limits[place] = limits[place] if given is None else given
    attrs = {"center": bool(node.attr("center_point_box", 0))}
    found: Value = node.emit.op("NonMaxSuppression", [node.value(0), node.value(1), *limits], attrs)
    return found
