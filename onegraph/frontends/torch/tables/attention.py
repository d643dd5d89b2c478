"""Lowers attention."""

from __future__ import annotations

from ....lowering.attention import Masking, attention
from ....lowering.elementwise import multiply
from ....lowering.emitter import Value, dtype_of, is_known
from ....lowering.movement import cast
from ..node import Node, NotLowered, lowers
from .elementwise import native
from .norms import finite


@lowers("_scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention(node: Node) -> list[Value | None]:
    """softmax(query @ key.T * scale + mask) @ value, as the pattern that the library fuses."""
    if node["dropout_p"]:
        raise NotLowered("dropout draws random numbers")
    query, key, value = (native(node, name) for name in ("query", "key", "value"))
    mask, factor = node["attn_mask"], None
    if mask is not None and not is_known(mask):
        mask, factor = finite(node, cast(node.emit, mask, dtype_of(query)))
    masking = Masking(mask=mask, causal=bool(node["is_causal"]), open=factor is not None)
    found = attention(node.emit, query, key, value, scale=node["scale"], masking=masking).output
    return [found if factor is None else multiply(node.emit, found, factor), None]
