"""Lowers nodes whose state has one size for any number of tokens, which ONNX Runtime defines."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....lowering.elementwise import add, binary, filled, multiply, swish, unary
from ....lowering.emitter import Emitter, Value, dtype_of, known_rank, numbers, rank_of, shape_of
from ....lowering.linear_attention import Tokens
from ....lowering.linear_attention import linear_attention as attend
from ....lowering.movement import cast, concat, reshape, slice_, transpose
from ....lowering.reduction import reduce
from ....lowering.windows import Window, convolution
from ....opset.dtypes import DataType
from ..node import Node, NotLowered, lowers
from .contrib import DOMAIN
from .decoders import known_dims, only
from .layers import native

RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}
LEAST_SQUARE = 1e-12  # added to the squared length of a query or key


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


class _LinearSizes(NamedTuple):
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
        """Queries or keys (batch, tokens, heads, ...), each for as many heads of the state as follow it."""
        count = known_dims(value, known_rank(value))[2]
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
    node: Node, sizes: _LinearSizes, query: Value, key: Value, value: Value, gates: list[Value | None], state: Value
) -> tuple[Value, Value]:
    """The results, (batch, tokens, heads, queries of a head, size), and the state; gates are in f32."""
    emit, (decay, rate) = node.emit, gates
    if decay is not None:
        width = known_dims(decay, 3)[2]
        decay = sizes.apart(emit, unary(emit, "Exp", decay), sizes.heads, width // sizes.heads)
    if rate is not None:
        rate = sizes.apart(emit, rate, known_dims(rate, 3)[2])
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
    sizes = _LinearSizes(batch, tokens, queries, heads, width // queries, others[1][2] // heads)
    if others != [[batch, tokens, heads * sizes.size], [batch, tokens, heads * sizes.depth]]:
        raise NotLowered(f"keys and values of shapes {others}")
    of_head = (heads, queries // heads) if queries >= heads else (queries, 1)
    query = sizes.apart(emit, node.value(0), *of_head, sizes.size)
    query = query if queries >= heads else sizes.shared(emit, query)
    key = sizes.apart(emit, node.value(1), heads, sizes.size)
    value = sizes.apart(emit, node.value(2), heads, sizes.depth)
    first = np.zeros((batch, heads, sizes.size, sizes.depth), np.float32) if past is None else past
    gates = [None if gate is None else cast(emit, gate, DataType.f32) for gate in gates]
    dst, state = _attended(node, sizes, query, key, value, gates, cast(emit, first, DataType.f32))
    dst = reshape(emit, dst, numbers(batch, tokens, max(queries, heads) * sizes.depth))
    kept = node.dtype() if past is None else dtype_of(past)
    return (cast(emit, dst, node.dtype()), cast(emit, state, kept))[: len(node.proto.output)]


@lowers("GatedDeltaNet", domain=DOMAIN)
def gated_delta_net(node: Node) -> tuple[Value, ...]:
    """A linear attention of (tokens, heads, size), maybe with a batch; its state is (batch, heads, depth, size)."""
    native(node)
    only(node, {"state_update_capacity": 0}, (3, 9, 10))
    if node.optional(1) is None or node.optional(2) is None or node.rank() not in (3, 4):
        raise NotLowered("queries, keys and values in one tensor")
    emit, rank, past = node.emit, node.rank(), node.optional(6)
    (*rows, queries, size), key, value = (known_dims(node.value(index), rank) for index in range(3))
    heads, depth = value[-2:]
    if past is None and rank == 3:
        raise node.invalid("no initial_state of tokens without a batch", "a tensor")
    if key != [*rows, queries, size] or value[:-2] != rows or queries < 1 or heads % queries:
        raise node.invalid(f"keys and values of {key} and {value} beside queries of {[*rows, queries, size]}", "alike")
    batch = rows[0] if rank == 4 else known_dims(node.value(6), 4)[0]
    sizes = _LinearSizes(batch, rows[-1] if rank == 4 else rows[0] // batch, queries, heads, size, depth)
    of_state = np.zeros((batch, heads, depth, size), np.float32) if past is None else cast(emit, past, DataType.f32)
    ends = [sizes.apart(emit, node.value(index), queries, *one, size) for index, one in enumerate([[1], []])]
    if node.attr("qk_l2_norm", 0):
        ends = [_of_length_one(emit, end) for end in ends]
    query, key_rows = (sizes.shared(emit, end) for end in ends)
    values, (decay, rate) = sizes.apart(emit, node.value(2), heads, depth), _gates(node, (4, 5))
    if decay is not None:
        decay = _decays(node, sizes, decay, size if rank_of(decay) == rank else 1)
    if rate is not None:
        rate = sizes.apart(emit, rate, heads)
        rate = unary(emit, "Sigmoid", rate) if _activation(node, "beta_activation", ("none", "sigmoid")) else rate
    first = transpose(emit, of_state, (0, 1, 3, 2))
    dst, state = _attended(node, sizes, query, key_rows, values, [decay, rate], first)
    dst = cast(emit, reshape(emit, dst, numbers(*rows, heads, depth)), node.dtype())
    return (dst, transpose(emit, state, (0, 1, 3, 2)))[: len(node.proto.output)]


def _activation(node: Node, name: str, known: tuple[str, ...]) -> int:
    """The place of an attribute among the known ones, of which the first changes nothing."""
    given = node.attr(name, known[0])
    if given not in known:
        raise node.invalid(f"{name} {given}", ", ".join(known))
    return known.index(given)


def _of_length_one(emit: Emitter, rows: Value) -> Value:
    """Rows divided by the roots of the sums of their squares."""
    total = reduce(emit, "ReduceSum", multiply(emit, rows, rows), [-1], keep=True)
    return binary(emit, "Divide", rows, unary(emit, "Sqrt", add(emit, total, filled(LEAST_SQUARE, total))))


def _decays(node: Node, sizes: _LinearSizes, decay: Value, width: int) -> Value:
    """The logarithms of the decays, (batch, tokens, heads * width), of what a gate computes them from."""
    emit, kind = node.emit, _activation(node, "gate_activation", ("none", "softplus", "qwen", "sigmoid", "kda"))
    decay = sizes.apart(emit, decay, sizes.heads, width)
    if kind:
        speed, bias = node.optional(7), node.optional(8)
        if speed is None or bias is None:
            raise node.invalid("a gate_activation without a_log or dt_bias", "both")
        speed, bias = (reshape(emit, cast(emit, one, DataType.f32), numbers(sizes.heads, -1)) for one in (speed, bias))
        speed, decay = unary(emit, "Exp", speed), add(emit, decay, bias)
        if kind <= 2:
            decay = multiply(emit, unary(emit, "SoftPlus", decay), multiply(emit, speed, filled(-1.0, speed)))
        else:
            gate = unary(emit, "Sigmoid", multiply(emit, decay, speed))
            decay = multiply(emit, gate, filled(node.attr("gate_lower_bound", -5.0), gate))
    return sizes.apart(emit, decay, sizes.heads * width)
