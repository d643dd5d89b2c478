"""Attention, products around a SoftMax: what of it the library computes wrong or crashes on as one kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ..opset.ops.movement import transposition
from .use import BINARY, Dims, Use

# Attention is fused since 3.3 or later; what is not said of later ones is right in 3.13.2.
MENDED = (3, 13)


def along_another_axis(uses: Sequence[Use]) -> bool:
    """Whether a SoftMax does not go along the last axis."""
    return any(use.kind == "SoftMax" and use.call.s64("axis") not in (-1, len(use.result) - 1) for use in uses)


def masked_from_the_left(uses: Sequence[Use]) -> bool:
    """Whether a mask is the first operand of the Add."""
    return any(use.kind == "Add" and not inside[0] for use, inside in _joined(uses))


def masked_by_head(uses: Sequence[Use]) -> bool:
    """Whether a mask is not one for all heads of each batch."""
    return any(_has_other_masks(use, inside) for use, inside in _joined(uses) if use.kind in BINARY)


def broadcast_to_queries(uses: Sequence[Use]) -> bool:
    """Whether keys or values have another number of batches than the queries."""
    ends = _products_by_head(uses)
    return len({use.shape(index)[0] for use in ends for index in (0, 1)}) > 1


def sized_otherwise(uses: Sequence[Use]) -> bool:
    """Whether the values are of another size than the queries."""
    ends = _products_by_head(uses)
    return bool(ends) and ends[0].shape(0)[-1] != ends[-1].result[-1]


def transposed_at_last(uses: Sequence[Use]) -> bool:
    """Whether the last axis of the result gets another place."""
    if not _products_by_head(uses):
        return False
    last = max(place for place, use in enumerate(uses) if use.kind == "MatMul")
    return any(
        use.kind == "StaticTranspose" and (transposition(use.call) or ())[-1:] != (len(use.result) - 1,)
        for use in uses[last:]
    )


def _products(uses: Sequence[Use]) -> list[Use]:
    """The products, where there are those on both sides of a SoftMax."""
    found = [use for use in uses if use.kind == "MatMul"]
    return found if len(found) > 1 and any(use.kind == "SoftMax" for use in uses) else []


def _products_by_head(uses: Sequence[Use]) -> list[Use]:
    """The products, where they have axes for both batches and heads."""
    found = _products(uses)
    return found if found and len(found[0].result) > 3 else []


def _joined(uses: Sequence[Use]) -> Iterator[tuple[Use, list[bool]]]:
    """The ops on the scores before the SoftMax, and for each of their inputs whether it is of the scores."""
    products = _products(uses)
    if not products:
        return
    scores = {*products[0].outputs}
    for use in uses[uses.index(products[0]) + 1 :]:
        if use.kind == "SoftMax":
            return
        inside = [number in scores for number in use.inputs]
        if any(inside):
            scores.update(use.outputs)
            yield use, inside


def _has_other_masks(use: Use, inside: Sequence[bool]) -> bool:
    others = [use.shape(index) for index, joined in enumerate(inside) if not joined]
    if use.kind in ("Divide", "Multiply") and all(prod(other) == 1 for other in others):
        return False  # scales
    return any(not _is_for_all_heads(other, use.result) for other in others)


def _is_for_all_heads(mask: Dims, scores: Dims) -> bool:
    """Whether what is joined to the scores has a part for each batch, and none for each head."""
    whole = (1,) * (len(scores) - len(mask)) + mask
    return len(scores) < 4 or (whole[0] == scores[0] and prod(whole[1:-2]) == 1)
