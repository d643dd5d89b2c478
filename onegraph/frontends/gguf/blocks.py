"""Takes blocks of GGUF's formats apart: codes, the scale of each group, and zero points.

A block is a few hundred bits with one scale in f16. Blocks of the K formats have groups, whose scales are small
integers times that of the block. The layouts are those of ``ggml-quants.c`` in ggml.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ...arrays.packed_codes import Array


class Blocks(NamedTuple):
    """Numbers of blocks: (code - zero point) * scale.

    Attributes:
        codes: (blocks, numbers).
        scales: (blocks, groups), in f32.
        zeros: zero points in the form of the scales; None if all are ``zero``.
        zero: the zero point of all codes.
    """

    codes: Array
    scales: Array
    zeros: Array | None = None
    zero: int = 0


class Format(NamedTuple):
    """A format of blocks.

    Attributes:
        numbers, nbytes: of a block.
        coding: the data type of the codes.
        group: numbers that share a scale.
        taken_apart: takes bytes (blocks, nbytes).
    """

    numbers: int
    nbytes: int
    coding: str
    group: int
    taken_apart: Callable[[Array], Blocks]


def _halves(rows: Array, width: int) -> Array:
    """The codes of 4 bits in bytes: of each ``width`` bytes, the lower halves and then the upper halves."""
    parts = rows.reshape(len(rows), -1, width)
    found: Array = np.stack([parts & 15, parts >> 4], 2).reshape(len(rows), -1)
    return found


def _f16(rows: Array) -> Array:
    """Numbers of f16 in bytes, as f32."""
    return np.ascontiguousarray(rows).view(np.float16).astype(np.float32)


def _q4_0(rows: Array) -> Blocks:
    return Blocks(_halves(rows[:, 2:], 16), _f16(rows[:, :2]), zero=8)


def _q8_0(rows: Array) -> Blocks:
    return Blocks(np.ascontiguousarray(rows[:, 2:]).view(np.int8), _f16(rows[:, :2]))


def _q4_k(rows: Array) -> Blocks:
    scale, least = _f16(rows[:, :2]), _f16(rows[:, 2:4])
    first, second, last = rows[:, 4:8], rows[:, 8:12], rows[:, 12:16]
    factors = np.concatenate([first & 63, (last & 15) | ((first >> 6) << 4)], 1)
    steps = np.concatenate([second & 63, (last >> 4) | ((second >> 6) << 4)], 1)
    scales, shifts = scale * factors, least * steps
    codes = _halves(rows[:, 16:], 32)
    # A group without a scale has one number, minus the shift: that of the code 0 with the zero point 1.
    is_flat = scales == 0
    codes = np.where(np.repeat(is_flat, 32, 1), np.uint8(0), codes)
    zeros = np.where(is_flat, np.float32(1), shifts / np.where(is_flat, np.float32(1), scales))
    return Blocks(codes, np.where(is_flat, shifts, scales), zeros)


def _q6_k(rows: Array) -> Blocks:
    low = _halves(rows[:, :128], 64)
    high = (rows[:, 128:192].reshape(len(rows), -1, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None]) & 3
    codes = (low | (high.reshape(len(rows), -1) << 4)).astype(np.int8) - np.int8(32)
    factors = np.ascontiguousarray(rows[:, 192:208]).view(np.int8)
    return Blocks(codes, _f16(rows[:, 208:210]) * factors)


FORMATS: Mapping[str, Format] = {
    "Q4_0": Format(32, 18, "u4", 32, _q4_0),
    "Q8_0": Format(32, 34, "s8", 32, _q8_0),
    "Q4_K": Format(256, 144, "u4", 32, _q4_k),
    "Q6_K": Format(256, 210, "s8", 16, _q6_k),
}
PLAIN: Mapping[str, str] = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
