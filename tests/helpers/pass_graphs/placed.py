"""Graphs drawn at random whose results lie in the memory of other tensors, or in an order of their own."""

from __future__ import annotations

from random import Random

import numpy as np

import onegraph as og
from onegraph.ir.op import LogicalTensor

from .forms import places
from .opened import numbers


def updated(draw: Random) -> og.Graph:
    """Variables with their next values, as optimizers and caches compute these."""
    g, pick = og.Graph(), draw.choice
    odds = lambda often, *others: pick(others) if draw.random() < 0.2 else often  # noqa: E731
    shape, dtype = pick(((3, 4), (2, 8), (64,))), odds(og.f32, og.bf16)
    w = g.input("w", dtype, shape, strides=odds(None, (1, shape[0])) if len(shape) > 1 else None)
    m, d = g.input("m", dtype, shape), g.input("d", dtype, odds(shape, (1, *shape[1:]), shape[-1:]))
    rate = g.constant(numbers(1).astype(dtype.numpy), dtype=dtype)
    following = g.add(g.multiply(m, rate), d)
    step = odds(following, g.multiply(d, rate), m)
    new = pick((g.subtract, g.add))(*odds([w, step], [step, w], [w, w]))
    if draw.random() < 0.3:
        new = g.type_cast(g.type_cast(new, dtype=og.f32), dtype=dtype) if dtype is not og.f32 else g.relu(new)
    if len(shape) > 1 and draw.random() < 0.3:
        new = odds(g.static_transpose(new, order=[1, 0]), g.static_reshape(new, shape=[*shape], special_zero=False))
    if draw.random() < 0.3:
        at = g.input("at", og.s64, (1, *shape[1:]))
        rows = g.input("rows", dtype, (1, *shape[1:]))
        new = g.op("ScatterElements", [odds(w, new), at, odds(rows, at if dtype is og.s64 else rows)], edition="host")
    g.output("next w", new)
    if draw.random() < 0.8:
        g.output("next m", odds(following, new, g.relu(following)))
    if draw.random() < 0.3:
        g.output("again", pick((new, following, w)))
    if len(shape) == 2 and draw.random() < 0.3:
        g.output("y", g.matmul(g.input("x", dtype, (5, shape[0])), odds(w, new) if new.shape == shape else w))
    return g


def growing(draw: Random) -> og.Graph:
    """Layers that join their result with the results before them, as in a dense block."""
    g, pick = og.Graph(), draw.choice
    odds = lambda often, *others: pick(others) if draw.random() < 0.1 else often  # noqa: E731
    last = draw.random() < 0.8
    data_format, axis, channels = ("NXC", -1, 8) if last else ("NCX", 1, 8)
    shape = (1, 5, 6, channels) if last else (1, channels, 5, 6)
    y = g.input("x", og.f32, shape)
    joined = [y, g.relu(y)] if draw.random() < 0.5 else [y]
    for layer in range(pick((2, 3))):
        whole = g.concat(*odds(joined, joined[::-1]), axis=odds(axis, 2)) if len(joined) > 1 else joined[0]
        norm = normalized_by(g, whole, data_format, layer) if draw.random() < 0.9 else g.tanh(whole)
        count = whole.shape[-1 if last else 1]
        weights = g.constant(numbers(1, 1, count, channels))
        made = g.convolution(
            odds(norm, g.relu(norm), whole),
            weights,
            strides=[1, 1],
            pads_begin=[0, 0],
            pads_end=[0, 0],
            dilations=[1, 1],
            data_format=data_format,
        )
        joined = odds([*joined, made], [*joined, made, made], [made, *joined], joined)
        if draw.random() < 0.1:
            g.output(f"whole {layer}", whole)
    g.output("y", g.relu(normalized_by(g, g.concat(*joined, joined[0], axis=axis), data_format, 9)))
    return g


def normalized_by(g: og.Graph, x: LogicalTensor, data_format: str, number: int) -> LogicalTensor:
    count = x.shape[-1 if data_format == "NXC" else 1]
    vectors = [g.constant(np.abs(numbers(count)) + 1 + number) for _ in range(4)]
    return g.batch_norm_inference(x, *vectors, epsilon=1e-3, data_format=data_format)


