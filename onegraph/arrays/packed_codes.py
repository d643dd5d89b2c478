"""Packs codes of 4 and 8 bits into bytes, and unpacks them.

A row of a packed matrix has the codes of one column of weights, one behind another. Of two codes in a byte, the first
one is in the lower half.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BITS = {"s4": 4, "u4": 4, "s8": 8, "u8": 8}
WORDS = 16  # words of 32 bits that the kernels read at once
HALVES = 2  # codes of 4 bits in a byte


def unit_of(bits: int) -> int:
    """The codes that the kernels read at once; rows of other sizes are filled up to a multiple."""
    return WORDS * 32 // bits


def packed(codes: Array, bits: int) -> Array:
    """Integers (columns, depth) as bytes, filled up with zeros."""
    raw = codes.astype(np.int8, copy=False).view(np.uint8)  # the lowest bits
    rest = -raw.shape[1] % unit_of(bits)
    if rest:
        raw = np.pad(raw, ((0, 0), (0, rest)))
    if bits == 8:
        return np.ascontiguousarray(raw)
    packed_codes: Array = (raw[:, ::2] & 15) | (raw[:, 1::2] << 4)
    return packed_codes


def unpacked(rows: Array, coding: str, depth: int) -> Array:
    """The codes (..., depth) of rows of bytes, as int16."""
    codes = rows.astype(np.int16)
    if BITS[coding] == 4:
        codes = np.stack([codes & 15, codes >> 4], -1).reshape(*rows.shape[:-1], HALVES * rows.shape[-1])
    codes = codes[..., :depth]
    if coding.startswith("s"):
        half = 1 << (BITS[coding] - 1)
        codes = (codes ^ half) - half
    return codes


def filled_up(rows: Array) -> Array:
    """Rows of bytes with zeros behind them, as the kernels take them."""
    rest = -rows.shape[1] % (WORDS * 4)
    return np.ascontiguousarray(np.pad(rows, ((0, 0), (0, rest))) if rest else rows)
