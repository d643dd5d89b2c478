"""Random chains of quantized ops, most of them on few elements: pools, products, sums, joins and norms between codes.

Ops that quantize by themselves are among them.
"""

import math

import onegraph as og

from .blocks import ATTRS, UNARY, Block, Misfit, int8_convolution, product
from .training import SIZES, Draw, pool

FEW = 4000  # elements of a source: most mistakes at the ends of a tensor show in small ones
ZEROS = {"u8": (0, 5, 128, 255), "s8": (0, -3, 127, -128)}


def _image(block):
    """The shape of a small image."""
    while True:
        shape = block.draw.laid(block.draw.channels, block.draw.spatial())
        if math.prod(shape) <= FEW:
            return shape
        block.draw = Draw(block.draw.random)


def _shape(block):
    """An image, or any other small shape."""
    if block.draw.flip():
        return _image(block)
    shape = [block.draw.choice(SIZES[:12]) for _ in range(block.draw.random.randint(1, 4))]
    if math.prod(shape) > FEW:
        raise Misfit
    return shape


def _coding(block, dtype, shape):
    """The attributes of a Quantize or Dequantize, of all elements or of each channel."""
    draw = block.draw
    if shape and draw.flip(0.3):
        axis = draw.random.randrange(len(shape))
        attrs = block.codes(dtype, shape[axis]) | {"qtype": "per_channel", "axis": axis}
        if "zps" in attrs:
            attrs["zps"] = [draw.choice(ZEROS[dtype]) for _ in range(shape[axis])]
        return attrs
    return block.codes(dtype)


def _ended(block, key, dtype):
    """A Quantize behind a result, mostly of the data type of the source."""
    draw = block.draw
    if draw.flip(0.15):
        return block.output(key)
    if block.dtype(key) != "f32":
        key = block.op("TypeCast", [key], dtype="f32")
    dtype = dtype if draw.flip(0.8) else draw.choice(["u8", "s8"])
    return block.output(block.op("Quantize", [key], block.codes(dtype), dtype=dtype))


def _alone(block):
    """Quantize or Dequantize."""
    shape, dtype = _shape(block), block.draw.choice(["u8", "s8"])
    attrs = _coding(block, dtype, shape)
    if block.draw.flip():
        return block.output(block.op("Dequantize", [block.source(shape, dtype)], attrs))
    return block.output(block.op("Quantize", [block.source(shape, "f32")], attrs, dtype=dtype))


def _dynamic(block):
    """DynamicQuantize or DynamicDequantize, whose scales and zero points are inputs."""
    draw, shape = block.draw, _shape(block)
    axis = draw.random.randrange(len(shape))
    is_each = draw.flip()
    attrs = {"qtype": "per_channel", "axis": axis} if is_each else {"qtype": "per_tensor"}
    count, dtype = shape[axis] if is_each else 1, draw.choice(["u8", "s8"])
    vectors = [block.source([count], "f32", "positive")]
    if draw.flip():
        vectors.append(block.source([count], draw.choice(["s32", dtype])))
    if draw.flip():
        return block.output(block.op("DynamicDequantize", [block.source(shape, dtype), *vectors], attrs))
    return block.output(block.op("DynamicQuantize", [block.source(shape, "f32"), *vectors], attrs, dtype=dtype))


def _pooled(block):
    """A pool between codes."""
    draw = block.draw
    while True:
        kind, (shape, *_), attrs = pool(block.draw)
        if not kind.endswith("Backward") and math.prod(shape) <= FEW:
            break
        block.draw = Draw(draw.random)
    dtype = draw.choice(["u8", "s8"])
    key = block.op(kind, [block.dequantized(shape, dtype)], attrs)
    key = block.op("ReLU", [key]) if draw.flip(0.15) else key
    _ended(block, key, dtype)


