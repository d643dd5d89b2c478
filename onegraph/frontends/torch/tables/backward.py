"""Lowers the ops of backward graphs to the backward ops of the specification."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from ml_dtypes import finfo

from ....lowering.elementwise import binary, filled, multiply, select, unary
from ....lowering.emitter import Value, dtype_of
from ....lowering.movement import cast
from ....lowering.norms import batch_norm_of_images
from ....lowering.reduction import reduce
from ....lowering.shares import shared
from ....opset.dtypes import DataType
from ..node import AtenNode, NotLowered, lowers
from ..types import DTYPES
from .elementwise import native
from .movement import reshape
from .windows import means_of, window_of

# Ops whose gradient reads the result: the kind of the specification's op.
BY_RESULT = {"tanh_backward": "TanhBackward", "sigmoid_backward": "SigmoidBackward"}
# PyTorch saves 1 / sqrt(variance + epsilon). The backward ops add an epsilon to a variance, and take none that is 0:
# this one is lost beside every variance + epsilon that a reciprocal root in f32 stands for.
NOTHING = float(np.finfo(np.float32).tiny)


@lowers("threshold_backward.default")
def threshold_backward(node: AtenNode) -> Value:
    """The gradient where the source is above a threshold."""
    src, diff = native(node), native(node, "grad_output")
    if node["threshold"] == 0:
        return node.emit.op("ReLUBackward", [src, diff], {"use_dst": True})
    kept = binary(node.emit, "Greater", src, filled(node["threshold"], src))
    return select(node.emit, kept, diff, filled(0, diff))


@lowers("_prelu_kernel_backward.default")
def prelu_backward(node: AtenNode) -> tuple[Value, Value]:
    """The gradients of a PReLU with respect to its source and, before they are summed, to its slopes."""
    emit, src, diff = node.emit, native(node), native(node, "grad_output")
    least = float(finfo(dtype_of(src).numpy).smallest_subnormal)  # type: ignore[no-untyped-call]
    above = binary(emit, "GreaterEqual", src, filled(least, src))  # False for NaN
    below = binary(emit, "Multiply", diff, native(node, "weight"))
    by_slope = binary(emit, "Multiply", src, diff)
    return select(emit, above, diff, below), select(emit, above, filled(0, diff), by_slope)


@lowers("gelu_backward.default")
def gelu_backward(node: AtenNode) -> Value:
    """The gradient of GELU."""
    mode = {"none": "gelu_erf", "tanh": "gelu_tanh"}[node["approximate"]]
    return node.emit.op("GELUBackward", [native(node), native(node, "grad_output")], {"mode": mode})


@lowers(*(f"{name}.default" for name in BY_RESULT))
def by_result(node: AtenNode) -> Value:
    """The gradient of an activation by its result."""
    inputs = [native(node, "output"), native(node, "grad_output")]
    return node.emit.op(BY_RESULT[node.name.split(".")[1]], inputs, {"use_dst": True})


@lowers("silu_backward.default")
def silu_backward(node: AtenNode) -> Value:
    """The gradient of x * sigmoid(x): s * (1 + x * (1 - s))."""
    emit, src, diff = node.emit, native(node), native(node, "grad_output")
    share = unary(emit, "Sigmoid", src)
    rest = binary(emit, "Subtract", filled(1, src), share)
    slope = multiply(emit, share, binary(emit, "Add", multiply(emit, src, rest), filled(1, src)))
    return multiply(emit, diff, slope)


@lowers("hardswish_backward.default")
def hardswish_backward(node: AtenNode) -> Value:
    """The gradient of HardSwish."""
    return node.emit.op("HardSwishBackward", [native(node), native(node, "grad_output")])


@lowers("hardsigmoid_backward.default")
def hardsigmoid_backward(node: AtenNode) -> Value:
    """The gradient of HardSigmoid."""
    attrs = {"alpha": 1 / 6, "beta": 0.5}
    return node.emit.op("HardSigmoidBackward", [native(node), native(node, "grad_output")], attrs)


@lowers("_softmax_backward_data.default", "_log_softmax_backward_data.default")
def softmax_backward(node: AtenNode) -> Value:
    """The gradient of SoftMax or LogSoftmax."""
    kind = "LogSoftmaxBackward" if "log" in node.name else "SoftMaxBackward"
    diff, result = native(node, "grad_output"), native(node, "output")
    axis = node.axis("dim", "output")
    outcome = node.emit.op(kind, [diff, result], {"axis": axis})
    return cast(node.emit, outcome, node.result_dtype)


@lowers("native_layer_norm_backward.default")
def layer_norm_backward(node: AtenNode) -> list[Value | None]:
    """The gradients of a layer normalization."""
    emit, src, diff = node.emit, native(node, "input"), native(node, "grad_out")
    shape = node.shape("input")
    begin = len(shape) - len(node["normalized_shape"])
    rows, size = prod(shape[:begin]), prod(shape[begin:])
    wide = DataType.f32
    mean, root = (reshape(node, cast(emit, node.value(name), wide), [rows]) for name in ("mean", "rstd"))
    variance = unary(emit, "Reciprocal", unary(emit, "Square", root))
    flat = [reshape(node, one, [rows, size]) for one in (src, diff)]
    gamma = np.ones(size, np.float32) if node["weight"] is None else node.value("weight")
    gamma = reshape(node, cast(emit, gamma, wide), [size])
    attrs = {"begin_norm_axis": -1, "use_affine": True, "epsilon": NOTHING}
    inputs = [*flat, mean, variance, gamma, np.zeros(size, np.float32)]
    gradients = emit.ends("LayerNormBackward", inputs, attrs)
    results: list[Value | None] = [None, None, None]
    for place, gradient in enumerate(gradients):
        like = node.like[place]
        if like is not None and node["output_mask"][place]:
            results[place] = reshape(node, cast(emit, gradient, DTYPES[like.dtype]), [*like.shape])
    return results


@lowers("native_batch_norm_backward.default")
def batch_norm_backward(node: AtenNode) -> list[Value | None]:
    """The gradients of a batch normalization."""
    emit, src, diff = node.emit, native(node, "input"), native(node, "grad_out")
    gamma = np.ones(node.shape("input")[1], np.float32) if node["weight"] is None else node.value("weight")
    gamma = cast(emit, gamma, DataType.f32)
    gradients = (_by_batch if node["train"] else _by_running)(node, src, diff, gamma)
    return [
        None if like is None or not wanted else cast(emit, gradient, DTYPES[like.dtype])
        for gradient, like, wanted in zip(gradients, node.like, node["output_mask"], strict=True)
    ]


def _by_batch(node: AtenNode, src: Value, diff: Value, gamma: Value) -> Sequence[Value]:
    """The gradients where the statistics are those of the batch."""
    emit = node.emit
    mean, root = (cast(emit, node.value(name), DataType.f32) for name in ("save_mean", "save_invstd"))
    variance = unary(emit, "Reciprocal", unary(emit, "Square", root))
    vectors = [mean, variance, gamma]
    return batch_norm_of_images(emit, "BatchNormTrainingBackward", [src, diff], vectors, epsilon=NOTHING)


def _by_running(node: AtenNode, src: Value, diff: Value, gamma: Value) -> Sequence[Value]:
    """The gradients where the running statistics are constants."""
    emit, shape = node.emit, node.shape("input")
    mean, variance = (cast(emit, node.value(name), DataType.f32) for name in ("running_mean", "running_var"))
    root = unary(emit, "Reciprocal", unary(emit, "Sqrt", binary(emit, "Add", variance, filled(node["eps"], variance))))
    wide, source = (cast(emit, one, DataType.f32) for one in (diff, src))
    vector = [1, shape[1], *[1] * (len(shape) - 2)]
    axes = [axis for axis in range(len(shape)) if axis != 1]
    factor, center = (reshape(node, one, vector) for one in (multiply(emit, gamma, root), mean))
    apart = multiply(emit, wide, binary(emit, "Subtract", source, center))
    return [
        multiply(emit, wide, factor),
        multiply(emit, reduce(emit, "ReduceSum", apart, axes, False), root),
        reduce(emit, "ReduceSum", wide, axes, False),
    ]


@lowers("convolution_backward.default")
def convolution_backward(node: AtenNode) -> list[Value | None]:
    """The gradients of a convolution with respect to its source, weights and bias."""
    emit, diff, src = node.emit, native(node, "grad_output"), native(node, "input")
    weights, groups = node.value("weight"), node["groups"]
    count = len(node.shape("weight")) - 2
    if len(node.shape("input")) != count + 2:
        raise NotLowered("no axis of batches")
    more = [*node["output_padding"]]
    attrs: dict[str, object] = {
        "strides": [*node["stride"]],
        "pads_begin": [*node["padding"]],
        "pads_end": [*node["padding"]],
        "dilations": [*node["dilation"]],
        "groups": groups,
        "data_format": "NCX",
    }
    if node["transposed"] and any(more):
        raise NotLowered("output padding")
    form = "IOX" if node["transposed"] else "OIX"
    family = "ConvTranspose" if node["transposed"] else "Convolution"
    results: list[Value | None] = [None, None, None]
    if node["output_mask"][0]:
        if node["transposed"]:
            results[0] = emit.op("ConvTransposeBackwardData", [diff, weights], {**attrs, "weights_format": form})
        else:
            shape = {"dst_shape": [*node.shape("input")], "weights_format": form}
            results[0] = emit.op("ConvolutionBackwardData", [diff, weights], {**attrs, **shape})
    if node["output_mask"][1]:
        shape = {"weights_shape": [*node.shape("weight")], "weights_format": form}
        results[1] = emit.op(f"{family}BackwardWeights", [src, diff], {**attrs, **shape})
    if node["output_mask"][2]:
        results[2] = reduce(emit, "ReduceSum", diff, [0, *range(2, count + 2)], False)
    return results


@lowers("max_pool2d_with_indices_backward.default", "onegraph.max_pool2d_backward.default")
def max_pool_backward(node: AtenNode) -> Value:
    """The gradient of a pool; the op finds the largest elements again."""
    src, diff = native(node), native(node, "grad_output")
    kernel, window = window_of(node, 2)
    if len(node.shape("self")) != 4:
        raise NotLowered("no axis of batches")
    settled = window.settled(node.shape("self")[2:], kernel, bool(node["ceil_mode"]))
    attrs = settled.attrs(kernel=kernel, dilations=[*settled.dilations])
    return node.emit.op("MaxPoolBackward", [src, diff], attrs)


@lowers("avg_pool2d_backward.default", "avg_pool3d_backward.default")
def average_pool_backward(node: AtenNode) -> Value:
    """The gradient of a pool of means."""
    diff, shape, count = native(node, "grad_output"), node.shape("self"), 2 if "2d" in node.name else 3
    kernel, window = window_of(node, count)
    if len(shape) != count + 2 or node["ceil_mode"] or node["divisor_override"] is not None:
        shares = means_of(node, shape[-count:], node.shape("grad_output")[-count:], len(shape) - count)
        return shared(node.emit, diff, {axis: one.turned(shape[axis]) for axis, one in shares.items()})
    padded = any(window.begin) and bool(node["count_include_pad"])
    attrs = window.attrs(kernel=kernel, exclude_pad=not padded, src_shape=[*shape])
    return node.emit.op("AvgPoolBackward", [diff], attrs)
