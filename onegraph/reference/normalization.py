"""Computes the ops of the normalization category in numpy."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from ..opset.ops.normalization import DEFAULT_MOMENTUM
from ..opset.ops.normalization_shapes import begin_axis
from ..opset.schema import Call
from .binary import _along_channels
from .convolution import _channels_back, _channels_first

Floats = NDArray[np.float64]


def _affine(result: Floats, gamma: Floats | None, beta: Floats | None) -> Floats:
    if gamma is not None:
        result = result * gamma
    return result if beta is None else result + beta


def _over(call: Call, rank: int) -> tuple[int, ...]:
    """The axes that a batch normalization sums over: all but the channels."""
    channel = rank - 1 if call.string("data_format") == "NXC" else 1
    return tuple(axis for axis in range(rank) if axis != channel)


def _spread(call: Call, vector: Floats | None, rank: int) -> Floats | None:
    return None if vector is None else _along_channels(call, vector, rank)


def _mean(array: Floats, axes: tuple[int, ...]) -> Floats:
    """The mean, with the axes kept; NaN for no elements, without the warning of ``numpy.mean``."""
    mean: Floats = array.sum(axis=axes, keepdims=True) / np.float64(prod(array.shape[axis] for axis in axes))
    return mean


def _moments(array: Floats, axes: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Mean and biased variance, with the axes kept."""
    mean = _mean(array, axes)
    return mean, _mean(np.square(array - mean), axes)


def _normalized_gradient(normalized: Floats, gradient: Floats, scale: Floats, axes: tuple[int, ...]) -> Floats:
    """Gradient with respect to x of (x - mean(x)) * scale(x), given the gradient with respect to that result."""
    mean, slope = _mean(gradient, axes), _mean(gradient * normalized, axes)
    result: Floats = scale * (gradient - mean - normalized * slope)
    return result


def batch_norm_inference(
    call: Call, src: Floats, gamma: Floats, beta: Floats, mean: Floats, variance: Floats
) -> Floats:
    """src normalized with the given statistics."""
    gamma, beta, mean, variance = (_along_channels(call, v, src.ndim) for v in (gamma, beta, mean, variance))
    return gamma * (src - mean) / np.sqrt(variance + call.f32("epsilon")) + beta


def batch_norm_forward_training(
    call: Call,
    src: Floats,
    mean: Floats,
    variance: Floats,
    gamma: Floats | None = None,
    beta: Floats | None = None,
) -> tuple[Floats, ...]:
    """src normalized with its own statistics, the updated running statistics, and the statistics of src."""
    batch_mean, batch_variance = _moments(src, _over(call, src.ndim))
    normalized = (src - batch_mean) / np.sqrt(batch_variance + call.f32("epsilon"))
    dst = _affine(normalized, _spread(call, gamma, src.ndim), _spread(call, beta, src.ndim))
    batch_mean, batch_variance = batch_mean.ravel(), batch_variance.ravel()
    momentum = call.f32("momentum") if call.has("momentum") else DEFAULT_MOMENTUM
    running_mean, running_variance = (
        momentum * old + (1 - momentum) * new for old, new in ((mean, batch_mean), (variance, batch_variance))
    )
    return dst, running_mean, running_variance, batch_mean, batch_variance


def batch_norm_backward(
    call: Call, src: Floats, diff_dst: Floats, mean: Floats, variance: Floats, gamma: Floats | None = None
) -> tuple[Floats, ...]:
    """The gradients with respect to src, gamma and beta."""
    axes = _over(call, src.ndim)
    mean, variance = (_along_channels(call, vector, src.ndim) for vector in (mean, variance))
    scale = 1 / np.sqrt(variance + call.f32("epsilon"))
    normalized = (src - mean) * scale
    used = None if call.n_outputs == 1 else _spread(call, gamma, src.ndim)
    diff_src = _normalized_gradient(normalized, _affine(diff_dst, used, None), scale, axes)
    return diff_src, (diff_dst * normalized).sum(axis=axes), diff_dst.sum(axis=axes)


def _normalized_axes(call: Call, rank: int) -> tuple[int, ...]:
    begin = begin_axis(call)
    assert begin is not None
    return tuple(range(begin, rank))


