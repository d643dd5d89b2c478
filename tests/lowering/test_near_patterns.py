"""Patterns and what lies beside them: the ops that are left, and the numbers of the same ops without patterns."""

import math

import numpy as np
import pytest
from helpers.grouped import grouped

import onegraph as og
from onegraph import reference
from onegraph.lowering import elementwise as el
from onegraph.lowering import movement as mv
from onegraph.lowering.emitter import Emitter
from onegraph.lowering.norms import group_norm
from onegraph.lowering.patterns import REWRITES
from onegraph.lowering.patterns.table import TYPED
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


ONE = {"scales": [1.0], "zps": [0], "qtype": "per_tensor"}
STEP = {"step": 0.5, "low": -8.0, "high": 7.0}


def recoded(e, x, dtype="u8", shape=None, both=None, move=None, **more):
    """Codes as numbers, perhaps in another shape or moved, and as codes again."""
    form = ONE if both is None else both
    real = e.op("Dequantize", [x], form)
    real = real if shape is None else e.op("StaticReshape", [real], {"shape": shape, "special_zero": True})
    real = real if move is None else move(e, real)
    return e.op("Quantize", [real], form | more, dtype=mv.DataType.of(dtype))


def stepped(e, x, **more):
    """Numbers rounded to steps, moved, and rounded again."""
    moved = mv.transpose(e, e.op("FakeQuantize", [x], STEP), (0, 2, 1))
    return e.op("FakeQuantize", [moved], STEP | more)


def coded(e, shape=(4, 5), dtype=np.int8, own=0, zps=None, axis=1):
    """Known codes as numbers, with a scale for each index of an axis if ``own`` is their number."""
    attrs = {"scales": [0.5, 1.0, 2.0, 0.25, 4.0][: own or 1], "qtype": "per_channel" if own else "per_tensor"}
    attrs |= {"axis": axis} if own else {}
    attrs |= {"zps": [*zps]} if zps else {}
    codes = (np.arange(math.prod(shape)) * 5 % 17).reshape(shape).astype(dtype)
    return e.op("Dequantize", [codes], attrs)


def by_scale(e, x, scale, *more, weights=None, bias=False, qtype="per_tensor", turned=False, **attrs):
    """A product of codes, with a scale and zero point that a run computes, by known codes."""
    real = e.op(
        "DynamicDequantize", [x, scale, *more], {"qtype": qtype, **({} if qtype == "per_tensor" else {"axis": 1})}
    )
    ends = [real, coded(e) if weights is None else weights(e), *([np.ones(5, np.float32)] if bias else [])]
    return e.op("MatMul", ends, {**({"transpose_b": True} if turned else {}), **attrs})


def by_zeros(e, x, weights, left=(1,), **attrs):
    """A product of codes by codes with zero points."""
    form = {"scales": [0.5, 0.25][: len(left) or 1], "qtype": "per_channel", "axis": 0} if len(left) > 1 else ONE
    form = {**form, "zps": [*left]} if left else {key: one for key, one in ONE.items() if key != "zps"}
    real = e.op("Dequantize", [x], form) if x.dtype is not og.f32 else x
    return e.op("MatMul", [real, weights], attrs)


