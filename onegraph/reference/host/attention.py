"""Computes attention and its gradient in numpy, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...opset.host.attention import scale_of
from ...opset.schema import Call

Array = NDArray[Any]


def _grouped(array: Array, heads: int) -> Array:
    """(batch, heads, tokens, size) in float64, with an axis for the heads that one head of the keys serves."""
    return array.astype(np.float64).reshape(array.shape[0], heads, -1, *array.shape[2:])


def _scores(call: Call, query: Array, key: Array, mask: Array | None) -> Array:
    """(batch, heads of the keys, heads that each serves, queries, keys)."""
    heads, queries, keys = key.shape[1], query.shape[2], key.shape[2]
    scores = scale_of(call) * (_grouped(query, heads) @ _grouped(key, heads).swapaxes(-1, -2))
    if mask is not None:
        wide = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
        scores = scores + np.broadcast_to(wide, (*query.shape[:3], keys)).reshape(scores.shape)
    if call.flag("causal"):
        behind = np.arange(keys) - np.arange(queries)[:, None] - call.s64("past")
        window = call.s64("window")
        scores = np.where((behind > 0) | ((window > 0) & (behind <= -window)), -np.inf, scores)
    return scores


def attention(call: Call, query: Array, key: Array, value: Array, mask: Array | None = None) -> tuple[Array, ...]:
    """The mixed values, and the logarithm of the sum of the exponentials of the scores."""
    scores = _scores(call, query, key, mask)
    largest = scores.max(-1, keepdims=True, initial=-np.inf)
    shares = np.exp(scores - np.where(np.isneginf(largest), 0, largest))
    total = shares.sum(-1, keepdims=True)
    mixed = shares / np.where(total == 0, 1, total) @ _grouped(value, key.shape[1])
    shape = query.shape[:3]
    with np.errstate(divide="ignore"):  # the logarithm of 0 is that of a query which sees no key
        logsumexp = (largest + np.log(total)).reshape(shape)
    wide = np.float64 if query.dtype == np.float64 else np.float32
    return mixed.reshape(*shape, value.shape[3]).astype(query.dtype), logsumexp.astype(wide)


def attention_backward(
    call: Call,
    query: Array,
    key: Array,
    value: Array,
    dst: Array,
    logsumexp: Array,
    grad_dst: Array,
    mask: Array | None = None,
) -> tuple[Array, ...]:
    """The gradients of query, key and value."""
    heads = key.shape[1]
    total = _grouped(logsumexp, heads)[..., None]
    shares = np.exp(_scores(call, query, key, mask) - np.where(np.isneginf(total), np.inf, total))
    grad = _grouped(grad_dst, heads)
    delta = (_grouped(dst, heads) * grad).sum(-1, keepdims=True)
    grad_scores = scale_of(call) * shares * (grad @ _grouped(value, heads).swapaxes(-1, -2) - delta)
    grad_query = grad_scores @ _grouped(key, heads)
    grad_key = (grad_scores.swapaxes(-1, -2) @ _grouped(query, heads)).sum(2)
    grad_value = (shares.swapaxes(-1, -2) @ grad).sum(2)
    found = grad_query.reshape(query.shape), grad_key.reshape(key.shape), grad_value.reshape(value.shape)
    return tuple(one.astype(query.dtype) for one in found)
