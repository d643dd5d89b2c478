"""Lowers the resizing of axes whose sizes are open, by ops that serve all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from .._util.open_sizes import present, settled
from ..opset.dtypes import DataType
from ..opset.shapes import known
from .elementwise import add, binary, filled, multiply
from .emitter import Emitter, Value, dtype_of, known_rank, numbers, shape_of
from .movement import NATIVE, cast, rounded, sizes_of
from .open_samples import has_open_places, open_factor, open_nearest, open_number, open_samples, open_sums, open_taps
from .resize_axes import LARGEST_DENOMINATOR, PERIODIC, SIZES, TORCH_OFFSETS, Axis, Sampling, is_alike


def settled_axis(axis: Axis) -> Axis:
    """An axis of known sizes."""
    size, count = settled(axis.size), settled(axis.count)
    return replace(axis, size=size, count=count, scale=count / size if axis.is_ratio else axis.scale)


def resized_open(emit: Emitter, src: Value, axes: Mapping[int, Axis], sampling: Sampling) -> Value | None:
    """src with axes of open sizes resized by an Interpolate, if it samples the same places for all sizes; else None."""
    moved = {place: axis for place, axis in axes.items() if not (axis.size == axis.count and axis.is_ratio)}
    if not moved:
        return src
    for place, axis in moved.items():
        src, moved[place] = _without_rest(emit, src, place, axis, sampling)
    rank, shape = known_rank(src), shape_of(src)
    is_image = dtype_of(src) in NATIVE and 3 <= rank <= 5 and min(moved) > 1
    if is_image and known(shape) and all(_alike_open(axis, sampling) for axis in moved.values()):
        sizes = [moved[place].count if place in moved else shape[place] for place in range(2, rank)]
        return interpolate(emit, src, sizes, sampling.mode)
    if not _are_computed(moved, sampling):
        return None
    if sampling.mode != "nearest":
        return open_samples(emit, src, moved, sampling) if dtype_of(src) in NATIVE else None
    for place, axis in moved.items():
        src = emit.op("Gather", [src, _nearest_open(emit, axis, sampling)], {"axis": place})
    return src


def resized_open_backward(emit: Emitter, diff: Value, axes: Mapping[int, Axis], sampling: Sampling) -> Value | None:
    """The gradient of a source, some of whose axes of open sizes were resized; None if ops find no places of them."""
    if not _are_computed(axes, sampling) or dtype_of(diff) not in NATIVE:
        return None
    result = cast(emit, diff, DataType.f32)
    for place, axis in axes.items():
        is_nearest = sampling.mode == "nearest"
        taps = [(_nearest_open(emit, axis, sampling), None)] if is_nearest else open_taps(emit, axis, sampling)
        result = open_sums(emit, result, place, axis.size, taps)
    return rounded(emit, result, dtype_of(diff))


def _are_computed(axes: Mapping[int, Axis], sampling: Sampling) -> bool:
    """Whether ops find the elements that are read, for all sizes."""
    return all((axis.is_ratio and _is_floor(sampling)) or has_open_places(axis, sampling) for axis in axes.values())


def _without_rest(emit: Emitter, src: Value, place: int, axis: Axis, sampling: Sampling) -> tuple[Value, Axis]:
    """src without the elements at the end that no place of an axis shrunk by a whole number is near."""
    step, is_plain = Fraction(axis.scale), not (sampling.antialias or sampling.exclude_outside)
    is_near = is_plain and sampling.mode in ("nearest", "linear")
    is_near = is_near and sampling.coordinates in ("asymmetric", "half_pixel")
    if axis.is_ratio or step.numerator != 1 or step.denominator > LARGEST_DENOMINATOR or not is_near:
        return src, axis
    size = axis.count * step.denominator
    ends = [numbers(0), sizes_of(emit, [size]), numbers(place)]
    return emit.op("Slice", [src, *ends]), replace(axis, size=size, is_ratio=True)


def _is_floor(sampling: Sampling) -> bool:
    """Whether the nearest elements are those at rounded products of an index, in single precision."""
    is_product = sampling.coordinates == "asymmetric" or sampling.coordinates in TORCH_OFFSETS
    return sampling.mode == "nearest" and sampling.rounding == "floor" and is_product


def _nearest_open(emit: Emitter, axis: Axis, sampling: Sampling) -> Value:
    """The indices of ``nearest`` for an axis of open sizes, which ops compute."""
    if not (axis.is_ratio and _is_floor(sampling)):
        return open_nearest(emit, axis, sampling)
    indices = emit.op("Range", [np.array(0), open_number(emit, axis.count), np.array(1)])
    size = open_factor(emit, axis.size)
    sizes = [cast(emit, one, DataType.f32) for one in (size, open_factor(emit, axis.count))]
    at = cast(emit, indices, DataType.f32)
    if sampling.coordinates in TORCH_OFFSETS:
        at = add(emit, at, filled(TORCH_OFFSETS[sampling.coordinates], at))
        at = multiply(emit, at, binary(emit, "Divide", *sizes))
    else:
        at = binary(emit, "Divide", at, binary(emit, "Divide", *sizes[::-1]))
    return binary(emit, "Minimum", cast(emit, at, DataType.s64), binary(emit, "Subtract", size, np.array([1])))


def _alike_open(axis: Axis, sampling: Sampling) -> bool:
    """Whether an Interpolate gives the wanted elements for all sizes that answer the same questions alike."""
    if not axis.is_ratio:
        return False
    if sampling.mode == "linear":
        is_half_pixel = sampling.coordinates in ("half_pixel", "half_pixel_symmetric") or (
            sampling.coordinates == "pytorch_half_pixel" and axis.count > 1
        )
        return is_half_pixel and not sampling.exclude_outside and not (sampling.antialias and axis.count < axis.size)
    factor = present(axis.count) // present(axis.size)
    if sampling.mode != "nearest" or axis.count != axis.size * factor:
        return False
    # The single precision of PyTorch has the places of others for powers of 2.
    is_exact = sampling.coordinates in TORCH_OFFSETS and not factor & factor - 1
    is_periodic = sampling.coordinates in PERIODIC or is_exact
    plain = Sampling("nearest", "half_pixel", "round_prefer_ceil")
    return is_periodic and all(is_alike(Axis(size, size * factor, float(factor)), sampling, plain) for size in SIZES)


def interpolate(emit: Emitter, src: Value, sizes: Sequence[int | None], mode: str) -> Value:
    """An Interpolate of spatial axes (N, C, X) to these sizes."""
    attrs = {"mode": mode, "coordinate_transformation_mode": "half_pixel", "sizes": [*sizes], "data_format": "NCX"}
    return emit.op("Interpolate", [src], attrs)
