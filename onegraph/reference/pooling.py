"""The pooling category in numpy, in the canonical form (N, C, X)."""

from __future__ import annotations

from itertools import product
from types import EllipsisType

import numpy as np
from numpy.typing import NDArray

from ..spec.pooling import Geometry, geometry
from ..spec.schema import Call
from ..spec.window import Window
from .convolution import _blank, _channels_back, _channels_first, _sizes

Floats = NDArray[np.float64]
Place = tuple[EllipsisType | slice, ...]


class _Pooling:
    """The windows of one use, all sizes known."""

    def __init__(self, found: Geometry) -> None:
        self.data_format = found.data_format
        self.sizes, self.counts = _sizes(found.sizes), _sizes(found.counts)
        self.windows: list[Window] = [window for window in found.windows if window is not None]
        assert len(self.windows) == len(self.sizes)

    def taps(self) -> list[Place]:
        """For each kernel element, where it meets the padded source."""
        return [
            (
                ...,
                *(
                    slice(k * window.dilation, k * window.dilation + window.stride * (count - 1) + 1, window.stride)
                    for k, window, count in zip(element, self.windows, self.counts, strict=True)
                ),
            )
            for element in product(*(range(window.kernel) for window in self.windows))
        ]

    def inner(self) -> Place:
        """Where the source stands in the padded source."""
        return (..., *(slice(w.begin, w.begin + size) for w, size in zip(self.windows, self.sizes, strict=True)))

    def blank(self, outer: tuple[int, ...], fill: float) -> Floats:
        """A padded source that holds ``fill`` everywhere."""
        reach = (w.extent + w.stride * (count - 1) for w, count in zip(self.windows, self.counts, strict=True))
        size = [max(w.begin + n, r) for w, n, r in zip(self.windows, self.sizes, reach, strict=True)]
        return _blank((*outer, *size), fill)

    def embed(self, source: Floats, fill: float) -> Floats:
        """The source with its padding."""
        padded = self.blank(source.shape[:2], fill)
        padded[self.inner()] = source
        return padded

    def divisor(self, exclude_pad: bool) -> Floats:
        """What the sum of every window is divided by."""
        padded = self.embed(np.ones((1, 1, *self.sizes)), 0.0 if exclude_pad else 1.0)
        return self.sums(padded)

    def sums(self, padded: Floats) -> Floats:
        """The sum of every window."""
        total = np.zeros((*padded.shape[:2], *self.counts))
        for tap in self.taps():
            total += padded[tap]
        return total


def _known(call: Call) -> _Pooling:
    found = geometry(call)
    assert found is not None
    return _Pooling(found)


def avg_pool(call: Call, src: Floats) -> Floats:
    """The sum of every window, divided by what exclude_pad says."""
    pooling = _known(call)
    padded = pooling.embed(_channels_first(src, pooling.data_format), 0.0)
    return _channels_back(pooling.sums(padded) / pooling.divisor(call.flag("exclude_pad")), pooling.data_format)


def avg_pool_backward(call: Call, diff_dst: Floats, src_shape: object = None) -> Floats:
    """Every element of diff_dst, shared out evenly over its window."""
    pooling = _known(call)
    share = _channels_first(diff_dst, pooling.data_format) / pooling.divisor(call.flag("exclude_pad"))
    padded = pooling.blank(share.shape[:2], 0.0)
    for tap in pooling.taps():
        padded[tap] += share
    return _channels_back(padded[pooling.inner()], pooling.data_format)


def max_pool(call: Call, src: Floats) -> Floats:
    """The maximum of every window; -inf where it lies in the padding alone."""
    pooling = _known(call)
    padded = pooling.embed(_channels_first(src, pooling.data_format), -np.inf)
    dst = np.full((*padded.shape[:2], *pooling.counts), -np.inf)
    for tap in pooling.taps():
        dst = np.maximum(dst, padded[tap])
    return _channels_back(dst, pooling.data_format)


def max_pool_backward(call: Call, src: Floats, diff_dst: Floats) -> Floats:
    """Every element of diff_dst, added to the first maximum of its window."""
    pooling = _known(call)
    source = _channels_first(src, pooling.data_format)
    gradient = _channels_first(diff_dst, pooling.data_format)
    padded, real = pooling.embed(source, -np.inf), pooling.embed(np.ones(source.shape), 0.0) > 0
    best, winner = np.full(gradient.shape, -np.inf), np.full(gradient.shape, -1)
    taps = pooling.taps()
    for index, tap in enumerate(taps):
        value = padded[tap]
        better = real[tap] & ((winner < 0) | (value > best) | (np.isnan(value) & ~np.isnan(best)))
        best, winner = np.where(better, value, best), np.where(better, index, winner)
    result = np.zeros(padded.shape)
    for index, tap in enumerate(taps):
        result[tap] += np.where(winner == index, gradient, 0.0)
    return _channels_back(result[pooling.inner()], pooling.data_format)
