"""Computes attention and its gradient, rotary embeddings and caches in numpy, in float64."""

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


def _scores(call: Call, query: Array, key: Array, mask: Array | None, lengths: Array | None = None) -> Array:
    """(batch, heads of the keys, heads that each serves, queries, keys)."""
    heads, queries, keys = key.shape[1], query.shape[2], key.shape[2]
    scores = scale_of(call) * (_grouped(query, heads) @ _grouped(key, heads).swapaxes(-1, -2))
    limit = call.f32("softcap") if call.schema.has_attribute("softcap") else 0.0
    if limit:
        scores = limit * np.tanh(scores / limit)
    if mask is not None:
        wide = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
        scores = scores + np.broadcast_to(wide, (*query.shape[:3], keys)).reshape(scores.shape)
    if lengths is not None or call.flag("causal"):
        past = call.s64("past") if lengths is None else np.maximum(lengths - queries, 0).reshape(-1, 1, 1, 1, 1)
        distance = np.arange(keys) - np.arange(queries)[:, None] - past
        window = call.s64("window")
        scores = np.where((distance > 0) | ((window > 0) & (distance <= -window)), -np.inf, scores)
    if lengths is not None:
        scores = np.where(np.arange(keys) < lengths.reshape(-1, 1, 1, 1, 1), scores, -np.inf)
    return scores


def attention(call: Call, query: Array, key: Array, value: Array, mask: Array | None = None) -> tuple[Array, ...]:
    """The mixed values, and the logarithm of the sum of the exponentials of the scores."""
    return _mixed(query, key, value, _scores(call, query, key, mask))


def cached_attention(
    call: Call, query: Array, key: Array, value: Array, lengths: Array, mask: Array | None = None
) -> tuple[Array, ...]:
    """The mixed values of the keys that each batch has, and the logarithm of the sum of the exponentials."""
    _check_lengths(lengths, 0, key.shape[2], "the keys")
    return _mixed(query, key, value, _scores(call, query, key, mask, lengths))


def _mixed(query: Array, key: Array, value: Array, scores: Array) -> tuple[Array, ...]:
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
    gradients = grad_query.reshape(query.shape), grad_key.reshape(key.shape), grad_value.reshape(value.shape)
    return tuple(one.astype(query.dtype) for one in gradients)


def _check_lengths(lengths: Array, tokens: int, most: int, meaning: str) -> None:
    """Raise ValueError for lengths that leave a table or a cache."""
    for place, length in enumerate(lengths.tolist()):
        if not 0 <= length <= most or tokens > most:
            raise ValueError(f"lengths: {length} of row {place}; expected numbers from 0 to {most}, {meaning}")


def rotary(call: Call, src: Array, cos: Array, sin: Array, lengths: Array | None = None) -> Array:
    """src with its first numbers turned."""
    if lengths is not None:
        tokens = src.shape[2]
        _check_lengths(lengths, tokens, len(cos), "the rows of cos")
        places = np.maximum(lengths - tokens, 0)[:, None] + np.arange(tokens)
        cos, sin = (table[places][:, None] for table in (cos, sin))
    width = cos.shape[-1] * (1 if call.flag("whole") else 2)
    wide = np.float64 if src.dtype == np.float64 else np.float32
    is_near, turned = call.flag("interleaved"), src.astype(wide)
    halves = (slice(0, width, 2), slice(1, width, 2)) if is_near else (slice(0, width // 2), slice(width // 2, width))
    first: Array = turned[..., halves[0]].copy()
    second: Array = turned[..., halves[1]].copy()

    def angle(table: Array, place: int) -> Array:
        return (table[..., halves[place]] if call.flag("whole") else table).astype(wide)

    turned[..., halves[0]] = first * angle(cos, 0) - second * angle(sin, 0)
    turned[..., halves[1]] = second * angle(cos, 1) + first * angle(sin, 1)
    return turned.astype(src.dtype)


def extend_cache(call: Call, past: Array, rows: Array, lengths: Array, total: Array | None = None) -> Array:
    """The cache with the rows of the new tokens."""
    room = max(call.s64("room") if total is None else int(total.reshape(-1)[0]), past.shape[2])
    _check_lengths(lengths, rows.shape[2], room, "the tokens that the cache has room for")
    extended = np.zeros((*past.shape[:2], room, past.shape[3]), past.dtype)
    extended[:, :, : past.shape[2]] = past
    for batch, length in enumerate(lengths.tolist()):
        start = max(length - rows.shape[2], 0)
        extended[batch, :, start : start + rows.shape[2]] = rows[batch]
    return extended


def linear_attention(
    call: Call,
    query: Array,
    key: Array,
    value: Array,
    state: Array,
    decay: Array | None = None,
    rate: Array | None = None,
) -> tuple[Array, ...]:
    """The results of all tokens, and the state behind the last one."""
    dst, dtype, state = np.empty((*query.shape[:4], value.shape[3])), query.dtype, state.astype(np.float64)
    for token in range(query.shape[1]):
        rows, keys = value[:, token, :, np.newaxis], key[:, token, :, np.newaxis].astype(np.float64)
        if decay is not None:
            state = state * decay[:, token, :, :, np.newaxis]
        if rate is not None:
            rows = (rows - keys @ state) * rate[:, token, :, np.newaxis, np.newaxis]
        state = state + keys.swapaxes(-1, -2) * rows
        dst[:, token] = query[:, token] @ state
    return dst.astype(dtype), state.astype(dtype)
