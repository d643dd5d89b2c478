"""Lowers nodes of quantized models."""

from __future__ import annotations

import numpy as np

from ....lowering import layers, quantization, windows
from ....lowering.elementwise import add, multiply
from ....lowering.elementwise import binary as binary_op
from ....lowering.emitter import Emitter, Value, numbers, shape_of
from ....lowering.movement import cast, concat, reshape, split
from ....lowering.quantization import Scale
from ....lowering.windows import Window
from ....opset.dtypes import DataType
from ..node import Node, NotLowered, lowers
from ..types import data_type
from .layers import window_of


def _scale(node: Node, scale: int, zero: int, axis: int | None = None) -> Scale:
    """The scale and the zero point that two inputs hold."""
    place = node.attr("axis", 1) if axis is None else axis
    return Scale(node.value(scale), node.optional(zero), place, node.attr("block_size", 0))


@lowers("QuantizeLinear")
def quantize(node: Node) -> Value:
    """A Quantize, or its formula."""
    stated = node.attr("output_dtype", 0)
    wanted = data_type(stated, node.where) if stated else DataType.u8
    wanted = wanted if node.optional(2) is None else node.dtype(2)
    return quantization.quantize(node.emit, node.value(0), _scale(node, 1, 2), wanted, bool(node.attr("saturate", 1)))


@lowers("DequantizeLinear")
def dequantize(node: Node) -> Value:
    """A Dequantize, or its formula."""
    stated = node.attr("output_dtype", 0)
    wanted = data_type(stated, node.where) if stated else node.dtype(1)
    return quantization.dequantize(node.emit, node.value(0), _scale(node, 1, 2), wanted)


@lowers("QLinearConv")
def convolution(node: Node) -> Value:
    """A convolution between Dequantize and Quantize."""
    emit, src, result = node.emit, _scale(node, 1, 2), _scale(node, 6, 7)
    weights, scale = quantization.symmetric(node.value(3), _scale(node, 4, 5, 0))
    bias = quantization.known_bias(node.known(8), src, scale)
    image = quantization.dequantize(emit, node.value(0), src)
    kernel = quantization.dequantize(emit, weights, scale)
    found = windows.convolution(emit, image, kernel, bias, window_of(node), groups=node.attr("group", 1))
    return quantization.quantize(emit, found, result, node.dtype(7))


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
    return quantization.integer_matmul(node.emit, node.value(0), node.value(1), node.optional(2), node.optional(3))


@lowers("ConvInteger")
def integer_convolution(node: Node) -> Value:
    """An exact convolution."""
    emit, window, groups = node.emit, window_of(node), node.attr("group", 1)
    src, weights, points = node.value(0), node.value(1), (node.optional(2), node.optional(3))
    if points[1] is None or node.shape(3) in ((), (1,)):
        return _exact(emit, src, weights, points, window, groups)
    # Each channel subtracts its zero point from all weights: from the result that many sums of the windows.
    shape = node.shape(1)
    if shape is None or None in shape:
        raise NotLowered("zero points for each channel of weights of unknown shape")
    ones = np.ones(shape, np.int8)
    found, sums = (_exact(emit, src, one, (points[0], None), window, groups) for one in (weights, ones))
    zeros = reshape(emit, cast(emit, points[1], DataType.s32), numbers(-1, *[1] * (len(shape) - 2)))
    return binary_op(emit, "Subtract", found, multiply(emit, sums, zeros))


def _exact(
    emit: Emitter,
    src: Value,
    weights: Value,
    points: tuple[Value | None, Value | None],
    window: Window,
    groups: int,
) -> Value:
    """An exact convolution: the sum over parts of the channels whose sums f32 holds."""
    try:
        return quantization.integer_convolution(emit, src, weights, *points, window, groups=groups)
    except NotLowered:
        shape = shape_of(weights)
        if shape is None or shape[0] is None or shape[1] is None or (groups == 1 and shape[1] < 2):
            raise
    if groups > 1:
        images = split(emit, src, [shape[1]] * groups, 1)
        kernels = split(emit, weights, [shape[0] // groups] * groups, 0)
        pairs = zip(images, kernels, strict=True)
        return concat(emit, [_exact(emit, *pair, points, window, 1) for pair in pairs], 1)
    sizes = [shape[1] // 2, shape[1] - shape[1] // 2]
    pairs = zip(split(emit, src, sizes, 1), split(emit, weights, sizes, 1), strict=True)
    return add(emit, *[_exact(emit, *pair, points, window, 1) for pair in pairs])
