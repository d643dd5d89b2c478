"""Lowers quotients that are rounded, remainders, logarithms, and other functions of numbers that ops are joined for."""

from __future__ import annotations

import math

import numpy as np

from ....lowering.elementwise import binary, select, unary
from ....lowering.emitter import Emitter, Value, dtype_of
from ....lowering.movement import cast, rounded, scalar
from ....opset.dtypes import DataType
from ..node import AtenNode, lowers
from .elementwise import base, common

FLOATS = frozenset([DataType.f32, DataType.float64, DataType.f16, DataType.bf16])
NARROW = frozenset([DataType.f16, DataType.bf16])


def _wide(node: AtenNode, *names: str) -> list[Value]:
    """Arguments in the data type that PyTorch computes them in: f32 for 16-bit floats."""
    operands = common(node, *names) if len(names) > 1 else [node.value_as(names[0], node.result_dtype)]
    return [cast(node.emit, one, DataType.f32) if dtype_of(one) in NARROW else one for one in operands]


def _exact(emit: Emitter, kind: str, src: Value) -> Value:
    """A function in numpy: the errors of the library's are larger than what is computed from their results."""
    return emit.op(kind, [src], edition="host")


def _number(value: float, like: Value) -> Value:
    return scalar(value, dtype_of(like))


def _remainder(emit: Emitter, first: Value, second: Value, *, truncate: bool) -> Value:
    return emit.op("Mod", [first, second], {"truncate": truncate}, edition="host")


@lowers("remainder.Tensor", "remainder.Scalar", "fmod.Tensor", "fmod.Scalar")
def remainder(node: AtenNode) -> Value:
    """The remainder of a quotient that is rounded down, or towards 0."""
    first, second = _wide(node, "self", "other")
    truncates, is_float = base(node) == "fmod", dtype_of(first) in FLOATS
    result = _remainder(node.emit, first, second, truncate=truncates or is_float)
    if is_float and not truncates:  # a remainder of 0 keeps the sign of self
        shifted = binary(node.emit, "Add", result, second)
        result = select(node.emit, _differ(node.emit, result, second), shifted, result)
    return rounded(node.emit, result, node.result_dtype)


@lowers("trunc.default")
def trunc(node: AtenNode) -> Value:
    """Numbers rounded towards 0."""
    src = node.value_as("self", node.result_dtype)
    return src if dtype_of(src) not in FLOATS else _truncated(node.emit, src)


def _truncated(emit: Emitter, src: Value) -> Value:
    down, up = unary(emit, "Floor", src), unary(emit, "Ceil", src)
    return select(emit, binary(emit, "Less", src, _number(0, src)), up, down)


@lowers("div.Tensor_mode", "div.Scalar_mode")
def divide(node: AtenNode) -> Value:
    """A quotient that is rounded down, towards 0, or not at all."""
    first, second = _wide(node, "self", "other")
    emit, mode = node.emit, node["rounding_mode"]
    if mode is None:
        first, second = (
            cast(emit, one, DataType.f32) if dtype_of(one) not in FLOATS else one for one in (first, second)
        )
        return rounded(emit, binary(emit, "Divide", first, second), node.result_dtype)
    if dtype_of(first) not in FLOATS and mode == "floor":
        return cast(emit, floored(emit, first, second), node.result_dtype)
    quotient = binary(emit, "Divide", first, second)
    if dtype_of(first) not in FLOATS:
        return cast(emit, quotient, node.result_dtype)
    result = _truncated(emit, quotient) if mode == "trunc" else _floor_of_floats(emit, first, second, quotient)
    return rounded(emit, result, node.result_dtype)


def _differ(emit: Emitter, rest: Value, second: Value) -> Value:
    """Whether a remainder is not 0, and has another sign than the divisor."""
    signs = [binary(emit, "Less", one, _number(0, one)) for one in (rest, second)]
    has_rest = unary(emit, "Not", binary(emit, "Equal", rest, _number(0, rest)))
    return binary(emit, "And", has_rest, binary(emit, "Xor", *signs))


def floored(emit: Emitter, first: Value, second: Value) -> Value:
    """The quotient of integers, rounded down."""
    quotient = binary(emit, "Divide", first, second)
    rest = binary(emit, "Subtract", first, binary(emit, "Multiply", quotient, second))
    less = binary(emit, "Subtract", quotient, _number(1, quotient))
    return select(emit, _differ(emit, rest, second), less, quotient)