def layer_norm(call: Call, src: Floats, gamma: Floats | None = None, beta: Floats | None = None) -> tuple[Floats, ...]:
    """src normalized over its last axes, the mean, and the variance."""
    axes = _normalized_axes(call, src.ndim)
    mean, variance = _moments(src, axes)
    normalized = (src - mean) / np.sqrt(variance + call.f32("epsilon"))
    outer = src.shape[: axes[0]]
    dst = _affine(normalized, gamma, beta) if call.flag("use_affine") else normalized
    return dst, mean.reshape(outer), variance.reshape(outer)


def layer_norm_backward(
    call: Call,
    src: Floats,
    diff_dst: Floats,
    mean: Floats,
    variance: Floats,
    gamma: Floats | None = None,
    beta: Floats | None = None,
) -> tuple[Floats, ...]:
    """The gradients with respect to src, gamma and beta."""
    axes = _normalized_axes(call, src.ndim)
    spread = (*src.shape[: axes[0]], *(1,) * len(axes))
    scale = 1 / np.sqrt(variance.reshape(spread) + call.f32("epsilon"))
    normalized = (src - mean.reshape(spread)) * scale
    gradient = _affine(diff_dst, gamma if call.flag("use_affine") else None, None)
    batch_axes = tuple(range(src.ndim - 1))
    return (
        _normalized_gradient(normalized, gradient, scale, axes),
        (diff_dst * normalized).sum(axis=batch_axes),
        diff_dst.sum(axis=batch_axes),
    )


def group_norm(call: Call, src: Floats, gamma: Floats | None = None, beta: Floats | None = None) -> tuple[Floats, ...]:
    """src normalized over each group of channels, the mean, and the variance."""
    data_format, groups = call.string("data_format"), call.s64("groups")
    source = _channels_first(src, data_format)
    grouped = source.reshape(source.shape[0], groups, source.shape[1] // groups, *source.shape[2:])
    mean, variance = _moments(grouped, tuple(range(2, grouped.ndim)))
    normalized = ((grouped - mean) / np.sqrt(variance + call.f32("epsilon"))).reshape(source.shape)
    dst = _channels_back(normalized, data_format)
    if call.flag("use_affine"):
        dst = _affine(dst, _spread(call, gamma, src.ndim), _spread(call, beta, src.ndim))
    stats = (source.shape[0], groups)
    return dst, mean.reshape(stats), variance.reshape(stats)


def rms_norm(call: Call, src: Floats, gamma: Floats | None = None) -> Floats:
    """src divided by its root mean square over the last axes."""
    square = _mean(np.square(src), _normalized_axes(call, src.ndim))
    return _affine(src / np.sqrt(square + call.f32("epsilon")), gamma, None)


def _shifted(src: Floats, axis: int) -> tuple[Floats, Floats, Floats]:
    """The maximum of each row, exp(src - maximum), and the sum of these exponentials along ``axis``."""
    top: Floats = src.max(axis=axis, keepdims=True, initial=-np.inf)
    exponentials = np.exp(src - top)
    return top, exponentials, exponentials.sum(axis=axis, keepdims=True)


def softmax(call: Call, src: Floats) -> tuple[Floats, Floats]:
    """exp(src) / sum(exp(src)) along axis, and ln(sum(exp(src)))."""
    top, exponentials, total = _shifted(src, call.s64("axis"))
    dst, stats = exponentials / total, top + np.log(total)
    if call.string("mode") == "inf_as_zero":
        dst, stats = np.where(top == -np.inf, 0.0, dst), np.where(top == -np.inf, 0.0, stats)
    return dst, stats


def softmax_backward(call: Call, diff_dst: Floats, dst: Floats) -> Floats:
    """The gradient with respect to the source of SoftMax."""
    total: Floats = (diff_dst * dst).sum(axis=call.s64("axis"), keepdims=True)
    return dst * (diff_dst - total)


def log_softmax(call: Call, src: Floats) -> Floats:
    """src - ln(sum(exp(src))) along axis."""
    top, _, total = _shifted(src, call.s64("axis"))
    return src - top - np.log(total)


def log_softmax_backward(call: Call, diff_dst: Floats, dst: Floats) -> Floats:
    """The gradient with respect to the source of LogSoftmax."""
    total: Floats = diff_dst.sum(axis=call.s64("axis"), keepdims=True)
    return diff_dst - np.exp(dst) * total
