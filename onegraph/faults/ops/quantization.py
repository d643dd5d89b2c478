"""What oneDNN gets wrong of quantization."""

from __future__ import annotations

from math import prod

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.dtypes import DataType
from ...opset.schema import Call
from ...opset.shapes import dense_strides, known_dims
from ..fault import LIBRARY, UNSAFE, Faults

FAULTS = Faults[Call](severity=UNSAFE)
_STATIC = "Quantize Dequantize"
_DYNAMIC = "DynamicQuantize DynamicDequantize"
_ACROSS = {"scales": [0.1, 0.2, 0.3], "zps": [0, 0, 0], "qtype": "per_channel", "axis": 1}


def per_channel(call: Call) -> bool:
    """Whether a quantization has a scale for each channel."""
    return call.string("qtype") == "per_channel"


# Static --------------------------------------------------------------------------------------------------------------


def _several_scales(call: Call) -> bool:
    """Whether a quantization has scales that may differ."""
    if call.schema.kind in _STATIC.split():
        return len(set(call.f32s("scales"))) > 1
    return call.shape("scales") != (1,)


NEGATIVE_AXIS = FAULTS.add(
    "negative_axis",
    ops=f"{_STATIC} {_DYNAMIC}",
    where="axis",
    when=lambda call: (
        per_channel(call) and (call.s64("axis") == -1 or (call.s64("axis") < 0 and _several_scales(call)))
    ),
    seen={(3, 2): "throws could not set scales"},
    reason="axis -1 throws at compile, and with another negative axis the first scale is taken for all; count it from "
    "0",
    instead="the same op with an axis that is counted from 0",
)


@NEGATIVE_AXIS.example()
def quantize_along_axis_minus_1(g: DataGraph) -> LogicalTensor:
    return g.op("Quantize", [g.input("x", "f32", (2, 3))], {**_ACROSS, "axis": -1}, dtype="u8")


@NEGATIVE_AXIS.example()
def dequantize_along_axis_minus_1(g: DataGraph) -> LogicalTensor:
    return g.op("Dequantize", [g.input("x", "u8", (2, 3))], {**_ACROSS, "axis": -1})


DIFFERING_ZERO_POINTS = FAULTS.add(
    "differing_zero_points",
    ops=_STATIC,
    where="zps",
    when=lambda call: call.has("zps") and len(set(call.s64s("zps"))) > 1,
    seen={(3, 2): "wrong", (3, 13): "refuses partition_compile: unimplemented"},
    reason="only the first of several zero points is used",
    instead="one op for each zero point, or numpy",
    mended=(3, 13),  # channel_zero_point holds from there on
)


@DIFFERING_ZERO_POINTS.example()
def quantize_with_differing_zero_points(g: DataGraph) -> LogicalTensor:
    attrs = {**_ACROSS, "scales": [0.1] * 3, "zps": [0, 40, 80]}
    return g.op("Quantize", [g.input("x", "f32", (1, 3))], attrs, dtype="u8")


@DIFFERING_ZERO_POINTS.example()
def dequantize_with_differing_zero_points(g: DataGraph) -> LogicalTensor:
    return g.op("Dequantize", [g.input("x", "u8", (1, 3))], {**_ACROSS, "scales": [1.0] * 3, "zps": [0, 40, 80]})


CHANNEL_ZERO_POINT = FAULTS.add(
    "channel_zero_point",
    ops=_STATIC,
    where="zps",
    severity=LIBRARY,
    when=lambda call: per_channel(call) and call.has("zps") and any(call.s64s("zps")),
    seen={(3, 2): "right", (3, 6): "right", (3, 13): "refuses partition_compile: unimplemented"},
    reason="a zero point beside scales for each channel never compiles",
    instead="other ops, or numpy",
)


@CHANNEL_ZERO_POINT.example()
def one_zero_point_beside_several_scales(g: DataGraph) -> LogicalTensor:
    return g.op("Dequantize", [g.input("x", "u8", (2, 3))], {**_ACROSS, "zps": [5, 5, 5]})


WIDE_ZERO_POINT = FAULTS.add(
    "wide_zero_point",
    ops=_STATIC,
    where="zps",
    when=lambda call: (
        call.has("zps") and bool(zps := call.s64s("zps")) and not -(2**31) <= min(zps) <= max(zps) < 2**31
    ),
    seen={(3, 2): "wrong"},
    reason="a zero point is cut to 32 bits",
    instead="numpy",
)


