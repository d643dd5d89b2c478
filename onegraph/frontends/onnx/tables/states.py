"""Lowers nodes whose state has one size for any number of tokens, which ONNX Runtime defines."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....lowering.elementwise import filled, multiply, swish, unary
from ....lowering.emitter import Emitter, Value, dtype_of, numbers, rank_of, shape_of
from ....lowering.linear_attention import Tokens
from ....lowering.linear_attention import linear_attention as attend
from ....lowering.movement import cast, concat, reshape, slice_, transpose
from ....lowering.windows import Window, convolution
from ....opset.dtypes import DataType
from ..node import Node, NotLowered, lowers
from .contrib import DOMAIN
from .decoders import known_dims, only
from .layers import native

RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}


@lowers("CausalConvWithState", domain=DOMAIN)
def causal_convolution(node: Node) -> tuple[Value, ...]:
    """A convolution along the tokens of (batch, channels, tokens); a state has the tokens before them."""
    native(node)
    neutral: dict[str, object] = dict.fromkeys(
        ("state_window", "state_update_capacity", "state_length", "input_channels"), 0
    )
    neutral |= {"ndim": 1, "state_channels_last": -1, "input_channel_offset": 0}
    only(node, neutral, ())
    activation, apart = node.attr("activation", "none"), node.attr("dilation", 1)
    if activation not in ("none", "silu", "swish"):
        raise NotLowered(f"activation = {activation}")
    emit, weights, shape = node.emit, node.value(1), shape_of(node.value(1)) or ()
    if len(shape) != 3 or shape[0] is None or shape[1] != 1 or shape[2] is None or node.rank() != 3:
        raise NotLowered("weights that are not (channels, 1, taps), or another input than (batch, channels, tokens)")
    before = (shape[2] - 1) * apart
    if before < 1:
        raise NotLowered("a convolution without a state")
    is_last = bool(node.attr("channels_last", 0))
    src, state = node.value(0), node.optional(3)
    if state is None:
        dims = known_dims(src, 3)
        state = np.zeros((dims[0], *((before, dims[2]) if is_last else (dims[1], before))), node.dtype().numpy)
    src, state = (transpose(emit, each, (0, 2, 1)) if is_last else each for each in (src, state))
    whole = concat(emit, [state, src], 2)
    window = Window([1], [0], [0], [apart])
    found = convolution(emit, whole, weights, node.optional(2), window, groups=shape[0])
    found = found if activation == "none" else swish(emit, found)
    kept = slice_(emit, whole, [-before], [np.iinfo(np.int64).max], [2])
    results = [transpose(emit, each, (0, 2, 1)) if is_last else each for each in (found, kept)]
    return tuple(results[: len(node.proto.output)])


class _Sizes(NamedTuple):
    """Of a linear attention: batch, tokens, heads of queries and of the state, size of a key and of a value."""

    batch: int
    tokens: int
    queries: int
    heads: int
    size: int
    depth: int

    def apart(self, emit: Emitter, value: Value, *dims: int) -> Value:
        """A value in f32 with these axes behind those of the batch and the tokens."""
        return reshape(emit, cast(emit, value, DataType.f32), numbers(self.batch, self.tokens, *dims))

    def shared(self, emit: Emitter, value: Value) -> Value:
        """Queries or keys (batch, tokens, heads, 1, size), each for as many heads of the state as follow it."""
        count = (shape_of(value) or ())[2] or 1
        return emit.op("Gather", [value, np.repeat(np.arange(count), self.heads // count)], {"axis": 2})


def _gates(node: Node, places: tuple[int, int]) -> list[Value | None]:
    """The inputs that the rule of a node uses: the logarithms of the decays, and the rates."""
    rule = node.attr("update_rule", "gated_delta")
    if rule not in RULES:
        raise node.invalid(f"update_rule {rule}", ", ".join(RULES))
    wanted = list[Value | None]()
    for name, place, is_used in zip(("decay", "beta"), places, RULES[rule], strict=True):
        given = node.optional(place) if is_used else None
        if is_used and given is None:
            raise node.invalid(f"no {name} with update_rule {rule}", "a tensor")
        wanted.append(given)
    return wanted


def _attended(
    node: Node, sizes: _Sizes, query: Value, key: Value, value: Value, gates: list[Value | None], state: Value
) -> tuple[Value, Value]:
    """The results, (batch, tokens, heads, queries of a head, size), and the state; gates are in f32."""
    emit, (decay, rate) = node.emit, gates
    if decay is not None:
        width = (shape_of(decay) or ())[-1] if rank_of(decay) == 3 else sizes.heads * sizes.size
        decay = sizes.apart(emit, unary(emit, "Exp", decay), sizes.heads, (width or 0) // sizes.heads, 1)
    if rate is not None:
        rate = sizes.apart(emit, rate, (shape_of(rate) or ())[-1] or 1, 1, 1)
    query = multiply(emit, query, filled(node.attr("scale", 0.0) or sizes.size**-0.5, query))
    return attend(emit, Tokens(query, key, value, decay, rate), state)


@lowers("LinearAttention", domain=DOMAIN)
def linear_attention(node: Node) -> tuple[Value, ...]:
    """A linear attention of (batch, tokens, heads * size), whose state (batch, heads, size, size) decays."""
    native(node)
    only(node, {"state_window": 0}, ())
    emit, gates, past = node.emit, _gates(node, (4, 5)), node.optional(3)
    queries, heads = node.attr("q_num_heads", 0), node.attr("kv_num_heads", 0)
    (batch, tokens, width), *others = (known_dims(node.value(index), 3) for index in range(3))
    if queries < 1 or heads < 1 or width % queries or (queries % heads and heads % queries):
        raise node.invalid(f"{width} features of {queries} heads, beside {heads} of keys", "multiples of one another")
    sizes = _Sizes(batch, tokens, queries, heads, width // queries, others[1][2] // heads)
    if others != [[batch, tokens, heads * sizes.size], [batch, tokens, heads * sizes.depth]]:
        raise NotLowered(f"keys and values of shapes {others}")
    of_head = (heads, queries // heads) if queries >= heads else (queries, 1)
    query = sizes.apart(emit, node.value(0), *of_head, sizes.size)
    query = query if queries >= heads else sizes.shared(emit, query)
    key = sizes.apart(emit, node.value(1), heads, 1, sizes.size)
    value = sizes.apart(emit, node.value(2), heads, 1, sizes.depth)
    first = np.zeros((batch, heads, sizes.size, sizes.depth), np.float32) if past is None else past
    gates = [None if gate is None else cast(emit, gate, DataType.f32) for gate in gates]
    dst, state = _attended(node, sizes, query, key, value, gates, cast(emit, first, DataType.f32))
    dst = reshape(emit, dst, numbers(batch, tokens, max(queries, heads) * sizes.depth))
    kept = node.dtype() if past is None else dtype_of(past)
    return (cast(emit, dst, node.dtype()), cast(emit, state, kept))[: len(node.proto.output)]
