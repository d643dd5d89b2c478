"""Random graphs that are built twice, op by op: as a graph, and as PyTorch's functions in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it

import onegraph as og

Build = Callable[["Twins", "Pair"], "list[Pair] | Pair | None"]
BUILDS: dict[str, Build] = {}
ON_SCALARS = frozenset(["acosh", "binary", "choice", "divide", "on_small", "power", "squeezed", "unary"])
LARGEST = 30.0  # results with larger numbers are left out, as their derivatives are


@dataclass(frozen=True)
class Pair:
    """A tensor of the graph, and PyTorch's tensor of the same values."""

    ours: og.LogicalTensor
    theirs: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.theirs.shape)


def build(function: Build) -> Build:
    BUILDS[function.__name__] = function
    return function


class Twins:
    """A graph that grows, and the same computation in PyTorch.

    Attributes:
        coarse: whether inputs are small whole numbers, so that elements are equal, 0 or at a border.
    """

    def __init__(self, seed: int, coarse: bool = False) -> None:
        self.rng, self.coarse = np.random.default_rng(seed), coarse
        self.graph, self.arrays = og.Graph(), {}
        self.inputs: list[Pair] = []
        self.found: list[Pair] = []

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def flag(self) -> bool:
        return bool(self.rng.integers(2))

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def input(self, *shape: int, positive: bool = False) -> Pair:
        """A new input."""
        name = f"x{len(self.inputs)}"
        array = self.rng.integers(-2, 3, shape).astype(float) if self.coarse else self.rng.normal(size=shape)
        array = np.abs(array) + 0.5 if positive else array
        # The graph's inputs are f32, so the numbers are rounded to it.
        array = np.asarray(array, np.float32).astype(np.float64).reshape(shape)
        self.arrays[name] = array
        self.inputs.append(Pair(self.graph.input(name, "f32", shape), torch.tensor(array, requires_grad=True)))
        return self.inputs[-1]

    def op(self, kind: str, sources: Sequence[Pair | None], theirs: Any, **attrs: Any) -> Pair:
        """An op of the base vocabulary with one result."""
        return self._op(kind, sources, theirs, attrs, None)

    def host(self, kind: str, sources: Sequence[Any], theirs: Any, **attrs: Any) -> Pair:
        """A host op with one result; arrays are constants."""
        return self._op(kind, sources, theirs, attrs, "host")

    def _op(self, kind: str, sources: Sequence[Any], theirs: Any, attrs: Any, edition: str | None) -> Pair:
        ours = [one.ours if isinstance(one, Pair) else self.constant(one) for one in sources]
        made = self.graph.op(kind, ours, attrs, edition=edition)
        made = made if isinstance(made, og.LogicalTensor) else made[0]
        assert made.shape == tuple(theirs.shape), (kind, attrs, made.shape, theirs.shape)
        return Pair(made, theirs)

    def constant(self, value: Any) -> Any:
        array = np.asarray(value)
        return None if value is None else self.graph.constant(array, dtype="s64" if array.dtype == np.int64 else None)

    def other(self, shape: tuple[int, ...]) -> Pair:
        """A tensor that broadcasts with a shape: one that exists, or a new input."""
        fitting = [one for one in self.found if _broadcasts(one.shape, shape)]
        if fitting and self.flag():
            return fitting[int(self.rng.integers(len(fitting)))]
        dims = [dim if self.rng.random() < 0.7 else 1 for dim in shape]
        return self.input(*dims[self.number(0, len(dims)) if self.flag() else 0 :])

    def positive(self, x: Pair) -> Pair:
        """x * x + 0.5."""
        squared = self.op("Square", [x], x.theirs**2)
        half = self.graph.constant(np.float32(0.5))
        return Pair(self.graph.op("Add", [squared.ours, half]), squared.theirs + 0.5)

    def small(self, x: Pair) -> Pair:
        """tanh(x) * 0.75, which is inside of (-1, 1)."""
        bounded = self.op("Tanh", [x], torch.tanh(x.theirs))
        share = self.graph.constant(np.float32(0.75))
        return Pair(self.graph.op("Multiply", [bounded.ours, share]), bounded.theirs * 0.75)

    def grow(self, count: int, names: Sequence[str]) -> None:
        """Add results until there are ``count``."""
        self.found.append(self.input(*[self.number(1, 5) for _ in range(self.pick(1, 2, 3, 3, 4, 4, 5))]))
        for _ in range(20 * count):
            if len(self.found) > count:
                return
            x = self.found[int(self.rng.integers(len(self.found)))] if self.rng.random() < 0.9 else self.fresh()
            name = names[int(self.rng.integers(len(names)))]
            made = BUILDS[name](self, x) if x.shape or name in ON_SCALARS else None
            for one in [made] if isinstance(made, Pair) else made or []:
                values = one.theirs.detach()
                if values.numel() and torch.isfinite(values).all() and values.abs().max() < LARGEST:
                    self.found.append(one)

    def fresh(self) -> Pair:
        return self.input(*[self.number(1, 5) for _ in range(self.number(1, 5))])

    def sinks(self) -> list[Pair]:
        """Some results, the last one among them."""
        others = [one for one in self.found[1:-1] if one.theirs.requires_grad and self.rng.random() < 0.2]
        return [*others, self.found[-1]]

    def sources(self) -> list[Pair]:
        """The inputs, and some results of ops."""
        return [*self.inputs, *(one for one in self.found[1:] if one.theirs.requires_grad and self.rng.random() < 0.2)]


