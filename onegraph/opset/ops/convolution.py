"""Defines the convolution category: Convolution, ConvTranspose and their gradients.

All six ops relate the same three tensors; :mod:`onegraph.opset.convolution_geometry` computes their sizes.

Weights of a Convolution are OIX = (out, in / groups, X) or XIO = (X, in / groups, out). Weights of a ConvTranspose are
IOX = (in, out / groups, X) or XOI = (X, out / groups, in), for every number of groups.
"""

from __future__ import annotations

from dataclasses import replace

from ..schema import Schema
from ..signature import FLOATS, NON_NEGATIVE, POSITIVE, Attribute, Fill, Range, ports
from ..traits import Trait
from ..window import (
    SHAPE_SOURCE,
    shape_length,
    shape_source,
    spatial_list_length,
    spatial_rank,
)
from .convolution_shapes import (
    batch_match,
    channels_match,
    likely_layout,
    narrow_shape,
    padding_left_out,
    source_shape,
    spatial_fits,
    wide_shape,
)

AUTO_PAD_ALIASES = {"None": "none", "SAME_UPPER": "same_upper", "SAME_LOWER": "same_lower", "VALID": "valid"}


def spatial_list(name: str, allowed: Range, doc: str, implied: int | None = None) -> Attribute:
    """A required list with one element for each spatial axis; the methods of ops imply ``implied`` for each."""
    fill = None if implied is None else Fill(implied)
    return Attribute(name, "s64[]", doc, required=True, range=allowed, implied=fill, spatial=True)


STRIDES = spatial_list("strides", POSITIVE, "Step of the window along each spatial axis.", 1)
PADS_BEGIN = spatial_list(
    "pads_begin", NON_NEGATIVE, "Zeros added before the first element of each spatial axis; ignored with auto_pad.", 0
)
PADS_END = spatial_list(
    "pads_end", NON_NEGATIVE, "Zeros added after the last element of each spatial axis; ignored with auto_pad.", 0
)
DILATIONS = spatial_list(
    "dilations", POSITIVE, "Distance between kernel elements along each spatial axis; 1 is dense.", 1
)
AUTO_PAD = Attribute(
    "auto_pad",
    "str",
    "Computes the padding: same_upper and same_lower pad so that there are ceil(size / stride) positions, same_upper "
    "with an odd element at the end, same_lower at the beginning; valid pads nothing; none uses pads_begin and "
    "pads_end.",
    default="none",
    values=("none", "same_upper", "same_lower", "valid"),
    aliases=AUTO_PAD_ALIASES,
)
TRANSPOSE_AUTO_PAD = replace(
    AUTO_PAD,
    doc="Computes the padding: same_upper and same_lower pad so that dst has size * stride elements, or more if the "
    "dilated kernel is shorter than the stride, as the padding is not negative; same_upper with an odd element at the "
    "end, same_lower at the beginning; valid pads nothing; none uses pads_begin and pads_end.",
)
GROUPS = Attribute(
    "groups", "s64", "Number of groups that both channel counts are divided into.", default=1, range=POSITIVE
)
DATA_FORMAT = Attribute(
    "data_format", "str", "Axis order of the activations: NXC or NCX.", default="NXC", values=("NCX", "NXC")
)
CONV_WEIGHTS = Attribute(
    "weights_format",
    "str",
    "Axis order of the weights: OIX = (out, in / groups, X), XIO = (X, in / groups, out).",
    default="XIO",
    values=("OIX", "XIO"),
)
TRANSPOSE_WEIGHTS = Attribute(
    "weights_format",
    "str",
    "Axis order of the weights: IOX = (in, out / groups, X), XOI = (X, out / groups, in).",
    default="XOI",
    values=("IOX", "XOI"),
    aliases={"OIX": "IOX", "XIO": "XOI"},
    disputed=frozenset({"OIX", "XIO"}),
)
OUTPUT_PADDING = Attribute(
    "output_padding",
    "s64[]",
    "Elements added at the end of each spatial axis of the transposed side.",
    default=Fill(0),
    range=NON_NEGATIVE,
    spatial=True,
)
DST_SHAPE = Attribute("dst_shape", "s64[]", "Shape of diff_src; an input of this name overrides it.", range=POSITIVE)
WEIGHTS_SHAPE = Attribute(
    "weights_shape", "s64[]", "Shape of diff_weights; an input of this name overrides it.", range=POSITIVE
)

WINDOW = (STRIDES, PADS_BEGIN, PADS_END, DILATIONS, AUTO_PAD)
TRANSPOSE_WINDOW = (STRIDES, PADS_BEGIN, PADS_END, DILATIONS, TRANSPOSE_AUTO_PAD)
SHAPE_NOTE = "The library never compiles this op with its shape given as a tensor; onegraph passes the attribute."
EXPLICIT_NOTE = "The library's auto_pad is wrong for some sizes of this op; onegraph passes explicit padding."
GROUPS_NOTE = "The library never compiles this op with groups > 1; onegraph passes an equal ConvTranspose."
DILATIONS_NOTE = "The library does not compile this op with dilations above 1; onegraph passes an equal Convolution."
OUTPUT_PADDING_NOTE = (
    "The library refuses output_padding for this op; onegraph checks it and does not pass it. Without it, diff_dst has "
    "any size that the window maps to the other side; zeros that are given allow the smallest only."
)
RULES = (spatial_rank, spatial_list_length)
SHAPE_RULES = (channels_match, batch_match, spatial_fits)


