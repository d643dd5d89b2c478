"""Attention, products around a SoftMax, as one kernel. oneDNN fuses it since 3.3 or later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.ops.movement import transposition
from ..fault import UNSAFE, Faults
from ..use import BINARY, VIEWS, Dims, Fused, Use
from .quantized_uses import shifted

FAULTS = Faults[Fused](severity=UNSAFE, instead="the ops one by one")
# The condition holds for 3.2 too, which does not fuse attention.
SEEN = {(3, 2): "right", (3, 6): "wrong", (3, 13): "right"}
SINCE = (3, 2)
HEADS = (2, 2, 4, 8)


def _attention(
    g: DataGraph,
    mask: tuple[int, ...] | None = None,
    *,
    first: bool = False,
    keys: tuple[int, int] = (2, 4),
    values: int = 8,
    axis: int = -1,
    scale: tuple[int, ...] | None = None,
) -> LogicalTensor:
    """Of two batches with four heads: a mask, first or second in its Add; the batch of the keys; the size of values."""
    q, k = g.input("q", "f32", (2, 4, 5, 8)), g.input("k", "f32", (*keys, 7, 8))
    scores = g.matmul(q, k, transpose_b=True)
    if scale is not None:
        scores = g.multiply(scores, g.input("scale", "f32", scale))
    if mask is not None:
        pair = [scores, g.input("mask", "f32", mask)]
        scores = g.op("Add", pair[::-1] if first else pair)
    shares = g.op("SoftMax", [scores], {"axis": axis}, outputs=["dst"], dtype="f32")
    return g.matmul(shares, g.input("v", "f32", (*keys, 7, values)))


def along_another_axis(uses: Sequence[Use]) -> bool:
    """Whether a SoftMax does not go along the last axis."""
    return any(use.kind == "SoftMax" and use.call.s64("axis") not in (-1, len(use.result) - 1) for use in uses)


ALONG_ANOTHER_AXIS = FAULTS.add(
    "attention_along_another_axis",
    ops="SoftMax",
    when=lambda fused: fused.has("MatMul") and along_another_axis(fused.uses),
    seen={(3, 2): "right", (3, 6): "wrong", (3, 13): "wrong"},
    reason="oneDNN computes attention wrong with a SoftMax along another axis than the last",
    since=SINCE,
)


@ALONG_ANOTHER_AXIS.example({(3, 2): "right", (3, 6): "wrong", (3, 13): "right"})
def attention_along_the_queries(g: DataGraph) -> LogicalTensor:
    return _attention(g, axis=2)


INT8_ATTENTION = FAULTS.add(
    "int8_attention",
    ops="SoftMax",
    when=lambda fused: fused.has("MatMul", "Quantize") and (fused.some(VIEWS) or shifted(fused.uses)),
    seen={(3, 2): "right", (3, 6): "wrong | throws", (3, 13): "right"},
    reason="oneDNN computes or executes int8 attention wrong with zero points, or with a transpose behind it",
    since=SINCE,
)


def _int8_attention(g: DataGraph, zero_point: int, dtype: str) -> LogicalTensor:
    q, k, v = (g.dequantize(g.input(name, "s8", HEADS), scales=[0.02], zps=[0]) for name in "qkv")
    shares = g.op("SoftMax", [g.matmul(q, k, transpose_b=True)], {"axis": -1}, outputs=["dst"], dtype="f32")
    shares = g.quantize(shares, scales=[0.01], zps=[zero_point], dtype="u8")
    mixed = g.matmul(g.dequantize(shares, scales=[0.01], zps=[zero_point]), v)
    joined = g.static_reshape(g.static_transpose(mixed, order=[0, 2, 1, 3]), shape=[2, 4, 16], special_zero=False)
    return g.quantize(joined, scales=[0.01], zps=[0], dtype=dtype)


@INT8_ATTENTION.example({(3, 2): "right", (3, 6): "right", (3, 13): "right"}, on={"no VNNI": "wrong | right"})
def int8_attention_transposed(g: DataGraph) -> LogicalTensor:
    return _int8_attention(g, 0, "u8")


@INT8_ATTENTION.example(on={"no VNNI": "wrong | right | throws could not execute"})
def int8_attention_with_a_zero_point(g: DataGraph) -> LogicalTensor:
    return _int8_attention(g, 1, "s8")


def masked_from_the_left(uses: Sequence[Use]) -> bool:
    """Whether a mask is the first operand of the Add."""
    return any(use.kind == "Add" and not inside[0] for use, inside in _joined(uses))


MASKED_FROM_THE_LEFT = FAULTS.add(
    "attention_masked_from_the_left",
    ops="SoftMax",
    when=lambda fused: masked_from_the_left(fused.uses),
    seen={(3, 2): "right", (3, 6): "right", (3, 13): "SIGSEGV"},
    reason="oneDNN crashes on attention whose mask is the first operand of the Add",
)


@MASKED_FROM_THE_LEFT.example()
def the_mask_comes_first(g: DataGraph) -> LogicalTensor:
    return _attention(g, (2, 1, 1, 7), first=True)


def masked_by_head(uses: Sequence[Use]) -> bool:
    """Whether a mask is not one for all heads of each batch."""
    return any(_has_other_masks(use, inside) for use, inside in _joined(uses) if use.kind in BINARY)


MASKED_BY_HEAD = FAULTS.add(
    "attention_masked_by_head",
    ops="SoftMax",
    when=lambda fused: masked_by_head(fused.uses),
    seen=SEEN,
    reason="oneDNN computes attention wrong with a mask that is not one for all heads of each batch",
    since=SINCE,
)


@MASKED_BY_HEAD.example({(3, 2): "right", (3, 6): "SIGSEGV", (3, 13): "right"})
def one_mask_for_all_batches(g: DataGraph) -> LogicalTensor:
    return _attention(g, (1, 1, 1, 7))


@MASKED_BY_HEAD.example({(3, 2): "right", (3, 6): "SIGSEGV", (3, 13): "right"})
def a_mask_for_each_head(g: DataGraph) -> LogicalTensor:
    return _attention(g, (1, 4, 5, 7))


def broadcast_to_queries(uses: Sequence[Use]) -> bool:
    """Whether keys or values have another number of batches than the queries."""
    ends = _products_by_head(uses)
    return len({use.shape(index)[0] for use in ends for index in (0, 1)}) > 1


BROADCAST_TO_QUERIES = FAULTS.add(
    "attention_broadcast_to_queries",
    ops="SoftMax",
    when=lambda fused: broadcast_to_queries(fused.uses),
    seen=SEEN,
    reason="oneDNN computes attention wrong whose keys or values are broadcast to the batch of the queries",
    since=SINCE,
)


@BROADCAST_TO_QUERIES.example({(3, 2): "right", (3, 6): "SIGSEGV", (3, 13): "right"})
def keys_for_all_batches(g: DataGraph) -> LogicalTensor:
    return _attention(g, (2, 1, 1, 7), keys=(1, 4))


def sized_otherwise(uses: Sequence[Use]) -> bool:
    """Whether the values are of another size than the queries."""
    ends = _products_by_head(uses)
    return bool(ends) and ends[0].shape(0)[-1] != ends[-1].result[-1]


SIZED_OTHERWISE = FAULTS.add(
    "attention_sized_otherwise",
    ops="SoftMax",
    when=lambda fused: sized_otherwise(fused.uses),
    seen=SEEN,
    reason="oneDNN computes attention wrong whose values are of another size than the queries",
    since=SINCE,
)


@SIZED_OTHERWISE.example()
def long_values(g: DataGraph) -> LogicalTensor:
    return _attention(g, (2, 1, 1, 7), values=12)


def scaled_by_element(uses: Sequence[Use]) -> bool:
    """Whether the scores are multiplied or divided by more than one number."""
    return any(
        prod(use.shape(index)) != 1
        for use, inside in _joined(uses)
        if use.kind in ("Divide", "Multiply")
        for index, joined in enumerate(inside)
        if not joined
    )


SCALED_BY_ELEMENT = FAULTS.add(
    "attention_scaled_by_element",
    ops="SoftMax",
    when=lambda fused: scaled_by_element(fused.uses),
    seen={(3, 2): "right", (3, 6): "wrong", (3, 13): "right"},
    reason="oneDNN takes the first element of a scale of attention for all of them",
    since=SINCE,
    mended=(3, 7),
)


@SCALED_BY_ELEMENT.example()
def a_scale_for_each_key(g: DataGraph) -> LogicalTensor:
    return _attention(g, scale=(2, 1, 1, 7))


@SCALED_BY_ELEMENT.example()
def a_scale_for_each_query(g: DataGraph) -> LogicalTensor:
    return _attention(g, scale=(2, 1, 5, 1))


def transposed_at_last(uses: Sequence[Use]) -> bool:
    """Whether the last axis of the result gets another place."""
    if not _products_by_head(uses):
        return False
    last = max(place for place, use in enumerate(uses) if use.kind == "MatMul")
    return any(
        use.kind == "StaticTranspose" and (transposition(use.call) or ())[-1:] != (len(use.result) - 1,)
        for use in uses[last:]
    )


TRANSPOSED_AT_LAST = FAULTS.add(
    "attention_transposed_at_last",
    ops="SoftMax",
    when=lambda fused: transposed_at_last(fused.uses),
    seen=SEEN,
    reason="oneDNN computes attention wrong whose result is transposed along its last axis",
    since=SINCE,
)


@TRANSPOSED_AT_LAST.example()
def attention_transposed_along_the_last_axis(g: DataGraph) -> LogicalTensor:
    return g.reorder(g.static_transpose(_attention(g, (2, 1, 1, 7)), order=[0, 3, 1, 2]))


# What the conditions have in common ----------------------------------------------------------------------------------


def _products(uses: Sequence[Use]) -> list[Use]:
    """The products, where there are those on both sides of a SoftMax."""
    products = [use for use in uses if use.kind == "MatMul"]
    return products if len(products) > 1 and any(use.kind == "SoftMax" for use in uses) else []


def _products_by_head(uses: Sequence[Use]) -> list[Use]:
    """The products, where they have axes for both batches and heads."""
    products = _products(uses)
    return products if products and len(products[0].result) > 3 else []


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
    masks = [use.shape(index) for index, joined in enumerate(inside) if not joined]
    if use.kind in ("Divide", "Multiply") and all(prod(other) == 1 for other in masks):
        return False  # scales
    return any(not _is_for_all_heads(other, use.result) for other in masks)


def _is_for_all_heads(mask: Dims, scores: Dims) -> bool:
    """Whether what is joined to the scores has a part for each batch, and none for each head."""
    whole = (1,) * (len(scores) - len(mask)) + mask
    return len(scores) < 4 or (whole[0] == scores[0] and prod(whole[1:-2]) == 1)
