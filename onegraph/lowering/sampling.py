"""Lowers the sampling of images at computed places: a host op, or gathers of neighbours and their weighted sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from ..opset.dtypes import DataType
from ..opset.shapes import known
from .elementwise import add, binary, clamp, filled, multiply, select, unary
from .emitter import Array, Emitter, NotLowered, Unsettled, Value, dtype_of, numbers, shape_of
from .movement import cast, reshape, rounded, slice_, transpose, unsqueeze


class Neighbour(NamedTuple):
    """An element along an axis: its index, its weight (None for 1), and whether it is inside the image (None for yes).

    ``at`` is the index, ``inside`` is 1 or 0. An element outside has the index of one inside, whose NaN must not count.
    """

    at: Value
    weight: Value | None
    inside: Value | None


EXACT = 1 << 24  # integers up to this one are exact in f32
CUBIC = -0.75  # the coefficient that PyTorch and ONNX use


def grid_sample(emit: Emitter, src: Value, grid: Value, mode: str, padding: str, *, align_corners: bool) -> Value:
    """The elements of src (N, C, X) at the places of a grid (N, Y, rank of X): (N, C, Y).

    Args:
        emit: adds the op.
        src: the images.
        grid: for each element of the result, its place along each axis of X, the last axis first, where -1 is the
            beginning of the axis and 1 its end.
        mode: ``linear``, ``nearest`` or ``cubic``.
        padding: what lies outside an image: ``zeros``, ``border`` or ``reflection``.
        align_corners: whether -1 and 1 are the centres of the first and the last element instead of their edges.
    """
    grid = cast(emit, grid, dtype_of(src))
    attrs = {"mode": mode, "padding": padding, "align_corners": align_corners}
    return emit.op("GridSample", [src, grid], attrs)


def composed_grid_sample(
    emit: Emitter, src: Value, grid: Value, mode: str, padding: str, *, align_corners: bool
) -> Value:
    """:func:`grid_sample` as gathers of neighbours and their weighted sum, whose gradients are known.

    Raises:
        NotLowered: a tensor is empty.
        Unsettled: a shape is not known.
    """
    shape, places = shape_of(src), shape_of(grid)
    if not known(shape) or not known(places):
        raise Unsettled("a grid or an image without a known shape")
    if 0 in (*shape, *places):
        raise NotLowered("an empty grid or image")
    batch, channels, *sizes = shape
    dtype = dtype_of(src)
    src, grid = cast(emit, src, DataType.f32), cast(emit, grid, DataType.f32)
    rank = len(sizes)
    rows = reshape(emit, transpose(emit, src, (0, *range(2, rank + 2), 1)), numbers(batch * prod(sizes), channels))
    inner = places[1:-1]
    sides = []
    for axis, size in enumerate(sizes):
        part = slice_(emit, grid, [rank - 1 - axis], [rank - axis], [rank + 1], [1])
        at = _place(emit, reshape(emit, part, numbers(batch, *inner)), size, align_corners)
        if mode != "cubic" and padding != "zeros":
            at = _inside(emit, at, size, padding, align_corners)
        sides.append([*_neighbours(emit, at, size, mode, padding, align_corners)])
    first = np.arange(batch, dtype=np.int64).reshape(batch, *[1] * rank) * prod(sizes)
    total: Value | None = None
    for chosen in product(*sides):
        index = _index(emit, [neighbour.at for neighbour in chosen], sizes, first)
        samples = emit.op("Gather", [rows, index], {"axis": 0})
        share, inside = (
            _product(emit, factors) for factors in zip(*[neighbour[1:] for neighbour in chosen], strict=True)
        )
        if share is not None:
            samples = multiply(emit, samples, unsqueeze(emit, share, [-1]))
        if inside is not None:
            counts = binary(emit, "Greater", unsqueeze(emit, inside, [-1]), filled(0.5, inside))
            samples = select(emit, counts, samples, filled(0, samples))
        total = samples if total is None else add(emit, total, samples)
    assert total is not None
    return rounded(emit, transpose(emit, total, (0, rank + 1, *range(1, rank + 1))), dtype)


def _product(emit: Emitter, factors: Iterable[Value | None]) -> Value | None:
    product: Value | None = None
    for factor in factors:
        product = factor if product is None or factor is None else multiply(emit, product, factor)
    return product


def _place(emit: Emitter, at: Value, size: int, align_corners: bool) -> Value:
    """A place between -1 and 1 as a number of elements from the first one."""
    scale, shift = ((size - 1) / 2, (size - 1) / 2) if align_corners else (size / 2, (size - 1) / 2)
    return add(emit, multiply(emit, at, filled(scale, at)), filled(shift, at))


def _neighbours(
    emit: Emitter, at: Value, size: int, mode: str, padding: str, align_corners: bool
) -> Iterator[Neighbour]:
    """The elements along an axis that a place between them takes a share of, with the shares."""
    reach = 2 if mode == "cubic" else 1
    if padding == "zeros":
        at = clamp(emit, at, filled(-reach - 1, at), filled(size - 1 + reach, at))  # beyond, nothing counts
    if mode == "nearest":
        yield _counted(emit, unary(emit, "Round", at), None, size, padding, align_corners)
        return
    low = unary(emit, "Floor", at)
    share = binary(emit, "Subtract", at, low)
    complement = binary(emit, "Subtract", filled(1, share), share)
    if mode == "linear":
        shares = [(0, complement), (1, share)]
    else:
        shares = [
            (-1, _cubic_outer(emit, share)),
            (0, _cubic_inner(emit, share)),
            (1, _cubic_inner(emit, complement)),
            (2, _cubic_outer(emit, complement)),
        ]
    for step, weight in shares:
        index = add(emit, low, filled(step, low)) if step else low
        yield _counted(emit, index, weight, size, padding, align_corners)


def _cubic_inner(emit: Emitter, distance: Value) -> Value:
    """The share of an element less than 1 away: ((a + 2) d - (a + 3)) d² + 1."""
    line = add(emit, multiply(emit, distance, filled(CUBIC + 2, distance)), filled(-(CUBIC + 3), distance))
    return add(emit, multiply(emit, line, multiply(emit, distance, distance)), filled(1, distance))


def _cubic_outer(emit: Emitter, distance: Value) -> Value:
    """The share of an element between 1 and 2 away, d + 1: ((a d - 2 a) d + a) d."""
    polynomial = add(emit, multiply(emit, distance, filled(CUBIC, distance)), filled(-2 * CUBIC, distance))
    polynomial = add(emit, multiply(emit, polynomial, distance), filled(CUBIC, distance))
    return multiply(emit, polynomial, distance)


def _counted(
    emit: Emitter, index: Value, weight: Value | None, size: int, padding: str, align_corners: bool
) -> Neighbour:
    """A neighbour, whose index is one inside the image, also at a place that is NaN."""
    inside = None
    if padding == "zeros":
        unit, zero = filled(1, index), filled(0, index)
        above = clamp(emit, add(emit, index, unit), zero, unit)
        below = clamp(emit, binary(emit, "Subtract", filled(size, index), index), zero, unit)
        inside = multiply(emit, above, below)
    elif padding == "reflection":
        index = _inside(emit, index, size, padding, align_corners)
    index = emit.op("ReplaceNaN", [index, filled(0, index)])
    return Neighbour(clamp(emit, index, filled(0, index), filled(size - 1, index)), weight, inside)


def _inside(emit: Emitter, at: Value, size: int, padding: str, align_corners: bool) -> Value:
    """A place moved into the image: to its border, or mirrored there."""
    if padding == "reflection":
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if not span:
            return multiply(emit, at, filled(0, at))
        distance = unary(emit, "Abs", add(emit, at, filled(-low, at)))
        turns = unary(emit, "Floor", multiply(emit, distance, filled(1 / span, at)))
        extra = binary(emit, "Subtract", distance, multiply(emit, turns, filled(span, at)))
        pairs = unary(emit, "Floor", multiply(emit, turns, filled(0.5, at)))
        is_odd = binary(emit, "Subtract", turns, multiply(emit, pairs, filled(2, at)))
        back = add(emit, multiply(emit, extra, filled(-2, at)), filled(span, at))
        at = add(emit, add(emit, extra, multiply(emit, is_odd, back)), filled(low, at))
    return clamp(emit, at, filled(0, at), filled(size - 1, at))


def _index(emit: Emitter, along: Sequence[Value], sizes: Sequence[int], first: Array) -> Value:
    """The row of an element, from its indices along the axes of its image and the first row of each image."""
    count = len(first) * prod(sizes)
    dtype = DataType.f32 if count <= EXACT else DataType.s64
    flat_index = cast(emit, along[0], dtype)
    for index, size in zip(along[1:], sizes[1:], strict=True):
        flat_index = add(emit, multiply(emit, flat_index, filled(size, flat_index)), cast(emit, index, dtype))
    if len(first) > 1:
        flat_index = add(emit, flat_index, first.astype(dtype.numpy))
    return cast(emit, flat_index, DataType.s64)
