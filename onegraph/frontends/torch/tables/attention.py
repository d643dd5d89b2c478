"""Lowers attention."""

from __future__ import annotations

from ....lowering.attention import Masking, attention
from ....lowering.emitter import Value
from ..node import Node, NotLowered, lowers
from .elementwise import native


@lowers("_scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention(node: Node) -> list[Value | None]:
    """softmax(query @ key.T * scale + mask) @ value, as the pattern that the library fuses."""
    if node["dropout_p"]:
        raise NotLowered("dropout draws random numbers")
    query, key, value = (native(node, name) for name in ("query", "key", "value"))
    masking = Masking(mask=node["attn_mask"], causal=bool(node["is_causal"]))
    found = attention(node.emit, query, key, value, scale=node["scale"], masking=masking)
    return [found.output, None]
