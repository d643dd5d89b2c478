"""Lowers pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...._util.open_sizes import is_open
from ....lowering import windows
from ....lowering.blocks import from_blocks, to_blocks
from ....lowering.emitter import Value, dtype_of
from ....lowering.movement import cast, rounded
from ....lowering.open_samples import open_means
from ....lowering.reduction import reduce
from ....lowering.shares import Shares, shared
from ....lowering.shares import windows as windows_of
from ....opset.dtypes import DataType
from ..node import AtenNode, NotLowered, lowers
from .elementwise import native
from .movement import reshape


def each(numbers: Sequence[int] | int, count: int) -> list[int]:
    """One number for each axis."""
    listed = [numbers] if type(numbers) is int else [*numbers]  # type: ignore[misc]
    return listed * count if len(listed) == 1 else listed


def window_of(node: AtenNode, count: int) -> tuple[list[int], windows.Window]:
    """The kernel and the window of a pool."""
    kernel = each(node["kernel_size"], count)
    strides = each(node["stride"], count) if node["stride"] else kernel
    padding = each(node["padding"], count)
    return kernel, windows.Window(strides, padding, padding, each(node["dilation"] or 1, count))


def _batched(node: AtenNode, count: int) -> Value:
    """The source with an axis of batches."""
    src = native(node)
    return src if len(node.shape("self")) == count + 2 else reshape(node, src, [1, *node.shape("self")])


@lowers("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def max_pool(node: AtenNode) -> list[Value | None]:
    """The largest element of each window."""
    count = 3 if "3d" in node.name else 2
    src = _batched(node, count)
    kernel, window = window_of(node, count)
    pooled_images = windows.max_pool(node.emit, src, kernel, window, ceil=bool(node["ceil_mode"]))
    return [reshape(node, pooled_images, node.result_shape), None]


@lowers("avg_pool2d.default", "avg_pool3d.default", "avg_pool1d.default")
def average_pool(node: AtenNode) -> Value:
    """The mean of each window."""
    count = int(node.name.split(".")[1][-2])
    if node["divisor_override"] is not None:
        shape, first = node.shape("self"), len(node.shape("self")) - count
        return shared(node.emit, native(node), means_of(node, shape[first:], node.result_shape[first:], first))
    src = _batched(node, count)
    kernel, window = window_of(node, count)
    ceil = bool(node["ceil_mode"])
    padded = any(window.begin) or ceil
    pooled_images = windows.average_pool(
        node.emit, src, kernel, window, ceil=ceil, exclude_pad=not (node["count_include_pad"] and padded)
    )
    return reshape(node, pooled_images, node.result_shape)


def means_of(node: AtenNode, sizes: Sequence[int], counts: Sequence[int], first: int) -> dict[int, Shares]:
    """The elements that each window of a pool of means has along the axes from ``first`` on, and their shares."""
    kernel, window = window_of(node, len(sizes))
    if is_open((*sizes, *counts)):
        raise NotLowered("a divisor of its own, or the gradient of partial windows, with sizes that change")
    shares = {}
    for axis, (size, count, length) in enumerate(zip(sizes, counts, kernel, strict=True)):
        begins = np.arange(count) * window.strides[axis] - window.begin[axis]
        ends = np.minimum(begins + length, size + window.begin[axis])
        inside = np.maximum(begins, 0), np.minimum(ends, size)
        numbers = ends - begins if node["count_include_pad"] else inside[1] - inside[0]
        if node["divisor_override"] is not None:
            numbers = np.full(count, node["divisor_override"] if not axis else 1)
        shares[first + axis] = windows_of(*inside, 1 / numbers)
    return shares


@lowers("_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default", "adaptive_avg_pool1d.default")
def adaptive_pool(node: AtenNode) -> Value:
    """The means of windows that divide the image into a number of parts."""
    src, shape, wanted = native(node), node.shape("self"), each(node["output_size"], 1)
    rank, count = len(shape), len(wanted)
    sizes = shape[-count:]
    if all(one == 1 for one in wanted):
        return reduce(node.emit, "ReduceMean", src, [*range(rank - count, rank)], True)
    if not is_open(sizes) and all(size % parts == 0 for size, parts in zip(sizes, wanted, strict=True)):
        kernel = [size // parts for size, parts in zip(sizes, wanted, strict=True)]
        window = windows.Window(kernel, [0] * count, [0] * count, [1] * count)
        images = src if rank == count + 2 else reshape(node, src, [1, *shape])
        pooled_images = windows.average_pool(node.emit, images, kernel, window)
        return reshape(node, pooled_images, node.result_shape)
    if is_open(sizes):
        result = cast(node.emit, src, DataType.f32)
        for place, (size, parts) in enumerate(zip(sizes, wanted, strict=True), rank - count):
            result = open_means(node.emit, result, place, size, parts)
        return rounded(node.emit, result, dtype_of(src))
    return shared(node.emit, src, _shares(sizes, wanted, rank - count))


@lowers("adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def adaptive_max_pool(node: AtenNode) -> list[Value | None]:
    """The largest elements of windows that divide the image into a number of parts; an axis after another."""
    shape, wanted = node.shape("self"), each(node["output_size"], 1)
    first = len(shape) - len(wanted)
    if is_open(shape[first:]) or 1 in node.read:
        raise NotLowered("the places of the largest elements, or an image whose size changes")
    found: Value = native(node)
    for axis, (size, parts) in enumerate(zip(shape[first:], wanted, strict=True), first):
        begins, ends = _parts(size, parts)
        length = int((ends - begins).max(initial=1))
        places = np.minimum(begins[:, None] + np.arange(length), ends[:, None] - 1)  # an element may stand twice
        found = node.emit.op("Gather", [found, places], {"axis": axis})
        found = reduce(node.emit, "ReduceMax", found, [axis + 1], False)
    return [found, None]


@lowers("_adaptive_avg_pool2d_backward.default")
def adaptive_pool_backward(node: AtenNode) -> Value:
    """The gradient of an adaptive average pool: each element gets its shares of the gradients of its parts."""
    shape, parts = node.shape("self"), node.shape("grad_output")
    shares = _shares(shape[-2:], parts[-2:], len(shape) - 2)
    turned = {place: of_parts.turned(shape[place]) for place, of_parts in shares.items()}
    return shared(node.emit, native(node, "grad_output"), turned)


def _shares(sizes: Sequence[int], wanted: Sequence[int], first: int) -> dict[int, Shares]:
    """The elements of each part, whose mean it is, along the axes from ``first`` on that are divided."""
    shares = {}
    for place, (size, parts) in enumerate(zip(sizes, wanted, strict=True), first):
        begins, ends = _parts(size, parts)
        if size != parts:
            shares[place] = windows_of(begins, ends, 1 / (ends - begins))
    return shares


def _parts(size: int, parts: int) -> tuple[Any, Any]:
    """Where the parts of an axis begin and end; neighbours may share an element."""
    number = np.arange(parts)
    return number * size // parts, -(-(number + 1) * size // parts)


@lowers("im2col.default", "col2im.default")
def blocks(node: AtenNode) -> Value:
    """The blocks of an image, or the sums of blocks at their places in an image."""
    src, shape = native(node), [*node.shape("self")]
    kernel, strides, padding, dilations = (
        each(node[name], 2) for name in ("kernel_size", "stride", "padding", "dilation")
    )
    window, is_apart = windows.Window(strides, padding, padding, dilations), "im2col" in node.name
    if len(shape) == (3 if is_apart else 2):
        src = reshape(node, src, [1, *shape])
    result = (
        to_blocks(node.emit, src, kernel, window)
        if is_apart
        else from_blocks(node.emit, src, each(node["output_size"], 2), kernel, window)
    )
    return reshape(node, result, node.result_shape)
