"""Lists valid uses of the normalizations and of the softmax ops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...ir.op import Array
from .case import FLOATS, NP, Attrs, Case, Dims, Make, SeededData, Use, normals, typed

_TYPES = (("f32", "f32"), ("bf16", "f32"), ("bf16", "bf16"), ("f16", "f32"))
_SOFTMAX_SHAPE = (2, 3, 4)


def cases() -> Iterator[Case]:
    """Every normalization of the base vocabulary."""
    yield from _batch_norm()
    yield from _layer_norm()
    yield from _newer_norms()
    yield from _softmax()


def _stats(src: Array, over: Dims, dtype: str) -> tuple[Array, Array]:
    """Mean and variance as the forward op computes them."""
    wide = src.astype(np.float64)
    return np.asarray(wide.mean(over)).astype(NP[dtype]), np.asarray(wide.var(over)).astype(NP[dtype])


def _batch_norm() -> Iterator[Case]:
    back = "BatchNormTrainingBackward"
    uses: list[tuple[str, Dims]] = [("NXC", (4, 5, 6, 3)), ("NCX", (4, 3, 5, 6)), ("NXC", (8, 3))]
    for first_type, two in _TYPES:
        for fmt, shape in uses:
            label = f"{fmt}-{len(shape)}d-{first_type}-{two}"
            attrs: Attrs = {"epsilon": 1e-3, "data_format": fmt}
            data = SeededData(f"batch norm {label}")
            src, grad = data.normal(first_type, *shape), data.normal(first_type, *shape)
            gamma, beta, mean = (data.normal(two, 3) for _ in range(3))
            variance = data.positive(two, 3)
            yield Case("BatchNormInference", label, (src, gamma, beta, mean, variance), attrs)
            plain, affine = (src, mean, variance), (src, mean, variance, gamma, beta)
            yield Case("BatchNormForwardTraining", f"{label}-affine", affine, attrs)
            yield Case("BatchNormForwardTraining", f"{label}-plain", plain, {**attrs, "momentum": 0.9})
            channels = len(shape) - 1 if fmt == "NXC" else 1
            stats = _stats(src, tuple(axis for axis in range(len(shape)) if axis != channels), two)
            yield Case(back, f"{label}-3", (src, grad, *stats, gamma), attrs)
            yield Case(back, f"{label}-3-plain", (src, grad, *stats), attrs)
            yield Case(back, f"{label}-1", (src, grad, *stats, gamma), attrs, None, ("diff_src",))
            yield Case(back, f"{label}-1-plain", (src, grad, *stats), attrs, None, ("diff_src",))


def _layer_norm() -> Iterator[Case]:
    shape = (2, 3, 4, 5)
    for first_type, two in _TYPES:
        data = SeededData(f"layer norm {first_type} {two}")
        src, grad = data.normal(first_type, *shape), data.normal(first_type, *shape)
        gamma, beta = data.normal(two, 5), data.normal(two, 5)
        for begin in (-1, 3, 2, -2, 0):
            label = f"{first_type}-{two}-{begin}"
            attrs: Attrs = {"begin_norm_axis": begin}
            yield Case("LayerNorm", f"{label}-affine", (src, gamma, beta), attrs)
            yield Case("LayerNorm", f"{label}-dst", (src, gamma, beta), {**attrs, "keep_stats": False})
            plain: Attrs = {**attrs, "use_affine": False, "epsilon": 0.1}
            yield Case("LayerNorm", f"{label}-plain dst", (src,), {**plain, "keep_stats": False})
            if (first_type, two) != (
                "bf16",
                "f32",
            ):  # the builder cannot express this row, because its dtype is that of dst
                yield Case("LayerNorm", f"{label}-plain", (src,), plain, first_type)
            stats = _stats(src, tuple(range(begin % 4, 4)), two)
            yield Case("LayerNormBackward", f"{label}-affine", (src, grad, *stats, gamma, beta), attrs)
            yield Case("LayerNormBackward", f"{label}-plain", (src, grad, *stats), {**attrs, "use_affine": False})


def _newer_norms() -> Iterator[Case]:
    for first_type, two in _TYPES:
        for fmt, shape in (("NXC", (2, 5, 6)), ("NCX", (2, 6, 5))):
            data = SeededData(f"group norm {first_type} {two} {fmt}")
            src, gamma, beta = data.normal(first_type, *shape), data.normal(two, 6), data.normal(two, 6)
            attrs: Attrs = {"groups": 3, "data_format": fmt}
            yield Case("GroupNorm", f"{fmt}-{first_type}-{two}", (src, gamma, beta), attrs)
            plain: Attrs = {**attrs, "keep_stats": False, "use_affine": False}
            yield Case("GroupNorm", f"{fmt}-{first_type}-{two}-plain", (src,), plain)
    for first_type, two in (*_TYPES, ("f16", "f16")):
        data = SeededData(f"rms norm {first_type} {two}")
        src = data.normal(first_type, 2, 3, 4)
        yield Case("RMSNorm", f"{first_type}-{two}", (src, data.normal(two, 4)), {})
        yield Case("RMSNorm", f"{first_type}-{two}-wide", (src, data.normal(two, 3, 4)), {"begin_norm_axis": 1})
    yield Case("RMSNorm", "plain", (SeededData("rms").normal("f32", 2, 3, 4),), {"epsilon": 0.1})


def _softmax_backward(axis: int | None, log: bool) -> Make:
    """A use whose inputs are a gradient and the forward result, along ``axis`` or the default axis."""
    along = (-1 if log else 1) if axis is None else axis

    def make(data: SeededData, dtype: str) -> Use:
        power = np.exp(data.normal("f32", *_SOFTMAX_SHAPE).astype(np.float32))
        share = power / power.sum(along, keepdims=True)
        result = np.asarray(np.log(share) if log else share)
        return (data.normal(dtype, *_SOFTMAX_SHAPE), result.astype(NP[dtype])), _axis(axis)

    return make


def _axis(axis: int | None) -> Attrs:
    return {} if axis is None else {"axis": axis}


def _softmax() -> Iterator[Case]:
    for axis in (None, 0, -1, -3):
        label = f"axis {axis}"
        yield from _softmax_rows(label, _axis(axis))
        yield from typed("LogSoftmax", label, normals((_SOFTMAX_SHAPE,), _axis(axis)))
        yield from typed("LogSoftmaxBackward", label, _softmax_backward(axis, log=True))
        for first_type, two in (*_TYPES, ("f16", "f16")):
            inputs, attrs = _softmax_backward(axis, log=False)(SeededData(f"softmax back {axis}"), first_type)
            yield Case("SoftMaxBackward", f"{label}-{first_type}-{two}", inputs, attrs, two)
    low = np.full((2, 3), -np.inf, np.float32)
    low[1] = (1, 2, 3)
    for mode in ("none", "inf_as_zero"):
        yield Case("SoftMax", f"mode {mode}", (low,), {"axis": 1, "mode": mode}, "f32", ("dst",))
    yield Case("SoftMax", "stats", (SeededData("stats").normal("f32", 2, 3, 4),), {"axis": -1}, "f32", ("dst", "stats"))
    yield Case("SoftMax", "vector", (SeededData("vector").normal("f32", 5),), {"axis": 0}, "f32", ("dst",))


def _softmax_rows(label: str, attrs: Attrs) -> Iterator[Case]:
    pairs = [("f32", two) for two in FLOATS] + [(one, two) for one in ("bf16", "f16") for two in ("f32", one)]
    for first_type, two in pairs:
        src = SeededData(f"softmax {label}").normal(first_type, *_SOFTMAX_SHAPE)
        yield Case("SoftMax", f"{label}-{first_type}-{two}", (src,), attrs, two, ("dst",))
