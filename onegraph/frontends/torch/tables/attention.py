"""Lowers attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...._util.open_sizes import is_open
from ....lowering.attention import Masking, has_kernel, in_fusions, in_tiles, is_tiled
from ....lowering.elementwise import multiply
from ....lowering.emitter import Value, dtype_of, is_known
from ....lowering.movement import cast
from ....opset.dtypes import DataType
from ..node import AtenNode, NotLowered, lowers
from .elementwise import native
from .norms import finite


def _operands(node: AtenNode) -> tuple[Value, Value, Value]:
    """query, key and value."""
    if node["dropout_p"]:
        raise NotLowered("dropout draws random numbers")
    query, key, value = (native(node, name) for name in ("query", "key", "value"))
    return query, key, value


@lowers("_scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention(node: AtenNode) -> list[Value | None]:
    """softmax(query @ key.T * scale + mask) @ value, and the logarithm of the sum of the exponentials of the scores.

    In inference, short sequences of f32 are the pattern that the library fuses. In 16 bits it would round the scores,
    which PyTorch and the kernel keep in f32.
    """
    query, key, value = _operands(node)
    mask, factor = node["attn_mask"], None
    masking = Masking(mask, bool(node["is_causal"]))
    is_opened = node.emit.opened is not None and is_open((node.shape("query")[-2], node.shape("key")[-2]))
    is_half = dtype_of(query) is not DataType.f32
    if 1 in node.read or (has_kernel(query, masking) if is_opened or is_half else is_tiled(query, key, masking)):
        return [*in_tiles(node.emit, query, key, value, scale=node["scale"], masking=masking)]
    if mask is not None and not is_known(mask):
        mask, factor = finite(node, cast(node.emit, mask, dtype_of(query)))
    masking = replace(masking, mask=mask, open=factor is not None)
    result = in_fusions(node.emit, query, key, value, scale=node["scale"], masking=masking).output
    return [result if factor is None else multiply(node.emit, result, factor), None]


@lowers("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def flash_attention_backward(node: AtenNode) -> Sequence[Value]:
    """The gradients of query, key and value."""
    operands, emit = _operands(node), node.emit
    dst, diff = native(node, "out"), native(node, "grad_out")
    total = cast(emit, node.value("logsumexp"), DataType.f32)
    mask = node["attn_mask"]
    masks = {"causal": bool(node["is_causal"])}
    attrs = masks if node["scale"] is None else {**masks, "scale": node["scale"]}
    return emit.ends("AttentionBackward", [*operands, dst, total, diff, mask], attrs)
