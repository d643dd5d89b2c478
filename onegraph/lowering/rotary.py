"""Lowers rotary embeddings: pairs of numbers of a head are turned by an angle that grows with the place of a token."""

from __future__ import annotations

import numpy as np

from .elementwise import add, binary, multiply
from .emitter import Emitter, Unsettled, Value, numbers, shape_of
from .movement import concat, part, reshape, unsqueeze


def rotated(emit: Emitter, src: Value, cos: Value, sin: Value, *, interleaved: bool = False) -> Value:
    """src (batch, heads, tokens, size) with its first numbers turned.

    Args:
        emit: adds the ops.
        src: the heads.
        cos, sin: (batch or 1, 1, tokens, pairs).
        interleaved: whether a pair are neighbours; else the two halves of the turned numbers.
    """
    shape, pairs = shape_of(src), (shape_of(cos) or (None,))[-1]
    if shape is None or pairs is None or None in shape[1:]:
        raise Unsettled("unknown dims of a rotary embedding")
    size, turned = shape[-1] or 0, 2 * pairs
    ends = (slice(0, turned, 2), slice(1, turned, 2)) if interleaved else (slice(0, pairs), slice(pairs, turned))
    first, second = (part(emit, src, 3, end.start, end.stop, end.step or 1) for end in ends)
    real = binary(emit, "Subtract", multiply(emit, first, cos), multiply(emit, second, sin))
    imaginary = add(emit, multiply(emit, first, sin), multiply(emit, second, cos))
    if interleaved:
        dims = numbers(*[-1 if dim is None else dim for dim in shape[:3]], turned)
        found = reshape(emit, concat(emit, [unsqueeze(emit, each, [4]) for each in (real, imaginary)], 4), dims)
    else:
        found = concat(emit, [real, imaginary], 3)
    return found if turned == size else concat(emit, [found, part(emit, src, 3, turned, size)], 3)


def angles(emit: Emitter, cache: Value, places: Value) -> Value:
    """The rows (batch or 1, 1, tokens, pairs) of a table of cosines or sines for places (batch, tokens)."""
    if isinstance(cache, np.ndarray) and isinstance(places, np.ndarray):
        return np.ascontiguousarray(cache[places])[:, None]
    found = emit.op("Gather", [cache, places], {"axis": 0})
    return unsqueeze(emit, found, [1])
