"""Random blocks of a network: a main op, and the chain of elementwise, binary and Quantize ops behind it.

The sizes are those of layers whose time is worth measuring, and nothing is computed while a block grows. The graphs of
``tests/fuzz`` are small, and the reference knows their values as they grow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import onegraph as og

Tensor = Any
Dims = tuple[int, ...]
UNARY = (
    "relu", "gelu", "sigmoid", "tanh", "exp", "hard_swish", "square", "abs", "sqrt", "round", "mish", "softplus",
    "relu", "gelu", "clamp", "elu", "leaky_relu", "hard_sigmoid", "swish", "prelu",
)  # fmt: skip
ATTRIBUTES = {
    "clamp": {"min": -1.0, "max": 2.0}, "elu": {"alpha": 1.0}, "leaky_relu": {"alpha": 0.1},
    "hard_sigmoid": {"alpha": 0.2, "beta": 0.5},
}  # fmt: skip
BINARY = (
    "add", "add", "add", "multiply", "multiply", "subtract", "divide", "maximum", "minimum", "squared_difference",
)  # fmt: skip
EPSILON = {"epsilon": 1e-5}


class Block:
    """A graph that grows op by op.

    Args:
        draw: the source of every choice.
    """

    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.g = og.Graph()
        self.int8 = False
        self.dtype = og.f32
        self.made: list[Tensor] = []

    def chance(self, share: float) -> bool:
        return self.draw.random() < share

    def wide(self) -> None:
        """Draw a float type for all tensors."""
        self.dtype = self.draw.choices([og.f32, og.bf16, og.f16], [6, 3, 1])[0]

    def narrow(self) -> None:
        """Draw a type as ``wide``, or int8 with f32 or bf16 between."""
        self.int8 = self.chance(0.35)
        if self.int8:
            self.dtype = self.draw.choices([og.f32, og.bf16], [3, 1])[0]
        else:
            self.wide()

    # Tensors ---------------------------------------------------------------------------------------------------------

    def plain(self, shape: Dims, dtype: og.DataType | None = None) -> Tensor:
        return self.g.input(f"x{len(self.g.inputs)}", dtype or self.dtype, shape)

    def source(self, shape: Dims) -> Tensor:
        """An input of the block, behind a Dequantize in int8."""
        if not self.int8:
            return self.plain(shape)
        return self.dequantized(self.plain(shape, self.draw.choice([og.u8, og.s8])))

    def dequantized(self, kept: Tensor) -> Tensor:
        if self.chance(0.1):
            return self.cast(self.g.dynamic_dequantize(kept, self.plain((1,), og.f32)))
        return self.cast(self.g.dequantize(kept, scales=[0.05], zps=[self.draw.choice([0, 3])]))

    def quantized(self, x: Tensor) -> Tensor:
        x = self.g.type_cast(x, dtype=og.f32) if x.dtype is not og.f32 else x
        if self.chance(0.1):
            return self.g.dynamic_quantize(x, self.plain((1,), og.f32), dtype=og.s8)
        return self.g.quantize(x, dtype=self.draw.choice([og.u8, og.s8]), scales=[0.1], zps=[0])

    def weights(self, shape: Dims, axis: int) -> Tensor:
        """Constant weights, behind a Dequantize in int8, with a scale for each index of ``axis`` or one for all."""
        rng = np.random.default_rng(0)
        if not self.int8:
            values = rng.standard_normal(shape).astype(np.float32) * 0.05
            return self.g.constant(values.astype(self.dtype.numpy)) if self.chance(0.7) else self.plain(shape)
        kept = self.g.constant(rng.integers(-127, 128, shape, np.int8))
        count = shape[axis] if self.chance(0.5) else 1
        how = {"qtype": "per_channel", "axis": axis} if count > 1 else {}
        return self.cast(self.g.dequantize(kept, scales=[0.002] * count, zps=[0] * count, **how))

    def cast(self, tensor: Tensor) -> Tensor:
        return self.g.type_cast(tensor, dtype=self.dtype) if tensor.dtype is not self.dtype else tensor

    def operand(self, shape: Dims) -> Tensor:
        """An operand that broadcasts to ``shape``: a natural one, or one that varies along any axes."""
        rank = len(shape)
        natural = {
            "whole": shape,
            "number": (1,) * rank,
            "last": (1,) * (rank - 1) + shape[-1:],
            "channels": (1, shape[min(1, rank - 1)]) + (1,) * (rank - 2) if rank > 1 else shape,
            "rows": (*shape[:-1], 1),
        }
        if self.chance(0.7):
            chosen = self.draw.choices([*natural.values()], [5, 1, 2, 2, 1])[0]
        else:
            chosen = tuple(dim if self.chance(0.5) else 1 for dim in shape)
        if self.chance(0.4):  # without the leading axes of size 1
            while len(chosen) > 1 and chosen[0] == 1:
                chosen = chosen[1:]
        if self.int8 and chosen == shape and self.chance(0.5):
            return self.source(shape)
        if math.prod(chosen) < math.prod(shape) and self.chance(0.4):
            rng = np.random.default_rng(1)
            return self.g.constant((rng.random(chosen) + 0.5).astype(np.float32).astype(self.dtype.numpy))
        return self.plain(chosen)

    # Ops behind the main op ------------------------------------------------------------------------------------------

    def unary(self, x: Tensor) -> Tensor:
        kind = self.draw.choice(UNARY)
        if kind == "swish":
            return self.g.multiply(x, self.g.sigmoid(x))
        if kind == "prelu":
            return self.g.prelu(x, self.plain(x.shape[-1:])) if len(x.shape) > 1 else self.g.relu(x)
        return getattr(self.g, kind)(x, **ATTRIBUTES.get(kind, {}))

    def binary(self, x: Tensor) -> Tensor:
        """A binary op with a new operand, or with an earlier tensor of the block, of either side."""
        alike = [tensor for tensor in self.made if tensor.shape == x.shape and tensor.dtype is x.dtype]
        other = self.draw.choice(alike) if alike and self.chance(0.15) else self.operand(x.shape)
        ends = (other, x) if self.chance(0.25) else (x, other)
        return getattr(self.g, self.draw.choice(BINARY))(*ends)

    def chain(self, x: Tensor, longest: int = 3) -> Tensor:
        """Up to ``longest`` ops behind ``x``, some between Quantize and Dequantize, and a Quantize behind all."""
        for _ in range(self.draw.randint(0, longest)):
            self.made.append(x)
            x = self.unary(x) if self.chance(0.4) else self.binary(x)
            if self.chance(0.15 if self.int8 else 0.02):
                x = self.dequantized(self.quantized(x))
        return self.quantized(x) if self.int8 and self.chance(0.6) else x

    # Sizes -----------------------------------------------------------------------------------------------------------

    def channels(self) -> int:
        return self.draw.choice([3, 16, 32, 64, 64])

    def image(self, elements: int = 1 << 18) -> tuple[int, Dims]:
        """The number of channels and the spatial dims of an image with about ``elements`` elements, one to three."""
        channels, rank = self.channels(), self.draw.choice([1, 2, 2, 2, 3])
        size = max(5, round((elements / channels / 2) ** (1 / rank)))
        return channels, (min(size, 4096),) * rank

    def bias(self, n: int) -> Tensor:
        return self.plain((n,))

    def format(self) -> str:
        return self.draw.choice(["NXC", "NXC", "NCX"])


def laid_out(form: str, batch: int, channels: int, spatial: Dims) -> Dims:
    return (batch, *spatial, channels) if form == "NXC" else (batch, channels, *spatial)


def window(rank: int, stride: int = 1, pad: int = 0) -> dict[str, Any]:
    return {"strides": [stride] * rank, "pads_begin": [pad] * rank, "pads_end": [pad] * rank}


# Families ------------------------------------------------------------------------------------------------------------


def convolution(b: Block) -> Tensor:
    b.narrow()
    form, (channels, spatial) = b.format(), b.image()
    rank, kernel, out = len(spatial), b.draw.choice([1, 3, 3]), b.channels()
    groups = b.draw.choice([1, 1, 1, 2, channels])
    if groups == 2 and (channels % 2 or out % 2):
        groups = 1
    out = channels if groups == channels else out
    x = b.source(laid_out(form, b.draw.choice([1, 2]), channels, spatial))
    b.made.append(x)
    how = {**window(rank, b.draw.choice([1, 1, 2]), kernel // 2), "dilations": [1] * rank, "data_format": form}
    transposed = b.chance(0.2)
    if transposed:
        order = "XOI" if b.chance(0.5) else "IOX"
        shape = (channels, out // groups, *(kernel,) * rank)
        axis = 1 if order == "IOX" else rank
        shape = shape if order == "IOX" else (*shape[2:], out // groups, channels)
        w = b.weights(shape, axis)
    else:
        order = "XIO" if b.chance(0.5) else "OIX"
        shape = (out, channels // groups, *(kernel,) * rank)
        shape = shape if order == "OIX" else (*shape[2:], channels // groups, out)
        w = b.weights(shape, 0 if order == "OIX" else rank + 1)
    joined = b.draw.choice(["", "port", "op"])
    more = {**how, "weights_format": order, "groups": groups}
    op = b.g.conv_transpose if transposed else b.g.convolution
    y = op(x, w, b.bias(out), **more) if joined == "port" else op(x, w, **more)
    if joined == "op":
        y = b.g.bias_add(y, b.bias(out), data_format=form)
    if b.chance(0.15) and not b.int8:
        y = b.g.batch_norm_inference(y, *[b.plain((out,), og.f32) for _ in range(4)], data_format=form, **EPSILON)
    return b.chain(y)


def matmul(b: Block) -> Tensor:
    b.narrow()
    batch = b.draw.choice([(), (), (8,), (4, 4), (2, 1)])
    m, k, n = (b.draw.choice([1, 64, 128, 256]), b.draw.choice([64, 128]), b.draw.choice([1, 64, 128, 512]))
    if not batch:
        m *= 4
    ta, tb = b.chance(0.25), b.chance(0.35)
    x = b.source((*batch, k, m) if ta else (*batch, m, k))
    inner = batch if b.chance(0.6) else ()
    shape = (*inner, n, k) if tb else (*inner, k, n)
    w = b.weights(shape, len(shape) - (2 if tb else 1)) if b.chance(0.7) else b.source(shape)
    ends = [x, w]
    if b.chance(0.4):
        natural = [(n,), (n,), (1, n), (m, 1), (1, 1), (m, n), (*batch, m, n), (*(1 for _ in batch), 1, n)]
        ends.append(b.plain(b.draw.choice(natural)))
    y = b.g.matmul(*ends, transpose_a=ta, transpose_b=tb, dtype=b.dtype)
    if b.chance(0.2) and len(y.shape) > 2:
        order = [*range(len(y.shape))]
        b.draw.shuffle(order)
        y = b.g.static_transpose(y, order=order)
        if b.chance(0.5):
            y = b.g.static_reshape(y, shape=(y.shape[0], -1), special_zero=False)
    return b.chain(y)


def attention(b: Block) -> Tensor:
    b.narrow()
    batch, heads, tokens, width = b.draw.choice([1, 2]), b.draw.choice([1, 4]), b.draw.choice([32, 128, 200]), 64
    turned = b.chance(0.3)

    def part() -> Tensor:
        if not turned:
            return b.source((batch, heads, tokens, width))
        return b.g.static_transpose(b.source((batch, tokens, heads, width)), order=(0, 2, 1, 3))

    q, k, v = part(), part(), part()
    scores = b.g.matmul(q, k, transpose_b=True, dtype=b.dtype)
    if b.chance(0.8):
        number = b.g.constant(np.full((1,), 8, b.dtype.numpy))
        scores = b.draw.choice([b.g.divide, b.g.multiply])(scores, number)
    if b.chance(0.6):
        mask = b.draw.choice([(batch, 1, 1, tokens), (1, 1, tokens, tokens), (batch, heads, tokens, tokens)])
        scores = b.g.add(scores, b.plain(mask))
    shares = b.g.softmax(scores, axis=-1)
    if b.int8:
        wide = b.g.type_cast(shares, dtype=og.f32) if shares.dtype is not og.f32 else shares
        kept = b.g.quantize(wide, dtype=og.u8, scales=[0.01], zps=[0])
        shares = b.cast(b.g.dequantize(kept, scales=[0.01], zps=[0]))
    y = b.g.matmul(shares, v, dtype=b.dtype)
    if b.chance(0.6):
        y = b.g.static_transpose(y, order=(0, 2, 1, 3))
        if b.chance(0.6):
            y = b.g.static_reshape(y, shape=(batch, tokens, heads * width), special_zero=False)
    return b.chain(y, 1)


def normalization(b: Block) -> Tensor:
    b.wide()
    form, (channels, spatial) = b.format(), b.image()
    x = b.plain(laid_out(form, 2, channels, spatial))
    b.made.append(x)
    if b.chance(0.3):
        x = b.chain(x, 1)
    kind = b.draw.choice(["layer", "batch", "softmax", "log_softmax", "training", "group"])
    if kind == "layer":
        x = b.g.layer_norm(x, *[b.plain(x.shape[-1:], og.f32) for _ in range(2)], keep_stats=b.chance(0.3), **EPSILON)
        x = x if isinstance(x, og.LogicalTensor) else x[0]
    elif kind == "batch":
        x = b.g.batch_norm_inference(x, *[b.plain((channels,), og.f32) for _ in range(4)], data_format=form, **EPSILON)
    elif kind == "training":
        x = b.g.batch_norm_forward_training(
            x, *[b.plain((channels,), og.f32) for _ in range(4)], data_format=form, **EPSILON
        ).dst
    elif kind == "group":
        x = b.g.group_norm(x, groups=1, use_affine=False, keep_stats=False, data_format=form)
        x = x if isinstance(x, og.LogicalTensor) else x[0]
    else:
        axis = b.draw.randrange(len(x.shape))
        x = b.g.softmax(x, axis=axis) if kind == "softmax" else b.g.log_softmax(x, axis=axis)
    return b.chain(x)


def pool(b: Block) -> Tensor:
    b.narrow()
    form, (channels, spatial) = b.format(), b.image()
    x = b.source(laid_out(form, 2, channels, spatial))
    rank, kernel = len(spatial), b.draw.choice([2, 3])
    how = {**window(rank, b.draw.choice([1, 2]), kernel // 2), "kernel": [kernel] * rank, "data_format": form}
    y = b.g.max_pool(x, **how) if b.chance(0.5) else b.g.avg_pool(x, exclude_pad=b.chance(0.5), **how)
    return b.chain(y)


def elementwise(b: Block) -> Tensor:
    b.wide()
    rank = b.draw.choice([1, 2, 3, 4, 4, 5])
    size = round((1 << 18) ** (1 / rank))
    x = b.plain(tuple(max(2, size + b.draw.randint(-size // 2, size // 2)) for _ in range(rank)))
    b.made.append(x)
    x = b.unary(x) if b.chance(0.5) else b.binary(x)
    return b.chain(x)


def reduction(b: Block) -> Tensor:
    b.wide()
    rank = b.draw.choice([2, 3, 4])
    size = round((1 << 18) ** (1 / rank))
    x = b.plain(tuple(max(2, size + b.draw.randint(-size // 2, size // 2)) for _ in range(rank)))
    axes = b.draw.sample(range(rank), b.draw.randint(1, rank))
    kind = b.draw.choice(["sum", "mean", "max", "min", "prod", "l1", "l2"])
    y = getattr(b.g, f"reduce_{kind}")(x, axes=sorted(axes), keep_dims=b.chance(0.7))
    if not y.shape:
        return y
    return b.chain(y)


def interpolation(b: Block) -> Tensor:
    b.wide()
    form, (channels, spatial) = b.format(), b.image(1 << 16)
    x = b.plain(laid_out(form, 2, channels, spatial))
    y = b.g.interpolate(
        x, mode=b.draw.choice(["nearest", "linear"]), sizes=[2 * dim for dim in spatial], data_format=form
    )
    return b.chain(y)


def movement(b: Block) -> Tensor:
    b.wide()
    rank = b.draw.choice([2, 3, 4])
    size = round((1 << 18) ** (1 / rank))
    shape = tuple(max(2, size + b.draw.randint(-size // 2, size // 2)) for _ in range(rank))
    x = b.plain(shape)
    kind = b.draw.choice(["concat", "transpose", "cast", "quantize", "int8"])
    if kind == "concat":
        x = b.g.concat(x, b.plain(shape), axis=b.draw.randrange(rank))
    elif kind == "transpose":
        order = [*range(rank)]
        b.draw.shuffle(order)
        x = b.g.static_transpose(x, order=order)
    elif kind == "cast" and x.dtype is not og.f32:
        b.dtype = og.f32
        x = b.cast(x)
    elif kind == "quantize" and x.dtype is og.f32:
        axis = b.draw.randrange(rank)
        count = shape[axis] if b.chance(0.5) else 1
        how = {"qtype": "per_channel", "axis": axis} if count > 1 else {}
        return b.g.quantize(x, dtype=og.s8, scales=[0.1] * count, zps=[0] * count, **how)
    elif kind == "int8" and x.dtype is og.f32:
        axis = b.draw.randrange(rank)
        count = shape[axis] if b.chance(0.5) else 1
        how = {"qtype": "per_channel", "axis": axis} if count > 1 else {}
        x = b.g.add(x, b.g.dequantize(b.plain(shape, og.s8), scales=[0.1] * count, zps=[0] * count, **how))
    return b.chain(x, 2)


def residual(b: Block) -> Tensor:
    """Two convolutions, or two products, and the sum with what they began with."""
    b.narrow()
    return b.chain(image_layers(b) if b.chance(0.6) else token_layers(b), 1)


def image_layers(b: Block) -> Tensor:
    form, (channels, spatial) = b.format(), b.image(1 << 17)
    rank, order = len(spatial), b.draw.choice(["OIX", "XIO"])
    x = b.source(laid_out(form, 2, channels, spatial))
    y, normed, width = x, b.chance(0.6), b.draw.choice([channels, 16, 64])
    for sizes, size in (((channels, width), b.draw.choice([1, 3])), ((width, channels), 3)):
        window_of_weights = (size,) * rank
        shape = (sizes[1], sizes[0], *window_of_weights) if order == "OIX" else (*window_of_weights, *sizes)
        w = b.weights(shape, 0 if order == "OIX" else rank + 1)
        how = {**window(rank, 1, size // 2), "dilations": [1] * rank, "data_format": form, "weights_format": order}
        y = b.g.convolution(y, w, **how)
        if normed:
            ones = [b.g.constant(np.full(sizes[1], 1.5, np.float32)) for _ in range(4)]
            y = b.g.batch_norm_inference(y, *ones, data_format=form, **EPSILON)
        else:
            y = b.g.bias_add(y, b.bias(sizes[1]), data_format=form)
        if sizes[0] == channels:
            y = b.g.relu(y)
        if b.int8 and sizes[0] == channels:
            y = b.dequantized(b.quantized(y))
    return b.g.relu(b.g.add(y, x) if b.chance(0.5) else b.g.add(x, y))


def token_layers(b: Block) -> Tensor:
    rows, width = b.draw.choice([(128,), (2, 100), (1, 32)]), b.draw.choice([64, 256])
    x = b.source((*rows, width))
    y = x
    if b.chance(0.6):
        y = b.g.layer_norm(y, *[b.plain((width,), og.f32) for _ in range(2)], keep_stats=False, **EPSILON)
        y = b.dequantized(b.quantized(y)) if b.int8 else y
    y = b.g.matmul(y, b.weights((width, 4 * width), 1), b.bias(4 * width), dtype=b.dtype)
    y = b.g.gelu(y) if b.chance(0.6) else b.g.relu(y)
    y = b.dequantized(b.quantized(y)) if b.int8 else y
    y = b.g.matmul(y, b.weights((4 * width, width), 1), dtype=b.dtype)
    return b.g.add(x, b.g.add(y, b.bias(width)))


BY_NAME = (
    "relu", "gelu", "sigmoid", "tanh", "sqrt", "hard_swish", "mish", "abs", "softplus", "elu", "clamp", "hard_sigmoid",
)  # fmt: skip


GRADIENTS = (
    "data", "weights", "transposed", "transposed weights", "unary", "batch", "layer", "softmax", "log_softmax",
    "average", "largest", "bias", "prelu", "interpolate",
)  # fmt: skip


def backward(b: Block) -> Tensor:
    b.wide()
    form, (channels, spatial) = b.format(), b.image()
    rank, out, kernel = len(spatial), b.channels(), b.draw.choice([1, 3])
    shape = laid_out(form, 2, channels, spatial)
    kind = b.draw.choice(GRADIENTS)
    groups = channels if kind in ("data", "weights") and b.chance(0.2) else 1
    out, stride = channels if groups > 1 else out, b.draw.choice([1, 1, 2])
    how = {**window(rank, stride, kernel // 2), "data_format": form, "dilations": [1] * rank, "groups": groups}
    gradient = b.plain(laid_out(form, 2, out, tuple((dim - 1) // stride + 1 for dim in spatial)))
    dims = (out, channels // groups, *(kernel,) * rank)
    if kind == "data":
        y = b.g.convolution_backward_data(gradient, b.plain(dims), dst_shape=shape, weights_format="OIX", **how)
    elif kind == "weights":
        y = b.g.convolution_backward_weights(b.plain(shape), gradient, weights_shape=dims, weights_format="OIX", **how)
    elif kind.startswith("transposed"):
        dims, how = (channels, out, *dims[2:]), {**how, "weights_format": "IOX", "strides": [1] * rank}
        dy = b.plain(laid_out(form, 2, out, spatial))
        if kind == "transposed":
            y = b.g.conv_transpose_backward_data(dy, b.plain(dims), **how)
        else:
            y = b.g.conv_transpose_backward_weights(b.plain(shape), dy, weights_shape=dims, **how)
    elif kind == "unary":
        name = b.draw.choice(BY_NAME)
        y = getattr(b.g, f"{name}_backward")(b.plain(shape), b.plain(shape), **ATTRIBUTES.get(name, {}))
    elif kind == "prelu":
        y = b.g.prelu_backward(b.plain(shape), b.plain((channels,)), b.plain(shape), data_format=form)[0]
    elif kind == "batch":
        stats = [b.plain((channels,), og.f32) for _ in range(3)]
        y = b.g.batch_norm_backward(b.plain(shape), b.plain(shape), *stats, data_format=form, **EPSILON)[0]
    elif kind == "layer":
        ends, vectors = [b.plain(shape[:-1], og.f32) for _ in range(2)], [b.plain(shape[-1:], og.f32) for _ in range(2)]
        y = b.g.layer_norm_backward(b.plain(shape), b.plain(shape), *ends, *vectors, **EPSILON)[0]
    elif kind == "softmax":
        y = b.g.softmax_backward(b.plain(shape), b.plain(shape), axis=b.draw.randrange(len(shape)), dtype=b.dtype)
    elif kind == "log_softmax":
        y = b.g.log_softmax_backward(b.plain(shape), b.plain(shape), axis=b.draw.randrange(len(shape)))
    elif kind == "interpolate":
        dy = b.plain(laid_out(form, 2, channels, tuple(2 * dim for dim in spatial)))
        mode = b.draw.choice(["nearest", "linear"])
        y = b.g.interpolate_backward(
            b.plain(shape), dy, mode=mode, sizes=[2 * dim for dim in spatial], data_format=form
        )
    elif kind in ("average", "largest"):
        how = {**window(rank, 1, kernel // 2), "kernel": [kernel] * rank, "data_format": form}
        if kind == "average":
            y = b.g.avg_pool_backward(b.plain(shape), src_shape=shape, exclude_pad=False, **how)
        else:
            y = b.g.max_pool_backward(b.plain(shape), b.plain(shape), **how)
    else:
        return b.g.bias_add_backward(b.plain(shape), data_format=form)
    return b.chain(y, 2)


FAMILIES: dict[str, Callable[[Block], Tensor]] = {
    made.__name__: made
    for made in (
        convolution,
        matmul,
        attention,
        normalization,
        pool,
        elementwise,
        reduction,
        interpolation,
        movement,
        residual,
        backward,
    )
}


def block(family: str, number: int, seed: int = 0) -> og.Graph:
    """Block ``number`` of a family; the same for the same arguments."""
    made = Block(Random(f"{seed} {family} {number}"))
    made.g.output("y", FAMILIES[family](made))
    return made.g
