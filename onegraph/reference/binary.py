"""Computes the ops of the binary category in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..opset.ops.binary import slope_target
from ..opset.schema import Call
from ..opset.shapes import known_dims

Floats = NDArray[np.float64]


def add(call: Call, src_0: Floats, src_1: Floats) -> Floats:
    return src_0 + src_1


def divide(call: Call, src_0: Floats, src_1: Floats) -> Floats:
    return src_0 / src_1


def maximum(call: Call, src_0: Floats, src_1: Floats) -> Floats:
    return np.maximum(src_0, src_1)


def minimum(call: Call, src_0: Floats, src_1: Floats) -> Floats:
    return np.minimum(src_0, src_1)


def multiply(call: Call, src_0: Floats, src_1: Floats) -> Floats:
    return src_0 * src_1


def squared_difference(call: Call, src_0: Floats, src_1: Floats) -> Floats:
    return np.square(src_0 - src_1)


def subtract(call: Call, src_0: Floats, src_1: Floats) -> Floats:
    return src_0 - src_1


def greater_equal(call: Call, src_0: Floats, src_1: Floats) -> NDArray[np.bool_]:
    return np.greater_equal(src_0, src_1)


def select(call: Call, cond: NDArray[np.bool_], src_0: Floats, src_1: Floats) -> Floats:
    return np.where(cond, src_0, src_1)


def _along_channels(call: Call, vector: Floats, rank: int) -> Floats:
    return vector if call.string("data_format") == "NXC" else vector.reshape(-1, *(1,) * (rank - 2))


def bias_add(call: Call, src: Floats, bias: Floats) -> Floats:
    return src + _along_channels(call, bias, src.ndim)


def bias_add_backward(call: Call, diff_dst: Floats) -> Floats:
    channel = diff_dst.ndim - 1 if call.string("data_format") == "NXC" else 1
    return diff_dst.sum(axis=tuple(axis for axis in range(diff_dst.ndim) if axis != channel))


def prelu(call: Call, src: Floats, slope: Floats) -> Floats:
    shape = slope_target(call, slope.shape, src.shape)
    return np.where(src > 0, src, slope.reshape(known_dims(shape)) * src)


def prelu_backward(call: Call, src: Floats, slope: Floats, diff_dst: Floats) -> tuple[Floats, Floats]:
    target = known_dims(slope_target(call, slope.shape, src.shape))
    diff_src = np.where(src > 0, diff_dst, slope.reshape(target) * diff_dst)
    shared = tuple(axis for axis, dim in enumerate(target) if dim == 1)
    diff_slope = np.where(src > 0, 0, diff_dst * src).sum(axis=shared)
    return diff_src, diff_slope.reshape(slope.shape)
