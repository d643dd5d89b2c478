"""Computes the ops of the reduction category in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..opset.ops.reduction import reduced_axes
from ..opset.schema import Call

Floats = NDArray[np.float64]


def _reduce(call: Call, function: np.ufunc, src: Floats, start: float) -> Floats:
    return function.reduce(src, axis=reduced_axes(call), keepdims=call.flag("keep_dims"), initial=start)


def _count(call: Call, src: Floats) -> int:
    axes = reduced_axes(call) or ()
    return int(np.prod([src.shape[axis] for axis in axes], dtype=np.int64))


def reduce_l1(call: Call, src: Floats, axes: object = None) -> Floats:
    return _reduce(call, np.add, np.abs(src), 0)


def reduce_l2(call: Call, src: Floats, axes: object = None) -> Floats:
    return np.sqrt(_reduce(call, np.add, src * src, 0))


def reduce_max(call: Call, src: Floats, axes: object = None) -> Floats:
    return _reduce(call, np.maximum, src, -np.inf)


def reduce_mean(call: Call, src: Floats, axes: object = None) -> Floats:
    return _reduce(call, np.add, src, 0) / np.float64(_count(call, src))


def reduce_min(call: Call, src: Floats, axes: object = None) -> Floats:
    return _reduce(call, np.minimum, src, np.inf)


def reduce_prod(call: Call, src: Floats, axes: object = None) -> Floats:
    return _reduce(call, np.multiply, src, 1)


def reduce_sum(call: Call, src: Floats, axes: object = None) -> Floats:
    return _reduce(call, np.add, src, 0)
