"""Gradients of the binary category. Sums over axes along which a tensor was broadcast follow behind every rule."""

from __future__ import annotations

from ...lowering.elementwise import binary, filled, multiply, negative, select
from ...lowering.emitter import Emitter, Value, dtype_of, known_rank, numbers
from ...lowering.movement import cast, dims_of, expand, reshape
from ...lowering.reduction import reduce
from ...opset.ops.binary import slope_target
from ...opset.shapes import known_dims
from ..use import GradientUse
from .elementwise import scaled, where, with_sign_of
from .table import flat, gradient_of

flat("GreaterEqual", "its result is a truth value")


def operand(emit: Emitter, use: GradientUse, port: str, diff: Value) -> Value:
    """An input in the data type of the gradient."""
    return cast(emit, use[port], dtype_of(diff))


@gradient_of("Add", "src_0 src_1")
def add(emit: Emitter, use: GradientUse, diff: Value) -> tuple[Value, Value]:
    return diff, diff


@gradient_of("BiasAdd", "src")
def biased(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return diff


@gradient_of("Subtract", "src_0")
def minuend(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return diff


@gradient_of("Subtract", "src_1")
def subtrahend(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return negative(emit, diff)


@gradient_of("Multiply", "src_0")
def first_factor(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return multiply(emit, diff, operand(emit, use, "src_1", diff))


@gradient_of("Multiply", "src_1")
def second_factor(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return multiply(emit, diff, operand(emit, use, "src_0", diff))


@gradient_of("Divide", "src_0")
def dividend(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return binary(emit, "Divide", diff, operand(emit, use, "src_1", diff))


@gradient_of("Divide", "src_1")
def divisor(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    quotient = binary(emit, "Divide", use.result("dst"), operand(emit, use, "src_1", diff))
    return negative(emit, multiply(emit, diff, quotient))


@gradient_of("SquaredDifference", "src_0 src_1")
def squared_difference(emit: Emitter, use: GradientUse, diff: Value) -> tuple[Value, Value]:
    ends = operand(emit, use, "src_0", diff), operand(emit, use, "src_1", diff)
    slope = multiply(emit, diff, scaled(emit, binary(emit, "Subtract", *ends), 2))
    return slope, negative(emit, slope)


@gradient_of("Maximum, Minimum", "src_0 src_1")
def extreme(emit: Emitter, use: GradientUse, diff: Value) -> tuple[Value, Value]:
    """The gradient goes to the element that is the result; equal elements get half of it each, as in PyTorch."""
    ends = operand(emit, use, "src_0", diff), operand(emit, use, "src_1", diff)
    apart = binary(emit, "Subtract", *(ends if use.base.kind.endswith("Maximum") else ends[::-1]))
    half = scaled(emit, diff, 0.5)
    share = with_sign_of(emit, apart, half)
    return binary(emit, "Add", half, share), binary(emit, "Subtract", half, share)


@gradient_of("Select, Where", "src_0")
def chosen(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return select(emit, use["cond"], diff, filled(0, diff))


@gradient_of("Select, Where", "src_1")
def not_chosen(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return select(emit, use["cond"], filled(0, diff), diff)


@gradient_of("BiasAdd", "bias")
def bias(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return emit.op("BiasAddBackward", [diff], use.shared("BiasAddBackward"))


@gradient_of("BiasAddBackward", "diff_dst")
def bias_add_backward(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    diff_dst = use["diff_dst"]
    return expand(emit, along_channels(emit, use, diff, known_rank(diff_dst)), dims_of(emit, diff_dst))


def along_channels(emit: Emitter, use: GradientUse, vector: Value, rank: int) -> Value:
    """A vector with one element for each channel, in a shape that broadcasts with a tensor of the op's data_format."""
    if use.call.string("data_format") == "NXC" or rank <= 2:
        return vector
    return reshape(emit, vector, numbers(-1, *(1,) * (rank - 2)))


@gradient_of("PReLU", "src slope")
def prelu(emit: Emitter, use: GradientUse, diff: Value) -> tuple[Value | None, Value | None]:
    if use.call.flag("per_channel_broadcast") or use.call.string("data_format") == "NXC":
        by_src, by_slope = emit.ends("PReLUBackward", [use["src"], use["slope"], diff], use.shared("PReLUBackward"))
        return by_src, by_slope
    src, slope = use["src"], _slope(emit, use)
    d_src = where(emit, src, 0, diff, multiply(emit, diff, slope)) if "src" in use.wanted else None
    if "slope" not in use.wanted:
        return d_src, None
    d_slope = where(emit, src, 0, filled(0, diff), multiply(emit, diff, src))
    return d_src, _summed(emit, d_slope, use)


def _slope_shape(use: GradientUse) -> tuple[int, ...]:
    """The shape in which the slope broadcasts with src."""
    use.rank("src")
    return known_dims(slope_target(use.call, use.dims("slope"), use.call.shape("src")))


def _slope(emit: Emitter, use: GradientUse) -> Value:
    return reshape(emit, use["slope"], numbers(*_slope_shape(use)))


def _summed(emit: Emitter, gradient_: Value, use: GradientUse) -> Value:
    """The gradient with respect to the slope, in its shape."""
    axes = [axis for axis, dim in enumerate(_slope_shape(use)) if dim == 1]
    return reshape(emit, reduce(emit, "ReduceSum", gradient_, axes, keep=True), dims_of(emit, use["slope"]))
