"""Defines the binary category: ops of two or three tensors with broadcasting, and the bias and slope ops."""

from __future__ import annotations

from collections.abc import Iterable

from ..schema import Call, RuleFinding, Schema
from ..shapes import broadcast, compatible, show
from ..signature import FLOATS, Attribute, Shape, ports, rows
from ..traits import Trait
from ..window import channel_axis, channels

AUTO_BROADCAST = Attribute(
    "auto_broadcast",
    "str",
    "numpy: shapes are broadcast as in numpy; none: shapes must be equal.",
    default="numpy",
    values=("none", "numpy"),
)
DATA_FORMAT = Attribute("data_format", "str", "Axis order: NXC or NCX.", default="NXC", values=("NCX", "NXC"))
MIXED = ("f32 bf16 f32 @3.8", "f32 f16 f32 @3.8", "bf16 f32 f32 @3.8", "f16 f32 f32 @3.8")


def broadcastable(call: Call) -> Iterable[RuleFinding]:
    """The shapes of the two sources can be broadcast, or are equal if auto_broadcast is none."""
    first, second = call.shape("src_0"), call.shape("src_1")
    if call.string("auto_broadcast") == "none":
        if not compatible(first, second):
            yield RuleFinding("src_1", f"shape {show(second)}", f"shape {show(first)}, as auto_broadcast is none")
        return
    try:
        broadcast(first, second)
    except ValueError:
        yield RuleFinding("src_1", f"shape {show(second)}", f"a shape that broadcasts with {show(first)} of src_0")


def condition_fits(call: Call) -> Iterable[RuleFinding]:
    """The condition can be broadcast to the sources, or has their shape if auto_broadcast is none."""
    condition = call.shape("cond")
    if call.string("auto_broadcast") == "none":
        if not compatible(condition, source := call.shape("src_0")):
            yield RuleFinding("cond", f"shape {show(condition)}", f"shape {show(source)}, as auto_broadcast is none")
        return
    try:
        target = binary_shape(call)[0]
    except ValueError:
        return  # broadcastable reports sources that do not fit each other
    try:
        result = broadcast(condition, target)
    except ValueError:
        result = ()
    if not compatible(result, target):
        yield RuleFinding("cond", f"shape {show(condition)}", f"a shape that broadcasts to {show(target)}")


def binary_shape(call: Call) -> tuple[Shape, ...]:
    """The broadcast shape of the two sources."""
    return (broadcast(call.shape("src_0"), call.shape("src_1")),)


def bias_length(call: Call) -> Iterable[RuleFinding]:
    """The bias has one element for each channel."""
    shape, bias = call.shape("src"), call.shape("bias")
    if shape is not None and len(shape) < 2:
        yield RuleFinding("src", f"shape {show(shape)}", "at least two axes: batch and channels")
    elif bias is not None:
        channel = None if shape is None else channels(shape, call.string("data_format"))
        if not compatible(bias, (channel,)):
            yield RuleFinding("bias", f"shape {show(bias)}", f"shape {show((channel,))}, one element for each channel")


def has_channels(call: Call) -> Iterable[RuleFinding]:
    """The gradient has a batch and a channel axis."""
    shape = call.shape("diff_dst")
    if shape is not None and len(shape) < 2:
        yield RuleFinding("diff_dst", f"shape {show(shape)}", "at least two axes: batch and channels")


def channel_vector(call: Call) -> tuple[Shape, ...]:
    """One element for each channel of the first input."""
    shape = call.shape("diff_dst")
    return ((None if shape is None else channels(shape, call.string("data_format")),),)


def axes_but_channels(call: Call) -> tuple[int, ...]:
    """The axes that BiasAddBackward sums over."""
    rank = call.rank("diff_dst") or 0
    channel = channel_axis(rank, call.string("data_format"))
    return tuple(axis for axis in range(rank) if axis != channel)


def slope_fits(call: Call) -> Iterable[RuleFinding]:
    """The slope broadcasts to the source; with per_channel_broadcast a vector has one element for each channel."""
    shape, slope = call.shape("src"), call.shape("slope")
    if shape is None or slope is None:
        return
    if not _fits(slope, shape, call):
        yield RuleFinding("slope", f"shape {show(slope)}", f"a shape that broadcasts to {show(shape)} of src")


def slope_target(call: Call, slope: Shape, shape: Shape) -> Shape:
    """The slope's shape padded with 1 to the rank of src; a per-channel vector is placed on the channel axis."""
    assert slope is not None
    assert shape is not None
    per_channel = not call.schema.has_attribute("per_channel_broadcast") or call.flag("per_channel_broadcast")
    if len(slope) == 1 and per_channel and len(shape) > 1 and call.string("data_format") == "NCX":
        return (1, slope[0], *(1,) * (len(shape) - 2))
    return (1,) * (len(shape) - len(slope)) + slope


def _fits(slope: Shape, shape: Shape, call: Call) -> bool:
    target = slope_target(call, slope, shape)
    try:
        return compatible(broadcast(target, shape), shape)
    except ValueError:
        return False


