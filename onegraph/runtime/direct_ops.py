"""Calls of numpy that compute an op of few elements, without what an op asks of its inputs.

Each refuses the shapes that the rules of the op refuse, as the ranks of the inputs are known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..ir.op import Op
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


def _gather(op: Op) -> Direct:
    return partial(_taken, axis=op.attrs.get("axis", 0))


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
    rank = len(op.outputs[0].shape or ())
    new = {axis % rank for axis in axes} if rank else set[int]()
    places = tuple([None if axis in new else slice(None) for axis in range(rank)])
    return lambda src: src[places]


def _transpose(op: Op) -> Direct | None:
    order: Any = op.attrs["order"]
    return lambda src: src.transpose(order or None)


def _reshape(op: Op) -> Direct | None:
    wanted = op.inputs[1]
    shape = None if wanted is None or wanted.value is None else tuple(wanted.value.tolist())
    return None if shape is None or 0 in shape else lambda src, _: src.reshape(shape)


def _slice(op: Op) -> Direct | None:
    """Along axes that are known, forwards: as Python counts."""
    src, *ends = op.inputs
    rank = len(src.shape or ()) if src is not None else 0
    axes, steps = (*[None if end is None else end.value for end in ends[2:]], None, None)[:2]
    count = len(ends[0].shape or ()) and (ends[0].shape or (0,))[0] if ends[0] is not None else None
    if count is None or (steps is not None and min(steps.tolist(), default=1) < 1):
        return None
    along = [axis % rank for axis in (range(count) if axes is None else axes.tolist())]
    strides = [1] * count if steps is None else steps.tolist()
    if len({*along}) < count:
        return None
    plain = [slice(None)] * rank

    def sliced(src: Any, starts: Any, ends: Any, *_: Any) -> Any:
        places = plain.copy()
        for axis, start, end, step in zip(along, starts.tolist(), ends.tolist(), strides, strict=True):
            places[axis] = slice(start, end, step)
        return src[tuple(places)]

    return sliced


def _cast(op: Op) -> Direct | None:
    src, dtype = op.inputs[0], op.outputs[0].dtype.numpy
    if src is None or {src.dtype.numpy.kind, dtype.kind} - {*"iufb"}:
        return None
    return lambda src: src.astype(dtype)


def _shape(op: Op) -> Direct:
    del op
    return lambda src: np.array(src.shape, np.int64)


MAKERS: dict[str, Maker] = {
    "Cast": _cast,
    "Concat": _concat,
    "Gather": _gather,
    "Reshape": _reshape,
    "Shape": _shape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}


def is_exact(op: Op) -> bool:
    """Whether numpy rounds an op of the library as the specification says."""
    tensors = [*op.inputs, *op.outputs]
    is_single = all(tensor is not None and tensor.dtype is DataType.f32 for tensor in tensors)
    return op.kind in EXACT and is_single and op.attrs.get("auto_broadcast", "numpy") == "numpy"


def direct(op: Op) -> Direct | None:
    """What gives the result of an op for its arrays; None for other ops.

    Args:
        op: an op whose ranks are known, and of which numpy refuses the shapes that its rules refuse.
    """
    if op.edition != HOST:
        return EXACT[op.kind] if is_exact(op) else None
    if op.kind in MAKERS:
        return MAKERS[op.kind](op)
    kinds = {
        tensor.dtype.numpy.kind if tensor.dtype.numpy.itemsize != 2 else ""
        for tensor in op.inputs
        if tensor is not None
    }
    return UFUNCS.get(op.kind) if kinds <= {*"iufb"} else None
