"""Lowers products of integers, and the ops ``quantized_decomposed`` of PyTorch 2 Export quantization."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....lowering import integer_products, quantization
from ....lowering.elementwise import binary, clamp, multiply
from ....lowering.emitter import Emitter, NotLowered, Value, dtype_of, is_known, numbers, shape_of
from ....lowering.movement import cast, reshape
from ....lowering.quantization import Scale
from ....opset.dtypes import DataType
from ....opset.kinds import CASTS, RESHAPES
from ..node import AtenNode, lowers
from ..types import DTYPES

DOMAIN = "quantized_decomposed"
F32, F64, S64 = DataType.f32, DataType.float64, DataType.s64
NIBBLES = {DataType.s4: (-8, 7), DataType.u4: (0, 15)}
TENSORS = ("default", "tensor", "tensor2")


def _number(value: Any, name: str) -> int:
    """A limit, which is a number or a known tensor of one."""
    if hasattr(value, "shape"):
        if not isinstance(value, np.ndarray):
            raise NotLowered(f"{name} is unknown")
        return int(value.reshape(-1)[0])
    return int(value)


def _limits(node: AtenNode) -> tuple[int, int]:
    return _number(node["quant_min"], "quant_min"), _number(node["quant_max"], "quant_max")


def _one(node: AtenNode, name: str, dtype: DataType) -> Value:
    """A scale or zero point of a whole tensor: one number, which may be a tensor."""
    value = node[name]
    if not hasattr(value, "shape"):
        return np.array(value, dtype.numpy)
    return reshape(node.emit, cast(node.emit, value, dtype), numbers())


def _scale(node: AtenNode) -> Scale:
    """The scale and the zero point of a whole tensor."""
    known = np.asarray(node["zero_point"]) if not hasattr(node["zero_point"], "shape") else node["zero_point"]
    if is_known(known) or dtype_of(known) is not S64:
        return Scale(_one(node, "scale", F32), _one(node, "zero_point", S64))
    return Scale(_one(node, "scale", F32), _one(node, "zero_point", DTYPES[node["dtype"]]))


def _channels(node: AtenNode) -> Scale:
    """Scales and zero points of channels."""
    points = None if node["zero_points"] is None else cast(node.emit, node.value("zero_points"), S64)
    return Scale(cast(node.emit, node.value("scales"), F32), points, int(node["axis"]))


def _quantized(node: AtenNode, scale: Scale) -> Value:
    """The codes of the input; those beyond the limits become the limits, before they are rounded."""
    emit, dtype = node.emit, DTYPES[node["dtype"]]
    src, (low, high) = cast(emit, node.value("input"), F32), _limits(node)
    whole: Any = np.iinfo(str(dtype.numpy))
    if (low, high) == (whole.min, whole.max):
        return quantization.quantize(emit, src, scale, dtype)
    factor, zero = scale.scale, scale.zero
    if not isinstance(factor, np.ndarray) or not (zero is None or isinstance(zero, np.ndarray)) or factor.size > 1:
        raise NotLowered(f"codes from {low} to {high} in {dtype} with scales that are unknown or of channels")
    middle = 0 if zero is None else int(zero.reshape(-1)[0])
    ends = [np.array((end - middle) * float(factor.reshape(-1)[0]), np.float32) for end in (low, high)]
    return quantization.quantize(emit, clamp(emit, src, *ends), scale, dtype)


def _dequantized(node: AtenNode, scale: Scale) -> Value:
    result = quantization.dequantize(node.emit, node.value("input"), scale)
    return cast(node.emit, result, node.result_dtype)


@lowers(*(f"{DOMAIN}.quantize_per_tensor.{overload}" for overload in TENSORS))
def quantize(node: AtenNode) -> Value:
    """The codes of a tensor with one scale."""
    codes = _chosen(node)
    return _quantized(node, _scale(node)) if codes is None else codes


@lowers(*(f"{DOMAIN}.dequantize_per_tensor.{overload}" for overload in TENSORS))
def dequantize(node: AtenNode) -> Value:
    """The numbers that codes with one scale stand for."""
    return _dequantized(node, _scale(node))


@lowers(f"{DOMAIN}.quantize_per_channel.default")
def quantize_channels(node: AtenNode) -> Value:
    """The codes of a tensor with a scale for each channel."""
    return _quantized(node, _channels(node))


@lowers(f"{DOMAIN}.dequantize_per_channel.default")
def dequantize_channels(node: AtenNode) -> Value:
    """The numbers that codes with a scale for each channel stand for."""
    return _dequantized(node, _channels(node))


@lowers("torchao.dequantize_affine.default")
def dequantize_blocks(node: AtenNode) -> Value:
    """The numbers that codes stand for, with a scale for each block: of a row of known ones, or of whole axes."""
    codes, block = node.value("input"), [int(dim) for dim in node["block_size"]]
    scales, zeros = node.value("scale"), None if node["zero_point"] is None else node.value("zero_point")
    if not (isinstance(codes, np.ndarray) and isinstance(scales, np.ndarray)) or codes.ndim != 2 or block[0] != 1:
        return _of_whole_axes(node, codes, block, scales, zeros)
    low, high = (node[name] for name in ("quant_min", "quant_max"))
    dtype = next((name for name, ends in NIBBLES.items() if (low, high) == ends), None)
    dtype = dtype if codes.dtype.itemsize == 1 and codes.shape[1] % 2 == 0 else None
    if isinstance(zeros, np.ndarray):
        if not zeros.any():
            zeros = None
        elif zeros.dtype.kind in "iu":
            zeros = zeros.astype(np.int32)
    if dtype is not None:
        codes = codes.astype(dtype.numpy)
    scale = Scale(scales.reshape(len(codes), -1), zeros, 1, block[1])
    result = quantization.dequantize(node.emit, codes, scale, dtype_of(scales))
    return cast(node.emit, result, node.result_dtype)


def _of_whole_axes(node: AtenNode, codes: Value, block: list[int], scales: Value, zeros: Value | None) -> Value:
    emit, shape = node.emit, node.shape("input")
    if any(size not in (1, dim) for dim, size in zip(shape, block, strict=True)):
        raise NotLowered(f"blocks of {block} of codes or scales that may change")
    dims = numbers(*[1 if size == dim else dim for dim, size in zip(shape, block, strict=True)])
    result = cast(emit, codes, F32)
    if zeros is not None:
        result = binary(emit, "Subtract", result, reshape(emit, cast(emit, zeros, F32), dims))
    result = multiply(emit, result, reshape(emit, cast(emit, scales, F32), dims))
    return cast(emit, result, node.result_dtype)


@lowers(f"{DOMAIN}.choose_qparams.tensor")
def choose_parameters(node: AtenNode) -> list[Value]:
    """The scale and the zero point for the range of a tensor."""
    emit, dtype = node.emit, DTYPES[node["dtype"]]
    if dtype not in quantization.EIGHT_BITS:
        raise NotLowered(f"codes of {dtype}")
    low, high = _limits(node)
    quantized = quantization.dynamic_quantize(
        emit, node.value("input"), dtype, low=low, high=high, least=float(node["eps"])
    )
    return [
        reshape(emit, cast(emit, one, wide), numbers(1)) for one, wide in zip(quantized[1:], (F64, S64), strict=True)
    ]


def _chosen(node: AtenNode) -> Value | None:
    """The codes that the op which chose scale and zero point has computed; None if they come from elsewhere."""
    emit, (low, high) = node.emit, _limits(node)
    makers = [_origin(emit, node[name]) for name in ("scale", "zero_point")]
    if makers[0] is None or makers[0] is not makers[1] or makers[0].kind != "DynamicQuantizeLinear":
        return None
    op = makers[0]
    src = quantization.untransposed(emit, cast(emit, node.value("input"), F32))
    same = op.outputs[0].dtype is DTYPES[node["dtype"]] and (op.attrs["low"], op.attrs["high"]) == (low, high)
    if not same or op.inputs[0] is not src[0]:
        return None
    return quantization.transposed(emit, op.outputs[0], src[1])


def _origin(emit: Emitter, value: Any) -> Any:
    """The op that computes one number, which casts and reshapes may have moved."""
    op = emit.maker(value) if hasattr(value, "shape") else None
    while op is not None and op.kind in CASTS | RESHAPES and shape_of(op.outputs[0]) in ((), (1,)):
        op = emit.maker(op.inputs[0])
    return op


@lowers("_int_mm.default")
def integer_product(node: AtenNode) -> Value:
    """The exact product of two matrices of s8, as s32."""
    return integer_products.integer_matmul(node.emit, node.value("self"), node.value("mat2"), None, None)
