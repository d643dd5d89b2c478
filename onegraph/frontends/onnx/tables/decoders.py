"""Lowers nodes of language models that ONNX Runtime defines: rotary embeddings and attention with caches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...._util.counted import counted
from ....lowering import attention as lowering
from ....lowering.attention import Masking
from ....lowering.elementwise import add, binary, clamp, multiply, unary
from ....lowering.emitter import Emitter, Value, numbers, shape_of
from ....lowering.movement import cast, concat, part, reshape, unsqueeze
from ....lowering.open_samples import counted as integers_below
from ....lowering.open_samples import open_factor, open_number
from ....lowering.quantization import codes_of
from ....lowering.rotary import angles, rotated
from ....opset import shapes
from ....opset.dtypes import DataType
from ....opset.signature import Shape
from ..node import Node, NotLowered, Unsettled, lowers
from .contrib import DOMAIN
from .layers import native
from .norms import results_wanted

CACHES = {8: DataType.s8, 4: DataType.u8}  # by the bits of a code
HALF = 8  # of the codes of 4 bits


def only(node: Node, neutral: Mapping[str, object], absent: tuple[int, ...]) -> None:
    """Refuse attributes with other values than these, and inputs that must be absent."""
    for name, value in neutral.items():
        if node.attr(name, value) != value:
            raise NotLowered(f"{name} = {node.attr(name)}")
    for index in absent:
        if node.optional(index) is not None:
            raise NotLowered(f"input {index}")


def known_dims(value: Value, rank: int) -> list[int]:
    """The dims of a value of this rank; Unsettled if some are unknown."""
    shape = shape_of(value)
    if shape is None or len(shape) != rank or None in shape:
        raise Unsettled("unknown dims of queries or keys")
    return [*shapes.known_dims(shape)]


@lowers("RotaryEmbedding", domain=DOMAIN)
def rotary_embedding(node: Node) -> Value:
    """A rotary embedding of (batch, tokens, heads * size) or (batch, heads, tokens, size)."""
    native(node)
    only(node, {"is_packed_batching": 0, "scale": 1.0}, ())
    emit, src, is_flat = node.emit, node.value(0), node.rank() == 3
    cos, sin = node.value(2), node.value(3)
    pairs = (shape_of(cos) or (None, None))[-1]
    turned = node.attr("rotary_embedding_dim", 0)
    if pairs is None:
        raise Unsettled("an unknown number of turned pairs")
    if is_flat:
        heads = node.attr("num_heads", 0)
        width = known_dims(src, 3)[2]
        if turned and not heads:
            raise node.invalid("rotary_embedding_dim without num_heads", "both")
        src = lowering.heads_apart(emit, src, heads or width // (2 * pairs))
    batch, _, tokens, _ = known_dims(src, 4)
    places = node.value(1)
    if shape_of(places) in ((), (1,)):
        offset = cast(emit, reshape(emit, places, numbers(1, 1)), DataType.s64)
        places = add(emit, np.arange(tokens, dtype=np.int64)[None], offset)
    elif shape_of(places) != (batch, tokens):
        raise NotLowered("positions that are neither one offset nor one for each token")
    rows = [angles(emit, cache, places) for cache in (cos, sin)]
    result = rotated(emit, src, *rows, interleaved=bool(node.attr("interleaved", 0)))
    return lowering.heads_together(emit, result) if is_flat else result


@lowers("GroupQueryAttention", domain=DOMAIN)
def group_query_attention(node: Node) -> tuple[Value | None, ...]:
    """Causal attention of heads that share keys and values, behind a rotary embedding and a cache.

    Each row of the batch has as many keys as ``seqlens_k`` says: its new ones are written behind those of its cache,
    which may have room for more. A prompt that is shorter than the others ends with keys that no later step sees.
    """
    native(node)
    neutral: dict[str, object] = {
        "qk_output": 0,
        "causal": 1,
    }
    only(node, neutral, (9, 14, 15, 16))
    emit, heads, kv_heads = node.emit, node.attr("num_heads"), node.attr("kv_num_heads")
    query, key, value = _heads(node, heads, kv_heads)
    lengths = _lengths(node)
    if node.attr("do_rotary", 0):
        cos, sin = node.optional(7), node.optional(8)
        if cos is None or sin is None:
            raise node.invalid("do_rotary without cos_cache and sin_cache", "both")
        near = bool(node.attr("rotary_interleaved", 0))
        query, key = (rotated(emit, each, cos, sin, lengths, interleaved=near) for each in (query, key))
    past, total = [node.optional(index) for index in (3, 4)], cast(emit, node.value(6), DataType.s64)
    steps = _steps_of_codes(node, kv_heads, shape_of(key), shape_of(value))
    present, numbers_of_cache = list[Value](), list[Value]()
    bits = node.attr("kv_cache_bit_width", 8) or 8
    window, scale = node.attr("local_window_size", -1), node.attr("scale", 0.0) or None
    moved = _window(node, past[0], key, lengths, window) if node.attr("sliding_window_cache", 0) else None
    for before, rows, step in zip(past, (key, value), steps, strict=True):
        new = read = rows if step is None else _as_codes(emit, rows, step, bits)
        if before is not None and moved is not None:
            new, read = moved.extended(emit, before, new)
        elif before is not None:
            new = read = lowering.extended(emit, before, new, lengths, total)
        present.append(new)
        read = read if step is None else multiply(emit, _from_codes(emit, read, bits), step)
        numbers_of_cache.append(cast(emit, read, node.dtype()))
    lengths = lengths if moved is None else moved.lengths
    masking = Masking(node.optional(10), causal=True, left=window - 1 if window > 0 else -1, lengths=lengths)
    softcap = max(node.attr("softcap", 0.0), 0.0)
    attended = lowering.attention_of_cache(
        emit, query, *numbers_of_cache, scale=scale, softcap=softcap, masking=masking, sinks=_sinks(node, heads)
    )
    output = lowering.heads_together(emit, attended)
    return (output, *present)[: len(node.proto.output)]


class _TokenWindow(NamedTuple):
    """How a cache that has room for the last tokens alone takes those of a step.

    Attributes:
        whole: the number of keys in the cache and of this step, for each row of the batch.
        kept: the number of those that stay in the cache.
        tokens: of this step.
    """

    whole: Value
    kept: Value
    tokens: int

    @property
    def lengths(self) -> Value:
        """The number of keys that the attention reads. Those of one token stay in the cache."""
        return self.kept if self.tokens == 1 else self.whole

    def extended(self, emit: Emitter, past: Value, rows: Value) -> tuple[Value, Value]:
        """The cache behind the step, and what the attention reads."""
        room, dropped = known_dims(past, 4)[2], binary(emit, "Subtract", self.whole, self.kept)
        if self.tokens == 1:
            found = lowering.extended(emit, _from(emit, past, dropped, room), rows, self.kept, open_number(emit, room))
            return found, found
        whole = lowering.extended(emit, past, rows, self.whole, open_number(emit, room + self.tokens))
        return _from(emit, whole, dropped, room), whole


def _window(node: Node, past: Value | None, key: Value, lengths: Value, window: int) -> _TokenWindow:
    """What a cache keeps: if it has room for more than the window, it drops as many tokens at once as it has beyond."""
    emit, tokens = node.emit, known_dims(key, 4)[2]
    if past is None or window <= 0:
        raise node.invalid("sliding_window_cache without past_key or local_window_size", "both")
    if node.optional(10) is not None:
        raise NotLowered("an attention_bias with sliding_window_cache")
    room = known_dims(past, 4)[2]
    if room < window:
        raise node.invalid(f"a cache for {counted(room, 'token')}", f"room for the window of {window}")
    at_once = open_factor(emit, room - window + 1)

    def more_than(count: Value, limit: int) -> Value:
        return binary(emit, "Maximum", binary(emit, "Subtract", count, open_factor(emit, limit)), np.zeros(1, np.int64))

    def kept(count: Value) -> Value:
        over = add(emit, more_than(count, room), open_factor(emit, room - window))
        return binary(emit, "Subtract", count, multiply(emit, binary(emit, "Divide", over, at_once), at_once))

    before = more_than(lengths, tokens)
    whole = add(emit, kept(before), binary(emit, "Subtract", lengths, before))
    return _TokenWindow(whole, kept(lengths), tokens)


def _from(emit: Emitter, cache: Value, start: Value, count: int) -> Value:
    """``count`` tokens of a cache from one on; those behind its end are repeated."""
    batch, heads, room, size = known_dims(cache, 4)
    places = add(
        emit, reshape(emit, start, numbers(-1, 1, 1)), reshape(emit, integers_below(emit, count), numbers(1, 1, -1))
    )
    places = binary(emit, "Minimum", places, open_factor(emit, room - 1))
    of_heads = reshape(emit, integers_below(emit, batch * heads), numbers(batch, heads, 1))
    firsts = multiply(emit, of_heads, open_factor(emit, room))
    rows = add(emit, places, firsts)
    return emit.op("Gather", [reshape(emit, cache, numbers(-1, size)), rows], {"axis": 0})


def _sinks(node: Node, heads: int) -> Value | None:
    """The scores of a key without a value, one for each head; None if there is none."""
    if node.optional(11) is not None:
        return cast(node.emit, node.value(11), DataType.f32)
    return np.zeros(heads, np.float32) if node.attr("smooth_softmax", 0) == 1 else None


def _steps_of_codes(node: Node, heads: int, *shapes: Shape) -> list[Value | None]:
    """The scales of the 8-bit codes of keys and values, as (1, heads, 1, size) or a scalar; None for numbers."""
    parts = list[Value | None]()
    for name, past, index, shape in zip("kv", (3, 4), (12, 13), shapes, strict=True):
        kind, width = node.attr(f"{name}_quant_type", "NONE"), node.attr("kv_cache_bit_width", 8)
        if kind == "NONE":
            if node.optional(index) is not None:
                raise node.invalid(f"{name}_scale beside {name}_quant_type NONE", "PER_TENSOR or PER_CHANNEL")
            parts.append(None)
            continue
        if kind not in ("PER_TENSOR", "PER_CHANNEL") or node.optional(index) is None:
            raise node.invalid(f"{name}_quant_type {kind}", f"PER_TENSOR or PER_CHANNEL, and {name}_scale")
        dtype, size = CACHES.get(width or 8), None if shape is None else shape[-1]
        if dtype is None or (node.optional(past) is not None and node.dtype(past) is not dtype):
            raise NotLowered(f"a cache of {width} bits and {node.dtype(past)}")
        if dtype is DataType.u8 and (size is None or size % 2):
            raise NotLowered(f"a cache of 4 bits with heads of size {size}")
        dims = numbers() if kind == "PER_TENSOR" else numbers(1, heads, 1, size or -1)
        parts.append(reshape(node.emit, node.value(index), dims))
    return parts


def _as_codes(emit: Emitter, rows: Value, step: Value, bits: int) -> Value:
    """Codes of s8, or of 4 bits: 8 more than they stand for, and two in a byte, the first one in its lower half."""
    if bits == DataType.s8.numpy.itemsize * 8:
        return codes_of(emit, rows, step, None, DataType.s8)
    low, high = (np.array(limit, np.float32) for limit in (-HALF, HALF - 1))
    codes = unary(emit, "Round", binary(emit, "Divide", cast(emit, rows, DataType.f32), step))
    codes = add(emit, clamp(emit, codes, low, high), np.array(HALF, np.float32))
    size = known_dims(rows, 4)[3]
    first, second = (part(emit, codes, 3, place, size, 2) for place in (0, 1))
    return cast(emit, add(emit, first, multiply(emit, second, np.array(2 * HALF, np.float32))), DataType.u8)


def _from_codes(emit: Emitter, codes: Value, bits: int) -> Value:
    """The whole numbers of f32 that codes stand for."""
    wide = cast(emit, codes, DataType.f32)
    if bits == DataType.s8.numpy.itemsize * 8:
        return wide
    number = np.array(2 * HALF, np.float32)
    second = unary(emit, "Floor", binary(emit, "Divide", wide, number))
    first = binary(emit, "Subtract", wide, multiply(emit, second, number))
    halves = concat(emit, [unsqueeze(emit, each, [4]) for each in (first, second)], 4)
    *dims, size = known_dims(codes, 4)
    whole = reshape(emit, halves, numbers(*dims, 2 * size))
    return binary(emit, "Subtract", whole, np.array(HALF, np.float32))


def _lengths(node: Node) -> Value:
    """The number of keys of each row of the batch, of which seqlens_k names the last one."""
    emit = node.emit
    last = cast(emit, reshape(emit, node.value(5), numbers(-1)), DataType.s64)
    return add(emit, last, np.ones(1, np.int64))


def _heads(node: Node, heads: int, kv_heads: int) -> list[Value]:
    """Query, key and value as (batch, heads, tokens, size); one input may have all three."""
    emit, whole = node.emit, node.value(0)
    if node.optional(1) is not None:
        values = [node.value(index) for index in range(3)]
    else:
        size = known_dims(whole, 3)[2] // (heads + 2 * kv_heads)
        ends = np.cumsum([0, heads * size, kv_heads * size, kv_heads * size]).tolist()
        values = [part(emit, whole, 2, *ends[place : place + 2]) for place in range(3)]
    counts = (heads, kv_heads, kv_heads)
    return [lowering.heads_apart(emit, value, count) for value, count in zip(values, counts, strict=True)]


@lowers("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(node: Node) -> tuple[Value | None, ...]:
    """Attention of separate query, key and value, each (batch, tokens, heads * size), with a cache."""
    native(node)
    only(node, {}, (8, 9))
    if node.optional(1) is None or node.optional(2) is None or node.rank() != 3 or node.rank(1) != 3:
        raise NotLowered("packed queries and keys")
    emit, heads = node.emit, node.attr("num_heads")
    values = [node.value(index) for index in range(3)]
    bias = node.optional(3)
    if bias is not None:
        ends = np.cumsum([0, *[known_dims(value, 3)[2] for value in values]]).tolist()
        values = [add(emit, value, part(emit, bias, 0, *ends[at : at + 2])) for at, value in enumerate(values)]
    query, key, value = (lowering.heads_apart(emit, each, heads) for each in values)
    before = node.optional(6), node.optional(7)
    past = None if before[0] is None or before[1] is None else (before[0], before[1])
    start = 0 if past is None else known_dims(past[0], 4)[2]
    mask = node.optional(5)
    if node.optional(4) is not None:
        mask = _hidden(node, mask, start + known_dims(key, 4)[2])
    masking = Masking(mask, bool(node.attr("unidirectional", 0)), past=start)
    scale = node.attr("scale", 0.0) or None
    attended = lowering.attention(emit, query, key, value, scale=scale, masking=masking, past=past)
    results = lowering.heads_together(emit, attended.output), attended.key, attended.value
    return results[: max(results_wanted(node), 1)]


def _hidden(node: Node, mask: Value | None, keys: int) -> Value:
    """The mask with the number that hides padding, which key_padding_mask marks by zeros."""
    emit, shape = node.emit, node.shape(4)
    if shape is None or len(shape) != len(("batch", "keys")) or shape[1] != keys:
        raise NotLowered("a key_padding_mask that is not (batch, keys)")
    shown = cast(emit, reshape(emit, node.value(4), numbers(-1, 1, 1, keys)), node.dtype())
    unit = np.ones((), node.dtype().numpy)
    hidden = binary(emit, "Subtract", unit, shown)
    result = multiply(emit, hidden, np.full((), node.attr("mask_filter_value", -10000.0), node.dtype().numpy))
    return result if mask is None else add(emit, mask, result)
