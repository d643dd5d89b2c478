"""Lowers nodes of transformers."""

from __future__ import annotations

from ....lowering import attention as lowering
from ....lowering.attention import Masking
from ....lowering.emitter import Value, shape_of
from ..node import Node, Unsettled, lowers
from ..types import data_type
from .layers import native
from .norms import results_wanted


@lowers("Attention")
def attention(node: Node) -> tuple[Value | None, ...]:
    """Scaled dot product attention with caches, masks, groups of heads, and the scores as an output."""
    native(node)
    emit, flat = node.emit, node.rank() == 3
    query, key, value = (node.value(index) for index in range(3))
    if flat:
        query = lowering.heads_apart(emit, query, node.attr("q_num_heads"))
        key, value = (lowering.heads_apart(emit, one, node.attr("kv_num_heads")) for one in (key, value))
    before = node.optional(4), node.optional(5)
    past = None if before[0] is None or before[1] is None else (before[0], before[1])
    start = 0 if past is None else (shape_of(past[0]) or (None,) * 4)[2]
    causal = bool(node.attr("is_causal", 0))
    if start is None and (causal or node.has("left_window_size") or node.has("right_window_size")):
        raise Unsettled("an unknown number of earlier keys")
    masking = Masking(
        node.optional(3),
        causal,
        node.attr("left_window_size", -1),
        node.attr("right_window_size", -1),
        node.optional(6),
        start or 0,
    )
    attended = lowering.attention(
        emit,
        query,
        key,
        value,
        scale=node.attr("scale"),
        softcap=node.attr("softcap", 0.0),
        masking=masking,
        past=past,
        precision=data_type(node.attr("softmax_precision"), node.where) if node.has("softmax_precision") else None,
        stage=node.attr("qk_matmul_output_mode", 0) if results_wanted(node) > 3 else None,
    )
    output = lowering.heads_together(emit, attended.output) if flat else attended.output
    return (output, attended.key, attended.value, attended.scores)[: len(node.proto.output)]
