"""Lowers reductions and the functions made of them."""

from __future__ import annotations

import numpy as np

from ....lowering import reduction as lowering
from ....lowering.elementwise import multiply, unary
from ....lowering.emitter import Value
from ....lowering.movement import NATIVE, as_s64
from ....opset.kinds import REDUCTIONS
from ....opset.shapes import known_dims
from ..node import Node, NotLowered, Unsettled, lowers

# The reductions of no numbers; 0 of the others, which are sums.
OF_NOTHING = {
    **dict.fromkeys(["ReduceMax", "ReduceLogSumExp"], -np.inf),
    "ReduceMin": np.inf,
    "ReduceProd": 1.0,
    "ReduceMean": np.nan,
}


def _axes(node: Node) -> tuple[list[int] | None, bool, bool]:
    """The axes, whether they stay as axes of size 1, and whether nothing is reduced."""
    axes = node.integers(1)
    keep = bool(node.attr("keepdims", 1))
    if not axes:
        return None, keep, bool(node.attr("noop_with_empty_axes", 0))
    return axes, keep, False


@lowers(*REDUCTIONS)
def reduce(node: Node) -> Value:
    """One op with the same meaning."""
    src, kind, axes_input = node.value(0), node.proto.op_type, node.optional(1)
    if axes_input is not None and not isinstance(axes_input, np.ndarray) and kind not in ("ReduceL1", "ReduceL2"):
        if node.attr("noop_with_empty_axes", 0) or node.shape(1) in (None, (0,), (None,)):
            raise Unsettled("axes that are known only in a run, and may be none", [1])
        inputs = [src, as_s64(node.emit, axes_input)]
        return node.emit.op(kind, inputs, {"keep_dims": bool(node.attr("keepdims", 1))}, edition="host")
    axes, keep, is_noop = _axes(node)
    if is_noop:
        return unary(node.emit, "Abs", src) if kind in ("ReduceL1", "ReduceL2") else src
    if 0 in node.dims():
        return _of_nothing(node, kind, axes, keep)
    return lowering.reduce(node.emit, kind, src, axes, keep)


def _of_nothing(node: Node, kind: str, axes: list[int] | None, keep: bool) -> Value:
    """What a reduction of a tensor without elements gives."""
    number, dims, plain = OF_NOTHING.get(kind, 0.0), node.dims(), node.dtype().numpy
    if plain.kind in "bui" and np.isfinite(number):
        number = int(number)
    elif plain.kind == "b":
        number = number == np.inf
    elif plain.kind in "ui":
        if kind not in ("ReduceMax", "ReduceMin"):
            raise NotLowered("an empty tensor of integers")
        limits = np.iinfo(plain)
        number = limits.max if kind == "ReduceMin" else limits.min
    reduced = range(len(dims)) if axes is None else [axis % len(dims) for axis in axes]
    shape = [1 if axis in reduced else dim for axis, dim in enumerate(dims) if keep or axis not in reduced]
    if None in shape:
        raise Unsettled("an empty tensor whose other dims are known only in a run")
    return np.full(known_dims(tuple(shape)), number, plain)


@lowers("ReduceSumSquare", wide=True)
def sum_of_squares(node: Node) -> Value:
    """The sum of squares."""
    axes, keep, is_noop = _axes(node)
    src = node.value(0)
    squares = unary(node.emit, "Square", src) if node.dtype() in NATIVE else multiply(node.emit, src, src)
    return squares if is_noop else lowering.reduce(node.emit, "ReduceSum", squares, axes, keep)


@lowers("ReduceLogSum", wide=True)
def log_of_sum(node: Node) -> Value:
    """The logarithm of the sum."""
    axes, keep, is_noop = _axes(node)
    total = node.value(0) if is_noop else lowering.reduce(node.emit, "ReduceSum", node.value(0), axes, keep)
    return unary(node.emit, "Log", total)


@lowers("ReduceLogSumExp", wide=True)
def log_of_sum_of_exponentials(node: Node) -> Value:
    """The logarithm of the sum of exponentials."""
    axes, keep, is_noop = _axes(node)
    if is_noop:
        return node.value(0)
    if 0 in node.dims():
        return _of_nothing(node, "ReduceLogSumExp", axes, keep)
    return lowering.log_sum_exp(node.emit, node.value(0), axes, keep)


@lowers("Softmax", "LogSoftmax")
def softmax(node: Node) -> Value:
    """A softmax, or its logarithm."""
    if node.dtype() not in NATIVE:
        raise NotLowered(f"{node.dtype()} is no data type of the op")
    emit, src, axis = node.emit, node.value(0), node.attr("axis", -1)
    if node.proto.op_type == "LogSoftmax":
        return unary(emit, "LogSoftmax", src, {"axis": axis})
    return emit.op("SoftMax", [src], {"axis": axis}, dtype=node.dtype(), outputs=[])
