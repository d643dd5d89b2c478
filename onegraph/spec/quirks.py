"""What the library refuses, crashes on, or computes wrong although the specification allows it: data, with reasons.

Every quirk was seen in oneDNN 3.2.0, or in a later version where it says ``since``. ``library``: it refuses, by a
status or an exception; ``unsafe``: it would crash, hang or give wrong numbers without a word. The one-to-one objects
refuse both; the executor takes another way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import isinf, prod

from .conditions import (
    INTEGRAL,
    axis_below_last,
    bias_of_many_axes,
    broadcast_gamma,
    deep_at_both_ends,
    dilated_groups,
    empty,
    few_windows,
    has_long_rows,
    has_long_side,
    in_low_precision,
    in_padding_alone,
    known_reduction,
    no_window_inside,
    one_channel_strided,
    one_narrow_scale,
    one_pixel,
    over_one,
    per_channel,
    per_group,
    rounded_wrong,
    slope_by_reference,
    unread_as_padded,
    untyped_stats,
    wide_integers,
)
from .schema import Call, Version
from .window import SHAPE_SOURCE

LIBRARY, UNSAFE = "library", "unsafe"


@dataclass(frozen=True)
class Quirk:
    """One thing that the library gets wrong: the attribute or port, for which ops, when, and in which versions.

    ``since`` is the first version that may have it, ``mended`` the first that is known to be right.
    """

    name: str
    where: str
    severity: str
    kinds: frozenset[str]
    when: Callable[[Call], bool]
    reason: str
    mended: Version | None = None
    since: Version = (3, 2)

    def applies(self, call: Call, version: tuple[int, int, int]) -> bool:
        """Whether a library of ``version`` gets this call wrong."""
        if call.schema.kind not in self.kinds or version < self.since:
            return False
        if self.mended is not None and version >= self.mended:
            return False
        return self.when(call)


def _kinds(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CONVOLUTIONS = (
    "Convolution ConvolutionBackwardData ConvolutionBackwardWeights ConvTranspose ConvTransposeBackwardData "
    "ConvTransposeBackwardWeights"
)
_REDUCTIONS = _kinds("ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum")

QUIRKS = (
    Quirk(
        "grouped_gradient",
        "groups",
        LIBRARY,
        _kinds("ConvolutionBackwardData"),
        lambda call: call.s64("groups") > 1,
        "groups > 1 never compiles (invalid_shape); ConvTranspose with the same weights is the same op",
    ),
    Quirk(
        "dilated_gradient",
        "dilations",
        LIBRARY,
        _kinds("ConvTransposeBackwardData"),
        lambda call: any(dilation != 1 for dilation in call.s64s("dilations")),
        "dilations other than 1 throw at compile; Convolution with the same weights is the same op",
    ),
    Quirk(
        "gradient_auto_pad",
        "auto_pad",
        UNSAFE,
        _kinds(
            "ConvolutionBackwardData ConvolutionBackwardWeights ConvTransposeBackwardData "
            "ConvTransposeBackwardWeights AvgPoolBackward MaxPoolBackward"
        ),
        lambda call: call.attr("auto_pad") != "none",
        "auto_pad of a gradient op is computed from the wrong tensor; pads_begin and pads_end are right",
    ),
    Quirk(
        "gradient_output_padding",
        "output_padding",
        LIBRARY,
        _kinds("ConvTransposeBackwardData ConvTransposeBackwardWeights"),
        lambda call: call.has("output_padding"),
        "output_padding is documented for this op but not in its schema; it can be left out",
    ),
    Quirk(
        "shape_tensor",
        "inputs",
        LIBRARY,
        frozenset(SHAPE_SOURCE),
        lambda call: len(call.inputs) > len(call.schema.inputs) - 1 and call.inputs[-1] is not None,
        "a shape that is given as a tensor never compiles; the attribute of the same name does",
    ),
    Quirk(
        "axes_tensor",
        "axes",
        LIBRARY,
        _REDUCTIONS,
        lambda call: call.input("axes") is not None,
        "axes as an input are always rejected; the attribute of the same name is not",
    ),
    Quirk(
        "infinite_slope",
        "alpha",
        UNSAFE,
        _kinds("HardSigmoidBackward"),
        lambda call: isinf(call.f32("alpha")),
        "an infinite alpha is multiplied by 0 where there is no slope, which gives NaN",
    ),
    Quirk(
        "size_one_reduction",
        "axes",
        LIBRARY,
        _REDUCTIONS,
        lambda call: set(known_reduction(call)) == {1},
        "a reduction over axes that all have size 1 throws at compile",
    ),
    Quirk(
        "rounding_up",
        "rounding_type",
        UNSAFE,
        _kinds("AvgPool MaxPool"),
        rounded_wrong,
        "rounding_type ceil counts a window too many with same_*, and divides by too few with exclude_pad False; "
        "floor with the pads that cover the last window is right",
    ),
    Quirk(
        "window_in_padding",
        "kernel",
        UNSAFE,
        _kinds("AvgPool AvgPoolBackward MaxPool MaxPoolBackward"),
        in_padding_alone,
        "a window in the padding alone gives the lowest number instead of -inf, or is refused",
    ),
    Quirk(
        "gradient_of_few_windows",
        "src",
        UNSAFE,
        _kinds("ConvolutionBackwardWeights ConvTransposeBackwardWeights"),
        few_windows,
        "in bf16 the kernels read scratch memory that was never written",
    ),
    Quirk(
        "gradient_of_deep_windows",
        "strides",
        UNSAFE,
        _kinds("ConvolutionBackwardWeights ConvTransposeBackwardWeights"),
        deep_at_both_ends,
        "with strides over depth, where a window reaches behind the source right after one that reaches before it, the "
        "kernel counts on the wrong planes: it reads and writes beyond its memory",
    ),
    Quirk(
        "gradient_of_dilated_groups",
        "dilations",
        UNSAFE,
        _kinds("ConvolutionBackwardWeights ConvTransposeBackwardWeights"),
        lambda call: in_low_precision(call) and dilated_groups(call),
        "in bf16 the kernel for groups reads other rows of the source where another axis than the last is dilated",
    ),
    Quirk(
        "unread_as_padded",
        "pads_begin",
        UNSAFE,
        _kinds("Convolution"),
        lambda call: in_low_precision(call) and unread_as_padded(call),
        "where as much of the last axis is unread at its end as there is padding before it, the kernel takes it for "
        "not padded and has no memory for sums in f32: wrong values, and writes beyond a block",
    ),
    Quirk(
        "gradient_of_a_small_source",
        "pads_begin",
        UNSAFE,
        _kinds("ConvolutionBackwardWeights ConvTransposeBackwardWeights"),
        no_window_inside,
        "where the source is padded in front along the first or, in bf16, second of three spatial axes, and no window "
        "lies inside of it, the kernels take wrong elements, and write beyond the weights",
    ),
    Quirk(
        "one_channel_strided",
        "strides",
        UNSAFE,
        _kinds("Convolution ConvTransposeBackwardData"),
        one_channel_strided,
        "with one channel in a group and strides on the last axis the kernel copies too few or too many elements of "
        "the source where the result has one column or the source is one deep: wrong values, and writes beyond a block",
        since=(3, 3),  # right in 3.2.0, wrong in 3.6.2 and 3.13.2
    ),
    Quirk(
        "huge_pool",
        "shape",
        UNSAFE,
        _kinds("AvgPool AvgPoolBackward MaxPool MaxPoolBackward"),
        lambda call: any(t is not None and prod(dim or 0 for dim in t.shape or ()) > 1 << 29 for t in call.inputs),
        "more than 2**29 elements are refused, or divide by zero at compile",
    ),
    Quirk(
        "huge_window",
        "kernel",
        UNSAFE,
        _kinds("AvgPool AvgPoolBackward MaxPool MaxPoolBackward"),
        lambda call: prod(call.s64s("kernel")) > 1 << 30,
        "compiling goes through the window element by element: more than 2**30 take minutes, or for ever",
    ),
    Quirk(
        "huge_product",
        "shape",
        UNSAFE,
        _kinds("MatMul Convolution ConvTranspose ConvolutionBackwardData ConvTransposeBackwardData")
        | _kinds("ConvolutionBackwardWeights ConvTransposeBackwardWeights"),
        has_long_side,
        "2**31 - 1 or more rows, columns or places of an image divide by zero at compile",
    ),
    Quirk(
        "long_rows",
        "shape",
        UNSAFE,
        _kinds("LayerNorm"),
        has_long_rows,
        "code is made for each element of the last axis: more than 2**24 take minutes and gigabytes to compile",
    ),
    Quirk(
        "default_dilations",
        "dilations",
        LIBRARY,
        _kinds("MaxPoolBackward"),
        lambda call: not call.has("dilations"),
        "without dilations it never compiles; they can be given as ones",
    ),
    Quirk(
        "frozen_statistics",
        "outputs",
        UNSAFE,
        _kinds("BatchNormTrainingBackward"),
        lambda call: call.n_outputs == 1,
        "with one output the statistics are taken for constants; ask for all three",
    ),
    Quirk(
        "gradient_without_gamma",
        "gamma",
        LIBRARY,
        _kinds("BatchNormTrainingBackward"),
        lambda call: call.input("gamma") is None,
        "four inputs and three outputs throw at compile; pass a gamma of ones",
    ),
    Quirk(
        "batch_norm_rank",
        "src",
        LIBRARY,
        _kinds("BatchNormForwardTraining BatchNormTrainingBackward"),
        lambda call: call.rank("src") in (2, 3),
        "the training ops take no src of fewer than two spatial axes; they exhaust the memory or refuse",
    ),
    Quirk(
        "batch_norm_many_axes",
        "src",
        UNSAFE,
        _kinds("BatchNormInference BatchNormForwardTraining BatchNormTrainingBackward"),
        lambda call: (call.rank("src") or 0) > 5,
        "more than three spatial axes are computed wrong, and written past the memory",
    ),
    Quirk(
        "select_products",
        "cond",
        UNSAFE,
        _kinds("Select"),
        lambda call: True,
        "what is not selected is multiplied by 0, which infinities survive; from rank 6 on it is a signal",
        mended=(3, 13),
        since=(3, 3),
    ),
    Quirk(
        "wide_integers",
        "src_0",
        UNSAFE,
        INTEGRAL,
        wide_integers,
        "s32 is computed in f32, which does not hold every integer above 2**24, and one of them is taken for another",
        since=(3, 7),  # seen in 3.13.2
    ),
    Quirk(
        "softmax_of_nothing",
        "mode",
        UNSAFE,
        _kinds("SoftMax"),
        lambda call: call.string("mode") == "inf_as_zero" and call.s64("axis") not in (-1, (call.rank("src") or 0) - 1),
        "inf_as_zero gives NaN along another axis than the last",
        since=(3, 3),
    ),
    Quirk(
        "norm_axis",
        "begin_norm_axis",
        UNSAFE,
        _kinds("LayerNorm LayerNormBackward"),
        axis_below_last,
        "begin_norm_axis is ignored: only the last axis is normalized",
    ),
    Quirk(
        "rms_norm_axes",
        "begin_norm_axis",
        LIBRARY,
        _kinds("RMSNorm"),
        lambda call: call.rank("src") not in (None, 2, 3, 4, 5) or axis_below_last(call),
        "only the last axis of a src of 2 to 5 axes is normalized",
    ),
    Quirk(
        "rms_norm_gamma",
        "gamma",
        UNSAFE,
        _kinds("RMSNorm"),
        broadcast_gamma,
        "gamma is taken for one factor for each element of the last axis, whatever its shape",
    ),
    Quirk(
        "layer_norm_rank",
        "src",
        LIBRARY,
        _kinds("LayerNorm LayerNormBackward"),
        lambda call: call.rank("src") == 1,
        "a src of one axis throws at compile",
    ),
    Quirk(
        "bf16_statistics",
        "gamma",
        UNSAFE,
        _kinds("LayerNorm GroupNorm"),
        untyped_stats,
        "mean and variance are written as f32 whatever their type is; a gamma of f32 makes sure that it is f32",
    ),
    Quirk(
        "negative_axis",
        "axis",
        UNSAFE,
        _kinds("Quantize Dequantize DynamicQuantize DynamicDequantize"),
        lambda call: per_channel(call) and call.s64("axis") < 0,
        "a negative axis throws at compile or is taken for another one; count it from 0",
    ),
    Quirk(
        "differing_zero_points",
        "zps",
        UNSAFE,
        _kinds("Quantize Dequantize"),
        lambda call: call.has("zps") and len(set(call.s64s("zps"))) > 1,
        "only the first of several zero points is used",
    ),
    Quirk(
        "channel_zero_point",
        "zps",
        LIBRARY,
        _kinds("Quantize Dequantize"),
        lambda call: per_channel(call) and call.has("zps") and any(call.s64s("zps")),
        "a zero point beside scales for each channel never compiles",
        since=(3, 7),  # right in 3.6.2, refused in 3.13.2
    ),
    Quirk(
        "wide_zero_point",
        "zps",
        UNSAFE,
        _kinds("Quantize Dequantize"),
        lambda call: call.has("zps") and any(not -(2**31) <= zero < 2**31 for zero in call.s64s("zps")),
        "a zero point is cut to 32 bits",
    ),
    Quirk(
        "dynamic_zero_points",
        "zps",
        LIBRARY,
        _kinds("DynamicQuantize DynamicDequantize"),
        lambda call: per_channel(call) and call.input("zps") is not None,
        "zero points for each channel throw at execute",
    ),
    Quirk(
        "narrow_scale",
        "scales",
        UNSAFE,
        _kinds("DynamicDequantize"),
        one_narrow_scale,
        "one scale of bf16 or f16 is taken for one of f32",
        since=(3, 7),  # seen in 3.13.2
    ),
    Quirk(
        "dynamic_parameter_rank",
        "scales",
        LIBRARY,
        _kinds("DynamicQuantize DynamicDequantize"),
        lambda call: not per_group(call) and any(call.rank(name) not in (None, 1) for name in ("scales", "zps")),
        "scales and zero points that are no vectors are refused, or throw at execute",
    ),
    Quirk(
        "sizes_tensor",
        "sizes",
        LIBRARY,
        _kinds("Interpolate InterpolateBackward"),
        lambda call: call.input("sizes") is not None,
        "sizes as an input are rejected, or ignored beside the attribute; the attribute alone is right",
    ),
    Quirk(
        "align_corners",
        "coordinate_transformation_mode",
        LIBRARY,
        _kinds("Interpolate InterpolateBackward"),
        lambda call: call.string("coordinate_transformation_mode") == "align_corners",
        "align_corners is unsupported",
    ),
    Quirk(
        "one_pixel",
        "src",
        UNSAFE,
        _kinds("Interpolate"),
        one_pixel,
        "a src of one pixel is taken for NXC in the result: wrong values, some of them written beyond it",
        since=(3, 3),  # right in 3.2.0, wrong in 3.6.2
    ),
    Quirk(
        "group_norm_rank",
        "src",
        UNSAFE,
        _kinds("GroupNorm"),
        lambda call: call.rank("src") == 2,
        "a src without spatial axes gives wrong values, or a crash",
    ),
    Quirk(
        "matmul_over_one",
        "src",
        UNSAFE,
        _kinds("MatMul"),
        over_one,
        "a sum over one element leaves the result unwritten where the rank is 4 or more",
        since=(3, 3),  # right in 3.2.0, wrong in 3.6.2
        mended=(3, 13),
    ),
    Quirk(
        "matmul_bias",
        "bias",
        UNSAFE,
        _kinds("MatMul"),
        bias_of_many_axes,
        "a bias of more than two axes is an endless loop where a batch of matrices meets one matrix; one of more than "
        "one axis is added along other axes beside a vector",
    ),
    Quirk(
        "prelu_rank",
        "src",
        UNSAFE,
        _kinds("PReLU PReLUBackward"),
        lambda call: call.rank("src") in (0, 1),
        "a src without a channel axis crashes at compile",
    ),
    Quirk(
        "prelu_by_reference",
        "slope",
        UNSAFE,
        _kinds("PReLU PReLUBackward"),
        slope_by_reference,
        "the kernel for a slope that is neither one for each element nor one for each channel reads five dims of src, "
        "and with fewer axes that is whatever lies in memory",
    ),
    Quirk(
        "concat_limits",
        "inputs",
        LIBRARY,
        _kinds("Concat"),
        lambda call: len(call.inputs) > 64 or any(t is not None and (t.rank or 0) > 6 for t in call.inputs),
        "at most 64 inputs of at most 6 axes are taken",
    ),
    Quirk(
        "empty_tensor",
        "inputs",
        UNSAFE,
        _kinds(
            _CONVOLUTIONS + " MatMul AvgPool AvgPoolBackward MaxPool MaxPoolBackward Quantize Dequantize "
            "DynamicQuantize DynamicDequantize Concat Interpolate InterpolateBackward LayerNorm "
            "LayerNormBackward BatchNormInference BatchNormForwardTraining BatchNormTrainingBackward "
            "PReLU PReLUBackward SoftMax SoftMaxBackward LogSoftmax LogSoftmaxBackward"
        )
        | _REDUCTIONS,
        empty,
        "an empty tensor divides by zero, or leaves the result unwritten, in some of the kernels",
    ),
)


@cache
def _of_kind(kind: str) -> tuple[Quirk, ...]:
    return tuple(quirk for quirk in QUIRKS if kind in quirk.kinds)


def quirks(call: Call, version: tuple[int, int, int]) -> list[Quirk]:
    """What a library of ``version`` gets wrong in this call, in base words."""
    return [quirk for quirk in _of_kind(call.schema.kind) if quirk.applies(call, version)]
