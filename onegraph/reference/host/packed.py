"""Computes products by packed weights and rows of packed tables in numpy, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays.packed_codes import unpacked
from ...opset.schema import Call

Array = NDArray[Any]


def _numbers(call: Call, rows: Array, scales: Array, zps: Array | None, depth: int) -> Array:
    """The numbers (rows, depth) that rows of codes stand for."""
    codes = unpacked(rows, call.string("coding"), depth).astype(np.float64)
    group = call.s64("group") or max(depth, 1)

    def spread(values: Array) -> Array:
        return np.repeat(values.astype(np.float64), group, -1)[..., :depth]

    zero = float(call.s64("zero")) if zps is None else spread(zps)
    return (codes - zero) * spread(scales)


def packed_mat_mul(call: Call, src: Array, weights: Array, scales: Array, zps: Array | None = None) -> Array:
    """The product."""
    product = src.astype(np.float64) @ _numbers(call, weights, scales, zps, src.shape[-1]).T
    return product.astype(src.dtype)


def packed_gather(call: Call, table: Array, indices: Array, scales: Array, zps: Array | None = None) -> Array:
    """The rows that the indices name."""
    taken = [None if each is None else each[indices] for each in (table, scales, zps)]
    rows, factors, zeros = taken
    assert rows is not None
    assert factors is not None
    return _numbers(call, rows, factors, zeros, call.s64("depth")).astype(scales.dtype)


def packed_experts(
    call: Call, src: Array, places: Array, weights: Array, scales: Array, zps: Array | None = None
) -> Array:
    """The products of the rows and the matrices of their experts."""
    rows = src if src.ndim == places.ndim + 1 else np.broadcast_to(src[:, None], (*places.shape, src.shape[-1]))
    products = np.zeros((*places.shape, weights.shape[1]))
    for expert in range(len(weights)):
        mine = places == expert
        own = None if zps is None else zps[expert]
        numbers = _numbers(call, weights[expert], scales[expert], own, src.shape[-1])
        products[mine] = rows[mine].astype(np.float64) @ numbers.T
    return products.astype(src.dtype)
