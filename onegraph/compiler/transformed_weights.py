"""Transforms the weights of Winograd's convolution F(2x2, 3x3) that are constants."""

from __future__ import annotations

import numpy as np

from ..arrays.ndarrays import aligned_empty
from ..ir.op import Array
from ..native.library import ffi, lib

LAYOUTS: dict[str, int] = {"OIX": lib.onegraph_winograd_oix, "XIO": lib.onegraph_winograd_xio}


def transformed_weights(weights: Array, layout: str) -> Array:
    """The f32 weights of ``layout`` OIX or XIO as 16 matrices (I, O).

    Raises:
        ValueError: the weights have no window of 3x3, or O is no multiple of 16.
    """
    dense = np.ascontiguousarray(weights, np.float32)
    window = dense.shape[2:] if layout == "OIX" else dense.shape[:2]
    results, channels = dense.shape[:2] if layout == "OIX" else dense.shape[:1:-1]
    if dense.ndim != 4 or window != (3, 3) or results % 16:
        raise ValueError(f"weights of shape {dense.shape} in {layout} have no transform")
    planes = aligned_empty((16, channels, results), np.dtype(np.float32))
    source, target = (ffi.from_buffer("float *", one) for one in (dense, planes))
    lib.onegraph_transform_weights(LAYOUTS[layout], source, target, channels, results)
    planes.flags.writeable = False
    return planes
