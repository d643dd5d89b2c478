"""Gradients of the normalization category."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import UnsupportedError
from ...lowering.elementwise import add, binary, multiply
from ...lowering.emitter import Emitter, Value, dtype_of, known_rank
from ...lowering.movement import cast, dims_of, expand, unsqueeze
from ...opset.dtypes import DataType
from ...opset.ops.normalization import DEFAULT_MOMENTUM
from ...opset.ops.normalization_shapes import begin_axis
from ..use import GradientUse
from .binary import along_channels
from .elementwise import scaled
from .reduction import averaged
from .table import gradient_of


def subtract(emit: Emitter, first: Value, second: Value) -> Value:
    """first - second."""
    return binary(emit, "Subtract", first, second)


def wide(emit: Emitter, value: Value) -> Value:
    """A value in f32, in which normalizations are computed."""
    return cast(emit, value, DataType.f32)


def other_axes(use: GradientUse, rank: int) -> list[int]:
    """The axes but that of the channels."""
    channel = rank - 1 if use.call.string("data_format") == "NXC" else 1
    return [axis for axis in range(rank) if axis != channel]


# Batches --------------------------------------------------------------------------------------------------------------


@gradient_of("BatchNormForwardTraining", "src gamma beta")
def batch_norm(
    emit: Emitter,
    use: GradientUse,
    diff: Value | None,
    d_running_mean: Value | None,
    d_running_variance: Value | None,
    d_mean: Value | None,
    d_variance: Value | None,
) -> tuple[Value | None, ...]:
    src, mean, variance = use["src"], use.result("batch_mean"), use.result("batch_variance")
    d_src: Value | None = None
    running_gradients: Sequence[Value | None] = (None, None)
    if diff is not None:
        kind, gamma = "BatchNormTrainingBackward", [use["gamma"]] if use.has("gamma") else []
        names = ["diff_src", "diff_gamma", "diff_beta"] if gamma else ["diff_src"]
        d_src, *running_gradients = emit.ends(
            kind, [src, diff, mean, variance, *gamma], use.shared(kind), outputs=names
        )
    new = 1 - _momentum(use)
    rank = known_rank(src)
    d_mean, d_variance = (
        total(emit, own, None if running is None else scaled(emit, running, new))
        for own, running in ((d_mean, d_running_mean), (d_variance, d_running_variance))
    )
    spread = [
        None if vector is None else along_channels(emit, use, vector, rank) for vector in (mean, d_mean, d_variance)
    ]
    return total(emit, d_src, moments_gradient(emit, src, spread, other_axes(use, rank))), *running_gradients


@gradient_of("BatchNormForwardTraining", "mean variance")
def running(
    emit: Emitter,
    use: GradientUse,
    _diff: Value | None,
    d_running_mean: Value | None,
    d_running_variance: Value | None,
    _d_mean: Value | None,
    _d_variance: Value | None,
) -> tuple[Value | None, ...]:
    weight = _momentum(use)
    return tuple(
        None if gradient_ is None else scaled(emit, gradient_, weight)
        for gradient_ in (d_running_mean, d_running_variance)
    )


def _momentum(use: GradientUse) -> float:
    return use.call.f32("momentum") if use.call.has("momentum") else DEFAULT_MOMENTUM


def total(emit: Emitter, *parts: Value | None) -> Value | None:
    """The sum of the parts that are given."""
    summands = [part for part in parts if part is not None]
    while len(summands) > 1:
        summands[:2] = [add(emit, summands[0], cast(emit, summands[1], dtype_of(summands[0])))]
    return summands[0] if summands else None


def moments_gradient(emit: Emitter, src: Value, moments: Sequence[Value | None], axes: Sequence[int]) -> Value | None:
    """The gradient with respect to src through its mean and its variance.

    Args:
        moments: the mean, and the gradients with respect to the mean and the variance, which broadcast with src.
        axes: the axes of the moments.
    """
    mean, d_mean, d_variance = moments
    if d_mean is None and d_variance is None:
        return None
    spread = None if d_mean is None else expand(emit, averaged(emit, d_mean, src, axes), dims_of(emit, src))
    if d_variance is None:
        return spread
    assert mean is not None
    centred = subtract(emit, wide(emit, src), wide(emit, mean))
    share = averaged(emit, scaled(emit, wide(emit, d_variance), 2), src, axes)
    return total(emit, multiply(emit, centred, share), spread)


# Layers ---------------------------------------------------------------------------------------------------------------


def _begin(use: GradientUse) -> int:
    begin = begin_axis(use.call)
    if begin is None:
        raise UnsupportedError(
            f"gradient: {use.op.kind} {use.op.name!r}: src has an unknown rank; expected a known one"
        )
    return begin


@gradient_of("LayerNorm", "src gamma beta")
def layer_norm(
    emit: Emitter, use: GradientUse, diff: Value | None, d_mean: Value | None = None, d_variance: Value | None = None
) -> tuple[Value | None, ...]:
    src, affine = use["src"], [use[port] for port in ("gamma", "beta") if use.has(port)]
    mean, variance = _statistics(emit, use, affine)
    gradients: tuple[Value | None, ...] = (None,)
    if diff is not None:
        gradients = emit.ends(
            "LayerNormBackward", [src, diff, mean, variance, *affine], use.shared("LayerNormBackward")
        )
    begin, rank = _begin(use), known_rank(src)
    spread = [None if vector is None else _spread(emit, vector, rank) for vector in (mean, d_mean, d_variance)]
    return total(emit, gradients[0], moments_gradient(emit, src, spread, range(begin, rank))), *gradients[1:]


def _statistics(emit: Emitter, use: GradientUse, affine: Sequence[Value]) -> tuple[Value, Value]:
    """The mean and the variance: results of the op, or of another one like it that keeps them."""
    if use.gives("variance"):
        return use.result("mean"), use.result("variance")
    _, mean, variance = emit.ends("LayerNorm", [use["src"], *affine], {**use.call.given, "keep_stats": True})
    return mean, variance


def _spread(emit: Emitter, statistic: Value, rank: int) -> Value:
    """A statistic of the last axes, in a shape that broadcasts with src."""
    return unsqueeze(emit, statistic, [*range(known_rank(statistic), rank)])


# SoftMax --------------------------------------------------------------------------------------------------------------


@gradient_of("SoftMax", "src")
def softmax(emit: Emitter, use: GradientUse, diff: Value | None, d_stats: Value | None = None) -> Value | None:
    """stats is the logarithm of the sum, whose gradient is dst."""
    dst, axis = use.result("dst"), use.call.s64("axis")
    gradient_: Value | None = None
    if diff is not None:
        gradient_ = emit.op("SoftMaxBackward", [diff, dst], {"axis": axis}, dtype=dtype_of(diff))
    if d_stats is None:
        return gradient_
    return total(emit, multiply(emit, wide(emit, dst), d_stats), gradient_)


@gradient_of("LogSoftmax", "src")
def log_softmax(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return emit.op("LogSoftmaxBackward", [diff, use.result("dst")], {"axis": use.call.s64("axis")})
