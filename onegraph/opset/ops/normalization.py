"""Defines the normalization category: batch, layer, group and RMS normalization, softmax, and gradients."""

from __future__ import annotations

from dataclasses import replace

from ..schema import Call, Schema, required_outputs, same_shape
from ..shapes import axis_in_range, inputs_alike
from ..signature import FLOATS, POSITIVE, Attribute, ports, rows
from ..traits import Trait
from .binary import gradient_alike
from .convolution import DATA_FORMAT
from .normalization_shapes import (
    affine_inputs,
    affine_pair,
    begin_axis_in_range,
    channel_vectors,
    gamma_broadcasts,
    gradient_pair,
    groups_divide,
    has_channels,
    output_count,
    stats_shape,
    with_channel_vectors,
    with_groups,
    with_outer,
    with_row_stats,
)

# The library's default momentum of BatchNormForwardTraining; the specification has no default.
DEFAULT_MOMENTUM = 0.5
TYPES = rows("T1 T2", "f32 f32", "bf16 f32", "bf16 bf16", "f16 f32")


OPTIONAL_EPSILON = Attribute(
    "epsilon", "f32", "Added to the variance before the square root.", default=1e-5, range=POSITIVE
)
EPSILON = replace(OPTIONAL_EPSILON, required=True, default=None, implied=1e-5)
MOMENTUM = Attribute(
    "momentum",
    "f32",
    "Weight of the old running statistics: running = momentum * old + (1 - momentum) * batch. If it is not given, the "
    "library uses 0.5.",
    range=POSITIVE,
)
BEGIN_NORM_AXIS = Attribute(
    "begin_norm_axis",
    "s64",
    "First of the axes to normalize over; the last is the last axis of src. Negative: counted from the end.",
    default=-1,
)
KEEP_STATS = Attribute("keep_stats", "bool", "Whether mean and variance are outputs too.", default=True)
USE_AFFINE = Attribute("use_affine", "bool", "Whether gamma and beta are applied.", default=True)
GROUPS = Attribute(
    "groups", "s64", "Number of groups that the channels are divided into.", required=True, range=POSITIVE
)
MODE = Attribute(
    "mode",
    "str",
    "Result for a row in which every element is -inf: none gives NaN, inf_as_zero gives zeros, also in stats.",
    default="none",
    values=("none", "inf_as_zero"),
    since=(3, 8),
)


def axis(default: int) -> Attribute:
    """The attribute axis of the softmax ops."""
    return Attribute("axis", "s64", "The axis to sum over, negative counted from the end.", default=default)


def stats_outputs(call: Call) -> int:
    """Number of outputs that keep_stats selects."""
    return 3 if call.flag("keep_stats") else 1


def affine_outputs(call: Call) -> int:
    """Number of outputs that use_affine selects."""
    return 3 if call.flag("use_affine") else 1


