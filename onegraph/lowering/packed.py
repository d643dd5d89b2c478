"""Lowers products by packed weights and rows of packed tables."""

from __future__ import annotations

import numpy as np

from ..arrays.packed_codes import packed
from ..opset.host.packed import CODES, EXACT
from .emitter import Array, Emitter, Value


def two_bits_as_four(rows: Array) -> Array:
    """Rows of bytes with four codes of 2 bits, as codes of 4 bits."""
    codes = unpacked_points(rows, 2, 4 * rows.shape[1])
    return packed(codes, 4)[:, : codes.shape[1] // 2]


def unpacked_points(rows: Array, bits: int, count: int) -> Array:
    """Zero points (rows, count) of 2, 4 or 8 bits in bytes."""
    shifts = range(0, 8, bits)
    points = np.stack([rows >> shift & ((1 << bits) - 1) for shift in shifts], -1)
    points = points.reshape(len(rows), rows.shape[1] * len(shifts))
    return np.ascontiguousarray(points[:, :count])


def packed_points(points: Array, bits: int) -> Array:
    """Zero points (rows, count) as bytes."""
    per = 8 // bits
    rows = np.pad(points, ((0, 0), (0, -points.shape[1] % per)))
    codes = np.zeros((len(rows), rows.shape[1] // per), np.uint8)
    for place in range(per):
        codes |= rows[:, place::per] << np.uint8(place * bits)
    return codes


def packed_matmul(
    emit: Emitter,
    src: Value,
    weights: Array,
    scales: Value,
    zps: Value | None,
    *,
    coding: str,
    group: int,
    zero: int,
    in_codes: bool,
) -> Value:
    """src @ weights.T in the data type of src, by rows of codes."""
    attrs = {"coding": coding, "group": group, "zero": zero, "arithmetic": CODES if in_codes else EXACT}
    return emit.op("PackedMatMul", [src, weights, scales, zps], attrs)


def packed_experts(
    emit: Emitter,
    src: Value,
    places: Value,
    weights: Array,
    scales: Value,
    zps: Value | None,
    *,
    coding: str,
    group: int,
    zero: int,
    in_codes: bool,
) -> Value:
    """The products (tokens, choices, columns) of rows and the matrices that ``places`` names for each token."""
    attrs = {"coding": coding, "group": group, "zero": zero, "arithmetic": CODES if in_codes else EXACT}
    return emit.op("PackedExperts", [src, places, weights, scales, zps], attrs)


def packed_gather(
    emit: Emitter,
    table: Array,
    indices: Value,
    scales: Value,
    zps: Value | None,
    *,
    coding: str,
    group: int,
    zero: int,
    depth: int,
) -> Value:
    """The rows of a table of codes that indices name, in the data type of the scales."""
    attrs = {"coding": coding, "group": group, "zero": zero, "depth": depth}
    return emit.op("PackedGather", [table, indices, scales, zps], attrs)
