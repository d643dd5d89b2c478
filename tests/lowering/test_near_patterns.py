"""Patterns and what lies beside them: the ops that are left, and the numbers of the same ops without patterns."""

import math

import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph.lowering import elementwise as el
from onegraph.lowering import movement as mv
from onegraph.lowering.emitter import Emitter
from onegraph.lowering.patterns import REWRITES
from onegraph.lowering.quantization import Scale, dequantize
from onegraph.lowering.reduction import reduce
from onegraph.transform.part import without_unread

INF = math.inf
RNG = np.random.default_rng(0)


def f(*numbers):
    return np.array(numbers[0] if len(numbers) == 1 else numbers, np.float32)


def drawn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def counted(dtype, shape):
    return (np.arange(math.prod(shape)) % 3).reshape(shape).astype(og.DataType.of(dtype).numpy)


def some_nan(*shape):
    array = drawn(*shape)
    array.ravel()[::5] = np.nan
    return array


def gelu(e, x, y, root=1.41421356, half=0.5, one=1.0):
    inner = el.unary(e, "Erf", el.binary(e, "Divide", x, f(root)))
    return el.multiply(e, el.multiply(e, y, el.add(e, inner, f(one))), f(half))


def hard_swish(e, x, shift=3.0, most=6.0, divisor=6.0):
    inner = el.clamp(e, el.add(e, x, f(shift)), f(0), f(most))
    return el.binary(e, "Divide", el.multiply(e, x, inner), f(divisor))


def mish(e, x, beta=1.0):
    return el.multiply(e, x, el.unary(e, "Tanh", el.unary(e, "SoftPlus", x, {"beta": beta})))


def product(e, a, b, left=1.0, right=1.0, order=None):
    a, b = (el.multiply(e, one, f(number)) if number != 1 else one for one, number in ((a, left), (b, right)))
    return e.op("MatMul", [a, b if order is None else mv.transpose(e, b, order)])


def joined(e, a, b):
    flat = [mv.reshape(e, one, [6, *one.shape[2:]]) for one in (a, b)]
    return e.op("MatMul", flat)


WINDOW = {"strides": [1, 1], "pads_begin": [0, 1], "pads_end": [1, 0], "dilations": [2, 1]}
KERNEL, WEIGHTS = drawn(2, 3, 3, 4), drawn(2, 4, 5)


def convolved(e, x, before, after, number=0.0, **attrs):
    return e.op("Convolution", [mv.padded(e, x, before, after, number), KERNEL], WINDOW | attrs)


def pooled(e, x, before, after, number):
    larger = mv.padded(e, x, before, after, number)
    return e.op("MaxPool", [larger], {**WINDOW, "kernel": [2, 3]})


CONV, POOL = ["Convolution"], ["MaxPool"]
X, WIDE, IMAGE = (2, 3, 4), (2, 3, 4, 5), (1, 6, 5, 3)
PARTS = [(1, 4, 4, 2), (1, 4, 4, 3)]
PLAIN = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1], "data_format": "NXC"}
NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "data_format": "NXC"}


def pooled_parts(e, *parts, axis=3, strides=(2, 2), **attrs):
    whole = e.op("Concat", [*parts], {"axis": axis})
    return e.op("MaxPool", [whole], PLAIN | {"strides": [*strides], "kernel": [2, 2], **attrs})


def pointwise(e, src, out, channels, *window, bias=False, **attrs):
    weights = weights_of(out, channels, *(window or (1, 1)))
    ends = [src, weights, *([weights[:, 0, 0, 0].copy()] if bias else [])]
    return e.op("Convolution", ends, {**PLAIN, "weights_format": "OIX", **attrs})