def packed(
    e, x, shape=(6, 32), dtype="s4", group=(1, 16), qtype="per_group", points=None, bias=None, move=None, **attrs
):
    """A product by known codes in groups."""
    rng = np.random.default_rng(4)
    codes = rng.integers(-8, 8, shape).astype(mv.DataType.of(dtype).numpy)
    groups = [size // part for size, part in zip(shape[-2:], group, strict=True)]
    scale = rng.uniform(0.1, 0.2, (*shape[:-2], *groups) if qtype == "per_group" else shape[:1]).astype(np.float32)
    form = {"group_shape": [*[1] * (len(shape) - 2), *group]} if qtype == "per_group" else {"axis": 0}
    real = e.op("DynamicDequantize", [codes, scale, *([] if points is None else [points])], {"qtype": qtype, **form})
    real = real if move is None else move(e, real)
    return e.op("MatMul", [x, real, *([] if bias is None else [bias])], {"transpose_b": True, **attrs})


def points_of(dtype, most=4):
    """Zero points for six rows of two groups."""
    return (np.arange(12).reshape(6, 2) % (most + 1)).astype(mv.DataType.of(dtype).numpy)


def small_convolution(e, x, weights, form="NXC", weights_format="OIX", groups=1, bias=None):
    attrs = {**PLAIN, "weights_format": weights_format, "groups": groups, "data_format": form}
    attrs = {name: one for name, one in attrs.items() if one is not None}
    return e.op("Convolution", [x, weights, *([] if bias is None else [bias])], attrs)


def sharing(e, x, rows, source):
    """A product by turned codes whose rows, or those of another table, are gathered too."""
    real = coded(e, (5, 4))
    picked = e.op("Gather", [source(real), rows], {"axis": 0})
    product = e.op("MatMul", [x, mv.transpose(e, real, (1, 0))])
    return el.add(e, product, reduce(e, "ReduceSum", picked, [0, 1], False))


def of_pixels(e, x, **more):
    return e.op("Dequantize", [x], {**ONE, **more}) if x.dtype is not og.f32 else x


BARE = {"epsilon": 1e-3, "use_affine": False, "keep_stats": False}


def averaged(e, x, axes=(2,), keep=True):
    """A mean along known axes, or along those of an array."""
    ends, attrs = ([x], {"axes": [*axes]}) if type(axes) is tuple else ([x, axes], {})
    return e.op("ReduceMean", ends, {**attrs, "keep_dims": keep}, edition=None if attrs else "onednn-3.13")


def normed(e, x, epsilon=0.01, axes=(2,), keep=True, square=None, root=None):
    """An RMSNorm or a LayerNorm, op by op."""
    squares = el.unary(e, "Square", x) if square is None else square(e, x)
    mean = averaged(e, squares, axes, keep)
    sums = e.op("Add", [mean, epsilon if isinstance(epsilon, og.LogicalTensor) else np.full(1, epsilon, np.float32)])
    if not keep:
        sums = mv.unsqueeze(e, sums, [2])
    roots = el.unary(e, "Sqrt", sums)
    return e.op("Divide", [x, roots]) if root is None else e.op("Multiply", [x, root(e, roots)])


def affine(e, x, gamma=None, beta=None):
    gamma, beta = (weights_of(x.shape[-1]) if one is None else one for one in (gamma, beta))
    return e.op("Add", [e.op("Multiply", [x, gamma]), beta])


def grouped_norm(e, x, rows, groups=None, back=None, gamma=None):
    """A GroupNorm of an image whose groups are its channels meanwhile."""
    groups = rows[1] if groups is None else groups
    inner = e.op("StaticReshape", [x], {"shape": [*rows], "special_zero": True})
    vectors = weights_of(rows[1]) if gamma is None else gamma, weights_of(rows[1])
    normal_rows = group_norm(e, inner, *vectors, groups, 1e-3)
    return e.op("StaticReshape", [normal_rows], {"shape": [*(x.shape if back is None else back)], "special_zero": True})


def ones_norm(e, x, form):
    count = x.shape[1 if form == "NCX" else -1]
    attrs = {"groups": 2, "epsilon": 1e-3, "keep_stats": False, "data_format": form}
    return e.op("GroupNorm", [x, np.ones(count, np.float32), np.zeros(count, np.float32)], attrs)


def unknown_normal(e, x):
    """A normalization of images of an unknown rank, whose three channels are first."""
    vectors = [weights_of(3) ** 2 + 0.5 for _ in range(4)]
    return e.op("BatchNormInference", [x, *vectors], {"epsilon": 1e-3, "data_format": "NCX"})


def windowed(e, x, *forms):
    """The sum of two convolutions with windows of (padding before, after, size, distance or else 2) along an axis."""
    sums = []
    for begin, end, *sizes in (one if type(one) is tuple else (0, 0, 1) for one in forms):
        size, apart = (*sizes, 2)[:2]
        attrs = {"pads_begin": [begin, 0], "pads_end": [end, 0], "dilations": [apart, 1]}
        sums.append(pointwise(e, x, 3, 3, size, 1, **attrs))
    return e.op("Add", sums)


def attended(
    e,
    query,
    key,
    value,
    mask=None,
    nan=None,
    axis=-1,
    factor=1.0,
    bias=False,
    bias_of_scores=False,
    scores=(),
    dtype=None,
    **attrs,
):
    """Attention, op by op, of turned keys."""
    dtype = query.dtype if dtype is None else dtype
    if dict(scores).get("transpose_a"):
        query = mv.transpose(e, query, (0, 1, 3, 2))
    own = [np.zeros(key.shape[-1], query.dtype.numpy)] if bias_of_scores else []
    found = e.op("MatMul", [query, key, *own], dict(scores))
    found = found if factor == 1 else el.multiply(e, found, el.filled(factor, found))
    if mask is not None:
        found = e.op("Add", [found, mask if isinstance(mask, og.LogicalTensor) else mask.astype(query.dtype.numpy)])
    shares = mv.cast(e, e.op("SoftMax", [found], {"axis": axis}), dtype)
    if nan is not None:
        shares = e.op("ReplaceNaN", [shares, el.filled(nan, shares)])
    value = mv.transpose(e, value, (0, 1, 3, 2)) if attrs.get("transpose_b") else value
    shares = mv.transpose(e, shares, (0, 1, 3, 2)) if attrs.get("transpose_a") else shares
    more = [np.ones(value.shape[-2 if attrs.get("transpose_b") else -1], value.dtype.numpy)] if bias else []
    return e.op("MatMul", [shares, value, *more], attrs)


def repeated(e, query, key, value, value_count=2, is_inner=True, nan=None, dims=None, batch=1):
    """Attention whose heads share keys and values, which an Expand repeats."""
    ends = []
    for one, count in ((key, 2), (value, value_count)):
        shape = (1, one.shape[1], 1, *one.shape[2:]) if is_inner else (1, 1, *one.shape[1:])
        wide = (batch, one.shape[1], count, *one.shape[2:]) if is_inner else (batch, count, *one.shape[1:])
        apart = e.op("Expand", [mv.reshape(e, one, shape), np.int64(wide)])
        whole = (batch, one.shape[1] * count, *one.shape[2:])
        ends.append(mv.reshape(e, apart, whole if dims is None or one is not key else (*dims[:2], *one.shape[2:])))
    return attended(e, query, mv.transpose(e, ends[0], (0, 1, 3, 2)), ends[1], nan=nan, factor=0.5)


def turned_parts(
    e, x, y=None, ends=((0, 2), (2, 4)), along=3, joined=3, angles=(1, 1, 3, 4), sines=None, dtype=og.f32, table=None
):
    """The numbers of pairs turned by angles, of which the last part comes first, as its negative."""
    sources = [x] * (len(ends) - 1) + [x if y is None else y]
    parts = [mv.slice_(e, one, [start], [end], [along]) for one, (start, end) in zip(sources, ends, strict=True)]
    pairs = e.op("Concat", [el.multiply(e, parts[-1], f(-1)), *parts[:-1]], {"axis": joined})
    if x.shape is not None and None not in x.shape:
        angles = (*angles[:-2], x.shape[2], x.shape[3]) if angles == (1, 1, 3, 4) else angles
    cos = weights_of(*angles).astype(dtype.numpy) if table is None else table
    sin = weights_of(*(angles if sines is None else sines)).astype(dtype.numpy) if table is None else table
    return e.op("Add", [e.op("Multiply", [x, cos]), e.op("Multiply", [pairs, sin])])


def neighbours(e, x, count=2, shape=None, whole=True):
    """Neighbours turned by angles: the second numbers of all pairs, negative, and the first ones, which are stacked."""
    first, second = (mv.slice_(e, x, [start], [2**31], [-1], [2]) for start in (0, 1))
    cos, sin = (weights_of(4 if whole else 2) for _ in range(2))
    cos, sin = (
        mv.reshape(e, one, [1, 1, 1, one.size]) if x.shape is None or len(x.shape) == 4 else one for one in (cos, sin)
    )
    ends = [el.negative(e, second), first]
    if not whole:
        ends = [
            el.binary(e, "Subtract", el.multiply(e, first, cos), el.multiply(e, second, sin)),
            el.add(e, el.multiply(e, second, cos), el.multiply(e, first, sin)),
        ]
    ends = [mv.unsqueeze(e, one, [-1]) for one in (*ends, *ends)[:count]]
    stacked = e.op("Concat", ends, {"axis": -1})
    size = x.shape if shape is None else shape
    size = size if count == 2 else (*size[:-1], size[-1] // 2 * count)
    pairs = e.op("StaticReshape", [stacked], {"shape": [*size], "special_zero": True})
    if not whole or pairs.shape != x.shape:
        return pairs
    return e.op("Add", [e.op("Multiply", [x, cos]), e.op("Multiply", [pairs, sin])])


def rest_behind(e, x, start=4, end=8, first=0, step=1, other=None):
    """The first four numbers turned, and others behind them."""
    angles = [weights_of(1, 1, 3, 2) for _ in range(2)]
    turned = e.op(
        "Rotary", [mv.slice_(e, x, [first], [first + 4], [3]), *angles], {"interleaved": False, "whole": False}
    )
    rest = mv.slice_(e, x if other is None else other, [start], [end], [3], [step])
    return e.op("Concat", [turned, rest], {"axis": 3})


def parts_of(e, x, *ends, axis=2, step=1):
    return [mv.slice_(e, x, starts, [end], [axis], [step]) for start, end in ends for starts in [[start]]]


def side_by_side(e, x, *ends, axes=(2, 2), step=None):
    """Slices that are joined; without axes, those of the first one."""
    parts = []
    for place, (start, end) in enumerate(ends):
        axis = 0 if axes is None else axes[min(place, 1)]
        cut = [start if isinstance(start, og.LogicalTensor) else np.int64([start]), np.int64([end])]
        if axes is not None:
            cut.append(axis if isinstance(axis, og.LogicalTensor) else np.int64([axis]))
        parts.append(e.op("Slice", [x, *cut, *([] if step is None else [np.int64([step])])]))
    return e.op("Concat", parts, {"axis": 0 if axes is None else 2})


def gathered(e, x, rows):
    return e.op("Gather", [x, np.array(rows, np.int64)], {"axis": 1})


def elements(e, x, places, axis=1, last=0):
    return e.op("GatherElements", [x, np.array(places, np.int64) - last], {"axis": axis})


def viewed(e, x, *shapes):
    for shape in shapes:
        x = e.op("StaticReshape", [x], {"shape": [*shape], "special_zero": False})
    return x


def joined_axes(e, x, order, shape, second):
    turned = e.op("StaticTranspose", [x], {"order": [*order]})
    whole = e.op("StaticReshape", [turned], {"shape": shape, "special_zero": 0 not in x.shape})
    return e.op("StaticTranspose", [whole], {"order": [*second]})


def sloped(e, x, slope, per_channel=False):
    attrs = {"data_format": "NXC" if not per_channel else "NCX", "per_channel_broadcast": per_channel}
    return e.op("PReLU", [mv.transpose(e, x, TURN), slope], attrs)


def around(e, x, number=None, pads=(0, 1, 0, 0, 0, 0, 0, 0), mode="constant"):
    """A convolution of an image that a Pad has made larger."""
    pads = np.array(pads, np.int64) if type(pads) is tuple else pads
    larger = e.op("Pad", [x, pads, *([] if number is None else [number])], {"mode": mode})
    return e.op("Convolution", [larger, KERNEL], WINDOW)


def flat(e, x):
    """The batches and the heads as one axis."""
    return e.op("StaticReshape", [x], {"shape": [6, *x.shape[2:]], "special_zero": False})


def two_bags(e, table, indices, second_table, second_indices, axis=0):
    return e.op(
        "Concat",
        [bags(e, table, indices, places=((0, 2),)), bags(e, second_table, second_indices, places=((2, 4),))],
        {"axis": axis},
    )


HEADS16 = [("f16", (1, 2, 4, 5)), ("f16", (1, 2, 5, 4)), ("f16", (1, 2, 4, 3))]
REPEATED = [(1, 4, 4, 5), (1, 2, 4, 5), (1, 2, 4, 3)]


U8, ROWS8, GROUPED = np.uint8, ("u8", (2, 3, 4)), ("u8", (1, 5, 5, 4))
CHANNELS_FIRST = ("u8", None, (1, 4, 5, 5))
BY_CHANNEL = {"scales": [0.5, 0.25, 1.0, 2.0], "zps": [1] * 4, "qtype": "per_channel"}
# Further cases, by name: the inputs and what is added. The record of graphs has the ops that are left.
BESIDE = {
    "codes of another type": ([ROWS8], lambda e, x: recoded(e, x, "s8")),
    "codes of another type in another shape": ([ROWS8], lambda e, x: recoded(e, x, "s8", [6, 4])),
    "codes of another scale": ([ROWS8], lambda e, x: recoded(e, x, scales=[0.5])),
    "codes of one unknown size": ([("u8", (None, 4), (3, 4))], lambda e, x: recoded(e, x, shape=[0, 2, 2])),
    "codes of two unknown sizes": (
        [("u8", (None, None, 4), (2, 3, 4))],
        lambda e, x: recoded(e, x, shape=[0, 0, 2, 2]),
    ),
    "known codes": ([X], lambda e, x: e.op("Equal", [recoded(e, np.zeros((2, 3, 4), U8)), np.zeros(1, U8)])),
    "steps twice": ([X], stepped),
    "other steps": ([X], lambda e, x: stepped(e, x, step=0.25)),
    "changing scale": ([ROWS8, (1,)], by_scale),
    "changing scale and zero point": ([ROWS8, (1,), ("u8", (1,))], by_scale),
    "changing scale and a bias": ([ROWS8, (1,)], lambda e, *x: by_scale(e, *x, bias=True)),
    "changing scale of numbers": ([ROWS8, (1,), (4, 5)], lambda e, x, s, y: by_scale(e, x, s, weights=lambda e: y)),
    "changing scale of columns": ([("u8", (4, 3)), (1,)], lambda e, *x: by_scale(e, *x, transpose_a=True)),
    "changing scales": ([("u8", (2, 4)), (4,)], lambda e, *x: by_scale(e, *x, qtype="per_channel")),
    "changing scale of a row": ([("u8", (4,)), (1,)], by_scale),
    "changing scale by a column": ([ROWS8, (1,)], lambda e, *x: by_scale(e, *x, weights=lambda e: coded(e, (4,)))),
    "changing scale by rows": (
        [ROWS8, (1,)],
        lambda e, *x: by_scale(e, *x, weights=lambda e: coded(e, (5, 4)), turned=True),
    ),
    "changing scale by scaled rows": (
        [ROWS8, (1,)],
        lambda e, *x: by_scale(e, *x, weights=lambda e: coded(e, (5, 4), own=5, axis=0), turned=True),
    ),
    "changing scale by scaled columns": (
        [ROWS8, (1,)],
        lambda e, *x: by_scale(e, *x, weights=lambda e: coded(e, own=5, zps=(1, 0, 2, 3, 4))),
    ),
    "changing scale by a scaled depth": (
        [ROWS8, (1,)],
        lambda e, *x: by_scale(e, *x, weights=lambda e: coded(e, own=4, axis=0)),
    ),
    "zeros of columns": ([ROWS8], lambda e, x: by_zeros(e, x, coded(e, own=5, zps=(1, 0, 1, 0, 1)))),
    "zeros of u8 columns": ([ROWS8], lambda e, x: by_zeros(e, x, coded(e, dtype=U8, own=5, zps=(1, 0, 1, 0, 1)), ())),
    "zeros of columns and none of rows": (
        [ROWS8],
        lambda e, x: by_zeros(e, x, coded(e, own=5, zps=(1, 0, 1, 2, 1)), (0,)),
    ),
    "zeros of turned columns": (
        [ROWS8],
        lambda e, x: by_zeros(e, x, coded(e, (5, 4), own=5, zps=(1, 0, 1, 0, 1), axis=0), transpose_b=True),
    ),
    "zeros of rows": ([ROWS8], lambda e, x: by_zeros(e, x, coded(e, own=4, zps=(1, 0, 2, 3), axis=0))),
    "zeros of columns for scaled rows": (
        [("u8", (2, 4))],
        lambda e, x: by_zeros(e, x, coded(e, own=5, zps=(1, 0, 2, 3, 4)), (1, 2)),
    ),
    "zeros of columns for a row": ([("u8", (4,))], lambda e, x: by_zeros(e, x, coded(e, own=5, zps=(1, 0, 1, 0, 1)))),
    "zeros of columns for rows of an unknown rank": (
        [("u8", None, (2, 4))],
        lambda e, x: by_zeros(e, x, coded(e, own=5, zps=(1, 0, 1, 0, 1))),
    ),
    "zeros of columns for turned rows": (
        [("u8", (4, 3))],
        lambda e, x: by_zeros(e, x, coded(e, own=5, zps=(1, 0, 1, 0, 1)), transpose_a=True),
    ),
    "zeros of unknown columns": ([ROWS8, (4, 5)], by_zeros),
    "zeros of batches of columns": (
        [ROWS8],
        lambda e, x: by_zeros(e, x, coded(e, (2, 4, 5), own=5, zps=(1, 0, 1, 0, 1), axis=2)),
    ),
    "codes in groups": ([CODED], packed),
    "codes of 8 bits in groups": ([CODED], lambda e, x: packed(e, x, dtype="s8")),
    "codes in groups of rows": ([CODED], lambda e, x: packed(e, x, group=(2, 16))),
    "codes in batches of groups": ([CODED], lambda e, x: packed(e, x, (2, 6, 32))),
    "codes in channels": ([CODED], lambda e, x: packed(e, x, qtype="per_channel")),
    "codes in groups, of columns": ([(2, 32, 3)], lambda e, x: packed(e, x, transpose_a=True)),
    "codes in groups with unknown points": ([CODED, ("s4", (6, 2))], lambda e, x, y: packed(e, x, points=y)),
    "signed weights": ([GROUPED], lambda e, x: small_convolution(e, of_pixels(e, x), coded(e, (4, 4, 1, 2), U8))),
    "signed weights of numbers": ([(1, 5, 5, 4)], lambda e, x: small_convolution(e, x, coded(e, (4, 4, 1, 2), U8))),
    "weights that are signed": ([GROUPED], lambda e, x: small_convolution(e, of_pixels(e, x), coded(e, (4, 4, 1, 2)))),
    "signed weights, inputs last": (
        [GROUPED],
        lambda e, x: small_convolution(e, of_pixels(e, x), coded(e, (1, 2, 4, 4), U8), weights_format="XIO"),
    ),
    "signed weights of inputs": (
        [GROUPED],
        lambda e, x: small_convolution(e, of_pixels(e, x), coded(e, (4, 4, 1, 2), U8, own=4)),
    ),
    "signed weights of outputs": (
        [GROUPED],
        lambda e, x: small_convolution(e, of_pixels(e, x), coded(e, (2, 4, 1, 2), U8, own=2, zps=(3, 128), axis=0)),
    ),
    "signed weights without zeros": (
        [GROUPED],
        lambda e, x: small_convolution(e, of_pixels(e, x), coded(e, (4, 4, 1, 2), U8, zps=(128,))),
    ),
    "signed weights of groups": (
        [GROUPED],
        lambda e, x: small_convolution(e, of_pixels(e, x), coded(e, (4, 2, 1, 2), U8), groups=2),
    ),
    "signed weights of unknown images": (
        [CHANNELS_FIRST],
        lambda e, x: small_convolution(
            e, of_pixels(e, x), coded(e, (4, 4, 1, 2), U8, own=4, zps=(1, 2, 3, 4), axis=0), "NCX"
        ),
    ),
    "scales of channels of one group": (
        [GROUPED],
        lambda e, x: small_convolution(e, of_pixels(e, x, **BY_CHANNEL, axis=3), coded(e, (4, 4, 1, 2))),
    ),
    "scales of channels, inputs last": (
        [GROUPED],
        lambda e, x: small_convolution(
            e, of_pixels(e, x, **BY_CHANNEL, axis=3), coded(e, (1, 2, 1, 4)), weights_format="XIO", groups=4
        ),
    ),
    "scales of channels by numbers": (
        [GROUPED, (4, 1, 1, 2)],
        lambda e, x, y: small_convolution(e, of_pixels(e, x, **BY_CHANNEL, axis=3), y, groups=4),
    ),
    "scales of channels by scaled elements": (
        [GROUPED],
        lambda e, x: small_convolution(
            e, of_pixels(e, x, **BY_CHANNEL, axis=3), coded(e, (4, 1, 1, 2), own=2, axis=3), groups=4
        ),
    ),
    "scales of channels first": (
        [CHANNELS_FIRST],
        lambda e, x: small_convolution(
            e, of_pixels(e, x, **BY_CHANNEL, axis=1), coded(e, (8, 1, 1, 2)), "NCX", groups=4
        ),
    ),
    "turned weights": ([(3, 4)], lambda e, x: e.op("MatMul", [x, mv.transpose(e, coded(e, (5, 4)), (1, 0))])),
    "turned weights of channels": (
        [(3, 4)],
        lambda e, x: e.op("MatMul", [x, mv.transpose(e, coded(e, (5, 4), own=5, axis=-2), (1, 0))]),
    ),
    "turned codes of an input": ([("u8", (5, 4))], lambda e, x: mv.transpose(e, of_pixels(e, x), (1, 0))),
    "codes of channels": ([ROWS8], lambda e, x: recoded(e, x, both=BY_CHANNEL | {"axis": 2})),
    "codes of channels in another shape": (
        [ROWS8],
        lambda e, x: recoded(e, x, shape=[1, 6, 4], both=BY_CHANNEL | {"axis": 2}),
    ),
    "codes without a scheme": ([ROWS8], lambda e, x: recoded(e, x, both={"scales": [1.0], "zps": [0]})),
    "codes of floats": ([X], lambda e, x: e.op("Quantize", [mv.reshape(e, x, [6, 4])], ONE, dtype=og.u8)),
    "codes turned": ([ROWS8], lambda e, x: recoded(e, x, move=lambda e, y: mv.transpose(e, y, (0, 2, 1)))),
    "codes joined": (
        [ROWS8],
        lambda e, x: recoded(e, x, move=lambda e, y: e.op("Concat", [y, of_pixels(e, x)], {"axis": 1})),
    ),
    "codes joined with floats": (
        [ROWS8, X],
        lambda e, x, z: recoded(e, x, move=lambda e, y: e.op("Concat", [y, z], {"axis": 1})),
    ),
    "codes joined with those of another scale": (
        [ROWS8],
        lambda e, x: recoded(e, x, move=lambda e, y: e.op("Concat", [y, of_pixels(e, x, scales=[2.0])], {"axis": 1})),
    ),
    "steps twice, moved twice": (
        [X],
        lambda e, x: e.op(
            "FakeQuantize", [mv.reshape(e, mv.transpose(e, e.op("FakeQuantize", [x], STEP), (0, 2, 1)), [6, 4])], STEP
        ),
    ),
    "steps of sums": (
        [X],
        lambda e, x: e.op("FakeQuantize", [el.add(e, e.op("FakeQuantize", [x], STEP), f(0.25))], STEP),
    ),
    "changing scale by batches": ([ROWS8, (1,)], lambda e, *x: by_scale(e, *x, weights=lambda e: coded(e, (2, 4, 5)))),
    "changing scale by batches of columns": (
        [ROWS8, (1,)],
        lambda e, *x: by_scale(e, *x, weights=lambda e: coded(e, (2, 4, 5), own=5, axis=2)),
    ),
    "changing scale by batches of last columns": (
        [ROWS8, (1,)],
        lambda e, *x: by_scale(e, *x, weights=lambda e: coded(e, (2, 4, 5), own=5, zps=(1, 0, 2, 3, 4), axis=-1)),
    ),
    "changing scale by turned batches": (
        [ROWS8, (1,)],
        lambda e, *x: by_scale(e, *x, weights=lambda e: coded(e, (2, 5, 4), own=5, axis=1), turned=True),
    ),
    "changing scale by turned batches of a depth": (
        [ROWS8, (1,)],
        lambda e, *x: by_scale(e, *x, weights=lambda e: coded(e, (2, 5, 4), own=4, axis=2), turned=True),
    ),
    "changing scale by batches of a depth": (
        [ROWS8, (1,)],
        lambda e, *x: by_scale(e, *x, weights=lambda e: coded(e, (2, 4, 5), own=4, axis=1)),
    ),
    "zeros of last columns": ([ROWS8], lambda e, x: by_zeros(e, x, coded(e, own=5, zps=(1, 0, 1, 0, 1), axis=-1))),
    "zeros of turned columns from the end": (
        [ROWS8],
        lambda e, x: by_zeros(e, x, coded(e, (5, 4), own=5, zps=(1, 0, 1, 0, 1), axis=-2), transpose_b=True),
    ),
    "zeros of turned depths": (
        [ROWS8],
        lambda e, x: by_zeros(e, x, coded(e, (5, 4), own=4, zps=(1, 0, 2, 3)), transpose_b=True),
    ),
    "zeros of columns that are alike": ([ROWS8], lambda e, x: by_zeros(e, x, coded(e, own=5, zps=(3, 3, 3, 3, 3)))),
    "zeros of columns and a bias": (
        [ROWS8],
        lambda e, x: e.op(
            "MatMul", [of_pixels(e, x, zps=[7]), coded(e, own=5, zps=(1, 0, 1, 0, 1)), np.arange(5, dtype=np.float32)]
        ),
    ),
    "codes in groups, with a bias": ([CODED], lambda e, x: packed(e, x, bias=np.arange(6, dtype=np.float32))),
    "codes in groups of 24": ([(2, 3, 48)], lambda e, x: packed(e, x, (6, 48), group=(1, 24))),
    "codes in groups of 48": ([(2, 3, 96)], lambda e, x: packed(e, x, (6, 96), group=(1, 48))),
    "codes in groups, of rows": ([(2, 3, 6)], lambda e, x: packed(e, x, transpose_b=False)),
    "codes in groups, turned": (
        [CODED],
        lambda e, x: packed(
            e, x, transpose_b=False, move=lambda e, y: e.op("StaticTranspose", [y], {"order": [-1, -2]})
        ),
    ),
    "codes in groups, turned twice": (
        [(2, 3, 6)],
        lambda e, x: packed(e, x, move=lambda e, y: e.op("StaticTranspose", [y], {"order": [1, 0]})),
    ),
    "codes in groups, moved nowhere": (
        [CODED],
        lambda e, x: packed(e, x, move=lambda e, y: e.op("StaticTranspose", [y], {"order": [0, -1]})),
    ),
    "codes in groups, as codes": (
        [("u8", (2, 3, 32))],
        lambda e, x: packed(e, of_pixels(e, x)),
    ),
    "codes in groups with points": ([CODED], lambda e, x: packed(e, x, points=points_of("s4"))),
    "codes in groups with points without a sign": ([CODED], lambda e, x: packed(e, x, points=points_of("u4"))),
    "codes in groups with points of 32 bits": ([CODED], lambda e, x: packed(e, x, points=points_of("s32"))),
    "codes in groups with large points": ([CODED], lambda e, x: packed(e, x, points=points_of("s32", 300))),
    "signed weights without a group": (
        [GROUPED],
        lambda e, x: small_convolution(e, of_pixels(e, x), coded(e, (4, 4, 1, 2), U8, zps=(3,)), groups=None),
    ),
    "signed weights of outputs, from the end": (
        [GROUPED],
        lambda e, x: small_convolution(e, of_pixels(e, x), coded(e, (2, 4, 1, 2), U8, own=2, zps=(3, 128), axis=-4)),
    ),
    "signed weights of outputs, channels first": (
        [("u8", (1, 4, 5, 5))],
        lambda e, x: small_convolution(
            e, of_pixels(e, x), coded(e, (2, 4, 1, 2), U8, own=2, zps=(3, 12), axis=0), "NCX"
        ),
    ),
    "signed weights and a bias": (
        [GROUPED],
        lambda e, x: small_convolution(e, of_pixels(e, x, zps=[2]), coded(e, (4, 4, 1, 2), U8), bias=weights_of(4)),
    ),
    "signed weights of groups with points": (
        [GROUPED],
        lambda e, x: small_convolution(
            e, of_pixels(e, x), coded(e, (4, 1, 1, 2), U8, own=4, zps=(1, 2, 3, 4), axis=0), groups=4
        ),
    ),
    "scales of channels and a bias": (
        [GROUPED],
        lambda e, x: small_convolution(
            e, of_pixels(e, x, **BY_CHANNEL, axis=-1), coded(e, (4, 1, 1, 2)), groups=4, bias=weights_of(4)
        ),
    ),
    "scales of channels in pairs": (
        [GROUPED],
        lambda e, x: small_convolution(e, of_pixels(e, x, **BY_CHANNEL, axis=3), coded(e, (2, 2, 1, 2)), groups=2),
    ),
    "scales of channels by scaled outputs": (
        [GROUPED],
        lambda e, x: small_convolution(
            e, of_pixels(e, x, **BY_CHANNEL, axis=3), coded(e, (4, 1, 1, 2), own=4, zps=(1, 0, 2, 3), axis=-4), groups=4
        ),
    ),
    "turned weights of rows": (
        [(3, 4)],
        lambda e, x: e.op("MatMul", [x, mv.transpose(e, coded(e, (5, 4), own=4, axis=1), (1, 0))]),
    ),
    "turned weights of three axes": (
        [(2, 3, 4)],
        lambda e, x: e.op("MatMul", [x, mv.transpose(e, coded(e, (5, 2, 4), own=5, axis=0), (1, 2, 0))]),
    ),
    "turned weights whose rows are gathered": (
        [(3, 4), ("s64", (2,))],
        lambda e, x, rows: sharing(e, x, rows, lambda real: real),
    ),
    "turned weights beside gathered codes": (
        [(3, 4), ("s64", (2,))],
        lambda e, x, rows: sharing(e, x, rows, lambda real: np.arange(20, dtype=np.float32).reshape(5, 4)),
    ),
    "no norm of numbers": ([X], lambda e, x: normed(e, x, epsilon=0.0)),
    "norm of small numbers": ([X], lambda e, x: normed(e, x, epsilon=1.0)),
    "norm by a cube": ([X], lambda e, x: normed(e, x, square=lambda e, x: el.unary(e, "Pow", x, {"beta": 4.0}))),
    "norm by a power": ([X], lambda e, x: normed(e, x, square=lambda e, x: el.unary(e, "Pow", x, {"beta": 2.0}))),
    "norm by a product": ([X, X], lambda e, x, y: normed(e, x, square=lambda e, x: e.op("Multiply", [x, y]))),
    "norm by a quotient": ([X], lambda e, x: normed(e, x, root=lambda e, r: el.binary(e, "Divide", f(1), r))),
    "norm by another quotient": ([X], lambda e, x: normed(e, x, root=lambda e, r: el.binary(e, "Divide", f(2), r))),
    "norm by no root": ([X], lambda e, x: el.multiply(e, x, el.unary(e, "Reciprocal", el.unary(e, "Exp", x)))),
    "norm by an unknown summand": ([X, (1,)], lambda e, x, y: normed(e, x, epsilon=y)),
    "norm without axes": ([X], lambda e, x: normed(e, x, keep=False)),
    "norm of unknown axes": ([X], lambda e, x: normed(e, x, axes=np.array([2], np.int32))),
    "norm of the first axis": ([X], lambda e, x: normed(e, x, axes=(1,))),
    "norm of two axes": ([X], lambda e, x: normed(e, x, axes=(1, 2))),
    "norm of an unknown rank": ([("f32", None, X)], normed),
    "norm of a difference": ([X], lambda e, x: normed(e, el.binary(e, "Subtract", x, averaged(e, x)))),
    "norm of a difference of two tensors": (
        [X, X],
        lambda e, x, y: normed(e, el.binary(e, "Subtract", x, averaged(e, y))),
    ),
    "norm of a difference of no mean": ([X, X], lambda e, *x: normed(e, el.binary(e, "Subtract", *x))),
    "norm of a difference along another axis": (
        [X],
        lambda e, x: normed(e, el.binary(e, "Subtract", x, averaged(e, x, (1,)))),
    ),
    "norm of a difference along two axes": (
        [X],
        lambda e, x: normed(e, el.binary(e, "Subtract", x, averaged(e, x, (1, 2))), axes=(1, 2)),
    ),
    "norm and two factors": (
        [X],
        lambda e, x: el.multiply(e, el.multiply(e, normed(e, x), weights_of(4)), weights_of(4)),
    ),
    "norm along two axes and a factor": ([X], lambda e, x: el.multiply(e, normed(e, x, axes=(1, 2)), weights_of(4))),
    "norm and a longer factor": ([X], lambda e, x: el.multiply(e, normed(e, x), weights_of(3, 4))),
    "norm, a factor and a sum": ([X], lambda e, x: affine(e, e.ends("LayerNorm", [x], BARE)[0])),
    "norm with a factor, a factor and a sum": (
        [X],
        lambda e, x: affine(e, e.ends("LayerNorm", [x, weights_of(4), weights_of(4)], {"keep_stats": False})[0]),
    ),
    "norm, a factor and a number": ([X], lambda e, x: affine(e, e.ends("LayerNorm", [x], BARE)[0], weights_of(1))),
    "norm in groups": ([(2, 4, 3)], lambda e, x: grouped_norm(e, x, (2, 2, 6))),
    "norm in groups of parts of channels": ([(2, 3, 2)], lambda e, x: grouped_norm(e, x, (2, 2, 3))),
    "norm in groups of images": ([(2, 4, 2, 3)], lambda e, x: grouped_norm(e, x, (2, 2, 2, 6))),
    "norm in groups of batches": ([(2, 4, 3)], lambda e, x: grouped_norm(e, x, (4, 2, 3))),
    "norm in fewer groups": ([(2, 4, 3)], lambda e, x: grouped_norm(e, x, (2, 4, 3), groups=2)),
    "norm in groups of another shape": ([(2, 4, 3)], lambda e, x: grouped_norm(e, x, (2, 2, 6), back=(2, 2, 6))),
    "norm in groups of no reshape": (
        [(2, 2, 6)],
        lambda e, x: e.op(
            "StaticReshape", [group_norm(e, x, None, None, 2, 1e-3)], {"shape": [2, 4, 3], "special_zero": False}
        ),
    ),
    "norm in groups by unknown factors": (
        [(2, 4, 3), (2,)],
        lambda e, x, y: grouped_norm(e, x, (2, 2, 6), gamma=y),
    ),
    "norm in groups of an unknown batch": (
        [("f32", (None, 4, 3), (2, 4, 3))],
        lambda e, x: grouped_norm(e, x, (0, 2, 6), back=(0, 4, 3)),
    ),
    "affine norm in groups": (
        [(2, 4, 3)],
        lambda e, x: affine(e, ones_norm(e, x, "NCX"), weights_of(4, 1), weights_of(4, 1)),
    ),
    "affine norm in groups, channels last": ([(2, 3, 4)], lambda e, x: affine(e, ones_norm(e, x, "NXC"))),
    "affine norm in groups of more axes": (
        [(2, 3, 4)],
        lambda e, x: affine(e, ones_norm(e, x, "NXC"), weights_of(1, 1, 1, 4), weights_of(4)),
    ),
    "affine norm in groups by all axes": (
        [(2, 3, 4)],
        lambda e, x: affine(e, ones_norm(e, x, "NXC"), weights_of(1, 1, 4), weights_of(4)),
    ),
    "affine norm in groups by unknown factors": (
        [(2, 4, 3), ("f32", None, (4, 1))],
        lambda e, x, y: affine(e, ones_norm(e, x, "NCX"), y, weights_of(4, 1)),
    ),
    "norm of halves before a product": (
        [("bf16", (5, 4))],
        lambda e, x: e.op("MatMul", [normal(e, x), weights_of(4, 3).astype(og.bf16.numpy)]),
    ),
    "norm of halves behind a product": (
        [("bf16", (5, 4))],
        lambda e, x: normal(e, e.op("MatMul", [x, weights_of(4, 3).astype(og.bf16.numpy)])),
    ),
    "product of known weights alone": ([(5, 4)], by_weights),
    "norm before a product of unknown weights": ([(5, 4), (4, 3)], lambda e, x, y: e.op("MatMul", [normal(e, x), y])),
    "norm behind a product of batches": (
        [(2, 5, 4)],
        lambda e, x: normal(e, e.op("MatMul", [x, weights_of(2, 4, 3)])),
    ),
    "norm behind a product of other columns": (
        [(5, 4)],
        lambda e, x: normal(e, e.op("StaticReshape", [by_weights(e, x, 6)], {"shape": [10, 3], "special_zero": False})),
    ),
    "norm before a convolution": ([(1, 4, 4, 3)], lambda e, x: pointwise(e, normal(e, x), 2, 3)),
    "norm before a convolution, inputs last": (
        [(1, 4, 4, 3)],
        lambda e, x: e.op("Convolution", [normal(e, x), weights_of(1, 2, 3, 2)], {**PLAIN, "weights_format": "XIO"}),
    ),
    "norm before a convolution of ends": (
        [(1, 4, 4, 3)],
        lambda e, x: pointwise(e, normal(e, x), 2, 3, pads_end=[0, 1]),
    ),
    "norm before a convolution of its own padding": (
        [(1, 4, 4, 3)],
        lambda e, x: pointwise(e, normal(e, x), 2, 3, auto_pad="SAME_UPPER"),
    ),
    "norm before a convolution of unknown images": (
        [("f32", None, (1, 3, 4, 4))],
        lambda e, x: pointwise(e, unknown_normal(e, x), 2, 3, data_format="NCX"),
    ),
    "mean of a norm": ([(1, 4, 4, 3)], lambda e, x: averaged(e, normal(e, x), (1, 2))),
    "mean of a norm without axes": ([(1, 4, 4, 3)], lambda e, x: averaged(e, normal(e, x), (0, 1, 2), False)),
    "mean of a norm along no axes": ([(1, 4, 4, 3)], lambda e, x: averaged(e, normal(e, x), ())),
    "mean of a norm along unknown axes": (
        [(1, 4, 4, 3)],
        lambda e, x: averaged(e, normal(e, x), np.array([1, 2], np.int32)),
    ),
    "mean of a norm of unknown images": (
        [("f32", None, (1, 3, 4, 4))],
        lambda e, x: averaged(e, unknown_normal(e, x), (2, 3)),
    ),
    "mean of a norm of channels in a matrix": ([(5, 4)], lambda e, x: averaged(e, normal(e, x, "NCX"), (0,))),
    "branches of unknown images": (
        [("f32", None, (1, 3, 4, 4))],
        lambda e, x: e.op("Add", [pointwise(e, x, 3, 3, data_format="NCX"), unknown_normal(e, x)]),
    ),
    "branch of the image by steps": (
        [(1, 4, 4, 3)],
        lambda e, x: branches(e, x, other=normal(e, x), strides=[2, 2], pads_begin=[2, 2], pads_end=[2, 2]),
    ),
    "branch of the image, inputs last": (
        [(1, 4, 4, 3)],
        lambda e, x: e.op(
            "Add",
            [e.op("Convolution", [x, weights_of(1, 1, 3, 3)], {**PLAIN, "weights_format": "XIO"}), normal(e, x)],
        ),
    ),
    "branches of windows apart": ([(1, 5, 4, 3)], lambda e, x: windowed(e, x, (2, 2, 3, 2), (1, 1, 2, 2))),
    "branches of other distances": ([(1, 5, 4, 3)], lambda e, x: windowed(e, x, (2, 2, 3, 2), (2, 0, 3, 1))),
    "branches of a shifted window": ([(1, 5, 4, 3)], lambda e, x: windowed(e, x, (0, 2, 3, 1), (1, 1, 3, 1))),
    "attention": (HEADS16, attended),
    "attention of columns": (HEADS16, lambda e, *x: attended(e, *x, transpose_b=True)),
    "attention of turned shares": (HEADS16, lambda e, *x: attended(e, *x, transpose_a=True)),
    "attention and a bias": (HEADS16, lambda e, *x: attended(e, *x, bias=True)),
    "attention with another number for NaN": (HEADS16, lambda e, *x: attended(e, *x, nan=1.0)),
    "attention without NaN": (HEADS16, lambda e, *x: attended(e, *x, nan=0.0)),
    "attention along queries": (HEADS16, lambda e, *x: attended(e, *x, axis=2)),
    "attention with known scores": (HEADS16, lambda e, *x: attended(e, *x, factor=0.5)),
    "attention of turned queries": (HEADS16, lambda e, *x: attended(e, *x, scores={"transpose_a": True})),
    "attention of scores and a bias": (HEADS16, lambda e, *x: attended(e, *x, bias_of_scores=True)),
    "attention of vectors": ([("f16", (4,)), ("f16", (4, 5)), ("f16", (5, 3))], lambda e, *x: attended(e, *x, axis=-1)),
    "attention of batches alone": (
        [("f16", (2, 4, 5)), ("f16", (2, 5, 4)), ("f16", (2, 4, 3))],
        lambda e, *x: attended(e, *x, axis=-1),
    ),
    "attention of one query and many masks": (
        [("f16", (1, 2, 1, 5)), ("f16", (1, 2, 5, 4)), ("f16", (1, 2, 4, 3))],
        lambda e, *x: attended(e, *x, mask=np.triu(np.full((4, 4), -np.inf), 1)),
    ),
    "attention of one key and many masks": (
        [("f16", (1, 2, 4, 5)), ("f16", (1, 2, 5, 1)), ("f16", (1, 2, 4, 3))],
        lambda e, *x: attended(e, *x, mask=np.triu(np.full((4, 4), -np.inf), 1)),
    ),
    "attention of heads that share": (
        [("f16", (1, 2, 4, 5)), ("f16", (1, 1, 5, 4)), ("f16", (1, 2, 4, 3))],
        attended,
    ),
    "attention and a mask": (HEADS16, lambda e, *x: attended(e, *x, mask=np.full((1, 1, 4, 4), 0.5))),
    "attention and a mask of more axes": (HEADS16, lambda e, *x: attended(e, *x, mask=np.full((1, 1, 1, 4, 4), 0.5))),
    "attention and a mask with a hidden first key": (
        HEADS16,
        lambda e, *x: attended(e, *x, mask=np.tril(np.full((4, 4), -np.inf), -1)),
    ),
    "attention and a mask of small numbers": (
        HEADS16,
        lambda e, *x: attended(e, *x, mask=np.triu(np.full((4, 4), -3e4), 1)),
    ),
    "attention and a mask of an unknown rank": ([*HEADS16, ("f16", None, (4, 4))], attended),
    "attention and a mask of unknown sizes": ([*HEADS16, ("f16", (None, 4), (4, 4))], attended),
    "attention of an unknown batch": (
        [("f16", (None, 2, 4, 5), (1, 2, 4, 5)), ("f16", (None, 2, 5, 4), (1, 2, 5, 4)), HEADS16[2]],
        attended,
    ),
    "attention of values of an unknown rank": ([*HEADS16[:2], ("f16", None, (1, 2, 4, 3))], attended),
    "attention of scores in another type": (
        [(1, 2, 4, 5), (1, 2, 5, 4), HEADS16[2]],
        lambda e, *x: attended(e, *x, dtype=og.f16),
    ),
    "attention of repeated heads": (REPEATED, repeated),
    "attention of heads repeated in turn": (REPEATED, lambda e, *x: repeated(e, *x, is_inner=False)),
    "attention of repeated heads without NaN": (REPEATED, lambda e, *x: repeated(e, *x, nan=0.0)),
    "attention of a repeated batch": (
        [("f32", (2, 2, 4, 5)), ("f32", (1, 1, 4, 5)), ("f32", (1, 1, 4, 3))],
        lambda e, *x: repeated(e, *x, batch=2),
    ),
    "pairs of an unknown batch": ([("f32", (None, 2, 3, 4), (1, 2, 3, 4))], turned_pairs),
    "pairs of unknown numbers": ([("f32", (1, 2, 3, None), (1, 2, 3, 4))], lambda e, x: turned_parts(e, x)),
    "pairs of an unknown rank": ([("f32", None, (1, 2, 3, 4))], lambda e, x: turned_parts(e, x)),
    "pairs of two tensors": ([*HEADS, *HEADS], lambda e, x, y: turned_parts(e, x, y)),
    "pairs in turn": (HEADS, lambda e, x: turned_parts(e, x, ends=((2, 4), (0, 2)))),
    "pairs of unequal parts": (HEADS, lambda e, x: turned_parts(e, x, ends=((0, 1), (1, 4)))),
    "pairs cut along tokens": ([(1, 2, 4, 4)], lambda e, x: turned_parts(e, x, along=2, joined=2)),
    "pairs of three parts": ([(1, 2, 3, 6)], lambda e, x: turned_parts(e, x, ends=((0, 2), (2, 4), (4, 6)))),
    "pairs by angles of heads": (HEADS, lambda e, x: turned_parts(e, x, angles=(1, 2, 3, 4))),
    "pairs by angles of no heads": (HEADS, lambda e, x: turned_parts(e, x, angles=(1, 3, 4))),
    "pairs by two tables": (HEADS, lambda e, x: turned_parts(e, x, sines=(1, 1, 1, 4))),
    "pairs by angles of another type": (HEADS, lambda e, x: turned_parts(e, x, dtype=og.bf16)),
    "pairs by unknown angles": (
        [*HEADS, ("f32", (1, 1, None, 4), (1, 1, 3, 4))],
        lambda e, x, y: turned_parts(e, x, table=y),
    ),
    "pairs by angles of more batches": (HEADS, lambda e, x: turned_parts(e, x, angles=(2, 1, 3, 4))),
    "neighbours": (HEADS, neighbours),
    "neighbours of five axes": ([(1, 2, 2, 3, 4)], neighbours),
    "neighbours of three axes": ([(2, 3, 4)], neighbours),
    "neighbours of three": (HEADS, lambda e, x: neighbours(e, x, count=3)),
    "neighbours apart": (HEADS, lambda e, x: neighbours(e, x, shape=(1, 2, 6, 2))),
    "neighbours of an unknown batch": (
        [("f32", (None, 2, 3, 4), (1, 2, 3, 4))],
        lambda e, x: neighbours(e, x, shape=(0, 0, 0, 4)),
    ),
    "neighbours of an unknown rank": ([("f32", None, (1, 2, 3, 4))], lambda e, x: neighbours(e, x, shape=(1, 2, 3, 4))),
    "neighbours by one angle": (HEADS, lambda e, x: neighbours(e, x, whole=False)),
    "numbers behind turned ones": ([(1, 2, 3, 6)], rest_behind),
    "other numbers behind turned ones": ([(1, 2, 3, 6)], lambda e, x: rest_behind(e, x, 3)),
    "fewer numbers behind turned ones": ([(1, 2, 3, 6)], lambda e, x: rest_behind(e, x, 4, 5)),
    "numbers of another tensor behind turned ones": ([(1, 2, 3, 6)] * 2, lambda e, x, y: rest_behind(e, x, other=y)),
    "numbers behind others that are turned": ([(1, 2, 3, 6)], lambda e, x: rest_behind(e, x, first=1)),
    "numbers by steps behind turned ones": ([(1, 2, 3, 8)], lambda e, x: rest_behind(e, x, step=2)),
    "slices of an unknown axis": ([X, ("s64", (1,))], lambda e, x, y: side_by_side(e, x, (0, 1), (1, 2), axes=[y, y])),
    "slices by steps": ([X], lambda e, x: side_by_side(e, x, (0, 2), (2, 4), (4, 5), step=2)),
    "slices of three axes": ([X], lambda e, x: side_by_side(e, x, (0, 1), (1, 2), (2, 4))),
    "slices with a gap": ([X], lambda e, x: side_by_side(e, x, (0, 1), (1, 2), (3, 4))),
    "slices from the end": ([X], lambda e, x: side_by_side(e, x, (0, 2), (-2, 9))),
    "slices before the start": ([X], lambda e, x: side_by_side(e, x, (-9, 2), (2, 4))),
    "slices of unknown sizes": ([("f32", (2, 3, None), X)], lambda e, x: side_by_side(e, x, (0, 1), (1, 2))),
    "slices of an unknown rank": ([("f32", None, X)], lambda e, x: side_by_side(e, x, (0, 1), (1, 2))),
    "slices from an unknown place": ([X, ("s64", (1,))], lambda e, x, y: side_by_side(e, x, (y, 2), (2, 4))),
    "slices without axes": ([(4, 3)], lambda e, x: side_by_side(e, x, (0, 2), (2, 3), axes=None)),
    "slices of all but one": ([X], lambda e, x: e.op("Concat", [x, *parts_of(e, x, (0, 1), (1, 2))], {"axis": 2})),
    "rows in order": ([X], lambda e, x: gathered(e, x, (1, 2))),
    "rows from the end": ([X], lambda e, x: gathered(e, x, (-2, -1))),
    "rows around the end": ([X], lambda e, x: gathered(e, x, (2, 0))),
    "rows out of order": ([X], lambda e, x: gathered(e, x, (0, 2))),
    "no rows": ([X], lambda e, x: gathered(e, x, ())),
    "all rows": ([X], lambda e, x: gathered(e, x, (0, 1, 2))),
    "unknown rows": ([X, ("s64", (2,))], lambda e, x, y: e.op("Gather", [x, y], {"axis": 1}, edition="host")),
    "rows of an unknown batch": ([("f32", (None, 3, 4), X)], lambda e, x: gathered(e, x, (1, 2))),
    "rows of an unknown rank": ([("f32", None, X)], lambda e, x: gathered(e, x, (1, 2))),
    "places of one axis": ([X], lambda e, x: e.op("GatherND", [x, np.int64([[1], [0]])])),
    "places of two axes": ([X], lambda e, x: e.op("GatherND", [x, np.int64([[1, 2], [0, 0]])])),
    "places of one axis in batches": (
        [X],
        lambda e, x: e.op("GatherND", [x, np.int64([[1], [0]])], {"batch_dims": 1}),
    ),
    "unknown places of one axis": ([X, ("s64", (2, 1))], lambda e, x, y: e.op("GatherND", [x, y])),
    "unknown places of an unknown rank": ([X, ("s64", None, (2, 1))], lambda e, x, y: e.op("GatherND", [x, y])),
    "elements": ([(2, 3)], lambda e, x: elements(e, x, [[0, 2, 1], [-1, -3, 0]])),
    "elements beyond the end": ([(2, 3)], lambda e, x: e.op("Abs", [elements(e, x, [[0, 2, 1]], axis=0, last=1)])),
    "no elements": ([(2, 3)], lambda e, x: elements(e, x, np.zeros((2, 0)))),
    "elements of an unknown batch": ([("f32", (None, 3), (2, 3))], lambda e, x: elements(e, x, [[0, 2, 1], [1, 1, 0]])),
    "elements of an unknown rank": ([("f32", None, (2, 3))], lambda e, x: elements(e, x, [[0, 2, 1], [1, 1, 0]])),
    "unknown elements": ([(2, 3), ("s64", (2, 3))], lambda e, x, y: e.op("GatherElements", [x, y], {"axis": 1})),
    "views of nothing": ([(2, 0, 3)], lambda e, x: viewed(e, x, (0, 2, 3), (3, 2, 0))),
    "views of a number": ([("f32", ())], lambda e, x: viewed(e, x, (1, 1), ())),
    "views of an unknown batch": ([("f32", (None, 3, 4), X)], lambda e, x: viewed(e, x, (-1, 12), (-1, 3, 4))),
    "views of an unknown rank": ([("f32", None, X)], lambda e, x: viewed(e, x, (2, 12), (6, 4))),
    "views with turns": ([X], lambda e, x: viewed(e, mv.transpose(e, x, (1, 0, 2)), (6, 4), (3, 2, 4))),
    "views that cut unevenly": ([(4, 6)], lambda e, x: viewed(e, mv.transpose(e, x, (1, 0)), (24,), (8, 3))),
    "views of ones": ([(2, 1, 4)], lambda e, x: viewed(e, mv.transpose(e, x, (1, 0, 2)), (2, 1, 4), (1, 8))),
    "join of turned axes": ([WIDE], lambda e, x: joined_axes(e, x, (0, 2, 1, 3), [2, 4, 15], (2, 0, 1))),
    "join of turned axes and ones": (
        [(2, 3, 1, 5)],
        lambda e, x: joined_axes(e, x, (1, 2, 0, 3), [3, 1, 10], (2, 0, 1)),
    ),
    "join that cuts an axis": ([WIDE], lambda e, x: joined_axes(e, x, (0, 2, 1, 3), [8, 5, 3], (2, 0, 1))),
    "join of nothing": ([(2, 0, 4, 5)], lambda e, x: joined_axes(e, x, (0, 2, 1, 3), [2, 4, 0], (2, 0, 1))),
    "join of ones at the end": ([(2, 3, 1, 1)], lambda e, x: joined_axes(e, x, (1, 0, 2, 3), [3, 2, 1], (2, 0, 1))),
    "join of turned axes of an unknown batch": (
        [("f32", (None, 3, 4, 5), WIDE)],
        lambda e, x: joined_axes(e, x, (0, 2, 1, 3), [0, 4, 15], (2, 0, 1)),
    ),
    "slopes of channels behind a turn": ([X], lambda e, x: sloped(e, x, weights_of(4), True)),
    "slopes behind a turn": ([X], lambda e, x: sloped(e, x, weights_of(3))),
    "unknown slopes behind a turn": ([X, (1, 4, 3)], lambda e, x, y: sloped(e, x, y)),
    "turn and another turn": (
        [(3, 3, 3)] * 2,
        lambda e, x, y: e.op("Add", [mv.transpose(e, x, TURN), mv.transpose(e, y, (2, 0, 1))]),
    ),
    "turn and no copy": ([X, (4, 1)], lambda e, x, y: e.op("Add", [mv.transpose(e, x, TURN), y])),
    "turn and a copy": ([X, (4, 3)], lambda e, x, y: e.op("Add", [mv.transpose(e, x, TURN), y])),
    "turn and more axes": ([(3, 4), (2, 4, 3)], lambda e, x, y: e.op("Add", [mv.transpose(e, x, (1, 0)), y])),
    "turn and an unknown rank": (
        [X, ("f32", None, (2, 4, 3))],
        lambda e, x, y: e.op("Add", [mv.transpose(e, x, TURN), y]),
    ),
    "turn and an unknown size": (
        [X, ("f32", (None, 1, 1), (2, 1, 1))],
        lambda e, x, y: e.op("Add", [mv.transpose(e, x, TURN), y]),
    ),
    "turn and a number": ([X, ("f32", ())], lambda e, x, y: e.op("Add", [mv.transpose(e, x, TURN), y])),
    "turn and known numbers by a number": (
        [X, ("f32", ())],
        lambda e, x, y: e.op("Add", [mv.transpose(e, x, TURN), e.op("Multiply", [y, weights_of(4, 3)])]),
    ),
    "turn and a wide number": (
        [X, ("f32", ())],
        lambda e, x, y: e.op("Subtract", [mv.transpose(e, x, TURN), e.op("Expand", [y, np.int64([4, 3])])]),
    ),
    "reduction of a turn along unknown axes": (
        [X],
        lambda e, x: averaged(e, mv.transpose(e, x, TURN), np.array([1], np.int32)),
    ),
    "reduction of a turn along no axes": ([X], lambda e, x: averaged(e, mv.transpose(e, x, TURN), ())),
    "slice of a turn": ([X], lambda e, x: mv.slice_(e, mv.transpose(e, x, TURN), [1], [3], [1])),
    "slice of a turn without axes": ([X], lambda e, x: mv.slice_(e, mv.transpose(e, x, TURN), [0, 1], [2, 3])),
    "slice of a turn along unknown axes": (
        [(3, 3, 3), ("s64", (1,))],
        lambda e, x, y: e.op("Slice", [mv.transpose(e, x, TURN), np.int64([0]), np.int64([2]), y]),
    ),
    "padding behind a turn": (
        [(1, 3, 6, 5)],
        lambda e, x: convolved(e, mv.transpose(e, x, (0, 2, 3, 1)), [0, 1, 0, 0], [0] * 4),
    ),
    "padding by an op": ([IMAGE], lambda e, x: around(e, x)),
    "padding by mirrors": ([IMAGE], lambda e, x: around(e, x, mode="reflect")),
    "padding by less": ([IMAGE], lambda e, x: around(e, x, pads=(0, 1, 0, 0, 0, -1, 0, 0))),
    "padding by an unknown number": ([IMAGE, ("f32", ())], lambda e, x, y: around(e, x, y)),
    "padding by unknown numbers": (
        [IMAGE, ("s64", (8,), (8,))],
        lambda e, x, y: around(e, x, pads=e.op("Multiply", [y, np.int64([0])])),
    ),
    "padding of an unknown rank": ([("f32", None, IMAGE)], lambda e, x: around(e, x)),
    "padding beside an unknown rank": (
        [("f32", None, IMAGE)],
        lambda e, x: e.op(
            "Convolution", [e.op("Concat", [np.zeros((1, 1, 5, 3), np.float32), x], {"axis": 1}), KERNEL], WINDOW
        ),
    ),
    "padding before unknown weights": (
        [IMAGE, (2, 3, 3, 4)],
        lambda e, x, y: e.op("Convolution", [mv.padded(e, x, [0, 1, 0, 0], [0] * 4), y], WINDOW),
    ),
    "padding before weights of unknown sizes": (
        [IMAGE, ("f32", (None, 3, 3, 4), (2, 3, 3, 4))],
        lambda e, x, y: e.op("Convolution", [mv.padded(e, x, [0, 1, 0, 0], [0] * 4), y], WINDOW),
    ),
    "padding of almost a window": ([IMAGE], lambda e, x: convolved(e, x, [0, 2, 0, 0], [0, 2, 0, 0])),
    "padding of a pool without distances": (
        [IMAGE],
        lambda e, x: e.op(
            "MaxPool",
            [mv.padded(e, x, [0, 1, 0, 0], [0] * 4, -INF)],
            {**{key: one for key, one in WINDOW.items() if key != "dilations"}, "kernel": [2, 3]},
        ),
    ),
    "padding between two images": (
        [IMAGE, IMAGE],
        lambda e, x, y: e.op(
            "Convolution", [e.op("Concat", [x, np.zeros((1, 1, 5, 3), np.float32), y], {"axis": 1}), KERNEL], WINDOW
        ),
    ),
    "padding in the middle of an image": (
        [IMAGE],
        lambda e, x: e.op(
            "Convolution",
            [
                e.op(
                    "Concat", [np.zeros((1, 1, 5, 3), np.float32), x, np.zeros((1, 2, 5, 3), np.float32)], {"axis": -3}
                ),
                KERNEL,
            ],
            {**WINDOW, "pads_begin": [0, 0], "pads_end": [0, 0]},
        ),
    ),
    "pool of parts of an unknown rank": (
        [("f32", None, (1, 4, 4, 2)), ("f32", None, (1, 4, 4, 3))],
        pooled_parts,
    ),
    "convolution of parts of unknown channels": (
        [("f32", (1, 4, 4, None), (1, 4, 4, 5)), ("f32", (1, 4, 4, None), (1, 4, 4, 4))],
        lambda e, *x: pointwise(e, e.op("Concat", [*x], {"axis": 3}), 3, 9),
    ),
    "convolution of parts of an unknown rank": (
        [("f32", None, (1, 4, 4, 5)), ("f32", None, (1, 4, 4, 4))],
        lambda e, *x: pointwise(e, e.op("Concat", [*x], {"axis": 3}), 3, 9),
    ),
    "convolution of parts by unknown weights": (
        [(1, 4, 4, 5), (1, 4, 4, 4), (3, 9, 1, 1)],
        lambda e, *x: e.op(
            "Convolution", [e.op("Concat", [*x[:2]], {"axis": 3}), x[2]], {**PLAIN, "weights_format": "OIX"}
        ),
    ),
    "convolution of parts of channels first": (
        [("f32", None, (1, 5, 4, 4)), ("f32", None, (1, 4, 4, 4))],
        lambda e, *x: pointwise(e, e.op("Concat", [*x], {"axis": 1}), 3, 9, data_format="NCX"),
    ),
    "convolution of parts, inputs last": (
        [(1, 4, 4, 5), (1, 4, 4, 4)],
        lambda e, *x: e.op(
            "Convolution",
            [e.op("Concat", [*x], {"axis": 3}), weights_of(1, 1, 9, 3)],
            {**PLAIN, "weights_format": "XIO"},
        ),
    ),
    "convolution of enlarged images of unknown sizes": (
        [("f32", (1, None, None, 6), (1, 4, 4, 6))],
        lambda e, x: enlarged(e, x, 6),
    ),
    "convolution of enlarged images of an unknown batch": (
        [("f32", (None, 4, 4, 6), (1, 4, 4, 6))],
        lambda e, x: enlarged(e, x, 6),
    ),
    "convolution of enlarged images of an unknown rank": (
        [("f32", None, (1, 4, 4, 6))],
        lambda e, x: enlarged(e, x, 6),
    ),
    "convolution of enlarged images of unknown channels": (
        [("f32", (1, 4, 4, None), (1, 4, 4, 6))],
        lambda e, x: enlarged(e, x, 6),
    ),
    "product of vectors in batches": ([(2, 3, 4), (4,)], lambda e, x, y: e.op("MatMul", [x, y])),
    "scale of halves": (
        [("f16", X), ("f16", (2, 4, 5))],
        lambda e, a, b: e.op("MatMul", [e.op("Multiply", [a, np.full(1, 1e-5, np.float16)]), b]),
    ),
    "scale of an infinite product": ([X, (2, 4, 5)], lambda e, a, b: product(e, a, b, 1e-25, 1e-25)),
    "heads and batches of an unknown batch": (
        [("f32", (None, 3, 4, 5), WIDE), ("f32", (None, 3, 5, 6), (2, 3, 5, 6))],
        lambda e, x, y: e.op("MatMul", [flat(e, x), flat(e, y)]),
    ),
    "heads and batches and a bias": (
        [WIDE, (2, 3, 5, 6)],
        lambda e, x, y: e.op("MatMul", [flat(e, x), flat(e, y), weights_of(6)]),
    ),
    "groups of heads": (
        [(6, 4, 5), (2, 3, 1, 5, 6)],
        lambda e, x, y: e.op("MatMul", [x, mv.reshape(e, y, [6, 5, 6])]),
    ),
    "heads of one operand": ([(6, 4, 5), (2, 3, 5, 6)], lambda e, x, y: e.op("MatMul", [x, flat(e, y)])),
    "heads of other rows": (
        [(2, 3, 20), (2, 3, 5, 6)],
        lambda e, x, y: e.op("MatMul", [mv.reshape(e, x, [6, 4, 5]), flat(e, y)]),
    ),
    "wide operand of an unknown size": (
        [(3, 1), ("f32", (None, 4), (3, 4))],
        lambda e, x, y: el.binary(e, "Subtract", mv.expand(e, x, (3, 4)), y),
    ),
    "largest of a row of integers": (
        [("s32", X)],
        lambda e, x: e.op("Equal", [reduce(e, "ReduceMax", x, [2], True), np.array(2, np.int32)]),
    ),
    "no NaN, and a known tensor": ([X], lambda e, x: el.select(e, e.op("IsNaN", [x]), weights_of(*X), x)),
    "bags by one step": ([TABLE, INDICES], lambda e, *x: bags(e, *x, steps=1)),
    "bags of another table": ([TABLE, TABLE, INDICES], lambda e, x, y, z: two_bags(e, x, z, y, z)),
    "bags of other indices": ([TABLE, INDICES, INDICES], lambda e, x, y, z: two_bags(e, x, y, x, z)),
    "bags joined along columns": ([TABLE, INDICES], lambda e, x, y: two_bags(e, x, y, x, y, axis=1)),
    "bags joined along the last axis": ([(5,), INDICES], lambda e, x, y: two_bags(e, x, y, x, y, axis=-1)),
    "bags of an unknown number of indices": ([TABLE, ("s64", (None,), (4,))], bags),
    "bags of indices of an unknown rank": ([TABLE, ("s64", None, (4,))], bags),
    "bags of a table of an unknown rank": ([("f32", None, TABLE), INDICES], bags),
    "bags of rows of indices": ([TABLE, ("s64", (4, 1))], lambda e, *x: bags(e, *x)),
    "bags of sums of the table": (
        [TABLE, INDICES],
        lambda e, x, y: e.op("Concat", [averaged(e, x, (0,))] * 2, {"axis": 0}),
    ),
    "bags of whole rows": (
        [TABLE, INDICES],
        lambda e, x, y: e.op(
            "Concat", [reduce(e, "ReduceSum", e.op("Gather", [x, y], {"axis": 0}), [0], True)] * 2, {"axis": 0}
        ),
    ),
}


def built(case, *, with_patterns):
    shapes, add = (CASES.get(case) or BESIDE[case])[:2]
    graph = og.Graph()
    emit = Emitter(graph, REWRITES if with_patterns else None)
    types = [end[:2] if type(end[0]) is str else (og.f32, end) for end in shapes]
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
        dtype = op.outputs[0].dtype if op.kind in TYPED else None
        results = emit.ends(op.kind, given, op.attrs, dtype=dtype, edition=op.edition)
        values.update((one.id, result) for one, result in zip(op.outputs, results, strict=False))
    for name, tensor in graph.outputs.items():
        made.output(name, emit.tensor(values[tensor.id]))
    return without_unread(made)


@pytest.mark.parametrize("case", CASES)
def test_patterns_keep_the_numbers(case):
    expected, (plain, found) = CASES[case][2], compared(case)
    left = [op.kind for op in without_unread(found).ops]
    if expected is None:
        assert left == [op.kind for op in without_unread(plain).ops]
    else:
        assert left == expected


@grouped("case", BESIDE, key=lambda case: case.split()[0])
def test_graphs_beside_keep_the_numbers(case):
    compared(case)


def compared(case):
    """The graphs of a case without and with patterns, whose numbers are equal."""
    shapes = (CASES.get(case) or BESIDE[case])[0]
    plain, found = (built(case, with_patterns=flag) for flag in (False, True))
    draw = some_nan if "NaN" in case else drawn
    given = {
        f"x{number}": counted(shape[0], shape[-1]) if type(shape[0]) is str else 3 * draw(*shape)
        for number, shape in enumerate(shapes)
    }
    if "infinities" in case:
        given["x0"][0, 1] = -INF
    with np.errstate(all="ignore"):
        results = [reference.run(graph, given)["y"] for graph in (plain, found)]
    np.testing.assert_allclose(results[1].astype(np.float64), results[0].astype(np.float64), rtol=2e-4, atol=2e-4)
    return plain, found
