"""Lowers nodes of ONNX Runtime with weights of 2, 4 and 8 bits that are packed into bytes."""

from __future__ import annotations

import numpy as np

from ....arrays.packed_codes import packed
from ....lowering import integer_products, quantization
from ....lowering import packed as lowering
from ....lowering.elementwise import add, multiply
from ....lowering.emitter import Array, Value
from ....lowering.movement import cast
from ....opset.dtypes import DataType
from ..node import Node, NotLowered, lowers
from .contrib import DOMAIN
from .layers import native

LEAST_BLOCK = 16
BITS = (2, 4, 8)
CODES_LEVEL = 4  # accuracy_level: the activations may become 8-bit codes


def _stored(node: Node, index: int, shape: tuple[int, ...], name: str) -> Array:
    """The contents of an input in a shape, whose elements it must have."""
    found = node.known(index)
    assert found is not None
    if found.size != np.prod(shape):
        raise node.invalid(f"{name} of shape {list(found.shape)}", f"{[*shape]}")
    return found.reshape(shape)


@lowers("MatMulNBits", domain=DOMAIN)
def matmul_n_bits(node: Node) -> Value:
    """A product by packed weights with a scale for each block of a column."""
    native(node)
    bits, block, depth, columns = node.attr("bits", 4), node.attr("block_size"), node.attr("K"), node.attr("N")
    if bits not in BITS or block < LEAST_BLOCK or block & (block - 1):
        raise node.invalid(f"bits {bits} and block_size {block}", "bits 2, 4 or 8, and a power of 2 from 16 on")
    if node.attr("weight_prepacked", 0):
        raise NotLowered("weights that ONNX Runtime has packed for its own kernel")
    blocks = -(-depth // block)
    src = node.shape()
    if src and src[-1] not in (None, depth):
        raise node.invalid(f"A of shape {list(src)}", f"{depth}, K, as its last dim")
    order = node.known(4)
    if order is not None and not np.array_equal(order.reshape(-1), np.arange(order.size) // block):
        raise NotLowered("g_idx, the blocks of the rows in another order")
    weights = _stored(node, 1, (columns, blocks * block * bits // 8), "B")
    if weights.dtype != np.uint8:
        raise node.invalid(f"B of {weights.dtype}", "uint8")
    scales = _stored(node, 2, (columns, blocks), "scales")
    zps = _points(node, bits, columns, blocks)
    found = lowering.packed_matmul(
        node.emit,
        node.value(0),
        lowering.two_bits_as_four(weights) if bits == min(BITS) else weights,
        scales,
        zps,
        coding="u8" if bits == max(BITS) else "u4",
        group=block if blocks > 1 else 0,
        zero=1 << (bits - 1),
        in_codes=node.attr("accuracy_level", 0) == CODES_LEVEL,
    )
    return found if node.optional(5) is None else add(node.emit, found, node.value(5))


def _points(node: Node, bits: int, columns: int, blocks: int) -> Array | None:
    """Zero points (columns, blocks); None if there are none."""
    known = node.known(3) if node.optional(3) is not None else None
    if known is None:
        return None
    if known.dtype != np.uint8:
        return _stored(node, 3, (columns, blocks), "zero_points")
    size = -(-blocks * bits // 8)
    return lowering.unpacked_points(_stored(node, 3, (columns, size), "zero_points"), bits, blocks)


@lowers("GatherBlockQuantized", domain=DOMAIN)
def gather_block_quantized(node: Node) -> Value:
    """Rows of a table of codes with a scale for each block of a row."""
    data, scales = node.known(0), node.known(2)
    block, bits = node.attr("block_size", 128), node.attr("bits", 4)
    if data is None or scales is None or (node.optional(3) is not None and node.known(3) is None):
        raise NotLowered("a table that is no constant")
    is_bytes = data.dtype == np.uint8
    name = {"uint8": f"u{bits}", "int4": "s4", "uint4": "u4"}.get(str(data.dtype), "")
    axes = node.attr("gather_axis", 0), node.attr("quantize_axis", 1) % max(data.ndim, 1)
    if name not in ("s4", "u4", "u8") or data.ndim != len(("rows", "codes")) or axes != (0, 1):
        raise NotLowered("a table that is not (rows, codes) of 4 or 8 bits with blocks along its rows")
    half = 1 << (bits - 1)
    depth = data.shape[1] * (8 // bits) if is_bytes else data.shape[1]
    blocks = -(-depth // block)
    if scales.shape != (len(data), blocks):
        raise node.invalid(f"scales of shape {list(scales.shape)}", f"{[len(data), blocks]}, one for each block")
    zps = node.known(3) if node.optional(3) is not None else None
    if zps is not None:
        rows = zps if is_bytes else packed(zps, 4)[:, : -(-blocks // 2)]
        if is_bytes and zps.shape != (len(data), -(-blocks * bits // 8)):
            raise node.invalid(f"zero_points of shape {list(zps.shape)}", "as many as scales")
        points = lowering.unpacked_points(rows, bits, blocks).astype(np.int8 if name == "s4" else np.uint8)
        zps = (points ^ half) - np.int8(half) if name == "s4" else points
    return lowering.packed_gather(
        node.emit,
        data if is_bytes else packed(data, 4)[:, : -(-depth // 2)],
        node.value(1),
        scales,
        zps,
        coding=name,
        group=block if blocks > 1 else 0,
        zero=half if is_bytes else 0,
        depth=depth,
    )


@lowers("DynamicQuantizeMatMul", domain=DOMAIN)
def dynamic_quantize_matmul(node: Node) -> Value:
    """A product of src, rounded to codes of 8 bits with one scale, by weights of 8 bits."""
    emit = node.emit
    codes, scale, point = quantization.dynamic_quantize(emit, node.value(0), DataType.u8)
    found = integer_products.integer_matmul(emit, codes, node.value(1), point, node.optional(3))
    found = multiply(emit, cast(emit, found, DataType.f32), multiply(emit, scale, node.value(2)))
    return found if node.optional(4) is None else add(emit, found, node.value(4))
