"""Recognizes attention that a model spells out, if it is long enough for the kernel, or heads share keys and values."""

from __future__ import annotations

import numpy as np

from ...ir.op import LogicalTensor, Op
from ...opset.dtypes import DataType
from ...opset.shapes import known, known_dims
from ..attention import Masking, has_kernel, in_fusions, in_tiles, is_tiled
from ..emitter import Emitter, Value, dtype_of, rank_of, shape_of
from ..movement import reshape, transpose
from .table import contents, either, ends_of, made, number, operand_of, rewrites

HALVES = frozenset([DataType.bf16, DataType.f16])
HIDDEN = -1e30  # a mask below this number hides a key: beside any other score its exponential is 0


@rewrites("MatMul", of_known_dims=True)
def spelled_out(emit: Emitter, op: Op) -> Value | None:
    """softmax(query @ key.T / number + mask) @ value.

    Scores in 16 bits become f32: the rounding of large scores would give other keys the most weight.

    A query whose mask is minus infinity for all keys gets 0, as Attention says, in the place of NaN.
    """
    shares, value = ends_of(op)
    replaced = made(emit, shares, "ReplaceNaN")
    if replaced is not None and number(replaced.inputs[1]) == 0:
        shares = operand_of(replaced)
    softmax = made(emit, _before_cast(emit, shares), "SoftMax")
    if softmax is None or len(op.inputs) > 2 or op.attrs.get("transpose_a") or op.attrs.get("transpose_b"):
        return None
    scores = _before_cast(emit, operand_of(softmax))
    if softmax.attrs.get("axis", 1) not in (-1, 3):
        return None
    added = made(emit, scores, "Add")
    for inner, mask in ((scores, None),) if added is None else either(added):
        scaled = _scaled(emit, _before_cast(emit, inner))
        if scaled is None:
            continue
        query, key, scale = scaled
        masking = Masking(causal=True) if _is_causal(mask) else Masking(mask)
        if not _fits(query, key, value, scores, masking.mask):
            continue
        shared = [_shared(emit, operand) for operand in (key, value)]
        own_key, own_value = shared if shared[0][1] == shared[1][1] else ((key, 1), (value, 1))
        if is_tiled(query, key, masking) or (query.dtype in HALVES and has_kernel(query, masking)):
            return in_tiles(emit, query, own_key[0], own_value[0], scale=scale, masking=masking)[0]
        if own_key[1] > 1 and replaced is None and scale:
            open_masking = Masking(mask, open=True)  # where a mask hides all keys, the model computes NaN
            return in_fusions(emit, query, own_key[0], own_value[0], scale=scale, masking=open_masking).output
    return None


def _before_cast(emit: Emitter, value: LogicalTensor) -> LogicalTensor:
    """The 16-bit or f32 numbers that a TypeCast reads; any other value itself.

    Models compute a SoftMax of 16-bit scores in f32. The kernel has f32 scores, and rounds none.
    """
    op = made(emit, value, "TypeCast")
    return value if op is None else operand_of(op)


def _shared(emit: Emitter, heads: LogicalTensor) -> tuple[Value, int]:
    """Keys or values before each of them is repeated for several heads of the query, and for how many."""
    joined = made(emit, heads, "StaticReshape", "Reshape")
    repeated = None if joined is None else made(emit, joined.inputs[0], "Expand")
    if repeated is None:
        return heads, 1
    src = operand_of(repeated)
    shape, wide = src.shape, repeated.outputs[0].shape
    if not known(shape) or not known(wide) or len(shape) != 5 or shape[2] != 1:
        return heads, 1
    (batch, own, _, *tail), count = shape, wide[2]
    if wide != (batch, own, count, *tail) or heads.shape != (batch, own * count, *tail):
        return heads, 1
    return reshape(emit, src, (batch, own, *tail)), count


def _scaled(emit: Emitter, scores: LogicalTensor) -> tuple[LogicalTensor, LogicalTensor, float] | None:
    """query, key and the factor of scores that are a product times a number, or divided by one."""
    scale = 1.0
    divided, scaled = made(emit, scores, "Divide"), made(emit, scores, "Multiply")
    if divided is not None and (divisor := number(divided.inputs[1])):
        scores, scale = operand_of(divided), 1 / divisor
    elif scaled is not None:
        for inner, operand_ in either(scaled):
            if (factor := number(operand_)) is not None:
                scores, scale = inner, factor
    product = made(emit, scores, "MatMul")
    if product is None or len(product.inputs) > 2 or product.attrs.get("transpose_a"):
        return None
    query, key = ends_of(product)
    if rank_of(key) != 4:
        return None
    if not product.attrs.get("transpose_b"):
        key = emit.tensor(transpose(emit, key, (0, 1, 3, 2)))
    return query, key, scale


def _is_causal(mask: LogicalTensor | None) -> bool:
    """Whether a mask is known to hide from query t the keys behind key t, and nothing else."""
    mask_values = contents(mask)
    if mask_values is None or mask_values.ndim < 2 or mask_values.size != mask_values.shape[-2] * mask_values.shape[-1]:
        return False
    rows = mask_values.reshape(mask_values.shape[-2:]).astype(np.float32)
    visible = np.tril(np.ones(rows.shape, bool))
    return not rows[visible].any() and bool((rows[~visible] < HIDDEN).all())


def _fits(
    query: LogicalTensor, key: LogicalTensor, value: LogicalTensor, scores: LogicalTensor, mask: Value | None
) -> bool:
    """Whether these are the operands of an Attention with these scores, with known sizes."""
    first, second, third = shapes = [known_dims(one.shape) for one in (query, key, value)]
    if any(len(shape) != 4 or 0 in shape for shape in shapes):
        return False
    # A mask that has more queries or keys widens the scores.
    is_whole = first[:2] == second[:2] == third[:2] and scores.shape == (*first[:3], second[2])
    fits = mask is None or (known(shape_of(mask)) and dtype_of(mask) is query.dtype)
    return is_whole and fits and query.dtype is key.dtype is value.dtype
