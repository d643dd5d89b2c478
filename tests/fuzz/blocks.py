"""Random blocks of networks in the shapes of training: ops that the library fuses, int8 chains, attention, steps of
training. Channels, sizes and strides are those of ``training``.
"""

import math

import numpy as np

import onegraph as og

from .recipe import Builder
from .training import ELEMENTS, SIZES, Draw, convolution, pool

UNARY = ("ReLU", "GELU", "Sigmoid", "Tanh", "HardSwish", "Abs", "Mish", "LeakyReLU", "Elu", "Clamp")
ATTRS = {"LeakyReLU": {"alpha": 0.125}, "Elu": {"alpha": 0.5}, "Clamp": {"min": -1.0, "max": 6.0}}
SCALES = (0.5, 0.25, 0.0625)
LIMIT = 3e4  # of a value; f16 ends at 65504


class Misfit(Exception):  # noqa: N818
    """These choices make no valid block."""


class Block:
    """The steps of one block."""

    def __init__(self, random):
        self.draw, self.builder = Draw(random), Builder()

    def source(self, shape, dtype=None, flavour="whole", constant=False):
        if any(dim < 1 for dim in shape) or math.prod(shape) > 3 * ELEMENTS:
            raise Misfit
        data = [flavour, self.draw.random.randrange(10**6)]
        step = {"op": "constant" if constant else "input", "dtype": dtype or self.draw.dtype, "data": data}
        return self.builder.add({**step, "shape": [*shape]})[0]

    def op(self, kind, inputs, attrs=None, **options):
        keys = self.builder.add({"op": kind, "in": [[*key] for key in inputs], "attrs": attrs or {}, **options})
        for key in keys:
            _, array = self.builder.values[key]
            if not np.abs(array.astype(np.float64)).max(initial=0) < LIMIT:
                raise Misfit
        return keys[0] if keys else None

    def output(self, key):
        self.builder.add({"op": "output", "in": [[*key]]})

    def shape(self, key):
        return self.builder.values[key][1].shape

    def dtype(self, key):
        return self.builder.values[key][0].dtype.value

    def channels(self, key):
        axis = -1 if self.draw.format == "NXC" or len(self.shape(key)) < 3 else 1
        return axis, self.shape(key)[axis]

    def operand(self, key):
        """A value that is broadcast to another one."""
        shape = [*self.shape(key)]
        axis, channels = self.channels(key)
        one = [1] * len(shape)
        one[axis] = channels
        return self.source(self.draw.choice([shape, shape, one, [1], shape[-1:]]), self.dtype(key))

    def epilogue(self, key):
        """Up to three ops behind ``key``."""
        for _ in range(self.draw.choice([0, 1, 1, 2, 2, 3])):
            what = self.draw.choice(["unary", "unary", "binary", "binary", "norm"])
            channels = self.channels(key)[1]
            if what == "unary":
                kind = self.draw.choice(UNARY)
                key = self.op(kind, [key], ATTRS.get(kind))
            elif what == "binary":
                ends = [key, self.operand(key)]
                key = self.op(self.draw.choice(["Add", "Multiply", "Maximum", "Subtract"]), ends)
            elif len(self.shape(key)) > 2:
                vectors = [self.source([channels], "f32") for _ in range(3)]
                ends = [key, *vectors, self.source([channels], "f32", "positive")]
                attrs = {"epsilon": 0.125, "data_format": self.draw.format}
                key = self.op("BatchNormInference", ends, attrs)
        return key

    # int8 -------------------------------------------------------------------------------------------------------------

    def codes(self, dtype, count=1):
        attrs = {"scales": [self.draw.choice(SCALES) for _ in range(count)], "qtype": "per_tensor"}
        if self.draw.flip():
            attrs["zps"] = [self.draw.choice([0, 5, 128 if dtype == "u8" else -3])]
        return attrs

    def dequantized(self, shape, dtype=None, constant=False):
        dtype = dtype or self.draw.choice(["u8", "s8"])
        found = self.op("Dequantize", [self.source(shape, dtype, constant=constant)], self.codes(dtype))
        return self.op("TypeCast", [found], dtype="bf16") if self.draw.dtype == "bf16" else found

    def weights(self, shape, axis):
        attrs = {"scales": [0.25], "qtype": "per_tensor"}
        if self.draw.flip():
            scales = [self.draw.choice(SCALES) for _ in range(shape[axis])]
            attrs = {"scales": scales, "qtype": "per_channel", "axis": axis}
        found = self.op("Dequantize", [self.source(shape, "s8", constant=self.draw.flip())], attrs)
        return self.op("TypeCast", [found], dtype="bf16") if self.draw.dtype == "bf16" else found

    def quantized(self, key):
        if self.draw.flip(0.3):
            return key
        if self.dtype(key) != "f32":
            key = self.op("TypeCast", [key], dtype="f32")
        dtype = self.draw.choice(["u8", "s8"])
        return self.op("Quantize", [key], self.codes(dtype), dtype=dtype)


