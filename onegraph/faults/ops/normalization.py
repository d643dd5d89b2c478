"""What oneDNN gets wrong of normalizations and SoftMax."""

from __future__ import annotations

import numpy as np

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.dtypes import DataType
from ...opset.ops.normalization_shapes import begin_axis
from ...opset.schema import Call
from ...opset.shapes import compatible
from ..fault import LIBRARY, UNSAFE, Faults

FAULTS = Faults[Call](severity=UNSAFE)

# BatchNorm -----------------------------------------------------------------------------------------------------------

FROZEN_STATISTICS = FAULTS.add(
    "frozen_statistics",
    ops="BatchNormTrainingBackward",
    where="outputs",
    when=lambda call: call.n_outputs == 1,
    seen={(3, 2): "wrong"},
    reason="with one output, mean and variance are taken for constants; ask for all three outputs",
    instead="the same op with all three outputs, of which two are dropped",
)


def _gradient(g: DataGraph, *parameters: LogicalTensor, outputs: list[str] | None = None) -> LogicalTensor:
    """The gradient of a BatchNorm of images in two channels."""
    src, d = g.input("x", "f32", (2, 2, 3, 3)), g.input("d", "f32", (2, 2, 3, 3))
    mean, variance = g.input("m", "f32", (2,)), g.square(g.input("v", "f32", (2,)))
    attrs = {"epsilon": 1.0, "data_format": "NCX"}
    return g.op("BatchNormTrainingBackward", [src, d, mean, variance, *parameters], attrs, outputs=outputs)


@FROZEN_STATISTICS.example()
def one_output_of_a_gradient(g: DataGraph) -> LogicalTensor:
    return _gradient(g, g.input("g", "f32", (2,)), outputs=["diff_src"])


GRADIENT_WITHOUT_GAMMA = FAULTS.add(
    "gradient_without_gamma",
    ops="BatchNormTrainingBackward",
    where="gamma",
    severity=LIBRARY,
    when=lambda call: call.input("gamma") is None,
    seen={(3, 2): "throws vector::_M_range_check"},
    reason="four inputs and three outputs throw at compile; pass a gamma of ones",
    instead="the same op with a gamma of ones",
)


@GRADIENT_WITHOUT_GAMMA.example()
def gradient_without_gamma(g: DataGraph) -> LogicalTensor:
    return _gradient(g)


def has_few_axes(call: Call) -> bool:
    """Whether src has fewer than two spatial axes."""
    return call.rank("src") in (2, 3)


BATCH_NORM_RANK = FAULTS.add(
    "batch_norm_rank",
    ops="BatchNormForwardTraining",
    where="src",
    severity=LIBRARY,
    when=has_few_axes,
    seen={(3, 2): "throws | refuses | SIGSEGV | hang", (3, 3): "right"},
    reason="the op takes no src of fewer than two spatial axes; it exhausts the memory or refuses",
    instead="the same op on a src with axes of size 1",
)


def _training(g: DataGraph, shape: tuple[int, ...]) -> LogicalTensor:
    vectors = g.input("m", "f32", shape[-1:]), g.square(g.input("v", "f32", shape[-1:]))
    return g.op("BatchNormForwardTraining", [g.input("x", "f32", shape), *vectors], {"epsilon": 1.0, "momentum": 0.5})


@BATCH_NORM_RANK.example()
def training_on_a_matrix(g: DataGraph) -> LogicalTensor:
    return _training(g, (4, 3))


BATCH_NORM_GRADIENT_RANK = FAULTS.add(
    "batch_norm_gradient_rank",
    ops="BatchNormTrainingBackward",
    where="src",
    severity=LIBRARY,
    when=has_few_axes,
    seen={(3, 2): "throws | refuses | SIGSEGV | hang", (3, 6): "throws | refuses"},
    reason="the gradient takes no src of fewer than two spatial axes",
    instead="the same op on a src with axes of size 1",
)


@BATCH_NORM_GRADIENT_RANK.example()
def gradient_of_a_matrix(g: DataGraph) -> LogicalTensor:
    src, d = g.input("x", "f32", (4, 3)), g.input("d", "f32", (4, 3))
    mean, variance = g.input("m", "f32", (3,)), g.square(g.input("v", "f32", (3,)))
    attrs = {"epsilon": 1.0, "data_format": "NCX"}
    return g.op("BatchNormTrainingBackward", [src, d, mean, variance, g.input("g", "f32", (3,))], attrs)[0]


BATCH_NORM_MANY_AXES = FAULTS.add(
    "batch_norm_many_axes",
    ops="BatchNormInference BatchNormForwardTraining BatchNormTrainingBackward",
    where="src",
    when=lambda call: (call.rank("src") or 0) > 5,
    seen={(3, 2): "wrong | overrun | throws | refuses | SIGSEGV | SIGABRT"},
    reason="more than three spatial axes give wrong results, and writes beyond the output",
    instead="the same op on a src with fewer axes, or numpy",
)


