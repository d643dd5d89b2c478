"""Computes the quantization of a tensor by the range of its own elements, in f32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...opset.dtypes import DataType
from ...opset.schema import Call

Array = NDArray[Any]


def dynamic_quantize_linear(call: Call, src: Array) -> tuple[Array, Array, Array]:
    """The codes, their scale and the code of 0."""
    low, high = np.float32(call.s64("low")), np.float32(call.s64("high"))
    dtype = (call.output_type(0) or DataType.u8).numpy

    def within(numbers: Any, least: Any, most: Any) -> Array:
        return np.where(np.isnan(numbers), least, np.clip(numbers, least, most))

    with np.errstate(all="ignore"):
        first, last = np.min(src, initial=0), np.max(src, initial=0)
        scale = np.maximum((last - first) / (high - low), np.float32(call.f32("least")))
        scale = np.float32(1) if scale == 0 else scale
        zero = np.rint(within(low - first / scale, low, high)).astype(np.float32)
        codes = np.rint(within(src / scale, low - zero, high - zero)) + zero
    return codes.astype(dtype), np.asarray(scale, np.float32), zero.astype(dtype)


def fake_quantize(call: Call, src: Array) -> Array:
    """The nearest multiples of the step."""
    step = np.float32(call.f32("step"))
    with np.errstate(all="ignore"):
        steps = np.rint(np.clip(src / step, np.float32(call.f32("low")), np.float32(call.f32("high"))))
        return np.asarray(steps * step)
