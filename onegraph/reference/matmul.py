"""Computes MatMul in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..opset.schema import Call

Floats = NDArray[np.float64]


def matmul(call: Call, src: Floats, weights: Floats, bias: Floats | None = None) -> Floats:
    if call.flag("transpose_a") and src.ndim > 1:
        src = src.swapaxes(-1, -2)
    if call.flag("transpose_b") and weights.ndim > 1:
        weights = weights.swapaxes(-1, -2)
    product = np.matmul(src, weights)
    return product if bias is None else product + bias
