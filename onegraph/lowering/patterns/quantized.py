"""Moves 8 bits instead of floats: movement between Dequantize and Quantize of the same numbers."""

from __future__ import annotations

import numpy as np

from ...arrays.packed_codes import packed
from ...ir.op import LogicalTensor, Op
from ...opset.dtypes import DataType
from ...opset.kinds import base_kinds, host_kinds
from ...opset.shapes import known_dims
from ...opset.traits import Trait
from ..elementwise import add, binary, multiply
from ..emitter import Array, Emitter, Value
from ..integer_products import integer_matmul
from ..movement import cast, reshape, transpose
from ..packed import packed_matmul
from ..quantization import EIGHT_BITS, FOUR_BITS
from ..reduction import reduce
from .table import again, contents, listed, made, operand_of, rewrites

SHIFT = 128  # from u8 to s8
LEAST_BLOCK = 16  # of packed codes
MOVES = base_kinds(Trait.VIEW) | host_kinds(Trait.VIEW)  # which make no new numbers


def _same_numbers(first: Op, second: Op) -> bool:
    """Whether a Dequantize and a Quantize have the same single scale and zero point, and 8 bits of one kind."""
    names = ("scales", "zps", "qtype")
    same = all(first.attrs.get(name) == second.attrs.get(name) for name in names)
    return (
        same and first.attrs.get("qtype", "per_tensor") == "per_tensor" and operand_of(first).dtype is _result(second)
    )


def _result(op: Op) -> DataType:
    return op.outputs[0].dtype


def _of_codes(emit: Emitter, value: LogicalTensor | None) -> tuple[Op, Array] | None:
    """The Dequantize of known codes that makes a value, and the codes."""
    op = made(emit, value, "Dequantize")
    codes = None if op is None else contents(op.inputs[0])
    return None if op is None or codes is None else (op, codes)


def _points(op: Op) -> Array:
    """The zero points of a Quantize or Dequantize; one, if none are given."""
    return np.array(op.attrs.get("zps") or (0,), np.int64)


def _with_bias(emit: Emitter, product: Value, op: Op) -> Value:
    """A product and the bias of the MatMul that it replaces."""
    return product if len(op.inputs) < 3 else add(emit, product, operand_of(op, 2))


@rewrites("Quantize")
def moved_bytes(emit: Emitter, op: Op) -> Value | None:
    """Quantize(Reshape(Dequantize(x))) as a Reshape of x, and likewise for Transpose, Concat and nothing between."""
    plain = made(emit, op.inputs[0], "Dequantize")
    if plain is not None and _same_numbers(plain, op):
        return plain.inputs[0]
    move = made(emit, op.inputs[0], "StaticReshape", "StaticTranspose", "Concat")
    if move is None:
        return None
    makers = [made(emit, input_, "Dequantize") for input_ in move.inputs]
    sources = [operand_of(one) for one in makers if one is not None and _same_numbers(one, op)]
    if len(sources) < len(makers):
        return None
    if move.kind == "Concat":
        return emit.op("Concat", sources, {"axis": move.attrs["axis"]}, edition="host")
    if move.kind == "StaticTranspose":
        return transpose(emit, sources[0], [int(str(axis)) for axis in listed(move.attrs["order"])])
    shape = move.outputs[0].shape
    assert shape is not None  # the attribute says how many axes there are
    return None if shape.count(None) > 1 else reshape(emit, sources[0], [-1 if dim is None else dim for dim in shape])


@rewrites("FakeQuantize")
def rounded_twice(emit: Emitter, op: Op) -> Value | None:
    """Numbers that are multiples of the step already, and were only moved since."""
    source = made(emit, op.inputs[0], "FakeQuantize", *MOVES)
    while source is not None and source.kind in MOVES:
        source = made(emit, source.inputs[0], "FakeQuantize", *MOVES)
    return operand_of(op) if source is not None and source.attrs == op.attrs else None


