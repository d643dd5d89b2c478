"""Graphs drawn at random of forms that single passes take, with one of their parts as another one now and then."""

from __future__ import annotations

from random import Random

import ml_dtypes
import numpy as np

import onegraph as og
from onegraph.ir.op import LogicalTensor

from .opened import numbers

WINDOW = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}


def places(g: og.Graph, *given: int) -> LogicalTensor:
    return g.constant(np.array(given, np.int64), dtype=og.s64)


def sinks(draw: Random) -> og.Graph:
    """Attention with a further column of scores, of a key without a value."""
    g, pick = og.Graph(), draw.choice
    g._roundings = frozenset() if draw.random() < 0.7 else None
    odds = lambda often, *others: pick(others) if draw.random() < 0.12 else often  # noqa: E731
    heads, queries, tokens, size = 2, pick((1, 5)), pick((8, 64)), 8
    dtype = odds(og.f32, og.bf16)
    q, k, v = (g.input(name, dtype, (1, heads, queries if name == "q" else tokens, size)) for name in "qkv")
    scores = g.matmul(q, k, transpose_b=True)
    if draw.random() < 0.5:
        scores = g.add(
            scores, g.input("mask", dtype, odds((queries, tokens), (1, heads, 1, tokens), (1, 1, queries, 1)))
        )
    shape = odds((1, heads, queries, 1), (1, heads, queries, 2))
    if draw.random() < 0.6:
        full = places(g, *shape)
        given = odds((1, heads, 1, 1), (heads, 1, 1), (heads, queries, 1), (1, 1, 1, 1))
        column = g.op("Expand", [g.input("sink", dtype, given), full], edition="host")
    else:
        column = g.input("sink", dtype, shape)
        column = column if draw.random() < 0.8 else g.tanh(column)
    ends = odds([scores, column], [column, scores], [scores, column, column])
    whole = g.concat(*ends, axis=odds(-1, 3))
    logits = whole
    if draw.random() < 0.6:
        axes = odds([-1], [3], [2], [2, 3])
        read = odds(whole, g.tanh(whole))
        most = g.op(odds("ReduceMax", "ReduceMean"), [read], {"axes": axes, "keep_dims": True})
        logits = g.subtract(*odds([whole, most], [most, whole]))
    shares = g.softmax(logits, axis=odds(-1, 3, 2))
    if draw.random() < 0.2:
        shares = g.type_cast(g.type_cast(shares, dtype=og.bf16), dtype=og.f32) if dtype is og.f32 else shares
    count = ends[0].shape[-1]
    cut = [places(g, odds(0, 1)), places(g, odds(count, -1, count + 1)), places(g, odds(pick((3, -1)), 2))]
    cut += [places(g, odds(1, 2))] if draw.random() < 0.5 else []
    if draw.random() < 0.1:
        cut[0] = g.input("start", og.s64, (1,))
    kept = g.op("Slice", [shares, *cut], edition="host") if draw.random() < 0.9 else shares
    g.output("y", g.matmul(kept, v, transpose_b=draw.random() < 0.05))
    if draw.random() < 0.15:
        g.output("inside", pick((scores, whole, shares)))
    return g


def channel_scales(draw: Random) -> og.Graph:
    """A convolution of codes whose result is quantized by channel."""
    g, pick = og.Graph(), draw.choice
    odds = lambda often, *others: pick(others) if draw.random() < 0.12 else often  # noqa: E731
    data_format, layout = pick(("NXC", "NCX")), pick(("OIX", "XIO"))
    shape = (1, 6, 6, 8) if data_format == "NXC" else (1, 8, 6, 6)
    x = g.dequantize(g.input("x", pick(("u8", "s8")), shape), scales=[0.5], zps=[3])
    full = (4, 8, 3, 3) if layout == "OIX" else (3, 3, 8, 4)
    codes = odds(g.constant(np.ones(full, np.int8)), g.input("w", og.s8, full))
    axis = full.index(4)
    how = {"qtype": "per_channel", "axis": odds(axis, axis - 4), "scales": [0.1, 0.2, 0.3, 0.5], "zps": [0] * 4}
    w = g.dequantize(codes, **(how if draw.random() < 0.5 else {"scales": [0.25], "zps": [odds(0, 2)]}))
    w = odds(w, g.tanh(w))
    row = numbers(4)
    bias = pick(([], [], [g.constant(row)], [odds(g.constant(row), g.input("b", og.f32, (4,)))]))
    y = g.convolution(x, w, *bias, **WINDOW, data_format=data_format, weights_format=layout)
    dtype, zero = pick(("u8", "s8")), pick((0, 0, 3))
    if draw.random() < 0.5:
        y = odds(g.relu(y), g.tanh(y))
    elif draw.random() < 0.7:
        low, high = odds(pick((0.0, -60.0)), -0.3, 0.25), odds(pick((500.0, 1e6)), 25.5, 20.0, 12.8)
        y = g.clamp(y, min=low, max=high)
    scales = odds([0.1, 0.2, 0.3, 0.4], [0.1] * 4, [0.1, 0.2, 0.3, 1.0])
    zeros = odds([zero] * 4, [zero, zero, zero, zero + 1], [zero + 1] * 4)
    axis = odds(3 if data_format == "NXC" else 1, -1, 2)
    size = y.shape[axis]
    codes = {"qtype": "per_channel", "scales": (scales * 2)[:size], "zps": (zeros * 2)[:size], "axis": axis}
    if draw.random() < 0.1:
        codes = {"scales": [0.1], "zps": [zero]}
    z = g.quantize(y, **codes, dtype=dtype)
    g.output("y", g.dequantize(z, **codes) if draw.random() < 0.5 else z)
    if draw.random() < 0.12:
        g.output("inside", pick((w, y)))
    return g