def _broadcasts(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    return len(shape) <= len(whole) and all(a in (1, b) for a, b in zip(shape[::-1], whole[::-1], strict=False))


# Elementwise ----------------------------------------------------------------------------------------------------------

UNARY: dict[str, Callable[[Any], Any]] = {
    "Abs": torch.abs,
    "Exp": torch.exp,
    "HardSwish": F.hardswish,
    "Mish": F.mish,
    "ReLU": torch.relu,
    "Round": torch.round,
    "Sigmoid": torch.sigmoid,
    "Square": torch.square,
    "Tanh": torch.tanh,
}
HOST_UNARY: dict[str, Callable[[Any], Any]] = {
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Erf": torch.erf,
    "Floor": torch.floor,
    "Negative": torch.neg,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
}
ON_SMALL = {"Acos": torch.acos, "Asin": torch.asin, "Atanh": torch.atanh, "Tan": torch.tan}
ON_POSITIVE = {"Log": torch.log, "Reciprocal": torch.reciprocal, "Sqrt": torch.sqrt}


@build
def unary(t: Twins, x: Pair) -> Pair:
    kind = t.pick(*UNARY)
    return t.op(kind, [x], UNARY[kind](x.theirs))


@build
def host_unary(t: Twins, x: Pair) -> Pair:
    kind = t.pick(*HOST_UNARY)
    return t.host(kind, [x], HOST_UNARY[kind](x.theirs))


@build
def on_small(t: Twins, x: Pair) -> Pair:
    kind, x = t.pick(*ON_SMALL), t.small(x)
    return t.host(kind, [x], ON_SMALL[kind](x.theirs))


@build
def on_positive(t: Twins, x: Pair) -> Pair:
    kind, x = t.pick(*ON_POSITIVE), t.positive(x)
    return t.op(kind, [x], ON_POSITIVE[kind](x.theirs))


@build
def acosh(t: Twins, x: Pair) -> Pair:
    x = t.positive(t.positive(x))
    one = t.graph.constant(np.float32(1))
    return t.host("Acosh", [Pair(t.graph.op("Add", [x.ours, one]), x.theirs + 1)], torch.acosh(x.theirs + 1))


@build
def with_attributes(t: Twins, x: Pair) -> Pair:
    kind = t.pick("Elu", "GELU", "HardSigmoid", "LeakyReLU", "SoftPlus", "Pow", *([] if t.coarse else ["Clamp"]))
    if kind == "Elu":
        return t.op(kind, [x], F.elu(x.theirs, 0.5), alpha=0.5)
    if kind == "GELU":
        mode = t.pick("gelu_erf", "gelu_tanh")
        return t.op(kind, [x], F.gelu(x.theirs, approximate="none" if mode == "gelu_erf" else "tanh"), mode=mode)
    if kind == "HardSigmoid":
        return t.op(kind, [x], F.hardtanh(x.theirs * 0.25 + 0.5, 0, 1), alpha=0.25, beta=0.5)
    if kind == "LeakyReLU":
        alpha = t.pick(0.25, 0.0, 1.0, -0.5)
        return t.op(kind, [x], F.leaky_relu(x.theirs, alpha), alpha=alpha)
    if kind == "SoftPlus":
        beta = t.pick(1.0, 2.0)
        return t.op(kind, [x], F.softplus(x.theirs, beta, 1e6), beta=beta)
    if kind == "Clamp":
        return t.op(kind, [x], torch.clamp(x.theirs, -0.5, 0.75), min=-0.5, max=0.75)
    beta = t.pick(0.0, 1.0, 2.0, 3.0, 0.5, -1.0, -0.5)
    x = x if beta >= 0 and beta != 0.5 else t.positive(x)
    return t.op(kind, [x], torch.pow(x.theirs, beta), beta=beta)


# Binary ---------------------------------------------------------------------------------------------------------------

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": torch.add,
    "Subtract": torch.sub,
    "Multiply": torch.mul,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "SquaredDifference": lambda a, b: (a - b) ** 2,
}
COMPARE = {
    "Equal": torch.eq,
    "Greater": torch.gt,
    "Less": torch.lt,
    "LessEqual": torch.le,
    "GreaterEqual": torch.ge,
}


