"""Calls of numpy that compute an op of few elements, without what an op asks of its inputs.

Each refuses the shapes that the rules of the op refuse, as the ranks of the inputs are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..compiler.array_kernels.arrays import MOST_ELEMENTS, dense
from ..compiler.array_kernels.detection import kept_boxes
from ..ir.op import LogicalTensor, Op
from ..opset.dtypes import DataType
from ..opset.editions.registry import HOST

Direct = Callable[..., Any]  # of the arrays of an op; returns the result
Maker = Callable[[Op], "Direct | None"]
# Ops that numpy rounds as the specification says, if all tensors are f32.
EXACT: dict[str, Direct] = {
    "Abs": np.abs,
    "Add": np.add,
    "Divide": np.divide,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Multiply": np.multiply,
    "Sqrt": np.sqrt,
    "Square": np.square,
    "Subtract": np.subtract,
}
# Host ops of numbers that numpy computes in their data type; those of 16-bit floats compute in f32.
UFUNCS: dict[str, Direct] = {
    "Add": np.add,
    "And": np.logical_and,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "IsNaN": np.isnan,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Multiply": np.multiply,
    "Negative": np.negative,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Subtract": np.subtract,
    "Where": np.where,
}


ADD_UP: Direct = np.add.reduce
EXTREMES = {"ReduceMax": np.maximum, "ReduceMin": np.minimum}


def _gather(op: Op) -> Direct | None:
    return partial(_taken, axis=op.attrs.get("axis", 0)) if _rank(op) else None


def _taken(src: Any, indices: Any, axis: Any) -> Any:
    return src.take(indices, axis)


def _concat(op: Op) -> Direct:
    axis: Any = op.attrs["axis"]
    return lambda *sources: np.concatenate(sources, axis)


def _squeeze(op: Op) -> Direct:
    axes: Any = op.attrs["axes"]
    return lambda src: src.squeeze(axes)


def _unsqueeze(op: Op) -> Direct | None:
    axes: Any = op.attrs["axes"]
    rank = _rank(op) + len(axes)
    new = {axis % rank for axis in axes if -rank <= axis < rank}
    places = tuple([None if axis in new else slice(None) for axis in range(rank)])
    return (lambda src: src[places]) if len(new) == len(axes) else None


def _transpose(op: Op) -> Direct:
    order: Any = op.attrs["order"]
    return lambda src: src.transpose(order or None)


def _reshape(op: Op) -> Direct | None:
    value = op.inputs[1].value
    assert value is not None  # else the rules are asked
    shape = tuple(value.tolist())
    return None if 0 in shape else lambda src, _: src.reshape(shape)


def _slice(op: Op) -> Direct | None:
    """Along axes that are known, forwards: as Python counts. An end beyond an axis is no mistake."""
    shape: Any = op.inputs[1].shape
    if shape != op.inputs[2].shape or [*map(type, shape)] != [int]:
        return None
    rank, (count,) = _rank(op), shape
    axes, steps = [*range(count)], [1] * count
    for known, end in zip((axes, steps), op.inputs[3:], strict=False):
        if end is not None:
            if end.value is None:
                return None
            known[:] = end.value.tolist()
    along = [axis % rank for axis in axes if -rank <= axis < rank]
    if len({*along}) < count or any(step < 1 for step in steps):
        return None
    plain = [slice(None)] * rank

    def sliced(src: Any, starts: Any, ends: Any, *_: Any) -> Any:
        places = plain.copy()
        for axis, start, end, step in zip(along, starts.tolist(), ends.tolist(), steps, strict=True):
            places[axis] = slice(start, end, step)
        return src[tuple(places)]

    return sliced


def _cast(op: Op) -> Direct | None:
    src, dtype = op.inputs[0], op.outputs[0].dtype.numpy
    return None if {src.dtype.numpy.kind, dtype.kind} - {*"iufb"} else lambda src: src.astype(dtype)


def _shape(op: Op) -> Direct:
    del op
    return lambda src: np.array(src.shape, np.int64)


def _size(op: Op) -> Direct:
    del op
    return lambda src: np.array(src.size, np.int64)


def _expand(op: Op) -> Direct:
    del op
    return lambda src, shape: np.broadcast_to(src, np.broadcast_shapes(src.shape, tuple(shape.tolist())))


def _replace_nan(op: Op) -> Direct | None:
    if op.inputs[0].dtype is not DataType.f32 or op.inputs[1].shape != ():
        return None
    return lambda src, value: np.where(np.isnan(src), value, src)


def _range(op: Op) -> Direct | None:
    """Integers up to a limit."""
    if _forms(op.inputs) != [(DataType.s64, 0)] * 3:
        return None
    return lambda start, limit, step: np.arange(start.item(), limit.item(), step.item())


def _non_zero(op: Op) -> Direct | None:
    return (lambda src: np.array(src.nonzero(), np.int64)) if _rank(op) else None


def _extreme(op: Op) -> Direct | None:
    """The largest or smallest numbers along axes that are known, of which there are some."""
    axes, keep = op.attrs.get("axes"), bool(op.attrs.get("keep_dims", False))
    dtype: Any = op.inputs[0].dtype.numpy
    if dtype.kind not in "iuf" or dtype.itemsize == 2 or not axes or op.inputs[1:]:
        return None
    limits = np.iinfo(dtype) if dtype.kind != "f" else None
    lowest = op.kind == "ReduceMax"
    start = (limits.min if lowest else limits.max) if limits else (-np.inf if lowest else np.inf)
    return partial(_reduced, EXTREMES[op.kind].reduce, axes, keep, start)


def _reduced(function: Any, axes: Any, keep: bool, start: Any, src: Any) -> Any:
    return function(src, axis=axes, keepdims=keep, initial=start)


def _static_reshape(op: Op) -> Direct | None:
    shape: Any = op.attrs["shape"]
    return None if 0 in shape else lambda src: src.reshape(shape)


def _sum(op: Op) -> Direct | None:
    """Sums of f32, rounded once."""
    axes, keep = op.attrs.get("axes"), bool(op.attrs.get("keep_dims", False))
    if (not axes and not op.inputs[1:]) or not _is_single(op, 1):
        return None

    def computed(src: Any, axes_array: Any = None) -> Any:
        along: Any = axes if axes_array is None else tuple(axes_array.tolist())
        return ADD_UP(src.astype(np.float64), axis=along, keepdims=keep, initial=0).astype(np.float32)

    return computed


def _matmul(op: Op) -> Direct | None:
    """A product of two matrices of f32, rounded once."""
    if _forms(op.inputs) != [(DataType.f32, 2)] * 2:
        return None
    turned = [bool(op.attrs.get(name, False)) for name in ("transpose_a", "transpose_b")]

    def computed(src: Any, weights: Any) -> Any:
        first, second = src.astype(np.float64), weights.astype(np.float64)
        return np.matmul(first.T if turned[0] else first, second.T if turned[1] else second).astype(np.float32)

    return computed


def _compress(op: Op) -> Direct | None:
    axis: Any = op.attrs.get("axis", 0)
    if not _rank(op) or len(op.inputs[1].shape or ()) != 1:
        return None
    return lambda src, condition: src.compress(condition, axis)


def _suppression(op: Op) -> Direct | None:
    """The boxes of f32 that stay, for limits that are known."""
    values = [limit.value for limit in op.inputs[2:]]
    known = [value.item() for value in values if value is not None and value.size == 1]
    if len(known) < len(values) or _forms(op.inputs[:2]) != [(DataType.f32, 3)] * 2:
        return None
    limit, *numbers = known
    numbers.append(bool(op.attrs.get("center", False)))

    def kept(boxes: Any, scores: Any, *_: Any) -> Any:
        count, width = boxes.shape[1:]
        if width != 4 or scores.shape[::2] != boxes.shape[:2] or count > MOST_ELEMENTS:
            raise ValueError(f"{count} boxes of {width} numbers, and scores of shape {scores.shape}")
        return kept_boxes(dense(boxes), dense(scores), limit, numbers)

    return kept


def _forms(tensors: Sequence[LogicalTensor]) -> list[tuple[DataType, int | None]]:
    """The data types and ranks of tensors."""
    return [(end.dtype, None if end.shape is None else len(end.shape)) for end in tensors]


def _rank(op: Op) -> int:
    """The rank of the first input."""
    return len(op.inputs[0].shape or ())


MAKERS: dict[str, Maker] = {
    "Cast": _cast,
    "Compress": _compress,
    "Concat": _concat,
    "Expand": _expand,
    "Gather": _gather,
    "NonMaxSuppression": _suppression,
    "NonZero": _non_zero,
    "Range": _range,
    "ReduceMax": _extreme,
    "ReduceMin": _extreme,
    "ReplaceNaN": _replace_nan,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}


# Ops of the specification that more than one call of numpy computes.
BASE_MAKERS: dict[str, Maker] = {"MatMul": _matmul, "ReduceSum": _sum, "StaticReshape": _static_reshape}
# Host ops whose function here refuses what their rules refuse, which their numpy function does not for all forms.
CHECKED = frozenset(
    [
        kind
        for kind, make in MAKERS.items()
        if make in (_compress, _expand, _extreme, _gather, _non_zero, _range, _slice, _suppression, _unsqueeze)
    ]
)


def _is_single(op: Op, count: int | None = None) -> bool:
    """Whether the results and the inputs, or the first ``count`` of them, are f32."""
    return {tensor.dtype for tensor in (*op.inputs[:count], *op.outputs)} == {DataType.f32}


def is_exact(op: Op) -> bool:
    """Whether numpy rounds an op of the library as the specification says."""
    return op.kind in EXACT and _is_single(op) and op.attrs.get("auto_broadcast", "numpy") == "numpy"


def direct(op: Op) -> Direct | None:
    """What gives the result of an op for its arrays; None for other ops.

    Args:
        op: an op whose ranks are known, and of which numpy refuses the shapes that its rules refuse.
    """
    if op.edition != HOST:
        maker = BASE_MAKERS.get(op.kind)
        return maker(op) if maker is not None else EXACT[op.kind] if is_exact(op) else None
    if op.kind in MAKERS:
        return MAKERS[op.kind](op)
    kinds = {tensor.dtype.numpy.kind if tensor.dtype.numpy.itemsize != 2 else "" for tensor in op.inputs}
    return UFUNCS.get(op.kind) if kinds.issubset("iufb") else None
