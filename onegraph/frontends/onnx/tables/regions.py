"""Lowers nodes on regions of images: boxes, places between pixels, and windows whose largest element has a place."""

from __future__ import annotations

from itertools import product

import numpy as np

from ....lowering.elementwise import add
from ....lowering.emitter import Array, Value, numbers
from ....lowering.layers import matmul
from ....lowering.movement import as_s64, padded, reshape
from ..node import Node, NotLowered, computes, lowers
from .layers import native, settled_dims, window_of


@lowers("RoiAlign")
def roi_align(node: Node) -> Value:
    """Means or maxima of samples in the cells of boxes."""
    attrs = {
        "rows": node.attr("output_height", 1),
        "columns": node.attr("output_width", 1),
        "samples": node.attr("sampling_ratio", 0),
        "scale": node.attr("spatial_scale", 1.0),
        "half_pixel": node.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel",
        "mode": node.attr("mode", "avg"),
    }
    return node.emit.op("RoiAlign", [node.value(0), node.value(1), as_s64(node.emit, node.value(2))], attrs)


@computes("MaxRoiPool")
def max_roi_pool(node: Node) -> Array:
    """The largest elements of the cells of boxes."""
    src, boxes, scale = node.array(0), node.array(1), np.float32(node.attr("spatial_scale", 1.0))
    pooled = node.attr("pooled_shape")
    result = np.zeros((len(boxes), src.shape[1], *pooled), src.dtype)
    for place, box in enumerate(boxes):
        if not 0 <= int(box[0]) < src.shape[0]:
            raise node.invalid(f"batch index {int(box[0])}", f"0 to {src.shape[0] - 1}")
        corners = np.trunc(box[1:].astype(np.float32) * scale + np.copysign(np.float32(0.5), box[1:]))
        left, top, right, bottom = corners.astype(np.int64)
        sizes = max(bottom - top + 1, 1), max(right - left + 1, 1)
        for row, column in product(range(pooled[0]), range(pooled[1])):
            (first, last), (begin, end) = (
                np.clip([np.floor(at * (size / count)) + start, np.ceil((at + 1) * (size / count)) + start], 0, dim)
                for at, size, count, start, dim in zip(
                    (row, column), sizes, pooled, (top, left), src.shape[2:], strict=True
                )
            )
            cell = src[int(box[0]), :, int(first) : int(last), int(begin) : int(end)]
            if cell.size:
                result[place, :, row, column] = cell.max((1, 2))
    return result


@lowers("MaxUnpool")
def max_unpool(node: Node) -> Value:
    """The elements of a MaxPool at the places that they had, and 0 elsewhere."""
    src, wanted, kernel = settled_dims(node), node.integers(2), node.attr("kernel_shape")
    strides, pads = node.attr("strides", [1] * len(kernel)), node.attr("pads", [0] * (2 * len(kernel)))
    dims = [
        (dim - 1) * stride + size - begin - end
        for dim, stride, size, begin, end in zip(
            src[2:], strides, kernel, pads[: len(kernel)], pads[len(kernel) :], strict=True
        )
    ]
    shape = [*src[:2], *dims]
    whole = shape if wanted is None else [*wanted]
    if len(whole) != len(shape) or any(dim < least for dim, least in zip(whole, shape, strict=True)):
        raise node.invalid(f"output_shape {whole}", f"at least {shape}")
    result = node.emit.op("MaxUnpool", [node.value(0), node.value(1), numbers(*shape)])
    trailing = [dim - least for dim, least in zip(whole, shape, strict=True)]
    return padded(node.emit, result, [0] * len(shape), trailing) if any(trailing) else result


@lowers("DeformConv")
def deformable_convolution(node: Node) -> Value:
    """A convolution whose windows read between pixels, each at its own offset: columns times weights."""
    native(node)
    emit, src, weights = node.emit, node.value(0), node.value(1)
    if node.rank() != 4:
        raise node.invalid(f"a tensor of {node.rank()} axes", "images of two axes")
    outputs, inner, *kernel = node.whole_shape(1)
    batch, _, rows, columns = node.whole_shape(2)
    window, groups = window_of(node), node.attr("group", 1)
    attrs = {
        "kernel": kernel,
        "strides": [*window.strides],
        "pads_begin": [*window.begin],
        "pads_end": [*window.end],
        "dilations": [*window.dilations],
        "offset_groups": node.attr("offset_group", 1),
    }
    depth = inner * kernel[0] * kernel[1]
    sources = [src, node.value(2), node.optional(4)]
    columns_of = emit.op("DeformColumns", sources if sources[2] is not None else sources[:2], attrs)
    if groups == 1:
        columns_of = reshape(emit, columns_of, numbers(batch, depth, rows * columns))
        made = matmul(emit, reshape(emit, weights, numbers(outputs, depth)), columns_of)
    else:
        columns_of = reshape(emit, columns_of, numbers(batch, groups, depth, rows * columns))
        made = matmul(emit, reshape(emit, weights, numbers(groups, outputs // groups, depth)), columns_of)
    made = reshape(emit, made, numbers(batch, outputs, rows, columns))
    bias = node.optional(3)
    return made if bias is None else add(emit, made, reshape(emit, bias, numbers(outputs, 1, 1)))


@lowers("AffineGrid")
def affine_grid(node: Node) -> Array:
    """The places that a matrix maps a grid to; a run computes them, and before it the function of ONNX states them."""
    if not node.importer.now:
        node.settled(1)  # the function decides by the size
        raise NotLowered("numpy computes it in a run alone")
    theta, sizes = node.wide(0), node.array(1)[2:].tolist()
    is_aligned = bool(node.attr("align_corners", 0))
    along = [
        np.linspace(-1, 1, size) if is_aligned and size > 1 else (2 * np.arange(size) + 1) / size - 1 for size in sizes
    ]
    grid = np.stack([*np.meshgrid(*along, indexing="ij")[::-1], np.ones(sizes)], -1)
    result: Array = np.einsum("...k,njk->n...j", grid, theta)
    return result.astype(node.array(0).dtype)
