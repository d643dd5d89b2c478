"""Writes the ops of the normalization category but SoftMax's gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....opset.dtypes import DataType
from ....opset.ops.normalization import DEFAULT_MOMENTUM, begin_axis
from ....opset.schema import Call
from .body import Value
from .elementwise import along_channels
from .table import channels_back, channels_first, composes, rank_of, writes


def _moments(src: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    mean = src.reduce("ReduceMean", axes)
    apart = src - mean
    return mean, (apart * apart).reduce("ReduceMean", axes)


def _root(call: Call, variance: Value) -> Value:
    return (variance + call.f32("epsilon")).op("Sqrt")


def _affine(value: Value, gamma: Value | None, beta: Value | None) -> Value:
    value = value if gamma is None else value * gamma
    return value if beta is None else value + beta


def _over(call: Call, rank: int) -> list[int]:
    channel = rank - 1 if call.string("data_format") == "NXC" else 1
    return [axis for axis in range(rank) if axis != channel]


def _spread(call: Call, vector: Value | None, rank: int) -> Value | None:
    return None if vector is None else along_channels(call, vector, rank)


@writes("BatchNormInference")
def batch_norm_inference(call: Call, src: Value, gamma: Value, beta: Value, mean: Value, variance: Value) -> Value:
    rank, data_format = rank_of(call, "src"), call.string("data_format")
    data = channels_first(src, data_format, rank)
    found = data.op("BatchNormalization", gamma, beta, mean, variance, epsilon=call.f32("epsilon"))
    return channels_back(found, data_format, rank)


@composes("BatchNormForwardTraining")
def batch_norm_forward_training(
    call: Call, src: Value, mean: Value, variance: Value, gamma: Value | None = None, beta: Value | None = None
) -> tuple[Value, ...]:
    rank = rank_of(call, "src")
    found, spread = _moments(src, _over(call, rank))
    normalized = (src - found) / _root(call, spread)
    dst = _affine(normalized, _spread(call, gamma, rank), _spread(call, beta, rank))
    momentum = call.f32("momentum") if call.has("momentum") else DEFAULT_MOMENTUM
    of_batch = found.reshape(-1), spread.reshape(-1)
    running = (old * momentum + new * (1 - momentum) for old, new in zip((mean, variance), of_batch, strict=True))
    return (dst, *running, *of_batch)


def _normalized_axes(call: Call) -> list[int]:
    rank, begin = rank_of(call, "src"), begin_axis(call)
    assert begin is not None
    return [*range(begin, rank)]


def is_plain_layer_norm(call: Call) -> bool:
    """Whether a LayerNormalization of ONNX computes the same: no statistics, and scales over the last axis alone."""
    rank = call.rank("src")
    return call.n_outputs == 1 and call.input("gamma") is not None and rank is not None and begin_axis(call) == rank - 1


@composes("LayerNorm")
def layer_norm(call: Call, src: Value, gamma: Value | None = None, beta: Value | None = None) -> tuple[Value, ...]:
    axes = _normalized_axes(call)
    mean, variance = _moments(src, axes)
    normalized = (src - mean) / _root(call, variance)
    dst = _affine(normalized, gamma, beta) if call.flag("use_affine") else normalized
    return dst, *(one.op("Squeeze", src.body.numbers(*axes)) for one in (mean, variance))


@composes("GroupNorm")
def group_norm(call: Call, src: Value, gamma: Value | None = None, beta: Value | None = None) -> tuple[Value, ...]:
    data_format, rank, groups = call.string("data_format"), rank_of(call, "src"), call.s64("groups")
    data = channels_first(src, data_format, rank)
    # (N, G, C / G * X): the axis of the batch is copied.
    grouped = data.reshape(0, groups, -1)
    mean, variance = _moments(grouped, [2])
    normalized = ((grouped - mean) / _root(call, variance)).op("Reshape", data.dims())
    dst = channels_back(normalized, data_format, rank)
    if call.flag("use_affine"):
        dst = _affine(dst, _spread(call, gamma, rank), _spread(call, beta, rank))
    return dst, *(one.op("Squeeze", src.body.numbers(2)) for one in (mean, variance))


@composes("SoftMax")
def softmax(call: Call, src: Value) -> tuple[Value, ...]:
    axis = call.s64("axis") % rank_of(call, "src")
    top = src.reduce("ReduceMax", [axis])
    exponentials = (src - top).op("Exp")
    total = exponentials.reduce("ReduceSum", [axis])
    dst, stats = exponentials / total, top + total.op("Log")
    if call.string("mode") == "inf_as_zero":
        empty = top.compare("Equal", -math.inf)
        dst, stats = empty.where(0.0, dst), empty.where(0.0, stats)
    return dst, stats


def _plain_softmax(call: Call, src: Value) -> Value:
    wanted = call.output_type(0) or src.dtype
    wide = src.cast(wanted) if wanted is DataType.f32 else src
    return wide.op("Softmax", axis=call.s64("axis")).cast(wanted)


def _plain_layer_norm(call: Call, src: Value, gamma: Value, beta: Value | None = None) -> Value:
    scales = [None if one is None else one.cast(src.dtype) for one in (gamma, beta)]
    return src.op("LayerNormalization", *scales, axis=call.s64("begin_norm_axis"), epsilon=call.f32("epsilon"))


def _plain_group_norm(call: Call, src: Value, gamma: Value, beta: Value) -> Value:
    data_format, rank = call.string("data_format"), rank_of(call, "src")
    data = channels_first(src, data_format, rank)
    attrs: dict[str, Any] = {"epsilon": call.f32("epsilon"), "num_groups": call.s64("groups")}
    return channels_back(data.op("GroupNormalization", gamma, beta, **attrs), data_format, rank)


def _same_types(call: Call) -> bool:
    return len({one.dtype for one in call.inputs if one is not None}) == 1


# Ops that are a standard node in their common form: kind -> (whether a use has that form, the node).
PLAIN: Mapping[str, tuple[Callable[[Call], bool], Callable[..., Value]]] = {
    "SoftMax": (lambda call: call.n_outputs == 1 and call.string("mode") == "none", _plain_softmax),
    "LayerNorm": (lambda call: is_plain_layer_norm(call) and _same_types(call), _plain_layer_norm),
    "GroupNorm": (
        lambda call: call.n_outputs == 1 and call.input("gamma") is not None and _same_types(call),
        _plain_group_norm,
    ),
}
