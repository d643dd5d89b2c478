"""Has the table of what changed between op sets: by kind, the op set that brought a change, and the steps to it."""

from __future__ import annotations

from typing import NamedTuple

from .draft import Step, drops, renames, states, to_input, to_scalar
from .steps import (
    aligned,
    as_resize,
    coerced_type,
    dft_axis,
    flattened,
    inference_only,
    int_power,
    mask_like_input,
    number_of_outputs,
    per_channel,
    per_channel_slope,
    repeats,
    resized_by_scales,
    scatter_elements,
    upsample_scales,
    without_statistics,
)

MODERN = 21  # the op set of the new forms, which every supported version of the package onnx has
LARGEST = 3.4028234663852886e38


class MeaningChange(NamedTuple):
    """What an op set changed.

    Attributes:
        since: the op set.
        steps: functions that bring a node of an older op set into the new form.
    """

    since: int
    steps: tuple[Step, ...]


def _change(since: int, *steps: Step) -> MeaningChange:
    return MeaningChange(since, steps)


_CONSUMED = (
    "Abs Add Ceil Clip Div Dropout Elu Exp Floor HardSigmoid InstanceNormalization LeakyRelu Log Max Mean Min Mul Neg "
    "PRelu Reciprocal Relu Selu Sigmoid Sqrt Sub Sum Tanh BatchNormalization"
)
_BROADCAST = "Add And Div Equal Greater Less Mul Or Pow Sub Xor"
_REDUCE = "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare"

# In the order of the op sets.
_TABLE: tuple[tuple[str, MeaningChange], ...] = (
    *((kind, _change(6, drops("consumed_inputs"))) for kind in _CONSUMED.split()),
    ("Selu", _change(6, states(alpha=1.6732, gamma=1.0507))),
    ("Clip", _change(11, to_scalar("min", 1, -LARGEST), to_scalar("max", 2, LARGEST))),
    *((kind, _change(7, aligned)) for kind in _BROADCAST.split()),
    ("Gemm", _change(7, drops("broadcast"))),
    ("PRelu", _change(7, per_channel_slope)),
    ("BatchNormalization", _change(7, inference_only)),
    ("BatchNormalization", _change(9, without_statistics)),
    ("BatchNormalization", _change(14, without_statistics)),
    ("Dropout", _change(7, inference_only)),
    ("Dropout", _change(10, mask_like_input)),
    ("Dropout", _change(12, drops("ratio"))),
    ("Cast", _change(6, coerced_type)),
    ("Concat", _change(4, states(axis=1))),
    ("Split", _change(2, states(axis=0))),
    ("Split", _change(13, to_input("split", 1))),
    ("Split", _change(18, number_of_outputs)),
    ("Reshape", _change(5, drops("consumed_inputs"), to_input("shape", 1))),
    ("Tile", _change(6, repeats)),
    *((kind, _change(2, int_power)) for kind in ("LpPool", "GlobalLpPool")),
    ("GRU", _change(3, renames("direction", foward="forward"))),
    *((kind, _change(7, drops("output_sequence"))) for kind in ("GRU", "LSTM", "RNN")),
    ("Pad", _change(2, to_input("paddings", 1))),
    ("Pad", _change(11, to_input("pads", 1), to_scalar("value", 2))),
    ("Slice", _change(10, to_input("starts", 1), to_input("ends", 2), to_input("axes", 3))),
    ("TopK", _change(10, to_input("k", 1))),
    ("Upsample", _change(7, upsample_scales)),
    ("Upsample", _change(9, to_input("scales", 1))),
    ("Upsample", _change(10, as_resize)),
    ("Resize", _change(11, resized_by_scales)),
    ("Scatter", _change(11, scatter_elements)),
    *((kind, _change(13, flattened)) for kind in ("Softmax", "LogSoftmax", "Hardmax")),
    *((kind, _change(13, to_input("axes", 1))) for kind in ("ReduceSum", "Squeeze", "Unsqueeze")),
    *((kind, _change(18, to_input("axes", 1))) for kind in _REDUCE.split()),
    ("RoiAlign", _change(16, states(coordinate_transformation_mode="output_half_pixel"))),
    ("GridSample", _change(20, renames("mode", bilinear="linear", bicubic="cubic"))),
    ("DFT", _change(20, dft_axis)),
    ("GroupNormalization", _change(21, per_channel)),
)
CHANGES: dict[str, tuple[MeaningChange, ...]] = {
    kind: tuple(sorted((change for name, change in _TABLE if name == kind), key=lambda one: one.since))
    for kind, _ in _TABLE
}
# What the table of nodes reads in both forms, because the old one has no node of a newer op set.
READ_AS_THEY_ARE = {("Scan", 9): "the first axis of an old Scan is a batch"}
NEWER_NAMES = {"Upsample": "Resize", "Scatter": "ScatterElements"}  # of kinds that newer op sets lack
