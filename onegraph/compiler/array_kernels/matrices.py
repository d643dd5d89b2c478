"""Calls the kernels of matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.op import Array
from ...opset.schema import Call
from .arrays import MOVED, dense, place_for, run

Found = Sequence[Array] | None
Arrays = Sequence[Any]  # of an absent input, None


def mat_mul(call: Call, arrays: Arrays, results: Sequence[Array]) -> Found:
    """A product of matrices of float64, which numpy divides between threads of its own."""
    src, weights, bias = (*arrays, None)[:3]
    if src.dtype != np.float64 or not src.size or not weights.size:
        return None
    first, second = _matrix(src, call.flag("transpose_a")), _matrix(weights, call.flag("transpose_b"))
    first = first[None] if src.ndim == 1 else first
    second = second[:, None] if weights.ndim == 1 else second
    batch = np.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    rows, depth, columns = *first.shape[-2:], second.shape[-1]
    shape = *batch, *([rows] if src.ndim > 1 else []), *([columns] if weights.ndim > 1 else [])
    result = place_for(results, 0, shape, src.dtype)
    places = [_places(array, batch) for array in (first, second)]
    numbers = [rows, columns, depth, *_steps(first)[-2:], *_steps(second)[-2:]]
    run("MatMul", [first, second, *places], [result], numbers)
    if bias is not None:
        np.add(result, bias, out=result)
    return [result]


def _matrix(array: Array, turned: bool) -> Array:
    """Matrices whose elements lie at aligned addresses, in any order."""
    matrix = array.swapaxes(-1, -2) if turned and array.ndim > 1 else array
    return (
        matrix if matrix.flags.aligned and not any(step % matrix.itemsize for step in matrix.strides) else dense(matrix)
    )


def _steps(array: Array) -> list[int]:
    return [step // array.itemsize for step in array.strides]


def _places(array: Array, batch: Sequence[int]) -> Array:
    """The places of the first elements of all matrices."""
    places = np.zeros((), np.int64)
    for dim, step in zip(batch, _steps(np.broadcast_to(array, (*batch, *array.shape[-2:]))), strict=False):
        places = places[..., None] + np.arange(dim) * step
    return dense(places.reshape(-1))


def triangle(call: Call, arrays: Arrays, results: Sequence[Array]) -> Found:
    """One triangle of each matrix, and zeros."""
    (src,) = arrays
    if src.dtype.itemsize not in MOVED or not src.size:
        return None
    result = place_for(results, 0, src.shape, src.dtype)
    run("Triangle", [dense(src)], [result], [call.flag("upper"), call.s64("offset")], moves=True)
    return [result]


FUNCTIONS: Mapping[str, Callable[[Call, Arrays, Sequence[Array]], Found]] = {"MatMul": mat_mul, "Triangle": triangle}
