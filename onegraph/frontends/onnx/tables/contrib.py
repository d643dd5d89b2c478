"""Lowers nodes of the domain com.microsoft, which ONNX Runtime's optimizer and exporters write into models."""

from __future__ import annotations

from ....lowering import elementwise, layers, quantization, reduction
from ....lowering.elementwise import add, unary
from ....lowering.emitter import Value
from ....lowering.movement import concat, transpose
from ....lowering.quantization import Scale
from ..node import Node, lowers
from .layers import averages, native
from .norms import rms_norm

DOMAIN = "com.microsoft"


@lowers("Gelu", "FastGelu", "BiasGelu", "QuickGelu", domain=DOMAIN)
def gelu(node: Node) -> Value:
    """A GELU, of the sum with a bias if there is one."""
    native(node)
    emit, src, bias, kind = node.emit, node.value(0), node.optional(1), node.proto.op_type
    src = src if bias is None else add(emit, src, bias)
    if kind == "QuickGelu":
        return elementwise.swish(emit, src, node.attr("alpha", 1.702))
    return unary(emit, "GELU", src, {"mode": "gelu_tanh" if kind == "FastGelu" else "gelu_erf"})


@lowers("QGemm", domain=DOMAIN)
def quantized_gemm(node: Node) -> Value:
    """A Gemm between Dequantize and Quantize; without a scale of the result it stays f32."""
    emit, axis = node.emit, 0 if node.attr("transB", 0) else 1
    first = Scale(node.value(1), node.optional(2))
    weights, second = quantization.symmetric(node.value(3), Scale(node.value(4), node.optional(5), axis))
    bias = quantization.known_bias(node.known(6), first, second)
    result = layers.scaled_matmul(
        emit,
        quantization.dequantize(emit, node.value(0), first),
        quantization.dequantize(emit, weights, second),
        bias,
        alpha=node.attr("alpha", 1.0),
        transpose_a=bool(node.attr("transA", 0)),
        transpose_b=bool(node.attr("transB", 0)),
    )
    if node.optional(7) is None:
        return result
    return quantization.quantize(emit, result, Scale(node.value(7), node.optional(8)), node.dtype(8))


@lowers("QLinearGlobalAveragePool", "QLinearSigmoid", "QLinearLeakyRelu", domain=DOMAIN)
def quantized_unary(node: Node) -> Value:
    """An op between Dequantize and Quantize."""
    emit, kind = node.emit, node.proto.op_type
    src = quantization.dequantize(emit, node.value(0), Scale(node.value(1), node.optional(2)))
    if kind == "QLinearSigmoid":
        result = unary(emit, "Sigmoid", src)
    elif kind == "QLinearLeakyRelu":
        result = unary(emit, "LeakyReLU", src, {"alpha": node.attr("alpha", 0.01)})
    else:
        first = 1 if node.attr("channels_last", 0) else 2
        axes = [*range(first, first + node.rank() - 2)]
        result = reduction.reduce(emit, "ReduceMean", src, axes, keep=True)
    return quantization.quantize(emit, result, Scale(node.value(3), node.optional(4)), node.dtype())


@lowers("QLinearAveragePool", domain=DOMAIN)
def quantized_average_pool(node: Node) -> Value:
    """A pool between Dequantize and Quantize, of images whose channels come first or last."""
    emit, rank = node.emit, node.rank()
    first, last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    is_last = bool(node.attr("channels_last", 0))
    src = quantization.dequantize(emit, node.value(0), Scale(node.value(1), node.optional(2)))
    pooled = averages(node, transpose(emit, src, first) if is_last else src)
    result = transpose(emit, pooled, last) if is_last else pooled
    return quantization.quantize(emit, result, Scale(node.value(3), node.optional(4)), node.dtype())


@lowers("QLinearWhere", domain=DOMAIN)
def quantized_where(node: Node) -> Value:
    """A choice between two tensors, each behind a Dequantize, and in front of a Quantize."""
    emit = node.emit
    choices = [
        quantization.dequantize(emit, node.value(place), Scale(node.value(place + 1), node.optional(place + 2)))
        for place in (1, 4)
    ]
    result = elementwise.select(emit, node.value(0), *choices)
    return quantization.quantize(emit, result, Scale(node.value(7), node.optional(8)), node.dtype(1))


@lowers("QLinearConcat", domain=DOMAIN)
def quantized_concat(node: Node) -> Value:
    """Tensors joined between Dequantize and Quantize: the scale and zero point of the result come first."""
    emit = node.emit
    parts = [
        quantization.dequantize(emit, node.value(place), Scale(node.value(place + 1), node.optional(place + 2)))
        for place in range(2, len(node), 3)
    ]
    whole = concat(emit, parts, node.attr("axis"))
    return quantization.quantize(emit, whole, Scale(node.value(0), node.optional(1)), node.dtype(1))


lowers("SimplifiedLayerNormalization", domain=DOMAIN)(rms_norm)
