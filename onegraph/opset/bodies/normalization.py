"""Bodies of ops of the normalization category: gradients, and RMSNorm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UnsupportedError
from ..ops.normalization import begin_axis
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
    given = diff if gamma is None or call.n_outputs == 1 else diff * gamma.along(channel, rank)
    d_src = _normalized_gradient(normalized, given, root, axes)
    return d_src, *_affine_gradients(normalized, diff, axes)


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
    given = diff * gamma if gamma is not None and call.flag("use_affine") else diff
    d_src = _normalized_gradient(normalized, given, root, axes)
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
