"""Computes the host ops of models that detect objects."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...opset.host.detection import windows_of
from ...opset.schema import Call

Array = NDArray[Any]


def non_max_suppression(
    call: Call, boxes: Array, scores: Array, limit: Array, overlap: Array, threshold: Array
) -> Array:
    """Batch, class and box of the boxes that stay."""
    most, share, least = (one.reshape(-1)[0] for one in (limit, overlap, threshold))
    arrays: list[Array] = [np.empty((0, 3), np.int64)]
    for batch, (places, table) in enumerate(zip(boxes, scores, strict=True)):
        corners = _corners(places.astype(np.float32), call.flag("center"))
        for label, row in enumerate(table):
            order = np.argsort(-row.astype(np.float64), kind="stable")
            kept = _kept(corners, order[row[order] > least], int(most), float(share))
            arrays.append(np.array([(batch, label, box) for box in kept], np.int64).reshape(-1, 3))
    return np.concatenate(arrays)


def _corners(boxes: Array, center: bool) -> Array:
    """The lower and the upper corner of each box, as rows."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if center:
        first, second = first - second / 2, first + second / 2
    corners: Array = np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=1)
    return corners


def _kept(corners: Array, order: Array, most: int, share: float) -> list[int]:
    """The boxes in their order, without those that overlap an earlier one."""
    kept: list[int] = []
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    while order.size and len(kept) < most:
        best, order = int(order[0]), order[1:]
        kept.append(best)
        lower = np.maximum(corners[order, :2], corners[best, :2])
        upper = np.minimum(corners[order, 2:], corners[best, 2:])
        common = np.maximum(upper - lower, 0).prod(axis=1)
        union = areas[order] + areas[best] - common
        overlaps = (common > 0) & (union > 0) & (areas[order] > 0) & (areas[best] > 0)
        order = order[~(overlaps & (common / union > share))]
    return kept


def _bilinear(image: Array, rows: Array, columns: Array, *, outside: float) -> Array:
    """Samples of (channels, height, width) at rows and columns: (4, channels, *places), the four weighted corners.

    A place more than ``outside`` pixels before the first or behind the last one is 0; nearer ones move to the edge.
    """
    (height, width), (rows, columns) = image.shape[-2:], np.broadcast_arrays(rows, columns)
    outside_value = np.where(np.isnan(rows) | np.isnan(columns), np.nan, 0.0)
    inside = (rows >= -outside) & (rows <= height - 1 + outside)
    inside &= (columns >= -outside) & (columns <= width - 1 + outside)
    rows, columns = (np.clip(np.where(inside, at, 0), 0, size - 1) for at, size in ((rows, height), (columns, width)))
    top, left = np.floor(rows).astype(np.int64), np.floor(columns).astype(np.int64)
    down, right = rows - top, columns - left
    corners = []
    for below, beside in product((0, 1), (0, 1)):
        weight = (down if below else 1 - down) * (right if beside else 1 - right)
        at = np.minimum(top + below, height - 1), np.minimum(left + beside, width - 1)
        corners.append(np.where(inside, image[:, at[0], at[1]] * weight, outside_value))
    return np.stack(corners)


