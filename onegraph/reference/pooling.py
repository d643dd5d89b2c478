"""Computes the ops of the pooling category in numpy, on arrays (N, C, X).

Sums and maxima of windows are computed along one spatial axis after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
from numpy.typing import NDArray

from .._util.records import record
from ..opset.ops.pooling import PoolGeometry, pool_geometry
from ..opset.schema import Call
from ..opset.window import AxisWindow
from .convolution import _channels_back, _channels_first, _sizes
from .windows import meetings

Floats = NDArray[np.float64]
Place = tuple[slice, ...]


@record(frozen=True)
class _Axis:
    """The windows along one axis of an array (N, C, X), with known sizes.

    Attributes:
        number: index of the axis.
        window: kernel size, stride, dilation and padding.
        size: number of elements of the source.
        count: number of window positions.
    """

    number: int
    window: AxisWindow
    size: int
    count: int

    def shape(self, array: Floats, size: int) -> tuple[int, ...]:
        """The shape of ``array`` with another size along this axis."""
        return (*array.shape[: self.number], size, *array.shape[self.number + 1 :])

    def meetings(self) -> Iterator[tuple[Place, Place]]:
        """Pairs of indices: windows, and the source elements that they overlap, in the order of the kernel elements.

        Each pair is for one kernel element in all windows or, if there are fewer windows than kernel elements, for all
        kernel elements of one window.
        """
        window, before = self.window, (slice(None),) * self.number
        tap, position = (window.kernel, window.dilation), (self.count, window.stride)
        by_window = self.count < window.kernel
        outer, inner = (position, tap) if by_window else (tap, position)
        for number, outer_part, met in meetings(*outer, *inner, window.begin, self.size):
            yield (*before, slice(number, number + 1) if by_window else outer_part), (*before, met)

    def reduced(self, values: Floats, over: np.ufunc, start: float) -> Floats:
        """The sums or maxima of all windows; ``start`` for a window that overlaps no element."""
        result = np.full(self.shape(values, self.count), start)
        for windows, met in self.meetings():
            part = values[met]
            if result[windows].shape != part.shape:
                part = over.reduce(part, axis=self.number, keepdims=True)
            over(result[windows], part, out=result[windows])
        return result

    def spread(self, values: Floats) -> Floats:
        """An array like the source, with the value of every window added to all elements that it overlaps."""
        result = np.zeros(self.shape(values, self.size))
        for windows, met in self.meetings():
            result[met] += values[windows]
        return result

    def first_maxima(self, values: Floats, owners: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
        """The first maximum of every window, and its element of ``owners``; -1 for a window without elements.

        The last NaN of a window, if there is one, is its maximum, as in PyTorch.
        """
        best = np.full(self.shape(values, self.count), -np.inf)
        winner = np.full(best.shape, -1)
        for windows, met in self.meetings():
            part, owner = values[met], owners[met]
            if best[windows].shape != part.shape:
                nan = np.flip(np.isnan(part), self.number)
                last = part.shape[self.number] - 1 - nan.argmax(axis=self.number, keepdims=True)
                place = part.argmax(axis=self.number, keepdims=True)
                place = np.where(nan.any(axis=self.number, keepdims=True), last, place)
                part = np.take_along_axis(part, place, self.number)
                owner = np.take_along_axis(owner, place, self.number)
            so_far, held = best[windows], winner[windows]
            better = (held < 0) | (part > so_far) | np.isnan(part)
            best[windows], winner[windows] = np.where(better, part, so_far), np.where(better, owner, held)
        return best, winner


def _axes(geometry: PoolGeometry) -> list[_Axis]:
    windows = [window for window in geometry.windows if window is not None]
    sizes, counts = _sizes(geometry.sizes), _sizes(geometry.counts)
    return [_Axis(2 + axis, *use) for axis, use in enumerate(zip(windows, sizes, counts, strict=True))]


def _known(call: Call) -> PoolGeometry:
    geometry = pool_geometry(call)
    assert geometry is not None
    return geometry


def _reduced(axes: list[_Axis], values: Floats, over: np.ufunc, start: float) -> Floats:
    for axis in reversed(axes):
        values = axis.reduced(values, over, start)
    return values


def _divisor(axes: list[_Axis], exclude_pad: bool) -> Floats:
    """The divisor for the sum of every window."""
    if not exclude_pad:
        return np.array(float(prod(axis.window.kernel for axis in axes)))
    return _reduced(axes, np.ones((1, 1, *(axis.size for axis in axes))), np.add, 0.0)


def avg_pool(call: Call, src: Floats) -> Floats:
    """The average of every window."""
    geometry = _known(call)
    axes = _axes(geometry)
    sums = _reduced(axes, _channels_first(src, geometry.data_format), np.add, 0.0)
    return _channels_back(sums / _divisor(axes, call.flag("exclude_pad")), geometry.data_format)


def avg_pool_backward(call: Call, diff_dst: Floats, src_shape: object = None) -> Floats:
    """diff_src: every element of diff_dst is distributed evenly over its window."""
    geometry = _known(call)
    axes = _axes(geometry)
    share = _channels_first(diff_dst, geometry.data_format) / _divisor(axes, call.flag("exclude_pad"))
    for axis in axes:
        share = axis.spread(share)
    return _channels_back(share, geometry.data_format)


def max_pool(call: Call, src: Floats) -> Floats:
    """The maximum of every window; -inf for a window that has only padding."""
    geometry = _known(call)
    maxima = _reduced(_axes(geometry), _channels_first(src, geometry.data_format), np.maximum, -np.inf)
    return _channels_back(maxima, geometry.data_format)


def max_pool_backward(call: Call, src: Floats, diff_dst: Floats) -> Floats:
    """diff_src: every element of diff_dst is added at the first maximum of its window, or at its last NaN."""
    geometry = _known(call)
    best, gradient = (_channels_first(array, geometry.data_format) for array in (src, diff_dst))
    result = np.zeros(best.shape)
    owners = np.arange(best.size).reshape(best.shape)
    for axis in reversed(_axes(geometry)):
        best, owners = axis.first_maxima(best, owners)
    met = owners >= 0
    np.add.at(result.reshape(-1), owners[met], gradient[met])
    return _channels_back(result, geometry.data_format)
