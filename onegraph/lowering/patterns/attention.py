"""Recognizes attention that a model spells out, if it is long enough for the kernel."""

from __future__ import annotations

import numpy as np

from ...ir.op import LogicalTensor, Op
from ..attention import Masking, in_tiles, is_tiled
from ..emitter import Emitter, Value
from ..movement import NATIVE, transpose
from .table import contents, either, made, number, rewrites

HIDDEN = -1e30  # a mask below this number hides a key: beside any other score its exponential is 0


@rewrites("MatMul")
def spelled_out(emit: Emitter, op: Op) -> Value | None:
    """softmax(query @ key.T / number + mask) @ value.

    A query whose mask is minus infinity for all keys gets 0, as Attention says, in the place of NaN.
    """
    shares, value = op.inputs[0], op.inputs[1]
    replaced = made(emit, shares, "ReplaceNaN")
    if replaced is not None and number(replaced.inputs[1]) == 0:
        shares = replaced.inputs[0]
    softmax = made(emit, shares, "SoftMax")
    if (
        softmax is None
        or value is None
        or len(op.inputs) > 2
        or op.attrs.get("transpose_a")
        or op.attrs.get("transpose_b")
    ):
        return None
    scores = softmax.inputs[0]
    if scores is None or softmax.attrs.get("axis", 1) not in (-1, 3) or value.dtype is not scores.dtype:
        return None
    added = made(emit, scores, "Add")
    for inner, mask in ((scores, None),) if added is None else either(added):
        found = _scaled(emit, inner)
        if found is None:
            continue
        query, key, scale = found
        masking = Masking(causal=True) if _is_causal(mask) else Masking(mask)
        if _fits(query, key, value, mask) and is_tiled(query, key, masking):
            return in_tiles(emit, query, key, value, scale=scale, masking=masking)[0]
    return None


def _scaled(emit: Emitter, scores: LogicalTensor | None) -> tuple[LogicalTensor, LogicalTensor, float] | None:
    """query, key and the factor of scores that are a product times a number, or divided by one."""
    scale = 1.0
    divided, scaled = made(emit, scores, "Divide"), made(emit, scores, "Multiply")
    if divided is not None and (divisor := number(divided.inputs[1])):
        scores, scale = divided.inputs[0], 1 / divisor
    elif scaled is not None:
        for inner, other in either(scaled):
            if (factor := number(other)) is not None:
                scores, scale = inner, factor
    product = made(emit, scores, "MatMul")
    if product is None or len(product.inputs) > 2 or product.attrs.get("transpose_a"):
        return None
    query, key = product.inputs
    if query is None or key is None or key.shape is None or len(key.shape) != 4:
        return None
    if not product.attrs.get("transpose_b"):
        key = emit.tensor(transpose(emit, key, (0, 1, 3, 2)))
    return query, key, scale


def _is_causal(mask: LogicalTensor | None) -> bool:
    """Whether a mask is known to hide from query t the keys behind key t, and nothing else."""
    known = contents(mask)
    if known is None or known.ndim < 2 or known.size != known.shape[-2] * known.shape[-1]:
        return False
    rows = known.reshape(known.shape[-2:]).astype(np.float32)
    seen = np.tril(np.ones(rows.shape, bool))
    return not rows[seen].any() and bool((rows[~seen] < HIDDEN).all())


def _fits(query: LogicalTensor, key: LogicalTensor, value: LogicalTensor, mask: LogicalTensor | None) -> bool:
    """Whether these are the operands of an Attention, with known sizes."""
    shapes = query.shape, key.shape, value.shape
    if any(shape is None or len(shape) != 4 or None in shape for shape in shapes):
        return False
    first, second, third = (tuple(shape or ()) for shape in shapes)
    is_whole = first[:2] == second[:2] == third[:2] and first[3] == second[3] and second[2] == third[2]
    scores = (*first[:3], second[2])
    if mask is not None:
        dims = mask.shape
        if dims is None or len(dims) > 4 or mask.dtype not in NATIVE:
            return False
        is_whole = is_whole and all(a in (1, b) for a, b in zip(reversed(dims), reversed(scores), strict=False))
    return is_whole and query.dtype is key.dtype is value.dtype
