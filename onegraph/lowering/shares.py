"""Sums of a few elements along an axis, each times a known weight: resizes, uneven pools, and their gradients.

A product with a matrix would multiply all other elements by zero, of which NaN and infinities become NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..opset.dtypes import DataType
from .emitter import Array, Emitter, Value, dtype_of, shape_of
from .movement import cast, rounded


class Shares(NamedTuple):
    """The elements that each element of a result is made of.

    Attributes:
        indices: an array (count, taps) of places along the axis; a negative one adds nothing.
        weights: their weights, of the same shape.
    """

    indices: Array
    weights: Array

    def turned(self, size: int) -> Shares:
        """Those of the gradient: the results that each of ``size`` elements is part of."""
        rows, taps = np.nonzero(self.indices >= 0)
        places, weights = self.indices[rows, taps], self.weights[rows, taps]
        order = np.argsort(places, kind="stable")
        counts = np.bincount(places, minlength=size)
        at = places[order], np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        indices = np.full((size, max(int(counts.max(initial=0)), 1)), -1, np.int64)
        turned = Shares(indices, np.zeros(indices.shape))
        turned.indices[at], turned.weights[at] = rows[order], weights[order]
        return turned

    def matrix(self, size: int) -> Array:
        """The matrix (count, size) of the weights."""
        dense: Array = np.zeros((len(self.indices), size))
        rows, taps = np.nonzero(self.indices >= 0)
        np.add.at(dense, (rows, self.indices[rows, taps]), self.weights[rows, taps])
        return dense


def windows(begins: Array, ends: Array, weights: Array) -> Shares:
    """All elements from ``begins`` up to ``ends``, which share a weight."""
    offsets = np.arange(int((ends - begins).max(initial=1)))
    indices = begins[:, None] + offsets
    return Shares(np.where(indices < ends[:, None], indices, -1), np.broadcast_to(weights[:, None], indices.shape))


def padded_places(dim: int, before: int, after: int, mode: str) -> Array:
    """The element that each element along a padded axis repeats; a negative number of elements is taken away."""
    low, high = max(before, 0), max(after, 0)
    indices: Array = np.pad(np.arange(dim), (low, high), mode=mode)  # type: ignore[call-overload]
    return indices[max(-before, 0) : len(indices) - max(-after, 0)]


def shared(emit: Emitter, src: Value, axes: Mapping[int, Shares]) -> Value:
    """The sums along each axis, those that shrink it first; in f32, because 16-bit floats would round the shares."""
    wide = dtype_of(src) if dtype_of(src) is DataType.float64 else DataType.f32
    result, shape = cast(emit, src, wide), shape_of(src)
    growth = {axis: len(shares.indices) / (shape[axis] or 1 if shape else 1) for axis, shares in axes.items()}
    for axis in sorted(axes, key=lambda axis_: growth[axis_]):
        indices, weights = axes[axis]
        ends = [result, np.ascontiguousarray(indices), np.ascontiguousarray(weights.astype(wide.numpy))]
        result = emit.op("WeightedGather", ends, {"axis": axis})
    return rounded(emit, result, dtype_of(src))
