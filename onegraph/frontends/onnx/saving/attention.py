"""Writes attention, its gradient, rotary embeddings and caches as functions of plain nodes.

Files have an older opset than the nodes Attention and RotaryEmbedding.
"""

from __future__ import annotations

import numpy as np

from ....opset.dtypes import DataType
from ....opset.host.attention import extended_shape, scale_of
from ....opset.schema import Call
from .body import NodeValue
from .table import composes, known_dims_of


class _Heads:
    """The sizes of an attention, and the change to the rows of the heads that one head of the keys serves."""

    def __init__(self, call: Call) -> None:
        self.batch, self.heads, self.queries, self.size = known_dims_of(call, call.shape("query"), "query")
        self.kv_heads, self.keys, self.value_size = known_dims_of(call, call.shape("value"), "value")[1:]

    def together(self, value: NodeValue, size: int) -> NodeValue:
        """(batch, heads, queries, size) as rows of each head of the keys."""
        return value.reshape(self.batch, self.kv_heads, self.heads // self.kv_heads * self.queries, size)

    def apart(self, value: NodeValue, size: int) -> NodeValue:
        """The way back."""
        return value.reshape(self.batch, self.heads, self.queries, size)

    def scores(
        self, call: Call, query: NodeValue, key: NodeValue, mask: NodeValue | None, lengths: NodeValue | None = None
    ) -> NodeValue:
        """(batch, heads, queries, keys)."""
        product = self.together(query, self.size).op("MatMul", key.transpose((0, 1, 3, 2)))
        result = self.apart(product, self.keys) * scale_of(call)
        if call.schema.has_attribute("softcap") and (limit := call.f32("softcap")):
            result = (result / limit).op("Tanh") * limit
        if mask is not None:
            is_kept = mask.dtype is DataType.boolean
            result = result + (_zero_or(mask, result) if is_kept else mask.cast(result.dtype))
        if lengths is not None:
            return self._within(call, result, lengths)
        if call.flag("causal"):
            distance = np.arange(self.keys) - np.arange(self.queries)[:, None] - call.s64("past")
            window = call.s64("window")
            seen = (distance <= 0) & ((window == 0) | (distance > -window))
            result = query.body.constant(seen).where(result, -np.inf)
        return result

    def mixed(self, scores: NodeValue, value: NodeValue) -> tuple[NodeValue, ...]:
        """The values mixed by the shares, and the logarithm of the sum of the exponentials of the scores."""
        largest = scores.reduce("ReduceMax", [3])
        known = largest.compare("Equal", -np.inf).where(0, largest)
        shares = (scores - known).op("Exp")
        total = shares.reduce("ReduceSum", [3])
        parts = shares / total.compare("Equal", 0).where(1, total)
        mixed = self.together(parts, self.keys).op("MatMul", value)
        logsumexp = (largest + total.op("Log")).reshape(self.batch, self.heads, self.queries)
        return self.apart(mixed, self.value_size), logsumexp

    def _within(self, call: Call, scores: NodeValue, lengths: NodeValue) -> NodeValue:
        """The scores of keys that each batch has, and that a query sees."""
        keys = scores.body.constant(np.arange(self.keys, dtype=np.int64))
        seen = keys.compare("Less", lengths.reshape(self.batch, 1, 1, 1))
        places = scores.body.constant(np.arange(self.queries, dtype=np.int64)[:, None])
        last = starts_of(lengths, self.queries).reshape(self.batch, 1, 1, 1) + places
        seen = seen.compare("And", keys.compare("LessOrEqual", last))
        if window := call.s64("window"):
            seen = seen.compare("And", keys.compare("Greater", last - window))
        return seen.where(scores, -np.inf)


def starts_of(lengths: NodeValue, tokens: int) -> NodeValue:
    """The places of the first of the last tokens."""
    return (lengths - tokens).op("Max", lengths.body.scalar(0, DataType.s64))


def _zero_or(mask: NodeValue, like: NodeValue) -> NodeValue:
    zero, never = (like.body.scalar(number, like.dtype) for number in (0, -np.inf))
    return mask.where(zero, never)


@composes("host Attention")
def attention(
    call: Call, query: NodeValue, key: NodeValue, value: NodeValue, mask: NodeValue | None = None
) -> tuple[NodeValue, ...]:
    heads = _Heads(call)
    return heads.mixed(heads.scores(call, query, key, mask), value)


@composes("host CachedAttention")
def cached_attention(
    call: Call, query: NodeValue, key: NodeValue, value: NodeValue, lengths: NodeValue, mask: NodeValue | None = None
) -> tuple[NodeValue, ...]:
    heads = _Heads(call)
    return heads.mixed(heads.scores(call, query, key, mask, lengths), value)


@composes("host AttentionBackward")
def attention_backward(
    call: Call,
    query: NodeValue,
    key: NodeValue,
    value: NodeValue,
    dst: NodeValue,
    logsumexp: NodeValue,
    grad_dst: NodeValue,
    mask: NodeValue | None = None,
) -> tuple[NodeValue, ...]:
    heads = _Heads(call)
    total = logsumexp.reshape(heads.batch, heads.heads, heads.queries, 1)
    known = total.compare("Equal", -np.inf).where(np.inf, total)
    shares = (heads.scores(call, query, key, mask) - known).op("Exp")
    diff = heads.together(grad_dst, heads.value_size)
    by_share = heads.apart(diff.op("MatMul", value.transpose((0, 1, 3, 2))), heads.keys)
    delta = (dst * grad_dst).reduce("ReduceSum", [3])
    by_score = heads.together(shares * (by_share - delta) * scale_of(call), heads.keys)
    turned = by_score.transpose((0, 1, 3, 2)).op("MatMul", heads.together(query, heads.size))
    by_value = heads.together(shares, heads.keys).transpose((0, 1, 3, 2)).op("MatMul", diff)
    return heads.apart(by_score.op("MatMul", key), heads.size), turned, by_value


@composes("host Rotary")
def rotary(call: Call, src: NodeValue, cos: NodeValue, sin: NodeValue, lengths: NodeValue | None = None) -> NodeValue:
    batch, heads, tokens, size = known_dims_of(call, call.shape("src"), "src")
    angles = known_dims_of(call, call.shape("cos"), "cos")[-1]
    pairs = angles // 2 if call.flag("whole") else angles
    if lengths is not None:
        places = starts_of(lengths, tokens).reshape(batch, 1) + src.body.constant(np.arange(tokens, dtype=np.int64))
        cos, sin = (table.op("Gather", places, axis=0).reshape(batch, 1, tokens, angles) for table in (cos, sin))
    is_near = call.flag("interleaved")

    def half(value: NodeValue, place: int) -> NodeValue:
        ends = (place, 2 * pairs, 2) if is_near else (place * pairs, (place + 1) * pairs, 1)
        first, last, step = (value.body.numbers(end) for end in ends)
        return value.op("Slice", first, last, value.body.numbers(-1), step)

    angle = half if call.flag("whole") else lambda value, _: value
    first, second = half(src, 0), half(src, 1)
    turned = [
        first * angle(cos, 0) - second * angle(sin, 0),
        second * angle(cos, 1) + first * angle(sin, 1),
    ]
    if is_near:
        turned = [value.reshape(batch, heads, tokens, pairs, 1) for value in turned]
    whole = src.body.node("Concat", turned, axis=-1).reshape(batch, heads, tokens, 2 * pairs)
    if 2 * pairs == size:
        return whole
    rest = src.op("Slice", *(src.body.numbers(number) for number in (2 * pairs, size, -1)))
    return whole.op("Concat", rest, axis=-1)


@composes("host ExtendCache")
def extend_cache(
    call: Call, past: NodeValue, rows: NodeValue, lengths: NodeValue, total: NodeValue | None = None
) -> NodeValue:
    del total
    batch, heads, room, size = known_dims_of(call, extended_shape(call)[0], "dst")
    before, tokens = (known_dims_of(call, call.shape(port), port)[2] for port in ("past", "rows"))
    body = past.body
    whole = past
    if room > before:
        whole = past.op("Pad", body.numbers(0, 0, 0, 0, 0, 0, room - before, 0))
    places = body.constant(np.arange(room, dtype=np.int64)) - starts_of(lengths, tokens).reshape(batch, 1)
    is_new = places.compare("GreaterOrEqual", 0).compare("And", places.compare("Less", tokens))
    near = places.op("Max", body.scalar(0, DataType.s64)).op("Min", body.scalar(tokens - 1, DataType.s64))
    near = near.reshape(batch, 1, room, 1).op("Expand", body.numbers(batch, heads, room, size))
    return is_new.reshape(batch, 1, room, 1).where(rows.op("GatherElements", near, axis=2), whole)
