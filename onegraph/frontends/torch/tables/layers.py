"""Lowers convolutions and matrix products."""

from __future__ import annotations

import numpy as np

from ....lowering import layers as lowering
from ....lowering import windows
from ....lowering.emitter import Value, dtype_of, known_rank
from ....lowering.layout import moved
from ....lowering.movement import NATIVE
from ..node import AtenNode, NotLowered, lowers


def side(node: AtenNode, value: Value) -> tuple[Value, bool]:
    """A factor of a product, and whether the product transposes it: a transpose before it is left out."""
    rank = known_rank(value)
    if rank < 2:
        return value, False
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    if isinstance(value, np.ndarray):
        turned = value.transpose(swapped)
        return (turned, True) if turned.flags.c_contiguous and not value.flags.c_contiguous else (value, False)
    layout = moved(node.emit, value)
    return (layout[0], True) if layout is not None and [*layout[1]] == swapped else (value, False)


def product(node: AtenNode, first: Value, second: Value, bias: Value | None = None) -> Value:
    """The matrix product."""
    if dtype_of(first) not in NATIVE:
        raise NotLowered(f"{dtype_of(first)} is no data type of a product")
    (left, a), (right, b) = side(node, first), side(node, second)
    return lowering.matmul(node.emit, left, right, bias, transpose_a=a, transpose_b=b)


@lowers("mm.default", "bmm.default")
def matmul(node: AtenNode) -> Value:
    """A product of matrices, or of as many pairs as the first axis counts."""
    return product(node, node.value("self"), node.value("mat2"))


@lowers("addmm.default", "baddbmm.default")
def addmm(node: AtenNode) -> Value:
    """beta * self + alpha * first @ second."""
    names = ("batch1", "batch2") if "baddbmm" in node.name else ("mat1", "mat2")
    first, second, bias = node.value(names[0]), node.value(names[1]), node.value("self")
    if dtype_of(first) not in NATIVE:
        raise NotLowered(f"{dtype_of(first)} is no data type of a product")
    (left, a), (right, b) = side(node, first), side(node, second)
    return lowering.scaled_matmul(
        node.emit,
        left,
        right,
        None if node["beta"] == 0 else bias,
        alpha=node["alpha"],
        beta=node["beta"],
        transpose_a=a,
        transpose_b=b,
    )


@lowers("linear.default")
def linear(node: AtenNode) -> Value:
    """src @ weight.T + bias."""
    return lowering.matmul(node.emit, node.value("input"), node.value("weight"), node["bias"], transpose_b=True)


def _each(numbers: list[int], count: int) -> list[int]:
    return [*numbers] * count if len(numbers) == 1 else [*numbers]


@lowers("convolution.default")
def convolution(node: AtenNode) -> Value:
    """A convolution, or its transpose."""
    src, weights, bias = node.value("input"), node.value("weight"), node["bias"]
    if dtype_of(src) not in NATIVE:
        raise NotLowered(f"{dtype_of(src)} is no data type of a convolution")
    shape = node.shape("input")
    count = len(node.shape("weight")) - 2
    if len(shape) != count + 2:
        raise NotLowered("no axis of batches")
    strides, padding, dilation = (_each(node[name], count) for name in ("stride", "padding", "dilation"))
    window = windows.Window(strides, padding, padding, dilation)
    if node["transposed"]:
        more = _each(node["output_padding"], count)
        if any(extra >= max(step, apart) for extra, step, apart in zip(more, strides, dilation, strict=True)):
            raise NotLowered("output padding beyond the strides")
        return windows.convolution_transpose(
            node.emit, src, weights, bias, window, output_padding=more, groups=node["groups"]
        )
    return windows.convolution(node.emit, src, weights, bias, window, groups=node["groups"])
