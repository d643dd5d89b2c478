"""Gradients of attention: by the kernel, and by plain ops where the kernel does not give them."""

from __future__ import annotations

import numpy as np

from ...lowering.attention import Masking, bias_of
from ...lowering.elementwise import add, binary, filled, multiply, unary
from ...lowering.emitter import Emitter, Value, dtype_of, numbers
from ...lowering.layers import matmul
from ...lowering.movement import cast, reshape, unsqueeze
from ...lowering.reduction import reduce
from ...lowering.rotary import composed_rotation, rows_of
from ...opset.dtypes import DataType
from ...opset.host.attention import scale_of
from ...opset.shapes import known_dims
from ..use import GradientUse
from .table import composed, gradient_of, refused

Gradients = tuple[Value, Value, Value, Value]
LEAST = -1e30  # stands for a logsumexp of minus infinity: the exponential of a score minus this one is 0


refused(
    "host ExtendCache, host CachedAttention",
    "a cache is filled while a model generates tokens, and no training step has one",
)


@composed("host Rotary")
def rotary(emit: Emitter, use: GradientUse) -> Value:
    cos, sin = use["cos"], use["sin"]
    if use.has("lengths"):
        cos, sin = (rows_of(emit, table, use["lengths"], use.dims("src")[2]) for table in (cos, sin))
    flags = {name: use.call.flag(name) for name in ("interleaved", "whole")}
    return composed_rotation(emit, use["src"], cos, sin, **flags)


@gradient_of("host Attention", "query key value")
def attention(
    emit: Emitter, use: GradientUse, diff: Value | None, diff_total: Value | None = None
) -> tuple[Value, ...]:
    dst, total = _results(emit, use)
    if diff_total is not None:
        return plain_gradients(emit, use, dst, total, diff, diff_total)[:3]
    mask = [use["mask"]] if use.has("mask") else []
    inputs = [use["query"], use["key"], use["value"], dst, total, _diff(diff, dst), *mask]
    return emit.ends("AttentionBackward", inputs, use.call.given)


@gradient_of("host Attention", "mask")
def attention_mask(emit: Emitter, use: GradientUse, diff: Value | None, diff_total: Value | None = None) -> Value:
    dst, total = _results(emit, use)
    return plain_gradients(emit, use, dst, total, diff, diff_total)[3]


@composed("host AttentionBackward")
def attention_backward(emit: Emitter, use: GradientUse) -> tuple[Value, ...]:
    gradients = plain_gradients(emit, use, use["dst"], use["logsumexp"], use["grad_dst"], None)[:3]
    return tuple(cast(emit, gradient_, use.dtype) for gradient_ in gradients)


def _results(emit: Emitter, use: GradientUse) -> tuple[Value, Value]:
    """dst and logsumexp, which is computed again if the op does not give it."""
    if use.gives("logsumexp"):
        return use.result("dst"), use.result("logsumexp")
    inputs = [use["query"], use["key"], use["value"], *([use["mask"]] if use.has("mask") else [])]
    dst, total = emit.ends("Attention", inputs, use.call.given, outputs=["dst", "logsumexp"])
    return dst, total


def _diff(diff: Value | None, dst: Value) -> Value:
    return np.zeros(known_dims(dst.shape), dtype_of(dst).numpy) if diff is None else diff


def plain_gradients(
    emit: Emitter, use: GradientUse, dst: Value, total: Value, diff: Value | None, diff_total: Value | None
) -> Gradients:
    """The gradients of query, key, value and mask by ops on all scores."""
    wide = DataType.float64 if use.dtype is DataType.float64 else DataType.f32
    query, key, value, dst, diff = (
        cast(emit, operand, wide) for operand in (use["query"], use["key"], use["value"], dst, _diff(diff, dst))
    )
    (batch, heads, tokens, size), (kv_heads, keys) = use.dims("query"), use.dims("key")[1:3]
    value_size = use.dims("value")[3]
    rows, scores = (batch, kv_heads, heads // kv_heads * tokens), (batch, heads, tokens, keys)

    def grouped(tensor: Value, last: int) -> Value:
        return reshape(emit, tensor, numbers(*rows, last))

    scale, call = filled(scale_of(use.call), query), use.call
    seen = multiply(emit, matmul(emit, grouped(query, size), key, transpose_b=True), scale)
    seen = reshape(emit, seen, numbers(*scores))
    masking = Masking(
        use["mask"] if use.has("mask") else None,
        call.flag("causal"),
        call.s64("window") - 1 if call.flag("causal") else -1,
        past=call.s64("past"),
        open=True,
    )
    bias, _ = bias_of(emit, masking, tokens, keys, wide)
    seen = seen if bias is None else add(emit, seen, bias)
    finite = binary(emit, "Maximum", cast(emit, total, wide), filled(LEAST, query))
    shares = unary(emit, "Exp", binary(emit, "Subtract", seen, unsqueeze(emit, finite, [-1])))
    by_share = matmul(emit, grouped(diff, value_size), value, transpose_b=True)
    delta = reduce(emit, "ReduceSum", multiply(emit, dst, diff), [3], keep=True)
    if diff_total is not None:
        delta = binary(emit, "Subtract", delta, unsqueeze(emit, cast(emit, diff_total, wide), [-1]))
    by_score = multiply(emit, shares, binary(emit, "Subtract", reshape(emit, by_share, numbers(*scores)), delta))
    slopes = grouped(multiply(emit, by_score, scale), keys)
    by_query = reshape(emit, matmul(emit, slopes, key), numbers(batch, heads, tokens, size))
    by_key = matmul(emit, slopes, grouped(query, size), transpose_a=True)
    by_value = matmul(emit, grouped(shares, keys), grouped(diff, value_size), transpose_a=True)
    return by_query, by_key, by_value, by_score