def swapped(t: Twins, x: Pair, y: Pair) -> tuple[Pair, Pair]:
    return (x, y) if t.flag() else (y, x)


@build
def binary(t: Twins, x: Pair) -> Pair:
    kind = t.pick(*BINARY)
    ends = swapped(t, x, t.other(x.shape))
    edition = t.host if kind != "SquaredDifference" and t.rng.random() < 0.2 else t.op
    return edition(kind, ends, BINARY[kind](ends[0].theirs, ends[1].theirs))


@build
def divide(t: Twins, x: Pair) -> Pair:
    ends = (x, t.positive(t.other(x.shape))) if t.flag() else (t.other(x.shape), t.positive(x))
    return t.op("Divide", ends, ends[0].theirs / ends[1].theirs)


@build
def power(t: Twins, x: Pair) -> Pair:
    ends = (t.positive(x), t.other(x.shape)) if t.flag() else (t.positive(t.other(x.shape)), x)
    return t.host("Pow", ends, torch.pow(ends[0].theirs, ends[1].theirs))


@build
def modulo(t: Twins, x: Pair) -> Pair | None:
    if t.coarse:
        return None
    y, truncate = t.positive(t.other(x.shape)), t.flag()
    found = torch.fmod(x.theirs, y.theirs) if truncate else torch.remainder(x.theirs, y.theirs)
    return t.host("Mod", [x, y], found, truncate=truncate)


@build
def bias_add(t: Twins, x: Pair) -> Pair | None:
    if len(x.shape) < 2:
        return None
    layout = t.pick("NCX", "NXC")
    axis = 1 if layout == "NCX" else len(x.shape) - 1
    bias = t.input(x.shape[axis])
    return t.op("BiasAdd", [x, bias], x.theirs + along(bias.theirs, axis, len(x.shape)), data_format=layout)


def along(vector: Any, axis: int, rank: int) -> Any:
    return vector.reshape([-1 if place == axis else 1 for place in range(rank)])


@build
def choice(t: Twins, x: Pair) -> Pair:
    first, second = swapped(t, x, t.other(x.shape))
    kind = t.pick(*COMPARE)
    edge = t.other(np.broadcast_shapes(first.shape, second.shape))
    source = x if np.broadcast_shapes(edge.shape, x.shape) == x.shape else edge
    cond = t.host(kind, [source, edge], COMPARE[kind](source.theirs, edge.theirs))
    whole = np.broadcast_shapes(cond.shape, first.shape, second.shape)
    found = torch.where(cond.theirs, first.theirs, second.theirs)
    if np.broadcast_shapes(first.shape, second.shape) == whole and t.flag():
        return t.op("Select", [cond, first, second], found)
    return t.host("Where", [cond, first, second], found)


@build
def prelu(t: Twins, x: Pair) -> Pair | None:
    if len(x.shape) < 2:
        return None
    layout, shared = t.pick("NCX", "NXC"), t.flag()
    axis = 1 if layout == "NCX" else len(x.shape) - 1
    slope = t.input(1 if shared else x.shape[axis])
    found = torch.where(x.theirs > 0, x.theirs, x.theirs * along(slope.theirs, axis, len(x.shape)))
    return t.op("PReLU", [x, slope], found, data_format=layout, per_channel_broadcast=not shared)


