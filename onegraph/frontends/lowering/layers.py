"""Lowers convolutions, matrix products, pools and normalizations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .elementwise import add, multiply
from .emitter import Emitter, Value, numbers, rank_of, shape_of
from .movement import reshape


def convolution(
    emit: Emitter,
    src: Value,
    weights: Value,
    bias: Value | None,
    *,
    strides: Sequence[int],
    pads: tuple[Sequence[int], Sequence[int]],
    dilations: Sequence[int],
    groups: int = 1,
    auto_pad: str = "None",
) -> Value:
    """A convolution of src (N, C, X) with weights (O, I, X)."""
    attrs = {
        "strides": [*strides],
        "pads_begin": [*pads[0]],
        "pads_end": [*pads[1]],
        "dilations": [*dilations],
        "groups": groups,
        "auto_pad": auto_pad,
        "data_format": "NCX",
        "weights_format": "OIX",
    }
    found: Value = emit.op("Convolution", [src, weights, bias], attrs)
    return found


def convolution_transpose(
    emit: Emitter,
    src: Value,
    weights: Value,
    bias: Value | None,
    *,
    strides: Sequence[int],
    pads: tuple[Sequence[int], Sequence[int]],
    dilations: Sequence[int],
    output_padding: Sequence[int],
    groups: int = 1,
    auto_pad: str = "None",
) -> Value:
    """A transposed convolution of src (N, C, X) with weights (I, O, X)."""
    attrs = {
        "strides": [*strides],
        "pads_begin": [*pads[0]],
        "pads_end": [*pads[1]],
        "dilations": [*dilations],
        "output_padding": [*output_padding],
        "groups": groups,
        "auto_pad": auto_pad,
        "data_format": "NCX",
        "weights_format": "IOX",
    }
    found: Value = emit.op("ConvTranspose", [src, weights, bias], attrs)
    return found


def matmul(
    emit: Emitter,
    src: Value,
    weights: Value,
    bias: Value | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Value:
    """The matrix product, as numpy.matmul, plus a bias."""
    attrs = {name: True for name, flag in (("transpose_a", transpose_a), ("transpose_b", transpose_b)) if flag}
    found: Value = emit.op("MatMul", [src, weights, bias], attrs)
    return found


def pool(
    emit: Emitter,
    kind: str,
    src: Value,
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: tuple[Sequence[int], Sequence[int]],
    dilations: Sequence[int],
    auto_pad: str = "None",
    ceil: bool = False,
    exclude_pad: bool = True,
) -> Value:
    """A MaxPool or AvgPool of src (N, C, X)."""
    attrs: dict[str, object] = {
        "kernel": [*kernel],
        "strides": [*strides],
        "pads_begin": [*pads[0]],
        "pads_end": [*pads[1]],
        "rounding_type": "ceil" if ceil else "floor",
        "auto_pad": auto_pad,
        "data_format": "NCX",
    }
    if kind == "MaxPool":
        attrs["dilations"] = [*dilations]
    else:
        attrs["exclude_pad"] = exclude_pad
    found: Value = emit.op(kind, [src], attrs)
    return found


def batch_norm(
    emit: Emitter, src: Value, gamma: Value, beta: Value, mean: Value, variance: Value, epsilon: float
) -> Value:
    """(src - mean) / sqrt(variance + epsilon) * gamma + beta for each channel of src (N, C, X)."""
    rank = rank_of(src)
    attrs = {"epsilon": epsilon, "data_format": "NCX"}
    if rank == 2:
        attrs["data_format"] = "NXC"
    found: Value = emit.op("BatchNormInference", [src, gamma, beta, mean, variance], attrs)
    return found


def layer_norm(emit: Emitter, src: Value, gamma: Value | None, beta: Value | None, axis: int, epsilon: float) -> Value:
    """src normalized over the axes from ``axis`` on, times gamma, plus beta."""
    rank = rank_of(src) or 1
    begin = axis if axis < 0 else axis - rank
    shape = shape_of(src)
    if begin != -1 and shape is not None and None not in shape[begin:]:
        inner = int(np.prod([dim or 0 for dim in shape[begin:]]))
        flat = [None if one is None else reshape(emit, one, numbers(inner)) for one in (gamma, beta)]
        outer = [-1 if dim is None else dim for dim in shape[:begin]]
        if outer.count(-1) > 1:
            outer = [-1]
        normal = layer_norm(emit, reshape(emit, src, numbers(*outer, inner)), flat[0], flat[1], -1, epsilon)
        return reshape(emit, normal, numbers(*[-1 if dim is None else dim for dim in shape]))
    if gamma is None and beta is None:
        found: Value = emit.op("LayerNorm", [src], {"epsilon": epsilon, "use_affine": False, "keep_stats": False})
        return found
    if beta is None:
        beta = np.zeros(gamma.shape, gamma.dtype) if isinstance(gamma, np.ndarray) else None
    if beta is None or gamma is None:
        normal = emit.op("LayerNorm", [src], {"epsilon": epsilon, "use_affine": False, "keep_stats": False})
        normal = normal if gamma is None else multiply(emit, normal, gamma)
        return normal if beta is None else add(emit, normal, beta)
    result: Value = emit.op("LayerNorm", [src, gamma, beta], {"epsilon": epsilon, "keep_stats": False})
    return result


def channel_vector(emit: Emitter, vector: Value, rank: int) -> Value:
    """A vector with one element for each channel, shaped to broadcast with a tensor (N, C, X) of this rank."""
    return reshape(emit, vector, numbers(-1, *[1] * (rank - 2)))
