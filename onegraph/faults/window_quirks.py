"""What the library gets wrong of convolutions and pools; the other ops are in :mod:`.quirks`."""

from __future__ import annotations

from math import prod

from ..errors import LIBRARY, UNSAFE
from ..opset.convolution_geometry import SIDES
from ..opset.shapes import known_dims
from ..opset.window import SHAPE_SOURCE
from .conditions import (
    deep_at_both_ends,
    dilated_groups,
    ends_behind_source,
    few_windows,
    has_long_axis,
    in_low_precision,
    in_padding_alone,
    is_far,
    no_window_inside,
    one_channel_strided,
    rounded_wrong,
    single_dilated,
    strides_beyond_source,
    unread_as_padded,
)
from .quirk import Quirk, kinds

# A bias of windows behind the source is right in 3.2.0 and 3.13.2, and a signal in 3.6.2.
BIAS_WRONG, BIAS_MENDED = (3, 3), (3, 13)

_POOLS = kinds("AvgPool AvgPoolBackward MaxPool MaxPoolBackward")

WINDOW_QUIRKS = (
    Quirk(
        "grouped_gradient",
        "groups",
        LIBRARY,
        kinds("ConvolutionBackwardData"),
        lambda call: call.s64("groups") > 1,
        "groups > 1 never compiles (invalid_shape); ConvTranspose with the same weights is the same op",
    ),
    Quirk(
        "dilated_gradient",
        "dilations",
        LIBRARY,
        kinds("ConvTransposeBackwardData"),
        lambda call: any(dilation != 1 for dilation in call.s64s("dilations")),
        "dilations other than 1 throw at compile; Convolution with the same weights is the same op",
    ),
    Quirk(
        "gradient_auto_pad",
        "auto_pad",
        UNSAFE,
        kinds(
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
        kinds("ConvTransposeBackwardData ConvTransposeBackwardWeights"),
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
        "rounding_up",
        "rounding_type",
        UNSAFE,
        kinds("AvgPool MaxPool"),
        rounded_wrong,
        "rounding_type ceil counts a window too many with same_*, and divides by too few with exclude_pad False; "
        "floor with the pads that cover the last window is right",
    ),
    Quirk(
        "window_in_padding",
        "kernel",
        UNSAFE,
        _POOLS,
        in_padding_alone,
        "a window in the padding alone gives the lowest number instead of -inf, or is refused",
    ),
    Quirk(
        "gradient_of_few_windows",
        "src",
        UNSAFE,
        kinds("ConvolutionBackwardWeights ConvTransposeBackwardWeights"),
        few_windows,
        "in bf16 the kernels read scratch memory that was never written",
    ),
    Quirk(
        "gradient_of_long_strides",
        "strides",
        UNSAFE,
        kinds("ConvolutionBackwardWeights ConvTransposeBackwardWeights"),
        strides_beyond_source,
        "with fewer than 16 channels and strides longer than the last axis the kernel for bf16 reads up to 32 bytes "
        "behind the source, which is diff_dst of ConvTranspose: a signal where no memory is there",
    ),
    Quirk(
        "gradient_of_deep_windows",
        "strides",
        UNSAFE,
        kinds("ConvolutionBackwardWeights ConvTransposeBackwardWeights"),
        deep_at_both_ends,
        "with strides over depth, where a window reaches behind the source right after one that reaches before it, the "
        "kernel counts on the wrong planes: it reads and writes beyond its memory",
    ),
    Quirk(
        "gradient_of_dilated_groups",
        "dilations",
        UNSAFE,
        kinds("ConvolutionBackwardWeights ConvTransposeBackwardWeights"),
        lambda call: in_low_precision(call) and dilated_groups(call),
        "in bf16 the kernel for groups reads other rows of the source where another axis than the last is dilated",
    ),
    Quirk(
        "unread_as_padded",
        "pads_begin",
        UNSAFE,
        kinds("Convolution"),
        lambda call: in_low_precision(call) and unread_as_padded(call),
        "where as much of the last axis is unread at its end as there is padding before it, the kernel takes it for "
        "not padded and has no memory for sums in f32: wrong values, and writes beyond a block",
    ),
    Quirk(
        "bias_behind_source",
        "bias",
        UNSAFE,
        kinds("Convolution"),
        lambda call: call.input("bias") is not None and ends_behind_source(call),
        "with several threads and a bias, a part of the last axis that lies behind the source ends in a signal",
        mended=BIAS_MENDED,
        since=BIAS_WRONG,
    ),
    Quirk(
        "gradient_of_a_small_source",
        "pads_begin",
        UNSAFE,
        kinds("ConvolutionBackwardWeights ConvTransposeBackwardWeights"),
        no_window_inside,
        "where the source is padded in front along the first or, in bf16, second of three spatial axes, and no window "
        "lies inside of it, the kernels take wrong elements, and write beyond the weights",
    ),
    Quirk(
        "one_channel_strided",
        "strides",
        UNSAFE,
        kinds("Convolution ConvTransposeBackwardData"),
        one_channel_strided,
        "with one channel in a group and strides on the last axis the kernel copies too few or too many elements of "
        "the source where the result has one column or the source is one deep, then in bf16 without strides, too: "
        "wrong values, and writes beyond a block",
        since=(3, 3),  # right in 3.2.0, wrong in 3.6.2 and 3.13.2
    ),
    Quirk(
        "single_dilated",
        "dilations",
        UNSAFE,
        kinds("Convolution ConvTransposeBackwardData"),
        single_dilated,
        "in bf16, where windows of one element are dilated along the last axis and lie in the padding before and "
        "behind it, the kernel reads behind the source: a signal where no memory is there",
        mended=(3, 13),
        since=(3, 3),  # right in 3.2.0, wrong in 3.6.2, right in 3.13.2
    ),
    Quirk(
        "far_windows",
        "dilations",
        UNSAFE,
        frozenset(SIDES) | _POOLS,
        is_far,
        "strides, dilations and pads are numbers of 32 bits in the kernels, and what is more is cut off",
    ),
    Quirk(
        "long_axis",
        "shape",
        UNSAFE,
        frozenset(SIDES),
        has_long_axis,
        "bytes along an axis are counted in 32 bits: of a row of 2**32 bytes nothing is computed, and nothing written",
    ),
    Quirk(
        "huge_pool",
        "shape",
        UNSAFE,
        _POOLS,
        lambda call: any(t is not None and prod(known_dims(t.shape)) > 1 << 29 for t in call.inputs),
        "more than 2**29 elements are refused, or divide by zero at compile",
    ),
    Quirk(
        "huge_window",
        "kernel",
        UNSAFE,
        _POOLS,
        lambda call: prod(call.s64s("kernel")) > 1 << 24,
        "compiling goes through the window element by element: more than 2**24 take seconds, minutes, or for ever",
    ),
    Quirk(
        "default_dilations",
        "dilations",
        LIBRARY,
        kinds("MaxPoolBackward"),
        lambda call: not call.has("dilations"),
        "without dilations it never compiles; they can be given as ones",
    ),
)