def packed(draw: Random) -> og.Graph:
    """Products with weights in codes or 16 bits, and rows of tables of these."""
    g, pick = og.Graph(), draw.choice
    odds = lambda often, *others: pick(others) if draw.random() < 0.15 else often  # noqa: E731
    depth, columns = pick((64, 128)), pick((48, 64))
    turned = draw.random() < 0.4
    shape = odds((depth, columns), (1, depth, columns), (2, depth, columns))
    shape = (*shape[:-2], columns, depth) if turned else shape
    dtype = odds(og.f32, og.bf16)
    codes = np.resize(np.arange(-7, 8), shape)
    form = pick(("tensor", "channel", "group", "dynamic", "cast", "full", "halves"))
    depth_axis = len(shape) - (1 if turned else 2)
    other_axis = len(shape) - (2 if turned else 1)
    if form in ("tensor", "channel"):
        kept = (
            g.constant(codes.astype(pick((np.int8, np.uint8)))) if draw.random() < 0.9 else g.input("w", og.s8, shape)
        )
        axis = odds(other_axis, depth_axis)
        count = 1 if form == "tensor" else shape[axis]
        zeros = odds([0] * count, [3] * count, [0] * (count - 1) + [1])
        how = {"qtype": "per_channel", "axis": axis} if form == "channel" else {}
        w = g.dequantize(kept, **how, scales=[0.25] * count, zps=zeros)
    elif form in ("group", "dynamic"):
        size = odds(32, 1, shape[depth_axis], 8)
        dims = [*shape]
        dims[depth_axis] //= size if form == "group" else dims[depth_axis]
        scales = g.constant(np.full(dims if form == "group" else (shape[other_axis],), 0.25, np.float32))
        scales = odds(scales, g.input("scales", og.f32, scales.shape))
        zeros = [g.constant(np.full(scales.shape, pick((0, 1)), np.int8), dtype=og.s8)] if draw.random() < 0.4 else []
        block = [1] * len(shape)
        block[depth_axis] = size
        how = {"qtype": "per_group", "group_shape": block, "axis": depth_axis}
        how = how if form == "group" else {"qtype": "per_channel", "axis": other_axis}
        kind = pick((og.s8, og.s4))
        kept = g.constant(codes.astype(kind.numpy), dtype=kind)
        w = g.dynamic_dequantize(kept, scales, *zeros, **how)
    elif form == "full":
        w = g.constant(numbers(*shape))
    else:
        w = g.constant(codes.astype(ml_dtypes.bfloat16 if draw.random() < 0.7 else np.float16))
    if form == "cast":
        w = g.type_cast(w, dtype=og.f32)
    if draw.random() < 0.25:
        order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        w, turned = g.static_transpose(w, order=odds(order, [*range(len(shape))])), not turned
    if w.dtype is not dtype and form != "halves" and dtype is og.bf16:
        w = g.type_cast(w, dtype=og.bf16)
    if draw.random() < 0.2 and len(shape) == 2:
        at = g.input("at", pick((og.s64, og.s32)), odds((7,), (0,), (2, 3), ()))
        at = odds(at, places(g, 3, 1))
        rows = g.op("Gather", [w, at], {"axis": odds(0, 1, -2)}, edition="host")
        g.output("y", rows if draw.random() < 0.7 else g.relu(rows))
        return g
    inside = w.shape[-1 if turned else -2]
    x = g.input("x", w.dtype, odds((3, inside), (2, 3, inside), (1, inside), (513, inside), (16, inside), (17, inside)))
    wide = w.shape[-2 if turned else -1]
    bias = [g.constant(numbers(wide).astype(w.dtype.numpy), dtype=w.dtype)] if draw.random() < 0.3 else []
    y = g.matmul(x, w, *bias, transpose_b=turned)
    for _ in range(draw.randrange(3)):
        behind = pick(("row", "number", "whole", "given", "activation"))
        if behind == "activation":
            y = g.relu(y)
            continue
        dims = {"row": (wide,), "number": (), "whole": y.shape, "given": (wide,)}[behind]
        end = g.constant(np.resize(numbers(wide), dims).astype(y.dtype.numpy), dtype=y.dtype)
        end = g.input(f"z{len(g.inputs)}", y.dtype, dims) if behind == "given" else end
        y = odds(g.add, g.subtract)(*[y, odds(end, y)][:: pick((1, -1))])
    g.output("y", y)
    if draw.random() < 0.1:
        g.output("w", w)
    return g


