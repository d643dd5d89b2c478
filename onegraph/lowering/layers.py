"""Lowers matrix products."""

from __future__ import annotations

from .elementwise import add, filled, multiply
from .emitter import Emitter, Value, dtype_of, rank_of
from .movement import NATIVE


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
    found: Value = emit.op("MatMul", [src, weights, bias], attrs)
    return found


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
    """alpha * src @ weights + beta * bias; a bias vector becomes one of the product."""
    if alpha != 1:
        weights = multiply(emit, weights, filled(alpha, weights))
    if bias is not None and beta != 1:
        bias = multiply(emit, bias, filled(beta, bias))
    own = bias if bias is not None and rank_of(bias) == 1 and dtype_of(src) in NATIVE else None
    product = matmul(emit, src, weights, own, transpose_a=transpose_a, transpose_b=transpose_b)
    return product if bias is None or own is not None else add(emit, product, bias)
