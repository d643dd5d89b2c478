"""Lowers convolutions, matrix products, pools and normalizations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...lowering import layers as lowering
from ...lowering import reduction
from ...lowering.elementwise import add, binary, filled, multiply, unary
from ...lowering.emitter import Value, numbers
from ...lowering.movement import NATIVE, reshape
from ..node import Node, NotLowered, lowers

AUTO_PAD = {"NOTSET": "None", "VALID": "VALID", "SAME_UPPER": "SAME_UPPER", "SAME_LOWER": "SAME_LOWER"}


def _native(node: Node) -> None:
    if node.dtype() not in NATIVE:
        raise NotLowered(f"{node.dtype()} is no data type of the op")


def _window(node: Node, rank: int) -> dict[str, object]:
    """Strides, padding and dilations of a node with this number of spatial axes."""
    pads = node.attr("pads", [0] * (2 * rank))
    auto_pad = AUTO_PAD[node.attr("auto_pad", "NOTSET")]
    return {
        "strides": node.attr("strides", [1] * rank),
        "pads": (pads[:rank], pads[rank:]) if auto_pad == "None" else ([0] * rank, [0] * rank),
        "dilations": node.attr("dilations", [1] * rank),
        "auto_pad": auto_pad,
    }


def _spatial(node: Node) -> int:
    count = node.rank() - 2
    if not 1 <= count <= 3:
        raise NotLowered(f"{count} spatial axes")
    return count


@lowers("Conv")
def convolution(node: Node) -> Value:
    """A convolution."""
    _native(node)
    window = _window(node, _spatial(node))
    inputs = node.value(0), node.value(1), node.optional(2)
    return lowering.convolution(node.emit, *inputs, **window, groups=node.attr("group", 1))  # type: ignore[arg-type]


@lowers("ConvTranspose")
def convolution_transpose(node: Node) -> Value:
    """A transposed convolution; output_shape decides the padding."""
    _native(node)
    rank = _spatial(node)
    window, shape, weights = _window(node, rank), node.shape(), node.shape(1)
    extra = node.attr("output_padding", [0] * rank)
    wanted = node.attr("output_shape")
    strides, dilations = node.attr("strides", [1] * rank), node.attr("dilations", [1] * rank)
    if wanted is not None or window["auto_pad"] in ("SAME_UPPER", "SAME_LOWER"):
        if None in shape[2:] or None in weights[2:]:
            raise NotLowered("the padding depends on unknown dims")
        wanted = (
            [dim * step for dim, step in zip(shape[2:], strides, strict=True)] if wanted is None else wanted[-rank:]
        )
        kernel = [(dim - 1) * apart + 1 for dim, apart in zip(weights[2:], dilations, strict=True)]
        whole = [
            (dim - 1) * step + size + more - out
            for dim, step, size, more, out in zip(shape[2:], strides, kernel, extra, wanted, strict=True)
        ]
        extra = [more + max(-total, 0) for more, total in zip(extra, whole, strict=True)]
        whole = [max(total, 0) for total in whole]
        small, large = [total // 2 for total in whole], [total - total // 2 for total in whole]
        ends = (small, large) if node.attr("auto_pad", "NOTSET") != "SAME_LOWER" else (large, small)
        if wanted is not None and node.attr("auto_pad", "NOTSET") == "NOTSET":
            ends = (large, small) if node.has("output_shape") else ends
            ends = (small, large) if node.has("output_shape") and node.attr("auto_pad") == "SAME_UPPER" else ends
        window |= {"pads": ends, "auto_pad": "None"}
    inputs = node.value(0), node.value(1), node.optional(2)
    return lowering.convolution_transpose(  # type: ignore[arg-type]
        node.emit, *inputs, **window, output_padding=extra, groups=node.attr("group", 1)
    )


@lowers("MatMul")
def matmul(node: Node) -> Value:
    """A matrix product."""
    return lowering.matmul(node.emit, node.value(0), node.value(1))


@lowers("Gemm")
def gemm(node: Node) -> Value:
    """alpha * A @ B + beta * C."""
    emit, alpha, beta = node.emit, node.attr("alpha", 1.0), node.attr("beta", 1.0)
    src, weights, bias = node.value(0), node.value(1), node.optional(2)
    if alpha != 1:
        weights = multiply(emit, weights, filled(alpha, weights))
    if bias is not None and beta != 1:
        bias = multiply(emit, bias, filled(beta, bias))
    flags = {"transpose_a": bool(node.attr("transA", 0)), "transpose_b": bool(node.attr("transB", 0))}
    shape = None if bias is None else bias.shape
    if shape is not None and len(shape) == 1 and node.dtype() in NATIVE:
        return lowering.matmul(emit, src, weights, bias, **flags)
    product = lowering.matmul(emit, src, weights, **flags)
    return product if bias is None else add(emit, product, bias)


@lowers("MaxPool", "AveragePool")
def pool(node: Node) -> Value:
    """A pool; the indices of a MaxPool need another way."""
    _native(node)
    if len(node.proto.output) > 1:
        raise NotLowered("indices of the largest elements")
    rank, kind = _spatial(node), {"MaxPool": "MaxPool", "AveragePool": "AvgPool"}[node.proto.op_type]
    window = _window(node, rank)
    if kind == "AvgPool" and any(step != 1 for step in window["dilations"]):  # type: ignore[attr-defined]
        raise NotLowered("an AvgPool with dilations")
    exclude = not node.attr("count_include_pad", 0)
    ceil = bool(node.attr("ceil_mode", 0))
    kernel = node.attr("kernel_shape")
    return lowering.pool(node.emit, kind, node.value(0), kernel=kernel, **window, ceil=ceil, exclude_pad=exclude)  # type: ignore[arg-type]


@lowers("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node) -> Value:
    """A reduction over the spatial axes."""
    kind = {"GlobalAveragePool": "ReduceMean", "GlobalMaxPool": "ReduceMax"}[node.proto.op_type]
    return reduction.reduce(node.emit, kind, node.value(0), [*range(2, node.rank())], keep=True)


@lowers("BatchNormalization")
def batch_norm(node: Node) -> Value:
    """A normalization with known statistics."""
    _native(node)
    if node.attr("training_mode", 0) or len([name for name in node.proto.output if name]) > 1:
        raise NotLowered("statistics of the batch")
    inputs = [node.value(index) for index in range(5)]
    if node.rank() < 2:
        raise NotLowered("a tensor without channels")
    return lowering.batch_norm(node.emit, *inputs, node.attr("epsilon", 1e-5))  # type: ignore[misc]


@lowers("InstanceNormalization")
def instance_norm(node: Node) -> Value:
    """A normalization of each channel of each image."""
    emit, src = node.emit, node.value(0)
    axes = [*range(2, node.rank())]
    mean = reduction.reduce(emit, "ReduceMean", src, axes, keep=True)
    apart = binary(emit, "Subtract", src, mean)
    variance = reduction.reduce(emit, "ReduceMean", multiply(emit, apart, apart), axes, keep=True)
    scale = unary(emit, "Sqrt", add(emit, variance, filled(node.attr("epsilon", 1e-5), variance)))
    normal = binary(emit, "Divide", apart, scale)
    gamma, beta = (lowering.channel_vector(emit, node.value(index), node.rank()) for index in (1, 2))
    return add(emit, multiply(emit, normal, gamma), beta)


@lowers("LayerNormalization")
def layer_norm(node: Node) -> Value:
    """A normalization of the last axes."""
    _native(node)
    if len([name for name in node.proto.output if name]) > 1:
        raise NotLowered("statistics as outputs")
    axis, epsilon = node.attr("axis", -1), node.attr("epsilon", 1e-5)
    return lowering.layer_norm(node.emit, node.value(0), node.optional(1), node.optional(2), axis, epsilon)


@lowers("LRN")
def local_response(node: Node) -> Value:
    """A normalization over neighbouring channels: squares are summed by an AvgPool over the axis of channels."""
    _native(node)
    emit, src, shape, size = node.emit, node.value(0), node.shape(), node.attr("size")
    if len(shape) < 3 or None in shape[1:]:
        raise NotLowered("unknown dims")
    inner = int(np.prod(shape[2:]))
    flat = reshape(emit, unary(emit, "Square", src), numbers(-1, 1, shape[1], inner))
    before = (size - 1) // 2
    window: dict[str, Sequence[int] | tuple[Sequence[int], Sequence[int]]] = {
        "kernel": [size, 1],
        "strides": [1, 1],
        "pads": ([before, 0], [size - 1 - before, 0]),
        "dilations": [1, 1],
    }
    mean = lowering.pool(emit, "AvgPool", flat, **window, exclude_pad=False)  # type: ignore[arg-type]
    mean = reshape(emit, mean, numbers(*[-1 if dim is None else dim for dim in shape]))
    scale = add(
        emit, multiply(emit, mean, filled(node.attr("alpha", 1e-4), mean)), filled(node.attr("bias", 1.0), mean)
    )
    return binary(emit, "Divide", src, unary(emit, "Pow", scale, {"beta": node.attr("beta", 0.75)}))
