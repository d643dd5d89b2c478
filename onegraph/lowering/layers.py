"""Lowers matrix products."""

from __future__ import annotations

import numpy as np

from ..opset.dtypes import DataType
from .elementwise import add, filled, multiply
from .emitter import Emitter, Value, dtype_of, rank_of
from .movement import NATIVE, cast, rounded, scalar


def matmul(
    emit: Emitter,
    src: Value,
    weights: Value,
    bias: Value | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Value:
    """The matrix product, as numpy.matmul, plus a bias."""
    attrs = {name: True for name, flag in (("transpose_a", transpose_a), ("transpose_b", transpose_b)) if flag}
    return emit.op("MatMul", [src, weights, bias], attrs)


def scaled_matmul(
    emit: Emitter,
    src: Value,
    weights: Value,
    bias: Value | None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Value:
    """alpha * src @ weights + beta * bias; a bias vector becomes one of the product.

    Beside factors that a 16-bit data type rounds, the product is f32, because it may be too large for f16 unscaled.
    """
    narrow = dtype_of(src) in NATIVE and dtype_of(src) is not DataType.f32
    if narrow and any(scalar(number, dtype_of(src)).astype(np.float64) != number for number in (alpha, beta)):
        wide = [cast(emit, operand, DataType.f32) for operand in (src, weights)]
        product = matmul(emit, *wide, transpose_a=transpose_a, transpose_b=transpose_b)
        product = multiply(emit, product, scalar(alpha, DataType.f32))
        if bias is not None:
            product = add(emit, product, multiply(emit, cast(emit, bias, DataType.f32), scalar(beta, DataType.f32)))
        return rounded(emit, product, dtype_of(src))
    if alpha != 1:
        weights = multiply(emit, weights, filled(alpha, weights))
    if bias is not None and beta != 1:
        bias = multiply(emit, bias, filled(beta, bias))
    own = bias if bias is not None and rank_of(bias) == 1 and dtype_of(src) in NATIVE else None
    product = matmul(emit, src, weights, own, transpose_a=transpose_a, transpose_b=transpose_b)
    return product if bias is None or own is not None else add(emit, product, bias)