def gradient_alike(call: Call) -> Iterable[RuleFinding]:
    """diff_dst has the shape of src."""
    if not compatible(call.shape("src"), call.shape("diff_dst")):
        yield RuleFinding("diff_dst", f"shape {show(call.shape('diff_dst'))}", f"shape {show(call.shape('src'))}")


def binary(kind: str, name: str, doc: str, *lines: str, traits: Trait = Trait.NONE) -> Schema:
    """Schema of an op of two sources of the same data type; ``lines`` adds rows to its type table."""
    return Schema(
        kind,
        name,
        "binary",
        doc,
        ports("src_0:T1 src_1:T2"),
        ports("dst:T3"),
        rows("T1 T2 T3", "f32 f32 f32", "bf16 bf16 bf16", "f16 f16 f16", *lines),
        binary_shape,
        (AUTO_BROADCAST,),
        shape_rules=(broadcastable,),
        traits=Trait.POINTWISE | Trait.ARITHMETIC | traits,
    )


OPS = (
    binary("Add", "add", "dst = src_0 + src_1", *MIXED, "s32 s32 s32 @3.9", traits=Trait.COMMUTATIVE | Trait.ADDS),
    binary("Divide", "divide", "dst = src_0 / src_1", *MIXED),
    binary("Maximum", "maximum", "dst = max(src_0, src_1)", traits=Trait.COMMUTATIVE | Trait.BOUNDED),
    binary("Minimum", "minimum", "dst = min(src_0, src_1)", traits=Trait.COMMUTATIVE | Trait.BOUNDED),
    binary("Multiply", "multiply", "dst = src_0 * src_1", *MIXED, traits=Trait.COMMUTATIVE),
    binary("SquaredDifference", "squared_difference", "dst = (src_0 - src_1) ** 2", traits=Trait.COMMUTATIVE),
    binary("Subtract", "subtract", "dst = src_0 - src_1", *MIXED, "s32 s32 s32 @3.9", traits=Trait.ADDS),
    Schema(
        "GreaterEqual",
        "greater_equal",
        "binary",
        "dst = src_0 >= src_1",
        ports("src_0:T src_1:T"),
        ports("dst:boolean"),
        rows("T", "f32", "bf16", "f16", "s32"),
        binary_shape,
        (AUTO_BROADCAST,),
        shape_rules=(broadcastable,),
        since=(3, 7),
        traits=Trait.POINTWISE,
    ),
    Schema(
        "Select",
        "select",
        "binary",
        "dst = src_0 where cond holds, else src_1",
        ports("cond:boolean src_0:T src_1:T"),
        ports("dst:T"),
        FLOATS,
        binary_shape,
        (AUTO_BROADCAST,),
        shape_rules=(broadcastable, condition_fits),
        since=(3, 2),
        traits=Trait.POINTWISE | Trait.BOUNDED,
    ),
    Schema(
        "BiasAdd",
        "bias_add",
        "binary",
        "dst = src + bias, one element of bias for each channel",
        ports("src:T bias:T"),
        ports("dst:T"),
        FLOATS,
        lambda call: (call.shape("src"),),
        (DATA_FORMAT,),
        shape_rules=(bias_length,),
        traits=Trait.PER_CHANNEL | Trait.BY_ROW | Trait.ADDS,
    ),
    Schema(
        "BiasAddBackward",
        "bias_add_backward",
        "binary",
        "diff_bias = the sum of diff_dst over every axis but the channels",
        ports("diff_dst:T"),
        ports("diff_bias:T"),
        FLOATS,
        channel_vector,
        (DATA_FORMAT,),
        shape_rules=(has_channels,),
        traits=Trait.PER_CHANNEL | Trait.SUMS,
    ),
    Schema(
        "PReLU",
        "prelu",
        "binary",
        "dst = src where src > 0, else slope * src",
        ports("src:T slope:T"),
        ports("dst:T"),
        FLOATS,
        lambda call: (call.shape("src"),),
        (
            DATA_FORMAT,
            Attribute(
                "per_channel_broadcast",
                "bool",
                "True: a slope vector has one element for each channel; False: it is broadcast as in numpy.",
                default=True,
            ),
        ),
        shape_rules=(slope_fits,),
        traits=Trait.PER_CHANNEL,
    ),
    Schema(
        "PReLUBackward",
        "prelu_backward",
        "binary",
        "Gradients of PReLU: diff_src = diff_dst where src > 0, else slope * diff_dst; diff_slope is the sum of "
        "diff_dst * src over the negative elements of src that share a slope.",
        ports("src:T slope:T diff_dst:T"),
        ports("diff_src:T diff_slope:T"),
        FLOATS,
        lambda call: (call.shape("src"), call.shape("slope")),
        (DATA_FORMAT,),
        shape_rules=(slope_fits, gradient_alike),
        traits=Trait.PER_CHANNEL,
    ),
)
