"""Lowers linear attention to one op, LinearAttention, and that op to those of each token.

The state is a matrix for each head: a token adds the product of its key and its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..opset.shapes import known_dims
from .control import Looping, Scans, Turn
from .elementwise import add, binary, multiply
from .emitter import Emitter, Value, shape_of
from .layers import matmul
from .movement import concat, slice_, squeeze, unsqueeze
from .subgraph import BodyBuilder

TOKENS = 1  # the axis


class Tokens(NamedTuple):
    """What the tokens bring, each (batch, tokens, heads, ...).

    Attributes:
        query: of a head, its queries as rows.
        key, value: of a head, one row.
        decay: the factors of the rows of the state, or of the whole state; None for 1.
        rate: of a head, or of all heads, the share of the difference between the value and what the state has for the
            key, by which the state comes nearer to the value; None if the value is added.
    """

    query: Value
    key: Value
    value: Value
    decay: Value | None
    rate: Value | None


def linear_attention(emit: Emitter, tokens: Tokens, state: Value) -> tuple[Value, Value]:
    """The results, (batch, tokens, heads, queries, size of a value), and the state behind the last token.

    All are f32. ``state``: (batch, heads, size of a key, size of a value).
    """
    decay = tokens.decay
    if decay is None and tokens.rate is not None:
        decay = np.ones((*known_dims(shape_of(tokens.key))[:3], 1), np.float32)
    dst, last = emit.ends("LinearAttention", [*tokens[:3], state, decay, tokens.rate])
    return dst, last


def composed_tokens(emit: Emitter, tokens: Tokens, state: Value) -> tuple[Value, Value]:
    """The results of a LinearAttention of a known number of tokens, op by op."""
    results = list[Value]()
    for place in range(known_dims(shape_of(tokens.query))[TOKENS]):
        parts = [slice_(emit, part, [place], [place + 1], [TOKENS]) for part in tokens if part is not None]
        dst, state = _token(emit, _of([squeeze(emit, part, [TOKENS]) for part in parts], tokens), state)
        results.append(unsqueeze(emit, dst, [TOKENS]))
    return concat(emit, results, TOKENS), state


def looped_tokens(emit: Emitter, tokens: Tokens, state: Value) -> tuple[Value, Value]:
    """The results of a LinearAttention as a Loop, whose body has the ops of a token."""
    present = [part for part in tokens if part is not None]

    def iteration(body: BodyBuilder, number: Value, states: Sequence[Value], slices: Sequence[Value]) -> Turn:
        del number
        dst, after = _token(body.emit, _of(slices, tokens), states[0])
        return Turn(np.array(True), [after], [dst])

    scans = Scans(present, [TOKENS] * len(present), [False] * len(present), [TOKENS], [False])
    last, dst = Looping(emit, None, np.array(True), [state], scans, iteration).results()
    return dst, last


def _of(parts: Sequence[Value], like: Tokens) -> Tokens:
    rest = iter(parts)
    return Tokens(*[None if part is None else next(rest) for part in like])  # type: ignore[arg-type]


def _token(emit: Emitter, token: Tokens, state: Value) -> tuple[Value, Value]:
    if token.decay is not None:
        state = multiply(emit, state, unsqueeze(emit, token.decay, [3]))
    key, row = (unsqueeze(emit, part, [2]) for part in (token.key, token.value))
    if token.rate is not None:
        rate = unsqueeze(emit, token.rate, [2, 3])
        row = multiply(emit, binary(emit, "Subtract", row, matmul(emit, key, state)), rate)
    state = add(emit, state, matmul(emit, key, row, transpose_a=True))
    return matmul(emit, token.query, state), state
