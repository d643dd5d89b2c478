"""Draws random numbers, anew in each run; a seed makes the numbers of all runs the same."""

from __future__ import annotations

import numpy as np

from ....lowering.emitter import Array
from ....opset.dtypes import DataType
from ..node import Node, Unsettled, computes


def _generator(node: Node) -> np.random.RandomState:
    if not node.importer.now:
        raise Unsettled("each run draws other numbers")
    return np.random.RandomState(int(node.attr("seed")) % 2**32 if node.has("seed") else None)


def _dtype(node: Node, default: DataType) -> np.dtype[np.generic]:
    result: DataType = node.importer.dtype(node.attr("dtype"), node.where) if node.has("dtype") else default
    return result.numpy


@computes("RandomNormal", "RandomUniform")
def drawn(node: Node) -> Array:
    """Numbers of a stated shape."""
    return _drawn(node, tuple(node.attr("shape")), _dtype(node, DataType.f32))


@computes("RandomNormalLike", "RandomUniformLike")
def drawn_like(node: Node) -> Array:
    """Numbers of the shape of a tensor."""
    return _drawn(node, node.array(0).shape, _dtype(node, node.dtype()))


def _drawn(node: Node, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    generator = _generator(node)
    if "Normal" in node.proto.op_type:
        return generator.normal(node.attr("mean", 0.0), node.attr("scale", 1.0), shape).astype(dtype)
    return generator.uniform(node.attr("low", 0.0), node.attr("high", 1.0), shape).astype(dtype)


@computes("Bernoulli")
def bernoulli(node: Node) -> Array:
    """1 with the probability that each element states, else 0. The function of ONNX draws the opposite."""
    src = node.array(0)
    return (_generator(node).uniform(size=src.shape) < src).astype(_dtype(node, node.dtype()))


@computes("Multinomial")
def multinomial(node: Node) -> Array:
    """Classes, by the logarithms of their probabilities."""
    logits, count = node.wide(0), node.attr("sample_size", 1)
    chances = np.exp(logits - logits.max(-1, keepdims=True))
    bounds = np.cumsum(chances / chances.sum(-1, keepdims=True), -1)
    points = _generator(node).uniform(size=(len(logits), count, 1))
    drawn = np.minimum((points >= bounds[:, None]).sum(-1), logits.shape[-1] - 1)
    result: Array = drawn.astype(_dtype(node, DataType.s32))
    return result


def dropped(node: Node) -> tuple[Array, Array]:
    """A tensor with elements set to 0 at random and the others enlarged, and where elements stayed."""
    src, ratio = node.array(0), node.known(1)
    share = 0.5 if ratio is None else float(ratio.reshape(-1)[0])
    stays = np.ones(src.shape, bool) if share == 0 else _generator(node).uniform(size=src.shape) >= share
    return np.where(stays, src.astype(np.float64) / max(1 - share, 1e-12), 0).astype(src.dtype), stays