def _convolution(block, kinds=("Convolution", "Convolution", "ConvTranspose")):
    """The kind, the shapes and the attributes of a forward op."""
    while True:
        kind, shapes, attrs = convolution(block.draw)
        if kind in kinds:
            return kind, shapes, attrs
        block.draw = Draw(block.draw.random)


def _fused(block):
    kind, shapes, attrs = _convolution(block)
    key = block.op(
        kind, [block.source(shape, constant=i and block.draw.flip()) for i, shape in enumerate(shapes)], attrs
    )
    block.output(block.epilogue(key))


def int8_convolution(block):
    if block.draw.dtype == "f16":
        raise Misfit
    kind, (src, weights, *bias), attrs = _convolution(block)
    axis = (
        (len(weights) - 1 if block.draw.format == "NXC" else 0)
        if kind == "Convolution" or attrs["groups"] == 1
        else None
    )
    if axis is None:
        raise Misfit
    if kind == "ConvTranspose":  # the other channels are those of the result
        axis = len(weights) - 2 if block.draw.format == "NXC" else 1
    inputs = [block.dequantized(src), block.weights(weights, axis), *[block.source(shape) for shape in bias]]
    key = block.epilogue(block.op(kind, inputs, attrs))
    if block.draw.flip(0.3):
        key = block.op("Add", [key, block.dequantized(block.shape(key))])
    block.output(block.quantized(key))


def product(block):
    draw = block.draw
    m, k, n = (draw.choice(SIZES) for _ in range(3))
    turned = {"transpose_a": draw.flip(0.2), "transpose_b": draw.flip()}
    left = [k, m] if turned["transpose_a"] else [m, k]
    right = [n, k] if turned["transpose_b"] else [k, n]
    batch = draw.choice([[], [draw.batch], [draw.batch, 3]])
    if draw.flip(0.4) and draw.dtype != "f16":
        ends = [block.dequantized([*batch, *left]), block.weights(right, 0 if turned["transpose_b"] else 1)]
    else:
        ends = [block.source([*batch, *left]), block.source([*draw.choice([[], batch]), *right], constant=draw.flip())]
    bias = [block.source([n])] if draw.flip() else []
    key = block.epilogue(block.op("MatMul", [*ends, *bias], turned, dtype=draw.dtype))
    block.output(block.quantized(key) if draw.dtype != "f16" else key)