def _moved(block):
    """Ops that move codes, alone or beside a sum."""
    draw, dtype = block.draw, block.draw.choice(["u8", "s8"])
    shape = _shape(block)
    key = block.dequantized(shape, dtype)
    what = draw.choice(["StaticTranspose", "StaticReshape", "Reorder", "Concat"])
    if what == "StaticTranspose":
        key = block.op(what, [key], {"order": draw.random.sample(range(len(shape)), len(shape))})
    elif what == "StaticReshape":
        key = block.op(what, [key], {"shape": [*reversed(shape)], "special_zero": False})
    elif what == "Concat":
        axis = draw.random.randrange(len(shape))
        others = [[draw.random.randint(1, 9) if at == axis else dim for at, dim in enumerate(shape)] for _ in range(2)]
        key = block.op(what, [key, *[block.dequantized(other, dtype) for other in others]], {"axis": axis})
    else:
        key = block.op(what, [key])
    if draw.flip(0.3):
        key = block.op("Add", [key, block.dequantized(block.shape(key), dtype)])
    _ended(block, key, dtype)


def _combined(block):
    """Ops on single elements between codes."""
    draw, dtype = block.draw, block.draw.choice(["u8", "s8"])
    key = block.dequantized(_shape(block), dtype)
    for _ in range(draw.choice([1, 1, 2, 3])):
        if draw.flip():
            kind = draw.choice(UNARY)
            key = block.op(kind, [key], ATTRS.get(kind))
        else:
            other = block.operand(key) if draw.flip(0.3) else block.dequantized(block.shape(key))
            key = block.op(draw.choice(["Add", "Multiply", "Maximum", "Subtract"]), [key, other])
    _ended(block, key, dtype)


def _normalized(block):
    """A norm or a SoftMax whose result is quantized."""
    draw, shape = block.draw, _shape(block)
    x = block.source(shape, draw.choice(["f32", "bf16"]))
    kind = draw.choice(["LayerNorm", "SoftMax", "ReduceMean", "ReduceMax"])
    if kind == "LayerNorm":
        vectors = [block.source(shape[-1:], "f32") for _ in range(2)]
        key = block.op(kind, [x, *vectors], {"epsilon": 0.125, "keep_stats": False})
    elif kind == "SoftMax":
        axis = draw.random.randrange(len(shape))
        key = block.op(kind, [x], {"axis": axis}, outputs=[], dtype=block.dtype(x))
    else:
        axes = draw.random.sample(range(len(shape)), draw.random.randint(1, len(shape)))
        key = block.op(kind, [x], {"axes": axes, "keep_dims": draw.flip()})
    _ended(block, key, draw.choice(["u8", "s8"]))


def _attention(block):
    """Attention of codes: two products, and the codes of a SoftMax between them."""
    draw = block.draw
    size, rows, columns = (draw.choice([1, 3, 8, 16, 17, 64]) for _ in range(3))
    shape = [draw.batch, draw.choice([1, 2, 3])]
    q, k, v = (block.dequantized([*shape, n, size]) for n in (rows, columns, columns))
    key = block.op("MatMul", [q, k], {"transpose_b": True}, dtype=block.dtype(q))
    key = block.op("Multiply", [key, block.source([1], block.dtype(key), "positive", constant=draw.flip())])
    key = block.op("SoftMax", [key], {"axis": -1}, outputs=[], dtype=block.dtype(key))
    if draw.dtype == "f32" and draw.flip(0.7):
        attrs = {"scales": [1 / 256], "zps": [0], "qtype": "per_tensor"}
        key = block.op("Dequantize", [block.op("Quantize", [key], attrs, dtype="u8")], attrs)
    _ended(block, block.op("MatMul", [key, v], dtype=block.dtype(v)), "u8")


FAMILIES = (
    _alone,
    _dynamic,
    *[_pooled] * 3,
    _moved,
    _combined,
    _normalized,
    _attention,
    *[int8_convolution] * 3,
    *[product] * 2,
)


def random_quantized_recipe(random, n_ops=1):
    """Steps of one valid chain."""
    while True:
        block = Block(random)
        while block.draw.dtype == "f16":  # no code is cast to it
            block.draw = Draw(random)
        try:
            random.choice(FAMILIES)(block)
        except (Misfit, og.SpecError):
            continue
        kinds = {step["op"] for step in block.builder.steps}
        if any("uantize" in kind for kind in kinds):
            return block.builder.steps