@WIDE_ZERO_POINT.example()
def zero_point_of_2_to_the_31(g: DataGraph) -> LogicalTensor:
    return g.op("Dequantize", [g.input("x", "u8", (2, 3))], {"scales": [0.5], "zps": [2**31]})


@WIDE_ZERO_POINT.example()
def zero_point_of_2_to_the_40(g: DataGraph) -> LogicalTensor:
    return g.op("Dequantize", [g.input("x", "u8", (2, 3))], {"scales": [0.5], "zps": [2**40]})


TINY_SCALE = FAULTS.add(
    "tiny_scale",
    ops="Quantize",
    where="scales",
    when=lambda call: any(0 < abs(scale) <= 2.0**-128 for scale in call.f32s("scales")),
    seen={(3, 2): "wrong"},
    reason="if the reciprocal of a scale overflows in f32, 0 is quantized to another number than the zero point",
    instead="numpy",
)


@TINY_SCALE.example()
def scale_of_1e_minus_40(g: DataGraph) -> LogicalTensor:
    x = g.relu(g.input("x", "f32", (2, 3)))
    return g.op("Quantize", [x], {"scales": [1e-40], "zps": [0]}, dtype="s8")


# Dynamic -------------------------------------------------------------------------------------------------------------

DYNAMIC_ZERO_POINTS = FAULTS.add(
    "dynamic_zero_points",
    ops=_DYNAMIC,
    where="zps",
    severity=LIBRARY,
    when=lambda call: per_channel(call) and call.input("zps") is not None and call.shape("zps") != (1,),
    seen={(3, 2): "throws could not execute", (3, 13): "refuses partition_compile: unimplemented"},
    reason="zero points for each of several channels are refused at compile or execute",
    instead="other ops, or numpy",
)
_DYNAMIC_ACROSS = {"qtype": "per_channel", "axis": 1}


DYNAMIC_ZERO_POINT = FAULTS.add(
    "dynamic_zero_point",
    ops=_DYNAMIC,
    where="zps",
    severity=LIBRARY,
    when=lambda call: per_channel(call) and call.shape("zps") == (1,),
    seen={(3, 2): "right", (3, 6): "right", (3, 13): "refuses partition_compile: unimplemented"},
    reason="a zero point of a single channel is refused, too",
    instead="the same op with per_tensor",
)


@DYNAMIC_ZERO_POINT.example()
def dynamic_dequantize_of_one_channel(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "u8", (2, 1)), g.input("s", "f32", (1,)), g.input("z", "s32", (1,))
    return g.op("DynamicDequantize", ends, _DYNAMIC_ACROSS)


def refused_groups(call: Call) -> bool:
    """Whether groups go along other axes than the last two."""
    src, groups = call.input("src"), call.attr("group_shape")
    if call.string("qtype") != "per_group" or src is None or src.shape is None or not isinstance(groups, tuple):
        return False
    return len(src.shape) < 2 or any(size != 1 for size in groups[:-2])


GROUPS = FAULTS.add(
    "quantization_groups",
    ops="DynamicDequantize",
    where="group_shape",
    when=refused_groups,
    seen={(3, 2): "absent", (3, 13): "throws | refuses partition_compile: invalid_arguments | SIGSEGV"},
    reason="groups along other axes than the last two are refused; a scalar ends in a signal",
    instead="numpy",
    since=(3, 3),
)


@GROUPS.example({(3, 2): "absent", (3, 13): "refuses partition_compile: invalid_arguments"})
def groups_along_the_first_of_three_axes(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "u4", (4, 2, 2)), g.input("s", "f32", (2, 2, 2))
    return g.op("DynamicDequantize", ends, {"qtype": "per_group", "group_shape": [2, 1, 1]})


def half_bytes(call: Call) -> tuple[int, ...]:
    """The dims of a src with 4 bits in an element; empty for another data type, and where a dim is unknown."""
    src = call.input("src")
    shape = None if src is None or src.dtype not in (DataType.s4, DataType.u4) else src.shape
    return () if shape is None or None in shape else known_dims(shape)


ODD_HALVES = FAULTS.add(
    "odd_half_bytes",
    ops="DynamicDequantize",
    where="src",
    when=lambda call: half_bytes(call) != () and prod(half_bytes(call)) % 2 == 1,
    seen={(3, 2): "absent", (3, 6): "absent", (3, 7): "throws", (3, 13): "throws"},
    reason="an odd number of elements of 4 bits is refused",
    instead="numpy",
)


@ODD_HALVES.example()
def three_halves_of_a_byte(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "u4", (1, 3)), g.input("s", "f32", (1, 3))
    return g.op("DynamicDequantize", ends, {"qtype": "per_group", "group_shape": [1, 1]})


