"""Lowers the resizing of axes: an Interpolate where it computes the same, else a gather or a product for each axis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .._util.open_sizes import is_open
from ..opset.dtypes import DataType
from .elementwise import add, clamp, filled, multiply, select, unary
from .emitter import Array, Emitter, NotLowered, Unsettled, Value, dtype_of, known_rank, shape_of
from .movement import NATIVE, cast
from .open_resize import interpolate, resized_open, resized_open_backward, settled_axis
from .resize_axes import PERIODIC, SIZES, Axis, Sampling, is_alike, nearest, places, shares_of
from .shares import shared

# Data types whose numbers f32 holds with four digits behind the point, and one of these digits.
BYTES, ROUNDING = frozenset([DataType.u8, DataType.s8]), 1e-4


def resize(emit: Emitter, src: Value, axes: Mapping[int, Axis], sampling: Sampling) -> Value:
    """src with some axes resized.

    Args:
        emit: adds the ops.
        src: a tensor of known rank.
        axes: how each axis is resized, by its index.
        sampling: how elements between those of src are found.
    """
    if is_open([size for axis in axes.values() for size in (axis.size, axis.count)]):
        if sampling.mode != "nearest" and dtype_of(src) in BYTES:
            return _truncated(emit, resize(emit, cast(emit, src, DataType.f32), axes, sampling), dtype_of(src))
        is_crop = sampling.coordinates == "tf_crop_and_resize"
        resized = None if is_crop else resized_open(emit, src, axes, sampling)
        if resized is not None:
            return resized
        axes = {place: settled_axis(axis) for place, axis in axes.items()}
    axes = {place: axis for place, axis in axes.items() if not _is_same(axis, sampling)}
    if not axes:
        return src
    if dtype_of(src) in NATIVE:
        resized = _interpolated(emit, src, axes, sampling)
        if resized is not None:
            return resized
    elif sampling.mode != "nearest" and dtype_of(src) in BYTES:
        return _truncated(emit, resize(emit, cast(emit, src, DataType.f32), axes, sampling), dtype_of(src))
    elif sampling.mode != "nearest" and dtype_of(src) is not DataType.float64:
        raise NotLowered(f"{dtype_of(src)} is no data type of floats")
    result = src
    if sampling.mode == "nearest":
        for place, axis in axes.items():
            result = emit.op("Gather", [result, nearest(axis, sampling)], {"axis": place})
    else:
        result = shared(emit, src, {place: shares_of(axis, sampling) for place, axis in axes.items()})
    return _cropped(emit, result, axes, sampling) if sampling.coordinates == "tf_crop_and_resize" else result


def _truncated(emit: Emitter, src: Value, dtype: DataType) -> Value:
    """The whole part of numbers of f32 as small integers. ONNX Runtime and the reference of ONNX cut digits off too."""
    limits = np.iinfo(np.int8 if dtype is DataType.s8 else np.uint8)
    # A share of 0.3 and one of 0.7 of the same number may be a little less than the number.
    limited, extra = clamp(emit, src, filled(limits.min, src), filled(limits.max, src)), filled(ROUNDING, src)
    if limits.min < 0:
        extra = multiply(emit, unary(emit, "Sign", limited), extra)
    return cast(emit, add(emit, limited, extra), dtype)


def enlarged(emit: Emitter, src: Value, factors: Mapping[int, float], sampling: Sampling) -> Value:
    """src with some axes of unknown size enlarged: an Interpolate, if it samples the same places for every size.

    Args:
        emit: adds the ops.
        src: a tensor of known rank.
        factors: by the index of an axis.
        sampling: how elements between those of src are found.

    Raises:
        NotLowered: it depends on the sizes which elements are read, or no Interpolate has this form.
    """
    rank, plain = known_rank(src), Sampling(sampling.mode, "half_pixel", "round_prefer_ceil")
    is_whole = all(factor >= 1 and float(factor).is_integer() for factor in factors.values())
    if not is_whole or min(factors) < 2 or rank > 5 or dtype_of(src) not in NATIVE or sampling.mode == "cubic":
        raise Unsettled("unknown dims")
    axes = [Axis(size, size * int(factor), factor) for factor in {*factors.values()} for size in SIZES]
    if sampling.coordinates not in PERIODIC or not all(is_alike(axis, sampling, plain) for axis in axes):
        raise Unsettled("unknown dims")
    return emit.op(
        "Interpolate",
        [src],
        {
            "mode": sampling.mode,
            "coordinate_transformation_mode": "half_pixel",
            "scales": [float(factors.get(place, 1)) for place in range(2, rank)],
            "data_format": "NCX",
        },
    )


def resize_backward(emit: Emitter, diff: Value, axes: Mapping[int, Axis], sampling: Sampling) -> Value:
    """The gradient of :func:`resize` with respect to src, of the gradient of the result."""
    if dtype_of(diff) not in {*NATIVE, DataType.float64}:
        raise NotLowered(f"{dtype_of(diff)} is no data type of floats")
    moved = {place: axis for place, axis in axes.items() if not _is_same(axis, sampling)}
    if is_open([size for axis in moved.values() for size in (axis.size, axis.count)]):
        resized = resized_open_backward(emit, diff, moved, sampling)
        if resized is not None:
            return resized
        moved = {place: settled_axis(axis) for place, axis in moved.items()}
    return shared(emit, diff, {place: shares_of(axis, sampling).turned(axis.size) for place, axis in moved.items()})


def _is_same(axis: Axis, sampling: Sampling) -> bool:
    return axis.size == axis.count and axis.scale == 1 and sampling.coordinates != "tf_crop_and_resize"


def _interpolated(emit: Emitter, src: Value, axes: Mapping[int, Axis], sampling: Sampling) -> Value | None:
    """An Interpolate of spatial axes (N, C, X), if it samples the same places; else None."""
    shape, rank = shape_of(src), known_rank(src)
    assert shape is not None
    if sampling.mode == "cubic" or sampling.coordinates == "tf_crop_and_resize" or not 3 <= rank <= 5:
        return None
    if min(axes) < 2 or None in shape[2:]:
        return None
    sizes = [axes[place].count if place in axes else shape[place] for place in range(2, rank)]
    # The library has no kernel for the other coordinates of an Interpolate, align_corners.
    plain = Sampling(sampling.mode, "half_pixel", "round_prefer_ceil")
    if not all(is_alike(axis, sampling, plain) for axis in axes.values()):
        return None
    return interpolate(emit, src, sizes, sampling.mode)


def _cropped(emit: Emitter, src: Value, axes: Mapping[int, Axis], sampling: Sampling) -> Value:
    """The value for places outside of a crop."""
    rank = known_rank(src)
    inside: Array = np.ones([1] * rank, np.bool_)
    for place, axis in axes.items():
        at = places(axis, sampling.coordinates)
        dims = [-1 if axis_ == place else 1 for axis_ in range(rank)]
        inside = inside & ((at >= 0) & (at <= axis.size - 1)).reshape(dims)
    if inside.all():
        return src
    return select(emit, inside, src, filled(sampling.outside, src))
