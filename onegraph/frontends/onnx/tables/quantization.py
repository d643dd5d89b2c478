"""Lowers nodes of quantized models."""

from __future__ import annotations

from collections.abc import Sequence

from ....lowering import integer_products, layers, quantization, windows
from ....lowering.elementwise import add, multiply
from ....lowering.emitter import Value
from ....lowering.quantization import Scale
from ....opset.dtypes import DataType
from ....opset.shapes import show
from ..node import Node, lowers
from ..types import data_type
from .layers import window_of


def _scale(node: Node, scale: int, zero: int, axis: int | None = None) -> Scale:
    """The scale and the zero point that two inputs hold."""
    place = node.attr("axis", 1) if axis is None else axis
    return Scale(node.value(scale), node.optional(zero), place, node.attr("block_size", 0))


def _checked(node: Node) -> Scale:
    """The scale and the zero point of a QuantizeLinear or DequantizeLinear, whose known shapes fit the first input."""
    shape, scale, axis, block = node.shape(), node.shape(1), node.attr("axis", 1), node.attr("block_size", 0)
    if block < 0:
        raise node.invalid(f"block_size {block}", "0, or the size of a block")
    zero = None if node.optional(2) is None else node.shape(2)
    if scale is not None and zero is not None:
        is_single = all(dim == 1 for dim in (*scale, *zero))
        if not is_single and not _agree(zero, scale):
            raise node.invalid(f"zero_point of shape {show(zero)}", f"{show(scale)}, as scale has")
    if shape is None or scale is None or (not block and all(dim == 1 for dim in scale)):
        return _scale(node, 1, 2)
    if not -len(shape) <= axis < len(shape):
        raise node.invalid(f"axis {axis}", f"an axis of x, which has {len(shape)}")
    along = shape[axis]
    if block:
        wanted = list(shape)
        wanted[axis] = None if along is None else -(-along // block)
    else:
        wanted = [along]
    if not _agree(scale, wanted):
        raise node.invalid(f"scale of shape {show(scale)}", f"{show(tuple(wanted))}, as x has {show(shape)}")
    return _scale(node, 1, 2)


def _agree(first: Sequence[int | None], second: Sequence[int | None]) -> bool:
    """Whether known dims are equal."""
    return len(first) == len(second) and all(
        None in pair or pair[0] == pair[1] for pair in zip(first, second, strict=True)
    )


@lowers("QuantizeLinear")
def quantize(node: Node) -> Value:
    """A Quantize, or its formula."""
    stated = node.attr("output_dtype", 0)
    wanted = data_type(stated, node.where) if stated else DataType.u8
    wanted = wanted if node.optional(2) is None else node.dtype(2)
    return quantization.quantize(node.emit, node.value(0), _checked(node), wanted, bool(node.attr("saturate", 1)))


@lowers("DequantizeLinear")
def dequantize(node: Node) -> Value:
    """A Dequantize, or its formula."""
    stated = node.attr("output_dtype", 0)
    wanted = data_type(stated, node.where) if stated else node.dtype(1)
    return quantization.dequantize(node.emit, node.value(0), _checked(node), wanted)


@lowers("DynamicQuantizeLinear")
def dynamic_quantize(node: Node) -> tuple[Value, ...]:
    """A DynamicQuantizeLinear of the host ops."""
    return quantization.dynamic_quantize(node.emit, node.value(0), DataType.u8)


@lowers("QLinearConv")
def convolution(node: Node) -> Value:
    """A convolution between Dequantize and Quantize."""
    emit, src, result = node.emit, _scale(node, 1, 2), _scale(node, 6, 7)
    weights, scale = quantization.symmetric(node.value(3), _scale(node, 4, 5, 0))
    bias = quantization.known_bias(node.known(8), src, scale)
    image = quantization.dequantize(emit, node.value(0), src)
    kernel = quantization.dequantize(emit, weights, scale)
    outcome = windows.convolution(emit, image, kernel, bias, window_of(node), groups=node.attr("group", 1))
    return quantization.quantize(emit, outcome, result, node.dtype(7))


@lowers("QLinearMatMul")
def matmul(node: Node) -> Value:
    """A product between Dequantize and Quantize."""
    emit = node.emit
    weights, scale = quantization.symmetric(node.value(3), _scale(node, 4, 5, -1))
    first = quantization.dequantize(emit, node.value(0), _scale(node, 1, 2, -2))
    second = quantization.dequantize(emit, weights, scale)
    return quantization.quantize(emit, layers.matmul(emit, first, second), _scale(node, 6, 7), node.dtype(7))


@lowers("QLinearAdd", "QLinearMul", domain="com.microsoft")
def binary(node: Node) -> Value:
    """A sum or product between Dequantize and Quantize."""
    emit, combine = node.emit, {"QLinearAdd": add, "QLinearMul": multiply}[node.proto.op_type]
    first = quantization.dequantize(emit, node.value(0), _scale(node, 1, 2))
    second = quantization.dequantize(emit, node.value(3), _scale(node, 4, 5))
    return quantization.quantize(emit, combine(emit, first, second), _scale(node, 6, 7), node.dtype())


@lowers("MatMulInteger")
def integer_matmul(node: Node) -> Value:
    """An exact product."""
    return integer_products.integer_matmul(node.emit, node.value(0), node.value(1), node.optional(2), node.optional(3))


@lowers("ConvInteger")
def integer_convolution(node: Node) -> Value:
    """An exact convolution."""
    ends = node.value(0), node.value(1), node.optional(2), node.optional(3)
    return integer_products.integer_convolution(node.emit, *ends, window_of(node), groups=node.attr("group", 1))
