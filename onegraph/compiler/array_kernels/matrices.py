"""Calls the kernels of matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.op import Array
from ...opset.schema import Call
from .arrays import dense, place_for, run

Found = Sequence[Array] | None
Arrays = Sequence[Any]  # of an absent input, None
MULTIPLIED = frozenset(["float64", "int32", "uint32", "int64", "uint64"])  # the names of data types in numpy


def mat_mul(call: Call, arrays: Arrays, results: Sequence[Array]) -> Found:
    """A product of matrices of float64, which numpy divides between threads of its own, or of integers."""
    src, weights, bias = (*arrays, None)[:3]
    if src.dtype.name not in MULTIPLIED or not src.size or not weights.size:
        return None
    first, second = (
        array.swapaxes(-1, -2) if array.ndim > 1 and call.flag(f"transpose_{name}") else array
        for array, name in ((src, "a"), (weights, "b"))
    )
    ends = [*([first.shape[-2]] if src.ndim > 1 else []), *([second.shape[-1]] if weights.ndim > 1 else [])]
    shape = *np.broadcast_shapes(first.shape[:-2], second.shape[:-2]), *ends
    result = place_for(results, 0, shape, src.dtype)
    run("MatMul", [dense(src), dense(weights)], [result], product_numbers(call, has_bias=False))
    if bias is not None:
        np.add(result, bias, out=result)
    return [result]


def product_numbers(call: Call, *, has_bias: bool) -> list[int]:
    """The numbers of the kernel of a product."""
    return [call.flag("transpose_a"), call.flag("transpose_b"), has_bias]


def triangle(call: Call, arrays: Arrays, results: Sequence[Array]) -> Found:
    """One triangle of each matrix, and zeros."""
    (src,) = arrays
    if not src.size:
        return None
    result = place_for(results, 0, src.shape, src.dtype)
    run("Triangle", [dense(src)], [result], [call.flag("upper"), call.s64("offset")], moves=True)
    return [result]


FUNCTIONS: Mapping[str, Callable[[Call, Arrays, Sequence[Array]], Found]] = {"MatMul": mat_mul, "Triangle": triangle}