ODD_ROWS = FAULTS.add(
    "odd_rows_of_half_bytes",
    ops="DynamicDequantize",
    where="src",
    when=lambda call: any(stride > 1 and stride % 2 for stride in dense_strides(half_bytes(call))),
    seen={(3, 2): "absent", (3, 7): "right", (3, 9): "right", (3, 13): "throws"},
    reason="a stride of an odd number of elements of 4 bits is refused",
    instead="numpy",
    since=(3, 13),
)


@ODD_ROWS.example()
def rows_of_three_halves_of_a_byte(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "u4", (4, 3)), g.input("s", "f32", (4, 3))
    return g.op("DynamicDequantize", ends, {"qtype": "per_group", "group_shape": [1, 1]})


@DYNAMIC_ZERO_POINTS.example()
def dynamic_quantize_across_with_zero_points(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (2, 3)), g.input("s", "f32", (3,)), g.input("z", "s32", (3,))
    return g.op("DynamicQuantize", ends, _DYNAMIC_ACROSS, dtype="u8")


@DYNAMIC_ZERO_POINTS.example()
def dynamic_dequantize_across_with_zero_points(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "u8", (2, 3)), g.input("s", "f32", (3,)), g.input("z", "s32", (3,))
    return g.op("DynamicDequantize", ends, _DYNAMIC_ACROSS)


def one_narrow_scale(call: Call) -> bool:
    """Whether all is multiplied by one scale, which is not f32; of a single channel too."""
    scales = call.input("scales")
    if scales is None or scales.dtype is DataType.f32:
        return False
    return call.string("qtype") == "per_tensor" or (scales.shape is not None and set(scales.shape) <= {1})


NARROW_SCALE = FAULTS.add(
    "narrow_scale",
    ops="DynamicDequantize",
    where="scales",
    when=one_narrow_scale,
    seen={(3, 2): "absent", (3, 7): "right", (3, 9): "right", (3, 11): "wrong", (3, 13): "wrong"},
    reason="one scale of bf16 or f16 is read as f32",
    instead="the same op with a scale of f32, and a cast",
)


@NARROW_SCALE.example({(3, 2): "absent", (3, 7): "right", (3, 11): "SIGSEGV", (3, 13): "SIGSEGV"})
def one_scale_of_bf16(g: DataGraph) -> LogicalTensor:
    return g.op("DynamicDequantize", [g.input("x", "u8", (3, 4)), g.input("s", "bf16", (1,))])


_UNMADE = "throws could not create a primitive"
HALF_OF_U8 = FAULTS.add(
    "half_of_u8",
    ops="DynamicDequantize",
    where="src",
    severity=LIBRARY,
    when=lambda call: [tensor.dtype for tensor in call.inputs[:2] if tensor] == [DataType.u8, DataType.f16],
    seen={(3, 2): "absent", (3, 7): _UNMADE, (3, 13): _UNMADE},
    reason="u8 and scales of f16 throw at compile",
    instead="the same op with scales of f32, and a cast",
)


@HALF_OF_U8.example()
def codes_of_u8_and_scales_of_f16(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "u8", (3, 4)), g.input("s", "f16", (4,))
    return g.op("DynamicDequantize", ends, {"qtype": "per_channel", "axis": 1})


def _has_other_ranks(call: Call) -> bool:
    """Whether scales or zero points are no vectors, and not one for each group."""
    is_grouped = call.string("qtype") == "per_group"
    return not is_grouped and any(call.rank(name) not in (None, 1) for name in ("scales", "zps"))


DYNAMIC_PARAMETER_RANK = FAULTS.add(
    "dynamic_parameter_rank",
    ops=_DYNAMIC,
    where="scales",
    severity=LIBRARY,
    when=_has_other_ranks,
    seen={(3, 2): "refuses | throws"},
    reason="scales and zero points of another rank than 1 are refused, or throw at execute",
    instead="the same op with vectors",
)


@DYNAMIC_PARAMETER_RANK.example({(3, 2): "right"})
def scale_without_axes(g: DataGraph) -> LogicalTensor:
    return g.op("DynamicDequantize", [g.input("x", "u8", (3, 4)), g.input("s", "f32", ())])


@DYNAMIC_PARAMETER_RANK.example({(3, 2): "refuses | throws", (3, 6): "right"})
def scale_of_two_axes(g: DataGraph) -> LogicalTensor:
    return g.op("DynamicDequantize", [g.input("x", "u8", (3, 4)), g.input("s", "f32", (1, 1))])
