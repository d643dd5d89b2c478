"""Computes the ops of the quantization category in numpy. The runner does the rounding and saturation.

Weights may be large, so the results are formulas, which the runner computes in blocks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import UnsupportedError
from ..opset.ops.quantization import misplaced_scales, scale_axis
from ..opset.schema import Call
from .by_element import ByElement

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
    for scale in misplaced_scales(call):
        raise UnsupportedError(f"{call.schema.kind}: {scale.where}: {scale.given}; expected {scale.expected}")
    scales = np.array(call.f32s("scales"), np.float32).astype(np.float64)
    zps = np.array(call.s64s("zps") if call.has("zps") else [0] * scales.size, np.int64)
    return _spread(call, scales, src), _spread(call, zps, src)


def quantize(call: Call, src: Floats) -> ByElement:
    """src / scale + zp."""
    return ByElement(lambda src, scale, zp: src / scale + zp, (src, *_static(call, src)))


def dequantize(call: Call, src: Numbers) -> ByElement:
    """(src - zp) * scale."""
    scales, zps = _static(call, src)
    # Zero points may use all 64 bits, so an integer difference could overflow.
    return ByElement(lambda src, scale, zp: (src - zp) * scale, (src, scales, zps.astype(np.float64)))


def dynamic_quantize(call: Call, src: Floats, scales: Floats, zps: NDArray[np.int64] | None = None) -> ByElement:
    """src / scales + zps."""
    operands = src, _spread(call, scales, src)
    if zps is None:
        return ByElement(lambda src, scale: src / scale, operands)
    return ByElement(lambda src, scale, zp: src / scale + zp, (*operands, _spread(call, zps, src)))


def dynamic_dequantize(call: Call, src: Numbers, scales: Floats, zps: NDArray[np.int64] | None = None) -> ByElement:
    """(src - zps) * scales."""
    operands = src, _spread(call, scales, src)
    if zps is None:
        return ByElement(lambda src, scale: src * scale, operands)
    return ByElement(lambda src, scale, zp: (src - zp) * scale, (*operands, _spread(call, zps, src)))


def type_cast(call: Call, src: Floats) -> ByElement:
    """src unchanged; the runner casts the result."""
    return ByElement(lambda src: src, (src,))
