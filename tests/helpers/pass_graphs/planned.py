"""Graphs of the sizes at which the compiler decides anew."""

from __future__ import annotations

import ml_dtypes
import numpy as np

TYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}


SAME = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}


CODED = {"qtype": "per_tensor", "scales": [0.125], "zps": [0]}


def numbers(*shape, dtype="f32"):
    return (np.arange(np.prod(shape)).reshape(shape) % 7 - 3).astype(TYPES.get(dtype, dtype))


def product(g, dtype, rows, depth, columns, behind=()):
    y = g.matmul(g.input("x", dtype, (rows, depth)), g.constant(numbers(depth, columns, dtype=dtype)))
    for kind in behind:
        y = g.op(kind, [y] if kind != "Add" else [y, g.constant(numbers(columns, dtype=dtype))])
    return y


def image(g, dtype, size, channels, results, groups=1, window=3, behind=(), data_format="NXC"):
    shape = (1, size, size, channels) if data_format == "NXC" else (1, channels, size, size)
    weights = g.constant(numbers(window, window, channels // groups, results, dtype=dtype))
    pad = {**SAME, "pads_begin": [window // 2] * 2, "pads_end": [window // 2] * 2}
    attrs = {**pad, "groups": groups, "data_format": data_format, "weights_format": "XIO"}
    y = g.op("Convolution", [g.input("x", dtype, shape), weights], attrs)
    for kind in behind:
        y = g.op(kind, [y])
    return y


def chain(g, dtype, size, *kinds):
    y = x = g.input("x", dtype, (size // 64, 64))
    for kind in kinds:
        y = g.op(kind, [y, x] if kind in ("Add", "Multiply", "Subtract", "Maximum") else [y])
    return y


def codes(g, rows, depth, columns, dtype="u8", relu=False):
    x = g.dequantize(g.input("x", dtype, (rows, depth)), **CODED)
    weights = g.dequantize(g.constant(numbers(depth, columns, dtype=np.int8)), **CODED)
    y = g.matmul(x, weights)
    return g.quantize(g.relu(y) if relu else y, **CODED, dtype=dtype)


def coded_image(g, channels, dtype, groups=1):
    x = g.dequantize(g.input("x", dtype, (1, 14, 14, channels)), **CODED)
    weights = g.dequantize(g.constant(numbers(3, 3, channels // groups, channels, dtype=np.int8)), **CODED)
    return g.quantize(g.relu(g.convolution(x, weights, **SAME, groups=groups)), **CODED, dtype=dtype)


def attention(g, dtype, heads, tokens, size):
    q, k, v = (g.input(name, dtype, (1, heads, tokens, size)) for name in "qkv")
    scores = g.divide(g.matmul(q, k, transpose_b=True), g.constant(np.full((), 8, TYPES[dtype])))
    return g.matmul(g.softmax(scores, axis=-1), v)


def norm(g, kind, dtype, rows, width):
    x, vectors = g.input("x", dtype, (rows, width)), [g.constant(numbers(width, dtype="f32")) for _ in range(2)]
    if kind == "LayerNorm":
        return g.op(kind, [x, *vectors], {"keep_stats": False})
    return g.op(kind, [x, vectors[0]], {"epsilon": 1e-5})


def pool(g, kind, dtype, size, window, data_format):
    shape = (1, size, size, 32) if data_format == "NXC" else (1, 32, size, size)
    attrs = {"kernel": [window] * 2, "strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
    attrs |= {"exclude_pad": False} if kind == "AvgPool" else {}
    return g.op(kind, [g.input("x", dtype, shape)], {**attrs, "data_format": data_format})


def weights_of_a_graph(g, dtype, rows, depth, columns):
    return g.matmul(g.input("x", dtype, (rows, depth)), g.input("w", dtype, (depth, columns)))


def reduced(g, kind, dtype, shape, axes):
    return g.op(kind, [g.input("x", dtype, shape)], {"axes": axes, "keep_dims": True})


def graphs():
    """By name, functions that add to a graph and return its result, with their arguments."""
    floats = ("f32", "bf16", "f16")
    yield from ((product, dtype, rows, 1024, 768) for dtype in floats for rows in (1, 4, 5, 16, 17, 64))
    yield from ((product, "f32", rows, 256, 1024) for rows in (1, 4, 5, 63, 64))
    yield from (
        (product, "f32", 8, 64, 32, behind) for behind in (("Add",), ("Add", "GELU"), ("ReLU", "Add"), ("Exp",))
    )
    yield from ((weights_of_a_graph, dtype, 8, 256, 256) for dtype in floats)
    yield from ((image, dtype, 14, 64, 64) for dtype in floats)
    yield from ((image, "f32", size, 64, 64) for size in (7, 8, 16, 28, 56))
    yield from (
        (image, "f32", 16, channels, results) for channels, results in ((16, 64), (32, 32), (31, 64), (256, 256))
    )
    yield from ((image, "f32", 16, 32, 32, groups) for groups in (2, 8, 16, 32))
    yield from ((image, "f32", 16, 3, 32, 1, window) for window in (1, 2, 5, 7))
    yield from ((image, "f32", 16, 32, 32, 1, 3, behind) for behind in (("ReLU",), ("HardSwish",), ("Mish", "Abs")))
    yield from ((image, dtype, 16, 32, 32, groups, 3, (), "NCX") for dtype in floats for groups in (1, 32))
    pairs = ("Sigmoid", "Multiply"), ("Add", "Tanh"), ("Exp", "Add", "Log"), ("GELU", "Multiply", "Add")
    yield from ((chain, "f32", size, *kinds) for kinds in pairs for size in (2**12, 2**14, 2**15, 2**16, 2**22, 2**23))
    yield from ((chain, dtype, 2**16, *kinds) for kinds in pairs for dtype in ("bf16", "f16"))
    yield from (
        (codes, rows, 64, 64, dtype, relu) for rows in (1, 64) for dtype in ("u8", "s8") for relu in (False, True)
    )
    yield from ((coded_image, 32, dtype, groups) for dtype in ("u8", "s8") for groups in (1, 2, 32))
    yield from ((attention, dtype, 4, tokens, 32) for dtype in floats for tokens in (1, 16, 128, 513))
    yield from ((norm, kind, dtype, 8, 256) for kind in ("LayerNorm", "RMSNorm") for dtype in floats)
    kinds = "MaxPool", "AvgPool"
    yield from ((pool, kind, "f32", 32, window, at) for kind in kinds for window in (2, 3, 9) for at in ("NXC", "NCX"))
    sides = ((64, 1024), [1]), ((64, 1024), [0]), ((8, 9, 256), [0, 2]), ((2, 4096, 64), [1]), ((1, 2, 3, 4, 5), [1, 3])
    yield from ((reduced, kind, "f32", *at) for kind in ("ReduceSum", "ReduceMax", "ReduceL2") for at in sides)
