"""Transforms the weights of Winograd's convolution F(2x2, 3x3) that are constants."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays.ndarrays import aligned_empty
from ..ir.op import Array

LAYOUTS = frozenset(["OIX", "XIO"])
HALF = np.float32(0.5)
Floats = NDArray[np.float32]


def transformed_weights(weights: Array, layout: str) -> Array:
    """The f32 weights of ``layout`` OIX or XIO as 16 matrices (I, O)."""
    window = weights.view(np.float32)
    if layout == "OIX":  # two copies, because one that turns all axes at once takes twice as long
        results, channels = window.shape[:2]
        planes = np.ascontiguousarray(window.reshape(results * channels, 9).T)
        window = np.ascontiguousarray(planes.reshape(3, 3, results, channels).swapaxes(2, 3))
    found = aligned_empty((4, 4, *window.shape[2:]), np.dtype(np.float32))
    for row, half in enumerate(_four(*window)):
        for column, matrix in enumerate(_four(*half)):
            found[row, column] = matrix
    found.flags.writeable = False
    return found.reshape(16, *window.shape[2:])


def _four(first: Floats, second: Floats, third: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """The transform of the weights of a row or column: G w for the matrix G of F(2, 3)."""
    outer, inner = (first + third) * HALF, second * HALF
    return first, outer + inner, outer - inner, third
