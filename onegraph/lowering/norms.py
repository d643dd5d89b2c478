"""Lowers normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..opset.dtypes import DataType
from .elementwise import add, binary, filled, multiply, unary
from .emitter import Emitter, Unsettled, Value, dtype_of, numbers, rank_of, shape_of
from .layout import inverse
from .movement import cast, reshape, transpose, unsqueeze
from .reduction import reduce
from .shares import shared, windows

THREE_QUARTERS = 0.75  # the exponent of AlexNet and GoogLeNet: a square root times its own


def in_f32(emit: Emitter, *parameters: Value | None) -> list[Value | None]:
    """Parameters of a normalization as f32, which every row of the ops' tables of data types takes beside 16 bits."""
    return [None if parameter is None else cast(emit, parameter, DataType.f32) for parameter in parameters]


def batch_norm(
    emit: Emitter, src: Value, gamma: Value, beta: Value, mean: Value, variance: Value, *, epsilon: float
) -> Value:
    """(src - mean) / sqrt(variance + epsilon) * gamma + beta for each channel of src (N, C, X)."""
    attrs = {"epsilon": epsilon, "data_format": "NXC" if rank_of(src) == 2 else "NCX"}
    return emit.op("BatchNormInference", [src, *in_f32(emit, gamma, beta, mean, variance)], attrs)


def batch_norm_of_images(
    emit: Emitter, kind: str, images: Sequence[Value], statistics: Sequence[Value], **attrs: object
) -> list[Value]:
    """A BatchNorm in training or its gradient, over (N, C, X): the op over (N, X, C) between transposes.

    Args:
        emit: adds the ops.
        kind: the op.
        images, others: its inputs.
        attrs: its attributes.
    """
    rank = rank_of(images[0]) or 0
    order = (0, *range(2, rank), 1)
    turned = [transpose(emit, image, order) for image in images]
    first, *following = emit.ends(kind, [*turned, *statistics], {**attrs, "data_format": "NXC"})
    return [transpose(emit, first, inverse(order)), *following]


def layer_norm(
    emit: Emitter, src: Value, gamma: Value | None, beta: Value | None, axis: int, epsilon: float
) -> list[Value]:
    """src normalized over the axes from ``axis`` on, times gamma, plus beta; then the mean and the variance.

    The mean and the variance have the normalized axes with size 1.
    """
    shape = shape_of(src)
    if shape is None:
        raise Unsettled("the rank is unknown")
    begin = axis % len(shape)
    outer, inner = shape[:begin], shape[begin:]
    has_one = (gamma is None) != (beta is None)
    if None in inner and (len(inner) > 1 or has_one):
        raise Unsettled("the normalized axes are unknown")
    rows, size = src, prod([dim for dim in inner if dim is not None])
    if len(inner) > 1:
        rows = reshape(emit, src, [*_open(outer), size])
        gamma, beta = (None if vector is None else reshape(emit, vector, numbers(size)) for vector in (gamma, beta))
    gamma, beta = in_f32(emit, gamma, beta)
    if has_one:
        gamma = np.ones(size, np.float32) if gamma is None else gamma
        beta = np.zeros(size, np.float32) if beta is None else beta
    if gamma is None or beta is None:
        normalized = emit.ends("LayerNorm", [rows], {"epsilon": epsilon, "use_affine": False})
        normal = normalized[0]
    else:
        normalized = emit.ends("LayerNorm", [rows, gamma, beta], {"epsilon": epsilon})
        normal = normalized[0]
    if len(inner) > 1:
        normal = reshape(emit, normal, _open(shape))
    return [normal, *(unsqueeze(emit, vector, [*range(begin, len(shape))]) for vector in normalized[1:])]


def _open(shape: Sequence[int | None]) -> list[int]:
    """A shape with -1 for the unknown dim.

    Raises:
        NotLowered: several dims are unknown.
    """
    if sum(dim is None for dim in shape) > 1:
        raise Unsettled("several dims are unknown")
    return [-1 if dim is None else dim for dim in shape]


def group_norm(
    emit: Emitter, src: Value, gamma: Value | None, beta: Value | None, groups: int, epsilon: float
) -> Value:
    """src (N, C, X) normalized over each group of channels, times gamma, plus beta for each channel, or neither."""
    affine = [] if gamma is None else in_f32(emit, gamma, beta)
    attrs = {"groups": groups, "epsilon": epsilon, "keep_stats": False, "data_format": "NCX"}
    return emit.op("GroupNorm", [src, *affine], attrs if affine else {**attrs, "use_affine": False})


def rms_norm(emit: Emitter, src: Value, gamma: Value | None, axis: int, epsilon: float) -> Value:
    """src divided by the root of the mean of its squares over the axes from ``axis`` on, times gamma.

    The result has the data type of src.
    """
    inputs = [src] if gamma is None else [src, *in_f32(emit, gamma)]
    return emit.op("RMSNorm", inputs, {"epsilon": epsilon, "begin_norm_axis": axis})


def lp_norm(emit: Emitter, src: Value, axis: int, power: int) -> Value:
    """src divided by its p-norm along an axis; zeros stay zeros."""
    size = reduce(emit, "ReduceL1" if power == 1 else "ReduceL2", src, [axis], keep=True)
    least = filled(float(np.finfo(np.float32).tiny) if dtype_of(src).numpy.itemsize > 2 else 1e-7, src)
    return binary(emit, "Divide", src, binary(emit, "Maximum", size, least))


def mean_variance_norm(emit: Emitter, src: Value, axes: Sequence[int]) -> Value:
    """(src - mean) / (standard deviation + 1e-9) over axes."""
    apart = binary(emit, "Subtract", src, reduce(emit, "ReduceMean", src, axes, keep=True))
    variance = reduce(emit, "ReduceMean", multiply(emit, apart, apart), axes, keep=True)
    deviation = unary(emit, "Sqrt", variance)
    return binary(emit, "Divide", apart, add(emit, deviation, filled(1e-9, deviation)))


def local_response(emit: Emitter, src: Value, size: int, alpha: float, beta: float, bias: float) -> Value:
    """A normalization over neighbouring channels: their squares are added up."""
    shape = shape_of(src)
    if shape is None or len(shape) < 3 or shape[1] is None:
        raise Unsettled("the number of channels is unknown")
    channels = shape[1]
    begins = np.arange(channels) - (size - 1) // 2
    near = windows(np.maximum(begins, 0), np.minimum(begins + size, channels), np.full(channels, alpha / size))
    sums = shared(emit, unary(emit, "Square", src), {1: near})
    scale = add(emit, sums, filled(bias, sums))
    if beta != THREE_QUARTERS:
        return binary(emit, "Divide", src, unary(emit, "Pow", scale, {"beta": beta}))
    root = unary(emit, "Sqrt", scale)
    return binary(emit, "Divide", binary(emit, "Divide", src, root), unary(emit, "Sqrt", root))


def channel_vector(emit: Emitter, vector: Value, rank: int) -> Value:
    """A vector with one element for each channel, shaped to broadcast with a tensor (N, C, X) of this rank."""
    return reshape(emit, vector, numbers(-1, *[1] * (rank - 2)))
