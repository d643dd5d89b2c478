"""Lists valid uses of the quantization ops and of TypeCast."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...ir.op import Array
from .case import FLOATS, NP, Attrs, Case, Dims, SeededData

# Shapes with four channels, by the channel axis.
_CHANNELS: dict[int, Dims] = {1: (2, 4, 3), -2: (2, 4, 3), 0: (4, 3), -1: (2, 4)}
_SCALES = [0.1, 0.5, 0.25, 2.0]


def cases() -> Iterator[Case]:
    """Every quantization op of the base vocabulary."""
    yield from _static()
    yield from _dynamic()
    yield from _groups()
    for first_type, two in (("bf16", "f32"), ("f16", "f32"), ("f32", "bf16"), ("f32", "f16")):
        yield Case("TypeCast", f"{first_type}-{two}", (SeededData("cast").normal(first_type, 3, 4),), {}, two)


def _near_channels(data: SeededData, scales: Array, zps: list[int] | None, axis: int, shape: Dims) -> Array:
    spread = [1] * len(shape)
    spread[axis] = 4
    return data.near(scales.astype(np.float64).reshape(spread), np.reshape(zps or [0] * 4, spread), *shape)


def _static() -> Iterator[Case]:
    for small in ("s8", "u8"):
        yield from _static_tensor(small)
        yield from _static_channels(small)
    for small in ("f8_e4m3", "f8_e5m2"):
        data = SeededData(small)
        yield Case("Quantize", small, (data.normal("f32", 3, 4),), {"scales": [0.5]}, small)
        yield Case("Dequantize", small, (data.normal(small, 3, 4),), {"scales": [0.5]})


def _static_tensor(small: str) -> Iterator[Case]:
    for zps in (None, [0], [3], [-2]):
        attrs: Attrs = {"scales": [0.125]}
        if zps is not None:
            attrs.update(zps=zps, qtype="per_tensor")
        data = SeededData(f"quantize {small} {zps}")
        label = f"{small}-{zps}"
        yield Case("Quantize", label, (data.near(0.125, zps or 0, 3, 4),), attrs, small)
        yield Case("Dequantize", label, (data.ints(small, 3, 4),), attrs)


def _static_channels(small: str) -> Iterator[Case]:
    for axis, shape in _CHANNELS.items():
        for zps in (None, [0] * 4, [5] * 4, [0, 1, 2, 3]):
            attrs: Attrs = {"scales": _SCALES, "qtype": "per_channel", "axis": axis}
            if zps is not None:
                attrs["zps"] = zps
            data = SeededData(f"channels {small} {axis} {zps}")
            label = f"{small}-channels {axis} {zps}"
            src = _near_channels(data, np.array(_SCALES), zps, axis, shape)
            yield Case("Quantize", label, (src,), attrs, small)
            yield Case("Dequantize", label, (data.ints(small, *shape),), attrs)


def _dynamic() -> Iterator[Case]:
    zero = {"s8": [3, -2, 0, 7], "u8": [3, 2, 0, 7], "s32": [3, -2, 0, 7]}
    for small in ("s8", "u8"):
        for kind in (*zero, None):
            zps = None if kind is None else zero[kind]
            extra = () if kind is None else (np.array(zps, NP[kind]),)
            data = SeededData(f"dynamic {small} {kind}")
            single_scale = np.array([0.125], np.float32)
            single = tuple(array[:1] for array in extra)
            first = 0 if zps is None else zps[0]
            yield Case(
                "DynamicQuantize", f"{small}-{kind}", (data.near(0.125, first, 3, 4), single_scale, *single), {}, small
            )
            yield Case("DynamicDequantize", f"{small}-{kind}", (data.ints(small, 3, 4), single_scale, *single), {})
            for axis, shape in _CHANNELS.items():
                scales = np.array(_SCALES, np.float32)
                attrs: Attrs = {"qtype": "per_channel", "axis": axis}
                label = f"{small}-{kind}-channels {axis}"
                src = _near_channels(data, scales, zps, axis, shape)
                yield Case("DynamicQuantize", label, (src, scales, *extra), attrs, small)
                yield Case("DynamicDequantize", label, (data.ints(small, *shape), scales, *extra), attrs)


def _groups() -> Iterator[Case]:
    for small, two, kind in [
        *((small, two, kind) for small in ("s8", "u8") for two in ("f16", "bf16") for kind in ("s8", "u8", "s32")),
        *((small, two, kind) for small in ("s4", "u4") for two in FLOATS for kind in ("s4", "u4", "s32")),
    ]:
        data = SeededData(f"groups {small} {two} {kind}")
        scales, zps = data.positive(two, 2, 2), data.rng.integers(0, 5, (2, 2)).astype(NP[kind])
        attrs: Attrs = {"qtype": "per_group", "group_shape": [2, 3]}
        yield Case("DynamicDequantize", f"{small}-{two}-{kind}-groups", (data.ints(small, 4, 6), scales, zps), attrs)
