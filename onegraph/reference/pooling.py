"""The pooling category in numpy, in the canonical form (N, C, X).

Sums and maxima of windows are those along one axis after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..opset.ops.pooling import PoolGeometry, pool_geometry
from ..opset.schema import Call
from ..opset.window import Window
from .convolution import _channels_back, _channels_first, _sizes
from .windows import meetings

Floats = NDArray[np.float64]
Place = tuple[slice, ...]


@dataclass(frozen=True)
class _Axis:
    """The windows along one axis of (N, C, X), all sizes known."""

    number: int
    window: Window
    size: int
    count: int

    def shape(self, array: Floats, size: int) -> tuple[int, ...]:
        """The shape of an array that has another size along this axis."""
        return (*array.shape[: self.number], size, *array.shape[self.number + 1 :])

    def meetings(self) -> Iterator[tuple[Place, Place]]:
        """Places of windows and those of the source that they meet, in the order of the kernel's elements.

        Each is one element of the kernel in all windows, or, where there are fewer windows, one window.
        """
        window, before = self.window, (slice(None),) * self.number
        tap, position = (window.kernel, window.dilation), (self.count, window.stride)
        by_window = self.count < window.kernel
        one, many = (position, tap) if by_window else (tap, position)
        for number, others, met in meetings(*one, *many, window.begin, self.size):
            yield (*before, slice(number, number + 1) if by_window else others), (*before, met)

    def reduced(self, values: Floats, over: np.ufunc, start: float) -> Floats:
        """The sums or the maxima of all windows; ``start`` where one meets nothing."""
        result = np.full(self.shape(values, self.count), start)
        for windows, met in self.meetings():
            part = values[met]
            if result[windows].shape != part.shape:
                part = over.reduce(part, axis=self.number, keepdims=True)
            over(result[windows], part, out=result[windows])
        return result

    def spread(self, values: Floats) -> Floats:
        """The value of every window, added to all that it meets."""
        result = np.zeros(self.shape(values, self.size))
        for windows, met in self.meetings():
            result[met] += values[windows]
        return result

    def first_maxima(self, values: Floats, owners: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
        """The first maximum of every window and its owner, -1 where it meets nothing; NaN is above all numbers."""
        best = np.full(self.shape(values, self.count), -np.inf)
        winner = np.full(best.shape, -1)
        for windows, met in self.meetings():
            part, owner = values[met], owners[met]
            if best[windows].shape != part.shape:
                place = part.argmax(axis=self.number, keepdims=True)
                part = np.take_along_axis(part, place, self.number)
                owner = np.take_along_axis(owner, place, self.number)
            so_far, held = best[windows], winner[windows]
            better = (held < 0) | (part > so_far) | (np.isnan(part) & ~np.isnan(so_far))
            best[windows], winner[windows] = np.where(better, part, so_far), np.where(better, owner, held)
        return best, winner


def _axes(found: PoolGeometry) -> list[_Axis]:
    windows = [window for window in found.windows if window is not None]
    sizes, counts = _sizes(found.sizes), _sizes(found.counts)
    return [_Axis(2 + axis, *use) for axis, use in enumerate(zip(windows, sizes, counts, strict=True))]


def _known(call: Call) -> PoolGeometry:
    found = pool_geometry(call)
    assert found is not None
    return found


def _reduced(axes: list[_Axis], values: Floats, over: np.ufunc, start: float) -> Floats:
    for axis in reversed(axes):
        values = axis.reduced(values, over, start)
    return values


def _divisor(axes: list[_Axis], exclude_pad: bool) -> Floats:
    """What the sum of every window is divided by."""
    if not exclude_pad:
        return np.array(float(prod(axis.window.kernel for axis in axes)))
    return _reduced(axes, np.ones((1, 1, *(axis.size for axis in axes))), np.add, 0.0)


def avg_pool(call: Call, src: Floats) -> Floats:
    """The sum of every window, divided by what exclude_pad says."""
    found = _known(call)
    axes = _axes(found)
    sums = _reduced(axes, _channels_first(src, found.data_format), np.add, 0.0)
    return _channels_back(sums / _divisor(axes, call.flag("exclude_pad")), found.data_format)


def avg_pool_backward(call: Call, diff_dst: Floats, src_shape: object = None) -> Floats:
    """Every element of diff_dst, shared out evenly over its window."""
    found = _known(call)
    axes = _axes(found)
    share = _channels_first(diff_dst, found.data_format) / _divisor(axes, call.flag("exclude_pad"))
    for axis in axes:
        share = axis.spread(share)
    return _channels_back(share, found.data_format)


def max_pool(call: Call, src: Floats) -> Floats:
    """The maximum of every window; -inf where it lies in the padding alone."""
    found = _known(call)
    maxima = _reduced(_axes(found), _channels_first(src, found.data_format), np.maximum, -np.inf)
    return _channels_back(maxima, found.data_format)


def max_pool_backward(call: Call, src: Floats, diff_dst: Floats) -> Floats:
    """Every element of diff_dst, added to the first maximum of its window."""
    found = _known(call)
    best, gradient = (_channels_first(array, found.data_format) for array in (src, diff_dst))
    result = np.zeros(best.shape)
    owners = np.arange(best.size).reshape(best.shape)
    for axis in reversed(_axes(found)):
        best, owners = axis.first_maxima(best, owners)
    met = owners >= 0
    np.add.at(result.reshape(-1), owners[met], gradient[met])
    return _channels_back(result, found.data_format)
