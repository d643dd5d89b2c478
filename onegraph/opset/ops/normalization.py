"""Defines the normalization category: batch, layer, group and RMS normalization, softmax, and gradients."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..schema import Call, Finding, Schema, required_outputs, same_shape
from ..shapes import axis_in_range, axis_of, broadcast, compatible, counted, inputs_alike, normalize_axis, show
from ..signature import FLOATS, POSITIVE, Attribute, Shape, ports, rows
from ..traits import Trait
from ..window import Dim, channels
from .binary import gradient_alike
from .convolution import DATA_FORMAT

# The library's default momentum of BatchNormForwardTraining; the specification has no default.
DEFAULT_MOMENTUM = 0.5
TYPES = rows("T1 T2", "f32 f32", "bf16 f32", "bf16 bf16", "f16 f32")


def channel_inputs(call: Call) -> tuple[str, ...]:
    """The names of the inputs that have one element for each channel."""
    batch = call.schema.kind.startswith("BatchNorm")
    return ("gamma", "beta", "mean", "variance") if batch else ("gamma", "beta")


def channel_format(call: Call) -> str:
    """The data_format of the op; NXC, with the channels last, if the op has no such attribute."""
    return call.string("data_format") if call.schema.has_attribute("data_format") else "NXC"


def channel_count(call: Call) -> Dim:
    """Number of channels, from src or else from the first channel vector of known length; None if unknown."""
    shape = call.shape("src")
    if shape and (len(shape) > 1 or channel_format(call) == "NXC"):
        count = channels(shape, channel_format(call))
        if count is not None:
            return count
    for port, tensor in zip(call.schema.inputs, call.inputs, strict=False):
        shape = None if tensor is None else tensor.shape
        if port.name in channel_inputs(call) and shape is not None and len(shape) == 1 and shape[0] is not None:
            return shape[0]
    return None


def begin_axis(call: Call) -> int | None:
    """The first normalized axis, counted from 0; None if the rank is unknown."""
    rank = call.rank("src")
    return None if rank is None else normalize_axis(call.s64("begin_norm_axis"), rank)


def outer_shape(call: Call) -> Shape:
    """The dims of src before the normalized axes, which are the shape of mean and variance."""
    shape, begin = call.shape("src"), begin_axis(call)
    return None if shape is None or begin is None else shape[:begin]


# Rules ---------------------------------------------------------------------------------------------------------------


def has_channels(call: Call) -> Iterable[Finding]:
    """src has a batch and a channel axis."""
    shape = call.shape("src")
    if shape is not None and len(shape) < 2:
        yield Finding("src", f"shape {show(shape)}", "at least two axes: batch and channels")


def channel_vectors(call: Call) -> Iterable[Finding]:
    """gamma, beta, and the mean and variance of a batch normalization have one element for each channel."""
    count = channel_count(call)
    for port, tensor in zip(call.schema.inputs, call.inputs, strict=False):
        if port.name in channel_inputs(call) and tensor is not None and not compatible(tensor.shape, (count,)):
            yield Finding(
                port.name,
                f"shape {show(tensor.shape)}",
                f"shape {show((count,))}, one element for each channel",
            )


def affine_pair(call: Call) -> Iterable[Finding]:
    """gamma and beta are both given, or neither is."""
    if (call.input("gamma") is None) != (call.input("beta") is None):
        missing = "beta" if call.input("beta") is None else "gamma"
        yield Finding(missing, "missing", "gamma and beta, both or neither")


def affine_inputs(call: Call) -> Iterable[Finding]:
    """gamma and beta are given if and only if use_affine is True."""
    use = call.flag("use_affine")
    both_alike = (call.input("gamma") is None) == (call.input("beta") is None)
    for name in ("gamma", "beta"):
        given = call.input(name) is not None
        if use and not given:
            fix = f"pass {name}, or use_affine=False" if both_alike else f"pass {name}"
            yield Finding(name, "missing", "a tensor, as use_affine is True", fix)
        elif given and not use:
            fix = "set use_affine to True" if both_alike else f"leave {name} out"
            yield Finding(name, "given", "nothing, as use_affine is False", fix)


def begin_axis_in_range(call: Call) -> Iterable[Finding]:
    """begin_norm_axis names an axis of src."""
    rank, axis = call.rank("src"), call.s64("begin_norm_axis")
    if rank is not None and normalize_axis(axis, rank) is None:
        yield Finding("begin_norm_axis", axis, axis_of(rank))


def output_count(call: Call) -> Iterable[Finding]:
    """The op has exactly the outputs that keep_stats or use_affine selects."""
    assert call.schema.implied_outputs is not None
    implied, given = call.schema.implied_outputs(call), call.n_outputs
    if given is not None and given != implied and given <= len(call.schema.outputs):
        name = "keep_stats" if call.schema.has_attribute("keep_stats") else "use_affine"
        where = call.schema.outputs[min(given, implied)].name
        yield Finding(where, counted(given, "output"), f"{implied}, as {name} is {call.flag(name)}")


def gradient_pair(call: Call) -> Iterable[Finding]:
    """diff_gamma and diff_beta are both outputs, or neither is."""
    if call.n_outputs == 2:
        yield Finding("diff_beta", "missing", "diff_gamma and diff_beta, both or neither")


def stats_shape(call: Call) -> Iterable[Finding]:
    """mean and variance have the dims of src before the normalized axes."""
    outer = outer_shape(call)
    for name in ("mean", "variance"):
        if not compatible(call.shape(name), outer):
            yield Finding(
                name,
                f"shape {show(call.shape(name))}",
                f"shape {show(outer)}, the axes of src before begin_norm_axis {call.s64('begin_norm_axis')}",
            )


def groups_divide(call: Call) -> Iterable[Finding]:
    """groups divides the number of channels."""
    count, groups = channel_count(call), call.s64("groups")
    if count is not None and count % groups:
        yield Finding("groups", groups, f"a divisor of the {counted(count, 'channel')}")


def gamma_broadcasts(call: Call) -> Iterable[Finding]:
    """gamma can be broadcast to src."""
    shape, gamma = call.shape("src"), call.shape("gamma")
    if shape is None or gamma is None:
        return
    try:
        fits = len(gamma) <= len(shape) and compatible(broadcast(gamma, shape), shape)
    except ValueError:
        fits = False
    if not fits:
        yield Finding("gamma", f"shape {show(gamma)}", f"a shape that broadcasts to {show(shape)} of src")


# Shapes --------------------------------------------------------------------------------------------------------------


def with_channel_vectors(call: Call) -> tuple[Shape, ...]:
    """The first output has the shape of src; every other output has one element for each channel."""
    return (call.shape("src"), *((channel_count(call),),) * (len(call.schema.outputs) - 1))


def with_outer(call: Call) -> tuple[Shape, ...]:
    """dst has the shape of src; mean and variance have its dims before the normalized axes."""
    return (call.shape("src"), outer_shape(call), outer_shape(call))


def with_groups(call: Call) -> tuple[Shape, ...]:
    """dst has the shape of src; mean and variance have one element for each group of each sample."""
    shape = call.shape("src")
    stats = (shape[0] if shape else None, call.s64("groups"))
    return (shape, stats, stats)


def with_row_stats(call: Call) -> tuple[Shape, ...]:
    """dst has the shape of src; stats has it too, with size 1 along axis."""
    shape = call.shape("src")
    axis = None if shape is None else normalize_axis(call.s64("axis"), len(shape))
    if shape is None or axis is None:
        return (shape, None)
    return (shape, (*shape[:axis], 1, *shape[axis + 1 :]))


# Ops -----------------------------------------------------------------------------------------------------------------

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
