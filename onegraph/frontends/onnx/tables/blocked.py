"""Lowers nodes of com.microsoft.nchwc, in which ONNX Runtime keeps channels in blocks for one kind of CPU.

Values are plain here, (N, C, X) with the channels that a block adds; the library chooses layouts of its own. Only the
weights of a file are in blocks, of 16 channels on a CPU with AVX-512 and of 8 on others. The file does not say which,
so that it is read on a CPU like the one that it was made for, as ONNX Runtime demands too.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ....lowering import windows
from ....lowering.elementwise import add
from ....lowering.emitter import Array, Value
from ....lowering.movement import part, transpose
from ..node import Node, NotLowered, lowers
from .fused import activated
from .layers import average_pool, global_pool, max_pool, window_of
from .resize import resize

DOMAIN = "com.microsoft.nchwc"


@cache
def _block() -> int:
    """The channels of a block on this CPU."""
    try:
        flags = Path("/proc/cpuinfo").read_text("ascii", "replace")
    except OSError:
        flags = ""
    return 16 if " avx512f" in flags else 8


def _weights(node: Node) -> Array:
    """The weights (O, I, X), whose blocks of channels lie behind the window in the file."""
    weights, groups, block = node.array(1), node.attr("group", 1), _block()
    outputs, inputs, *window = weights.shape
    if outputs % block or len(window) != 2:
        raise NotLowered(f"weights of shape {list(weights.shape)}, which were not made for blocks of {block} channels")
    if inputs < block and (groups == 1 or inputs == 1):
        result = weights.reshape(outputs // block, inputs, *window, block).transpose(0, 4, 1, 2, 3)
    elif inputs % block == 0:
        shape = outputs // block, inputs // block, *window, block, block
        result = weights.reshape(shape).transpose(0, 5, 1, 4, 2, 3)
    else:
        raise NotLowered(f"{inputs} channels, which were not made for blocks of {block}")
    return np.ascontiguousarray(result.reshape(weights.shape))


@lowers("Conv", domain=DOMAIN)
def convolution(node: Node) -> Value:
    """A convolution, a tensor that is added, and an activation."""
    residual, window = node.optional(3), window_of(node)
    src, weights = node.value(0), _weights(node)
    result = windows.convolution(node.emit, src, weights, node.optional(2), window, groups=node.attr("group", 1))
    return activated(node, result if residual is None else add(node.emit, result, residual))


@lowers("ReorderInput", domain=DOMAIN)
def reorder_input(node: Node) -> Value:
    """(N, C, X), with channels up to a multiple of a block."""
    emit, src, rank = node.emit, node.value(0), node.rank()
    if node.attr("channels_last", 0):
        src = transpose(emit, src, [0, rank - 1, *range(1, rank - 1)])
    channels = (node.dims()[-1 if node.attr("channels_last", 0) else 1]) or 0
    if not channels:
        raise NotLowered("an unknown number of channels")
    missing = -channels % _block()
    if not missing:
        return src
    pads = np.array([0] * rank + [0, missing] + [0] * (rank - 2), np.int64)
    return emit.op("Pad", [src, pads, np.zeros((), node.dtype().numpy)], {"mode": "constant"})


@lowers("ReorderOutput", domain=DOMAIN)
def reorder_output(node: Node) -> Value:
    """The first channels of (N, C, X), as the last axis if the attribute says so."""
    emit, rank, channels = node.emit, node.rank(), node.attr("channels")
    src = node.value(0) if node.dims()[1] == channels else part(emit, node.value(0), 1, 0, channels)
    return transpose(emit, src, [0, *range(2, rank), 1]) if node.attr("channels_last", 0) else src


@lowers("Upsample", domain=DOMAIN)
def upsample(node: Node) -> Value:
    """Images enlarged by whole factors, which repeat each pixel if the mode is ``nearest``."""
    scales = np.array(node.attr("scales"), np.float32)
    return resize(node.with_inputs([node.value(0), None, scales]), "asymmetric", "floor")


lowers("MaxPool", domain=DOMAIN)(max_pool)
lowers("AveragePool", domain=DOMAIN)(average_pool)
lowers("GlobalMaxPool", "GlobalAveragePool", domain=DOMAIN)(global_pool)
