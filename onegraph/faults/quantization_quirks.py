"""What the library gets wrong of quantization; the other ops are in :mod:`.quirks`."""

from __future__ import annotations

from ..errors import LIBRARY, UNSAFE
from .conditions import one_narrow_scale, per_channel, per_group
from .quirk import Quirk, kinds

QUANTIZATION_QUIRKS = (
    Quirk(
        "negative_axis",
        "axis",
        UNSAFE,
        kinds("Quantize Dequantize DynamicQuantize DynamicDequantize"),
        lambda call: per_channel(call) and call.s64("axis") < 0,
        "a negative axis throws at compile or is taken for another one; count it from 0",
    ),
    Quirk(
        "differing_zero_points",
        "zps",
        UNSAFE,
        kinds("Quantize Dequantize"),
        lambda call: call.has("zps") and len(set(call.s64s("zps"))) > 1,
        "only the first of several zero points is used",
    ),
    Quirk(
        "channel_zero_point",
        "zps",
        LIBRARY,
        kinds("Quantize Dequantize"),
        lambda call: per_channel(call) and call.has("zps") and any(call.s64s("zps")),
        "a zero point beside scales for each channel never compiles",
        since=(3, 7),  # right in 3.6.2, refused in 3.13.2
    ),
    Quirk(
        "wide_zero_point",
        "zps",
        UNSAFE,
        kinds("Quantize Dequantize"),
        lambda call: call.has("zps") and any(not -(2**31) <= zero < 2**31 for zero in call.s64s("zps")),
        "a zero point is cut to 32 bits",
    ),
    Quirk(
        "tiny_scale",
        "scales",
        UNSAFE,
        kinds("Quantize"),
        lambda call: any(0 < abs(scale) <= 2.0**-128 for scale in call.f32s("scales")),
        "a scale whose reciprocal no 32-bit float holds makes the highest number of 0",
    ),
    Quirk(
        "dynamic_zero_points",
        "zps",
        LIBRARY,
        kinds("DynamicQuantize DynamicDequantize"),
        lambda call: per_channel(call) and call.input("zps") is not None,
        "zero points for each channel throw at execute",
    ),
    Quirk(
        "narrow_scale",
        "scales",
        UNSAFE,
        kinds("DynamicDequantize"),
        one_narrow_scale,
        "one scale of bf16 or f16 is taken for one of f32",
        since=(3, 7),  # seen in 3.13.2
    ),
    Quirk(
        "dynamic_parameter_rank",
        "scales",
        LIBRARY,
        kinds("DynamicQuantize DynamicDequantize"),
        lambda call: not per_group(call) and any(call.rank(name) not in (None, 1) for name in ("scales", "zps")),
        "scales and zero points that are no vectors are refused, or throw at execute",
    ),
)
