"""What the library gets wrong of normalizations and SoftMax; the other ops are in :mod:`.quirks`."""

from __future__ import annotations

from ..errors import LIBRARY, UNSAFE
from .conditions import axis_below_last, broadcast_gamma, untyped_stats
from .quirk import Quirk, kinds

NORMALIZATION_QUIRKS = (
    Quirk(
        "frozen_statistics",
        "outputs",
        UNSAFE,
        kinds("BatchNormTrainingBackward"),
        lambda call: call.n_outputs == 1,
        "with one output the statistics are taken for constants; ask for all three",
    ),
    Quirk(
        "gradient_without_gamma",
        "gamma",
        LIBRARY,
        kinds("BatchNormTrainingBackward"),
        lambda call: call.input("gamma") is None,
        "four inputs and three outputs throw at compile; pass a gamma of ones",
    ),
    Quirk(
        "batch_norm_rank",
        "src",
        LIBRARY,
        kinds("BatchNormForwardTraining BatchNormTrainingBackward"),
        lambda call: call.rank("src") in (2, 3),
        "the training ops take no src of fewer than two spatial axes; they exhaust the memory or refuse",
    ),
    Quirk(
        "batch_norm_many_axes",
        "src",
        UNSAFE,
        kinds("BatchNormInference BatchNormForwardTraining BatchNormTrainingBackward"),
        lambda call: (call.rank("src") or 0) > 5,
        "more than three spatial axes are computed wrong, and written past the memory",
    ),
    Quirk(
        "softmax_of_nothing",
        "mode",
        UNSAFE,
        kinds("SoftMax"),
        lambda call: call.string("mode") == "inf_as_zero" and call.s64("axis") not in (-1, (call.rank("src") or 0) - 1),
        "inf_as_zero gives NaN along another axis than the last",
        since=(3, 3),
    ),
    Quirk(
        "norm_axis",
        "begin_norm_axis",
        UNSAFE,
        kinds("LayerNorm LayerNormBackward"),
        axis_below_last,
        "begin_norm_axis is ignored: only the last axis is normalized",
    ),
    Quirk(
        "rms_norm_axes",
        "begin_norm_axis",
        LIBRARY,
        kinds("RMSNorm"),
        lambda call: call.rank("src") not in (None, 2, 3, 4, 5) or axis_below_last(call),
        "only the last axis of a src of 2 to 5 axes is normalized",
    ),
    Quirk(
        "rms_norm_gamma",
        "gamma",
        UNSAFE,
        kinds("RMSNorm"),
        broadcast_gamma,
        "gamma is taken for one factor for each element of the last axis, whatever its shape",
    ),
    Quirk(
        "layer_norm_rank",
        "src",
        LIBRARY,
        kinds("LayerNorm LayerNormBackward"),
        lambda call: call.rank("src") == 1,
        "a src of one axis throws at compile",
    ),
    Quirk(
        "bf16_statistics",
        "gamma",
        UNSAFE,
        kinds("LayerNorm GroupNorm"),
        untyped_stats,
        "mean and variance are written as f32 whatever their type is; a gamma of f32 makes sure that it is f32",
    ),
    Quirk(
        "group_norm_rank",
        "src",
        UNSAFE,
        kinds("GroupNorm"),
        lambda call: call.rank("src") == 2,
        "a src without spatial axes gives wrong values, or a crash",
    ),
)
