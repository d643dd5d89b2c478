"""Calls the kernels of models that detect objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ...ir.op import Array
from ...opset.host.detection import LISTS, windows_of
from ...opset.schema import Call
from ...opset.shapes import known_dims
from .arrays import MOST_ELEMENTS, TYPES, dense, place_for, run, run_typed, wide

Found = Sequence[Array] | None
Arrays = Sequence[Any]  # of an absent input, None
MODES = {"nearest": 0, "linear": 1, "cubic": 2}
PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
SUPPRESSED = [TYPES[np.dtype(name)] for name in ("f4", "f4", "i4", "i8")]
AXES = 3  # of windows, in the kernel


def _is_sampled(src: Array) -> bool:
    """Whether a kernel samples images of this size."""
    return bool(src.size) and prod(src.shape[2:]) <= MOST_ELEMENTS


def non_max_suppression(call: Call, arrays: Arrays, results: Sequence[Array]) -> Found:
    """Batch, class and box of the boxes that stay."""
    boxes, scores, *limits = arrays
    if boxes.dtype == F64:
        return None
    limit, overlap, least = [limit.item(0) for limit in limits]
    found = kept_boxes(dense(boxes, F32), dense(scores, F32), limit, (overlap, least, call.flag("center")))
    return None if found is None else [found]


def kept_boxes(boxes: Array, scores: Array, limit: int, numbers: Sequence[float]) -> Array | None:
    """Batch, class and box of the boxes that stay; None for more boxes than the kernel can count.

    Args:
        boxes: of f32 and dense.
        scores: of f32 and dense, for as many boxes.
        limit: the most boxes of a class.
        numbers: the largest overlap, the least score, and whether boxes are centers and sizes.
    """
    batches, classes, count = scores.shape
    most, tasks = min(max(limit, 0), count), batches * classes
    if not most or not tasks:
        return np.empty((0, 3), np.int64)
    if count > MOST_ELEMENTS:
        return None
    selected, counts = np.empty((tasks, most), np.int32), np.empty(tasks, np.int64)
    run_typed("NonMaxSuppression", [boxes, scores, selected, counts], SUPPRESSED, [*numbers])
    if tasks == 1:  # one class of one image, as in a loop over classes
        found = counts.item(0)
        only = np.zeros((found, 3), np.int64)
        only[:, 2] = selected[0, :found]
        return only
    labels = np.repeat(np.arange(tasks), counts)
    within = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    result = np.empty((len(labels), 3), np.int64)
    result[:, 0], result[:, 1], result[:, 2] = labels // classes, labels % classes, selected[labels, within]
    return result


def roi_align(call: Call, arrays: Arrays, results: Sequence[Array]) -> Found:
    """Means or maxima of samples in the cells of boxes."""
    src, boxes, images = arrays
    if not _is_sampled(src) or not boxes.size:
        return None
    source = wide(src)
    result = place_for(results, 0, (len(boxes), src.shape[1], call.s64("rows"), call.s64("columns")), source.dtype)
    numbers = [call.s64("samples"), call.f32("scale"), call.flag("half_pixel"), call.string("mode") == "max"]
    ends = [source, dense(boxes, source.dtype), dense(images)]
    run("RoiAlign", ends, [result], numbers, ports=("src", "boxes", "images"))
    return [result.astype(src.dtype, copy=False)]


def max_pool_places(call: Call, arrays: Arrays, results: Sequence[Array]) -> Found:
    """The largest element of each window, and its place."""
    (src,) = arrays
    dims = src.shape[2:]
    if not _is_sampled(src):
        return None
    kernel, strides, dilations, begin, _ = (call.s64s(name) for name in LISTS)
    counts = known_dims(windows_of(call, dims))
    shape, source, lacking = (*src.shape[:2], *counts), wide(src), AXES - len(dims)
    best, places = place_for(results, 0, shape, source.dtype), place_for(results, 1, shape, np.dtype(np.int64))
    if not best.size:
        return best.astype(src.dtype, copy=False), places
    weights = [prod(dims[:axis] if call.flag("column_major") else dims[axis + 1 :]) for axis in range(len(dims))]
    numbers = [1, 1, 0, 1, 0] * lacking
    for window in zip(kernel, strides, begin, dilations, weights, strict=True):
        numbers += window
    planes, unit_dims = prod(src.shape[:2]), [1] * lacking
    ends = [array.reshape(planes, *unit_dims, *sizes) for array, sizes in ((best, counts), (places, counts))]
    run("MaxPoolPlaces", [source.reshape(planes, *unit_dims, *dims)], ends, numbers)
    return best.astype(src.dtype, copy=False), places


def max_unpool(call: Call, arrays: Arrays, results: Sequence[Array]) -> Found:
    """The elements of a MaxPool at the places that they had."""
    src, indices, shape = arrays
    result = place_for(results, 0, shape.tolist(), src.dtype)
    run("MaxUnpool", [dense(src), dense(indices)], [result], ports=("src", "indices"), moves=True)
    return [result]


def deform_columns(call: Call, arrays: Arrays, results: Sequence[Array]) -> Found:
    """What each window of a deformable convolution reads."""
    src, offsets, mask = (*arrays, None)[:3]
    if not _is_sampled(src) or not offsets.size:
        return None
    source = wide(src)
    ends = [None if array is None else dense(array, source.dtype) for array in (source, offsets, mask)]
    kernel, strides, dilations, begin, _ = (call.s64s(name) for name in LISTS)
    result = place_for(results, 0, (*src.shape[:2], prod(kernel), prod(offsets.shape[2:])), source.dtype)
    run("DeformColumns", ends, [result], [*kernel, *strides, *begin, *dilations, call.s64("offset_groups")])
    return [result.astype(src.dtype, copy=False)]


def grid_sample(call: Call, arrays: Arrays, results: Sequence[Array]) -> Found:
    """Elements of images at the places of a grid."""
    src, grid = arrays
    if not _is_sampled(src) or not grid.size:
        return None
    source, (batch, channels) = wide(src), src.shape[:2]
    result = place_for(results, 0, (*src.shape[:2], *grid.shape[1:-1]), source.dtype)
    places = dense(grid, source.dtype).reshape(batch, -1, src.ndim - 2)
    numbers = [MODES[call.string("mode")], PADDINGS[call.string("padding")], call.flag("align_corners")]
    run("GridSample", [source, places], [result.reshape(batch, channels, -1)], numbers)
    return [result.astype(src.dtype, copy=False)]


FUNCTIONS: Mapping[str, Callable[[Call, Arrays, Sequence[Array]], Found]] = {
    "NonMaxSuppression": non_max_suppression,
    "RoiAlign": roi_align,
    "MaxPoolPlaces": max_pool_places,
    "MaxUnpool": max_unpool,
    "DeformColumns": deform_columns,
    "GridSample": grid_sample,
}
