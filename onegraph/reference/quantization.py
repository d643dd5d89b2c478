"""The quantization category in numpy. Rounding and saturation are the runner's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import UnsupportedError
from ..opset.ops.quantization import misplaced_scales, scale_axis
from ..opset.schema import Call

Floats = NDArray[np.float64]
Numbers = NDArray[np.float64] | NDArray[np.int64]


def _spread(call: Call, values: Numbers, src: Numbers) -> Numbers:
    """Scales or zero points in a shape that broadcasts to src."""
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
    """Scales as the 32-bit floats that they are in the library, and zero points."""
    for found in misplaced_scales(call):  # of a file that breaks the specification
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
    shifted = src - zps.astype(np.float64)  # zero points may be as wide as an int64, the differences wider
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
    """src; the runner casts it."""
    return src
