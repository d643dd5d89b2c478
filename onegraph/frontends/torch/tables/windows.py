"""Lowers pools."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....lowering import windows
from ....lowering.blocks import from_blocks, to_blocks
from ....lowering.emitter import Value, dtype_of
from ....lowering.layers import matmul
from ....lowering.reduction import reduce
from ..node import Node, NotLowered, lowers
from .elementwise import native
from .movement import reshape, transpose


def each(numbers: Sequence[int] | int, count: int) -> list[int]:
    """One number for each axis."""
    listed = [numbers] if type(numbers) is int else [*numbers]  # type: ignore[misc]
    return listed * count if len(listed) == 1 else listed


def window_of(node: Node, count: int) -> tuple[list[int], windows.Window]:
    """The kernel and the window of a pool."""
    kernel = each(node["kernel_size"], count)
    strides = each(node["stride"], count) if node["stride"] else kernel
    padding = each(node["padding"], count)
    return kernel, windows.Window(strides, padding, padding, each(node["dilation"] or 1, count))


def _batched(node: Node, count: int) -> Value:
    """The source with an axis of batches."""
    src = native(node)
    return src if len(node.shape("self")) == count + 2 else reshape(node, src, [1, *node.shape("self")])


@lowers("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def max_pool(node: Node) -> list[Value | None]:
    """The largest element of each window."""
    count = 3 if "3d" in node.name else 2
    src = _batched(node, count)
    kernel, window = window_of(node, count)
    found = windows.max_pool(node.emit, src, kernel, window, ceil=bool(node["ceil_mode"]))
    return [reshape(node, found, node.result_shape), None]


@lowers("avg_pool2d.default", "avg_pool3d.default", "avg_pool1d.default")
def average_pool(node: Node) -> Value:
    """The mean of each window."""
    if node["divisor_override"] is not None:
        raise NotLowered("a divisor of its own")
    count = int(node.name.split(".")[1][-2])
    src = _batched(node, count)
    kernel, window = window_of(node, count)
    ceil = bool(node["ceil_mode"])
    padded = any(window.begin) or ceil
    found = windows.average_pool(
        node.emit, src, kernel, window, ceil=ceil, exclude_pad=not (node["count_include_pad"] and padded)
    )
    return reshape(node, found, node.result_shape)


@lowers("_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default", "adaptive_avg_pool1d.default")
def adaptive_pool(node: Node) -> Value:
    """The means of windows that divide the image into a number of parts."""
    src, shape, wanted = native(node), node.shape("self"), each(node["output_size"], 1)
    rank, count = len(shape), len(wanted)
    sizes = shape[-count:]
    if all(one == 1 for one in wanted):
        return reduce(node.emit, "ReduceMean", src, [*range(rank - count, rank)], True)
    if all(size % parts == 0 for size, parts in zip(sizes, wanted, strict=True)):
        kernel = [size // parts for size, parts in zip(sizes, wanted, strict=True)]
        window = windows.Window(kernel, [0] * count, [0] * count, [1] * count)
        images = src if rank == count + 2 else reshape(node, src, [1, *shape])
        found = windows.average_pool(node.emit, images, kernel, window)
        return reshape(node, found, node.result_shape)
    for place in range(rank - count, rank):
        size, parts = shape[place], wanted[place - rank + count]
        if size != parts:
            src = _along(node, src, place, _shares(size, parts).astype(dtype_of(src).numpy))
    return src


@lowers("_adaptive_avg_pool2d_backward.default")
def adaptive_pool_backward(node: Node) -> Value:
    """The gradient of an adaptive average pool: each element gets its shares of the gradients of its parts."""
    found, shape = native(node, "grad_output"), node.shape("self")
    parts = node.shape("grad_output")
    for place in (-2, -1):
        shares = _shares(shape[place], parts[place]).T.astype(dtype_of(found).numpy)
        found = _along(node, found, len(shape) + place, shares)
    return found


def _shares(size: int, parts: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The share (parts, size) of each element in each part."""
    found = np.zeros((parts, size))
    for part in range(parts):
        first, last = part * size // parts, -(-(part + 1) * size // parts)
        found[part, first:last] = 1 / (last - first)
    return found


def _along(node: Node, src: Value, place: int, shares: np.ndarray[tuple[int, int], np.dtype[np.generic]]) -> Value:
    """The product of a matrix with src along one axis."""
    rank = len(src.shape or ())
    order = [*range(rank)]
    order[place], order[-1] = order[-1], order[place]
    turned = matmul(node.emit, transpose(node, src, order), np.ascontiguousarray(shares.T))
    return transpose(node, turned, order)


@lowers("im2col.default", "col2im.default")
def blocks(node: Node) -> Value:
    """The blocks of an image, or the sums of blocks at their places in an image."""
    src, shape = native(node), [*node.shape("self")]
    kernel, strides, padding, dilations = (
        each(node[name], 2) for name in ("kernel_size", "stride", "padding", "dilation")
    )
    window, is_apart = windows.Window(strides, padding, padding, dilations), "im2col" in node.name
    if len(shape) == (3 if is_apart else 2):
        src = reshape(node, src, [1, *shape])
    found = (
        to_blocks(node.emit, src, kernel, window)
        if is_apart
        else from_blocks(node.emit, src, each(node["output_size"], 2), kernel, window)
    )
    return reshape(node, found, node.result_shape)
