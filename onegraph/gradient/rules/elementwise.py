"""Gradients of the elementwise category, and compositions of its gradient ops for second derivatives."""

from __future__ import annotations

import math

from ...lowering.elementwise import add, binary, filled, multiply, negative, select, unary
from ...lowering.emitter import Emitter, Value, dtype_of, is_known
from ...lowering.movement import NATIVE
from ..use import Use
from .table import composed, flat, gradient_of

flat("Round", "it is constant between its steps")

# Ops whose gradient op computes from the result of the op, so that the source need not be kept.
FROM_DST = "ReLU, Sigmoid, Sqrt, Tanh, Elu, Clamp"
FROM_SRC = "Abs, GELU, HardSigmoid, HardSwish, Mish, SoftPlus"


@gradient_of(FROM_DST, "src")
def from_dst(emit: Emitter, use: Use, diff: Value) -> Value:
    kind = f"{use.base.kind}Backward"
    found: Value = emit.op(kind, [use.result("dst"), diff], {**use.shared(kind), "use_dst": True})
    return found


@gradient_of(FROM_SRC, "src")
def from_src(emit: Emitter, use: Use, diff: Value) -> Value:
    kind = f"{use.base.kind}Backward"
    found: Value = emit.op(kind, [use["src"], diff], use.shared(kind))
    return found


@gradient_of("LeakyReLU", "src")
def leaky_relu(emit: Emitter, use: Use, diff: Value) -> Value:
    alpha = use.call.f32("alpha")
    seen = "dst" if alpha > 0 else "src"  # dst has the sign of src
    above = emit.op("ReLUBackward", [use.result("dst") if alpha > 0 else use["src"], diff], {"use_dst": seen == "dst"})
    return add(emit, scaled(emit, above, 1 - alpha), scaled(emit, diff, alpha))


@gradient_of("Exp", "src")
def exp(emit: Emitter, use: Use, diff: Value) -> Value:
    return multiply(emit, diff, use.result("dst"))


@gradient_of("Log", "src")
def log(emit: Emitter, use: Use, diff: Value) -> Value:
    return binary(emit, "Divide", diff, use["src"])


@gradient_of("Reciprocal", "src")
def reciprocal(emit: Emitter, use: Use, diff: Value) -> Value:
    return negative(emit, multiply(emit, diff, square(emit, use.result("dst"))))


@gradient_of("Square", "src")
def square_(emit: Emitter, use: Use, diff: Value) -> Value:
    return multiply(emit, diff, scaled(emit, use["src"], 2))


@gradient_of("Pow", "src")
def pow_(emit: Emitter, use: Use, diff: Value) -> Value | None:
    beta = use.call.f32("beta")
    if beta in (0, 1):
        return None if beta == 0 else diff
    slope = use["src"] if beta == 2 else unary(emit, "Pow", use["src"], {"beta": beta - 1})
    return multiply(emit, diff, scaled(emit, slope, beta))


# Second derivatives ---------------------------------------------------------------------------------------------------


def scaled(emit: Emitter, src: Value, number: float) -> Value:
    """The product with a number."""
    return multiply(emit, src, filled(number, src))


def moved(emit: Emitter, src: Value, number: float) -> Value:
    """The sum with a number."""
    return add(emit, src, filled(number, src))


def with_sign_of(emit: Emitter, src: Value, diff: Value) -> Value:
    """diff * sign(src), where both have one shape."""
    if dtype_of(src) in NATIVE and not (is_known(src) and is_known(diff)):
        found: Value = emit.op("AbsBackward", [src, diff])
        return found
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


def _of(emit: Emitter, use: Use, kind: str) -> Value:
    """The result of the op: the source of the gradient op if it is that of ``use_dst``."""
    return use["src"] if use.call.flag("use_dst") else unary(emit, kind, use["src"])


@composed("AbsBackward")
def abs_backward(emit: Emitter, use: Use) -> Value:
    return multiply(emit, use["diff_dst"], unary(emit, "Sign", use["src"]))


