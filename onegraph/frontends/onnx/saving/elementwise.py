"""Writes the ops that compute element by element, and their gradients."""

from __future__ import annotations

from typing import Any

from ....opset.ops.binary import slope_target
from ....opset.schema import Call
from .body import NodeValue
from .table import composes, known_dims_of, rank_of, result_type, writes

# Kind of the op -> kind of the node, for ops without attributes.
PLAIN = {
    "Abs": "Abs",
    "Exp": "Exp",
    "HardSwish": "HardSwish",
    "Log": "Log",
    "Mish": "Mish",
    "ReLU": "Relu",
    "Reciprocal": "Reciprocal",
    "Round": "Round",
    "Sigmoid": "Sigmoid",
    "Sqrt": "Sqrt",
    "Tanh": "Tanh",
    "Erf-1": "Erf",
    "Negative-1": "Neg",
    "Sign-1": "Sign",
    "LogicalNot-1": "Not",
}
PAIRS = {
    "Add": "Add",
    "Divide": "Div",
    "Maximum": "Max",
    "Minimum": "Min",
    "Multiply": "Mul",
    "Subtract": "Sub",
    "LogicalAnd-1": "And",
    "LogicalOr-1": "Or",
    "LogicalXor-1": "Xor",
    "Pow-1": "Pow",
}
COMPARISONS = {
    "GreaterEqual": "GreaterOrEqual",
    "Equal-1": "Equal",
    "Greater-1": "Greater",
    "Less-1": "Less",
    "LessEqual-1": "LessOrEqual",
}
# Kind of the op -> kind of the node, for ops with the same attributes.
SCALED = {"Elu": "Elu", "HardSigmoid": "HardSigmoid", "LeakyReLU": "LeakyRelu"}


def kind_of(call: Call) -> str:
    """The kind of the op as the tables have it."""
    return call.schema.kind


@writes(*PLAIN)
def plain(call: Call, src: NodeValue) -> NodeValue:
    return src.op(PLAIN[kind_of(call)])


@writes(*SCALED)
def scaled(call: Call, src: NodeValue) -> NodeValue:
    attrs: dict[str, Any] = {attribute.name: call.f32(attribute.name) for attribute in call.schema.attributes}
    return src.op(SCALED[kind_of(call)], **attrs)


@writes(*PAIRS)
def pair(call: Call, first: NodeValue, second: NodeValue) -> NodeValue:
    wanted = result_type(call)  # inputs of two float types are computed in the type of the result
    return first.cast(wanted).op(PAIRS[kind_of(call)], second.cast(wanted))


@writes(*COMPARISONS)
def comparison(call: Call, first: NodeValue, second: NodeValue) -> NodeValue:
    return first.compare(COMPARISONS[kind_of(call)], second)


@writes("NotEqual-1")
def not_equal(call: Call, first: NodeValue, second: NodeValue) -> NodeValue:
    return first.compare("Equal", second).op("Not")


@writes("Clamp")
def clamp(call: Call, src: NodeValue) -> NodeValue:
    return src.op("Clip", call.f32("min"), call.f32("max"))


@writes("GELU")
def gelu(call: Call, src: NodeValue) -> NodeValue:
    return src.op("Gelu", approximate="tanh" if call.string("mode") == "gelu_tanh" else "none")


@writes("Pow")
def power(call: Call, src: NodeValue) -> NodeValue:
    return src.op("Pow", call.f32("beta"))


@writes("SoftPlus")
def softplus(call: Call, src: NodeValue) -> NodeValue:
    beta = call.f32("beta")
    return src.op("Softplus") if beta == 1 else (src * beta).op("Softplus") / beta


@writes("Square")
def square(call: Call, src: NodeValue) -> NodeValue:
    return src * src


@composes("SquaredDifference")
def squared_difference(call: Call, first: NodeValue, second: NodeValue) -> NodeValue:
    apart = first - second
    return apart * apart


@composes("Rsqrt-1")
def rsqrt(call: Call, src: NodeValue) -> NodeValue:
    return src.op("Sqrt").op("Reciprocal")


@writes("Select")
def select(call: Call, condition: NodeValue, first: NodeValue, second: NodeValue) -> NodeValue:
    return condition.where(first, second)


# Channels ------------------------------------------------------------------------------------------------------------


def along_channels(call: Call, vector: NodeValue, rank: int) -> NodeValue:
    """A vector with one element for each channel, in a shape that broadcasts."""
    if call.string("data_format") == "NXC" or rank == 2:
        return vector
    array = vector.body.known(vector)
    if array is not None:
        return vector.body.constant(array.reshape(-1, *[1] * (rank - 2)), f"{vector.name}_column")
    return vector.reshape(-1, *[1] * (rank - 2))


@writes("BiasAdd")
def bias_add(call: Call, src: NodeValue, bias: NodeValue) -> NodeValue:
    return src + along_channels(call, bias, rank_of(call, "src"))


@composes("BiasAddBackward")
def bias_add_backward(call: Call, diff_dst: NodeValue) -> NodeValue:
    rank = rank_of(call, "diff_dst")
    channel = rank - 1 if call.string("data_format") == "NXC" else 1
    return diff_dst.reduce("ReduceSum", (axis for axis in range(rank) if axis != channel), keep=False)


def _slope(call: Call, slope: NodeValue) -> tuple[NodeValue, tuple[int, ...]]:
    """The slope in a shape that broadcasts to src, and that shape."""
    rank_of(call, "src")
    own_shape = known_dims_of(call, call.shape("slope"), "slope")
    shape = known_dims_of(call, slope_target(call, own_shape, call.shape("src")), "slope")
    if shape[len(shape) - len(own_shape) :] == own_shape:
        return slope, shape  # numpy's rules put the same axes before it
    array = slope.body.known(slope)
    if array is not None:
        return slope.body.constant(array.reshape(shape), f"{slope.name}_shaped"), shape
    return slope.reshape(*shape), shape


@writes("PReLU")
def prelu(call: Call, src: NodeValue, slope: NodeValue) -> NodeValue:
    return src.op("PRelu", _slope(call, slope)[0])


# Softmax -------------------------------------------------------------------------------------------------------------


@writes("LogSoftmax")
def log_softmax(call: Call, src: NodeValue) -> NodeValue:
    return src.op("LogSoftmax", axis=call.s64("axis"))
