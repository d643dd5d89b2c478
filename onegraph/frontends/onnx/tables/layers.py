"""Lowers convolutions, matrix products and pools."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....lowering import layers, reduction, windows
from ....lowering.blocks import from_blocks
from ....lowering.einsum import einsum
from ....lowering.elementwise import unary
from ....lowering.emitter import Value
from ....lowering.movement import NATIVE
from ....lowering.windows import Window
from ..node import Node, NotLowered, Unsettled, in_f32, lowers

AUTO_PAD = {"NOTSET": "None", "VALID": "VALID", "SAME_UPPER": "SAME_UPPER", "SAME_LOWER": "SAME_LOWER"}


def native(node: Node) -> None:
    """Refuse data types that only host ops take."""
    if node.dtype() not in NATIVE:
        raise NotLowered(f"{node.dtype()} is no data type of the op")


def window_of(node: Node) -> Window:
    """The window of a node."""
    rank = node.rank() - 2
    if not 1 <= rank <= 3:
        raise NotLowered(f"{rank} spatial axes")
    pads = node.attr("pads", [0] * (2 * rank))
    auto_pad = AUTO_PAD[node.attr("auto_pad", "NOTSET")]
    pads = pads if auto_pad == "None" else [0] * (2 * rank)
    ones = [1] * rank
    return Window(node.attr("strides", ones), pads[:rank], pads[rank:], node.attr("dilations", ones), auto_pad)


@lowers("Conv")
def convolution(node: Node) -> Value:
    """A convolution."""
    native(node)
    inputs = node.value(0), node.value(1), node.optional(2)
    return windows.convolution(node.emit, *inputs, window_of(node), groups=node.attr("group", 1))


@lowers("ConvTranspose")
def convolution_transpose(node: Node) -> Value:
    """A transposed convolution; output_shape decides the padding."""
    native(node)
    window, extra = window_of(node), node.attr("output_padding", [0] * (node.rank() - 2))
    if node.has("output_shape") or window.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        window, extra = _transposed(node, window, extra)
    inputs = node.value(0), node.value(1), node.optional(2)
    groups = node.attr("group", 1)
    return windows.convolution_transpose(node.emit, *inputs, window, output_padding=extra, groups=groups)


def _transposed(node: Node, window: Window, extra: list[int]) -> tuple[Window, list[int]]:
    """The padding, and the output padding, that give a transposed convolution its stated or default shape."""
    dims, kernel = windows.spatial(node.value(0)), windows.spatial(node.value(1))
    if dims is None or kernel is None:
        raise Unsettled("the padding depends on unknown dims")
    stated = node.attr("output_shape")
    begin, end, more = [], [], []
    for axis, size in enumerate(dims):
        wanted = size * window.strides[axis] if stated is None else stated[axis - len(dims)]
        reach = (kernel[axis] - 1) * window.dilations[axis] + 1
        total = (size - 1) * window.strides[axis] + reach + extra[axis] - wanted
        if total < 0 and stated is None:
            # The text asks for size * stride elements and shifts the image; ONNX Runtime and the inference of shapes
            # of the package onnx end the image with its last window; frameworks append zeros.
            raise node.invalid(
                f"auto_pad={window.auto_pad} with the stride {window.strides[axis]} above a window of {reach}",
                "output_shape or pads, because runtimes disagree on the size and the place of such an image",
            )
        more.append(extra[axis] + max(-total, 0))
        small = max(total, 0) // 2
        large = max(total, 0) - small
        begin.append(small if window.auto_pad == "SAME_UPPER" else large)
        end.append(large if window.auto_pad == "SAME_UPPER" else small)
    return replace(window, begin=begin, end=end, auto_pad="None"), more


@lowers("Col2Im")
def blocks_to_image(node: Node) -> Value:
    """The sums of blocks at their places in an image."""
    native(node)
    node.whole_shape()
    image, kernel = (node.integers(index) or [] for index in (1, 2))
    pads, ones = node.attr("pads", [0] * (2 * len(image))), [1] * len(image)
    begin, end = pads[: len(image)], pads[len(image) :]
    window = Window(node.attr("strides", ones), begin, end, node.attr("dilations", ones))
    return from_blocks(node.emit, node.value(0), image, kernel, window)


@lowers("MatMul")
def matmul(node: Node) -> Value:
    """A matrix product."""
    return layers.matmul(node.emit, node.value(0), node.value(1))


@lowers("Gemm")
def gemm(node: Node) -> Value:
    """alpha * A @ B + beta * C; factors of 16-bit matrices are applied in f32."""
    if (node.attr("alpha", 1.0), node.attr("beta", 1.0)) == (1, 1):
        return _gemm(node)
    return in_f32(node, _gemm)  # type: ignore[no-any-return]


def _gemm(node: Node) -> Value:
    return layers.scaled_matmul(
        node.emit,
        node.value(0),
        node.value(1),
        node.optional(2),
        alpha=node.attr("alpha", 1.0),
        beta=node.attr("beta", 1.0),
        transpose_a=bool(node.attr("transA", 0)),
        transpose_b=bool(node.attr("transB", 0)),
    )


def settled_dims(node: Node) -> list[int]:
    """The dims of the first input.

    Raises:
        Unsettled: some are unknown.
    """
    return [*node.whole_shape()]


@lowers("MaxPool")
def max_pool(node: Node) -> Value | tuple[Value, ...]:
    """A pool; with the places of the largest elements it is a host op."""
    if any(node.proto.output[1:]):
        kernel = [*node.attr("kernel_shape")]
        window = window_of(node).settled(settled_dims(node)[2:], kernel, bool(node.attr("ceil_mode", 0)))
        return windows.max_pool_places(node.emit, node.value(0), kernel, window, bool(node.attr("storage_order", 0)))
    ceil = bool(node.attr("ceil_mode", 0))
    return windows.max_pool(node.emit, node.value(0), node.attr("kernel_shape"), window_of(node), ceil=ceil)


@lowers("AveragePool")
def average_pool(node: Node) -> Value:
    """A pool."""
    native(node)

    def pooled(node: Node) -> Value:
        return averages(node, node.value(0))

    # A window with gaps, or one behind the padding, is a sum times the reciprocal of a count.
    is_sum = node.attr("ceil_mode", 0) or max(window_of(node).dilations) > 1
    return in_f32(node, pooled) if is_sum else pooled(node)


def averages(node: Node, src: Value) -> Value:
    """The averages of the windows of a node, whose channels come first."""
    ceil, exclude = bool(node.attr("ceil_mode", 0)), not node.attr("count_include_pad", 0)
    return windows.average_pool(
        node.emit, src, node.attr("kernel_shape"), window_of(node), ceil=ceil, exclude_pad=exclude
    )


@lowers("LpPool", wide=True)
def lp_pool(node: Node) -> Value:
    """The p-norm of windows."""
    native(node)
    kernel, power, ceil = node.attr("kernel_shape"), node.attr("p", 2), bool(node.attr("ceil_mode", 0))
    return windows.lp_pool(node.emit, node.value(0), kernel, window_of(node), power, ceil=ceil)


@lowers("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node) -> Value:
    """A reduction over the spatial axes."""
    kind = {"GlobalAveragePool": "ReduceMean", "GlobalMaxPool": "ReduceMax"}[node.proto.op_type]
    return reduction.reduce(node.emit, kind, node.value(0), [*range(2, node.rank())], keep=True)


@lowers("GlobalLpPool", wide=True)
def global_lp_pool(node: Node) -> Value:
    """The p-norm over the spatial axes."""
    emit, src, power, axes = node.emit, node.value(0), node.attr("p", 2), [*range(2, node.rank())]
    if power in (1, 2):
        return reduction.reduce(emit, f"ReduceL{power}", src, axes, keep=True)
    native(node)
    powers = unary(emit, "Pow", unary(emit, "Abs", src), {"beta": float(power)})
    return windows.root(emit, reduction.reduce(emit, "ReduceSum", powers, axes, keep=True), power)


@lowers("Einsum")
def sum_of_products(node: Node) -> Value:
    """A sum of products over named axes."""
    equation, operands = node.attr("equation"), [node.value(index) for index in range(len(node))]
    try:
        return einsum(node.emit, equation, operands)
    except NotLowered:
        arrays = [node.array(index) for index in range(len(node))]
        wide = [array if array.dtype.kind in "iu" else array.astype(np.float64) for array in arrays]
        return np.asarray(np.einsum(equation.replace(" ", ""), *wide)).astype(arrays[0].dtype)
