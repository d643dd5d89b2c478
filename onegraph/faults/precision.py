"""Ops of a low-precision type that are better computed in f32, also where the CPU has the type."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset.convolution_geometry import convolution_geometry
from ..opset.dtypes import DataType
from ..opset.schema import Call
from ..opset.shapes import Dim, known_dims
from ..opset.window import channels
from .fault import LACKS, SLOW, UNSAFE, Faults, Release, never
from .ops.pooling import overlapping
from .ops.windows import IMAGE

PRECISION = Faults[Call](severity=SLOW, instead="the same op in f32")
_ROUNDED = "gradients of windows that overlap are rounded after each addition, so that large sums stop growing"


def _dtype(call: Call) -> DataType | None:
    return call.inputs[0].dtype if call.inputs and call.inputs[0] is not None else None


def _overlapping(call: Call) -> bool:
    """Whether windows of a low-precision pool have elements in common."""
    return _dtype(call) is not DataType.f32 and overlapping(call)


ROUNDED_AVERAGES = PRECISION.add(
    "rounded_average_gradients",
    ops="AvgPoolBackward",
    where="diff_dst",
    severity=UNSAFE,
    when=_overlapping,
    seen={(3, 2): "wrong", (3, 6): "right"},
    reason=_ROUNDED,
    certain=never,  # with many windows of numbers of one sign
)


@ROUNDED_AVERAGES.example({(3, 2): "wrong", (3, 6): "right"}, on={"no AVX-512": "throws could not create a descriptor"})
def gradient_of_many_averages(g: DataGraph) -> LogicalTensor:
    """The middle is in all of 1024 windows: 1024 times 1/1024."""
    d = g.constant(np.ones((1, 32, 32, 8), DataType.bf16.numpy))
    window = {"kernel": [32, 32], "strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    attrs = {**window, "exclude_pad": False, "src_shape": [1, 63, 63, 8]}
    return g.op("AvgPoolBackward", [d], attrs)


ROUNDED_MAXIMA = PRECISION.add(
    "rounded_maximum_gradients",
    ops="MaxPoolBackward",
    where="src",
    severity=UNSAFE,
    when=_overlapping,
    seen={(3, 2): "wrong", (3, 6): "wrong", (3, 13): "right"},
    reason=_ROUNDED,
    certain=never,  # with many windows of numbers of one sign
)


@ROUNDED_MAXIMA.example(on={"no AVX-512": "throws could not create a descriptor"})
def gradient_of_many_maxima(g: DataGraph) -> LogicalTensor:
    """The middle is the maximum of 289 windows: 289 times 1, the nearest bf16 of which is 288."""
    peak = np.zeros((1, 33, 33, 8), DataType.bf16.numpy)
    peak[:, 16, 16] = 1
    ends = g.constant(peak), g.constant(np.ones((1, 17, 17, 8), DataType.bf16.numpy))
    window = {"kernel": [17, 17], "strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    return g.op("MaxPoolBackward", ends, window)


ROUND_IN_F32 = PRECISION.add(
    "round_in_f32",
    ops="Round",
    where="src",
    severity=LACKS,
    when=lambda call: _dtype(call) is not DataType.f32,
    seen={(3, 2): "unsupported"},
    reason="Round has f32 only",
)


@ROUND_IN_F32.example()
def round_of_bf16(g: DataGraph) -> LogicalTensor:
    return g.round(g.input("x", "bf16", (4,)))


F16_BIAS = PRECISION.add(
    "f16_bias",
    ops="MatMul",
    where="bias",
    when=lambda call: _dtype(call) is DataType.f16 and call.input("bias") is not None,
    seen={(3, 2): "slow"},
    reason="MatMul with a bias of f16 takes a reference kernel, 2,000 times slower",
)


@F16_BIAS.example(
    {(3, 2): "right", (3, 6): "right | throws could not create a primitive"},
    on={"no FP16": "throws could not create a primitive"},
)
def product_and_a_bias_of_f16(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f16", (4, 5)), g.input("w", "f16", (5, 6)), g.input("b", "f16", (6,))
    return g.op("MatMul", ends, dtype="f16")


def _has_uneven_channels(call: Call) -> bool:
    """Whether a low-precision image has no whole vectors of channels."""
    if _dtype(call) is DataType.f32 or not known_dims(shape := call.shape("src")):
        return False
    count = channels(shape, call.string("data_format"))
    return count is not None and count % 16 != 0


SLOW_STATISTICS = PRECISION.add(
    "slow_statistics",
    ops="BatchNormForwardTraining BatchNormTrainingBackward",
    where="src",
    when=_has_uneven_channels,
    seen={(3, 2): "slow"},
    reason="a BatchNorm by statistics of a batch in 16 bits is plain C++ unless the number of channels is a multiple "
    "of 16",
)


@SLOW_STATISTICS.example({(3, 2): "right"}, on={"no AVX-512": "throws could not create a primitive descriptor"})
def statistics_of_24_channels_in_bf16(g: DataGraph) -> LogicalTensor:
    vectors = [g.input(name, "f32", (24,)) for name in ("mean", "variance", "gamma", "beta")]
    attrs = {"epsilon": 1e-5, "momentum": 0.1}
    tensors = g.op("BatchNormForwardTraining", [g.input("x", "bf16", (2, 4, 4, 24)), *vectors], attrs)
    return tensors[0]


def _is_depthwise(call: Call) -> bool:
    """Whether a low-precision convolution has one channel in each group."""
    geometry = convolution_geometry(call)
    if geometry is None or _dtype(call) is DataType.f32:
        return False
    return 1 < geometry.groups == geometry.wide_channels == geometry.narrow_channels


SLOW_DEPTHWISE_SPREAD = PRECISION.add(
    "slow_depthwise_spread",
    ops="ConvTranspose ConvolutionBackwardData",
    where="weights",
    when=lambda call: _is_depthwise(call) and max(call.s64s("strides")) > 1,
    seen={(3, 2): "slow"},
    reason="in 16 bits, a strided ConvTranspose with a channel in each group is computed with 16 channels for each",
)


@SLOW_DEPTHWISE_SPREAD.example({(3, 2): "right"}, on={"no AVX-512": "throws could not create a primitive"})
def every_other_pixel_of_16_channels(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "bf16", (1, 4, 4, 16)), g.input("w", "bf16", (3, 3, 1, 16))
    window = {**IMAGE, "strides": [2, 2], "pads_begin": [1, 1], "pads_end": [1, 1], "groups": 16}
    return g.op("ConvTranspose", ends, {**window, "weights_format": "XOI"})


SLOW_DEPTHWISE_WEIGHTS = PRECISION.add(
    "slow_depthwise_weights",
    ops="ConvolutionBackwardWeights",
    where="diff_dst",
    when=lambda call: _is_depthwise(call) and any((size or 0) > 3 for size in _kernel(call)),
    seen={(3, 2): "slow"},
    reason="in 16 bits, the gradient of a large window with a channel in each group is computed with 16 channels for "
    "each",
)


def _kernel(call: Call) -> Sequence[Dim]:
    geometry = convolution_geometry(call)
    return () if geometry is None or geometry.kernel is None else geometry.kernel


@SLOW_DEPTHWISE_WEIGHTS.example({(3, 2): "right"}, on={"no AVX-512": "throws could not create a primitive"})
def windows_of_25_pixels_of_16_channels(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "bf16", (1, 8, 8, 16)), g.input("d", "bf16", (1, 4, 4, 16))
    return g.op("ConvolutionBackwardWeights", ends, {**IMAGE, "groups": 16, "weights_shape": [5, 5, 1, 16]})


SLOW_F16_WINDOWS = PRECISION.add(
    "slow_f16_windows",
    ops="Convolution",
    where="weights",
    when=lambda call: _dtype(call) is DataType.f16 and any((size or 0) > 1 for size in _kernel(call)),
    seen={(3, 2): "slow"},
    reason="in f16, a convolution with a window of several elements takes 1.3 to 2 times as long as in f32",
)


@SLOW_F16_WINDOWS.example({(3, 2): "right"}, on={"no FP16": "throws could not create a primitive"})
def windows_of_9_pixels_in_f16(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f16", (1, 4, 4, 16)), g.input("w", "f16", (3, 3, 16, 16))
    return g.op("Convolution", ends, IMAGE)


def _spreads(call: Call) -> bool:
    """Whether the windows of a ConvTranspose have strides, groups, or more padding than elements beyond their first."""
    if call.s64("groups") > 1 or max(call.s64s("strides")) > 1:
        return True
    geometry = convolution_geometry(call)
    return geometry is not None and geometry.is_padded_beyond_windows()


SLOW_F16_SPREAD = PRECISION.add(
    "slow_f16_spread",
    ops="ConvTranspose ConvolutionBackwardData",
    where="strides",
    when=lambda call: _dtype(call) is DataType.f16 and _spreads(call),
    seen={(3, 2): "slow"},
    reason="in f16, ConvTransposes with strides, with groups, or padded beyond a window have a reference kernel only, "
    "10 to 2,900 times slower",
)


@SLOW_F16_SPREAD.example({(3, 2): "right"}, on={"no FP16": "throws could not create a primitive"})
def every_other_pixel_in_f16(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f16", (1, 4, 4, 16)), g.input("w", "f16", (3, 3, 8, 16))
    return g.op("ConvTranspose", ends, {**IMAGE, "strides": [2, 2]})


SLOW_F16_WEIGHTS = PRECISION.add(
    "slow_f16_weights",
    ops="ConvolutionBackwardWeights ConvTransposeBackwardWeights",
    where="diff_dst",
    when=lambda call: _dtype(call) is DataType.f16,
    seen={(3, 2): "slow"},
    reason="in f16, gradients by the weights of windows have a reference kernel only, 10 to 2,300 times slower",
)


@SLOW_F16_WEIGHTS.example({(3, 2): "right"}, on={"no FP16": "throws could not create a primitive"})
def gradient_by_weights_in_f16(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f16", (1, 8, 8, 16)), g.input("d", "f16", (1, 6, 6, 8))
    return g.op("ConvolutionBackwardWeights", ends, {**IMAGE, "weights_shape": [3, 3, 16, 8]})


SLOW_F16_RESIZE = PRECISION.add(
    "slow_f16_resize",
    ops="InterpolateBackward",
    where="diff_dst",
    when=lambda call: _dtype(call) is DataType.f16,
    seen={(3, 2): "slow"},
    reason="in f16, the gradient of an Interpolate has a reference kernel only, 10 to 100 times slower",
)


@SLOW_F16_RESIZE.example({(3, 2): "right"}, on={"no FP16": "throws could not create a primitive"})
def gradient_of_twice_the_size_in_f16(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f16", (1, 3, 3, 16)), g.input("dy", "f16", (1, 6, 6, 16))
    return g.op("InterpolateBackward", ends, {"mode": "linear", "sizes": [6, 6]})


def better_in_f32(call: Call, version: Release) -> str:
    """Why an op of a low-precision type is better computed in f32; empty where it is not."""
    return PRECISION.reason(frozenset([call.schema.kind]), call, version)