OPS = (
    Schema(
        "BatchNormInference",
        "batch_norm_inference",
        "normalization",
        "dst = gamma * (src - mean) / sqrt(variance + epsilon) + beta, channel by channel",
        ports("src:T1 gamma:T2 beta:T2 mean:T2 variance:T2"),
        ports("dst:T1"),
        TYPES,
        same_shape,
        (EPSILON, DATA_FORMAT),
        rules=(has_channels,),
        shape_rules=(channel_vectors,),
        traits=Trait.PER_CHANNEL | Trait.BY_ROW,
    ),
    Schema(
        "BatchNormForwardTraining",
        "batch_norm_forward_training",
        "normalization",
        "Normalizes every channel of src with its own mean and biased variance, and updates the running mean and "
        "variance with them.",
        ports("src:T1 mean:T2 variance:T2 gamma:T2? beta:T2?"),
        ports("dst:T1 running_mean:T2 running_variance:T2 batch_mean:T2 batch_variance:T2"),
        TYPES,
        with_channel_vectors,
        (EPSILON, MOMENTUM, DATA_FORMAT),
        rules=(has_channels, affine_pair),
        shape_rules=(channel_vectors,),
        traits=Trait.PER_CHANNEL,
    ),
    Schema(
        "BatchNormTrainingBackward",
        "batch_norm_backward",
        "normalization",
        "Gradients of BatchNormForwardTraining with respect to src, gamma and beta; mean and variance are those of the "
        "batch. Without the outputs diff_gamma and diff_beta, gamma is ignored.",
        ports("src:T1 diff_dst:T1 mean:T2 variance:T2 gamma:T2?"),
        ports("diff_src:T1 diff_gamma:T2? diff_beta:T2?"),
        TYPES,
        with_channel_vectors,
        (EPSILON, DATA_FORMAT),
        rules=(has_channels, gradient_pair),
        shape_rules=(gradient_alike, channel_vectors),
        traits=Trait.PER_CHANNEL,
    ),
    Schema(
        "LayerNorm",
        "layer_norm",
        "normalization",
        "dst = gamma * (src - mean) / sqrt(variance + epsilon) + beta, with mean and biased variance over the axes "
        "from begin_norm_axis to the last; gamma and beta have one element for each index along the last axis.",
        ports("src:T1 gamma:T2? beta:T2?"),
        ports("dst:T1 mean:T2? variance:T2?"),
        TYPES,
        with_outer,
        (KEEP_STATS, BEGIN_NORM_AXIS, USE_AFFINE, OPTIONAL_EPSILON),
        rules=(begin_axis_in_range, affine_inputs, output_count),
        shape_rules=(channel_vectors,),
        implied_outputs=stats_outputs,
        traits=Trait.NONE,
    ),
    Schema(
        "LayerNormBackward",
        "layer_norm_backward",
        "normalization",
        "Gradients of LayerNorm with respect to src, gamma and beta; mean and variance are outputs of LayerNorm.",
        ports("src:T1 diff_dst:T1 mean:T2 variance:T2 gamma:T2? beta:T2?"),
        ports("diff_src:T1 diff_gamma:T2? diff_beta:T2?"),
        TYPES,
        with_channel_vectors,
        (BEGIN_NORM_AXIS, USE_AFFINE, OPTIONAL_EPSILON),
        rules=(begin_axis_in_range, affine_inputs, output_count),
        shape_rules=(gradient_alike, channel_vectors, stats_shape),
        implied_outputs=affine_outputs,
        traits=Trait.NONE,
    ),
    Schema(
        "GroupNorm",
        "group_norm",
        "normalization",
        "dst = gamma * (src - mean) / sqrt(variance + epsilon) + beta, with mean and biased variance over each group "
        "of channels of each sample; gamma and beta have one element for each channel.",
        ports("src:T1 gamma:T2? beta:T2?"),
        ports("dst:T1 mean:T2? variance:T2?"),
        TYPES,
        with_groups,
        (GROUPS, KEEP_STATS, USE_AFFINE, OPTIONAL_EPSILON, DATA_FORMAT),
        rules=(has_channels, affine_inputs, output_count),
        shape_rules=(channel_vectors, groups_divide),
        implied_outputs=stats_outputs,
        since=(3, 6),
        traits=Trait.BY_ROW,
    ),
    Schema(
        "RMSNorm",
        "rms_norm",
        "normalization",
        "dst = gamma * src / sqrt(mean(src ** 2) + epsilon), with the mean over the axes from begin_norm_axis to the "
        "last",
        ports("src:T1 gamma:T2?"),
        ports("dst:T1"),
        rows("T1 T2", "f32 f32", "bf16 f32", "bf16 bf16", "f16 f32", "f16 f16"),
        same_shape,
        (
            Attribute(
                "epsilon", "f32", "Added to the mean square before the square root.", default=1e-5, range=POSITIVE
            ),
            BEGIN_NORM_AXIS,
        ),
        rules=(begin_axis_in_range,),
        shape_rules=(gamma_broadcasts,),
        since=(3, 11),
        traits=Trait.NONE,
    ),
    Schema(
        "SoftMax",
        "softmax",
        "normalization",
        "dst = exp(src) / sum(exp(src)) along axis; stats = ln(sum(exp(src))), one for each row",
        ports("src:T1"),
        ports("dst:T2 stats:f32?@3.9"),
        rows(
            "T1 T2",
            "f32 f32",
            "f32 bf16 @3.8",
            "f32 f16 @3.8",
            "bf16 f32 @3.11",
            "bf16 bf16",
            "f16 f32 @3.11",
            "f16 f16",
        ),
        with_row_stats,
        (axis(1), MODE),
        rules=(axis_in_range,),
        implied_outputs=required_outputs,
        page="Softmax",
        traits=Trait.UNIT_BOUNDED,
    ),
    Schema(
        "SoftMaxBackward",
        "softmax_backward",
        "normalization",
        "diff_src = dst * (diff_dst - sum(diff_dst * dst)) along axis, where dst is the result of SoftMax",
        ports("diff_dst:T1 dst:T1"),
        ports("diff_src:T2"),
        rows("T1 T2", "f32 f32", "bf16 f32 @3.10", "bf16 bf16", "f16 f32 @3.10", "f16 f16"),
        same_shape,
        (axis(1),),
        rules=(axis_in_range,),
        shape_rules=(inputs_alike,),
        page="SoftmaxBackward",
        traits=Trait.NONE,
    ),
    Schema(
        "LogSoftmax",
        "log_softmax",
        "normalization",
        "dst = src - ln(sum(exp(src))) along axis",
        ports("src:T"),
        ports("dst:T"),
        FLOATS,
        same_shape,
        (axis(-1),),
        rules=(axis_in_range,),
        traits=Trait.NONE,
    ),
    Schema(
        "LogSoftmaxBackward",
        "log_softmax_backward",
        "normalization",
        "diff_src = diff_dst - exp(dst) * sum(diff_dst) along axis, where dst is the result of LogSoftmax",
        ports("diff_dst:T dst:T"),
        ports("diff_src:T"),
        FLOATS,
        same_shape,
        (axis(-1),),
        rules=(axis_in_range,),
        shape_rules=(inputs_alike,),
        traits=Trait.NONE,
    ),
)
