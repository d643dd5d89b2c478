"""Computes the ops of the interpolation category in numpy, one spatial axis after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..opset.ops.interpolation import resized
from ..opset.schema import Call
from ..opset.shapes import known_dims

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


def samples(call: Call, old: int, new: int) -> tuple[Indices, Indices, Floats]:
    """For each of ``new`` positions along an axis, the two of ``old`` elements it reads, and the second one's weight.

    Returns:
        Indices of the first element, indices of the second element, and weights of the second element (0 to 1).
    """
    places = np.arange(new, dtype=np.int64)
    corners = call.string("coordinate_transformation_mode") == "align_corners"
    # The coordinate is top / bottom, minus 0.5 for half_pixel.
    top, bottom = (places * (old - 1), max(new - 1, 1)) if corners else ((2 * places + 1) * old, 2 * new)
    if call.string("mode") == "nearest":
        # A half rounds up: floor(coordinate + 0.5), in integers to avoid rounding errors.
        nearest = (2 * top + bottom) // (2 * bottom) if corners else top // bottom
        return nearest, nearest, np.zeros(new)
    exact = np.clip(top / bottom - (0 if corners else 0.5), 0, old - 1)
    first, second = np.floor(exact).astype(np.int64), np.ceil(exact).astype(np.int64)
    return first, second, exact - first


def _along_axes(call: Call, array: Floats, step: Callable[[Floats, int], Floats]) -> Floats:
    """Apply ``step`` along each spatial axis of ``array``; ``step`` gets that axis as the first axis of the array."""
    start = 1 if call.string("data_format") == "NXC" else 2
    for number in range(array.ndim - 2):
        array = np.moveaxis(step(np.moveaxis(array, start + number, 0), number), 0, start + number)
    return array


def _sizes(call: Call) -> tuple[int, ...]:
    return known_dims(resized(call))


def interpolate(call: Call, src: Floats, sizes: object = None) -> Floats:
    """src resized along its spatial axes."""
    wanted = _sizes(call)

    def step(rows: Floats, number: int) -> Floats:
        first, second, share = samples(call, len(rows), wanted[number])
        share = share.reshape(-1, *[1] * (rows.ndim - 1))
        # If both are the same element, take it unweighted: infinity times a weight of 0 would be NaN.
        return np.where(
            (first == second).reshape(share.shape), rows[first], rows[first] * (1 - share) + rows[second] * share
        )

    return _along_axes(call, src, step)


def interpolate_backward(call: Call, src: Floats, diff_dst: Floats, sizes: object = None) -> Floats:
    """The transpose of the linear map of interpolate, applied to diff_dst."""
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
