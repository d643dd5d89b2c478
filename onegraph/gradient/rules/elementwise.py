"""Gradients of the elementwise category."""

from __future__ import annotations

from ...lowering.elementwise import add, binary, filled, multiply, negative, select, unary
from ...lowering.emitter import Emitter, Value, dtype_of
from ...lowering.movement import NATIVE
from ..use import GradientUse
from .table import flat, gradient_of

flat("Round", "it is constant between its steps")

# Ops whose gradient op computes from the result of the op, so that the source need not be kept.
FROM_DST = "ReLU, Sigmoid, Sqrt, Tanh, Elu, Clamp"
FROM_SRC = "Abs, GELU, HardSigmoid, HardSwish, Mish, SoftPlus"


@gradient_of(FROM_DST, "src")
def from_dst(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    kind = f"{use.base.kind}Backward"
    return emit.op(kind, [use.result("dst"), diff], {**use.shared(kind), "use_dst": True})


@gradient_of(FROM_SRC, "src")
def from_src(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    kind = f"{use.base.kind}Backward"
    return emit.op(kind, [use["src"], diff], use.shared(kind))


@gradient_of("LeakyReLU", "src")
def leaky_relu(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    alpha = use.call.f32("alpha")
    by_dst = alpha > 0  # dst has the sign of src
    above = emit.op("ReLUBackward", [use.result("dst") if by_dst else use["src"], diff], {"use_dst": by_dst})
    return add(emit, scaled(emit, above, 1 - alpha), scaled(emit, diff, alpha))


@gradient_of("Exp", "src")
def exp(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return multiply(emit, diff, use.result("dst"))


@gradient_of("Log", "src")
def log(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return binary(emit, "Divide", diff, use["src"])


@gradient_of("Reciprocal", "src")
def reciprocal(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return negative(emit, multiply(emit, diff, square(emit, use.result("dst"))))


@gradient_of("Square", "src")
def square_(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return multiply(emit, diff, scaled(emit, use["src"], 2))


@gradient_of("Pow", "src")
def pow_(emit: Emitter, use: GradientUse, diff: Value) -> Value | None:
    beta = use.call.f32("beta")
    if beta in (0, 1):
        return None if beta == 0 else diff
    slope = use["src"] if beta == 2 else unary(emit, "Pow", use["src"], {"beta": beta - 1})
    return multiply(emit, diff, scaled(emit, slope, beta))


# Expressions ----------------------------------------------------------------------------------------------------------


def scaled(emit: Emitter, src: Value, number: float) -> Value:
    """The product with a number."""
    return multiply(emit, src, filled(number, src))


def moved(emit: Emitter, src: Value, number: float) -> Value:
    """The sum with a number."""
    return add(emit, src, filled(number, src))


def with_sign_of(emit: Emitter, src: Value, diff: Value) -> Value:
    """diff * sign(src), where both have one shape."""
    if dtype_of(src) in NATIVE:
        return emit.op("AbsBackward", [src, diff])
    return multiply(emit, diff, unary(emit, "Sign", src))


def square(emit: Emitter, src: Value) -> Value:
    """src * src."""
    return multiply(emit, src, src)


def one_minus(emit: Emitter, src: Value) -> Value:
    """1 - src."""
    return binary(emit, "Subtract", filled(1, src), src)


def where(emit: Emitter, src: Value, least: float, then: Value, otherwise: Value) -> Value:
    """``then`` where src is larger than a number."""
    return select(emit, binary(emit, "Greater", src, filled(least, src)), then, otherwise)
