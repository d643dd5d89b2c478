"""Gradients of host ops that compute element by element, for every floating-point type."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...lowering.elementwise import binary, filled, multiply, negative, select, unary
from ...lowering.emitter import Emitter, Value, dtype_of
from ...lowering.movement import cast
from ..use import GradientUse
from .elementwise import moved, one_minus, scaled, square
from .table import flat, gradient_of

flat("Sign, Ceil, Floor", "it is constant between its steps")
flat("Equal, Greater, Less, LessEqual, IsNaN, IsInf", "its result is a truth value")
flat(
    "And, Or, Xor, Not, BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot, ShiftLeft, ShiftRight",
    "it computes bit by bit",
)

Slope = Callable[[Emitter, Value], Value]
# The derivative of dst as a function of src, or of dst where that is shorter.
DERIVATIVES: dict[str, Slope] = {
    "host Abs": lambda emit, x: unary(emit, "Sign", x),
    "host Sin": lambda emit, x: unary(emit, "Cos", x),
    "host Cos": lambda emit, x: negative(emit, unary(emit, "Sin", x)),
    "host Sinh": lambda emit, x: unary(emit, "Cosh", x),
    "host Cosh": lambda emit, x: unary(emit, "Sinh", x),
    "host Erf": lambda emit, x: scaled(
        emit, unary(emit, "Exp", negative(emit, square(emit, x))), 2 / math.sqrt(math.pi)
    ),
}
_BY_DST: dict[str, Slope] = {
    "host Sigmoid": lambda emit, y: multiply(emit, y, one_minus(emit, y)),
    "host Tanh": lambda emit, y: one_minus(emit, square(emit, y)),
    "host Tan": lambda emit, y: moved(emit, square(emit, y), 1),
}
# The inverse of the derivative.
_INVERSE: dict[str, Slope] = {
    "host Sqrt": lambda emit, x: scaled(emit, unary(emit, "Sqrt", x), 2),
    "host Asin": lambda emit, x: unary(emit, "Sqrt", one_minus(emit, square(emit, x))),
    "host Acos": lambda emit, x: negative(emit, unary(emit, "Sqrt", one_minus(emit, square(emit, x)))),
    "host Atan": lambda emit, x: moved(emit, square(emit, x), 1),
    "host Asinh": lambda emit, x: unary(emit, "Sqrt", moved(emit, square(emit, x), 1)),
    "host Acosh": lambda emit, x: unary(emit, "Sqrt", moved(emit, square(emit, x), -1)),
    "host Atanh": lambda emit, x: one_minus(emit, square(emit, x)),
}


@gradient_of(", ".join(DERIVATIVES), "src")
def by_src(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return multiply(emit, diff, DERIVATIVES[use.base.kind](emit, use["src"]))


@gradient_of(", ".join(_BY_DST), "src")
def by_dst(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return multiply(emit, diff, _BY_DST[use.base.kind](emit, use.result("dst")))


@gradient_of(", ".join(_INVERSE), "src")
def by_inverse(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return binary(emit, "Divide", diff, _INVERSE[use.base.kind](emit, use["src"]))


@gradient_of("Negative", "src")
def opposite(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return negative(emit, diff)


@gradient_of("host Cast", "src")
def host_cast(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return cast(emit, diff, dtype_of(use["src"]))


@gradient_of("host Mod", "src_0")
def remainder(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return diff


@gradient_of("host Mod", "src_1")
def modulus(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    """The number of times that src_1 was subtracted, as a whole number."""
    times = binary(emit, "Divide", binary(emit, "Subtract", use["src_0"], use.result("dst")), use["src_1"])
    return negative(emit, multiply(emit, diff, unary(emit, "Round", times)))


@gradient_of("host Pow", "src_0")
def power(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    exponent = cast(emit, use["src_1"], dtype_of(diff))
    slope = multiply(emit, exponent, emit.op("Pow", [use["src_0"], moved(emit, exponent, -1)], edition="host"))
    is_zero = binary(emit, "Equal", exponent, filled(0, exponent))
    return select(emit, is_zero, filled(0, diff), multiply(emit, diff, slope))


@gradient_of("host Pow", "src_1")
def exponent(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    base, dst = use["src_0"], use.result("dst")
    slope = multiply(emit, dst, unary(emit, "Log", base))
    zero = binary(emit, "Equal", dst, filled(0, dst))
    return select(emit, zero, filled(0, diff), multiply(emit, diff, slope))


@gradient_of("host ReplaceNaN", "src")
def number(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return select(emit, unary(emit, "IsNaN", use["src"]), filled(0, diff), diff)


@gradient_of("host ReplaceNaN", "value")
def replacement(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return select(emit, unary(emit, "IsNaN", use["src"]), diff, filled(0, diff))
