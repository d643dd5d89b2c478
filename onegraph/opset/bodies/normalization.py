"""Bodies of ops of the normalization category."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UnsupportedError
from ..ops.normalization import DEFAULT_MOMENTUM
from ..ops.normalization_shapes import begin_axis
from ..schema import Call
from .expression import Expression, body

Array = NDArray[Any]


def _rank(call: Call, port: str = "src") -> int:
    rank = call.rank(port)
    if rank is None:
        raise UnsupportedError(f"{call.schema.kind}: the rank of {port} is unknown; specialise the graph first")
    return rank


def _begin(call: Call) -> int:
    _rank(call)
    begin = begin_axis(call)
    assert begin is not None
    return begin


def _moments(src: Expression, axes: Sequence[int]) -> tuple[Expression, Expression]:
    """The mean and the variance, with the axes kept."""
    mean = src.reduce("ReduceMean", axes)
    return mean, (src - mean).square().reduce("ReduceMean", axes)


def _affine(dst: Expression, gamma: Expression | None, beta: Expression | None) -> Expression:
    dst = dst if gamma is None else dst * gamma
    return dst if beta is None else dst + beta


def _root(call: Call, variance: Expression) -> Expression:
    return (variance + call.f32("epsilon")).op("Sqrt")


def _normalized_gradient(normalized: Expression, diff: Expression, root: Expression, axes: Sequence[int]) -> Expression:
    """The gradient with respect to x of (x - mean(x)) / root(x), given the gradient with respect to that result."""
    mean, slope = diff.reduce("ReduceMean", axes), (diff * normalized).reduce("ReduceMean", axes)
    return (diff - mean - normalized * slope) / root


def _affine_gradients(normalized: Expression, diff: Expression, axes: Sequence[int]) -> tuple[Expression, Expression]:
    """The gradients with respect to gamma and beta."""
    return (diff * normalized).reduce("ReduceSum", axes, keep=False), diff.reduce("ReduceSum", axes, keep=False)


def factor_and_shift(vectors: Sequence[Array], epsilon: float, bias: Array | float = 0.0) -> tuple[Array, Array]:
    """What a BatchNormInference by known vectors multiplies each channel by, and then adds, in float64.

    Args:
        vectors: gamma, beta, mean and variance of the normalization.
        epsilon: its attribute.
        bias: what was added to each channel before, and is no more.

    Returns:
        the factors and the shifts, which are not finite where a vector is not, or its variance is negative.
    """
    gamma, beta, mean, variance = (vector.astype(np.float64) for vector in vectors)
    with np.errstate(all="ignore"):
        factor: Array = gamma / np.sqrt(variance + epsilon)
        return factor, beta + (bias - mean) * factor


def _channel(call: Call) -> tuple[int, int]:
    """The axis of the channels, and the rank."""
    rank = _rank(call)
    return rank - 1 if call.string("data_format") == "NXC" else 1, rank


@body("BatchNormInference")
def batch_norm_inference(
    call: Call, src: Expression, gamma: Expression, beta: Expression, mean: Expression, variance: Expression
) -> Expression:
    place = _channel(call)
    root = _root(call, variance.along(*place))
    return (src - mean.along(*place)) * (gamma.along(*place) / root) + beta.along(*place)


@body("BatchNormForwardTraining")
def batch_norm_training(
    call: Call,
    src: Expression,
    mean: Expression,
    variance: Expression,
    gamma: Expression | None = None,
    beta: Expression | None = None,
) -> tuple[Expression, ...]:
    channel, rank = _channel(call)
    moments = _moments(src, [axis for axis in range(rank) if axis != channel])
    normalized = (src - moments[0]) / _root(call, moments[1])
    dst = _affine(normalized, *(None if one is None else one.along(channel, rank) for one in (gamma, beta)))
    momentum = call.f32("momentum") if call.has("momentum") else DEFAULT_MOMENTUM
    of_batch = [moment.reshape([-1]) for moment in moments]
    running = (old * momentum + new * (1 - momentum) for old, new in zip((mean, variance), of_batch, strict=True))
    return (dst, *running, *of_batch)


@body("BatchNormTrainingBackward")
def batch_norm_backward(
    call: Call,
    src: Expression,
    diff: Expression,
    mean: Expression,
    variance: Expression,
    gamma: Expression | None = None,
) -> tuple[Expression, ...]:
    channel, rank = _channel(call)
    axes = [axis for axis in range(rank) if axis != channel]
    root = _root(call, variance.along(channel, rank))
    normalized = (src - mean.along(channel, rank)) / root
    scaled = diff if gamma is None or call.n_outputs == 1 else diff * gamma.along(channel, rank)
    d_src = _normalized_gradient(normalized, scaled, root, axes)
    return d_src, *_affine_gradients(normalized, diff, axes)


@body("LayerNorm")
def layer_norm(
    call: Call, src: Expression, gamma: Expression | None = None, beta: Expression | None = None
) -> tuple[Expression, ...]:
    begin = _begin(call)
    mean, variance = _moments(src, range(begin, _rank(call)))
    dst = (src - mean) / _root(call, variance)
    dst = _affine(dst, gamma, beta) if call.flag("use_affine") else dst
    return dst, *(moment.reshape([0] * begin) for moment in (mean, variance))


@body("GroupNorm")
def group_norm(
    call: Call, src: Expression, gamma: Expression | None = None, beta: Expression | None = None
) -> tuple[Expression, ...]:
    channel, rank = _channel(call)
    order = (0, channel, *(axis for axis in range(1, rank) if axis != channel))
    first, groups = src.transpose(order), call.s64("groups")
    rows = first.reshape([0, groups, -1])
    mean, variance = _moments(rows, [2])
    normalized = ((rows - mean) / _root(call, variance)).reshape(first)
    dst = normalized.transpose([order.index(axis) for axis in range(rank)])
    if call.flag("use_affine"):
        dst = _affine(dst, *(None if one is None else one.along(channel, rank) for one in (gamma, beta)))
    return dst, *(moment.reshape([0, groups]) for moment in (mean, variance))


@body("LayerNormBackward")
def layer_norm_backward(
    call: Call,
    src: Expression,
    diff: Expression,
    mean: Expression,
    variance: Expression,
    gamma: Expression | None = None,
    _: Expression | None = None,
) -> tuple[Expression, ...]:
    rank = _rank(call)
    axes = range(_begin(call), rank)
    root = _root(call, variance.unsqueeze(axes))
    normalized = (src - mean.unsqueeze(axes)) / root
    scaled = diff * gamma if gamma is not None and call.flag("use_affine") else diff
    d_src = _normalized_gradient(normalized, scaled, root, axes)
    return d_src, *_affine_gradients(normalized, diff, range(rank - 1))


@body("RMSNorm")
def rms_norm(call: Call, src: Expression, gamma: Expression | None = None) -> Expression:
    dst = src / _root(call, src.square().reduce("ReduceMean", range(_begin(call), _rank(call))))
    return dst if gamma is None else dst * gamma


@body("SoftMaxBackward")
def softmax_backward(call: Call, diff: Expression, dst: Expression) -> Expression:
    axis = call.s64("axis") % _rank(call, "dst")
    return dst * (diff - (diff * dst).reduce("ReduceSum", [axis]))


@body("LogSoftmaxBackward")
def log_softmax_backward(call: Call, diff: Expression, dst: Expression) -> Expression:
    axis = call.s64("axis") % _rank(call, "dst")
    return diff - dst.op("Exp") * diff.reduce("ReduceSum", [axis])
