"""Lowers linear attention, whose state is a matrix for each head: a token adds the product of its key and its value.

One token is a few ops; several are a Loop, whose body has these ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .control import Looping, Scans, Turn
from .elementwise import add, binary, multiply
from .emitter import Emitter, Value, shape_of
from .layers import matmul
from .movement import squeeze, unsqueeze
from .subgraph import BodyBuilder

TOKENS = 1  # the axis


class Tokens(NamedTuple):
    """What the tokens bring, each (batch, tokens, heads, ...), in f32.

    Attributes:
        query: of a head, its queries as rows.
        key, value: of a head, one row.
        decay: the factors of the rows of the state, or of the whole state, as a column; None for 1.
        rate: the share of the difference between the value and what the state has for the key, by which the state comes
            nearer to the value; None if the value is added.
    """

    query: Value
    key: Value
    value: Value
    decay: Value | None
    rate: Value | None


def linear_attention(emit: Emitter, tokens: Tokens, state: Value) -> tuple[Value, Value]:
    """The results, (batch, tokens, heads, queries, size of a value), and the state behind the last token.

    ``state``: (batch, heads, size of a key, size of a value).
    """
    present = [part for part in tokens if part is not None]
    if (shape_of(tokens.query) or ())[TOKENS] == 1:
        dst, last = _token(emit, _of([squeeze(emit, part, [TOKENS]) for part in present], tokens), state)
        return unsqueeze(emit, dst, [TOKENS]), last

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
        state = multiply(emit, state, token.decay)
    row = token.value
    if token.rate is not None:
        row = multiply(emit, binary(emit, "Subtract", row, matmul(emit, token.key, state)), token.rate)
    state = add(emit, state, matmul(emit, token.key, row, transpose_a=True))
    return matmul(emit, token.query, state), state
