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
    result: Array = np.stack([parts & 15, parts >> 4], 2).reshape(len(rows), -1)
    return result


def _f16(rows: Array) -> Array:
    """Numbers of f16 in bytes, as f32."""
    return np.ascontiguousarray(rows).view(np.float16).astype(np.float32)


def _q4_0(rows: Array) -> Blocks:
    return Blocks(_halves(rows[:, 2:], 16), _f16(rows[:, :2]), zero=8)


def _q8_0(rows: Array) -> Blocks:
    return Blocks(np.ascontiguousarray(rows[:, 2:]).view(np.int8), _f16(rows[:, :2]))


def _moved(codes: Array, scales: Array, shifts: Array) -> Blocks:
    """Numbers code * scale - shift, with a scale and a shift for each group."""
    # A group without a scale has one number, minus the shift: that of the code 0 with the zero point 1.
    is_flat = scales == 0
    group = codes.shape[1] // scales.shape[1]
    codes = np.where(np.repeat(is_flat, group, 1), np.uint8(0), codes)
    zeros = np.divide(shifts, scales, out=np.ones(scales.shape, np.float32), where=~is_flat)
    return Blocks(codes, np.where(is_flat, shifts, scales), zeros)


def _bits(rows: Array) -> Array:
    """The bits of bytes, those of a byte one after another."""
    return np.unpackbits(np.ascontiguousarray(rows), axis=1, bitorder="little")


def _planes(rows: Array, count: int) -> Array:
    """Numbers of 8 / ``count`` bits in bytes: of all bytes the lowest bits, then the next ones."""
    width = 8 // count
    shifts = np.arange(0, 8, width, dtype=np.uint8)[:, None]
    return ((rows[:, None] >> shifts) & np.uint8((1 << width) - 1)).reshape(len(rows), -1)


def _quarters(rows: Array) -> Array:
    """The codes of 2 bits in 64 bytes, which lie in planes of 32 bytes each."""
    return np.concatenate([_planes(rows[:, :32], 4), _planes(rows[:, 32:], 4)], 1)


def _q4_1(rows: Array) -> Blocks:
    return _moved(_halves(rows[:, 4:], 16), _f16(rows[:, :2]), -_f16(rows[:, 2:4]))


def _q5_0(rows: Array) -> Blocks:
    codes = _halves(rows[:, 6:], 16) | _bits(rows[:, 2:6]) << 4
    return Blocks(codes.astype(np.int8) - np.int8(16), _f16(rows[:, :2]))


def _q5_1(rows: Array) -> Blocks:
    codes = _halves(rows[:, 8:], 16) | _bits(rows[:, 4:8]) << 4
    return _moved(codes, _f16(rows[:, :2]), -_f16(rows[:, 2:4]))


def _factors(rows: Array) -> tuple[Array, Array]:
    """The scales and shifts of eight groups, in 16 bytes."""
    scale, least = _f16(rows[:, :2]), _f16(rows[:, 2:4])
    first, second, last = rows[:, 4:8], rows[:, 8:12], rows[:, 12:16]
    factors = np.concatenate([first & 63, (last & 15) | ((first >> 6) << 4)], 1)
    steps = np.concatenate([second & 63, (last >> 4) | ((second >> 6) << 4)], 1)
    return scale * factors, least * steps


def _q4_k(rows: Array) -> Blocks:
    return _moved(_halves(rows[:, 16:], 32), *_factors(rows))


def _q5_k(rows: Array) -> Blocks:
    return _moved(_halves(rows[:, 48:], 32) | _planes(rows[:, 16:48], 8) << 4, *_factors(rows))


def _q2_k(rows: Array) -> Blocks:
    factors, scale, least = rows[:, :16], _f16(rows[:, 80:82]), _f16(rows[:, 82:])
    return _moved(_quarters(rows[:, 16:80]), scale * (factors & 15), least * (factors >> 4))


def _q3_k(rows: Array) -> Blocks:
    codes = _quarters(rows[:, 32:96]) | _planes(rows[:, :32], 8) << 2
    factors = (_planes(rows[:, 96:104], 2) | _planes(rows[:, 104:108], 4) << 4).astype(np.int8) - np.int8(32)
    return Blocks(codes, _f16(rows[:, 108:]) * factors, zero=4)


def _iq4_nl(rows: Array) -> Blocks:
    return Blocks(LEVELS[_halves(rows[:, 2:], 16)], _f16(rows[:, :2]))


def _iq4_xs(rows: Array) -> Blocks:
    low, high = _bits(rows[:, 4:8]).reshape(len(rows), 8, 4), _bits(rows[:, 2:4]).reshape(len(rows), 8, 2)
    factors = np.concatenate([low, high], 2) @ np.array([1, 2, 4, 8, 16, 32]) - 32
    return Blocks(LEVELS[_halves(rows[:, 8:], 16)], _f16(rows[:, :2]) * factors.astype(np.float32))


def _q6_k(rows: Array) -> Blocks:
    low = _halves(rows[:, :128], 64)
    high = (rows[:, 128:192].reshape(len(rows), -1, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None]) & 3
    codes = (low | (high.reshape(len(rows), -1) << 4)).astype(np.int8) - np.int8(32)
    factors = np.ascontiguousarray(rows[:, 192:208]).view(np.int8)
    return Blocks(codes, _f16(rows[:, 208:]) * factors)


# The numbers of the codes of formats that are not linear.
LEVELS = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8)
FORMATS: Mapping[str, Format] = {
    "Q4_0": Format(32, 18, "u4", 32, _q4_0),
    "Q8_0": Format(32, 34, "s8", 32, _q8_0),
    "Q4_K": Format(256, 144, "u4", 32, _q4_k),
    "Q6_K": Format(256, 210, "s8", 16, _q6_k),
    "Q4_1": Format(32, 20, "u4", 32, _q4_1),
    "Q5_0": Format(32, 22, "s8", 32, _q5_0),
    "Q5_1": Format(32, 24, "u8", 32, _q5_1),
    "Q5_K": Format(256, 176, "u8", 32, _q5_k),
    "Q2_K": Format(256, 84, "u4", 16, _q2_k),
    "Q3_K": Format(256, 110, "u4", 16, _q3_k),
    "IQ4_NL": Format(32, 18, "s8", 32, _iq4_nl),
    "IQ4_XS": Format(256, 136, "s8", 32, _iq4_xs),
}
PLAIN: Mapping[str, str] = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
