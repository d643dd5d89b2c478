"""Lowers nodes of ONNX Runtime with weights of 2, 4 and 8 bits that are packed into bytes."""

from __future__ import annotations

import numpy as np

from ....arrays.packed_codes import packed
from ....lowering import integer_products, quantization
from ....lowering import packed as lowering
from ....lowering.elementwise import add, multiply
from ....lowering.emitter import Array, Value, dtype_of
from ....lowering.movement import NATIVE, cast
from ....opset.dtypes import DataType
from ..node import Node, NotLowered, lowers
from ..packed_nodes import DOMAIN as OF_ROWS
from ..types import data_type
from .contrib import DOMAIN
from .layers import native

LEAST_BLOCK = 16
BITS = (2, 4, 8)
CODES_LEVEL = 4  # accuracy_level: the activations may become 8-bit codes


def _stored(node: Node, index: int, shape: tuple[int, ...], name: str) -> Array:
    """The contents of an input as (columns, others), which may be one axis, or several for the others."""
    result = node.array(index)
    if result.size != np.prod(shape) or (result.ndim > 1 and result.shape[0] != shape[0]):
        raise node.invalid(f"{name} of shape {list(result.shape)}", f"{[*shape]}")
    return result.reshape(shape)


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
    weights = _stored(node, 1, (columns, blocks * block * bits // 8), "B")
    if weights.dtype != np.uint8:
        raise node.invalid(f"B of {weights.dtype}", "uint8")
    scales = _stored(node, 2, (columns, blocks), "scales")
    zps, order = _points(node, bits, columns, blocks), _order(node, depth, block, blocks)
    bias = None if node.optional(5) is None else node.shape(5)
    if bias is not None and bias not in ((columns,), (None,)):
        raise node.invalid(f"bias of shape {list(bias)}", f"[{columns}], N")
    emit, activations = node.emit, node.value(0)
    if order is not None:
        codes = lowering.unpacked_points(weights, bits, depth)[:, order]
        weights = lowering.packed_points(np.pad(codes, ((0, 0), (0, blocks * block - depth))), bits)
        activations = emit.op("Gather", [activations, order], {"axis": -1})
    result = lowering.packed_matmul(
        emit,
        activations,
        lowering.two_bits_as_four(weights) if bits == min(BITS) else weights,
        scales,
        zps,
        coding="u8" if bits == max(BITS) else "u4",
        group=block if blocks > 1 else 0,
        zero=1 << (bits - 1),
        in_codes=node.attr("accuracy_level", 0) == CODES_LEVEL,
    )
    return result if node.optional(5) is None else add(node.emit, result, node.value(5))


def _order(node: Node, depth: int, block: int, blocks: int) -> Array | None:
    """The rows in the order of their blocks, which g_idx names; None if they are in order."""
    if node.optional(4) is None:
        return None
    known = node.array(4)
    places = known.reshape(-1)[:depth].astype(np.int64)
    if known.size not in (depth, blocks * block):
        raise node.invalid(f"g_idx of shape {list(known.shape)}", f"[{depth}], K")
    if places.min() < 0 or places.max() >= blocks:
        raise node.invalid("a block of g_idx that is not there", f"numbers from 0 to {blocks - 1}")
    if np.array_equal(places, np.arange(depth) // block):
        return None
    order: Array = np.argsort(places, kind="stable")
    if not np.array_equal(places[order], np.arange(depth) // block):
        raise NotLowered("blocks of g_idx with other numbers of rows")
    return order


def _points(node: Node, bits: int, columns: int, blocks: int) -> Array | None:
    """Zero points (columns, blocks); None if there are none."""
    if node.optional(3) is None:
        return None
    known = node.array(3)
    if known.dtype != np.uint8:
        if known.dtype != node.dtype(2).numpy:
            raise node.invalid(f"zero_points of {known.dtype}", f"uint8 or {node.dtype(2)}")
        return _stored(node, 3, (columns, blocks), "zero_points")
    size = -(-blocks * bits // 8)
    return lowering.unpacked_points(_stored(node, 3, (columns, size), "zero_points"), bits, blocks)


@lowers("MatMul", "Gemm", domain=OF_ROWS)
def matmul_of_rows(node: Node) -> Value:
    """A product by rows of packed codes, and the sum with what a Gemm adds."""
    src, depth, dtype = node.shape(), node.attr("depth"), data_type(node.attr("dtype"), node.where)
    if node.dtype() is not dtype or (src and src[-1] not in (None, depth)):
        raise node.invalid(f"A of {node.dtype()} {list(src or ())}", f"{dtype} with {depth} as its last dim")
    form = {"coding": node.attr("coding"), "group": node.attr("group"), "zero": 0}
    rows, ends = node.array(1), (node.value(2), node.optional(3))
    result = lowering.packed_matmul(node.emit, node.value(0), rows, *ends, in_codes=False, **form)
    return result if node.optional(4) is None else add(node.emit, result, node.value(4))


@lowers("Gather", domain=OF_ROWS)
def gather_of_rows(node: Node) -> Value:
    """Rows of a table of packed codes."""
    form = {name: node.attr(name) for name in ("coding", "group", "depth")}
    ends = node.value(0), node.value(2), node.optional(3)
    result = lowering.packed_gather(node.emit, node.array(1), *ends, zero=0, **form)
    return cast(node.emit, result, data_type(node.attr("dtype"), node.where))


@lowers("GatherBlockQuantized", domain=DOMAIN)
def gather_block_quantized(node: Node) -> Value:
    """Rows of a table of codes with a scale for each block of a row."""
    data, scales = node.array(0), node.array(2)
    bits, block = _table_form(node, data, scales)
    is_bytes = data.dtype == np.uint8
    if is_bytes:
        rows, coding = data, "u8" if bits == max(BITS) else "u4"
    else:
        rows, coding = packed(data, 4)[:, : -(-data.shape[1] // 2)], "s4" if str(data.dtype) == "int4" else "u4"
    depth, half = data.shape[1] * (8 // bits if is_bytes else 1), 1 << (bits - 1)
    blocks = -(-depth // block)
    if scales.shape != (len(data), blocks):
        raise node.invalid(f"scales of shape {list(scales.shape)}", f"{[len(data), blocks]}, one for each block")
    return lowering.packed_gather(
        node.emit,
        lowering.two_bits_as_four(rows) if bits == min(BITS) else rows,
        node.value(1),
        scales,
        _points_of_table(node, bits, scales.shape, coding),
        coding=coding,
        group=block if blocks > 1 else 0,
        zero=half if is_bytes else 0,
        depth=depth,
    )


def _table_form(node: Node, data: Array, scales: Array) -> tuple[int, int]:
    """Bits and block size of a table, whose form must be one that the op has and that is lowered."""
    block, bits, rank = node.attr("block_size", 128), node.attr("bits", 4), data.ndim
    is_bytes = data.dtype == np.uint8
    if bits not in BITS or block < LEAST_BLOCK or block & (block - 1):
        raise node.invalid(f"bits {bits} and block_size {block}", "bits 2, 4 or 8, and a power of 2 from 16 on")
    if str(data.dtype) not in ("uint8", "int4", "uint4"):
        raise NotLowered(f"a table of {data.dtype}")
    if dtype_of(scales) not in NATIVE:
        raise node.invalid(f"scales of {scales.dtype}", "floating-point numbers")
    if not is_bytes and bits != 4:
        raise node.invalid(f"bits {bits} of {data.dtype}", "bits 4")
    axes = node.attr("gather_axis", 0), node.attr("quantize_axis", 1)
    if rank < 2 or scales.ndim != rank or any(not -rank <= axis < rank for axis in axes):
        shapes = f"data of shape {list(data.shape)}, scales of shape {list(scales.shape)} and axes {[*axes]}"
        raise node.invalid(shapes, "at least two axes, as many of scales, and axes among them")
    if rank != len(("rows", "codes")) or (axes[0] % rank, axes[1] % rank) != (0, 1):
        raise NotLowered("a table that is not (rows, codes) with blocks along its rows")
    return bits, block


def _points_of_table(node: Node, bits: int, shape: tuple[int, ...], coding: str) -> Array | None:
    """Zero points in the form of the scales; None if there are none."""
    zps = node.known(3)
    if zps is None:
        return None
    is_bytes = zps.dtype == np.uint8
    if zps.dtype != node.dtype(0).numpy:
        raise node.invalid(f"zero_points of {zps.dtype}", f"{node.dtype(0)}, as data")
    wanted = (shape[0], -(-shape[1] * bits // 8)) if is_bytes else shape
    if zps.shape != wanted:
        raise node.invalid(f"zero_points of shape {list(zps.shape)}", f"{[*wanted]}")
    if is_bytes:
        return lowering.unpacked_points(zps, bits, shape[1])
    return zps.astype(np.int8 if coding.startswith("s") else np.uint8)


@lowers("DynamicQuantizeMatMul", domain=DOMAIN)
def dynamic_quantize_matmul(node: Node) -> Value:
    """A product of src, rounded to codes of 8 bits with one scale, by weights of 8 bits."""
    emit = node.emit
    codes, scale, point = quantization.dynamic_quantize(emit, node.value(0), DataType.u8)
    result = integer_products.integer_matmul(emit, codes, node.value(1), point, node.optional(3))
    result = multiply(emit, cast(emit, result, DataType.f32), multiply(emit, scale, node.value(2)))
    return result if node.optional(4) is None else add(emit, result, node.value(4))
