"""Computes nodes on regions of images: boxes, and windows whose largest element has a place."""

from __future__ import annotations

from itertools import product

import numpy as np

from ....lowering.emitter import Array
from ..node import Node, NotLowered, computes, lowers


def bilinear(image: Array, rows: Array, columns: Array, *, outside: float) -> Array:
    """Samples of (channels, height, width) at rows and columns: (4, channels, *places), the four weighted corners.

    A place more than ``outside`` pixels before the first or behind the last one is 0; nearer ones move to the edge.
    """
    (height, width), (rows, columns) = image.shape[-2:], np.broadcast_arrays(rows, columns)
    inside = (rows >= -outside) & (rows <= height - 1 + outside)
    inside &= (columns >= -outside) & (columns <= width - 1 + outside)
    rows, columns = np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)
    top, left = np.floor(rows).astype(np.int64), np.floor(columns).astype(np.int64)
    down, right = rows - top, columns - left
    corners = []
    for below, beside in product((0, 1), (0, 1)):
        weight = (down if below else 1 - down) * (right if beside else 1 - right) * inside
        at = np.minimum(top + below, height - 1), np.minimum(left + beside, width - 1)
        corners.append(image[:, at[0], at[1]] * weight)
    return np.stack(corners)


@computes("RoiAlign")
def roi_align(node: Node) -> Array:
    """Means or maxima of samples in the cells of boxes."""
    src, boxes, images = node.wide(0), node.wide(1), node.array(2)
    height, width = node.attr("output_height", 1), node.attr("output_width", 1)
    half = node.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    ratio, scale = node.attr("sampling_ratio", 0), node.attr("spatial_scale", 1.0)
    found = np.zeros((len(boxes), src.shape[1], height, width))
    for place, (box, image) in enumerate(zip(boxes, images.tolist(), strict=True)):
        if not 0 <= image < src.shape[0]:
            raise node.invalid(f"batch index {image}", f"0 to {src.shape[0] - 1}")
        left, top, right, bottom = box * scale - (0.5 if half else 0.0)
        sizes = [bottom - top, right - left] if half else [max(bottom - top, 1.0), max(right - left, 1.0)]
        cells = [sizes[0] / height, sizes[1] / width]
        counts = [ratio or int(np.ceil(cell)) for cell in cells]
        if min(counts) < 1:
            continue
        rows = top + (np.arange(height)[:, None] + (np.arange(counts[0]) + 0.5) / counts[0]) * cells[0]
        columns = left + (np.arange(width)[:, None] + (np.arange(counts[1]) + 0.5) / counts[1]) * cells[1]
        samples = bilinear(src[image], rows[:, None, :, None], columns[None, :, None, :], outside=1.0)
        if node.attr("mode", "avg") == "avg":
            found[place] = samples.sum(0).mean((-2, -1))
        else:  # ONNX takes the largest of the weighted corners
            found[place] = samples.max(0).max((-2, -1))
    return found.astype(node.array(0).dtype)


@computes("MaxRoiPool")
def max_roi_pool(node: Node) -> Array:
    """The largest elements of the cells of boxes."""
    src, boxes, scale = node.array(0), node.array(1), np.float32(node.attr("spatial_scale", 1.0))
    pooled = node.attr("pooled_shape")
    found = np.zeros((len(boxes), src.shape[1], *pooled), src.dtype)
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
                found[place, :, row, column] = cell.max((1, 2))
    return found


@computes("MaxUnpool")
def max_unpool(node: Node) -> Array:
    """The elements of a MaxPool at the places that they had, and 0 elsewhere."""
    src, places, wanted = node.array(0), node.array(1), node.integers(2)
    kernel = node.attr("kernel_shape")
    strides, pads = node.attr("strides", [1] * len(kernel)), node.attr("pads", [0] * (2 * len(kernel)))
    dims = [
        (dim - 1) * stride + size - begin - end
        for dim, stride, size, begin, end in zip(
            src.shape[2:], strides, kernel, pads[: len(kernel)], pads[len(kernel) :], strict=True
        )
    ]
    shape = (*src.shape[:2], *dims)
    whole = tuple(wanted) if wanted else shape
    if len(whole) != len(shape) or any(dim < least for dim, least in zip(whole, shape, strict=True)):
        raise node.invalid(f"output_shape {[*whole]}", f"at least {[*shape]}")
    found = np.zeros(int(np.prod(shape)), src.dtype)
    if places.size and not (places.min() >= 0 and places.max() < found.size):
        raise node.invalid("an index outside of the result", f"indices of {[*shape]}")
    found[places.reshape(-1)] = src.reshape(-1)
    made = np.zeros(whole, src.dtype)
    made[tuple(slice(dim) for dim in shape)] = found.reshape(shape)
    return made