def schema(kind: str, name: str, doc: str, **fields: object) -> Schema:
    """Schema of a convolution op, with the rules that all six ops share."""
    rules = RULES + ((shape_source, shape_length) if kind in SHAPE_SOURCE else ())
    defaults: dict[str, object] = {"category": "convolution", "types": FLOATS, "shape_rules": SHAPE_RULES}
    return Schema(kind=kind, name=name, doc=doc, rules=rules, **{**defaults, **fields})  # type: ignore[arg-type]


OPS = (
    schema(
        "Convolution",
        "convolution",
        "Slides weights over src and sums the products: dst[n, o, y] = sum_ik src[n, i, y * stride + k * dilation - "
        "pads_begin] * weights[o, i, k] + bias[o].",
        inputs=ports("src:T weights:T bias:T?"),
        outputs=ports("dst:T"),
        attributes=(*WINDOW, GROUPS, DATA_FORMAT, CONV_WEIGHTS),
        shape_rules=(*SHAPE_RULES, likely_layout),
        shape=narrow_shape,
        traits=Trait.BY_ROW | Trait.PRODUCT,
    ),
    schema(
        "ConvolutionBackwardData",
        "convolution_backward_data",
        "Gradient of Convolution with respect to src. Several shapes of src give the same shape of diff_dst; dst_shape "
        "selects one as the shape of diff_src, and a nonzero output_padding must agree with it.",
        inputs=ports("diff_dst:T weights:T dst_shape:s32?"),
        outputs=ports("diff_src:T"),
        attributes=(*WINDOW, OUTPUT_PADDING, GROUPS, DATA_FORMAT, CONV_WEIGHTS, DST_SHAPE),
        notes=(
            SHAPE_NOTE,
            GROUPS_NOTE,
        ),
        shape=source_shape,
        traits=Trait.NONE,
    ),
    schema(
        "ConvolutionBackwardWeights",
        "convolution_backward_weights",
        "Gradient of Convolution with respect to weights.",
        inputs=ports("src:T diff_dst:T weights_shape:s32?"),
        outputs=ports("diff_weights:T"),
        attributes=(*WINDOW, GROUPS, DATA_FORMAT, CONV_WEIGHTS, WEIGHTS_SHAPE),
        notes=(SHAPE_NOTE,),
        shape=source_shape,
        traits=Trait.NONE,
    ),
    schema(
        "ConvTranspose",
        "conv_transpose",
        "Transposed convolution, the gradient of Convolution with respect to its source: for every element of src, the "
        "element times the kernel is added to dst, at positions that are stride elements apart.",
        inputs=ports("src:T weights:T bias:T?"),
        outputs=ports("dst:T"),
        attributes=(*TRANSPOSE_WINDOW, OUTPUT_PADDING, GROUPS, DATA_FORMAT, TRANSPOSE_WEIGHTS),
        shape=wide_shape,
        traits=Trait.BY_ROW | Trait.PRODUCT,
    ),
    schema(
        "ConvTransposeBackwardData",
        "conv_transpose_backward_data",
        "Gradient of ConvTranspose with respect to src: a Convolution of diff_dst. output_padding, if given, must be "
        "the one with which ConvTranspose computes the shape of diff_dst from the shape of diff_src.",
        inputs=ports("diff_dst:T weights:T"),
        outputs=ports("diff_src:T"),
        attributes=(*TRANSPOSE_WINDOW, OUTPUT_PADDING, GROUPS, DATA_FORMAT, TRANSPOSE_WEIGHTS),
        notes=(
            OUTPUT_PADDING_NOTE,
            DILATIONS_NOTE,
        ),
        shape_rules=(*SHAPE_RULES, padding_left_out),
        shape=narrow_shape,
        traits=Trait.NONE,
    ),
    schema(
        "ConvTransposeBackwardWeights",
        "conv_transpose_backward_weights",
        "Gradient of ConvTranspose with respect to weights. output_padding, if given, must be the one with which "
        "ConvTranspose computes the shape of diff_dst from the shape of src.",
        inputs=ports("src:T diff_dst:T weights_shape:s32?"),
        outputs=ports("diff_weights:T"),
        attributes=(*TRANSPOSE_WINDOW, OUTPUT_PADDING, GROUPS, DATA_FORMAT, TRANSPOSE_WEIGHTS, WEIGHTS_SHAPE),
        notes=(
            EXPLICIT_NOTE,
            OUTPUT_PADDING_NOTE,
            SHAPE_NOTE,
        ),
        shape_rules=(*SHAPE_RULES, padding_left_out),
        shape=source_shape,
        traits=Trait.NONE,
    ),
)
