"""Writes attention and its gradient as functions of plain nodes: files have an older opset than the node Attention."""

from __future__ import annotations

import numpy as np

from ....opset.dtypes import DataType
from ....opset.host.attention import scale_of
from ....opset.schema import Call
from .body import Value
from .table import composes, known_dims_of


class _Heads:
    """The sizes of an attention, and the change to the rows of the heads that one head of the keys serves."""

    def __init__(self, call: Call) -> None:
        self.batch, self.heads, self.queries, self.size = known_dims_of(call, call.shape("query"), "query")
        self.kv_heads, self.keys, self.value_size = known_dims_of(call, call.shape("value"), "value")[1:]

    def together(self, value: Value, size: int) -> Value:
        """(batch, heads, queries, size) as rows of each head of the keys."""
        return value.reshape(self.batch, self.kv_heads, self.heads // self.kv_heads * self.queries, size)

    def apart(self, value: Value, size: int) -> Value:
        """The way back."""
        return value.reshape(self.batch, self.heads, self.queries, size)

    def scores(self, call: Call, query: Value, key: Value, mask: Value | None) -> Value:
        """(batch, heads, queries, keys)."""
        product = self.together(query, self.size).op("MatMul", key.transpose((0, 1, 3, 2)))
        found = self.apart(product, self.keys) * scale_of(call)
        if mask is not None:
            is_kept = mask.dtype is DataType.boolean
            found = found + (_zero_or(mask, found) if is_kept else mask.cast(found.dtype))
        if call.flag("causal"):
            behind = np.arange(self.keys) - np.arange(self.queries)[:, None] - call.s64("past")
            window = call.s64("window")
            seen = (behind <= 0) & ((window == 0) | (behind > -window))
            found = query.body.constant(seen).where(found, -np.inf)
        return found


def _zero_or(mask: Value, like: Value) -> Value:
    zero, never = (like.body.scalar(number, like.dtype) for number in (0, -np.inf))
    return mask.where(zero, never)


@composes("host Attention")
def attention(call: Call, query: Value, key: Value, value: Value, mask: Value | None = None) -> tuple[Value, ...]:
    heads = _Heads(call)
    scores = heads.scores(call, query, key, mask)
    largest = scores.reduce("ReduceMax", [3])
    known = largest.compare("Equal", -np.inf).where(0, largest)
    shares = (scores - known).op("Exp")
    total = shares.reduce("ReduceSum", [3])
    parts = shares / total.compare("Equal", 0).where(1, total)
    mixed = heads.together(parts, heads.keys).op("MatMul", value)
    logsumexp = (largest + total.op("Log")).reshape(heads.batch, heads.heads, heads.queries)
    return heads.apart(mixed, heads.value_size), logsumexp


@composes("host AttentionBackward")
def attention_backward(
    call: Call,
    query: Value,
    key: Value,
    value: Value,
    dst: Value,
    logsumexp: Value,
    grad_dst: Value,
    mask: Value | None = None,
) -> tuple[Value, ...]:
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