def _attention(block):
    draw = block.draw
    size, rows, columns = draw.choice([1, 3, 8, 16, 17, 64]), draw.choice(SIZES[:14]), draw.choice(SIZES[:14])
    heads, groups = draw.choice([1, 2, 3, 4]), draw.choice([1, 1, 2])
    shape = [draw.batch, heads * groups]
    q = block.source([*shape, rows, size], flavour="normal")
    k, v = (block.source([*shape, columns, size], flavour="normal") for _ in range(2))
    key = block.op("MatMul", [q, k], {"transpose_b": True}, dtype=draw.dtype)
    if draw.flip(0.8):
        scale = block.source([1], flavour="positive", constant=draw.flip())
        key = block.op(draw.choice(["Divide", "Multiply"]), [key, scale])
    if draw.flip(0.6):
        masks = [[draw.batch, 1, 1, columns], [1, 1, rows, columns], [*shape, rows, columns]]
        key = block.op("Add", [key, block.source(draw.choice(masks))])
    key = block.op("SoftMax", [key], {"axis": -1}, outputs=[], dtype=draw.dtype)
    key = block.op("MatMul", [key, v], dtype=draw.dtype)
    if draw.flip():
        key = block.op("StaticTranspose", [key], {"order": [0, 2, 1, 3]})
        whole = {"shape": [draw.batch, rows, heads * groups * size], "special_zero": False}
        key = block.op("StaticReshape", [key], whole) if draw.flip() else block.op("Reorder", [key])
    block.output(key)


def _step(block):
    """A convolution with a bias and ReLU, and its gradients."""
    kind, (src, weights, *_), attrs = _convolution(block)
    x, w = block.source(src), block.source(weights)
    y = block.op(kind, [x, w], attrs)
    layout = {"data_format": block.draw.format}
    y = block.op("BiasAdd", [y, block.source([block.channels(y)[1]])], layout)
    y = block.op("ReLU", [y])
    d = block.op("ReLUBackward", [y, block.source(block.shape(y))], {"use_dst": True})
    block.output(y)
    block.output(block.op("BiasAddBackward", [d], layout))
    shape = {"dst_shape": src} if kind == "Convolution" else {}
    block.output(block.op(f"{kind}BackwardData", [d, w], {**attrs, **shape}))
    block.output(block.op(f"{kind}BackwardWeights", [x, d], {**attrs, "weights_shape": weights}))


def _pooled(block):
    """A pool or a norm, what precedes it and what follows."""
    kind, shapes, attrs = pool(block.draw)
    x = block.source(shapes[0])
    if block.draw.flip():
        x = block.op("ReLU", [x])
    key = block.op(kind, [x, *[block.source(shape) for shape in shapes[1:]]], attrs)
    block.output(block.epilogue(key))


def _quantized_pool(block):
    kind, shapes, attrs = pool(block.draw)
    if kind.endswith("Backward") or block.draw.dtype != "f32":
        raise Misfit
    block.output(block.quantized(block.op(kind, [block.dequantized(shapes[0])], attrs)))


def _norm(block):
    draw = block.draw
    x = block.source(draw.laid(draw.channels, draw.spatial()))
    kind = draw.choice(["BatchNormForwardTraining", "LayerNorm", "SoftMax", "Interpolate"])
    vectors = [block.source([block.shape(x)[-1]], "f32") for _ in range(2)]
    if kind == "BatchNormForwardTraining":
        mean, variance = (block.source([draw.channels], "f32", "positive") for _ in range(2))
        key = block.op(kind, [x, mean, variance], {"epsilon": 0.125, "data_format": draw.format})
    elif kind == "LayerNorm":
        key = block.op(kind, [x, *vectors], {"epsilon": 0.125, "keep_stats": False})
    elif kind == "SoftMax":
        key = block.op(kind, [x], {"axis": draw.random.randrange(len(block.shape(x)))}, outputs=[], dtype=draw.dtype)
    else:
        sizes = [draw.choice([1, 2, 3, 8, 16]) for _ in range(draw.axes)]
        key = block.op(kind, [x], {"mode": "nearest", "sizes": sizes, "data_format": draw.format})
    key = block.epilogue(key)
    block.output(block.quantized(key) if draw.dtype != "f16" else key)


FAMILIES = (
    _fused,
    _fused,
    int8_convolution,
    int8_convolution,
    product,
    _attention,
    _step,
    _pooled,
    _quantized_pool,
    _norm,
)


def random_block_recipe(random, n_ops=1):
    """Steps of one valid block."""
    while True:
        block = Block(random)
        try:
            random.choice(FAMILIES)(block)
        except (Misfit, og.SpecError):
            continue
        return block.builder.steps