@BATCH_NORM_MANY_AXES.example()
def inference_on_six_axes(g: DataGraph) -> LogicalTensor:
    vectors = [g.input(name, "f32", (3,)) for name in ("gamma", "beta", "mean")]
    variance = g.square(g.input("variance", "f32", (3,)))
    return g.op("BatchNormInference", [g.input("x", "f32", (2, 2, 3, 2, 2, 3)), *vectors, variance], {"epsilon": 1.0})


@BATCH_NORM_MANY_AXES.example()
def training_on_six_axes(g: DataGraph) -> LogicalTensor:
    return _training(g, (2, 2, 3, 2, 2, 3))


# SoftMax -------------------------------------------------------------------------------------------------------------


def zeroes_along_columns(call: Call) -> bool:
    """Whether a SoftMax with inf_as_zero goes along an axis behind which there are several elements."""
    shape, axis = call.shape("src"), call.s64("axis")
    if call.string("mode") != "inf_as_zero" or shape is None:
        return False
    return any(dim != 1 for dim in shape[axis % len(shape) + 1 :])


def has_nothing(call: Call) -> bool:
    """Whether the contents are known, and all elements along the axis are minus infinity somewhere."""
    src = call.inputs[0]
    if src is None or src.value is None or not zeroes_along_columns(call):
        return False
    return bool(np.isneginf(src.value.astype(np.float32)).all(axis=call.s64("axis")).any())


SOFTMAX_OF_NOTHING = FAULTS.add(
    "softmax_of_nothing",
    ops="SoftMax",
    where="mode",
    when=zeroes_along_columns,
    seen={(3, 2): "absent", (3, 13): "wrong"},
    reason="inf_as_zero gives NaN where all elements along another axis than the last are minus infinity",
    instead="other ops, or numpy",
    since=(3, 3),
    certain=has_nothing,
    of_nan=True,
)


@SOFTMAX_OF_NOTHING.example()
def inf_as_zero_along_columns(g: DataGraph) -> LogicalTensor:
    x = g.log(g.relu(g.add(g.input("x", "f32", (3, 3)), g.constant(np.array([[-9, 0, 9]], np.float32)))))
    return g.op("SoftMax", [x], {"axis": 0, "mode": "inf_as_zero"}, outputs=["dst"], dtype="f32")


# LayerNorm, GroupNorm, RMSNorm ---------------------------------------------------------------------------------------


def axis_below_last(call: Call) -> bool:
    """Whether a normalization goes over more than the last axis."""
    rank, begin = call.rank("src"), begin_axis(call)
    return rank is not None and begin != rank - 1


def several_axes(call: Call) -> bool:
    """Whether a normalization goes over another axis than the last that has more than one element.

    The statistics that a gradient reads must have all axes but the last; those of one row may have none.
    """
    shape, begin = call.shape("src"), begin_axis(call)
    if call.schema.kind == "LayerNormBackward" and call.rank("src") != 2:
        return axis_below_last(call)
    return shape is not None and begin is not None and any(dim != 1 for dim in shape[begin:-1])


NORM_AXIS = FAULTS.add(
    "norm_axis",
    ops="LayerNorm LayerNormBackward",
    where="begin_norm_axis",
    when=several_axes,
    seen={(3, 2): "wrong", (3, 6): "unsupported"},
    reason="begin_norm_axis is ignored: only the last axis is normalized",
    instead="the same op on a src whose normalized axes are one",
)


@NORM_AXIS.example()
def layer_norm_over_two_axes(g: DataGraph) -> LogicalTensor:
    attrs = {"begin_norm_axis": 1, "use_affine": False, "keep_stats": False}
    return g.op("LayerNorm", [g.input("x", "f32", (2, 3, 4))], attrs)


def other_axes_of_one(call: Call) -> bool:
    """Whether a LayerNorm goes over the last axis and others, which have one element."""
    return axis_below_last(call) and not several_axes(call)


NORM_OVER_SINGLE_AXES = FAULTS.add(
    "norm_over_single_axes",
    ops="LayerNorm LayerNormBackward",
    where="begin_norm_axis",
    severity=LIBRARY,
    when=other_axes_of_one,
    seen={(3, 2): "right", (3, 3): "right", (3, 4): "unsupported"},
    reason="begin_norm_axis must name the last axis, also where the other axes have size 1",
    instead="the same op on a src whose normalized axes are one",
)


@NORM_OVER_SINGLE_AXES.example()
def layer_norm_over_an_axis_of_size_1(g: DataGraph) -> LogicalTensor:
    attrs = {"begin_norm_axis": 1, "use_affine": False, "keep_stats": False}
    return g.op("LayerNorm", [g.input("x", "f32", (2, 1, 4))], attrs)


