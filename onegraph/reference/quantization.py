"""Computes the ops of the quantization category in numpy. The runner does the rounding and saturation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import UnsupportedError
from ..opset.ops.quantization import misplaced_scales, scale_axis
from ..opset.schema import Call

Floats = NDArray[np.float64]
Numbers = NDArray[np.float64] | NDArray[np.int64]


def _spread(call: Call, values: Numbers, src: Numbers) -> Numbers:
    """Reshape or repeat scales or zero points so that they broadcast to src."""
    qtype = call.string("qtype")
    if qtype == "per_tensor":
        return values.reshape(())
    if qtype == "per_channel":
        shape = [1] * src.ndim
        shape[scale_axis(call, src.shape, values.size)] = -1
        return values.reshape(shape)
    for axis, size in enumerate(call.s64s("group_shape")):
        values = values.repeat(size, axis=axis)
    return values


def _static(call: Call, src: Numbers) -> tuple[Numbers, Numbers]:
    """Scales, rounded to 32-bit floats as in the library, and zero points, both ready to broadcast to src.

    Raises:
        UnsupportedError: the number of scales fits no axis, which files that break the specification may have.
    """
    for found in misplaced_scales(call):
        raise UnsupportedError(f"{call.schema.kind}: {found.where}: {found.given}; expected {found.expected}")
    scales = np.array(call.f32s("scales"), np.float32).astype(np.float64)
    zps = np.array(call.s64s("zps") if call.has("zps") else [0] * scales.size, np.int64)
    return _spread(call, scales, src), _spread(call, zps, src)


def quantize(call: Call, src: Floats) -> Floats:
    """src / scale + zp."""
    scales, zps = _static(call, src)
    return src / scales + zps


def dequantize(call: Call, src: Numbers) -> Floats:
    """(src - zp) * scale."""
    scales, zps = _static(call, src)
    shifted = src - zps.astype(np.float64)  # zero points may use all 64 bits, so an integer difference could overflow
    return np.asarray(shifted * scales, np.float64)


def dynamic_quantize(call: Call, src: Floats, scales: Floats, zps: NDArray[np.int64] | None = None) -> Floats:
    """src / scales + zps."""
    scaled = src / _spread(call, scales, src)
    return scaled if zps is None else scaled + _spread(call, zps, src)


def dynamic_dequantize(call: Call, src: Numbers, scales: Floats, zps: NDArray[np.int64] | None = None) -> Floats:
    """(src - zps) * scales."""
    shifted = src if zps is None else src - _spread(call, zps, src)
    return np.asarray(shifted * _spread(call, scales, src), np.float64)


def type_cast(call: Call, src: Floats) -> Floats:
    """src unchanged; the runner casts the result."""
    return src
