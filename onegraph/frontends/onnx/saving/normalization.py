"""Writes the ops of the normalization category but SoftMax's gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ....opset.dtypes import DataType
from ....opset.ops.normalization_shapes import begin_axis
from ....opset.schema import Call
from .body import NodeValue
from .table import channels_back, channels_first, composes, rank_of, result_type, writes


@writes("BatchNormInference")
def batch_norm_inference(
    call: Call, src: NodeValue, gamma: NodeValue, beta: NodeValue, mean: NodeValue, variance: NodeValue
) -> NodeValue:
    rank, data_format = rank_of(call, "src"), call.string("data_format")
    data = channels_first(src, data_format, rank)
    result = data.op("BatchNormalization", gamma, beta, mean, variance, epsilon=call.f32("epsilon"))
    return channels_back(result, data_format, rank)


def is_plain_layer_norm(call: Call) -> bool:
    """Whether a LayerNormalization of ONNX computes the same: no statistics, and scales over the last axis alone."""
    rank = call.rank("src")
    return call.n_outputs == 1 and call.input("gamma") is not None and rank is not None and begin_axis(call) == rank - 1


@composes("SoftMax")
def softmax(call: Call, src: NodeValue) -> tuple[NodeValue, ...]:
    axis = call.s64("axis") % rank_of(call, "src")
    top = src.reduce("ReduceMax", [axis])
    exponentials = (src - top).op("Exp")
    total = exponentials.reduce("ReduceSum", [axis])
    dst, stats = exponentials / total, top + total.op("Log")
    if call.string("mode") == "inf_as_zero":
        empty = top.compare("Equal", -math.inf)
        dst, stats = empty.where(0.0, dst), empty.where(0.0, stats)
    return dst, stats


def _plain_softmax(call: Call, src: NodeValue) -> NodeValue:
    wanted = result_type(call)
    wide = src.cast(wanted) if wanted is DataType.f32 else src
    return wide.op("Softmax", axis=call.s64("axis")).cast(wanted)


def _plain_layer_norm(call: Call, src: NodeValue, gamma: NodeValue, beta: NodeValue | None = None) -> NodeValue:
    scales = [None if one is None else one.cast(src.dtype) for one in (gamma, beta)]
    return src.op("LayerNormalization", *scales, axis=call.s64("begin_norm_axis"), epsilon=call.f32("epsilon"))


def _plain_group_norm(call: Call, src: NodeValue, gamma: NodeValue, beta: NodeValue) -> NodeValue:
    data_format, rank = call.string("data_format"), rank_of(call, "src")
    data = channels_first(src, data_format, rank)
    attrs: dict[str, Any] = {"epsilon": call.f32("epsilon"), "num_groups": call.s64("groups")}
    return channels_back(data.op("GroupNormalization", gamma, beta, **attrs), data_format, rank)


def _same_types(call: Call) -> bool:
    return len({input_.dtype for input_ in call.inputs if input_ is not None}) == 1


# Ops that are a standard node in their common form: kind -> (whether a use has that form, the node).
PLAIN: Mapping[str, tuple[Callable[[Call], bool], Callable[..., NodeValue]]] = {
    "SoftMax": (lambda call: call.n_outputs == 1 and call.string("mode") == "none", _plain_softmax),
    "LayerNorm": (lambda call: is_plain_layer_norm(call) and _same_types(call), _plain_layer_norm),
    "GroupNorm": (
        lambda call: call.n_outputs == 1 and call.input("gamma") is not None and _same_types(call),
        _plain_group_norm,
    ),
}
