"""The interpolation category in numpy: one spatial axis after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..opset.ops.interpolation import resized
from ..opset.schema import Call

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


def samples(call: Call, old: int, new: int) -> tuple[Indices, Indices, Floats]:
    """For each index of an axis of ``new`` elements the two of ``old`` that it reads, and the share of the second."""
    places = np.arange(new, dtype=np.int64)
    corners = call.string("coordinate_transformation_mode") == "align_corners"
    # The coordinate is top / bottom, less a half where the corners are not aligned.
    top, bottom = (places * (old - 1), max(new - 1, 1)) if corners else ((2 * places + 1) * old, 2 * new)
    if call.string("mode") == "nearest":
        # Halves go to the later element: the floor of the coordinate plus a half, without rounding errors.
        nearest = (2 * top + bottom) // (2 * bottom) if corners else top // bottom
        return nearest, nearest, np.zeros(new)
    exact = np.clip(top / bottom - (0 if corners else 0.5), 0, max(old - 1, 0))
    first, second = np.floor(exact).astype(np.int64), np.ceil(exact).astype(np.int64)
    return first, second, exact - first


def _along_axes(call: Call, array: Floats, step: Callable[[Floats, int], Floats]) -> Floats:
    """``step`` along each spatial axis of ``array``, which it is given as the first one."""
    start = 1 if call.string("data_format") == "NXC" else 2
    for number in range(array.ndim - 2):
        array = np.moveaxis(step(np.moveaxis(array, start + number, 0), number), 0, start + number)
    return array


def _sizes(call: Call) -> tuple[int, ...]:
    return tuple(size for size in resized(call) or () if size is not None)


def interpolate(call: Call, src: Floats, sizes: object = None) -> Floats:
    """src with other spatial sizes."""
    wanted = _sizes(call)

    def step(rows: Floats, number: int) -> Floats:
        first, second, share = samples(call, len(rows), wanted[number])
        share = share.reshape(-1, *[1] * (rows.ndim - 1))
        # Where both are one element its share is whole, so that an infinite one stays infinite.
        return np.where(
            (first == second).reshape(share.shape), rows[first], rows[first] * (1 - share) + rows[second] * share
        )

    return _along_axes(call, src, step)


def interpolate_backward(call: Call, src: Floats, diff_dst: Floats, sizes: object = None) -> Floats:
    """The transposed linear map of interpolate, applied to diff_dst."""
    axis = 1 if call.string("data_format") == "NXC" else 2

    def step(rows: Floats, number: int) -> Floats:
        old = src.shape[axis + number]
        first, second, share = samples(call, old, len(rows))
        share = share.reshape(-1, *[1] * (rows.ndim - 1))
        result = np.zeros((old, *rows.shape[1:]))
        np.add.at(result, first, rows * (1 - share))
        apart = first != second
        np.add.at(result, second[apart], (rows * share)[apart])
        return result

    return _along_axes(call, diff_dst, step)
