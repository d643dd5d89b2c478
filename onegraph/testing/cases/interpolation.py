"""Lists valid uses of Interpolate and of its gradient."""

from __future__ import annotations

from collections.abc import Iterator

from .case import FLOATS, Attrs, Case, Dims, SeededData, layout, normals, s32, typed

_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
_SIZES: list[tuple[Dims, Dims]] = [((5,), (8,)), ((4, 6), (7, 3)), ((2, 3, 4), (4, 3, 2))]


def cases() -> Iterator[Case]:
    """Every mode for each number of spatial dims, with the sizes as an attribute, as scales and as a tensor."""
    for fmt in ("NXC", "NCX"):
        for size, to in _SIZES:
            for mode in dict.fromkeys(("nearest", "linear", _LINEAR[len(size)])):
                for how in ("half_pixel", "align_corners"):
                    yield from _sized(fmt, size, to, mode, how)
    data = SeededData("interpolate")
    src, grad = data.normal("f32", 2, 4, 6, 3), data.normal("f32", 2, 6, 9, 3)
    for mode in ("nearest", "bilinear"):
        scaled: Attrs = {"mode": mode, "scales": [1.5, 1.6]}
        yield Case("Interpolate", f"scales {mode}", (src,), scaled)
        yield Case("InterpolateBackward", f"scales {mode}", (src, grad), scaled)
        yield Case("Interpolate", f"tensor {mode}", (src, s32(6, 9)), {"mode": mode})
        yield Case("Interpolate", f"tensor wins {mode}", (src, s32(6, 9)), {"mode": mode, "sizes": [3, 3]})
        sizes_and_scales: Attrs = {"mode": mode, "sizes": [6, 9], "scales": [3.0, 1.0]}
        yield Case("Interpolate", f"sizes win {mode}", (src,), sizes_and_scales)
        yield Case("InterpolateBackward", f"sizes win {mode}", (src, grad), sizes_and_scales)
        yield Case("InterpolateBackward", f"tensor {mode}", (src, grad, s32(6, 9)), {"mode": mode})


def _sized(fmt: str, size: Dims, to: Dims, mode: str, how: str) -> Iterator[Case]:
    attrs: Attrs = {"mode": mode, "coordinate_transformation_mode": how, "data_format": fmt, "sizes": list(to)}
    label = f"{fmt}-{len(size)}d-{mode}-{how}"
    types = FLOATS if (len(size), how) == (2, "half_pixel") else ("f32",)
    src, dst = layout(fmt, 3, size), layout(fmt, 3, to)
    yield from typed("Interpolate", label, normals((src,), attrs), types)
    yield from typed("InterpolateBackward", label, normals((src, dst), attrs), types)
