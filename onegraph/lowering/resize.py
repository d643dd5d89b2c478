"""Lowers the resizing of axes: an Interpolate where it computes the same, else a gather or a product for each axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from .._util.open_numbers import numbers_of
from .._util.open_sizes import is_open, present, settled
from .._util.records import record
from ..opset.dtypes import DataType
from .elementwise import add, binary, clamp, filled, multiply, unary
from .emitter import Array, Emitter, NotLowered, Unsettled, Value, dtype_of, known_rank, numbers, shape_of
from .layers import matmul
from .movement import NATIVE, cast, rounded, transpose


@record(frozen=True)
class Axis:
    """How an axis is resized.

    Attributes:
        size, count: the elements before and after.
        scale: of coordinates.
        begin, end: the part of src, as shares of it.
        is_ratio: whether the scale is ``count / size``. Of open sizes it is not computed then.
    """

    size: int
    count: int
    scale: float
    begin: float = 0.0
    end: float = 1.0
    is_ratio: bool = False


@record(frozen=True)
class Sampling:
    """How elements between those of src are found.

    Attributes:
        mode: ``nearest``, ``linear`` or ``cubic``.
        coordinates: how a place in the result becomes one in src.
        rounding: which neighbour ``nearest`` takes.
        cubic: coefficient of ``cubic``.
        antialias: whether the filter is widened where the axis shrinks.
        exclude_outside: whether neighbours outside src do not count.
        outside: value of places outside a crop.
    """

    mode: str
    coordinates: str = "half_pixel"
    rounding: str = "round_prefer_floor"
    cubic: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False
    outside: float = 0.0


# Coordinates of which each element of src has the same places around it, if the factor is a whole number; and sizes
# that tell for all others which elements are read.
PERIODIC = frozenset(["asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"])
SIZES = (1, 2, 3, 8)
LARGEST_DENOMINATOR = 64  # of a scale whose products with sizes f32 has exactly
# Data types whose numbers f32 holds with four digits behind the point, and one of these digits.
BYTES, ROUNDING = frozenset([DataType.u8, DataType.s8]), 1e-4
# Coordinates of PyTorch's nearest neighbours, in single precision as there: what is added to an index.
TORCH_OFFSETS = {"pytorch_nearest": 0.0, "pytorch_nearest_exact": 0.5}


def places(axis: Axis, coordinates: str) -> Array:
    """The places in src of the elements of the result."""
    at: Array = np.arange(axis.count, dtype=np.float64)
    extent = axis.scale * axis.size
    if coordinates == "align_corners":
        return np.zeros(axis.count) if extent == 1 else at * (axis.size - 1) / (extent - 1)
    if coordinates == "asymmetric":
        return at / axis.scale
    if coordinates in TORCH_OFFSETS:
        single: Array = (at.astype(np.float32) + np.float32(TORCH_OFFSETS[coordinates])) * np.float32(1 / axis.scale)
        return single.astype(np.float64)
    if coordinates == "tf_crop_and_resize":
        span = axis.end - axis.begin
        inner = np.full(axis.count, 0.5 * span * (axis.size - 1))
        if extent != 1:
            inner = at * span * (axis.size - 1) / (extent - 1)
        return inner + axis.begin * (axis.size - 1)
    if coordinates == "pytorch_half_pixel" and extent == 1:
        return np.full(axis.count, -0.5)
    points: Array = (at + 0.5) / axis.scale - 0.5
    if coordinates == "half_pixel_symmetric":
        points += axis.size / 2 * (1 - axis.count / extent)
    return points


def nearest(axis: Axis, sampling: Sampling) -> Array:
    """The index of the nearest element for each element of the result."""
    at = places(axis, sampling.coordinates)
    if sampling.coordinates == "asymmetric" and sampling.rounding == "floor":  # in single precision, as elsewhere
        at = np.arange(axis.count, dtype=np.float32) / np.float32(axis.scale)
    rounded = {
        "round_prefer_floor": np.ceil(at - 0.5),
        "round_prefer_ceil": np.floor(at + 0.5),
        "floor": np.floor(at),
        "ceil": np.ceil(at),
    }[sampling.rounding]
    indices: Array = np.clip(rounded, 0, axis.size - 1).astype(np.int64)
    return indices


def _cubic(distance: Array, slope: float) -> Array:
    far = np.abs(distance)
    near = ((slope + 2) * far - (slope + 3)) * far**2 + 1
    outer = ((slope * far - 5 * slope) * far + 8 * slope) * far - 4 * slope
    return np.where(far <= 1, near, np.where(far < 2, outer, 0.0))


def matrix(axis: Axis, sampling: Sampling) -> Array:
    """The shares (count, size) of the elements of src in those of the result."""
    if sampling.mode == "nearest":
        chosen: Array = np.eye(axis.size)[nearest(axis, sampling)]
        return chosen
    at = places(axis, sampling.coordinates)
    narrow = min(axis.scale, 1.0) if sampling.antialias else 1.0
    reach = {"linear": 1, "cubic": 2}[sampling.mode] / narrow
    offsets = np.arange(-int(np.ceil(reach)) - 1, int(np.ceil(reach)) + 2)
    index = np.floor(at)[:, None].astype(np.int64) + offsets
    distance = (index - at[:, None]) * narrow
    shares = np.maximum(1 - np.abs(distance), 0) if sampling.mode == "linear" else _cubic(distance, sampling.cubic)
    if sampling.exclude_outside:
        shares = np.where((index >= 0) & (index < axis.size), shares, 0)
    shares = shares / shares.sum(1, keepdims=True)
    weights: Array = np.zeros((axis.count, axis.size))
    rows = np.broadcast_to(np.arange(axis.count)[:, None], index.shape)
    np.add.at(weights, (rows, np.clip(index, 0, axis.size - 1)), shares)
    return weights


def resize(emit: Emitter, src: Value, axes: Mapping[int, Axis], sampling: Sampling) -> Value:
    """src with some axes resized.

    Args:
        emit: adds the ops.
        src: a tensor of known rank.
        axes: how each axis is resized, by its index.
        sampling: how elements between those of src are found.
    """
    if is_open([size for axis in axes.values() for size in (axis.size, axis.count)]):
        resized = _resized_open(emit, src, axes, sampling)
        if resized is not None:
            return resized
        axes = {place: _settled(axis) for place, axis in axes.items()}
    axes = {place: axis for place, axis in axes.items() if not _is_same(axis, sampling)}
    if not axes:
        return src
    if dtype_of(src) in NATIVE:
        resized = _interpolated(emit, src, axes, sampling)
        if resized is not None:
            return resized
    elif sampling.mode != "nearest" and dtype_of(src) in BYTES:
        return _truncated(emit, resize(emit, cast(emit, src, DataType.f32), axes, sampling), dtype_of(src))
    elif sampling.mode != "nearest":
        raise NotLowered(f"{dtype_of(src)} is no data type of a product")
    result = src
    if sampling.mode == "nearest":
        for place, axis in axes.items():
            result = emit.op("Gather", [result, nearest(axis, sampling)], {"axis": place})
    else:
        result = _products(emit, src, {place: matrix(axis, sampling) for place, axis in axes.items()})
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
    if sampling.coordinates not in PERIODIC or not all(_alike(axis, sampling, plain) for axis in axes):
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


def _settled(axis: Axis) -> Axis:
    """An axis of known sizes."""
    size, count = settled(axis.size), settled(axis.count)
    return replace(axis, size=size, count=count, scale=count / size if axis.is_ratio else axis.scale)


def _resized_open(emit: Emitter, src: Value, axes: Mapping[int, Axis], sampling: Sampling) -> Value | None:
    """src with axes of open sizes resized by an Interpolate, if it samples the same places for all sizes; else None."""
    moved = {place: axis for place, axis in axes.items() if not (axis.size == axis.count and axis.is_ratio)}
    if not moved:
        return src
    for place, axis in moved.items():
        src, moved[place] = _without_rest(emit, src, place, axis, sampling)
    rank, shape = known_rank(src), shape_of(src)
    is_image = dtype_of(src) in NATIVE and shape is not None and 3 <= rank <= 5 and min(moved) > 1 and None not in shape
    if is_image and shape is not None and all(_alike_open(axis, sampling) for axis in moved.values()):
        sizes = [moved[place].count if place in moved else shape[place] for place in range(2, rank)]
        return _interpolate(emit, src, sizes, sampling.mode)
    if not all(axis.is_ratio and _is_floor(sampling) for axis in moved.values()):
        return None
    for place, axis in moved.items():
        src = emit.op("Gather", [src, _nearest_open(emit, src, place, axis, sampling)], {"axis": place})
    return src


def _without_rest(emit: Emitter, src: Value, place: int, axis: Axis, sampling: Sampling) -> tuple[Value, Axis]:
    """src without the elements at the end that no place of an axis shrunk by a whole number is near."""
    step, is_plain = Fraction(axis.scale), not (sampling.antialias or sampling.exclude_outside)
    is_near = is_plain and sampling.mode in ("nearest", "linear")
    is_near = is_near and sampling.coordinates in ("asymmetric", "half_pixel")
    if axis.is_ratio or step.numerator != 1 or step.denominator > LARGEST_DENOMINATOR or not is_near:
        return src, axis
    size = axis.count * step.denominator
    ends = [numbers(0), _open_numbers(emit, [size]), numbers(place)]
    return emit.op("Slice", [src, *ends]), replace(axis, size=size, is_ratio=True)


def _open_numbers(emit: Emitter, sizes: Sequence[int]) -> Value:
    return emit.graph._tensor(DataType.s64, (len(sizes),), "", None, numbers_of(sizes, (len(sizes),)))


def _is_floor(sampling: Sampling) -> bool:
    """Whether the nearest elements are those at rounded products of an index, in single precision."""
    is_product = sampling.coordinates == "asymmetric" or sampling.coordinates in TORCH_OFFSETS
    return sampling.mode == "nearest" and sampling.rounding == "floor" and is_product


def _nearest_open(emit: Emitter, src: Value, place: int, axis: Axis, sampling: Sampling) -> Value:
    """The indices of ``nearest`` for an axis of open sizes, which ops compute."""
    ends = [np.array(0), emit.graph._tensor(DataType.s64, (), "", None, numbers_of([axis.count], ())), np.array(1)]
    indices = emit.op("Range", ends)
    size = emit.op("Gather", [emit.op("Shape", [src]), np.array([place])], {"axis": 0})
    sizes = [cast(emit, one, DataType.f32) for one in (size, emit.op("Shape", [indices]))]
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
    return is_periodic and all(_alike(Axis(size, size * factor, float(factor)), sampling, plain) for size in SIZES)


def scaled(size: int, scale: float) -> tuple[int, bool]:
    """The elements of an axis by a scale, and whether their ratio is the scale, of a size that may be open."""
    share = Fraction(scale)
    if is_open([size]) and share.denominator <= LARGEST_DENOMINATOR:
        whole, rest = divmod(size * share.numerator, share.denominator)
        return whole, rest == 0 if share.numerator > 1 else not is_open([rest])  # else the rest is left out
    # ONNX multiplies in f32: five times 2.6, which f32 holds a little smaller, is 13.
    count = int(np.float32(settled(size)) * np.float32(scale))
    return count, count == size * scale


def resize_backward(emit: Emitter, diff: Value, axes: Mapping[int, Axis], sampling: Sampling) -> Value:
    """The gradient of :func:`resize` with respect to src, of the gradient of the result."""
    if dtype_of(diff) not in NATIVE:
        raise NotLowered(f"{dtype_of(diff)} is no data type of a product")
    moved = {place: axis for place, axis in axes.items() if not _is_same(axis, sampling)}
    return _products(emit, diff, {place: matrix(axis, sampling).T for place, axis in moved.items()})


def _is_same(axis: Axis, sampling: Sampling) -> bool:
    return axis.size == axis.count and axis.scale == 1 and sampling.coordinates != "tf_crop_and_resize"


def _interpolated(emit: Emitter, src: Value, axes: Mapping[int, Axis], sampling: Sampling) -> Value | None:
    """An Interpolate of spatial axes (N, C, X), if it samples the same places; else None."""
    shape, rank = shape_of(src), known_rank(src)
    if sampling.mode == "cubic" or sampling.coordinates == "tf_crop_and_resize" or shape is None or not 3 <= rank <= 5:
        return None
    if min(axes) < 2 or None in shape[2:]:
        return None
    sizes = [axes[place].count if place in axes else shape[place] for place in range(2, rank)]
    # The library has no kernel for the other coordinates of an Interpolate, align_corners.
    plain = Sampling(sampling.mode, "half_pixel", "round_prefer_ceil")
    if not all(_alike(axis, sampling, plain) for axis in axes.values()):
        return None
    return _interpolate(emit, src, sizes, sampling.mode)


def _interpolate(emit: Emitter, src: Value, sizes: Sequence[int], mode: str) -> Value:
    attrs = {"mode": mode, "coordinate_transformation_mode": "half_pixel", "sizes": [*sizes], "data_format": "NCX"}
    return emit.op("Interpolate", [src], attrs)


def _alike(axis: Axis, expected: Sampling, plain: Sampling) -> bool:
    """Whether an Interpolate, which scales by the ratio of the sizes, gives the wanted elements."""
    stated = Axis(axis.size, axis.count, axis.count / axis.size)
    if plain.mode == "nearest":
        return bool((nearest(axis, expected) == nearest(stated, plain)).all())
    return bool(np.allclose(matrix(axis, expected), matrix(stated, plain), rtol=0, atol=1e-6))


def _products(emit: Emitter, src: Value, matrices: Mapping[int, Array]) -> Value:
    """The product of a matrix with src along each axis; in f32, because 16-bit floats would round the shares."""
    result = cast(emit, src, DataType.f32)
    for place, shares in matrices.items():
        result = _product(emit, result, place, shares.astype(np.float32))
    return rounded(emit, result, dtype_of(src))


def _product(emit: Emitter, src: Value, place: int, shares: Array) -> Value:
    """The product of a matrix with src along one axis."""
    rank = known_rank(src)
    if place == rank - 1:
        return matmul(emit, src, np.ascontiguousarray(shares.T))
    order = [*range(rank)]
    order[place], order[-1] = order[-1], order[place]
    turned = matmul(emit, transpose(emit, src, order), np.ascontiguousarray(shares.T))
    return transpose(emit, turned, order)


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
    kind = dtype_of(src).numpy
    cropped = multiply(emit, src, inside.astype(kind))
    return add(emit, cropped, np.where(inside, 0, sampling.outside).astype(kind))


def settled_sizes(dims: Sequence[int], sizes: Sequence[int], policy: str) -> tuple[list[int], list[float]]:
    """Sizes and scales that keep the ratio of the axes; ``policy`` chooses the larger or smaller scale.

    The scale of open sizes that are stretched is 0, as it is their ratio.
    """
    if policy == "stretch":
        pairs = [*zip(dims, sizes, strict=True)]
        return [*sizes], [0.0 if is_open(pair) else 1.0 if pair[0] == pair[1] else pair[1] / pair[0] for pair in pairs]
    scales = [size / dim for size, dim in zip(sizes, dims, strict=True)]
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [int(np.floor(scale * dim + 0.5)) for dim in dims], [scale] * len(dims)
