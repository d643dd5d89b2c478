"""Lowers scaled dot product attention.

Short sequences become the ops that the library fuses: MatMul, Divide, Add, SoftMax, MatMul. Long ones become the op
Attention, which a kernel of the package computes without all scores in memory.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .._util.records import record
from ..opset.dtypes import DataType
from ..opset.shapes import known_dims
from .computed_shapes import known_parts
from .elementwise import add, binary, filled, multiply, select, unary
from .emitter import Array, Emitter, Unsettled, Value, dtype_of, known_rank, numbers, shape_of
from .layers import matmul
from .movement import NATIVE, cast, concat, reshape, rounded, transpose, unsqueeze
from .open_samples import counted, open_factor
from .reduction import reduce

# Number of scores of a head from which on the kernel for attention is faster than the fusions of the library: without
# and with causality, for which it skips half of them. ``python -m benchmarks attention`` measures both.
TILED_SCORES = 1 << 16, 1 << 12


@record(frozen=True)
class Attention:
    """The results of an attention: the output, the caches, and the scores at the wanted stage."""

    output: Value
    key: Value
    value: Value
    scores: Value | None


@record(frozen=True)
class Masking:
    """Which keys a query sees.

    Attributes:
        mask: boolean, or numbers that are added to the scores; its last axis may be short.
        causal: whether a query sees no later key.
        left, right: how far a query sees; -1 is without a bound.
        lengths: number of keys that are valid in each batch.
        past: number of keys before those of the first query.
        open: whether the mask hides all keys from no query.
    """

    mask: Value | None = None
    causal: bool = False
    left: int = -1
    right: int = -1
    lengths: Value | None = None
    past: int = 0
    open: bool = False

    @property
    def is_causal(self) -> bool:
        """Whether a query sees no later key, by either way of saying so."""
        return self.causal or self.right == 0


def heads_apart(emit: Emitter, src: Value, heads: int) -> Value:
    """(batch, tokens, heads * size) as (batch, heads, tokens, size)."""
    batch, tokens, width = _known(src, 3)
    return transpose(emit, reshape(emit, src, (batch, tokens, heads, width // heads)), (0, 2, 1, 3))


def heads_together(emit: Emitter, src: Value) -> Value:
    """(batch, heads, tokens, size) as (batch, tokens, heads * size)."""
    batch, heads, tokens, size = _known(src, 4)
    return reshape(emit, transpose(emit, src, (0, 2, 1, 3)), (batch, tokens, heads * size))


def _known(value: Value, rank: int) -> list[int]:
    shape = shape_of(value)
    if shape is None or len(shape) != rank or None in shape[1:]:
        raise Unsettled("unknown dims of query, key or value")
    return [-1 if dim is None else dim for dim in shape]


def attention(
    emit: Emitter,
    query: Value,
    key: Value,
    value: Value,
    *,
    scale: float | None = None,
    softcap: float = 0.0,
    masking: Masking,
    past: tuple[Value, Value] | None = None,
    precision: DataType | None = None,
    stage: int | None = None,
) -> Attention:
    """Attention of query (batch, heads, tokens, size) to key and value, whose heads may serve several of the query's.

    Args:
        emit: adds the ops.
        query, key, value: tensors of rank 4.
        scale: factor of the scores; 1 / sqrt(size) by default.
        softcap: limit of the scores, softcap * tanh(scores / softcap); 0 is no limit.
        masking: which keys a query sees.
        past: keys and values before those given.
        precision: data type of the SoftMax.
        stage: the scores to return: 0 the product, 1 capped, 2 with the mask, 3 the probabilities.
    """
    if past is not None:
        key, value = concat(emit, [past[0], key], 2), concat(emit, [past[1], value], 2)
    is_half = dtype_of(query) in (DataType.f16, DataType.bf16)
    is_plain = softcap == 0 and stage is None and precision in (None, DataType.f32)
    if is_plain and (is_tiled(query, key, masking) or (is_half and has_kernel(query, masking))):
        return Attention(in_tiles(emit, query, key, value, scale=scale, masking=masking)[0], key, value, None)
    # The kernel has scores in f32. Large ones, rounded to 16 bits, would give other keys the most weight.
    wide = [cast(emit, operand, DataType.f32) if is_half else operand for operand in (query, key, value)]
    if is_half and precision in (DataType.f16, DataType.bf16):
        precision = None
    attended = in_fusions(emit, *wide, masking=masking, scale=scale, softcap=softcap, precision=precision, stage=stage)
    scores = None if attended.scores is None else rounded(emit, attended.scores, dtype_of(query))
    return Attention(rounded(emit, attended.output, dtype_of(query)), key, value, scores)


def attention_of_cache(
    emit: Emitter,
    query: Value,
    key: Value,
    value: Value,
    *,
    scale: float | None,
    softcap: float,
    masking: Masking,
    sinks: Value | None = None,
) -> Value:
    """:func:`attention` of a cache of which each batch has ``masking.lengths`` keys, by one op.

    The last query is at the last key, or the first one at the first key if there are fewer keys than queries. ``sinks``
    (heads) are the scores of a further key of each head, whose value is 0.
    """
    attrs: dict[str, Any] = {"window": masking.left + 1, **({} if scale is None else {"scale": scale})}
    if softcap:
        attrs["softcap"] = softcap
    mask = None if masking.mask is None else _widened(emit, masking.mask, _known(key, 4)[2])
    ends = [query, key, value, masking.lengths, mask]
    if sinks is None:
        return emit.op("CachedAttention", ends, attrs)
    dst, total = emit.ends("CachedAttention", ends, attrs, outputs=["dst", "logsumexp"])
    away = binary(emit, "Subtract", unsqueeze(emit, total, [3]), reshape(emit, sinks, numbers(1, -1, 1, 1)))
    product = multiply(emit, cast(emit, dst, DataType.f32), unary(emit, "Sigmoid", away))
    return cast(emit, product, dtype_of(query))


def extended(emit: Emitter, past: Value, rows: Value, lengths: Value, total: Value) -> Value:
    """past (batch, heads, tokens, size) with rows as the last ones of ``lengths`` tokens, and room for ``total``."""
    room = known_parts(emit, total)
    size = None if room is None else room[0]
    if size is None:
        return emit.op("ExtendCache", [past, rows, lengths, total], {})
    return emit.op("ExtendCache", [past, rows, lengths], {"room": size})


def in_fusions(
    emit: Emitter,
    query: Value,
    key: Value,
    value: Value,
    *,
    masking: Masking,
    scale: float | None = None,
    softcap: float = 0.0,
    precision: DataType | None = None,
    stage: int | None = None,
) -> Attention:
    """:func:`attention` by the ops that the library fuses, which keeps the scores in memory."""
    batch, heads, tokens, size = _known(query, 4)
    kv_heads, keys = _known(key, 4)[1:3]
    group, dtype = heads // kv_heads, dtype_of(query)
    joint, parts = (batch, heads, tokens, keys), (batch, kv_heads, group * tokens, keys)
    scale = size**-0.5 if scale is None else scale
    rows = query if group == 1 else reshape(emit, query, (batch, kv_heads, group * tokens, size))
    scores = matmul(emit, rows, key, transpose_b=True)
    if scale != 1:
        scores = binary(emit, "Divide", scores, np.full(1, 1 / scale, dtype.numpy))
    stages = [scores if group == 1 else reshape(emit, scores, joint)]
    if softcap > 0:
        capped = unary(emit, "Tanh", multiply(emit, stages[0], filled(1 / softcap, query)))
        stages.append(multiply(emit, capped, filled(softcap, query)))
    else:
        stages.append(stages[0])
    bias, allowed = bias_of(emit, masking, tokens, keys, dtype)
    stages.append(stages[1] if bias is None else add(emit, stages[1], bias))
    wide = precision if precision in NATIVE else dtype
    shares = emit.op("SoftMax", [cast(emit, stages[2], wide)], {"axis": -1}, dtype=wide, outputs=[])
    shares = cast(emit, shares, dtype)
    if allowed is not None:
        shares = select(emit, allowed, shares, filled(0, query))
    stages.append(shares)
    if group != 1:
        shares = reshape(emit, shares, parts)
    weighted = matmul(emit, shares, value)
    if group != 1:
        weighted = reshape(emit, weighted, (batch, heads, tokens, _known(value, 4)[3]))
    return Attention(weighted, key, value, None if stage is None else stages[stage])


def has_kernel(query: Value, masking: Masking) -> bool:
    """Whether the op Attention has this form."""
    fits = masking.lengths is None and masking.right <= 0 and (masking.left < 0 or masking.is_causal)
    return fits and dtype_of(query) in NATIVE


def is_tiled(query: Value, key: Value, masking: Masking) -> bool:
    """Whether the op Attention has this form, and its kernel is faster than the library's fusions."""
    scores = _known(query, 4)[2] * _known(key, 4)[2]
    # The kernel keeps scores in f32. In f16 it is as fast as the fusions, which round scores to f16.
    is_worth = dtype_of(query) is DataType.f16 or scores >= TILED_SCORES[masking.is_causal]
    return has_kernel(query, masking) and is_worth


