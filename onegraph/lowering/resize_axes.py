"""Where the elements of a resized axis lie in its source, and their shares."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from .._util.open_sizes import computed, is_open, present
from .._util.records import record
from .emitter import Array
from .shares import Shares


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
LARGEST_QUOTIENT = 1 << 32  # the denominator of a scale that is multiplied by places in integers of 64 bits

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


def shares_of(axis: Axis, sampling: Sampling) -> Shares:
    """The elements of src that those of the result are made of, in the neighbourhood that PyTorch multiplies."""
    if sampling.mode == "nearest":
        chosen = nearest(axis, sampling)[:, None]
        return Shares(chosen, np.ones(chosen.shape))
    at = places(axis, sampling.coordinates)
    if sampling.mode == "linear" and not sampling.exclude_outside:
        at = np.maximum(at, 0)
    narrow = min(axis.scale, 1.0) if sampling.antialias else 1.0
    reach = {"linear": 1, "cubic": 2}[sampling.mode] / narrow
    index = np.floor(at + 1 - reach)[:, None].astype(np.int64) + np.arange(int(np.ceil(2 * reach)) + 1)
    distance = (index - at[:, None]) * narrow
    weights = np.maximum(1 - np.abs(distance), 0) if sampling.mode == "linear" else _cubic(distance, sampling.cubic)
    counts = index < np.floor(at + 1 + reach)[:, None]
    if sampling.exclude_outside:
        counts &= (index >= 0) & (index < axis.size)
    weights = np.where(counts, weights, 0)
    with np.errstate(invalid="ignore"):  # a place that only excluded elements are near has NaN
        weights /= weights.sum(1, keepdims=True)
    return Shares(np.where(counts, np.clip(index, 0, axis.size - 1), -1), weights)


def scaled(size: int, scale: float) -> tuple[int, bool]:
    """The elements of an axis by a scale, and whether their ratio is the scale, of a size that may be open."""
    share = Fraction(scale)
    if is_open([size]) and share.denominator <= LARGEST_DENOMINATOR:
        whole, rest = divmod(size * share.numerator, share.denominator)
        return whole, rest == 0 if share.numerator > 1 else not is_open([rest])  # else the rest is left out
    # ONNX multiplies in f32: five times 2.6, which f32 holds a little smaller, is 13.
    count = int(np.float32(present(size)) * np.float32(scale))
    if is_open([size]):
        product = f"({{0}}*{share.numerator})"
        unit = f"2**max({product}.bit_length()-24,0)"  # of a number of 24 bits
        return computed(f"(round({product}/{unit})*{unit}//{share.denominator})", count, size), False
    return count, count == size * scale


def is_alike(axis: Axis, expected: Sampling, plain: Sampling) -> bool:
    """Whether an Interpolate, which scales by the ratio of the sizes, gives the wanted elements."""
    stated = Axis(axis.size, axis.count, axis.count / axis.size)
    if plain.mode == "nearest":
        return bool((nearest(axis, expected) == nearest(stated, plain)).all())
    wanted, actual = (shares_of(*one).matrix(axis.size) for one in ((axis, expected), (stated, plain)))
    return bool(np.allclose(wanted, actual, rtol=0, atol=1e-6))


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
