"""Defines the quantization category: from floats to small integers or 8-bit floats and back, and TypeCast."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ..._util.counted import counted
from ..dtypes import DataType
from ..schema import Call, RuleFinding, Schema, same_shape
from ..shapes import Dim, axis_of, compatible, dim_at, normalize_axis, show
from ..signature import POSITIVE, Attribute, Shape, ports, rows
from ..traits import Trait
from .movement import elements

QTYPE = Attribute(
    "qtype",
    "str",
    "per_tensor: one scale for all elements; per_channel: one scale for each index along axis.",
    default="per_tensor",
    values=("per_tensor", "per_channel"),
)
# The value per_group was added in 3.7 together with the attribute group_shape, which it needs.
GROUP_QTYPE = Attribute(
    "qtype",
    "str",
    "per_tensor: one scale for all elements; per_channel: one scale for each index along axis; per_group: one scale "
    "for each block of group_shape.",
    default="per_tensor",
    values=("per_tensor", "per_channel", "per_group"),
)
AXIS = Attribute("axis", "s64", "Axis of the channels, negative counted from the end; per_channel only.", default=1)
SCALES = Attribute("scales", "f32[]", "Size of one quantization step: one, or one for each channel.", required=True)
# Required in the editions before 3.4.
ZPS = Attribute("zps", "s64[]", "Zero points: the quantized values of 0, as many as scales; 0 if not given.")
GROUP_SHAPE = Attribute(
    "group_shape",
    "s64[]",
    "Size along each axis of src of a block that shares one scale; per_group only.",
    range=POSITIVE,
    since=(3, 7),
)


def _count(call: Call, name: str) -> Dim:
    """Number of scales or of zero points; None if unknown."""
    if call.schema.has_attribute(name):
        return len(call.f32s(name))
    shape = call.shape(name)
    return None if shape is None else elements(shape)


def channel_axis(call: Call) -> Iterable[RuleFinding]:
    """With per_channel, axis is an axis of src."""
    rank, axis = call.rank("src"), call.s64("axis")
    if call.string("qtype") == "per_channel" and rank is not None and normalize_axis(axis, rank) is None:
        yield RuleFinding("axis", axis, axis_of(rank, "src"))


def scale_count(call: Call) -> Iterable[RuleFinding]:
    """There is one scale with per_tensor, and one for each channel with per_channel."""
    count, wanted = _count(call, "scales"), _channels(call)
    if count is None or wanted is None or count == wanted:
        return
    if call.string("qtype") == "per_tensor":
        fix = "set qtype to per_channel" if _has_channels(call, count) else ""
        yield RuleFinding("scales", counted(count, "scale"), "1 scale, as qtype is per_tensor", fix)
    else:
        yield RuleFinding("scales", counted(count, "scale"), _scales(wanted, call.s64("axis")))


def _scales(count: int, axis: int) -> str:
    return f"{counted(count, 'scale')}, one for each index along axis {axis}"


def scale_axis(call: Call, shape: Shape, count: int) -> int:
    """The axis of src that ``count`` scales belong to; the axis attribute, except for one mistake in files of oneDNN.

    In these files src of a Dequantize has shape (channels, 1, ...) and holds the weights of a depthwise ConvTranspose.
    The files give axis 1, but the scales belong to axis 0. Source: oneDNN 3.2,
    tests/benchdnn/inputs/graph/pattern/int8/int8_convtranspose_post_ops_add_fusion.json.
    """
    axis = call.s64("axis")
    if call.string("qtype") != "per_channel" or shape is None or len(shape) < 3:
        return axis
    return 0 if axis == 1 != count and shape[:2] == (count, 1) else axis


def misplaced_scales(call: Call) -> Iterable[RuleFinding]:
    """The findings of ``scale_count``, unless ``scale_axis`` assigns the scales to another axis."""
    if scale_axis(call, call.shape("src"), len(call.f32s("scales"))) == call.s64("axis"):
        yield from scale_count(call)


def fit_channels(scales: Sequence[float], zps: Sequence[int], count: int) -> tuple[list[float], list[int]]:
    """Fit scales and zero points to ``count`` channels: scales are repeated, zero points are extended with 0.

    Without scales the result has no scales. Source: oneDNN 3.13, tests/benchdnn/graph/flex_rewrite.cpp,
    quantized_graph_rewrite.
    """
    repeats = -(-count // max(len(scales), 1))
    return ([*scales] * repeats)[:count], [*zps, *[0] * count][:count]


def _channels(call: Call) -> Dim:
    """Number of scales that qtype needs; None if unknown or if another rule checks it."""
    qtype, shape = call.string("qtype"), call.shape("src")
    if qtype != "per_channel" or shape is None:
        return 1 if qtype == "per_tensor" else None
    return dim_at(shape, call.s64("axis"))


def _has_channels(call: Call, count: int) -> bool:
    """Whether src may have ``count`` elements along axis."""
    shape = call.shape("src")
    axis = None if shape is None else normalize_axis(call.s64("axis"), len(shape))
    return shape is None or (axis is not None and shape[axis] in (None, count))


def zero_point_count(call: Call) -> Iterable[RuleFinding]:
    """There are no zero points, or as many as scales."""
    static = call.schema.has_attribute("zps")
    if call.string("qtype") == "per_group" or not (call.has("zps") if static else call.input("zps") is not None):
        return
    scales, zps = _count(call, "scales"), _count(call, "zps")
    if scales is None:
        scales = _channels(call)
    if scales is not None and zps is not None and scales != zps:
        yield RuleFinding("zps", counted(zps, "zero point"), f"{scales}, as many as scales")


def parameter_vectors(call: Call) -> Iterable[RuleFinding]:
    """Scales and zero points are tensors of rank 1."""
    for name in ("scales", "zps"):
        if call.rank(name) not in (None, 1):
            yield RuleFinding(name, f"shape {show(call.shape(name))}", "a tensor of rank 1")


def no_zero_points(call: Call) -> Iterable[RuleFinding]:
    """8-bit floats have no zero point."""
    src = call.input("src")
    for port, dtype in (("src", None if src is None else src.dtype), ("dst", call.output_type(0))):
        if dtype in (DataType.f8_e4m3, DataType.f8_e5m2) and call.has("zps"):
            yield RuleFinding("zps", list(call.s64s("zps")), f"no zps, as {port} is {dtype}", "leave zps out")


def sensible_parameters(call: Call) -> Iterable[RuleFinding]:
    """A note if a scale is not positive and finite, or if the quantized type cannot hold a zero point."""
    scales = call.f32s("scales")
    if scales and not 0 < min(scales) <= max(scales) < math.inf:
        yield RuleFinding(
            "scales", list(scales), "positive and finite scales, though the texts ask for none", note=True
        )
    src = call.input("src")
    dtype = call.output_type(0) if call.schema.kind == "Quantize" else None if src is None else src.dtype
    if dtype in (DataType.s8, DataType.u8) and call.has("zps"):
        low, zps = -128 if dtype is DataType.s8 else 0, call.s64s("zps")
        if zps and not low <= min(zps) <= max(zps) <= low + 255:
            expected = f"zero points that {dtype} holds, {low} to {low + 255}, though the texts ask for none"
            yield RuleFinding("zps", list(zps), expected, note=True)


def group_shape_fits(call: Call) -> Iterable[RuleFinding]:
    """With per_group, group_shape divides the shape of src, and each block has one scale and one zero point."""
    if call.string("qtype") != "per_group":
        return
    if not call.has("group_shape"):
        yield RuleFinding("group_shape", "missing", "the shape of a group, as qtype is per_group")
        return
    group, shape = call.s64s("group_shape"), call.shape("src")
    if shape is not None and len(group) != len(shape):
        yield RuleFinding("group_shape", list(group), f"{counted(len(shape), 'element')}, one for each axis of src")
        return
    dims = (None,) * len(group) if shape is None else shape
    if any(dim is not None and dim % size for dim, size in zip(dims, group, strict=True)):
        yield RuleFinding("group_shape", list(group), f"sizes that divide {show(shape)} of src")
        return
    blocks = tuple(None if dim is None else dim // size for dim, size in zip(dims, group, strict=True))
    for name in ("scales", "zps"):
        if not compatible(call.shape(name), blocks):
            yield RuleFinding(
                name, f"shape {show(call.shape(name))}", f"shape {show(blocks)}, one element for each group"
            )


STATIC = (QTYPE, AXIS, SCALES, ZPS)
STATIC_RULES = (channel_axis, scale_count, zero_point_count, no_zero_points, sensible_parameters)

OPS = (
    Schema(
        "Quantize",
        "quantize",
        "quantization",
        "dst = src / scale + zp, rounded to the nearest and saturated to the type of dst; 8-bit floats have no zps.",
        ports("src:f32"),
        ports("dst:T"),
        rows("T", "s8|u8", "f8_e4m3|f8_e5m2 @3.4"),
        same_shape,
        STATIC,
        rules=STATIC_RULES,
        traits=Trait.QUANTIZES | Trait.JUMPS,
    ),
    Schema(
        "Dequantize",
        "dequantize",
        "quantization",
        "dst = (src - zp) * scale; 8-bit floats have no zps.",
        ports("src:T"),
        ports("dst:f32"),
        rows("T", "s8|u8", "f8_e4m3|f8_e5m2 @3.4"),
        same_shape,
        STATIC,
        rules=STATIC_RULES,
        traits=Trait.DEQUANTIZES,
    ),
    Schema(
        "DynamicQuantize",
        "dynamic_quantize",
        "quantization",
        "dst = src / scales + zps, rounded to the nearest and saturated to the type of dst.",
        ports("src:f32 scales:f32 zps:T1?"),
        ports("dst:T2"),
        rows("T1 T2", "s8|u8|s32 s8|u8"),
        same_shape,
        (QTYPE, AXIS),
        rules=(channel_axis, parameter_vectors),
        shape_rules=(scale_count, zero_point_count),
        traits=Trait.QUANTIZES | Trait.JUMPS,
    ),
    Schema(
        "DynamicDequantize",
        "dynamic_dequantize",
        "quantization",
        "dst = (src - zps) * scales; with per_group each block of group_shape has its own scale and zero point.",
        ports("src:T1 scales:T2 zps:T3?"),
        ports("dst:T2"),
        rows(
            "T1 T2 T3",
            "s8|u8 f32 s8|u8|s32",
            "s8|u8 f16|bf16 s8|u8|s32 @3.7",
            "s4|u4 f16|bf16|f32 s4|u4|s32 @3.7",
        ),
        same_shape,
        (GROUP_QTYPE, AXIS, GROUP_SHAPE),
        rules=(channel_axis, group_shape_fits),
        shape_rules=(scale_count, zero_point_count),
        traits=Trait.DEQUANTIZES,
    ),
    Schema(
        "TypeCast",
        "type_cast",
        "quantization",
        "dst = src converted to another float type, rounded to the nearest, halves to even.",
        ports("src:T1"),
        ports("dst:T2"),
        rows("T1 T2", "bf16|f16 f32", "f32 bf16|f16"),
        same_shape,
        traits=Trait.POINTWISE | Trait.BOUNDED | Trait.CASTS,
    ),
)