def max_pool_with_places(node: Node) -> tuple[Array, Array]:
    """The largest element of each window, the first of equal ones, and its place in the whole tensor."""
    src, kernel = node.array(0), node.attr("kernel_shape")
    ones = [1] * len(kernel)
    strides, dilations = node.attr("strides", ones), node.attr("dilations", ones)
    begin, counts = _extent(node, kernel, strides, dilations)
    is_float = src.dtype.kind not in "iu"
    best = np.full((*src.shape[:2], *counts), -np.inf if is_float else np.iinfo(src.dtype).min).astype(src.dtype)
    dims, count = src.shape[2:], len(kernel)
    place, known = np.zeros(best.shape, np.int64), np.zeros(best.shape, bool)
    weights = [
        int(np.prod(dims[:axis] if node.attr("storage_order", 0) else dims[axis + 1 :])) for axis in range(count)
    ]
    for offsets in product(*map(range, kernel)):
        at = [
            np.arange(number) * stride - first + offset * dilation
            for number, stride, first, offset, dilation in zip(counts, strides, begin, offsets, dilations, strict=True)
        ]
        at = [one.reshape(-1, *(1,) * (count - axis - 1)) for axis, one in enumerate(at)]
        valid, flat = np.ones(counts, bool), np.zeros(counts, np.int64)
        for one, dim, weight in zip(at, dims, weights, strict=True):
            valid, flat = valid & (one >= 0) & (one < dim), flat + one * weight
        values = src[(..., *[np.clip(one, 0, dim - 1) for one, dim in zip(at, dims, strict=True)])]
        better = values > best
        if is_float:
            better |= np.isnan(values) & ~np.isnan(best)
        takes = valid & (better | ~known)
        best, place, known = np.where(takes, values, best), np.where(takes, flat, place), known | takes
    channels = np.arange(src.shape[0] * src.shape[1]).reshape(*src.shape[:2], *ones) * int(np.prod(dims))
    return best, place + channels


def _extent(node: Node, kernel: list[int], strides: list[int], dilations: list[int]) -> tuple[list[int], list[int]]:
    """The padding before each axis, and the number of windows along it."""
    dims, padding, count = node.array(0).shape[2:], node.attr("auto_pad", "NOTSET"), len(kernel)
    pads = node.attr("pads", [0] * (2 * count)) if padding == "NOTSET" else [0] * (2 * count)
    begin, counts = [], []
    for axis, dim in enumerate(dims):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        if padding.startswith("SAME"):
            windows = -(-dim // strides[axis])
            total = max((windows - 1) * strides[axis] + reach - dim, 0)
            begin.append(total // 2 if padding == "SAME_UPPER" else total - total // 2)
        else:
            room = dim + pads[axis] + pads[axis + count] - reach
            windows = (-(-room // strides[axis]) if node.attr("ceil_mode", 0) else room // strides[axis]) + 1
            if node.attr("ceil_mode", 0) and (windows - 1) * strides[axis] >= dim + pads[axis]:
                windows -= 1
            begin.append(pads[axis])
        counts.append(windows)
    return begin, counts


@computes("DeformConv")
def deformable_convolution(node: Node) -> Array:
    """A convolution whose windows read between pixels, each at its own offset."""
    src, weights, offsets = node.wide(0), node.wide(1), node.wide(2)
    if src.ndim != 4:
        raise node.invalid(f"a tensor of {src.ndim} axes", "images of two axes")
    batch, channels, _, _ = src.shape
    kernel, rows, columns = weights.shape[2:], *offsets.shape[2:]
    pads, strides = node.attr("pads", [0] * 4), node.attr("strides", [1, 1])
    dilations, groups, parts = node.attr("dilations", [1, 1]), node.attr("group", 1), node.attr("offset_group", 1)
    offsets = offsets.reshape(batch, parts, *kernel, 2, rows, columns)
    mask = None if node.known(4) is None else node.wide(4).reshape(batch, parts, *kernel, rows, columns)
    samples = np.zeros((batch, channels, *kernel, rows, columns))
    each = channels // parts
    for image, part, row, column in product(range(batch), range(parts), *map(range, kernel)):
        down, beside = offsets[image, part, row, column]
        at = np.arange(rows)[:, None] * strides[0] - pads[0] + row * dilations[0] + down
        along = np.arange(columns)[None, :] * strides[1] - pads[1] + column * dilations[1] + beside
        some = slice(part * each, (part + 1) * each)
        padded = np.pad(src[image, some], ((0, 0), (1, 1), (1, 1)))
        found = bilinear(padded, at + 1, along + 1, outside=0.0).sum(0)
        samples[image, some, row, column] = found if mask is None else found * mask[image, part, row, column]
    split = samples.reshape(batch, groups, channels // groups, *kernel, rows, columns)
    shared = weights.reshape(groups, weights.shape[0] // groups, *weights.shape[1:])
    made = np.einsum("bgcijhw,gocij->bgohw", split, shared, optimize=True)
    made = made.reshape(batch, weights.shape[0], rows, columns)
    if node.known(3) is not None:
        made += node.wide(3)[:, None, None]
    result: Array = made.astype(node.array(0).dtype)
    return result


@lowers("AffineGrid")
def affine_grid(node: Node) -> Array:
    """The places that a matrix maps a grid to; a run computes them, and before it the function of ONNX states them."""
    if not node.importer.now:
        node.settled(1)  # the function decides by the size
        raise NotLowered("numpy computes it in a run alone")
    theta, sizes = node.wide(0), (node.integers(1) or [])[2:]
    is_aligned = bool(node.attr("align_corners", 0))
    along = [
        np.linspace(-1, 1, size) if is_aligned and size > 1 else (2 * np.arange(size) + 1) / size - 1 for size in sizes
    ]
    grid = np.stack([*np.meshgrid(*along, indexing="ij")[::-1], np.ones(sizes)], -1)
    found: Array = np.einsum("...k,njk->n...j", grid, theta)
    return found.astype(node.array(0).dtype)