def weights_of(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def beside(e, out, *parts, axis=3, window=(), **attrs):
    channels = sum(part.shape[3] for part in parts) if axis in (3, -1) else parts[0].shape[3]
    channels //= attrs.get("groups", 1)
    return pointwise(e, e.op("Concat", [*parts], {"axis": axis}), out, channels, *window, **attrs)


def enlarged(e, x, out, size=(8, 8), window=(), **attrs):
    large = e.op("Interpolate", [x], {**NEAREST, "sizes": [*size], **attrs})
    return pointwise(e, large, out, 6, *window)


def bags(e, table, indices, *unknown, places=((0, 2), (2, 4)), kinds=("ReduceSum",), axes=(0, 0), steps=1, keep=True):
    """The sums of rows of a table, in bags; ``unknown`` is a tensor in the place of an end of the first slice."""
    made = []
    for number, (start, end) in enumerate(places):
        cut = [mv.numbers(start), mv.numbers(end), mv.numbers(0), *([mv.numbers(steps)] if steps else [])]
        if unknown and not number:
            cut[places[0].index(0)] = unknown[0]
        rows = e.op("Gather", [table, e.op("Slice", [indices, *cut])], {"axis": axes[0]}, edition="host")
        one = reduce(e, kinds[number % len(kinds)], rows, [axes[1]], keep)
        made.append(one if keep else mv.reshape(e, one, [1, *one.shape]))
    return e.op("Concat", made, {"axis": 0}) if len(made) > 1 else made[0]


def in_codes(e, x, block=16, depth=32, turned=False, bias=False, limits=(-8, 8), points=None, axis=None):
    """A product by known codes of 4 bits with a scale for each block of rows."""
    rng, dtype = np.random.default_rng(4), mv.DataType.of("s4" if limits[0] < 0 else "u4").numpy
    codes = rng.integers(*limits, (6, depth)).astype(dtype)
    scale = rng.uniform(0.1, 0.2, (6, depth // block)).astype(np.float32)
    zero = None if points is None else np.full(scale.shape, points, dtype)
    along = 1 if axis is None else axis
    if not along:
        codes, scale = np.ascontiguousarray(codes.T), np.ascontiguousarray(scale.T)
        zero = None if zero is None else np.ascontiguousarray(zero.T)
    weights = dequantize(e, codes, Scale(scale, zero, along, block))
    weights = mv.transpose(e, weights, (1, 0)) if along and not turned else weights
    ends = [x, weights, *([np.ones(6, np.float32)] if bias else [])]
    return e.op("MatMul", ends, {"transpose_b": True} if turned else {})


def depthwise(e, x, axis=3, scales=(0.5, 0.25, 1.0, 2.0), zps=(1,) * 4, own=1, last="NXC", weights_axis=0):
    """A depthwise convolution of codes with a scale for each channel."""
    per_channel = {"scales": [*scales], "zps": [*zps], "qtype": "per_channel", "axis": axis}
    src = e.op("Dequantize", [x], per_channel if len(scales) > 1 else {**per_channel, "qtype": "per_tensor"})
    form = {"qtype": "per_channel", "axis": weights_axis} if own > 1 else {"qtype": "per_tensor"}
    codes = np.arange(16).reshape(4, 1, 2, 2).astype(np.int8)
    weights = e.op("Dequantize", [codes], {"scales": [0.5, 1.0, 2.0, 4.0][:own], "zps": [1, 0, 2, 3][:own], **form})
    attrs = {**PLAIN, "weights_format": "OIX", "groups": 4, "data_format": last}
    return e.op("Convolution", [src, weights], attrs)


def normal(e, x, form="NXC", unknown=None):
    """A normalization by known vectors, or by unknown factors."""
    count = x.shape[1 if form == "NCX" else -1]
    vectors = [weights_of(count) ** 2 + 0.5 for _ in range(4)]
    vectors[0] = vectors[0] if unknown is None else unknown
    return e.op("BatchNormInference", [x, *vectors], {"epsilon": 1e-3, "data_format": form})


def by_weights(e, x, columns=3, **attrs):
    sizes = (columns, x.shape[-1]) if attrs.get("transpose_b") else (x.shape[-1], columns)
    return e.op("MatMul", [x, weights_of(*sizes)], attrs)


def branches(e, x, first=lambda e, one: one, second=lambda e, one: one, other=None, **attrs):
    """The sum of two convolutions of one image, behind each of which may be more."""
    made = pointwise(e, x, 3, 3, **attrs)
    beside = pointwise(e, x, 3, 3, **attrs) if other is None else other
    return e.op("Add", [first(e, made), second(e, beside)])


def in_order(e, orders, *parts, axis=1):
    """Transposes that are joined; None leaves a tensor as it is."""
    turned = [one if order is None else mv.transpose(e, one, order) for one, order in zip(parts, orders, strict=True)]
    return e.op("Concat", turned, {"axis": axis})


def turned_pairs(e, x, near=False, own=2, sign=-1.0, axis=-1, whole=True):
    """The numbers of pairs turned by angles, as exporters write it."""
    size = x.shape[-1]
    half = size // 2
    ends = ((0, size, 2), (1, size, 2)) if near else ((0, half, 1), (half, size, 1))
    first, second = (mv.slice_(e, x, [start], [end], [axis], [step]) for start, end, step in ends)
    if whole:
        cos, sin = (weights_of(1, 1, x.shape[2], size) for _ in range(2))
        pairs = e.op("Concat", [el.multiply(e, second, f(sign)), first], {"axis": axis})
        return el.add(e, el.multiply(e, x, cos), el.multiply(e, pairs, sin))
    cos, sin = (weights_of(1, 1, x.shape[2], half) for _ in range(2))
    real = el.binary(e, "Subtract", el.multiply(e, first, cos), el.multiply(e, second, sin))
    imaginary = el.add(e, el.multiply(e, (first, second)[own - 1], cos), el.multiply(e, first, sin))
    return e.op("Concat", [real, imaginary], {"axis": axis})


TURN, PLAIN_IMAGE = (0, 2, 1), [(1, 4, 4, 3)]
HEADS = [(1, 2, 3, 4)]
PIXELS, IN_ROWS = ("u8", (1, 5, 5, 4)), ("u8", (1, 4, 5, 4))
CODED_CONV = ["Dequantize", "Dequantize", *CONV]
TABLE, INDICES = (5, 3), ("s64", (4,))
CODED, AT_ONCE = (2, 3, 32), ["Slice", "Reshape", "Gather", "ReduceSum"]
# By case: the shapes of the inputs, what is added, and the ops that are left; None if any may be.
CASES = {
    "GELU": ([X], lambda e, x: gelu(e, x, x), ["GELU"]),
    "GELU of another factor": ([X], lambda e, x: gelu(e, x, x, half=0.49), None),
    "GELU of another root": ([X], lambda e, x: gelu(e, x, x, root=1.4), None),
    "GELU of another summand": ([X], lambda e, x: gelu(e, x, x, one=1.01), None),
    "GELU of two tensors": ([X, X], gelu, None),
    "HardSwish": ([X], hard_swish, ["HardSwish"]),
    "HardSwish of another shift": ([X], lambda e, x: hard_swish(e, x, shift=2.9), None),
    "HardSwish of another bound": ([X], lambda e, x: hard_swish(e, x, most=5.5), None),
    "HardSwish of another divisor": ([X], lambda e, x: hard_swish(e, x, divisor=5.9), None),
    "Mish": ([X], mish, ["Mish"]),
    "Mish of another slope": ([X], lambda e, x: mish(e, x, 2.0), ["SoftPlus", "Tanh", "Multiply"]),
    "scale": ([X, (2, 4, 5)], lambda e, a, b: product(e, a, b, 0.5, 3.0), ["MatMul", "Divide"]),
    "scale of one": ([X, (2, 4, 5)], lambda e, a, b: product(e, a, b, 0.5), ["MatMul", "Divide"]),
    "scale behind a transpose": (
        [X, (2, 5, 4)],
        lambda e, a, b: product(e, a, b, 0.5, 0.25, (0, 2, 1)),
        ["StaticTranspose", "MatMul", "Divide"],
    ),
    "scale of matrices": ([(3, 4), (4, 5)], lambda e, a, b: product(e, a, b, 0.5), ["Multiply", "MatMul"]),
    "scale of 0": ([X, (2, 4, 5)], lambda e, a, b: product(e, a, b, 0.0), ["Multiply", "MatMul"]),
    "scale by known weights": ([X], lambda e, a: product(e, a, WEIGHTS, 0.5), ["Multiply", "MatMul"]),
    "heads and batches": ([WIDE, (2, 3, 5, 6)], joined, ["MatMul", "StaticReshape"]),
    "other heads and batches": ([WIDE, (3, 2, 5, 6)], joined, ["StaticReshape", "StaticReshape", "MatMul"]),
    "wide operand": (
        [(3, 1), (3, 4)],
        lambda e, x, y: el.binary(e, "Subtract", mv.expand(e, x, (3, 4)), y),
        ["Subtract"],
    ),
    "wide second operand": (
        [(3, 1), (3, 4)],
        lambda e, x, y: el.binary(e, "Subtract", y, mv.expand(e, x, (3, 4))),
        ["Subtract"],
    ),
    "operand wider than the other": (
        [(3, 1), (3, 1)],
        lambda e, x, y: el.binary(e, "Subtract", mv.expand(e, x, (3, 4)), y),
        ["Expand", "Subtract"],
    ),
    "rows of minus infinities": (
        [X],
        lambda e, x: e.op("Equal", [reduce(e, "ReduceMax", x, [2], True), f(-INF)]),
        ["ReduceMax", "LessEqual"],
    ),
    "rows of a largest number": (
        [X],
        lambda e, x: e.op("Equal", [reduce(e, "ReduceMax", x, [2], True), f(1)]),
        ["ReduceMax", "Equal"],
    ),
    "minus infinities": ([X], lambda e, x: e.op("Equal", [x, f(-INF)]), ["Equal"]),
    "no NaN": ([X], lambda e, x: el.select(e, e.op("IsNaN", [x]), f(7), x), ["ReplaceNaN"]),
    "NaN of another tensor": ([X, X], lambda e, x, y: el.select(e, e.op("IsNaN", [x]), f(7), y), None),
    "a tensor for NaN": ([X, X], lambda e, x, y: el.select(e, e.op("IsNaN", [x]), y, x), None),
    "padding": ([IMAGE], lambda e, x: convolved(e, x, [0, 1, 0, 0], [0, 0, 1, 0]), CONV),
    "padding in steps": (
        [IMAGE],
        lambda e, x: convolved(e, mv.padded(e, x, [0, 2, 1, 0], [0, 0, 1, 0]), [0, 0, 0, 0], [0, 1, 0, 0]),
        CONV,
    ),
    "padding of a whole window": ([IMAGE], lambda e, x: convolved(e, x, [0, 3, 0, 0], [0, 0, 0, 0]), ["Concat", *CONV]),
    "padding of less than a window": ([IMAGE], lambda e, x: convolved(e, x, [0, 2, 0, 0], [0, 0, 0, 0]), CONV),
    "padding by ones": ([IMAGE], lambda e, x: convolved(e, x, [0, 1, 0, 0], [0, 0, 0, 0], 1), ["Concat", *CONV]),
    "padding of channels": (
        [(1, 6, 5, 2)],
        lambda e, x: convolved(e, x, [0, 1, 0, 1], [0, 0, 0, 0]),
        ["Concat", "Concat", *CONV],
    ),
    "padding of batches": (
        [IMAGE],
        lambda e, x: convolved(e, x, [1, 0, 0, 0], [0, 0, 0, 0]),
        ["Concat", *CONV],
    ),
    "padding for windows of their own": (
        [IMAGE],
        lambda e, x: convolved(e, x, [0, 1, 0, 0], [0, 0, 0, 0], auto_pad="SAME_UPPER"),
        ["Concat", *CONV],
    ),
    "padding of a pool": ([IMAGE], lambda e, x: pooled(e, x, [0, 1, 0, 0], [0, 0, 1, 0], -INF), POOL),
    "padding of a pool by zeros": (
        [IMAGE],
        lambda e, x: pooled(e, x, [0, 1, 0, 0], [0, 0, 0, 0], 0),
        ["Concat", *POOL],
    ),
    "pool of channels": (PARTS, pooled_parts, [*POOL, *POOL, "Concat"]),
    "pool of last axes": (PARTS, lambda e, *parts: pooled_parts(e, *parts, axis=-1), [*POOL, *POOL, "Concat"]),
    "pool of rows": (PARTS[:1] * 2, lambda e, *parts: pooled_parts(e, *parts, axis=1), ["Concat", *POOL]),
    "pool of three parts": (PARTS + PARTS[:1], pooled_parts, ["Concat", *POOL]),
    "pool by single steps": (PARTS, lambda e, *parts: pooled_parts(e, *parts, strides=(1, 1)), ["Concat", *POOL]),
    "pool of channels first": (
        PARTS,
        lambda e, *parts: pooled_parts(e, *parts, data_format="NCX"),
        ["Concat", "StaticTranspose", *POOL, "StaticTranspose"],
    ),
    "convolution of two parts": (
        [(1, 4, 4, 5), (1, 4, 4, 4)],
        lambda e, *parts: beside(e, 3, *parts),
        ["Convolution", "Convolution", "Add"],
    ),
    "convolution of two parts with a bias": (
        [(1, 4, 4, 5), (1, 4, 4, 4)],
        lambda e, *parts: beside(e, 3, *parts, bias=True),
        ["Convolution", "Convolution", "Add"],
    ),
    "convolution of two parts of last axes": (
        [(1, 4, 4, 5), (1, 4, 4, 4)],
        lambda e, *parts: beside(e, 3, *parts, axis=-1),
        ["Convolution", "Convolution", "Add"],
    ),
    "convolution to more channels": (
        [(1, 4, 4, 5), (1, 4, 4, 4)],
        lambda e, *parts: beside(e, 4, *parts),
        ["Concat", *CONV],
    ),
    "convolution of three parts": ([(1, 4, 4, 4)] * 3, lambda e, *parts: beside(e, 3, *parts), ["Concat", *CONV]),
    "convolution of two images": (
        [(1, 2, 4, 9), (1, 2, 4, 9)],
        lambda e, *parts: beside(e, 3, *parts, axis=1),
        ["Concat", *CONV],
    ),
    "convolution by steps of two parts": (
        [(1, 4, 4, 5), (1, 4, 4, 4)],
        lambda e, *parts: beside(e, 3, *parts, strides=[2, 1]),
        ["Concat", *CONV],
    ),
    "convolution of two padded parts": (
        [(1, 4, 4, 5), (1, 4, 4, 4)],
        lambda e, *parts: beside(e, 3, *parts, pads_end=[0, 1]),
        ["Concat", *CONV],
    ),
    "convolution of two parts in groups": (
        [(1, 4, 4, 5), (1, 4, 4, 4)],
        lambda e, *parts: beside(e, 3, *parts, groups=3),
        ["Concat", *CONV],
    ),
    "convolution of two parts by windows": (
        [(1, 4, 4, 5), (1, 4, 4, 4)],
        lambda e, *parts: beside(e, 3, *parts, window=(1, 2)),
        ["Concat", *CONV],
    ),
    "convolution of enlarged images": ([(1, 4, 4, 6)], lambda e, x: enlarged(e, x, 6), [*CONV, "Interpolate"]),
    "convolution of one enlarged axis": (
        [(1, 4, 4, 6)],
        lambda e, x: enlarged(e, x, 6, (8, 4)),
        [*CONV, "Interpolate"],
    ),
    "convolution of enlarged images to more": ([(1, 4, 4, 6)], lambda e, x: enlarged(e, x, 7), ["Interpolate", *CONV]),
    "convolution of images of one size": (
        [(1, 4, 4, 6)],
        lambda e, x: enlarged(e, x, 6, (4, 4)),
        ["Interpolate", *CONV],
    ),
    "convolution of smaller images": ([(1, 4, 4, 6)], lambda e, x: enlarged(e, x, 6, (2, 4)), ["Interpolate", *CONV]),
    "convolution of linear images": (
        [(1, 4, 4, 6)],
        lambda e, x: enlarged(e, x, 6, mode="linear"),
        ["Interpolate", *CONV],
    ),
    "convolution of enlarged images by windows": (
        [(1, 4, 4, 6)],
        lambda e, x: enlarged(e, x, 6, window=(2, 1)),
        ["Interpolate", *CONV],
    ),
    "bags": ([TABLE, INDICES], bags, AT_ONCE),
    "bags that are reshaped": ([TABLE, INDICES], lambda e, *x: bags(e, *x, keep=False), AT_ONCE),
    "bags with a gap": ([TABLE, INDICES], lambda e, *x: bags(e, *x, places=((0, 1), (2, 3))), None),
    "bags of two sizes": ([TABLE, INDICES], lambda e, *x: bags(e, *x, places=((0, 1), (1, 3))), None),
    "bags of two kinds": ([TABLE, INDICES], lambda e, *x: bags(e, *x, kinds=("ReduceSum", "ReduceMax")), None),
    "bags of no rows": ([TABLE, INDICES], lambda e, *x: bags(e, *x, places=((1, 1), (1, 1))), None),
    "bags by steps": ([TABLE, INDICES], lambda e, *x: bags(e, *x, steps=2), None),
    "bags without steps": ([TABLE, INDICES], lambda e, *x: bags(e, *x, steps=0), AT_ONCE),
    "bags from an unknown place": ([TABLE, INDICES, ("s64", (1,))], bags, None),
    "bags of columns": ([TABLE, INDICES], lambda e, *x: bags(e, *x, axes=(1, 0)), None),
    "bags of a long table": ([(5, 3, 2), INDICES], bags, AT_ONCE),
    "bags of all indices": ([TABLE, INDICES], lambda e, *x: bags(e, *x, places=((0, 2), (2, 9))), AT_ONCE),
    "one bag": ([TABLE, INDICES], lambda e, *x: bags(e, *x, places=((1, 3),)), None),
    "norm before a product": ([(5, 4)], lambda e, x: by_weights(e, normal(e, x)), ["MatMul"]),
    "norm of columns before a product": ([(5, 4)], lambda e, x: by_weights(e, normal(e, x, "NCX")), ["MatMul"]),
    "norm of rows before a product": ([X], lambda e, x: by_weights(e, normal(e, x), transpose_b=True), ["MatMul"]),
    "norm before a turned product": (
        [(5, 4)],
        lambda e, x: e.op("MatMul", [normal(e, x), weights_of(5, 3)], {"transpose_a": True}),
        None,
    ),
    "norm by an unknown vector before a product": (
        [(5, 4), (4,)],
        lambda e, x, y: by_weights(e, normal(e, x, unknown=y)),
        None,
    ),
    "norm behind a product": ([(5, 4)], lambda e, x: normal(e, by_weights(e, x)), ["MatMul", "Add"]),
    "norm behind a turned product": (
        [(5, 4)],
        lambda e, x: normal(e, by_weights(e, x, transpose_b=True)),
        ["MatMul", "Add"],
    ),
    "norm of columns behind a product": ([(5, 4)], lambda e, x: normal(e, by_weights(e, x), "NCX"), ["MatMul", "Add"]),
    "norm of rows behind a product": ([X], lambda e, x: normal(e, by_weights(e, x)), ["MatMul", "Add"]),
    "norm behind a product and a sum": (
        [(5, 4)],
        lambda e, x: normal(e, el.add(e, by_weights(e, x), weights_of(3))),
        ["MatMul", "Add"],
    ),
    "norm behind a product and a row": (
        [(5, 4)],
        lambda e, x: normal(e, el.add(e, by_weights(e, x), weights_of(1, 3))),
        None,
    ),
    "norm by an unknown vector behind a product": (
        [(5, 4), (3,)],
        lambda e, x, y: normal(e, by_weights(e, x), unknown=y),
        None,
    ),
    "branches": (PLAIN_IMAGE, branches, CONV),
    "branches of norms": (PLAIN_IMAGE, lambda e, x: branches(e, x, normal, normal), CONV),
    "branches of one norm": (PLAIN_IMAGE, lambda e, x: branches(e, x, normal), CONV),
    "branch of the image": (PLAIN_IMAGE, lambda e, x: branches(e, x, other=normal(e, x)), CONV),
    "branch of a norm of channels first": (
        [(1, 3, 4, 3)],
        lambda e, x: branches(e, x, other=normal(e, x, "NCX")),
        ["StaticTranspose", "BatchNormInference", "StaticTranspose", *CONV, "Add"],
    ),
    "branches of an unknown norm": (
        [*PLAIN_IMAGE, (3,)],
        lambda e, x, y: branches(e, x, lambda e, one: normal(e, one, unknown=y)),
        None,
    ),
    "branches of two images": (
        PLAIN_IMAGE * 2,
        lambda e, x, y: branches(e, x, other=pointwise(e, y, 3, 3)),
        None,
    ),
    "branches by steps": (PLAIN_IMAGE, lambda e, x: branches(e, x, strides=[2, 2]), CONV),
    "branches and padding of their own": (PLAIN_IMAGE, lambda e, x: branches(e, x, auto_pad="SAME_UPPER"), None),
    "join of transposes": ([(3, 3, 3)] * 2, lambda e, *x: in_order(e, [TURN] * 2, *x), ["Concat", "StaticTranspose"]),
    "join of transposes along the last axis": (
        [(3, 3, 3)] * 2,
        lambda e, *x: in_order(e, [TURN] * 2, *x, axis=-1),
        ["Concat", "StaticTranspose"],
    ),
    "join of two orders": ([(3, 3, 3)] * 2, lambda e, *x: in_order(e, [TURN, (2, 1, 0)], *x), None),
    "join of a transpose and a tensor": ([(3, 3, 3)] * 2, lambda e, *x: in_order(e, [TURN, None], *x), None),
    "softmax of a transpose": (
        [X],
        lambda e, x: e.op("SoftMax", [mv.transpose(e, x, TURN)], {"axis": 1}),
        ["SoftMax", "StaticTranspose"],
    ),
    "softmax of a transpose along the last axis": (
        [X],
        lambda e, x: e.op("SoftMax", [mv.transpose(e, x, TURN)], {"axis": 2}),
        None,
    ),
    "softmax of a transpose with its statistics": (
        [X],
        lambda e, x: el.add(e, *e.ends("SoftMax", [mv.transpose(e, x, TURN)], {"axis": 1}, outputs=["dst", "stats"])),
        None,
    ),
    "matrix of two vectors": (
        [(2,), (2,)],
        lambda e, x, y: e.op(
            "StaticReshape", [e.op("Concat", [x, y], {"axis": 0})], {"shape": [2, 2], "special_zero": False}
        ),
        None,
    ),
    "turned halves": (HEADS, turned_pairs, ["Rotary"]),
    "turned halves along the named axis": (HEADS, lambda e, x: turned_pairs(e, x, axis=3), ["Rotary"]),
    "turned halves of an odd number": ([(1, 2, 3, 5)], turned_pairs, None),
    "halves turned back": (HEADS, lambda e, x: turned_pairs(e, x, sign=1.0), None),
    "neighbours instead of halves": (HEADS, lambda e, x: turned_pairs(e, x, near=True), None),
    "halves by one angle": (HEADS, lambda e, x: turned_pairs(e, x, whole=False), ["Rotary"]),
    "halves by one angle, mixed": (HEADS, lambda e, x: turned_pairs(e, x, whole=False, own=1), None),
    "neighbours by one angle, joined": (HEADS, lambda e, x: turned_pairs(e, x, near=True, whole=False), None),
    "codes": ([CODED], in_codes, ["PackedMatMul"]),
    "codes in columns": ([CODED], lambda e, x: in_codes(e, x, turned=True), ["PackedMatMul"]),
    "codes with a bias": ([CODED], lambda e, x: in_codes(e, x, bias=True), ["PackedMatMul", "Add"]),
    "codes without a sign": ([CODED], lambda e, x: in_codes(e, x, limits=(0, 16), points=7), ["PackedMatMul"]),
    "codes of one block": ([CODED], lambda e, x: in_codes(e, x, block=32), ["PackedMatMul"]),
    "codes of short blocks": ([CODED], lambda e, x: in_codes(e, x, block=8), None),
    "depthwise scales": ([PIXELS], depthwise, CODED_CONV),
    "depthwise scales of both": ([PIXELS], lambda e, x: depthwise(e, x, own=4), CODED_CONV),
    "depthwise scales of last axes": ([PIXELS], lambda e, x: depthwise(e, x, axis=-1), CODED_CONV),
    "depthwise scales of rows": ([IN_ROWS], lambda e, x: depthwise(e, x, axis=1), CODED_CONV),
    "depthwise scales of two codes of zero": ([PIXELS], lambda e, x: depthwise(e, x, zps=(1, 1, 1, 2)), CODED_CONV),
    "depthwise scale": ([PIXELS], lambda e, x: depthwise(e, x, scales=(0.5,), zps=(1,)), CODED_CONV),
    "codes in rows": ([CODED], lambda e, x: in_codes(e, x, axis=0), None),
}


def built(case, *, with_patterns):
    shapes, add, _ = CASES[case]
    graph = og.Graph()
    emit = Emitter(graph, REWRITES if with_patterns else None)
    types = [end if type(end[0]) is str else (og.f32, end) for end in shapes]
    graph.output("y", emit.tensor(add(emit, *[graph.input(f"x{n}", *one) for n, one in enumerate(types)])))
    return graph


def rewritten(graph):
    """The graph as a front end adds it, with patterns."""
    made, values = og.Graph(), {}
    emit = Emitter(made, REWRITES)
    for name, tensor in graph.inputs.items():
        values[tensor.id] = made.input(name, tensor.dtype, tensor.shape)
    for op in graph.ops:
        given = [one if one is None else values.get(one.id, one.value) for one in op.inputs]
        results = emit.ends(op.kind, given, op.attrs, edition=op.edition)
        values.update((one.id, result) for one, result in zip(op.outputs, results, strict=False))
    for name, tensor in graph.outputs.items():
        made.output(name, emit.tensor(values[tensor.id]))
    return without_unread(made)


@pytest.mark.parametrize("case", CASES)
def test_patterns_keep_the_numbers(case):
    shapes, _, expected = CASES[case]
    plain, found = (built(case, with_patterns=flag) for flag in (False, True))
    draw = some_nan if "NaN" in case else drawn
    given = {
        f"x{number}": counted(*shape) if type(shape[0]) is str else 3 * draw(*shape)
        for number, shape in enumerate(shapes)
    }
    if "infinities" in case:
        given["x0"][0, 1] = -INF
    with np.errstate(all="ignore"):
        results = [reference.run(graph, given)["y"] for graph in (plain, found)]
    np.testing.assert_allclose(results[1].astype(np.float64), results[0].astype(np.float64), rtol=2e-4, atol=2e-4)
    left = [op.kind for op in without_unread(found).ops]
    if expected is None:
        assert left == [op.kind for op in without_unread(plain).ops]
    else:
        assert left == expected
