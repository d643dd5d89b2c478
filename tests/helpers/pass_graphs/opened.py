"""Graphs drawn at random whose steps kernels take where sizes are open: attention, codes, windows, rows."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np

import onegraph as og
from onegraph.ir.op import LogicalTensor

REDUCTIONS = "ReduceL1", "ReduceL2", "ReduceMean", "ReduceProd", "ReduceSum", "ReduceMax"
SINGLE = "Abs", "HardSwish", "Round", "Tanh", "ReLU", "LeakyReLU"


def numbers(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape))).reshape(shape).astype(dtype)


def attention(draw: Random) -> og.Graph:
    """Attention that is spelled out, with what models put between its products."""
    g, pick = og.Graph(), draw.choice
    g._roundings = frozenset() if draw.random() < 0.5 else None
    tokens, queries, size, heads, groups = pick((8, 64, 65)), pick((1, 4, 16, 17)), 8, pick((2, 4)), pick((1, 2))
    is_wide, narrow = draw.random() < 0.25, draw.random() < 0.3
    batches, kept_batches = (1, 1) if draw.random() < 0.6 else pick(((2, 2), (2, 1), (1, 2)))
    own = (batches, heads, groups, queries, size) if is_wide else (batches, heads * groups, queries, size)
    kept = (kept_batches, heads, 1, tokens, size) if is_wide else (kept_batches, heads, tokens, size)

    def scaled(x: LogicalTensor, odds: float = 0.3) -> LogicalTensor:
        if draw.random() > odds:
            return x
        factor = g.constant(np.full(pick(((), (1,), (1, 1))), pick((0.5, 2, 0, np.inf)), np.float32))
        return pick((g.multiply, g.divide))(x, factor) if draw.random() < 0.8 else g.multiply(factor, x)

    def head(name: str) -> LogicalTensor:
        x = g.input(name, og.bf16 if narrow else og.f32, kept)
        x = g.type_cast(x, dtype=og.f32) if narrow else x
        if is_wide or groups == 1:
            return x
        apart = (kept_batches, heads, 1, tokens, size)
        if draw.random() < 0.5:
            x = g.static_reshape(x, shape=apart, special_zero=False)
        else:
            x = g.op("Unsqueeze", [x], {"axes": [2]}, edition="host")
        if draw.random() < 0.5:
            full = g.constant(np.array([kept_batches, heads, groups, tokens, size]), dtype=og.s64)
            x = g.op("Expand", [x, full], edition="host")
        else:
            x = g.op("Tile", [x, g.constant(np.array([1, 1, groups, 1, 1]), dtype=og.s64)], edition="host")
        return g.static_reshape(x, shape=(kept_batches, heads * groups, tokens, size), special_zero=False)

    rank = len(own)
    query, key, value = scaled(g.input("q", og.f32, own)), head("k"), head("v")
    if draw.random() < 0.5:
        order = (*range(rank - 2), rank - 1, rank - 2)
        scores = g.matmul(query, scaled(g.static_transpose(scaled(key), order=order)))
    else:
        scores = g.matmul(query, scaled(key), transpose_b=True)
    scores = scaled(scores)
    if draw.random() < 0.3:
        scores = scaled(g.tanh(scores), 0.9)
    whole = scores.shape
    mask = pick((None, "added", "added", "where", "where"))
    if mask is not None:
        shape = pick((whole, (1,) * (rank - 2) + whole[-2:], whole[-2:], whole[-1:], (1, 1, 1, *whole[-2:])[-rank:]))
        if mask == "added":
            ends = [scores, g.input("mask", og.f32, shape)]
            scores = g.add(*(ends if draw.random() < 0.5 else ends[::-1]))
        else:
            fill = g.constant(np.full(pick(((), (1,))), pick((-np.inf, -1e9, 0)), np.float32))
            ends = [scores, fill] if draw.random() < 0.5 else [fill, scores]
            scores = g.op("Where", [g.input("mask", og.boolean, shape), *ends], edition="host")
    shares = g.softmax(scores, axis=pick((-1, -1, rank - 1, 1)) if draw.random() < 0.3 else -1)
    if draw.random() < 0.25:
        zero = g.constant(np.array(pick((0, 0, 1)), np.float32))
        shares = g.op("ReplaceNaN", [shares, zero], edition="host")
    if draw.random() < 0.25:
        shares = g.type_cast(g.type_cast(shares, dtype=og.bf16), dtype=og.f32)
    result = g.matmul(shares, value)
    if draw.random() < 0.5:
        order = (0, rank - 2, *range(1, rank - 2), rank - 1)
        result = g.static_transpose(result, order=order)
        if draw.random() < 0.5:
            result = g.relu(result)
    g.output("y", result)
    if draw.random() < 0.1:
        g.output("shares", shares)
    return g


def joined_heads(draw: Random) -> og.Graph:
    """Attention whose heads of a group are the rows of one matrix."""
    g, pick = og.Graph(), draw.choice
    pairs, groups, queries, tokens, size = 2, 3, pick((1, 5)), pick((8, 64)), 8
    q = g.input("q", og.f32, (1, pairs * groups, queries, size))
    ends = [g.input(name, og.f32, (1, pairs, tokens, size)) for name in "kv"]
    rows = g.static_reshape(q, shape=(1, pairs, groups * queries, size), special_zero=False)
    scores = g.matmul(rows, ends[0], transpose_b=True)
    scores = g.static_reshape(scores, shape=(1, pairs * groups, queries, tokens), special_zero=False)
    if draw.random() < 0.7:
        scores = g.add(scores, g.input("mask", og.f32, (1, 1, queries, tokens)))
    shares = g.static_reshape(
        g.softmax(scores, axis=-1), shape=(1, pairs, groups * queries, tokens), special_zero=False
    )
    ends[1] = g.tanh(ends[1]) if draw.random() < 0.2 else ends[1]
    y = g.matmul(shares, ends[1])
    if draw.random() < 0.8:
        y = g.static_reshape(y, shape=(1, pairs * groups, queries, size), special_zero=False)
    g.output("y", y)
    return g


def coded(g: og.Graph, x: LogicalTensor, draw: Random) -> LogicalTensor:
    scale, zero = [draw.choice((0.02, 0.5))], [draw.choice((0, 7, 120))]
    dtype = draw.choice(("u8", "s8"))
    return g.dequantize(g.quantize(x, scales=scale, zps=zero, dtype=dtype), scales=scale, zps=zero)


def codes(draw: Random) -> og.Graph:
    """A product or a convolution of 8-bit codes, with steps behind it."""
    g, pick = og.Graph(), draw.choice
    is_image, groups = draw.random() < 0.4, pick((1, 1, 2, 16))
    columns, depth = 32, pick((16, 48))
    x = g.input("x", og.f32, (2, 6, 7, depth) if is_image else pick(((3, depth), (2, 3, depth), (1, depth))))
    if draw.random() < 0.2 and not is_image:
        other = g.input("w", og.f32, (*x.shape[:-2], 24, depth))
        y = g.matmul(coded(g, x, draw), coded(g, other, draw), transpose_b=True)
        columns = 24
    else:
        layout, turned = pick(("OIX", "XIO")), draw.random() < 0.4
        if is_image:
            shape = (columns, depth // groups, 3, 3) if layout == "OIX" else (3, 3, depth // groups, columns)
            axis = 0 if layout == "OIX" else 3
        else:
            shape, axis = ((columns, depth), 0) if turned else ((depth, columns), 1)
        w = g.constant(numbers(*shape, dtype=pick((np.int8, np.uint8))))
        zeros = pick((0, 0, 3))
        if draw.random() < 0.6:
            scales = (0.01 * numbers(columns)).tolist()
            axis = axis if draw.random() < 0.85 else 1 - axis % 2
            if axis < len(shape) and shape[axis] == columns:
                w = g.dequantize(w, scales=scales, zps=[zeros] * columns, qtype="per_channel", axis=axis)
            else:
                w = g.dequantize(w, scales=[0.25], zps=[zeros])
        else:
            w = g.dequantize(w, scales=[0.25], zps=[zeros])
        bias = [g.constant(numbers(columns))] if draw.random() < 0.4 else []
        if is_image:
            how = {
                "strides": [pick((1, 2)), 1],
                "pads_begin": [1, 0],
                "pads_end": [0, 1],
                "dilations": [1, pick((1, 2))],
            }
            y = g.convolution(
                coded(g, x, draw), w, *bias, **how, groups=groups, data_format="NXC", weights_format=layout
            )
        else:
            if draw.random() < 0.25:
                zero = g.input("zero", pick((og.s32, og.u8, og.s8)), pick(((), (1,))))
                whole = g.quantize(x, scales=[0.5], zps=[0], dtype="u8")
                src = g.dynamic_dequantize(whole, g.constant(np.array([0.5], np.float32)), zero)
            else:
                src = coded(g, x, draw)
            y = g.matmul(src, w, *bias, transpose_b=turned)
    for place in range(draw.randrange(4)):
        behind = pick(("row", "number", "whole", "activation", "activation", "minus"))
        if behind == "activation":
            y = pick((g.relu, g.tanh, lambda x: g.leaky_relu(x, alpha=0.1)))(y)
        elif behind == "minus":
            y = g.subtract(*([y, g.input(f"z{place}", og.f32, (1,))][:: pick((1, -1))]))
        else:
            shape = {"row": (columns,), "number": (1,), "whole": y.shape}[behind]
            end = g.constant(numbers(*shape)) if draw.random() < 0.5 else g.input(f"z{place}", og.f32, shape)
            y = pick((g.add, g.multiply, g.divide))(*([y, end] if draw.random() < 0.7 else [end, y]))
    g.output("y", coded(g, y, draw) if draw.random() < 0.6 else y)
    return g


def windows(draw: Random) -> og.Graph:
    """A convolution of f32 by constant weights, or a pool, with steps behind it."""
    g, pick = og.Graph(), draw.choice
    data_format, layout, axes = pick(("NXC", "NXC", "NCX")), pick(("OIX", "XIO")), pick((1, 2, 2, 2))
    groups, channels, columns = pick(((1, 16, 32), (1, 3, 17), (2, 16, 32), (16, 16, 16), (1, 64, 64)))
    image, taps = (24, 20)[:axes], pick((1, 3, 3, 5))
    shape = (2, *image, channels) if data_format == "NXC" else (2, channels, *image)
    x = g.relu(g.input("x", og.f32, shape))
    pads = pick((0, 1, taps // 2, taps // 2))
    how = {"strides": [pick((1, 1, 2))] * axes, "pads_begin": [pads] * axes, "pads_end": [pads] * axes}
    if draw.random() < 0.2:
        if draw.random() < 0.3:
            how |= {"auto_pad": pick(("None", "SAME_UPPER", "VALID"))}
        how |= {"kernel": [taps] * axes, "exclude_pad": draw.random() < 0.5, "data_format": data_format}
        g.output("y", g.avg_pool(x, **how))
        return g
    kernel = (taps,) * axes
    full = (columns, channels // groups, *kernel) if layout == "OIX" else (*kernel, channels // groups, columns)
    bias = [g.constant(numbers(columns))] if draw.random() < 0.5 else []
    how |= {"dilations": [pick((1, 1, 2))] * axes, "data_format": data_format, "weights_format": layout}
    y = g.convolution(x, g.constant(numbers(*full)), *bias, groups=groups, **how)
    for _ in range(draw.randrange(3)):
        y = pick((g.relu, g.tanh, lambda x: g.leaky_relu(x, alpha=0.1), lambda x: g.add(x, np.float32(1))))(y)
    g.output("y", y)
    return g


def rows(draw: Random) -> og.Graph:
    """Norms, reductions and elementwise ops, alone or behind a product."""
    g, pick = og.Graph(), draw.choice
    x = g.input(
        "x", pick((og.f32, og.f32, og.f32, og.bf16)), pick(((2, 6, 5, 8), (2, 6, 5, 8), (2, 6, 8), (2, 0, 5, 8)))
    )
    if draw.random() < 0.3:
        x = g.matmul(x, g.constant(numbers(8, 8)) if x.dtype is og.f32 else g.input("w", x.dtype, (8, 8)))
    for _ in range(1 + draw.randrange(3)):
        kind = pick((*REDUCTIONS, *SINGLE, "SoftMax", "LayerNorm", "BatchNormInference", "Interpolate", "Spread"))
        rank = len(x.shape)
        if kind in REDUCTIONS:
            axes = sorted(draw.sample(range(rank), draw.randrange(rank + 1)))
            x = g.op(kind, [x], {"axes": axes, "keep_dims": True})
        elif kind == "LayerNorm":
            scales = [g.constant(numbers(x.shape[-1]))] * 2 if draw.random() < 0.7 else []
            x = g.layer_norm(x, *scales, keep_stats=False, use_affine=bool(scales), begin_norm_axis=pick((-1, -1, 2)))
        elif kind == "BatchNormInference":
            data_format = pick(("NXC", "NCX"))
            shape = x.shape[-1 if data_format == "NXC" else 1 :][:1]
            vectors = [g.constant(numbers(*shape)) for _ in range(4)]
            if draw.random() < 0.2:
                vectors[1] = g.input(f"shift{len(g.inputs)}", og.f32, shape)
            x = g.batch_norm_inference(x, *vectors, epsilon=1e-5, data_format=data_format)
        elif kind == "Interpolate":
            x = g.interpolate(
                x, mode=pick(("nearest", "bilinear")), scales=(2.0, 2.0), data_format=pick(("NXC", "NCX"))
            )
        elif kind == "Spread":
            shape = [dim if draw.random() < 0.5 else 1 for dim in x.shape][draw.randrange(3) :]
            other = g.input(f"other{len(g.inputs)}", x.dtype, shape)
            ends = [x, other][:: pick((1, -1))]
            x = pick((g.add, g.subtract, g.multiply, g.divide, g.maximum))(*ends)
        elif kind == "SoftMax":
            x = g.softmax(x, axis=pick((-1, 1)))
        else:
            x = g.op(kind, [x], {"alpha": 0.1} if kind == "LeakyReLU" else {})
    g.output("y", x)
    return g


COUNTS = {attention: 120, joined_heads: 8, codes: 80, windows: 40, rows: 60}


def graphs() -> Iterator[tuple[str, og.Graph]]:
    """The graphs, by kind; a form that is no valid graph is drawn again."""
    for make, count in COUNTS.items():
        seeds, left = iter(range(10 * count)), count
        for seed in seeds:
            try:
                graph = make(Random(f"{make.__name__} {seed}"))
            except og.errors.OneGraphError:
                continue
            yield make.__name__, graph
            left -= 1
            if not left:
                break