@composed("ClampBackward, ReLUBackward")
def clamp_backward(emit: Emitter, use: Use) -> Value:
    src, diff = use["src"], use["diff_dst"]
    zero = filled(0, diff)
    if use.base.kind == "ReLUBackward":
        return where(emit, src, 0, diff, zero)
    below = binary(emit, "Less", src, filled(use.call.f32("max"), src))
    return where(emit, src, use.call.f32("min"), select(emit, below, diff, zero), zero)


@composed("EluBackward")
def elu_backward(emit: Emitter, use: Use) -> Value:
    src, diff, alpha = use["src"], use["diff_dst"], use.call.f32("alpha")
    negative_slope = (
        moved(emit, src, alpha) if use.call.flag("use_dst") else scaled(emit, unary(emit, "Exp", src), alpha)
    )
    return where(emit, src, 0, diff, multiply(emit, diff, negative_slope))


@composed("GELUBackward")
def gelu_backward(emit: Emitter, use: Use) -> Value:
    x, diff = use["src"], use["diff_dst"]
    if use.call.string("mode") == "gelu_tanh":
        slope = math.sqrt(2 / math.pi)
        inner = scaled(emit, multiply(emit, x, moved(emit, scaled(emit, square(emit, x), 0.044715), 1)), slope)
        share = unary(emit, "Sigmoid", scaled(emit, inner, 2))
        d_inner = scaled(emit, moved(emit, scaled(emit, square(emit, x), 3 * 0.044715), 1), 2 * slope)
        density = multiply(emit, multiply(emit, share, one_minus(emit, share)), d_inner)
    else:
        share = scaled(emit, moved(emit, unary(emit, "Erf", scaled(emit, x, math.sqrt(0.5))), 1), 0.5)
        density = scaled(emit, unary(emit, "Exp", scaled(emit, square(emit, x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return multiply(emit, diff, add(emit, share, multiply(emit, x, density)))


@composed("HardSigmoidBackward")
def hard_sigmoid_backward(emit: Emitter, use: Use) -> Value:
    src, diff, alpha = use["src"], use["diff_dst"], use.call.f32("alpha")
    line = moved(emit, scaled(emit, src, alpha), use.call.f32("beta"))
    below = binary(emit, "Less", line, filled(1, line))
    zero = filled(0, diff)
    return where(emit, line, 0, select(emit, below, scaled(emit, diff, alpha), zero), zero)


@composed("HardSwishBackward")
def hard_swish_backward(emit: Emitter, use: Use) -> Value:
    src, diff = use["src"], use["diff_dst"]
    middle = multiply(emit, diff, scaled(emit, moved(emit, scaled(emit, src, 2), 3), 1 / 6))
    inner = select(emit, binary(emit, "Less", src, filled(3, src)), middle, diff)
    return where(emit, src, -3, inner, filled(0, diff))


@composed("MishBackward")
def mish_backward(emit: Emitter, use: Use) -> Value:
    x, diff = use["src"], use["diff_dst"]
    t = unary(emit, "Tanh", unary(emit, "SoftPlus", x, {"beta": 1.0}))
    rest = multiply(emit, multiply(emit, x, unary(emit, "Sigmoid", x)), one_minus(emit, square(emit, t)))
    return multiply(emit, diff, add(emit, t, rest))


@composed("SigmoidBackward")
def sigmoid_backward(emit: Emitter, use: Use) -> Value:
    dst = _of(emit, use, "Sigmoid")
    return multiply(emit, use["diff_dst"], multiply(emit, dst, one_minus(emit, dst)))


@composed("SoftPlusBackward")
def softplus_backward(emit: Emitter, use: Use) -> Value:
    slope = unary(emit, "Sigmoid", scaled(emit, use["src"], use.call.f32("beta")))
    return multiply(emit, use["diff_dst"], slope)


@composed("SqrtBackward")
def sqrt_backward(emit: Emitter, use: Use) -> Value:
    return binary(emit, "Divide", use["diff_dst"], scaled(emit, _of(emit, use, "Sqrt"), 2))


@composed("TanhBackward")
def tanh_backward(emit: Emitter, use: Use) -> Value:
    return multiply(emit, use["diff_dst"], one_minus(emit, square(emit, _of(emit, use, "Tanh"))))
