"""Lists the mistakes about the windows, padding, groups and sizes of convolutions, pooling and interpolation."""

from __future__ import annotations

from .correction import ATTRIBUTES, CURRENT, DESCRIPTION, GUIDES, INPUTS, LEGACY, ONEAPI, Correction
from .facts import TRANSPOSED

MAX_POOLS = ("MaxPool", "MaxPoolBackward")
LEGACY_MAX_POOLS = ("MaxPool", "MaxPoolBackprop")
LEGACY_POOLS = ("AvgPool", "AvgPoolBackprop", *LEGACY_MAX_POOLS)

CORRECTIONS = (
    # Weights
    Correction(
        "transposed_groups",
        editions=CURRENT,
        ops=TRANSPOSED,
        section=INPUTS,
        where="weights_format",
        printed="(in_channels / groups, out_channels, spatial_shape)",
        meant="(in_channels, out_channels / groups, spatial_shape) for IOX, and XOI in the same way",
        reason="legacy-1 divides the output channels, and no library version takes anything else",
        action="Weights have in_channels and out_channels / groups channels.",
    ),
    Correction(
        "grouped_weights",
        editions=CURRENT,
        ops=("Convolution",),
        section=DESCRIPTION,
        where="",
        printed="weights(g, oc_g, ic_g, kh, kw)",
        meant="weights(g * OC_G + oc_g, ic_g, kh, kw)",
        reason="the formula is that of the primitive, whose weights have an axis of groups; the page gives the shape "
        "of the "
        "weights as (out_channels, in_channels / groups, spatial_shape)",
        action="Weights have no axis of groups.",
    ),
    Correction(
        "bias_of_input",
        editions=LEGACY,
        ops=("Convolution",),
        section=INPUTS,
        where="bias",
        printed="adds to channel dimension of input",
        meant="added to the channels of output",
        reason="the channels of the input are summed; ConvTranspose has output, and so does every later formula",
        action="bias has one element for each output channel.",
    ),
    # Positions of the window
    Correction(
        "max_pool_dilation",
        editions=CURRENT,
        ops=("MaxPool",),
        section=DESCRIPTION,
        where="",
        printed=r"kh \cdot (DH + 1)",
        meant="kh * DH",
        reason="the formula is that of the primitive, where 0 means no dilation; the table and the library have 1 for "
        "it",
        action="A dilation of 1 means no dilation.",
    ),
    Correction(
        "avg_pool_dilation",
        editions=GUIDES,
        ops=("AvgPool",),
        section=DESCRIPTION,
        where="",
        printed=r"kh \cdot (DH + 1)",
        meant="kh",
        reason="the op has no dilations; the oneAPI specification prints kh",
        action="The window is dense.",
    ),
    Correction(
        "positions_undefined",
        editions=ONEAPI,
        ops=("Convolution",),
        section=DESCRIPTION,
        where="",
        printed="oh', ow'",
        meant="oh * SH + kh - PH_L, and oh * SH + kh * DH - PH_L with dilations",
        reason="the page defines neither oh' nor oh''; the page of the primitive does, but with DH + 1 for the "
        "dilation",
        action="A dilation of 1 means no dilation.",
    ),
    Correction(
        "kept_outputs",
        editions=LEGACY,
        ops=("Convolution",),
        section=DESCRIPTION,
        where="",
        printed="results on a multiple of d spatial axis",
        meant="the results on multiples of the stride s",
        reason="the next formula divides by s; d is the dilation",
        action="The stride is the distance of the results.",
    ),
    Correction(
        "zeros_for_the_channels",
        editions=LEGACY,
        ops=("Convolution",),
        section=DESCRIPTION,
        where="",
        printed="p_e zeros inserted for the channels on the spatial axes",
        meant="p_e zeros after the elements of the spatial axes",
        reason="the padded size is p_b + p_e + X_I",
        action="pads_end is added after the last element.",
    ),
    Correction(
        "zero_strides",
        editions=LEGACY,
        ops=LEGACY_POOLS,
        section=ATTRIBUTES,
        where="strides",
        printed="non-negative s64 value",
        meant="positive values",
        reason="a window with stride 0 never advances; later editions have positive values",
        action="It refuses a stride of 0.",
    ),
    Correction(
        "zero_dilations",
        editions=LEGACY,
        ops=LEGACY_MAX_POOLS,
        section=ATTRIBUTES,
        where="dilations",
        printed="non-negative s64 values",
        meant="positive values",
        reason="with dilation 0 all elements of a window are the same; later editions have positive values",
        action="It refuses a dilation of 0.",
    ),
    # Padding
    *(
        Correction(
            f"max_pool_{name}",
            editions=CURRENT,
            ops=MAX_POOLS,
            section=ATTRIBUTES,
            where=name,
            printed=f"number of zeros to be add to the {side}",
            meant="places that are never the maximum",
            reason="with zeros, the maximum of negative elements would be 0 at the border; the library ignores the "
            "padding",
            action="The padding is never the maximum.",
        )
        for name, side in (("pads_begin", "front/top/left"), ("pads_end", "back/bottom/right"))
    ),
    *(
        Correction(
            f"omitted_{name}",
            editions=LEGACY,
            ops=("ConvolutionBackpropData", "ConvolutionBackpropFilters"),
            section=ATTRIBUTES,
            where=name,
            printed=printed,
            meant="required; ignored with another auto_pad than none",
            reason="the same entry says that it is required, and the library refuses an op without it",
            action="It requires the attribute.",
        )
        for name, printed in (("pads_begin", "May be omitted specified"), ("pads_end", "May be omitted, in which"))
    ),
    Correction(
        "same_padding_total",
        editions=LEGACY,
        ops=("Convolution",),
        section=ATTRIBUTES,
        where="auto_pad",
        printed="p_b+p_e=d(X_I-1)",
        meant="d * (X_K - 1), the reach of the kernel; with a stride s, what ceil(X_I / s) positions need",
        reason="the padding depends on the kernel X_K, not on the input X_I; with a stride above 1 the library pads "
        "less",
        action="same_upper and same_lower give ceil(size / stride) positions.",
    ),
    Correction(
        "same_padding_exchanged",
        editions=CURRENT,
        ops=("ConvolutionBackwardData",),
        section=DESCRIPTION,
        where="auto_pad",
        printed="PD_L = floor(total_padding / 2)",
        meant="the formula of same_upper; that printed for same_upper is the formula of same_lower",
        reason="it is the gradient of Convolution, and the library and all other pages put the odd element of "
        "same_upper at "
        "the end",
        action="same_upper pads more at the end, same_lower at the beginning.",
    ),
    Correction(
        "same_padding_exchanged_legacy",
        editions=LEGACY,
        ops=("ConvolutionBackpropData",),
        section=DESCRIPTION,
        where="auto_pad",
        printed="if auto_pads != SAME_UPPER:",
        meant="if auto_pad is same_upper; and no padding for valid",
        reason="the entry of auto_pad on the same page and the page of ConvTranspose put the odd element of same_upper "
        "at the "
        "end; the attribute is auto_pad, and the printed condition also holds for valid",
        action="same_upper pads more at the end, same_lower at the beginning, and valid pads nothing.",
    ),
    Correction(
        "padding_of_every_axis",
        editions=CURRENT,
        ops=("ConvolutionBackwardData",),
        section=DESCRIPTION,
        where="auto_pad",
        printed="PD_L = 0",
        meant="the padding of every spatial axis",
        reason="PD is the padding of the depth alone, by the table of parameters, and total_padding is given for the "
        "height",
        action="It computes the padding of each spatial axis from its own sizes.",
    ),
    Correction(
        "shapes_of_the_gradient",
        editions=CURRENT,
        ops=("ConvolutionBackwardData",),
        section=DESCRIPTION,
        where="",
        printed="calculated according to src_shape and dst_shape",
        meant="src_shape: the shape of diff_dst; dst_shape: the shape of diff_src",
        reason="they are source and result of this op, which are result and source of Convolution; total_padding would "
        "be "
        "negative the other way round",
        action="dst_shape is the shape of diff_src.",
    ),
    Correction(
        "shape_of_dst",
        editions=CURRENT,
        ops=("ConvolutionBackwardData",),
        section=ATTRIBUTES,
        where="dst_shape",
        printed="Denotes the shape of the dst tensor",
        meant="the shape of diff_src",
        reason="the op computes diff_src, and its shape is what the sizes of diff_dst leave open; legacy-1 has the "
        "output",
        action="dst_shape is the shape of diff_src.",
    ),
    Correction(
        "output_shape_of_transpose",
        editions=LEGACY,
        ops=("ConvTranspose",),
        section=DESCRIPTION,
        where="",
        printed="If output_shape is explicitly specified",
        meant="only the cases of auto_pad",
        reason="the op has no such attribute or input",
        action="The shape of the output follows from the padding and from output_padding.",
    ),
    Correction(
        "capital_padding_values",
        editions=LEGACY,
        ops=("ConvTranspose", "ConvolutionBackpropData"),
        section=DESCRIPTION,
        where="auto_pad",
        printed="SAME_UPPER",
        meant="same_upper",
        reason="the entry of the attribute has lower case; the library knows capitals only",
        action="It takes both.",
    ),
    # Interpolation
    Correction(
        "sizes_and_scales",
        editions=CURRENT,
        ops=("Interpolate", "InterpolateBackward"),
        section=ATTRIBUTES,
        where="scales",
        printed="Either sizes or scales should be provided",
        meant="at least one of sizes and scales",
        reason="the next sentence says that scales is ignored beside sizes; legacy-1 forbids both",
        action="It ignores scales beside sizes, and keeps it from the library, which refuses both.",
    ),
    *(
        Correction(
            f"sizes_of_the_forward_op{suffix}",
            editions=editions,
            ops=(kind,),
            section=INPUTS,
            where="sizes",
            printed="describing output shape for spatial axes",
            meant=f"the spatial sizes of {port}",
            reason="the output of this op has the shape of its source; sizes are those of the forward op",
            action=f"The spatial sizes of {port} must be sizes.",
        )
        for suffix, editions, kind, port in (
            ("", CURRENT, "InterpolateBackward", "diff_dst"),
            ("_legacy", LEGACY, "InterpolateBackprop", "output_delta"),
        )
    ),
)
