"""Calls kernels that compute nodes of ONNX which are no ops of a graph."""

from __future__ import annotations

import numpy as np

from ...ir.op import Array
from .arrays import dense, is_number, run

FEW = 1024  # elements, up to which comparisons take less time than the sorts of numpy
SMALL = 128  # rows of a matrix, up to which the kernel takes less time than numpy


def distinct(src: Array) -> tuple[Array, Array, Array, Array] | None:
    """Each of a few elements once, its first place, the places of all and their number; None for other arrays."""
    if not 0 < src.size <= FEW or src.ndim != 1 or not is_number(src):
        return None
    values = np.empty(src.size, src.dtype)
    first, inverse, counts = (np.empty(src.size, np.int64) for _ in range(3))
    count = run("Distinct", [dense(src)], [values, first, inverse, counts])
    return values[:count], first[:count], inverse, counts[:count]


def determinants(src: Array) -> Array | None:
    """The determinant of each matrix; None for other arrays."""
    if src.ndim < 2 or not src.size or src.shape[-1] != src.shape[-2] or src.dtype not in (np.float32, np.float64):
        return None
    if src.shape[-1] > SMALL:
        return None
    result = np.empty(src.shape[:-2], src.dtype)
    run("Determinant", [dense(src).reshape(-1, *src.shape[-2:])], [result.reshape(-1)])
    return result
