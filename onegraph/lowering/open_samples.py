"""Finds the elements around the places of a resized axis whose sizes are open, by ops that serve all sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from .._util.open_numbers import numbers_of
from .._util.open_sizes import is_open
from ..opset.dtypes import DataType
from ..opset.shapes import known_dims
from .elementwise import add, binary, filled, multiply, select
from .emitter import Emitter, Value, dtype_of, known_rank, shape_of
from .layout import inverse
from .movement import cast, concat, reshape, rounded, sizes_of, transpose
from .resize_axes import LARGEST_DENOMINATOR, LARGEST_QUOTIENT, Axis, Sampling

HALF = frozenset(["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"])
# What is added to twice the numerator of a place, in divisors and ones, before it is divided by twice the divisor.
ROUNDINGS = {"floor": (0, 0), "ceil": (2, -1), "round_prefer_ceil": (1, 0), "round_prefer_floor": (1, -1)}
Polynomial = tuple[float, ...]  # coefficients of the powers of a number, from that of 1 on
Tap = tuple[Value, Value | None]  # for each element of a result the index of one that it reads, and its share, if not 1


def has_open_places(axis: Axis, sampling: Sampling) -> bool:
    """Whether the places of an axis are quotients of integers that follow from its sizes, and have one filter."""
    largest = LARGEST_DENOMINATOR if sampling.mode == "nearest" else LARGEST_QUOTIENT
    is_fraction = axis.is_ratio or Fraction(axis.scale).denominator <= largest
    if not is_fraction or (not axis.is_ratio and sampling.coordinates == "half_pixel_symmetric"):
        return False
    if sampling.antialias and axis.count < axis.size:
        return False
    return sampling.coordinates in HALF or sampling.coordinates in ("align_corners", "asymmetric")


def open_number(emit: Emitter, size: int) -> Value:
    """A size as a number that sets an end."""
    if not is_open([size]):
        return np.array(size)
    return emit.graph._tensor(DataType.s64, (), "", None, numbers_of([size], ()))


def open_factor(emit: Emitter, size: int) -> Value:
    """A size as a factor: a kernel reads no number that sizes decide, but the result of a step that does."""
    if not is_open([size]):
        return np.array(size)
    return emit.op("Range", [open_number(emit, size), open_number(emit, size + 1), np.array(1)])


def counted(emit: Emitter, count: int) -> Value:
    """The integers below a size: an array if it is known, or if a graph is made for unknown dims."""
    if not is_open([count]) or emit.opened is not None:
        return np.arange(count, dtype=np.int64)
    return emit.op("Range", [np.array(0), open_number(emit, count), np.array(1)])


def _fractions(axis: Axis, coordinates: str) -> tuple[int, int, int]:
    """The numerator of the first place behind a further element, the step to the next numerator, and the divisor."""
    share = Fraction(axis.scale)
    size, count = (axis.size, axis.count) if axis.is_ratio else (share.denominator, share.numerator)
    if coordinates == "align_corners":
        step, divisor = axis.size - 1, axis.count - 1
        if not axis.is_ratio:
            step, divisor = step * share.denominator, axis.size * share.numerator - share.denominator
        return (1, 0, 1) if divisor == 0 else (divisor, step, divisor)
    if coordinates == "pytorch_half_pixel" and count == 1 and size == axis.size:
        return 1, 0, 2
    # A half place is (index + 1/2) size / count - 1/2.
    return (size + count, 2 * size, 2 * count) if coordinates in HALF else (count, size, count)


def _places(emit: Emitter, axis: Axis, coordinates: str) -> tuple[Value, Value]:
    """The places behind a further element as quotients of integers, none of which is negative: nothing is rounded."""
    first, step, divisor = _fractions(axis, coordinates)
    indices = emit.op("Range", [np.array(0), open_number(emit, axis.count), np.array(1)])
    numerators = add(emit, multiply(emit, indices, open_factor(emit, step)), open_factor(emit, first))
    return numerators, open_factor(emit, divisor)


def open_nearest(emit: Emitter, axis: Axis, sampling: Sampling) -> Value:
    """The index of the nearest element for each element of the result."""
    numerators, divisor = _places(emit, axis, sampling.coordinates)
    parts, ones = ROUNDINGS[sampling.rounding]
    summed = add(emit, multiply(emit, numerators, np.array(2)), np.array(ones))
    if parts:
        summed = add(emit, summed, multiply(emit, divisor, np.array(parts)))
    quotient = binary(emit, "Divide", summed, multiply(emit, divisor, np.array(2)))
    return _inside(emit, add(emit, quotient, np.array(-1)), open_factor(emit, axis.size - 1))


def _inside(emit: Emitter, indices: Value, last: Value) -> Value:
    """Indices, of which those before the first element or behind the last one are these elements."""
    return binary(emit, "Maximum", binary(emit, "Minimum", indices, last), np.array(0))


def _shares(sampling: Sampling) -> Sequence[Polynomial]:
    """The shares of the elements around a place, from the first on, by its distance to the one before it."""
    if sampling.mode == "linear":
        return (1, -1), (0, 1)
    slope = sampling.cubic
    return (
        (0, slope, -2 * slope, slope),
        (1, 0, -slope - 3, slope + 2),
        (0, -slope, 2 * slope + 3, -slope - 2),
        (0, 0, slope, -slope),
    )


def open_samples(emit: Emitter, src: Value, axes: Mapping[int, Axis], sampling: Sampling) -> Value:
    """src with axes of open sizes: the elements around each place times their shares; in f32, as shares are fractions.

    Args:
        emit: adds the ops.
        src: a tensor of floats.
        axes: the axes by their indices, of which ``has_open_places`` holds.
        sampling: linear or cubic, without a filter.
    """
    result = cast(emit, src, DataType.f32)
    for place, axis in axes.items():
        result = _sampled(emit, result, place, axis, sampling)
    return rounded(emit, result, dtype_of(src))


def open_sums(emit: Emitter, diff: Value, place: int, size: int, taps: Sequence[Tap]) -> Value:
    """The gradient of an axis resized, of the gradient of the result: what each element of the source had a share in.

    Args:
        emit: adds the ops.
        diff: the gradient of the result, in f32.
        place: of the axis.
        size: of the axis of the source.
        taps: what was read.
    """
    order = [place, *[other for other in range(known_rank(diff)) if other != place]]
    rows = transpose(emit, diff, order)
    count, *trailing = known_dims(shape_of(rows))
    parts = [
        rows if share is None else multiply(emit, rows, reshape(emit, share, [count, *[1] * len(trailing)]))
        for _, share in taps
    ]
    places = [reshape(emit, some, [count, 1]) for some, _ in taps]
    dims: Sequence[Any] = [size, *trailing]
    zeros = emit.op("Expand", [filled(0, diff), sizes_of(emit, dims)])
    ends = [zeros, concat(emit, places, 0), concat(emit, parts, 0)]
    return transpose(emit, emit.op("ScatterND", ends, {"reduction": "add"}, edition="host"), inverse(order))


def _sampled(emit: Emitter, src: Value, place: int, axis: Axis, sampling: Sampling) -> Value:
    dims = [axis.count, *[1] * (known_rank(src) - 1 - place)]
    return _sum(
        emit,
        [
            multiply(emit, emit.op("Gather", [src, indices], {"axis": place}), reshape(emit, share, dims))
            for indices, share in open_taps(emit, axis, sampling)
        ],
    )


def open_taps(emit: Emitter, axis: Axis, sampling: Sampling) -> list[tuple[Value, Value]]:
    """The indices of elements around all places, and their shares, from the first element of each place on."""
    numerators, divisor = _places(emit, axis, sampling.coordinates)
    quotient = binary(emit, "Divide", numerators, divisor)
    rest = binary(emit, "Subtract", numerators, multiply(emit, quotient, divisor))
    distance = binary(emit, "Divide", cast(emit, rest, DataType.f32), cast(emit, divisor, DataType.f32))
    polynomials = _shares(sampling)
    shares = [_value_at(emit, polynomial, distance) for polynomial in polynomials]
    stated = [add(emit, quotient, np.array(number - len(shares) // 2)) for number in range(len(shares))]
    last = open_factor(emit, axis.size - 1)
    indices = [_inside(emit, some, last) for some in stated]
    if sampling.exclude_outside:
        flags = [cast(emit, binary(emit, "Equal", *pair), DataType.f32) for pair in zip(stated, indices, strict=True)]
        shares = [multiply(emit, share, flag) for share, flag in zip(shares, flags, strict=True)]
        total = _sum(emit, shares)
        shares = [binary(emit, "Divide", share, total) for share in shares]
    return [*zip(indices, shares, strict=True)]


def open_means(emit: Emitter, src: Value, place: int, size: int, parts: int) -> Value:
    """The means of parts that an axis of an open size is divided into; in f32.

    Args:
        emit: adds the ops.
        src: a tensor of f32.
        place: of the axis.
        size: of the axis.
        parts: the number of parts, which share an element where the size is no multiple of it.
    """
    numbers, whole = np.arange(parts + 1), open_factor(emit, size)
    begins = binary(emit, "Divide", multiply(emit, numbers[:-1], whole), np.array(parts))
    summed = add(emit, multiply(emit, numbers[1:], whole), np.array(parts - 1))
    ends = binary(emit, "Divide", summed, np.array(parts))
    longest = size // parts + 2
    offsets = emit.op("Range", [np.array(0), open_number(emit, longest), np.array(1)])
    begins, ends = (reshape(emit, one, [parts, 1]) for one in (begins, ends))
    indices = add(emit, begins, reshape(emit, offsets, [1, longest]))
    inside = binary(emit, "Less", indices, ends)
    lengths = cast(emit, binary(emit, "Subtract", ends, begins), DataType.f32)
    shares = binary(emit, "Divide", cast(emit, inside, DataType.f32), lengths)
    inputs = [src, select(emit, inside, indices, np.array(-1)), shares]
    return emit.op("WeightedGather", inputs, {"axis": place})


def _sum(emit: Emitter, summands: Sequence[Value]) -> Value:
    return reduce(lambda total, summand: add(emit, total, summand), summands)


def _value_at(emit: Emitter, polynomial: Polynomial, distance: Value) -> Value:
    """The value of a polynomial, by Horner's rule."""
    *lower, value = [filled(coefficient, distance) for coefficient in polynomial]
    for coefficient in reversed(lower):
        value = add(emit, multiply(emit, distance, value), coefficient)
    return value