def normalized(draw: Random) -> og.Graph:
    """Normalizations by given statistics, with an activation behind them, around views and copies."""
    g, pick = og.Graph(), draw.choice
    odds = lambda often, *others: pick(others) if draw.random() < 0.2 else often  # noqa: E731
    last, dtype = draw.random() < 0.6, odds(og.f32, og.bf16, og.f16)
    channels = pick((5, 16, 24))
    shape = (2, 3, 4, channels) if last else (2, channels, 3, 4)
    order = pick(((0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2)))
    x = g.input("x", dtype, tuple(shape[axis] for axis in order))
    y = g.static_transpose(x, order=[order.index(axis) for axis in range(4)]) if order != (0, 1, 2, 3) else x
    vectors = [g.constant(np.abs(numbers(channels)) + 1) for _ in range(4)]
    y = g.batch_norm_inference(y, *vectors, epsilon=1e-3, data_format="NXC" if last else "NCX")
    normed = y
    if draw.random() < 0.7:
        y = odds(g.relu(y), g.tanh(y), g.add(y, y))
    if draw.random() < 0.4:
        y = pick((
            g.static_transpose(y, order=[0, 2, 3, 1]),
            g.static_reshape(y, shape=[2, -1], special_zero=False),
            g.op("Expand", [y, places(g, 3, *y.shape)], edition="host"),
        ))  # fmt: skip
    g.output("y", y)
    if draw.random() < 0.15:
        g.output("inside", normed)
    return g


def surrounded(draw: Random) -> og.Graph:
    """Pads and Tiles, also of views."""
    g, pick = og.Graph(), draw.choice
    odds = lambda often, *others: pick(others) if draw.random() < 0.2 else often  # noqa: E731
    shape = pick(((3, 4), (5,), (2, 3, 4), (1, 2, 1, 3), (0, 3), (2,) * 6, (1,) * 12))
    dtype = odds(og.f32, og.s64, og.u8)
    x = g.input("x", dtype, shape)
    if len(shape) > 1 and draw.random() < 0.3:
        x = g.op("Transpose", [x], {"order": [*range(len(shape))][::-1]}, edition="host")
    kind, rank = pick(("Pad", "Pad", "Tile")), len(shape)
    if kind == "Tile":
        y = g.op("Tile", [x, places(g, *(pick((1, 1, 2, 3)) for _ in shape))], edition="host")
    else:
        most = pick((1, 2, 3))
        pads = [draw.randrange(-1 if draw.random() < 0.2 else 0, most + 1) for _ in range(2 * rank)]
        mode = pick(("constant", "constant", "edge", "reflect", "wrap"))
        value = g.constant(np.ones((), dtype.numpy), dtype=dtype)
        value = odds(value, g.input("value", dtype, ()))
        ends = [x, places(g, *pads), *([value] if mode == "constant" and draw.random() < 0.6 else [])]
        y = g.op("Pad", ends, {"mode": mode}, edition="host")
    g.output("y", odds(y, g.op("Abs", [y], edition="host")) if dtype is og.f32 else y)
    return g