@build
def several_uses(t: Twins, x: Pair) -> Pair:
    return t.op("Multiply", [x, x], x.theirs * x.theirs)


# Products -------------------------------------------------------------------------------------------------------------


@build
def matmul(t: Twins, x: Pair) -> Pair:
    left, turn_x, turn_y = t.flag(), t.flag(), t.flag()
    rank = len(x.shape)
    inner = x.shape[-1] if rank == 1 or turn_x != left else x.shape[-2]
    batch = x.shape[:-2] if t.flag() else tuple(dim if t.flag() else 1 for dim in x.shape[:-2])
    batch = () if t.flag() else batch
    if t.rng.random() < 0.2:
        dims: tuple[int, ...] = (inner,)
    else:
        dims = (*batch, inner, t.number(1, 4)) if left != turn_y else (*batch, t.number(1, 4), inner)
    y = t.input(*dims)
    first, second = (x, y) if left else (y, x)
    turns = (turn_x, turn_y) if left else (turn_y, turn_x)
    ends = [
        one.theirs.transpose(-1, -2) if turn and len(one.shape) > 1 else one.theirs
        for one, turn in zip((first, second), turns, strict=True)
    ]
    try:
        found = torch.matmul(*ends)
    except RuntimeError:
        return None  # type: ignore[return-value]
    bias = t.input(found.shape[-1]) if found.ndim > 1 and t.rng.random() < 0.3 else None
    found = found if bias is None else found + bias.theirs
    sources = [first, second, *([bias] if bias else [])]
    return t.op("MatMul", sources, found, transpose_a=turns[0], transpose_b=turns[1])


def last_channels(value: Any, layout: str) -> Any:
    return value.movedim(1, -1) if layout == "NXC" else value


def first_channels(value: Any, layout: str) -> Any:
    return (value.movedim(-1, 1) if layout == "NXC" else value).contiguous()


def filters_and_bias(t: Twins, filters: str, dims: Sequence[int], outputs: int) -> tuple[list[Pair], Any, Any]:
    """Weights, and maybe a bias, as inputs; the weights with ``dims``, which are (channels, channels, *kernel), and the
    bias for PyTorch."""
    first, second, *kernel = dims
    is_plain = filters.endswith("X")
    weights = t.input(*(dims if is_plain else (*kernel, second, first)))
    n = len(kernel)
    theirs = weights.theirs if is_plain else weights.theirs.permute(n + 1, n, *range(n)).contiguous()
    bias = t.input(outputs) if t.flag() else None
    return [weights, *([bias] if bias else [])], theirs, None if bias is None else bias.theirs