@rewrites("MatMul")
def by_changing_scale(emit: Emitter, op: Op) -> Value | None:
    """A product of codes with a scale that a run computes, by known codes: integers are multiplied, and then scaled."""
    left, coded = made(emit, op.inputs[0], "DynamicDequantize"), _of_codes(emit, op.inputs[1])
    if left is None or coded is None or op.attrs.get("transpose_a"):
        return None
    (right, weights), (src, scale) = coded, (operand_of(left), operand_of(left, 1))
    zero = (*left.inputs, None)[2]
    if left.attrs.get("qtype", "per_tensor") != "per_tensor" or weights.ndim < 2 or src.dtype not in EIGHT_BITS:
        return None
    if len(known_dims(src.shape)) < 2:
        return None
    columns = weights.ndim - 1
    if op.attrs.get("transpose_b"):
        weights, columns = np.swapaxes(weights, -1, -2), weights.ndim - 2
    is_whole = right.attrs.get("qtype", "per_tensor") == "per_tensor"
    if not is_whole and int(str(right.attrs.get("axis", 1))) % weights.ndim != columns:
        return None
    factors, points = np.array(right.attrs["scales"], np.float32), _points(right)
    product = integer_matmul(emit, src, np.ascontiguousarray(weights), zero, points if points.any() else None)
    # An infinite scale makes every number NaN, as 0 * inf does.
    finite = add(emit, scale, multiply(emit, scale, np.zeros((), np.float32)))
    product = multiply(emit, cast(emit, product, DataType.f32), multiply(emit, finite, factors))
    return _with_bias(emit, product, op)


@rewrites("MatMul")
def without_zeros(emit: Emitter, op: Op) -> Value | None:
    """A product of codes by known codes with zero points of columns as one without them, less sums of the rows.

    The library's int8 kernels take one zero point, or none.
    """
    left, coded = made(emit, op.inputs[0], "Dequantize"), _of_codes(emit, op.inputs[1])
    if left is None or coded is None or coded[1].ndim != 2 or op.attrs.get("transpose_a"):
        return None
    right, codes = coded
    attrs, src, columns = dict(right.attrs), operand_of(left), 0 if op.attrs.get("transpose_b") else 1
    zeros, rank = _points(right), len(known_dims(src.shape))
    is_single = left.attrs.get("qtype", "per_tensor") == "per_tensor"
    if not is_single or len({*zeros.tolist()}) < 2 or int(str(attrs.get("axis", 1))) % 2 != columns:
        return None
    if rank < 2:
        return None
    shift = SHIFT if codes.dtype == np.uint8 else 0
    attrs["zps"] = (0,) * zeros.size
    signed = emit.op("Dequantize", [(codes.astype(np.int16) - shift).astype(np.int8)], attrs)
    main = again(emit, op, [op.inputs[0], signed, *op.inputs[2:]])
    # Another reader of the Dequantize would keep it out of the product.
    sums = reduce(emit, "ReduceSum", cast(emit, src, DataType.f32), [rank - 1], keep=True)
    point = codes.shape[1 - columns] * int(_points(left)[0])
    sums = binary(emit, "Subtract", sums, np.array(point, np.float32)) if point else sums
    scales = np.array(attrs["scales"], np.float32) * np.float32(str(listed(left.attrs["scales"])[0]))
    return binary(emit, "Subtract", main, multiply(emit, sums, scales * (zeros - shift).astype(np.float32)))


