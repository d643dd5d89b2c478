"""Writes the ops that quantize, in the QDQ form."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....opset.dtypes import DataType
from ....opset.ops.quantization import scale_axis
from ....opset.schema import Call
from .body import Array, NodeValue
from .table import composes, known_dims_of, rank_of, result_type, writes

EXACT = 2**24  # f32 has all integers up to this one
LIMITS = {DataType.s8: (-128, 127), DataType.u8: (0, 255)}


def _axis(call: Call) -> dict[str, Any]:
    """The attribute axis of the node; none with one scale for all elements."""
    if call.string("qtype") != "per_channel":
        return {}
    rank, axis = rank_of(call, "src"), call.s64("axis")
    if call.schema.has_attribute("scales"):
        axis = scale_axis(call, call.shape("src"), len(call.f32s("scales")))
    return {"axis": axis % rank}


def _parameters(call: Call, src: NodeValue, dtype: DataType) -> list[NodeValue]:
    """Scales, and zero points in the quantized data type; 8-bit floats have zeros."""
    scales = np.array(call.f32s("scales"), np.float32)
    points = np.array(call.s64s("zps") if call.has("zps") else [0] * scales.size, np.int64)
    shape = () if call.string("qtype") == "per_tensor" else (-1,)
    body = src.body
    return [
        body.constant(scales.reshape(shape), "scales"),
        body.constant(points.astype(dtype.numpy).reshape(shape), "zero_points"),
    ]


def has_wide_zero_points(call: Call, dtype: DataType) -> bool:
    """Whether a zero point is beyond the range of the quantized data type, which no QuantizeLinear can have."""
    low, high = LIMITS.get(dtype, (0, 0))  # 8-bit floats have no zero points
    return call.has("zps") and not all(low <= point <= high for point in call.s64s("zps"))


def _spread(call: Call, body: NodeValue, values: Array) -> NodeValue:
    """Scales or zero points as f32 constants that broadcast to src."""
    shape: tuple[int, ...] = ()
    if call.string("qtype") == "per_channel":
        rank, axis = rank_of(call, "src"), _axis(call)["axis"]
        shape = (-1, *[1] * (rank - 1 - axis))
    return body.body.constant(values.astype(np.float32).reshape(shape))


def coded_bias(bias: NodeValue | None, src: NodeValue, weights: NodeValue) -> NodeValue | None:
    """A known bias beside codes as s32 codes with the product of both scales, as other runtimes fuse no other one.

    A bias that is no multiple of these steps stays as it is: a file has the numbers of the graph.
    """
    if bias is None:
        return None
    body, known = bias.body, bias.body.known(bias)
    of_src, of_weights = body.known_scales(src), body.known_scales(weights)
    if known is None or known.ndim != 1 or of_src is None or of_weights is None or known.dtype != np.float32:
        return bias
    steps = (of_src * of_weights).astype(np.float32)
    if of_src.size != 1 or of_weights.size not in (1, known.size) or steps.min() < np.finfo(np.float32).tiny:
        return bias
    with np.errstate(over="ignore", invalid="ignore"):
        codes = np.rint(known.astype(np.float64) / steps.reshape(-1))
        is_exact = np.abs(codes) <= EXACT, codes.astype(np.float32) * steps.reshape(-1) == known
    if not np.all(is_exact):
        return bias
    ends = [body.constant(codes.astype(np.int32), f"{bias.name}_codes"), body.constant(steps, "bias_scales")]
    axis = {"axis": 0} if steps.ndim else {}
    return ends[0].op("DequantizeLinear", ends[1], dtype=DataType.f32, **axis)


@writes("Quantize")
def quantize(call: Call, src: NodeValue) -> NodeValue:
    dtype = result_type(call)
    if has_wide_zero_points(call, dtype):
        scales, points = (_spread(call, src, np.array(call.attr(name))) for name in ("scales", "zps"))
        return _rounded((src / scales) + points, dtype)
    attrs: dict[str, Any] = {} if dtype in LIMITS else {"saturate": 0}
    return src.op("QuantizeLinear", *_parameters(call, src, dtype), dtype=dtype, **attrs, **_axis(call))


def _rounded(value: NodeValue, dtype: DataType) -> NodeValue:
    low, high = LIMITS[dtype]
    return value.op("Round").op("Clip", float(low), float(high)).cast(dtype)


@writes("Dequantize")
def dequantize(call: Call, src: NodeValue) -> NodeValue:
    if has_wide_zero_points(call, src.dtype):
        scales, points = (_spread(call, src, np.array(call.attr(name))) for name in ("scales", "zps"))
        return (src.cast(DataType.f32) - points) * scales
    return src.op("DequantizeLinear", *_parameters(call, src, src.dtype), dtype=DataType.f32, **_axis(call))


def _operand(call: Call, value: NodeValue, dtype: DataType) -> NodeValue:
    """Scales or zero points that are tensors, in f32 and a shape that broadcasts to src."""
    if value.dtype is not dtype:
        value = value.cast(dtype)
    qtype = call.string("qtype")
    if qtype == "per_tensor":
        return value.op("Reshape", value.body.numbers())
    if qtype == "per_channel":
        rank = rank_of(call, "src")
        return value.reshape(-1, *[1] * (rank - 1 - call.s64("axis") % rank))
    # Each element is repeated along each axis: [2, 3] in blocks of [1, 4] is [2, 1, 3, 1] expanded to [2, 1, 3, 4].
    blocks = known_dims_of(call, call.shape("scales"), "scales")
    group = call.s64s("group_shape")
    pairs = [dim for block in blocks for dim in (block, 1)]
    wide = [dim for block, size in zip(blocks, group, strict=True) for dim in (block, size)]
    whole = [block * size for block, size in zip(blocks, group, strict=True)]
    return value.reshape(*pairs).op("Expand", value.body.numbers(*wide)).reshape(*whole)


def _scalar(call: Call, value: NodeValue) -> NodeValue:
    """One scale or zero point as a tensor without axes, which ONNX wants for a whole tensor."""
    if call.string("qtype") != "per_tensor":
        return value
    array = value.body.known(value)
    if array is not None:
        return value.body.constant(array.reshape(()), value.name)
    return value.op("Reshape", value.body.numbers())


@composes("DynamicQuantize")
def dynamic_quantize(call: Call, src: NodeValue, scales: NodeValue, zps: NodeValue | None = None) -> NodeValue:
    quotient = src / _operand(call, scales, DataType.f32)
    whole = quotient if zps is None else quotient + _operand(call, zps, DataType.f32)
    return _rounded(whole, result_type(call))


@writes("host DynamicQuantizeLinear")
def dynamic_quantize_linear(call: Call, src: NodeValue) -> tuple[NodeValue, ...]:
    dtype = result_type(call)
    low, high, least = call.s64("low"), call.s64("high"), call.f32("least")
    if dtype is DataType.u8 and (low, high, least) == (*LIMITS[dtype], 0):
        return src.body.nodes_results("DynamicQuantizeLinear", [src], [dtype, DataType.f32, dtype])
    ends = [src.op(kind, keepdims=0) for kind in ("ReduceMin", "ReduceMax")]
    first, last = ends[0].op("Min", 0.0), ends[1].op("Max", 0.0)
    scale = ((last - first) / float(high - low)).op("Max", least)
    scale = scale.compare("Equal", 0.0).where(1.0, scale)
    zero = (low - first / scale).op("Clip", float(low), float(high)).op("Round")
    codes = ((src / scale).op("Round") + zero).op("Clip", float(low), float(high))
    return codes.cast(dtype), scale, zero.cast(dtype)


@writes("host FakeQuantize")
def fake_quantize(call: Call, src: NodeValue) -> NodeValue:
    step = call.f32("step")
    return (src / step).op("Clip", call.f32("low"), call.f32("high")).op("Round") * step


@writes("DynamicDequantize")
def dynamic_dequantize(call: Call, src: NodeValue, scales: NodeValue, zps: NodeValue | None = None) -> NodeValue:
    axis = _axis(call)
    if call.string("qtype") == "per_group":
        blocks = [(place, size) for place, size in enumerate(call.s64s("group_shape")) if size > 1]
        axis = {"axis": blocks[0][0], "block_size": blocks[0][1]} if len(blocks) == 1 else {}
    points = None if zps is None else _fitting(zps, src.dtype)
    if (zps is not None and points is None) or (call.string("qtype") == "per_group" and not axis):
        wide = src.cast(DataType.f32)
        moved = wide if zps is None else wide - _operand(call, zps, DataType.f32)
        return (moved * _operand(call, scales, DataType.f32)).cast(result_type(call))
    points = None if points is None else _scalar(call, points)
    return src.op("DequantizeLinear", _scalar(call, scales), points, dtype=call.output_type(0), **axis)


def _fitting(zps: NodeValue, dtype: DataType) -> NodeValue | None:
    """The zero points in the data type of src; None if it may not hold them."""
    array = zps.body.known(zps)
    if zps.dtype is dtype:
        return zps
    if array is None:
        return None
    moved = array.astype(dtype.numpy)
    return zps.body.constant(moved, zps.name) if (moved.astype(np.int64) == array.astype(np.int64)).all() else None


@writes("TypeCast")
def type_cast(call: Call, src: NodeValue) -> NodeValue:
    return src.cast(result_type(call))