@build
def convolution(t: Twins, x: Pair) -> Pair | None:
    n = len(x.shape) - 2
    if not 1 <= n <= 3:
        return None
    layout, filters = t.pick("NCX", "NXC"), t.pick("OIX", "XIO")
    source = first_channels(x.theirs, layout)
    channels, sizes = source.shape[1], source.shape[2:]
    groups = t.pick(*[g for g in range(1, channels + 1) if channels % g == 0])
    strides, dilations, pads = ([t.number(*ends) for _ in range(n)] for ends in ((1, 3), (1, 2), (0, 2)))
    kernel = [t.number(1, 3) for _ in range(n)]
    if any(
        size + 2 * pad < dilation * (k - 1) + 1
        for size, pad, dilation, k in zip(sizes, pads, dilations, kernel, strict=True)
    ):
        return None
    dims = (groups * t.number(1, 2), channels // groups, *kernel)
    given, weights, bias = filters_and_bias(t, filters, dims, dims[0])
    function = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    found = function(source, weights, bias, strides, pads, dilations, groups)
    attrs = {"strides": strides, "pads_begin": pads, "pads_end": pads, "dilations": dilations, "groups": groups}
    return t.op(
        "Convolution",
        [x, *given],
        last_channels(found, layout),
        data_format=layout,
        weights_format=filters,
        **attrs,
    )


@build
def conv_transpose(t: Twins, x: Pair) -> Pair | None:
    n = len(x.shape) - 2
    if not 1 <= n <= 3:
        return None
    layout, filters = t.pick("NCX", "NXC"), t.pick("IOX", "XOI")
    source = first_channels(x.theirs, layout)
    channels = source.shape[1]
    groups = t.pick(*[g for g in range(1, channels + 1) if channels % g == 0])
    strides, dilations, kernel = ([t.number(*ends) for _ in range(n)] for ends in ((1, 3), (1, 2), (2, 3)))
    pads = [t.number(0, min(1, d * (k - 1))) for d, k in zip(dilations, kernel, strict=True)]
    added = [t.number(0, max(s, d) - 1) for s, d in zip(strides, dilations, strict=True)]
    dims = (channels, t.number(1, 2), *kernel)
    given, weights, bias = filters_and_bias(t, filters, dims, dims[1] * groups)
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
    try:
        found = function(source, weights, bias, strides, pads, added, groups, dilations)
    except RuntimeError:
        return None
    attrs = {"strides": strides, "pads_begin": pads, "pads_end": pads, "dilations": dilations, "groups": groups}
    return t.op(
        "ConvTranspose",
        [x, *given],
        last_channels(found, layout),
        data_format=layout,
        weights_format=filters,
        output_padding=added,
        **attrs,
    )


# Windows and norms ----------------------------------------------------------------------------------------------------


@build
def pool(t: Twins, x: Pair) -> Pair | None:
    n = len(x.shape) - 2
    if not 1 <= n <= 3:
        return None
    kind, layout = t.pick("MaxPool", "AvgPool"), t.pick("NCX", "NXC")
    source = first_channels(x.theirs, layout)
    kernel = [t.number(1, 3) for _ in range(n)]
    strides, ceil = [t.number(1, 3) for _ in range(n)], t.flag()
    pads = [t.number(0, k // 2) for k in kernel]
    dilations = [t.number(1, 2) if kind == "MaxPool" else 1 for _ in range(n)]
    sizes = zip(source.shape[2:], kernel, pads, dilations, strict=True)
    if any(size + 2 * p < d * (k - 1) + 1 for size, k, p, d in sizes):
        return None
    attrs: dict[str, Any] = {"kernel": kernel, "strides": strides, "pads_begin": pads, "pads_end": pads}
    attrs.update(data_format=layout, rounding_type="ceil" if ceil else "floor")
    if kind == "MaxPool":
        function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
        found = function(source, kernel, strides, pads, dilations, ceil)
        attrs["dilations"] = dilations
    else:
        function = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[n - 1]
        attrs["exclude_pad"] = exclude = t.flag()
        if ceil and not exclude:
            return None  # PyTorch counts the elements of a last partial window otherwise
        found = function(source, kernel, strides, pads, ceil, not exclude)
    try:
        return t.op(kind, [x], last_channels(found, layout), **attrs)
    except (AssertionError, og.SpecError):
        return None  # PyTorch drops a last window that starts in the padding


@build
def batch_norm(t: Twins, x: Pair) -> list[Pair] | None:
    if len(x.shape) < 2:
        return None
    layout = t.pick("NCX", "NXC")
    source = first_channels(x.theirs, layout)
    channels = source.shape[1]
    if source.numel() // channels < 2:
        return None
    gamma, beta, mean = (t.input(channels) for _ in range(3))
    variance = t.input(channels, positive=True)
    if t.flag():
        center, spread, scale, shift = (along(one.theirs, 1, source.ndim) for one in (mean, variance, gamma, beta))
        found = (source - center) * torch.rsqrt(spread + 0.125) * scale + shift
        made = t.op(
            "BatchNormInference",
            [x, gamma, beta, mean, variance],
            last_channels(found, layout),
            epsilon=0.125,
            data_format=layout,
        )
        return [made]
    axes = [axis for axis in range(source.ndim) if axis != 1]
    own, spread = source.mean(axes), source.var(axes, correction=0)
    found = F.batch_norm(source, None, None, gamma.theirs, beta.theirs, True, 0.0, 0.125)
    sources = [one.ours for one in (x, mean, variance, gamma, beta)]
    attrs = {"epsilon": 0.125, "momentum": 0.75, "data_format": layout}
    made = t.graph.op("BatchNormForwardTraining", sources, attrs)
    running = [0.75 * old.theirs + 0.25 * new for old, new in ((mean, own), (variance, spread))]
    # The running moments depend on the source here, not on the results that are the moments of the batch.
    results = [last_channels(found, layout), *running, own.clone(), spread.clone()]
    return [Pair(*both) for both in zip(made, results, strict=True)]


@build
def layer_norm(t: Twins, x: Pair) -> list[Pair] | None:
    affine, stats, size = t.flag(), t.flag(), x.shape[-1]
    if size < 2:
        return None
    gamma, beta = (t.input(size), t.input(size)) if affine else (None, None)
    ends = [None if one is None else one.theirs for one in (gamma, beta)]
    found = F.layer_norm(x.theirs, (size,), *ends, eps=0.125)
    sources = [one.ours for one in (x, gamma, beta) if one is not None]
    made = t.graph.op("LayerNorm", sources, {"use_affine": affine, "keep_stats": stats, "epsilon": 0.125})
    if not stats:
        return [Pair(made, found)]
    moments = [x.theirs.mean(-1), x.theirs.var(-1, correction=0)]
    assert made[1].shape == tuple(moments[0].shape)
    return [Pair(*both) for both in zip(made, [found, *moments], strict=True)]


@build
def group_norm(t: Twins, x: Pair) -> Pair | None:
    if len(x.shape) < 3:
        return None
    layout = t.pick("NCX", "NXC")
    source = first_channels(x.theirs, layout)
    channels = source.shape[1]
    groups = t.pick(*[g for g in range(1, channels + 1) if channels % g == 0])
    if source[0].numel() // groups < 2:
        return None
    gamma, beta = t.input(channels), t.input(channels)
    found = F.group_norm(source, groups, gamma.theirs, beta.theirs, 0.125)
    return t.op(
        "GroupNorm",
        [x, gamma, beta],
        last_channels(found, layout),
        groups=groups,
        epsilon=0.125,
        data_format=layout,
        keep_stats=False,
    )


@build
def rms_norm(t: Twins, x: Pair) -> Pair:
    gamma = t.input(x.shape[-1])
    found = F.rms_norm(x.theirs, x.shape[-1:], gamma.theirs, 0.125)
    return t.op("RMSNorm", [x, gamma], found, epsilon=0.125)


@build
def softmax(t: Twins, x: Pair) -> Pair:
    kind, axis = t.pick("SoftMax", "LogSoftmax"), t.number(-len(x.shape), len(x.shape) - 1)
    function = torch.softmax if kind == "SoftMax" else torch.log_softmax
    return t.op(kind, [x], function(x.theirs, axis), axis=axis)


# Reductions -----------------------------------------------------------------------------------------------------------


def l1(x: Any, axes: Any, keep: bool) -> Any:
    return torch.linalg.vector_norm(x, 1, axes, keep)


def l2(x: Any, axes: Any, keep: bool) -> Any:
    return torch.linalg.vector_norm(x, 2, axes, keep)


def product(x: Any, axes: Any, keep: bool) -> Any:
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdim=keep)
    return x


REDUCE = {
    "ReduceL1": l1,
    "ReduceL2": l2,
    "ReduceMax": torch.amax,
    "ReduceMean": torch.mean,
    "ReduceMin": torch.amin,
    "ReduceProd": product,
    "ReduceSum": torch.sum,
}


@build
def reduction(t: Twins, x: Pair) -> Pair | None:
    kind, keep = t.pick(*REDUCE), t.flag()
    axes = [axis for axis in range(len(x.shape)) if t.flag()]
    if not axes:
        return None
    edition = t.host if kind not in ("ReduceL1", "ReduceL2") and t.rng.random() < 0.2 else t.op
    return edition(kind, [x], REDUCE[kind](x.theirs, axes, keep), axes=axes, keep_dims=keep)


@build
def cumulative(t: Twins, x: Pair) -> Pair:
    axis, back = t.number(0, len(x.shape) - 1), t.flag()
    source = x.theirs.flip(axis) if back else x.theirs
    found = source.cumsum(axis)
    return t.host("CumSum", [x], found.flip(axis) if back else found, axis=axis, reverse=back)


# Movement -------------------------------------------------------------------------------------------------------------


@build
def reshaped(t: Twins, x: Pair) -> Pair:
    total = int(np.prod(x.shape))
    first = t.pick(*[d for d in range(1, total + 1) if total % d == 0])
    dims = [first, total // first, *([1] if t.flag() else [])]
    if t.flag():
        return t.op("StaticReshape", [x], x.theirs.reshape(dims), shape=dims, special_zero=False)
    return t.host("Reshape", [x, np.array(dims)], x.theirs.reshape(dims))


@build
def transposed(t: Twins, x: Pair) -> Pair:
    order = t.rng.permutation(len(x.shape)).tolist()
    if t.flag():
        return t.op("StaticTranspose", [x], x.theirs.permute(order), order=order)
    return t.host("Transpose", [x], x.theirs.permute(order), order=order)


@build
def joined(t: Twins, x: Pair) -> Pair:
    axis, count = t.number(0, len(x.shape) - 1), t.number(0, 2)
    parts = [x, *(t.input(*x.shape[:axis], t.number(1, 3), *x.shape[axis + 1 :]) for _ in range(count)), x]
    parts = [parts[place] for place in t.rng.permutation(len(parts))]
    return t.op("Concat", parts, torch.cat([one.theirs for one in parts], axis), axis=axis)


@build
def squeezed(t: Twins, x: Pair) -> Pair:
    if 1 in x.shape and t.flag():
        axis = x.shape.index(1)
        return t.host("Squeeze", [x], x.theirs.squeeze(axis), axes=[axis])
    axis = t.number(0, len(x.shape))
    return t.host("Unsqueeze", [x], x.theirs.unsqueeze(axis), axes=[axis])


@build
def sliced(t: Twins, x: Pair) -> Pair:
    axis = t.number(0, len(x.shape) - 1)
    size, step = x.shape[axis], t.number(1, 3)
    start = t.number(0, size - 1)
    end = t.number(start + 1, size)
    rows = torch.arange(start, end, step)
    if t.flag():
        rows = rows.flip(0)
        parts = [[int(rows[0])], [int(rows[-1]) - 1 if rows[-1] else -(2**62)], [axis], [-step]]
    else:
        parts = [[start], [end], [axis], [step]]
    return t.host("Slice", [x, *map(np.array, parts)], x.theirs.index_select(axis, rows))


@build
def expanded(t: Twins, x: Pair) -> Pair:
    dims = [t.number(2, 3), *(t.number(2, 3) if dim == 1 else dim for dim in x.shape)]
    return t.host("Expand", [x, np.array(dims)], x.theirs.expand(dims))


@build
def tiled(t: Twins, x: Pair) -> Pair:
    repeats = [t.number(1, 2) for _ in x.shape]
    return t.host("Tile", [x, np.array(repeats)], x.theirs.tile(repeats))


@build
def padded(t: Twins, x: Pair) -> Pair | None:
    before, after = ([t.number(0, 2) for _ in x.shape] for _ in range(2))
    mode = t.pick("constant", "reflect", "edge", "wrap")
    if mode == "reflect" and any(max(b, a) >= d for b, a, d in zip(before, after, x.shape, strict=True)):
        return None
    if mode == "constant":
        before[0] = min(-1, before[0]) if x.shape[0] > 1 and t.flag() else before[0]
    found = x.theirs
    for axis, dim in enumerate(x.shape):
        low, high = before[axis], after[axis]
        if mode == "constant":
            both = [0, 0] * (len(x.shape) - axis - 1) + [low, high]
            found = F.pad(found, both, value=0.0)
        else:
            places = np.pad(np.arange(dim), (low, high), mode=mode)
            found = found.index_select(axis, torch.tensor(places))
    return t.host("Pad", [x, np.array([*before, *after])], found, mode=mode)


@build
def triangle(t: Twins, x: Pair) -> Pair | None:
    if len(x.shape) < 2:
        return None
    upper, offset = t.flag(), t.number(-1, 1)
    found = torch.triu(x.theirs, offset) if upper else torch.tril(x.theirs, offset)
    return t.host("Triangle", [x], found, upper=upper, offset=offset)


@build
def interpolated(t: Twins, x: Pair) -> Pair | None:
    n = len(x.shape) - 2
    if not 1 <= n <= 3:
        return None
    layout, mode = t.pick("NCX", "NXC"), t.pick("nearest", "linear")
    source = first_channels(x.theirs, layout)
    sizes = [t.number(1, 7) for _ in range(n)]
    if mode == "nearest":
        if any(new % old for new, old in zip(sizes, source.shape[2:], strict=True)):
            return None  # the specification and PyTorch round otherwise
        found, word = F.interpolate(source, sizes), "nearest"
    else:
        name = ("linear", "bilinear", "trilinear")[n - 1]
        found, word = F.interpolate(source, sizes, mode=name, align_corners=False), "linear"
    modes = {"nearest": "nearest", "linear": ("linear", "bilinear", "trilinear")[n - 1]}
    return t.op(
        "Interpolate",
        [x],
        last_channels(found, layout),
        mode=modes[word],
        sizes=sizes,
        data_format=layout,
        coordinate_transformation_mode="half_pixel",
    )


# Indexing -------------------------------------------------------------------------------------------------------------


@build
def gathered(t: Twins, x: Pair) -> Pair:
    axis = t.number(0, len(x.shape) - 1)
    rows = t.rng.integers(0, x.shape[axis], [t.number(1, 3) for _ in range(t.number(1, 2))])
    found = x.theirs.index_select(axis, torch.tensor(rows.reshape(-1)))
    found = found.reshape(*x.shape[:axis], *rows.shape, *x.shape[axis + 1 :])
    given = rows - x.shape[axis] if t.flag() else rows
    return t.host("Gather", [x, given.astype(np.int64)], found, axis=axis)


@build
def gathered_sums(t: Twins, x: Pair) -> Pair:
    axis, count, taps = t.number(0, len(x.shape) - 1), t.number(1, 4), t.number(1, 3)
    places, shares = t.rng.integers(-1, x.shape[axis], [count, taps]), t.input(count, taps)
    zeros = torch.zeros(count, x.shape[axis], dtype=shares.theirs.dtype)
    counted = torch.where(torch.tensor(places) >= 0, shares.theirs, 0)
    matrix = zeros.scatter_add(1, torch.tensor(places.clip(0)), counted)
    found = (x.theirs.movedim(axis, -1) @ matrix.T).movedim(-1, axis)
    return t.host("WeightedGather", [x, places, shares], found, axis=axis)


@build
def gathered_elements(t: Twins, x: Pair) -> Pair:
    axis = t.number(0, len(x.shape) - 1)
    dims = [t.number(1, dim) for dim in x.shape]
    dims[axis] = t.number(1, 4)
    rows = t.rng.integers(0, x.shape[axis], dims)
    return t.host("GatherElements", [x, rows], torch.gather(x.theirs, axis, torch.tensor(rows)), axis=axis)


@build
def gathered_nd(t: Twins, x: Pair) -> Pair:
    depth = t.number(1, len(x.shape))
    places = np.stack([t.rng.integers(0, dim, 3) for dim in x.shape[:depth]], -1)
    return t.host("GatherND", [x, places], x.theirs[tuple(torch.tensor(places).unbind(-1))])


@build
def scattered(t: Twins, x: Pair) -> Pair:
    axis = t.number(0, len(x.shape) - 1)
    dims = [t.number(1, dim) for dim in x.shape]
    reduction = t.pick("none", "add", "max", "min", "mul")
    if reduction == "none":
        dims[axis] = 1
    rows = t.rng.integers(0, x.shape[axis], dims)
    y, places = t.input(*dims), torch.tensor(rows)
    if reduction == "none":
        found = x.theirs.scatter(axis, places, y.theirs)
    elif reduction == "add":
        found = x.theirs.scatter_add(axis, places, y.theirs)
    else:
        word = {"max": "amax", "min": "amin", "mul": "prod"}[reduction]
        found = x.theirs.scatter_reduce(axis, places, y.theirs, word)
    return t.host("ScatterElements", [x, rows, y], found, axis=axis, reduction=reduction)


@build
def scattered_nd(t: Twins, x: Pair) -> Pair:
    rows = t.rng.permutation(x.shape[0])[: t.number(1, x.shape[0])]
    y, add = t.input(len(rows), *x.shape[1:]), t.flag()
    index = (torch.tensor(rows),)
    found = x.theirs.index_put(index, y.theirs, accumulate=add)
    return t.host("ScatterND", [x, rows[:, None].astype(np.int64), y], found, reduction="add" if add else "none")


@build
def top(t: Twins, x: Pair) -> Pair | None:
    if t.coarse:
        return None  # PyTorch takes any of equal elements
    axis, largest = t.number(0, len(x.shape) - 1), t.flag()
    count = t.number(1, x.shape[axis])
    found = torch.topk(x.theirs, count, axis, largest).values
    return t.host("TopK", [x, np.array([count])], found, axis=axis, largest=largest)