def in_tiles(
    emit: Emitter, query: Value, key: Value, value: Value, *, scale: float | None, masking: Masking
) -> tuple[Value, Value]:
    """The results of an Attention: the mixed values, and the logarithm of the sum of the exponentials of the scores."""
    mask = masking.mask
    if mask is not None:
        mask = _widened(emit, mask, _known(key, 4)[2])
        mask = mask if dtype_of(mask) is DataType.boolean else cast(emit, mask, dtype_of(query))
    causal = masking.is_causal
    attrs = {"causal": causal, "past": masking.past if causal else 0, "window": masking.left + 1}
    settings = attrs if scale is None else {**attrs, "scale": scale}
    dst, total = emit.ends("Attention", [query, key, value, mask], settings, outputs=["dst", "logsumexp"])
    return dst, total


def bias_of(
    emit: Emitter, masking: Masking, tokens: int, keys: int, dtype: DataType
) -> tuple[Value | None, Value | None]:
    """The numbers to add to the scores, and which rows see a key; None for nothing to add, and for all rows."""
    allowed, bias = _allowed(emit, masking, tokens, keys), None
    mask = masking.mask
    if mask is not None:
        mask = _widened(emit, mask, keys)
        if dtype_of(mask) is DataType.boolean:
            allowed = mask if allowed is None else emit.op("And", [allowed, mask])
        else:
            bias = cast(emit, mask, dtype)
    zero, never = np.zeros((), dtype.numpy), np.full((), -np.inf, dtype.numpy)
    if allowed is not None:
        if isinstance(allowed, np.ndarray):
            closed: Value = np.where(allowed, zero, never)
            bias = closed if bias is None else add(emit, bias, closed)
        else:
            bias = select(emit, allowed, zero if bias is None else bias, never)
    sees_first = mask is None and masking.lengths is None and masking.left < 0 <= masking.past
    if masking.open or sees_first:
        return bias, None
    assert bias is not None
    if isinstance(bias, np.ndarray):
        reachable: Array = np.logical_not(np.isneginf(bias.astype(np.float32)).all(-1, keepdims=True))
        return bias, None if reachable.all() else reachable
    largest = reduce(emit, "ReduceMax", bias, [known_rank(bias) - 1], keep=True)
    # The library's ReduceMax returns the least finite number for a row of minus infinities.
    limits: Any = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    least = np.full((), limits.min, dtype.numpy)
    return bias, emit.op("Greater", [largest, least])


