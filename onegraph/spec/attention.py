"""Attention, products around a SoftMax, that the library computes wrong or crashes on as one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .int8_fusions import shifted
from .movement import transposition
from .use import BINARY, VIEWS, Dims, Use

# Attention is fused since 3.3 or later; what is not said of later ones here is right in 3.13.2.
MENDED = (3, 13)
# From here on, a mask must be the second operand: right in 3.6.2, a signal in 3.13.2.
MASK_COMES_SECOND = (3, 7)


def wrong_attention(uses: Sequence[Use], version: tuple[int, int, int]) -> str:
    """Why a library of ``version`` must not run ops with a MatMul and a SoftMax as one kernel; empty where it may.

    Args:
        uses: the ops, in an order in which they can run.
        version: of the library.
    """
    if any(use.kind == "SoftMax" and use.call.s64("axis") not in (-1, len(use.result) - 1) for use in uses):
        return "oneDNN computes attention wrong with a SoftMax along another axis than the last"
    kinds = {use.kind for use in uses}
    if version < MENDED and "Quantize" in kinds and (kinds & VIEWS or shifted(uses)):
        return "oneDNN computes or executes int8 attention wrong with zero points, or with a transpose behind it"
    products = [place for place, use in enumerate(uses) if use.kind == "MatMul"]
    if len(products) < 2:
        return ""
    scores = {*uses[products[0]].outputs}
    for use in uses[products[0] + 1 :]:
        if use.kind == "SoftMax":
            break
        joined = [number in scores for number in use.inputs]
        if not any(joined):
            continue
        scores.update(use.outputs)
        if version >= MASK_COMES_SECOND and use.kind == "Add" and not joined[0]:
            return "oneDNN crashes on attention whose mask is the first operand of the Add"
        if version < MENDED and use.kind in BINARY:
            others = [use.shape(index) for index, inside in enumerate(joined) if not inside]
            scales = use.kind in ("Divide", "Multiply") and all(prod(other) == 1 for other in others)
            if not scales and any(not _is_for_all_heads(other, use.result) for other in others):
                return "oneDNN computes attention wrong with a mask that is not one for all heads of each batch"
    if version < MENDED and len(uses[products[0]].result) > 3:
        return _wrong_shapes(uses, products)
    return ""


def _is_for_all_heads(mask: Dims, scores: Dims) -> bool:
    """Whether what is joined to the scores has a part for each batch, and none for each head."""
    whole = (1,) * (len(scores) - len(mask)) + mask
    return len(scores) < 4 or (whole[0] == scores[0] and prod(whole[1:-2]) == 1)


def _wrong_shapes(uses: Sequence[Use], products: Sequence[int]) -> str:
    """Why attention must not run as one kernel that takes the batches, and the heads' sizes, to be alike."""
    first, second = uses[products[0]], uses[products[-1]]
    batches = {use.shape(index)[0] for use in (first, second) for index in (0, 1)}
    if len(batches) > 1:
        return "oneDNN computes attention wrong whose keys or values are broadcast to the batch of the queries"
    if first.shape(0)[-1] != second.result[-1]:
        return "oneDNN computes attention wrong whose values are of another size than the queries"
    for use in uses[products[-1] :]:
        if use.kind == "StaticTranspose" and (transposition(use.call) or ())[-1:] != (len(use.result) - 1,):
            return "oneDNN computes attention wrong whose result is transposed along its last axis"
    return ""