def _floor_of_floats(emit: Emitter, first: Value, second: Value, plain: Value) -> Value:
    """As PyTorch: from the exact remainder, because the quotient may be rounded up to the next integer."""
    rest = _remainder(emit, first, second, truncate=True)
    whole = binary(emit, "Divide", binary(emit, "Subtract", first, rest), second)
    less = binary(emit, "Subtract", whole, _number(1, whole))
    whole = select(emit, _differ(emit, rest, second), less, whole)
    floor = unary(emit, "Floor", whole)
    is_more = binary(emit, "Greater", binary(emit, "Subtract", whole, floor), _number(0.5, whole))
    floor = select(emit, is_more, binary(emit, "Add", floor, _number(1, floor)), floor)
    is_zero = binary(emit, "Equal", whole, _number(0, whole))
    floor = select(emit, is_zero, binary(emit, "Multiply", plain, _number(0, plain)), floor)
    return select(emit, binary(emit, "Equal", second, _number(0, second)), plain, floor)


@lowers("log2.default", "log10.default")
def logarithm(node: AtenNode) -> Value:
    """The logarithm of base 2 or 10."""
    (src,) = _wide(node, "self")
    result = _exact(node.emit, "Log", src)
    factor = _number(1 / math.log(2 if base(node) == "log2" else 10), result)
    return rounded(node.emit, binary(node.emit, "Multiply", result, factor), node.result_dtype)


@lowers("log1p.default")
def log1p(node: AtenNode) -> Value:
    """log(1 + x): x is scaled by the error that rounding 1 + x makes."""
    (src,) = _wide(node, "self")
    emit, unit = node.emit, _number(1, src)
    whole = binary(emit, "Add", src, unit)
    apart = binary(emit, "Subtract", whole, unit)
    scaled = binary(emit, "Multiply", _exact(emit, "Log", whole), binary(emit, "Divide", src, apart))
    result = select(emit, binary(emit, "Equal", apart, _number(0, src)), src, scaled)
    infinite = binary(emit, "Equal", src, _number(math.inf, src))
    return rounded(emit, select(emit, infinite, src, result), node.result_dtype)


@lowers("expm1.default")
def expm1(node: AtenNode) -> Value:
    """exp(x) - 1, which the logarithm of the rounded exp(x) corrects."""
    (src,) = _wide(node, "self")
    emit, unit = node.emit, _number(1, src)
    power = _exact(emit, "Exp", src)
    apart = binary(emit, "Subtract", power, unit)
    scaled = binary(emit, "Multiply", apart, binary(emit, "Divide", src, _exact(emit, "Log", power)))
    result = select(emit, binary(emit, "Equal", apart, _number(0, src)), src, scaled)
    small = binary(emit, "Equal", apart, _number(-1, src))
    result = select(emit, small, apart, result)
    infinite = binary(emit, "Equal", power, _number(math.inf, src))
    return rounded(emit, select(emit, infinite, power, result), node.result_dtype)


@lowers("isinf.default")
def is_infinite(node: AtenNode) -> Value:
    """Whether elements are infinite; integers never are."""
    if node.dtype("self") not in FLOATS:
        return np.broadcast_to(np.array(False), node.shape("self"))
    return unary(node.emit, "IsInf", node.value("self"))


@lowers("atan2.default")
def atan2(node: AtenNode) -> Value:
    """The angle of the point (other, self), by the quadrant; signs of zeros count."""
    return rounded(node.emit, angle_of(node.emit, *_wide(node, "self", "other")), node.result_dtype)


def angle_of(emit: Emitter, first: Value, second: Value) -> Value:
    """The angle of the point (second, first), by the quadrant."""
    zero = _number(0, first)

    def is_negative(value: Value) -> Value:
        """Whether the sign is -, also of 0."""
        inverse = binary(emit, "Divide", _number(1, value), value)
        below = binary(emit, "Less", value, zero)
        return binary(emit, "Or", below, binary(emit, "Equal", inverse, _number(-math.inf, value)))

    are_infinite = binary(emit, "And", unary(emit, "IsInf", first), unary(emit, "IsInf", second))
    first, second = (select(emit, are_infinite, unary(emit, "Sign", one), one) for one in (first, second))
    zeros = binary(emit, "And", binary(emit, "Equal", first, zero), binary(emit, "Equal", second, zero))
    divisor = select(emit, zeros, _number(1, first), second)
    angle = unary(emit, "Atan", unary(emit, "Abs", binary(emit, "Divide", first, divisor)))
    reflected = binary(emit, "Subtract", _number(math.pi, angle), angle)
    angle = select(emit, is_negative(second), reflected, angle)
    sign = select(emit, is_negative(first), _number(-1, angle), _number(1, angle))
    return binary(emit, "Multiply", angle, sign)
