"""Valid uses of every op of the base vocabulary: every row of every type table, and the variants that matter."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from onegraph.spec.dtypes import DataType
from onegraph.spec.editions import BASE

FLOATS = ("f32", "bf16", "f16")
NP = {dtype.value: dtype.numpy for dtype in DataType}


@dataclass(frozen=True, eq=False)
class Case:
    """One use: the op, its inputs, the data type of its output where that is open, and the optional outputs wanted."""

    kind: str
    label: str
    inputs: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    dtype: str | None = None
    outputs: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return f"{self.kind}-{self.label}"


class Data:
    """Seeded arrays that suit an op; the seed is the text of the case, so that cases do not hang on their order."""

    def __init__(self, text: str) -> None:
        self.rng = np.random.default_rng(zlib.crc32(text.encode()))

    def normal(self, dtype: str, *shape: int) -> Any:
        return self.rng.normal(0, 1.5, shape).astype(NP[dtype])

    def positive(self, dtype: str, *shape: int) -> Any:
        return self.rng.uniform(0.25, 4, shape).astype(NP[dtype])

    def distinct(self, dtype: str, *shape: int) -> Any:
        """Whole numbers that all differ, as far as bf16 can tell them apart: the maximum is never in doubt."""
        count = int(np.prod(shape))
        return (self.rng.permutation(count) - count // 2).reshape(shape).astype(NP[dtype])

    def ints(self, dtype: str, *shape: int) -> Any:
        info = ml_dtypes.iinfo(NP[dtype])
        return self.rng.integers(int(info.min), int(info.max) + 1, shape).astype(NP[dtype])

    def near(self, scales: Any, zps: Any, *shape: int) -> Any:
        """Floats that quantize well away from a tie, some of them out of range."""
        whole = self.rng.integers(-200, 320, shape) - np.asarray(zps)
        return ((whole + self.rng.uniform(-0.3, 0.3, shape)) * np.asarray(scales)).astype(np.float32)


Make = Callable[[Data, str], tuple[tuple[Any, ...], dict[str, Any]]]


def typed(kind: str, label: str, make: Make, types: tuple[str, ...] = FLOATS, alike: bool = False) -> Iterator[Case]:
    """The same use in several data types; ``alike`` where the type of the result is open."""
    for dtype in types:
        inputs, attrs = make(Data(f"{kind} {label}"), dtype)
        yield Case(kind, f"{label}-{dtype}", tuple(inputs), attrs, dtype if alike else None)


def s32(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


def elementwise() -> Iterator[Case]:
    attributes: dict[str, list[dict[str, Any]]] = {
        "Clamp": [{"min": -1.0, "max": 0.75}],
        "Elu": [{"alpha": 0.5}],
        "HardSigmoid": [{"alpha": 0.3, "beta": 0.4}],
        "LeakyReLU": [{"alpha": 0.1}, {"alpha": -0.5}],
        "Pow": [{"beta": beta} for beta in (2.0, -1.0, 0.5, 3.0, 0.0)],
        "SoftPlus": [{}, {"beta": 2.0}, {"beta": -1.0}],
        "GELU": [{}, {"mode": "gelu_tanh"}],
        "GELUBackward": [{}, {"mode": "gelu_tanh"}],
        "SoftPlusBackward": [{}, {"beta": 2.0}],
        "ClampBackward": [{"min": -1.0, "max": 0.75, "use_dst": use} for use in (True, False)],
        "EluBackward": [{"alpha": 0.5, "use_dst": use} for use in (True, False)],
        "HardSigmoidBackward": [{"alpha": 0.3, "beta": 0.4}],
        **{f"{kind}Backward": [{}, {"use_dst": False}] for kind in ("ReLU", "Sigmoid", "Sqrt", "Tanh")},
    }
    forward = {
        "ClampBackward": lambda x: np.clip(x, -1, 0.75),
        "EluBackward": lambda x: np.where(x > 0, x, 0.5 * np.expm1(np.minimum(x, 0))),
        "ReLUBackward": lambda x: np.maximum(x, 0),
        "SigmoidBackward": lambda x: 1 / (1 + np.exp(-x)),
        "SqrtBackward": np.sqrt,
        "TanhBackward": np.tanh,
    }
    above_zero = ("Log", "Sqrt", "Reciprocal", "Pow", "SqrtBackward")
    for kind, schema in BASE.items():
        if schema.category != "elementwise":
            continue
        for number, attrs in enumerate(attributes.get(kind, [{}])):
            for label, shape in (("4d", (2, 3, 4, 5)), ("1d", (7,)), ("scalar", ())):

                def make(data: Data, dtype: str, kind=kind, attrs=attrs, shape=shape) -> Any:
                    first = (data.positive if kind in above_zero else data.normal)("f32", *shape)
                    if kind in forward and attrs.get("use_dst", True):
                        first = forward[kind](first)
                    first = np.asarray(first).astype(NP[dtype])
                    second = (data.normal(dtype, *shape),) if kind.endswith("Backward") else ()
                    return (first, *second), attrs

                yield from typed(kind, f"{number}-{label}", make, FLOATS if label == "4d" else ("f32",))


def binary() -> Iterator[Case]:
    shapes = {
        "same": ((2, 3, 4), (2, 3, 4)),
        "channels": ((2, 3, 4), (3, 1)),
        "both ways": ((2, 1, 4), (3, 1)),
        "vector": ((2, 3, 4), (4,)),
        "scalar": ((2, 3), ()),
        "two scalars": ((), ()),
        "first smaller": ((4,), (2, 3, 4)),
    }
    kinds = ["Add", "Divide", "Maximum", "Minimum", "Multiply", "SquaredDifference", "Subtract", "GreaterEqual"]
    for kind in kinds:
        for label, (first, second) in shapes.items():

            def make(data: Data, dtype: str, kind=kind, first=first, second=second) -> Any:
                divisor = data.positive if kind == "Divide" else data.normal
                return (data.normal(dtype, *first), divisor(dtype, *second)), {}

            yield from typed(kind, label, make, FLOATS if label in ("same", "channels") else ("f32",))
        data = Data(kind)
        same = (data.normal("f32", 3, 4), data.normal("f32", 3, 4))
        yield Case(kind, "none", same, {"auto_broadcast": "none"})
    for kind in ("Add", "Divide", "Multiply", "Subtract"):
        data = Data(f"mixed {kind}")
        for one, two in (("f32", "bf16"), ("f32", "f16"), ("bf16", "f32"), ("f16", "f32")):
            yield Case(kind, f"{one} {two}", (data.normal(one, 3, 4), data.positive(two, 3, 4)))
    for kind in ("Add", "Subtract", "GreaterEqual"):
        data = Data(f"integers {kind}")
        yield Case(kind, "s32", tuple(data.rng.integers(-9, 9, (3, 4)).astype(np.int32) for _ in range(2)))
    for label, cond in (("same", (2, 3, 4)), ("smaller", (3, 1)), ("scalar", ())):
        yield from typed(
            "Select",
            label,
            lambda data, dtype, cond=cond: (
                (data.rng.random(cond) < 0.5, data.normal(dtype, 2, 3, 4), data.normal(dtype, 2, 3, 4)),
                {},
            ),
        )
    yield from _channel_ops()


def _channel_ops() -> Iterator[Case]:
    for fmt, shape in (("NXC", (2, 4, 5, 3)), ("NCX", (2, 3, 4, 5)), ("NXC", (4, 3)), ("NCX", (4, 3))):
        label, attrs = f"{fmt}-{len(shape)}d", {"data_format": fmt}
        yield from typed(
            "BiasAdd", label, lambda data, t, s=shape, a=attrs: ((data.normal(t, *s), data.normal(t, 3)), a)
        )
        yield from typed("BiasAddBackward", label, lambda data, t, s=shape, a=attrs: ((data.normal(t, *s),), a))
    yield from typed("BiasAddBackward", "flat", lambda data, t: ((data.normal(t, 1, 3),), {}), ("f32",))
    slopes = {
        "NXC channels": ("NXC", (2, 4, 5, 3), (3,)),
        "NCX channels": ("NCX", (2, 3, 4, 5), (3,)),
        "one": ("NXC", (2, 4, 5, 3), (1,)),
        "one-2d": ("NXC", (4, 3), (1,)),
        "one NCX": ("NCX", (2, 3, 4, 5), (1,)),
        "same": ("NXC", (2, 4, 5, 3), (2, 4, 5, 3)),
        "full rank": ("NCX", (2, 3, 4, 5), (1, 3, 1, 1)),
        "no channels": ("NXC", (3,), (3,)),
    }
    for label, (fmt, shape, slope) in slopes.items():

        def make(data: Data, dtype: str, fmt=fmt, shape=shape, slope=slope) -> Any:
            return (data.normal(dtype, *shape), data.normal(dtype, *slope)), {"data_format": fmt}

        def gradient(data: Data, dtype: str, make=make, shape=shape) -> Any:
            inputs, attrs = make(data, dtype)
            return (*inputs, data.normal(dtype, *shape)), attrs

        yield from typed("PReLU", label, make)
        yield from typed("PReLUBackward", label, gradient)
    data = Data("prelu numpy")
    yield Case(
        "PReLU",
        "numpy vector",
        (data.normal("f32", 2, 3, 4, 5), data.normal("f32", 5)),
        {"data_format": "NCX", "per_channel_broadcast": False},
    )


def matmul() -> Iterator[Case]:
    shapes: dict[str, tuple[Any, ...]] = {
        "2d": ((3, 5), (5, 4)),
        "bias": ((3, 5), (5, 4), (4,)),
        "bias row": ((3, 5), (5, 4), (1, 4)),
        "bias column": ((3, 5), (5, 4), (3, 1)),
        "bias full": ((2, 3, 5), (2, 5, 4), (2, 3, 4)),
        "bias one": ((2, 3, 5), (2, 5, 4), (1,)),
        "batch": ((2, 3, 5), (2, 5, 4), (4,)),
        "batch broadcast": ((2, 1, 3, 5), (4, 5, 6)),
        "shared weights": ((2, 3, 5), (5, 4), (4,)),
        "shared src": ((3, 5), (2, 5, 4)),
        "vectors": ((5,), (5,)),
        "vector src": ((5,), (5, 4), (4,)),
        "vector weights": ((3, 5), (5,)),
        "vector batch": ((5,), (2, 5, 4)),
        "batch vector": ((2, 3, 5), (5,)),
    }
    for label, given in shapes.items():

        def make(data: Data, dtype: str, given=given) -> Any:
            return tuple(data.normal(dtype, *shape) for shape in given), {}

        types = FLOATS if label in ("2d", "bias", "batch", "vectors") else ("f32",)
        yield from typed("MatMul", label, make, types, alike=True)
    for dtype in ("bf16", "f16"):
        data = Data("matmul wide")
        yield Case("MatMul", f"wide {dtype}", (data.normal(dtype, 3, 5), data.normal(dtype, 5, 4)), {}, "f32")
    turned: dict[str, tuple[Any, Any, bool, bool]] = {
        "ta": ((5, 3), (5, 4), True, False),
        "tb": ((3, 5), (4, 5), False, True),
        "both": ((2, 5, 3), (2, 4, 5), True, True),
        "vector ta": ((5,), (5, 4), True, False),
        "vector tb": ((3, 5), (5,), False, True),
        "vectors": ((5,), (5,), True, True),
    }
    for label, (one, two, a, b) in turned.items():
        data = Data(f"matmul {label}")
        attrs = {"transpose_a": a, "transpose_b": b}
        yield Case("MatMul", f"transposed {label}", (data.normal("f32", *one), data.normal("f32", *two)), attrs)
    for mode in ("strict", "relaxed", "f16"):
        data = Data("matmul accumulation")
        pair = (data.normal("f32", 3, 5), data.normal("f32", 5, 4))
        yield Case("MatMul", f"accumulation {mode}", pair, {"accumulation_mode": mode})


def reduction() -> Iterator[Case]:
    for kind, schema in BASE.items():
        if schema.category != "reduction":
            continue
        uses = [((2, 3, 4), axes, keep) for axes in ([1], [0, -1], [0, 1, 2]) for keep in (False, True)]
        uses += [((1, 3, 1), [0, 2], False), ((1, 1), [0, 1], False), ((3, 1), [-1], True), ((5,), [0], False)]
        for shape, axes, keep in uses:

            def make(data: Data, dtype: str, shape=shape, axes=axes, keep=keep) -> Any:
                return (data.normal(dtype, *shape),), {"axes": axes, "keep_dims": keep}

            yield from typed(kind, f"{shape}{axes}{keep}", make, FLOATS if shape == (2, 3, 4) else ("f32",))
        data = Data(f"tensor {kind}")
        yield Case(kind, "axes tensor", (data.normal("f32", 2, 3, 4), s32(0, -1)), {"keep_dims": True})


def _convolution(n: int, fmt: str, **attrs: Any) -> dict[str, Any]:
    plain = {"strides": [1] * n, "pads_begin": [1] * n, "pads_end": [0] * n, "dilations": [1] * n}
    return {**plain, "data_format": fmt, **attrs}


def convolution() -> Iterator[Case]:
    """A few of each; tests/convolution_cases.py makes thousands."""

    def activation(data: Data, dtype: str, fmt: str, channels: int, *size: int) -> Any:
        shape = (2, *size, channels) if fmt == "NXC" else (2, channels, *size)
        return data.normal(dtype, *shape)

    for fmt, weights, turned, shape in (("NXC", "XIO", "XOI", (3, 3, 2, 4)), ("NCX", "OIX", "IOX", (4, 2, 3, 3))):
        back = shape if fmt == "NCX" else (3, 3, 2, 4)
        source = (2, 7, 6, 4) if fmt == "NXC" else (2, 4, 7, 6)
        for auto_pad in ("none", "same_upper", "valid"):
            counts = {"none": (6, 5), "same_upper": (7, 6), "valid": (5, 4)}[auto_pad]
            common = _convolution(2, fmt, auto_pad=auto_pad, groups=2)
            plain, other = {**common, "weights_format": weights}, {**common, "weights_format": turned}
            uses: dict[str, Any] = {
                "Convolution": lambda d, t, f=fmt, s=shape, p=plain: (
                    (activation(d, t, f, 4, 7, 6), d.normal(t, *s), d.normal(t, 4)),
                    p,
                ),
                "ConvolutionBackwardData": lambda d, t, f=fmt, s=shape, p=plain, c=counts, w=source: (
                    (activation(d, t, f, 4, *c), d.normal(t, *s)),
                    {**p, "dst_shape": list(w)},
                ),
                "ConvolutionBackwardWeights": lambda d, t, f=fmt, s=shape, p=plain, c=counts: (
                    (activation(d, t, f, 4, 7, 6), activation(d, t, f, 4, *c), s32(*s)),
                    p,
                ),
                "ConvTranspose": lambda d, t, f=fmt, s=back, o=other, c=counts: (
                    (activation(d, t, f, 4, *c), d.normal(t, *s), d.normal(t, 4)),
                    o,
                ),
                "ConvTransposeBackwardData": lambda d, t, f=fmt, s=back, o=other: (
                    (activation(d, t, f, 4, 7, 6), d.normal(t, *s)),
                    o,
                ),
                "ConvTransposeBackwardWeights": lambda d, t, f=fmt, s=back, o=other, c=counts: (
                    (activation(d, t, f, 4, *c), activation(d, t, f, 4, 7, 6)),
                    {**o, "weights_shape": list(s)},
                ),
            }
            for kind, make in uses.items():
                yield from typed(kind, f"{fmt}-{auto_pad}", make, FLOATS if auto_pad == "none" else ("f32",))


POOLS: dict[str, dict[str, Any]] = {
    "plain": {"size": (7, 6), "kernel": [3, 2], "strides": [2, 2]},
    "padded": {"size": (7, 6), "kernel": [3, 3], "strides": [2, 1], "pads_begin": [1, 2], "pads_end": [2, 0]},
    "ceil": {"size": (8, 7), "kernel": [3, 3], "strides": [2, 3], "rounding_type": "ceil"},
    "ceil padded": {
        "size": (9, 8),
        "kernel": [3, 3],
        "strides": [3, 2],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
        "rounding_type": "ceil",
    },
    "same_upper": {"size": (7, 6), "kernel": [3, 4], "strides": [2, 3], "auto_pad": "same_upper"},
    "same_lower": {"size": (7, 6), "kernel": [3, 4], "strides": [2, 3], "auto_pad": "same_lower"},
    "same and unread": {"size": (7, 9), "kernel": [1, 2], "strides": [4, 4], "auto_pad": "same_upper"},
    "same and ceil": {
        "size": (7, 6),
        "kernel": [3, 2],
        "strides": [2, 2],
        "auto_pad": "same_upper",
        "rounding_type": "ceil",
    },
    "valid": {"size": (8, 6), "kernel": [3, 2], "strides": [2, 3], "auto_pad": "valid", "pads_begin": [2, 2]},
    "1d": {"size": (9,), "kernel": [4], "strides": [2], "pads_begin": [1], "pads_end": [1]},
    "3d": {"size": (5, 4, 6), "kernel": [2, 3, 2], "strides": [2, 1, 2], "rounding_type": "ceil"},
    "dilated": {"size": (9, 8), "kernel": [3, 2], "strides": [2, 1], "dilations": [2, 3]},
    "dilated ceil": {
        "size": (10, 8),
        "kernel": [2, 2],
        "strides": [3, 2],
        "dilations": [3, 2],
        "rounding_type": "ceil",
        "pads_begin": [1, 0],
        "pads_end": [0, 1],
    },
    "whole": {"size": (4, 5), "kernel": [4, 5], "strides": [1, 1]},
    "padding alone": {"size": (4, 5), "kernel": [2, 2], "strides": [2, 2], "pads_begin": [2, 0], "pads_end": [0, 3]},
}


def pooling() -> Iterator[Case]:
    for label, use in POOLS.items():
        for fmt in ("NXC", "NCX"):
            yield from _pools(label, dict(use), fmt)


def _pools(label: str, attrs: dict[str, Any], fmt: str) -> Iterator[Case]:
    size = attrs.pop("size")
    n = len(size)
    attrs = {"pads_begin": [0] * n, "pads_end": [0] * n, **attrs, "data_format": fmt}
    gradient = {name: value for name, value in attrs.items() if name != "rounding_type"}
    counts = _counts(size, attrs)

    def shape(sizes: Any) -> tuple[int, ...]:
        return (2, *sizes, 3) if fmt == "NXC" else (2, 3, *sizes)

    def forward(data: Data, dtype: str) -> Any:
        return (data.distinct(dtype, *shape(size)),), attrs

    def backward(data: Data, dtype: str) -> Any:
        return (data.distinct(dtype, *shape(size)), data.normal(dtype, *shape(counts))), gradient

    types = FLOATS if label in ("plain", "ceil padded") else ("f32",)
    yield from typed("MaxPool", f"{label}-{fmt}", forward, types)
    yield from typed("MaxPoolBackward", f"{label}-{fmt}", backward, types)
    if "dilations" in attrs:
        return
    for exclude in (True, False):
        if exclude and label == "padding alone":
            continue

        def average(data: Data, dtype: str, exclude=exclude) -> Any:
            return (data.normal(dtype, *shape(size)),), {**attrs, "exclude_pad": exclude}

        def shared(data: Data, dtype: str, exclude=exclude) -> Any:
            given = {**gradient, "exclude_pad": exclude, "src_shape": list(shape(size))}
            return (data.normal(dtype, *shape(counts)),), given

        yield from typed("AvgPool", f"{label}-{fmt}-{exclude}", average, types)
        yield from typed("AvgPoolBackward", f"{label}-{fmt}-{exclude}", shared, types)
    if label == "plain":
        inputs = (Data(fmt).normal("f32", *shape(counts)), s32(*shape(size)))
        yield Case("AvgPoolBackward", f"tensor-{fmt}", inputs, {**gradient, "exclude_pad": True})


def _counts(size: tuple[int, ...], attrs: dict[str, Any]) -> tuple[int, ...]:
    """Number of window positions, rounded as asked."""
    auto_pad, up = attrs.get("auto_pad", "none"), attrs.get("rounding_type") == "ceil"
    counts = []
    for axis, dim in enumerate(size):
        stride, dilation = attrs["strides"][axis], attrs.get("dilations", (1, 1, 1))[axis]
        room = dim - (attrs["kernel"][axis] - 1) * dilation - 1
        if auto_pad == "none":
            room += attrs["pads_begin"][axis] + attrs["pads_end"][axis]
        same = auto_pad.startswith("same")
        counts.append(-(-dim // stride) if same else (-(-room // stride) if up else room // stride) + 1)
    return tuple(counts)


def normalization() -> Iterator[Case]:
    yield from _batch_norm()
    yield from _layer_norm()
    yield from _newer_norms()
    yield from _softmax()


NORM_TYPES = (("f32", "f32"), ("bf16", "f32"), ("bf16", "bf16"), ("f16", "f32"))


def _batch_norm() -> Iterator[Case]:
    for one, two in NORM_TYPES:
        for fmt, shape in (("NXC", (4, 5, 6, 3)), ("NCX", (4, 3, 5, 6)), ("NXC", (8, 3))):
            label, attrs = f"{fmt}-{len(shape)}d-{one}-{two}", {"epsilon": 1e-3, "data_format": fmt}
            data = Data(f"batch norm {label}")
            src, grad = data.normal(one, *shape), data.normal(one, *shape)
            gamma, beta, mean = (data.normal(two, 3) for _ in range(3))
            variance = data.positive(two, 3)
            yield Case("BatchNormInference", label, (src, gamma, beta, mean, variance), attrs)
            plain, affine = (src, mean, variance), (src, mean, variance, gamma, beta)
            yield Case("BatchNormForwardTraining", f"{label}-affine", affine, attrs)
            yield Case("BatchNormForwardTraining", f"{label}-plain", plain, {**attrs, "momentum": 0.9})
            # The statistics of the batch, as the forward op puts them out.
            over = tuple(axis for axis in range(len(shape)) if axis != (len(shape) - 1 if fmt == "NXC" else 1))
            wide = src.astype(np.float64)
            stats = (wide.mean(over).astype(NP[two]), wide.var(over).astype(NP[two]))
            back = "BatchNormTrainingBackward"
            yield Case(back, f"{label}-3", (src, grad, *stats, gamma), attrs)
            yield Case(back, f"{label}-3-plain", (src, grad, *stats), attrs)
            yield Case(back, f"{label}-1", (src, grad, *stats, gamma), attrs, None, ("diff_src",))
            yield Case(back, f"{label}-1-plain", (src, grad, *stats), attrs, None, ("diff_src",))


def _layer_norm() -> Iterator[Case]:
    shape = (2, 3, 4, 5)
    for one, two in NORM_TYPES:
        data = Data(f"layer norm {one} {two}")
        src, grad = data.normal(one, *shape), data.normal(one, *shape)
        gamma, beta = data.normal(two, 5), data.normal(two, 5)
        for begin in (-1, 3, 2, -2, 0):
            label, attrs = f"{one}-{two}-{begin}", {"begin_norm_axis": begin}
            yield Case("LayerNorm", f"{label}-affine", (src, gamma, beta), attrs)
            yield Case("LayerNorm", f"{label}-dst", (src, gamma, beta), {**attrs, "keep_stats": False})
            plain = {**attrs, "use_affine": False, "epsilon": 0.1}
            yield Case("LayerNorm", f"{label}-plain dst", (src,), {**plain, "keep_stats": False})
            if (one, two) != ("bf16", "f32"):  # the builder cannot be told of this one: its dtype is that of dst
                yield Case("LayerNorm", f"{label}-plain", (src,), plain, one)
            over = tuple(range(begin % 4, 4))
            wide = src.astype(np.float64)
            stats = (wide.mean(over).astype(NP[two]), wide.var(over).astype(NP[two]))
            yield Case("LayerNormBackward", f"{label}-affine", (src, grad, *stats, gamma, beta), attrs)
            yield Case("LayerNormBackward", f"{label}-plain", (src, grad, *stats), {**attrs, "use_affine": False})


def _newer_norms() -> Iterator[Case]:
    for one, two in NORM_TYPES:
        for fmt, shape in (("NXC", (2, 5, 6)), ("NCX", (2, 6, 5))):
            data = Data(f"group norm {one} {two} {fmt}")
            src, gamma, beta = data.normal(one, *shape), data.normal(two, 6), data.normal(two, 6)
            attrs = {"groups": 3, "data_format": fmt}
            yield Case("GroupNorm", f"{fmt}-{one}-{two}", (src, gamma, beta), attrs)
            plain = {**attrs, "keep_stats": False, "use_affine": False}
            yield Case("GroupNorm", f"{fmt}-{one}-{two}-plain", (src,), plain)
    for one, two in (*NORM_TYPES, ("f16", "f16")):
        data = Data(f"rms norm {one} {two}")
        src = data.normal(one, 2, 3, 4)
        yield Case("RMSNorm", f"{one}-{two}", (src, data.normal(two, 4)), {})
        yield Case("RMSNorm", f"{one}-{two}-wide", (src, data.normal(two, 3, 4)), {"begin_norm_axis": 1})
    yield Case("RMSNorm", "plain", (Data("rms").normal("f32", 2, 3, 4),), {"epsilon": 0.1})


def _softmax() -> Iterator[Case]:
    shape = (2, 3, 4)
    for axis in (None, 0, -1, -3):
        attrs = {} if axis is None else {"axis": axis}
        yield from _softmax_rows(f"axis {axis}", attrs)
        yield from typed("LogSoftmax", f"axis {axis}", lambda d, t, a=attrs: ((d.normal(t, *shape),), a))

        def backward(data: Data, dtype: str, log: bool, attrs: Any) -> Any:
            source = data.normal("f32", *shape)
            along = attrs.get("axis", -1 if log else 1)
            share = np.exp(source) / np.exp(source).sum(along, keepdims=True)
            result = np.log(share) if log else share
            return (data.normal(dtype, *shape), result.astype(NP[dtype])), attrs

        yield from typed("LogSoftmaxBackward", f"axis {axis}", lambda d, t, b=backward, a=attrs: b(d, t, True, a))
        for one, two in (("f32", "f32"), ("bf16", "f32"), ("bf16", "bf16"), ("f16", "f32"), ("f16", "f16")):
            inputs, given = backward(Data(f"softmax back {axis}"), one, False, attrs)
            yield Case("SoftMaxBackward", f"axis {axis}-{one}-{two}", inputs, given, two)
    low = np.full((2, 3), -np.inf, np.float32)
    low[1] = (1, 2, 3)
    for mode in ("none", "inf_as_zero"):
        yield Case("SoftMax", f"mode {mode}", (low,), {"axis": 1, "mode": mode}, "f32", ("dst",))
    yield Case("SoftMax", "stats", (Data("stats").normal("f32", 2, 3, 4),), {"axis": -1}, "f32", ("dst", "stats"))
    yield Case("SoftMax", "vector", (Data("vector").normal("f32", 5),), {"axis": 0}, "f32", ("dst",))


def _softmax_rows(label: str, attrs: dict[str, Any]) -> Iterator[Case]:
    pairs = [("f32", two) for two in FLOATS] + [(one, two) for one in ("bf16", "f16") for two in ("f32", one)]
    for one, two in pairs:
        src = Data(f"softmax {label}").normal(one, 2, 3, 4)
        yield Case("SoftMax", f"{label}-{one}-{two}", (src,), attrs, two, ("dst",))


def quantization() -> Iterator[Case]:
    yield from _static_quantization()
    yield from _dynamic_quantization()
    for one, two in (("bf16", "f32"), ("f16", "f32"), ("f32", "bf16"), ("f32", "f16")):
        yield Case("TypeCast", f"{one}-{two}", (Data("cast").normal(one, 3, 4),), {}, two)


CHANNELS = {1: (2, 4, 3), -2: (2, 4, 3), 0: (4, 3), -1: (2, 4)}


def _static_quantization() -> Iterator[Case]:
    for small in ("s8", "u8"):
        for zps in (None, [0], [3], [-2]):
            attrs = {"scales": [0.125]} if zps is None else {"scales": [0.125], "zps": zps, "qtype": "per_tensor"}
            data = Data(f"quantize {small} {zps}")
            label = f"{small}-{zps}"
            yield Case("Quantize", label, (data.near(0.125, zps or 0, 3, 4),), attrs, small)
            yield Case("Dequantize", label, (data.ints(small, 3, 4),), attrs)
        for axis, shape in CHANNELS.items():
            spread = [1] * len(shape)
            spread[axis] = 4
            scales = [0.1, 0.5, 0.25, 2.0]
            for zps in (None, [0] * 4, [5] * 4, [0, 1, 2, 3]):
                attrs = {"scales": scales, "qtype": "per_channel", "axis": axis}
                attrs |= {} if zps is None else {"zps": zps}
                data = Data(f"channels {small} {axis} {zps}")
                label = f"{small}-channels {axis} {zps}"
                src = data.near(np.reshape(scales, spread), np.reshape(zps or [0] * 4, spread), *shape)
                yield Case("Quantize", label, (src,), attrs, small)
                yield Case("Dequantize", label, (data.ints(small, *shape),), attrs)
    for small in ("f8_e4m3", "f8_e5m2"):
        data = Data(small)
        yield Case("Quantize", small, (data.normal("f32", 3, 4),), {"scales": [0.5]}, small)
        yield Case("Dequantize", small, (data.normal(small, 3, 4),), {"scales": [0.5]})


def _dynamic_quantization() -> Iterator[Case]:
    zero = {"s8": [3, -2, 0, 7], "u8": [3, 2, 0, 7], "s32": [3, -2, 0, 7], None: None}
    for small in ("s8", "u8"):
        for kind, zps in zero.items():
            extra = () if zps is None else (np.array(zps, NP[kind]),)
            data = Data(f"dynamic {small} {kind}")
            one = np.array([0.125], np.float32)
            single = tuple(array[:1] for array in extra)
            first = 0 if zps is None else zps[0]
            yield Case("DynamicQuantize", f"{small}-{kind}", (data.near(0.125, first, 3, 4), one, *single), {}, small)
            yield Case("DynamicDequantize", f"{small}-{kind}", (data.ints(small, 3, 4), one, *single), {})
            for axis, shape in CHANNELS.items():
                spread = [1] * len(shape)
                spread[axis] = 4
                scales = np.array([0.1, 0.5, 0.25, 2.0], np.float32)
                attrs, label = {"qtype": "per_channel", "axis": axis}, f"{small}-{kind}-channels {axis}"
                src = data.near(scales.reshape(spread), np.reshape(zps or [0] * 4, spread), *shape)
                yield Case("DynamicQuantize", label, (src, scales, *extra), attrs, small)
                yield Case("DynamicDequantize", label, (data.ints(small, *shape), scales, *extra), attrs)
    for small, two, kind in [
        *((small, two, kind) for small in ("s8", "u8") for two in ("f16", "bf16") for kind in ("s8", "u8", "s32")),
        *((small, two, kind) for small in ("s4", "u4") for two in FLOATS for kind in ("s4", "u4", "s32")),
    ]:
        data = Data(f"groups {small} {two} {kind}")
        scales, zps = data.positive(two, 2, 2), data.rng.integers(0, 5, (2, 2)).astype(NP[kind])
        attrs = {"qtype": "per_group", "group_shape": [2, 3]}
        yield Case("DynamicDequantize", f"{small}-{two}-{kind}-groups", (data.ints(small, 4, 6), scales, zps), attrs)


def movement() -> Iterator[Case]:
    for label, shapes, axis in (
        ("two", [(2, 3, 4), (2, 1, 4)], 1),
        ("last", [(2, 3), (2, 2), (2, 1)], -1),
        ("one", [(2, 3)], 0),
        ("vectors", [(2,), (3,)], 0),
        ("many", [(2, 1)] * 70, 1),
        ("64", [(2, 1)] * 64, 1),
        ("65", [(2, 1)] * 65, 1),
        ("rank 6", [(1, 2, 1, 2, 1, 2)] * 2, 3),
        ("rank 7", [(1, 2, 1, 2, 1, 2, 1)] * 2, 3),
        ("empty", [(2, 0), (2, 3)], 1),
    ):

        def make(data: Data, dtype: str, shapes=shapes, axis=axis) -> Any:
            return tuple(data.normal(dtype, *shape) for shape in shapes), {"axis": axis}

        yield from typed("Concat", label, make, FLOATS if label == "two" else ("f32",))
    yield from typed("Reorder", "4d", lambda data, t: ((data.normal(t, 2, 3, 4, 5),), {}))
    for shape, zero in (
        ([6, 4], False),
        ([-1, 2], False),
        ([0, -1], True),
        ([0, 12], True),
        ([24], True),
        ([2, 3, 4, 1], False),
    ):
        attrs = {"shape": shape, "special_zero": zero}
        yield from typed("StaticReshape", f"{shape}", lambda d, t, a=attrs: ((d.normal(t, 2, 3, 4),), a))
    empty = {"shape": [0, 4], "special_zero": False}
    yield Case("StaticReshape", "empty", (np.zeros((2, 0), np.float32),), empty)
    for order in ([0, 2, 1], [], [-1, 0, 1], [0, 1, 2]):
        yield from typed("StaticTranspose", f"{order}", lambda d, t, o=order: ((d.normal(t, 2, 3, 4),), {"order": o}))


def interpolation() -> Iterator[Case]:
    linear = {1: "linear", 2: "bilinear", 3: "trilinear"}
    for fmt in ("NXC", "NCX"):
        for size, to in (((5,), (8,)), ((4, 6), (7, 3)), ((2, 3, 4), (4, 3, 2))):
            shape, result = ((2, *s, 3) if fmt == "NXC" else (2, 3, *s) for s in (size, to))
            for mode in {"nearest", "linear", linear[len(size)]}:
                for how in ("half_pixel", "align_corners"):
                    attrs = {"mode": mode, "coordinate_transformation_mode": how, "data_format": fmt}
                    attrs["sizes"] = list(to)
                    label = f"{fmt}-{len(size)}d-{mode}-{how}"
                    types = FLOATS if (len(size), how) == (2, "half_pixel") else ("f32",)
                    yield from typed(
                        "Interpolate", label, lambda d, t, s=shape, a=attrs: ((d.normal(t, *s),), a), types
                    )
                    yield from typed(
                        "InterpolateBackward",
                        label,
                        lambda d, t, s=shape, r=result, a=attrs: ((d.normal(t, *s), d.normal(t, *r)), a),
                        types,
                    )
    data = Data("interpolate")
    src, grad = data.normal("f32", 2, 4, 6, 3), data.normal("f32", 2, 6, 9, 3)
    for mode in ("nearest", "bilinear"):
        scaled = {"mode": mode, "scales": [1.5, 1.6]}
        yield Case("Interpolate", f"scales {mode}", (src,), scaled)
        yield Case("InterpolateBackward", f"scales {mode}", (src, grad), scaled)
        yield Case("Interpolate", f"tensor {mode}", (src, s32(6, 9)), {"mode": mode})
        yield Case("Interpolate", f"tensor wins {mode}", (src, s32(6, 9)), {"mode": mode, "sizes": [3, 3]})
        yield Case("InterpolateBackward", f"tensor {mode}", (src, grad, s32(6, 9)), {"mode": mode})


def misc() -> Iterator[Case]:
    yield from typed("End", "4d", lambda data, t: ((data.normal(t, 2, 3),), {}))
    for axis in (0, -1):
        yield from typed("GenIndex", f"{axis}", lambda d, t, a=axis: ((d.normal(t, 2, 3, 4),), {"axis": a}))
    for dtype in FLOATS:
        for outputs in (("dst",), ("dst", "mask")):
            data = Data("dropout")
            scalars = (np.array([7], np.int64), np.array([3], np.int64), np.array([0.4], np.float32))
            label = f"{dtype}-{len(outputs)}"
            yield Case("Dropout", label, (data.normal(dtype, 5, 7), *scalars), {}, None, outputs)
    for dtype in DataType:
        yield Case("Wildcard", dtype.value, (Data("wild").normal("f32", 2, 3),), {}, dtype.value)


FAMILIES = (
    elementwise,
    binary,
    matmul,
    reduction,
    convolution,
    pooling,
    normalization,
    quantization,
    movement,
    interpolation,
    misc,
)
CASES = [case for family in FAMILIES for case in family()]