def labels(draw: Random) -> og.Graph:
    """The gradient of a LogSoftmax that is read for labels."""
    g, pick = og.Graph(), draw.choice
    odds = lambda often, *others: pick(others) if draw.random() < 0.1 else often  # noqa: E731
    classes, rows = 1024, odds(256, 255, 128, 257)
    shape = odds((rows, classes), (2, rows // 2, classes))
    dtype = odds(og.f32, og.bf16)
    kept = odds((*shape[:-1], 1), (*shape[:-1], 2), (*(1 for _ in shape[:-1]), 1))
    axis = odds(-1, 0)
    at = g.input("at", pick((og.s64, og.s32)), kept, strides=odds(None, (*range(1, len(kept)), 1)))
    updates = g.input("updates", dtype, kept)
    zeros = odds(g.constant(np.zeros(shape, dtype.numpy), dtype=dtype), g.input("zeros", dtype, shape))
    if draw.random() < 0.08:
        zeros = g.constant(np.ones(shape, dtype.numpy), dtype=dtype)
    how = {"axis": axis, "reduction": odds("add", "none")}
    diff = g.op("ScatterElements", [zeros, at, updates], how, edition="host")
    diff = odds(diff, g.relu(diff))
    y = g.log_softmax(g.input("x", dtype, shape), axis=odds(-1, 0))
    g.output("y", g.log_softmax_backward(diff, y, axis=odds(-1, len(shape) - 1, 0)))
    if draw.random() < 0.1:
        g.output("diff", diff)
    return g


def norms(draw: Random) -> og.Graph:
    """A convolution with casts and a normalization behind it."""
    g, pick = og.Graph(), draw.choice
    odds = lambda often, *others: pick(others) if draw.random() < 0.12 else often  # noqa: E731
    data_format = pick(("NXC", "NCX"))
    shape = (1, 6, 6, 8) if data_format == "NXC" else (1, 8, 6, 6)
    dtype = pick((og.f32, og.f32, og.bf16))
    x = g.input("x", dtype, shape)
    weights = numbers(3, 3, 8, 8).astype(dtype.numpy) if draw.random() < 0.9 else None
    w = g.input("w", dtype, (3, 3, 8, 8)) if weights is None else g.constant(weights, dtype=dtype)
    bias = [g.constant(numbers(8).astype(dtype.numpy), dtype=dtype)] if draw.random() < 0.3 else []
    kind = odds("Convolution", "ConvTranspose")
    layout = "XIO" if kind == "Convolution" else "XOI"
    y = g.op(kind, [x, w, *bias], {**WINDOW, "data_format": data_format, "weights_format": layout})
    if draw.random() < 0.4:
        y = g.type_cast(y, dtype=pick((og.bf16, og.f16)) if dtype is og.f32 else og.f32)
    of = pick((og.f32, y.dtype))
    tiny = pick((1, 1, 1e-30, 1e30))
    vectors = [odds(g.constant, lambda array: g.input(f"v{len(g.inputs)}", og.f32, array.shape))(numbers(8) * tiny)]
    vectors += [g.constant(numbers(8)) for _ in range(3)]
    if of is not og.f32:
        vectors = [g.type_cast(one, dtype=of) for one in vectors]
    own = odds(data_format, "NXC")
    if draw.random() < 0.2:
        bias = g.constant(numbers(8).astype(y.dtype.numpy), dtype=y.dtype)
        z = g.bias_add(y, bias, data_format=data_format)
    elif draw.random() < 0.2:
        z, *_ = g.batch_norm_forward_training(y, *vectors[2:], *vectors[:2], epsilon=1e-5, data_format=own)
    else:
        z = g.batch_norm_inference(y, *vectors, epsilon=odds(1e-5, 0.0), data_format=own)
    z = odds(g.relu(z), z, g.leaky_relu(z, alpha=0.1))
    g.output("y", z if draw.random() < 0.6 else g.type_cast(z, dtype=og.f32 if z.dtype is not og.f32 else og.bf16))
    if draw.random() < 0.12:
        g.output("inside", y)
    return g


def pooled_codes(draw: Random) -> og.Graph:
    """Sums, products and functions of 8-bit codes, between their decoding and their coding."""
    g, pick = og.Graph(), draw.choice
    odds = lambda often, *others: pick(others) if draw.random() < 0.12 else often  # noqa: E731
    shape = odds((4, 8), (4, 1), (0, 8), (2, 4, 8), ())

    def operand(name: str) -> LogicalTensor:
        if draw.random() < 0.2:
            return g.input(name, og.f32, odds(shape, shape[-1:]))
        scale, zero = odds(0.5, 1e-45, 1e30), odds(3, 1 << 25, 200)
        x = g.input(name, pick(("u8", "s8")), odds(shape, shape[-1:], (1,)))
        if draw.random() < 0.1 and x.shape:
            return g.dequantize(x, qtype="per_channel", axis=-1, scales=[0.5] * x.shape[-1], zps=[0] * x.shape[-1])
        return g.dequantize(x, scales=[scale], zps=[zero])

    y = operand("a")
    for place in range(draw.randrange(4)):
        kind = pick(("relu", "tanh", "add", "subtract", "multiply", "divide", "number", "host"))
        if kind in ("relu", "tanh"):
            y = getattr(g, kind)(y)
        elif kind == "host":
            y = g.op(pick(("Sin", "Floor", "Negative", "Sign")), [y], edition="host")
        elif kind == "number":
            y = pick((g.add, g.multiply, g.divide))(y, g.constant(np.full(odds((), (1,), shape[-1:]), 2, np.float32)))
        else:
            y = getattr(g, kind)(*[y, odds(operand(f"b{place}"), y)][:: pick((1, -1))])
    if draw.random() < 0.85:
        y = g.quantize(y, scales=[odds(0.5, 1e-45)], zps=[odds(3, 0)], dtype=pick(("u8", "s8")))
    g.output("y", y)
    return g


def experts(draw: Random) -> og.Graph:
    """Products with matrices that indices name."""
    g, pick = og.Graph(), draw.choice
    odds = lambda often, *others: pick(others) if draw.random() < 0.12 else often  # noqa: E731
    dtype = odds(og.f32, og.bf16)
    count, depth, columns, turned = odds((6,), (2, 3), ()), 16, 24, draw.random() < 0.5
    shape = (5, columns, depth) if turned else (5, depth, columns)
    shape = odds(shape, shape[1:], (2, *shape))
    matrices = g.constant(numbers(*shape).astype(dtype.numpy), dtype=dtype)
    matrices = odds(matrices, g.input("m", dtype, shape, strides=None if draw.random() < 0.5 else gaps(shape)))
    if draw.random() < 0.3:
        order = odds([*range(len(shape) - 2), len(shape) - 1, len(shape) - 2], [1, 0, *range(2, len(shape))])
        matrices, turned = g.static_transpose(matrices, order=order), not turned
    at = g.input("at", odds(og.s64, og.s32), count)
    own = g.op("Gather", [matrices, at], {"axis": odds(0, 1, -len(shape))}, edition="host")
    if draw.random() < 0.2:
        last = [*range(len(own.shape) - 2), len(own.shape) - 1, len(own.shape) - 2]
        own, turned = g.static_transpose(own, order=last), not turned
    own = odds(own, g.relu(own), g.op("Gather", [own, places(g, 1, 0)], {"axis": 0}, edition="host"))
    is_column = draw.random() < 0.3
    inside = own.shape[-1 if turned else -2] if not is_column else own.shape[-2 if turned else -1]
    outer = odds(own.shape[:-2], (1,) * len(own.shape[:-2]), (), (4, *own.shape[:-2]))
    rows = 1 if is_column and draw.random() < 0.8 else odds(pick((1, 4)), 32, 33)
    if is_column:
        flips = draw.random() < 0.5
        x = g.input("x", dtype, (*outer, rows, inside) if flips else (*outer, inside, rows))
        y = g.matmul(own, x, transpose_a=turned, transpose_b=flips)
    else:
        flips = draw.random() < 0.1
        x = g.input("x", dtype, odds((*outer, inside, rows) if flips else (*outer, rows, inside), (inside,)))
        y = g.matmul(x, own, transpose_a=flips, transpose_b=turned)
    g.output("y", odds(y, g.relu(y)))
    return g


def gaps(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for dim in reversed(shape):
        strides.append(step)
        step *= dim + 1
    return tuple(reversed(strides))


MAKERS = (sinks, channel_scales, packed, labels, norms, pooled_codes, experts)