def viewed(draw: Random) -> og.Graph:
    """Steps whose results are given out by views, and read by others."""
    g, pick = og.Graph(), draw.choice
    odds = lambda often, *others: pick(others) if draw.random() < 0.25 else often  # noqa: E731
    rows, columns = pick((3, 16, 40)), pick((4, 24))
    x = g.input("x", og.f32, (2, rows, columns))
    if draw.random() < 0.5:
        x = g.static_transpose(x, order=odds([0, 2, 1], [1, 0, 2], [2, 1, 0]))
    inside = x.shape[-1]
    y = pick((
        g.relu(x),
        g.matmul(x, g.constant(numbers(inside, 8))),
        g.add(x, g.constant(numbers(inside))),
        g.clamp(x, min=0.0, max=2.0),
        g.softmax(x, axis=-1),
        g.reduce_max(x, axes=[-1], keep_dims=True),
        g.tanh(x),
    ))  # fmt: skip
    first = y
    for _ in range(pick((1, 1, 2))):
        flat = int(np.prod(y.shape))
        y = pick((
            g.static_transpose(y, order=odds([*range(len(y.shape))][::-1], [*range(len(y.shape))])),
            g.static_reshape(y, shape=[flat], special_zero=False),
            g.static_reshape(y, shape=[flat // y.shape[-1], 1, y.shape[-1]], special_zero=False),
            g.op("Slice", [y, places(g, 0), places(g, 2), places(g, 0), places(g, pick((1, 1, -1)))], edition="host"),
            g.op("Unsqueeze", [y], {"axes": [0]}, edition="host"),
            g.op("Expand", [y, places(g, 2, *y.shape)], edition="host"),
        ))  # fmt: skip
    if draw.random() < 0.3:
        y = pick((g.relu, g.square))(y)
    g.output("y", y)
    if draw.random() < 0.2:
        g.output("inside", odds(first, x))
    if draw.random() < 0.2:
        g.output("also", g.static_reshape(first, shape=[-1], special_zero=False))
    return g


def strided(draw: Random) -> og.Graph:
    """Ops on tensors that lie in memory with gaps or in another order, some of which several ops read."""
    g, pick = og.Graph(), draw.choice
    odds = lambda often, *others: pick(others) if draw.random() < 0.3 else often  # noqa: E731
    rows, depth, columns = pick((40, 4)), 32, pick((24, 16))
    ways = lambda first, last: pick((None, (last + 1, 1), (1, first), (2 * last, 2)))  # noqa: E731
    x = g.input("x", og.f32, (rows, depth), strides=ways(rows, depth))
    weights = [g.input(name, og.f32, (depth, columns), strides=ways(depth, columns)) for name in "wv"]
    for place in range(pick((1, 2, 2, 3))):
        w = odds(weights[0], weights[1], g.relu(weights[0]))
        y = pick((
            g.matmul(x, w),
            g.matmul(x, w),
            g.matmul(w, x, transpose_a=True, transpose_b=True),
            g.square(w),
            g.add(x, g.input(f"z{place}", og.f32, (rows, depth), strides=ways(rows, depth))),
            g.reduce_sum(x, axes=[pick((0, 1))], keep_dims=True),
            g.softmax(x, axis=pick((0, 1))),
            g.static_reshape(w, shape=[-1], special_zero=False),
            g.op("Gather", [w, places(g, 3, 1)], {"axis": pick((0, 1))}, edition="host"),
        ))  # fmt: skip
        y = odds(y, g.tanh(y))
        is_turned = len(y.shape) == 2 and draw.random() < 0.3
        g.output(f"y{place}", y, strides=(1, y.shape[0]) if is_turned else None)
    return g


def alike(draw: Random) -> og.Graph:
    """Layers that are alike but for their constants, or in one more way."""
    g, pick = og.Graph(), draw.choice
    odds = lambda often, *others: pick(others) if draw.random() < 0.2 else often  # noqa: E731
    dtype, size = odds(og.f32, og.bf16), pick((8, 24))
    y = g.input("x", dtype, odds((5, size), (2, 5, size)))
    shared = g.constant(numbers(size, size).astype(dtype.numpy), dtype=dtype)
    for layer in range(pick((2, 3))):
        own = g.constant((numbers(size, size) + layer).astype(dtype.numpy), dtype=dtype)
        y = g.matmul(y, odds(own, shared, g.input(f"w{layer}", dtype, (size, size))))
        y = odds(g.add(y, g.constant((numbers(size) - layer).astype(dtype.numpy), dtype=dtype)), y)
        y = odds(g.relu(y), g.tanh(y), g.softmax(y, axis=-1), g.multiply(y, y))
        if draw.random() < 0.15:
            g.output(f"y{layer}", y)
    g.output("y", y)
    return g


MAKERS = (updated, growing, normalized, surrounded, viewed, strided, alike)