def roi_align(call: Call, src: Array, boxes: Array, images: Array) -> Array:
    """Means or maxima of samples in the cells of boxes."""
    height, width, half = call.s64("rows"), call.s64("columns"), call.flag("half_pixel")
    whole, places = src.astype(np.float64), boxes.astype(np.float64)
    pooled = np.zeros((len(boxes), src.shape[1], height, width))
    for place, (box, image) in enumerate(zip(places, images.tolist(), strict=True)):
        if not 0 <= image < src.shape[0]:
            raise IndexError(f"index {image} at [{place}] of images is out of range")
        if not np.isfinite(box).all():
            pooled[place] = np.nan
            continue
        left, top, right, bottom = box * call.f32("scale") - (0.5 if half else 0.0)
        sizes = [bottom - top, right - left] if half else [max(bottom - top, 1.0), max(right - left, 1.0)]
        cells = [sizes[0] / height, sizes[1] / width]
        counts = [call.s64("samples") or int(np.ceil(np.float32(cell))) for cell in cells]
        if min(counts) < 1:
            continue
        rows = top + (np.arange(height)[:, None] + (np.arange(counts[0]) + 0.5) / counts[0]) * cells[0]
        columns = left + (np.arange(width)[:, None] + (np.arange(counts[1]) + 0.5) / counts[1]) * cells[1]
        samples = _bilinear(whole[image], rows[:, None, :, None], columns[None, :, None, :], outside=1.0)
        if call.string("mode") == "avg":
            pooled[place] = samples.sum(0).mean((-2, -1))
        else:  # the largest of the weighted corners, as ONNX says
            pooled[place] = samples.max(0).max((-2, -1))
    return pooled.astype(src.dtype)


def max_pool_places(call: Call, src: Array) -> tuple[Array, Array]:
    """The largest element of each window, the first of equal ones, and its place in the whole tensor."""
    kernel, strides, dilations, begin = (call.s64s(name) for name in ("kernel", "strides", "dilations", "pads_begin"))
    counts = [count or 0 for count in windows_of(call, src.shape[2:])]
    is_float, dims, count = src.dtype.kind not in "iu", src.shape[2:], len(kernel)
    best = np.full((*src.shape[:2], *counts), -np.inf if is_float else np.iinfo(src.dtype).min).astype(src.dtype)
    place, known = np.zeros(best.shape, np.int64), np.zeros(best.shape, bool)
    weights = [prod(dims[:axis] if call.flag("column_major") else dims[axis + 1 :]) for axis in range(count)]
    for offsets in product(*map(range, kernel)) if src.size else ():
        at = [
            np.arange(number) * stride - first + offset * dilation
            for number, stride, first, offset, dilation in zip(counts, strides, begin, offsets, dilations, strict=True)
        ]
        at = [one.reshape(-1, *(1,) * (count - axis - 1)) for axis, one in enumerate(at)]
        valid, flat = np.ones(counts, bool), np.zeros(counts, np.int64)
        for coordinate, dim, weight in zip(at, dims, weights, strict=True):
            valid, flat = valid & (coordinate >= 0) & (coordinate < dim), flat + coordinate * weight
        where: tuple[Any, ...] = (..., *[np.clip(one, 0, dim - 1) for one, dim in zip(at, dims, strict=True)])
        values = src[where]
        better = values > best
        if is_float:
            better |= np.isnan(values) & ~np.isnan(best)
        takes = valid & (better | ~known)
        best, place, known = np.where(takes, values, best), np.where(takes, flat, place), known | takes
    channels = np.arange(prod(src.shape[:2])).reshape(*src.shape[:2], *(1,) * count) * prod(dims)
    return best, place + channels


def max_unpool(call: Call, src: Array, indices: Array, shape: Array) -> Array:
    """The elements of a MaxPool at the places that they had, and 0 elsewhere."""
    unpooled = np.zeros(shape.tolist(), src.dtype)
    outside = (indices < 0) | (indices >= unpooled.size)
    if outside.any():
        place = np.argwhere(outside)[0].tolist()
        raise IndexError(f"index {indices[tuple(place)]} at {place} of indices is out of range")
    unpooled.reshape(-1)[indices.reshape(-1)] = src.reshape(-1)
    return unpooled