RMS_NORM_AXES = FAULTS.add(
    "rms_norm_axes",
    ops="RMSNorm",
    where="begin_norm_axis",
    severity=LIBRARY,
    when=lambda call: call.rank("src") not in (None, 2, 3, 4, 5) or axis_below_last(call),
    seen={(3, 2): "absent", (3, 13): "refuses"},
    reason="only the last axis of a src of 2 to 5 axes is normalized",
    instead="the same op on a src of two axes, or numpy",
    since=(3, 2),
)


@RMS_NORM_AXES.example({(3, 2): "absent", (3, 13): "unsupported"})
def rms_norm_over_two_axes(g: DataGraph) -> LogicalTensor:
    return g.op("RMSNorm", [g.input("x", "f32", (2, 3, 4)), g.input("g", "f32", (3, 4))], {"begin_norm_axis": 1})


def broadcast_gamma(call: Call) -> bool:
    """Whether gamma is anything but one factor for each element of the last axis."""
    shape, gamma = call.shape("src"), call.shape("gamma")
    if not shape or gamma is None:
        return False
    return not compatible(gamma, (*[1] * (len(gamma) - 1), shape[-1]))


RMS_NORM_GAMMA = FAULTS.add(
    "rms_norm_gamma",
    ops="RMSNorm",
    where="gamma",
    when=broadcast_gamma,
    seen={(3, 2): "absent", (3, 13): "wrong"},
    reason="gamma is taken for one factor for each element of the last axis, whatever its shape",
    instead="an RMSNorm without gamma and a Multiply",
    since=(3, 2),
)


@RMS_NORM_GAMMA.example({(3, 2): "absent", (3, 13): "SIGSEGV"})
def gamma_of_rows(g: DataGraph) -> LogicalTensor:
    return g.op("RMSNorm", [g.input("x", "f32", (2, 3, 4)), g.input("g", "f32", (3, 1))])


LAYER_NORM_RANK = FAULTS.add(
    "layer_norm_rank",
    ops="LayerNorm LayerNormBackward",
    where="src",
    severity=LIBRARY,
    when=lambda call: call.rank("src") == 1,
    seen={(3, 2): "throws"},
    reason="a src of one axis throws at compile",
    instead="the same op on a src of two axes",
)


@LAYER_NORM_RANK.example({(3, 2): "throws", (3, 6): "unsupported"})
def layer_norm_of_a_vector(g: DataGraph) -> LogicalTensor:
    return g.op("LayerNorm", [g.input("x", "f32", (4,))], {"use_affine": False, "keep_stats": False})


def untyped_stats(call: Call) -> bool:
    """Statistics of a bf16 source that are not f32, with no gamma to say their type."""
    src = call.input("src")
    bf16 = src is not None and src.dtype is DataType.bf16
    as_f32 = call.output_type(1) is DataType.f32
    return bf16 and call.input("gamma") is None and call.flag("keep_stats") and not as_f32


BF16_STATISTICS = FAULTS.add(
    "bf16_statistics",
    ops="LayerNorm GroupNorm",
    where="gamma",
    when=untyped_stats,
    seen={(3, 2): "overrun | wrong | SIGABRT", (3, 13): "SIGSEGV | overrun | wrong"},
    reason="mean and variance are written as f32 whatever their type is; a gamma of f32 makes sure that it is f32",
    instead="the same op in f32, and casts",
)


@BF16_STATISTICS.example(on={"no AVX-512": "throws could not create a primitive"})
def statistics_of_bf16(g: DataGraph) -> tuple[LogicalTensor, ...]:
    tensors = g.op("LayerNorm", [g.input("x", "bf16", (64, 4))], {"use_affine": False}, dtype="bf16")
    return tuple(tensors)


@BF16_STATISTICS.example(
    {(3, 2): "absent", (3, 13): "SIGSEGV | overrun | wrong | right"},
    on={"no AVX-512": "throws could not create a primitive"},
)
def statistics_of_bf16_in_groups(g: DataGraph) -> tuple[LogicalTensor, ...]:
    tensors = g.op("GroupNorm", [g.input("x", "bf16", (2, 3, 4))], {"use_affine": False, "groups": 1}, dtype="bf16")
    return tuple(tensors)


GROUP_NORM_RANK = FAULTS.add(
    "group_norm_rank",
    ops="GroupNorm",
    where="src",
    when=lambda call: call.rank("src") == 2,
    seen={(3, 2): "SIGSEGV"},
    reason="a src without spatial axes gives wrong values, or a crash",
    instead="other ops, or numpy",
)


@GROUP_NORM_RANK.example()
def group_norm_of_a_matrix(g: DataGraph) -> LogicalTensor:
    return g.op("GroupNorm", [g.input("x", "f32", (2, 6))], {"groups": 3, "use_affine": False, "keep_stats": False})
