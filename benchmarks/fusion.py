"""The gain of fusion: graphs compiled with the policy ``fusion`` against the policy ``debug``, op by op."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import onegraph as og

from .kernels import notes
from .models.network import sizes, window
from .timing import QUICK, Effort, Row, alternate, calls

WINDOW = window(stride=1, pad=1)
rng = np.random.default_rng(0)


def random(*shape: int, dtype: og.DataType = og.f32, scale: float = 1.0) -> np.ndarray:
    return (rng.standard_normal(shape) * scale).astype(dtype.numpy)


def convolution(size: int, channels: int, dtype: og.DataType) -> og.Graph:
    """Convolution 3x3 + bias + ReLU, batch 4."""
    g = og.Graph()
    src = g.input("src", dtype, (4, size, size, channels))
    weights = g.constant(random(3, 3, channels, channels, dtype=dtype, scale=0.05))
    bias = g.constant(random(channels, dtype=dtype))
    g.output("dst", g.relu(g.bias_add(g.convolution(src, weights, **WINDOW), bias)))
    return g


def matmul(rows: int, width: int, dtype: og.DataType) -> og.Graph:
    """MatMul to four times the width + bias + GELU, as in the feed-forward part of a transformer."""
    g = og.Graph()
    weights = g.constant(random(width, 4 * width, dtype=dtype, scale=0.05))
    product = g.matmul(g.input("src", dtype, (rows, width)), weights, dtype=dtype)
    g.output("dst", g.gelu(g.add(product, g.constant(random(1, 4 * width, dtype=dtype)))))
    return g


def attention(tokens: int, heads: int, dtype: og.DataType) -> og.Graph:
    """softmax(query key^T / 8 + mask) value, batch 4, 64 wide."""
    g = og.Graph()
    query, key, value = (g.input(name, dtype, (4, heads, tokens, 64)) for name in ("query", "key", "value"))
    mask = g.input("mask", dtype, (4, 1, 1, tokens))
    scores = g.matmul(query, key, transpose_b=True, dtype=dtype)
    scores = g.add(g.divide(scores, g.constant(np.full((1,), 8, dtype.numpy))), mask)
    g.output("dst", g.matmul(g.softmax(scores, axis=-1), value))
    return g


def int8_convolution(size: int, channels: int) -> og.Graph:
    """Dequantize of source and weights + Convolution 3x3 + ReLU + Quantize, batch 4."""
    g = og.Graph()
    src = g.dequantize(g.input("src", og.u8, (4, size, size, channels)), scales=[0.1], zps=[0])
    steps = (rng.random(channels) * 0.01 + 0.001).tolist()
    kept = g.constant(rng.integers(-127, 128, (3, 3, channels, channels), np.int8))
    weights = g.dequantize(kept, qtype="per_channel", axis=3, scales=steps, zps=[0] * channels)
    g.output("dst", g.quantize(g.relu(g.convolution(src, weights, **WINDOW)), dtype=og.u8, scales=[2.0], zps=[0]))
    return g


def cases(quick: bool) -> dict[str, og.Graph]:
    size, channels, rows, width, tokens, heads = (8, 16, 8, 16, 8, 2) if quick else (56, 64, 512, 768, 128, 12)
    found = {}
    for dtype in (og.f32, og.bf16):
        found[f"conv + bias + relu, {dtype}"] = convolution(size, channels, dtype)
        found[f"matmul + bias + gelu, {dtype}"] = matmul(rows, width, dtype)
        found[f"attention, {dtype}"] = attention(tokens, heads, dtype)
    return found | {"conv + relu, int8": int8_convolution(size, channels)}


def arrays(graph: og.Graph) -> dict[str, np.ndarray]:
    """Random contents of the inputs."""
    found = {}
    for name, tensor in graph.inputs.items():
        shape = sizes(tensor)
        integers = tensor.dtype is og.u8
        found[name] = rng.integers(0, 256, shape, np.uint8) if integers else random(*shape, dtype=tensor.dtype)
    return found


def rows(quick: bool = False) -> Iterator[Row]:
    effort = QUICK if quick else Effort()
    for case, graph in cases(quick).items():
        given = arrays(graph)
        models = {policy: graph.compile(policy=policy) for policy in ("debug", "fusion")}
        runs = {policy: model.bind(**given) for policy, model in models.items()}
        one, other = (np.asarray(run.run(), np.float32) for run in runs.values())
        # debug rounds bf16 between the ops; an int8 result may be rounded the other way
        limit = {og.f32: 1e-4, og.bf16: 0.02}.get(graph.outputs["dst"].dtype, 0) * float(np.abs(one).max())
        assert np.abs(one - other).max() <= (limit or 1), case
        seconds, speed, load = alternate({policy: calls(run.run) for policy, run in runs.items()}, effort)
        reports = {policy: model.report() for policy, model in models.items()}
        numbers = {f"partitions, {policy}": float(len(report.partitions)) for policy, report in reports.items()}
        note = notes(reports["fusion"], runs["fusion"].run)
        yield Row(case, seconds, speed, numbers, note, load)