def deform_columns(call: Call, src: Array, offsets: Array, mask: Array | None = None) -> Array:
    """What each window of a convolution reads, with offsets of its own."""
    (batch, channels), parts = src.shape[:2], call.s64("offset_groups")
    kernel, strides, dilations, pads = (call.s64s(name) for name in ("kernel", "strides", "dilations", "pads_begin"))
    rows, columns = offsets.shape[2:]
    moved = offsets.astype(np.float64).reshape(batch, parts, *kernel, 2, rows, columns)
    factors = np.ones(()) if mask is None else mask.astype(np.float64).reshape(batch, parts, *kernel, rows, columns)
    factors = np.broadcast_to(factors, (batch, parts, *kernel, rows, columns))
    columns_made = np.zeros((batch, channels, *kernel, rows, columns))
    width_of_part = channels // parts
    padded = np.pad(src.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    for image, part, row, column in product(range(batch), range(parts), *map(range, kernel)):
        down, beside = moved[image, part, row, column]
        at = np.arange(rows)[:, None] * strides[0] - pads[0] + row * dilations[0] + down
        along = np.arange(columns)[None, :] * strides[1] - pads[1] + column * dilations[1] + beside
        channels_of_part = slice(part * width_of_part, (part + 1) * width_of_part)
        samples = _bilinear(padded[image, channels_of_part], at + 1, along + 1, outside=0.0).sum(0)
        columns_made[image, channels_of_part, row, column] = samples * factors[image, part, row, column]
    return columns_made.reshape(batch, channels, prod(kernel), rows * columns).astype(src.dtype)


def grid_sample(call: Call, src: Array, grid: Array) -> Array:
    """Elements of images at the places of a grid."""
    mode, padding, aligned = call.string("mode"), call.string("padding"), call.flag("align_corners")
    sizes, (batch, channels) = src.shape[2:], src.shape[:2]
    places = grid.astype(np.float64).reshape(batch, -1, len(sizes))
    sides = [
        _neighbours(places[..., len(sizes) - 1 - axis], size, mode, padding, aligned) for axis, size in enumerate(sizes)
    ]
    sampled = np.zeros((batch, channels, places.shape[1]))
    images = np.arange(batch)[:, None]
    for chosen in product(*sides) if src.size else ():
        inside = np.all([(at >= 0) & (at < size) for (at, _), size in zip(chosen, sizes, strict=True)], axis=0)
        at = [np.where(inside, one, 0).astype(np.int64) for one, _ in chosen]
        where: tuple[Any, ...] = (images, slice(None), *at)
        elements = np.moveaxis(src[where].astype(np.float64), -1, 1)
        share = np.prod([one for _, one in chosen], axis=0)
        sampled += np.where(inside[:, None], elements, 0) * share[:, None]
    return sampled.reshape(batch, channels, *grid.shape[1:-1]).astype(src.dtype)


def _neighbours(place: Array, size: int, mode: str, padding: str, aligned: bool) -> list[tuple[Array, Array]]:
    """The elements along an axis that places read, and their shares."""
    at = (place + 1) / 2 * (size - 1) if aligned else ((place + 1) * size - 1) / 2

    def inside(at: Array) -> Array:
        if padding == "zeros":
            return at
        if padding == "reflection":
            low, span = (0.0, size - 1.0) if aligned else (-0.5, float(size))
            distance = np.abs(at - low)
            turns, extra = (np.floor(distance / span), np.fmod(distance, span)) if span else (at * 0, at * 0)
            at = np.where(np.fmod(turns, 2) == 0, extra, span - extra) + low if span else at * 0
        return np.clip(np.nan_to_num(at, nan=0.0), 0, size - 1)

    at = at if mode == "cubic" else inside(at)
    if mode == "nearest":
        return [(np.rint(at), np.ones_like(at))]
    low = np.floor(at)
    rest = at - low
    if mode == "linear":
        return [(low, 1 - rest), (low + 1, rest)]
    shares = []
    for distance in (rest + 1, rest, 1 - rest, 2 - rest):
        near = (1.25 * distance - 2.25) * distance**2 + 1
        shares.append(np.where(distance <= 1, near, ((-0.75 * distance + 3.75) * distance - 6) * distance + 3))
    return [(inside(low + step), share) for step, share in zip((-1, 0, 1, 2), shares, strict=True)]


def compress(call: Call, src: Array, condition: Array) -> Array:
    """The slices where a condition holds."""
    return np.compress(condition, src, call.s64("axis"))
