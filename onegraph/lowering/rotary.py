"""Lowers rotary embeddings: pairs of numbers of a head are turned by an angle that grows with the place of a token."""

from __future__ import annotations

import numpy as np

from ..opset.dtypes import DataType
from ..opset.shapes import known_dims
from .elementwise import add, binary, multiply
from .emitter import Emitter, Unsettled, Value, dtype_of, numbers, shape_of
from .movement import cast, concat, part, reshape, rounded, unsqueeze


def rotated(
    emit: Emitter,
    src: Value,
    cos: Value,
    sin: Value,
    lengths: Value | None = None,
    *,
    interleaved: bool = False,
    whole: bool = False,
) -> Value:
    """src (batch, heads, tokens, size) with its first numbers turned, by one op.

    Args:
        emit: adds the ops.
        src: the heads.
        cos, sin: (batch or 1, 1, tokens, angles), or tables (rows, angles) beside ``lengths``.
        lengths: for each batch, the number of tokens up to the last one of src.
        interleaved: whether a pair are neighbours; else the two halves of the turned numbers.
        whole: whether there is an angle for each turned number rather than for each pair.
    """
    angles = [cast(emit, table, dtype_of(src)) for table in (cos, sin)]
    flags = {"interleaved": interleaved, "whole": whole}
    return emit.op("Rotary", [src, *angles, lengths], flags)


def composed_rotation(
    emit: Emitter, src: Value, cos: Value, sin: Value, *, interleaved: bool = False, whole: bool = False
) -> Value:
    """:func:`rotated` as products and sums, whose gradients are known; ``cos`` and ``sin`` are no tables."""
    shape, angles = shape_of(src), sum(known_dims(shape_of(cos))[-1:])  # 0 if it is unknown
    if shape is None or None in shape[1:] or not angles:
        raise Unsettled("unknown dims of a rotary embedding")
    dtype = dtype_of(src)
    src, cos, sin = (
        cast(emit, operand, DataType.f32) if operand.dtype is not DataType.float64 else operand
        for operand in (src, cos, sin)
    )
    size, turned = known_dims(shape)[-1], angles if whole else 2 * angles
    pairs = turned // 2
    ends = (slice(0, turned, 2), slice(1, turned, 2)) if interleaved else (slice(0, pairs), slice(pairs, turned))
    first, second = _halves(emit, src, ends)
    cosines, sines = (_halves(emit, operand, ends) if whole else [operand, operand] for operand in (cos, sin))
    real = binary(emit, "Subtract", multiply(emit, first, cosines[0]), multiply(emit, second, sines[0]))
    imaginary = add(emit, multiply(emit, first, sines[1]), multiply(emit, second, cosines[1]))
    if interleaved:
        dims = numbers(*[-1 if dim is None else dim for dim in shape[:3]], turned)
        rotated_halves = reshape(
            emit, concat(emit, [unsqueeze(emit, component, [4]) for component in (real, imaginary)], 4), dims
        )
    else:
        rotated_halves = concat(emit, [real, imaginary], 3)
    rotated_halves = (
        rotated_halves if turned == size else concat(emit, [rotated_halves, part(emit, src, 3, turned, size)], 3)
    )
    return rounded(emit, rotated_halves, dtype)


def _halves(emit: Emitter, src: Value, ends: tuple[slice, slice]) -> list[Value]:
    return [part(emit, src, 3, end.start, end.stop, end.step or 1) for end in ends]


def angles(emit: Emitter, cache: Value, places: Value) -> Value:
    """The rows (batch or 1, 1, tokens, pairs) of a table of cosines or sines for places (batch, tokens)."""
    if isinstance(cache, np.ndarray) and isinstance(places, np.ndarray):
        return np.ascontiguousarray(cache[places])[:, None]
    gathered = emit.op("Gather", [cache, places], {"axis": 0})
    return unsqueeze(emit, gathered, [1])


def rows_of(emit: Emitter, table: Value, lengths: Value, tokens: int) -> Value:
    """The rows (batch, 1, tokens, angles) of a table for the last tokens of each batch."""
    starts = emit.op("Maximum", [emit.op("Subtract", [lengths, np.array(tokens)]), np.array(0)])
    return angles(emit, table, emit.op("Add", [unsqueeze(emit, starts, [1]), np.arange(tokens, dtype=np.int64)]))
