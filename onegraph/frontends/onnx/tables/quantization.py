"""Lowers nodes of quantized models."""

from __future__ import annotations

from ....opset.dtypes import DataType
from ...lowering.elementwise import multiply
from ...lowering.emitter import Value, numbers
from ...lowering.movement import cast, reshape
from ..node import Node, NotLowered, lowers
from ..types import data_type

EIGHT_BITS = frozenset([DataType.s8, DataType.u8])


def _scales(node: Node) -> dict[str, object]:
    """The attributes of Quantize and Dequantize."""
    scales, points, rank = node.known(1), node.known(2), node.rank()
    if scales is None or node.attr("block_size", 0):
        raise NotLowered("scales of blocks")
    if scales.dtype != "f4":
        raise NotLowered(f"scales of {scales.dtype}")
    zeros = [0] * scales.size if points is None else points.reshape(-1).astype(int).tolist()
    attrs: dict[str, object] = {"scales": scales.reshape(-1).tolist(), "zps": zeros}
    if (scales.size == 1 and scales.ndim == 0) or rank == 0:
        return {**attrs, "qtype": "per_tensor"}
    if scales.ndim == 1 and scales.size == 1:
        return {**attrs, "qtype": "per_tensor"}
    return {**attrs, "qtype": "per_channel", "axis": node.attr("axis", 1) % rank}


@lowers("QuantizeLinear")
def quantize(node: Node) -> Value:
    """A Quantize."""
    points = node.optional(2)
    wanted = data_type(node.attr("output_dtype"), node.where) if node.attr("output_dtype", 0) else DataType.u8
    wanted = wanted if points is None else node.dtype(2)
    if wanted not in EIGHT_BITS or node.dtype() is not DataType.f32:
        raise NotLowered(f"a Quantize from {node.dtype()} to {wanted}")
    found: Value = node.emit.op("Quantize", [node.value(0)], _scales(node), dtype=wanted)
    return found


@lowers("DequantizeLinear")
def dequantize(node: Node) -> Value:
    """A Dequantize, or for s32 a product with the scale."""
    if node.dtype() is DataType.s32 and node.optional(2) is None:
        scale, rank = node.value(1), node.rank()
        if (scale.shape is not None and len(scale.shape)) and rank > 1:
            axis = node.attr("axis", 1) % rank
            scale = reshape(node.emit, scale, numbers(-1, *[1] * (rank - 1 - axis)))
        return multiply(node.emit, cast(node.emit, node.value(0), DataType.f32), scale)
    if node.dtype() not in EIGHT_BITS:
        raise NotLowered(f"a Dequantize of {node.dtype()}")
    found: Value = node.emit.op("Dequantize", [node.value(0)], _scales(node))
    return found
