"""Writes products by packed weights as MatMulNBits of ONNX Runtime where it has the form, else as plain nodes."""

from __future__ import annotations

import numpy as np

from ....arrays.packed_codes import BITS
from ....lowering.packed import packed_points
from ....opset.dtypes import DataType
from ....opset.host.packed import CODES
from ....opset.schema import Call
from .body import Array, NodeValue
from .table import known_dims_of, writes

DOMAIN = "com.microsoft"
LEAST_BLOCK = 16
CODES_LEVEL = 4


def _numbers(call: Call, rows: NodeValue, scales: NodeValue, zps: NodeValue | None, depth: int) -> NodeValue:
    """The numbers (..., depth) that rows (..., bytes) of codes stand for, in f32."""
    bits, body = BITS[call.string("coding")], rows.body
    whole = rows
    if bits == 4:
        low, high = (rows.op("Mod", body.scalar(16, DataType.u8)), rows.op("Div", body.scalar(16, DataType.u8)))
        last = body.numbers(-1)
        pair = [half.op("Unsqueeze", last) for half in (low, high)]
        joined = body.node("Concat", pair, axis=-1)
        whole = _merged(joined)
    codes = whole.op("Slice", body.numbers(0), body.numbers(depth), body.numbers(-1)).cast(DataType.f32)
    if call.string("coding").startswith("s"):
        half = float(1 << (bits - 1))
        codes = codes.compare("Less", half).where(codes, codes - 2 * half)
    zero: NodeValue | float = float(call.s64("zero")) if zps is None else _spread(call, zps, depth)
    return (codes - zero) * _spread(call, scales, depth)


def _merged(value: NodeValue) -> NodeValue:
    """The value with its last two axes as one; Reshape takes the sizes of the others from it."""
    body = value.body
    shape = value.op("Shape", dtype=DataType.s64)
    first = shape.op("Slice", body.numbers(0), body.numbers(-2), body.numbers(0))
    return value.op("Reshape", body.node("Concat", [first, body.numbers(-1)], axis=0))


def _spread(call: Call, value: NodeValue, depth: int) -> NodeValue:
    """Scales or zero points (..., groups) as f32 that broadcasts to (..., depth)."""
    group, body, wide = call.s64("group"), value.body, value.cast(DataType.f32)
    if not group:
        return wide
    repeated = body.node("Concat", [wide.op("Unsqueeze", body.numbers(-1))] * group, axis=-1)
    return _merged(repeated).op("Slice", body.numbers(0), body.numbers(depth), body.numbers(-1))


@writes("host PackedMatMul")
def product(
    call: Call, src: NodeValue, weights: NodeValue, scales: NodeValue, zps: NodeValue | None = None
) -> NodeValue:
    depth = known_dims_of(call, call.shape("src"), "src")[-1]
    node = _as_node(call, src, weights, scales, zps, depth)
    if node is not None:
        return node
    numbers = _numbers(call, weights, scales, zps, depth)
    return src.cast(DataType.f32).op("MatMul", numbers.transpose((1, 0))).cast(src.dtype)


def _as_node(
    call: Call, src: NodeValue, weights: NodeValue, scales: NodeValue, zps: NodeValue | None, depth: int
) -> NodeValue | None:
    """A MatMulNBits; None if its form differs, or if the weights are no constant."""
    body, coding, group = src.body, call.string("coding"), call.s64("group")
    codes, known = body.known(weights), None if zps is None else body.known(zps)
    bits, half = BITS[coding], 1 << (BITS[coding] - 1)
    block = group or max(LEAST_BLOCK, 1 << (depth - 1).bit_length())
    if codes is None or block < LEAST_BLOCK or block & (block - 1) or scales.dtype is not src.dtype:
        return None
    if (zps is not None and known is None) or (known is not None and known.dtype not in (np.uint8, np.int8)):
        return None
    blocks, signed = -(-depth // block), coding.startswith("s")
    size = blocks * block * bits // 8
    rows = np.zeros((len(codes), size), np.uint8)
    rows[:, : min(size, codes.shape[1])] = codes[:, :size]
    points: Array | None = None
    zero = call.s64("zero") + (half if signed else 0)
    if known is not None:
        points = known.astype(np.int16) + (half if signed else 0)
    elif zero != half:
        points = np.full((len(codes), blocks), zero, np.int16)
    if points is not None and not 0 <= points.min() <= points.max() < 2 * half:
        return None
    if signed:
        rows ^= np.uint8(0x88 if bits == 4 else 0x80)
    ports = [src, body.constant(rows.reshape(len(codes), blocks, -1), "codes"), scales]
    if points is not None:
        ports.append(body.constant(packed_points(points.astype(np.uint8), bits), "zero_points"))
    attrs = {"K": depth, "N": len(codes), "bits": bits, "block_size": block}
    if call.string("arithmetic") == CODES:
        attrs["accuracy_level"] = CODES_LEVEL
    body.functions.imports[DOMAIN] = 1
    (result,) = body.nodes_results("MatMulNBits", ports, [src.dtype], domain=DOMAIN, **attrs)
    return result


@writes("host PackedGather")
def gathered(
    call: Call, table: NodeValue, indices: NodeValue, scales: NodeValue, zps: NodeValue | None = None
) -> NodeValue:
    taken = [None if each is None else each.op("Gather", indices, axis=0) for each in (table, scales, zps)]
    rows, factors, zeros = taken
    assert rows is not None
    assert factors is not None
    return _numbers(call, rows, factors, zeros, call.s64("depth")).cast(scales.dtype)


@writes("host PackedExperts")
def experts(
    call: Call, src: NodeValue, places: NodeValue, weights: NodeValue, scales: NodeValue, zps: NodeValue | None = None
) -> NodeValue:
    """Gathers the matrix of each choice; a place that is no expert reads the first one, and gives zeros."""
    dims, body = known_dims_of(call, call.shape("src"), "src"), src.body
    count = known_dims_of(call, call.shape("weights"), "weights")[0]
    is_expert = places.compare("Less", count).op("And", places.compare("GreaterOrEqual", 0), dtype=DataType.boolean)
    known = is_expert.where(places, body.scalar(0, DataType.s64))
    matrices, factors, zeros = (
        None if each is None else each.op("Gather", known, axis=0) for each in (weights, scales, zps)
    )
    assert matrices is not None
    assert factors is not None
    numbers = _numbers(call, matrices, factors, zeros, dims[-1])
    axes = (1, -1) if len(dims) == len(("token", "depth")) else (-1,)
    rows = src.cast(DataType.f32).op("Unsqueeze", body.numbers(*axes))
    product = numbers.op("MatMul", rows).op("Squeeze", body.numbers(-1))
    return is_expert.op("Unsqueeze", body.numbers(-1)).where(product, 0).cast(src.dtype)