@rewrites("MatMul")
def packed_codes(emit: Emitter, op: Op) -> Value | None:
    """A product by known codes of 4 bits in blocks of rows, which are kept two in a byte: an array has one in each."""
    weights, is_turned = op.inputs[1], bool(op.attrs.get("transpose_b"))
    while (moved := made(emit, weights, "StaticTranspose", "TypeCast")) is not None:
        if moved.kind == "StaticTranspose" and [int(str(axis)) % 2 for axis in listed(moved.attrs["order"])] != [1, 0]:
            return None
        weights, is_turned = moved.inputs[0], is_turned != (moved.kind == "StaticTranspose")
    scaled = made(emit, weights, "DynamicDequantize")
    if scaled is None or not is_turned or op.attrs.get("transpose_a") or scaled.attrs.get("qtype") != "per_group":
        return None
    source, zeros = scaled.inputs[0], (*scaled.inputs, None)[2]
    codes, (repeat, group), points = contents(source), listed(scaled.attrs["group_shape"])[-2:], contents(zeros)
    if codes is None or codes.ndim != 2 or operand_of(scaled).dtype not in FOUR_BITS:
        return None
    if repeat != 1 or int(str(group)) % LEAST_BLOCK or (zeros is not None and points is None):
        return None
    if made(emit, op.inputs[0], "Dequantize", "DynamicDequantize") is not None:
        return None  # the library multiplies codes
    if points is not None and (small := points.astype(np.int8)).astype(points.dtype).tobytes() == points.tobytes():
        points = small
    if points is not None and points.dtype == np.int32:
        return None
    product = packed_matmul(
        emit,
        operand_of(op),
        np.ascontiguousarray(packed(codes, 4)[:, : codes.shape[1] // 2]),
        operand_of(scaled, 1),
        points,
        coding=operand_of(scaled).dtype.value,
        group=int(str(group)),
        zero=0,
        in_codes=False,
    )
    return _with_bias(emit, product, op)


@rewrites("Convolution")
def signed_weights(emit: Emitter, op: Op) -> Value | None:
    """A convolution of codes by known u8 codes as one by s8, which the int8 kernels take, less sums of the windows.

    The codes less 128 have the zero point less 128. What that zero point takes from each product is a sum of src.
    """
    src, coded = made(emit, op.inputs[0], "Dequantize"), _of_codes(emit, op.inputs[1])
    if src is None or coded is None or coded[1].dtype != np.uint8:
        return None
    weights, codes = coded
    attrs, rank = dict(weights.attrs), codes.ndim
    is_whole = attrs.get("qtype", "per_tensor") == "per_tensor"
    if op.attrs.get("weights_format", "XIO") != "OIX" or not (is_whole or int(str(attrs.get("axis", 1))) % rank == 0):
        return None
    zeros = _points(weights) - SHIFT
    signed = (codes.astype(np.int16) - SHIFT).astype(np.int8)
    attrs["zps"] = (0,) * np.array(attrs["scales"]).size
    main = again(emit, op, [op.inputs[0], emit.op("Dequantize", [signed], attrs), *op.inputs[2:]])
    if not zeros.any():
        return main
    ones = np.ones((1 if op.attrs.get("groups", 1) == 1 else len(codes), *codes.shape[1:]), np.int8)
    unit = {"scales": [1.0], "zps": [0], "qtype": "per_tensor"}
    sums = again(emit, op, [op.inputs[0], emit.op("Dequantize", [ones], unit)])
    factors = np.array(attrs["scales"], np.float32) * zeros.astype(np.float32)
    if factors.size > 1 and op.attrs.get("data_format", "NXC") == "NCX":
        factors = factors.reshape(factors.size, *[1] * (rank - 2))
    return binary(emit, "Subtract", main, multiply(emit, sums, factors if factors.size > 1 else factors.reshape(())))


@rewrites("Convolution")
def scaled_channels(emit: Emitter, op: Op) -> Value | None:
    """A depthwise convolution of codes with a scale for each channel, whose scales the weights take over."""
    src, coded = made(emit, op.inputs[0], "Dequantize"), _of_codes(emit, op.inputs[1])
    if src is None or coded is None or op.attrs.get("weights_format", "XIO") != "OIX":
        return None
    weights, codes = coded
    rank, groups = codes.ndim, int(str(op.attrs.get("groups", 1)))
    scales, axis = np.array(src.attrs["scales"], np.float64), int(str(src.attrs.get("axis", 1))) % rank
    zeros = {*_points(src).tolist()}
    is_deep = src.attrs.get("qtype") == "per_channel" and groups == scales.size > 1 == codes.shape[1]
    if not is_deep or axis != (1 if op.attrs.get("data_format", "NXC") == "NCX" else rank - 1) or len(zeros) > 1:
        return None
    own = np.array(weights.attrs["scales"], np.float64)
    if own.size > 1 and int(str(weights.attrs.get("axis", 1))) % rank != 0:
        return None
    whole = {"scales": [1.0], "zps": [*zeros], "qtype": "per_tensor"}
    factors = (np.repeat(scales, len(codes) // groups) * own).astype(np.float32).tolist()
    by_channel = {
        "scales": factors,
        "zps": np.broadcast_to(_points(weights), len(codes)).tolist(),
        "qtype": "per_channel",
        "axis": 0,
    }
    ends = emit.op("Dequantize", [src.inputs[0]], whole), emit.op("Dequantize", [codes], by_channel)
    return again(emit, op, [*ends, *op.inputs[2:]])


@rewrites("StaticTranspose")
def transposed_weights(emit: Emitter, op: Op) -> Value | None:
    """Transpose(Dequantize(weights)) as Dequantize of transposed weights, unless rows of these are gathered too."""
    coded = _of_codes(emit, op.inputs[0])
    if coded is None:
        return None
    scaled, weights = coded
    if any(other.kind == "Gather" and other.inputs[0] is op.inputs[0] for other in emit.graph._ops):
        return None  # an embedding and the last product share their codes, which then are in memory once
    order = [int(str(axis)) for axis in listed(op.attrs["order"])]
    attrs = dict(scaled.attrs)
    if attrs.get("qtype") == "per_channel":
        attrs["axis"] = order.index(int(str(attrs.get("axis", 1))) % len(order))
    return emit.op("Dequantize", [np.ascontiguousarray(np.transpose(weights, order))], attrs)