def _allowed(emit: Emitter, masking: Masking, tokens: int, keys: int) -> Value | None:
    """Which keys each query sees by its place, as booleans."""
    if masking.lengths is None and not masking.causal and masking.left < 0 and masking.right < 0:
        return None
    key, values = counted(emit, keys), list[Value]()
    queries = counted(emit, tokens)
    place = queries[:, None] if isinstance(queries, np.ndarray) else emit.op("Unsqueeze", [queries], {"axes": [1]})
    if masking.lengths is None:
        place = add(emit, place, open_factor(emit, masking.past))
    else:
        lengths = reshape(emit, cast(emit, masking.lengths, DataType.s64), numbers(-1, 1, 1, 1))
        values.append(emit.op("Less", [key, lengths]))
        place = emit.op("Add", [lengths, np.arange(tokens, dtype=np.int64)[:, None] - tokens])
    if masking.causal:
        values.append(emit.op("LessEqual", [key, place]))
    if masking.left >= 0:
        values.append(emit.op("GreaterEqual", [key, emit.op("Subtract", [place, np.array(masking.left)])]))
    if masking.right >= 0:
        values.append(emit.op("LessEqual", [key, emit.op("Add", [place, np.array(masking.right)])]))
    allowed = values[0] if values else None
    for condition in values[1:]:
        allowed = emit.op("And", [allowed, condition])
    return allowed


def _widened(emit: Emitter, mask: Value, keys: int) -> Value:
    """A mask with one element for each key; those that it lacks are masked."""
    shape = known_dims(shape_of(mask))
    if not any(shape[-1:]):
        raise Unsettled("the keys of the mask are unknown")
    if shape[-1] in (1, keys):
        return mask
    outside: Array = np.array(False if dtype_of(mask) is DataType.boolean else -np.inf, dtype_of(mask).numpy)
    pads = numbers(*[0] * (2 * len(shape) - 1), keys - shape[-1])
    return emit.op("Pad", [mask, pads, outside], {"mode": "constant"})
