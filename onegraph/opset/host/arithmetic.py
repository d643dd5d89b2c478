"""Defines host ops that compute element by element. The specification has some of them for fewer data types."""

from __future__ import annotations

from ..ops.binary import binary_shape
from ..schema import Schema, same_shape
from ..signature import Attribute, ports, rows
from ..traits import Trait
from .types import ALL_NAMES, FLOAT_NAMES, FLOATS, INTEGER_NAMES, INTEGERS, NUMBERS, binary, sources_broadcast, unary

TRUNCATE = Attribute("truncate", "bool", "True: dst has the sign of src_0, else that of src_1.", default=False)
SATURATE = Attribute(
    "saturate",
    "bool",
    "Whether a number beyond the range of an 8-bit float type becomes its largest number, else infinity or NaN.",
    default=True,
)

OPS = (
    unary("Abs", "abs", "dst = |src|", NUMBERS, traits=Trait.KEEPS_ERRORS | Trait.POLYNOMIAL | Trait.BOUNDED),
    unary("Negative", "negative", "dst = -src", NUMBERS, traits=Trait.KEEPS_ERRORS | Trait.POLYNOMIAL | Trait.BOUNDED),
    unary(
        "Sign",
        "sign",
        "dst = -1, 0 or 1: the sign of src",
        NUMBERS,
        traits=Trait.POLYNOMIAL | Trait.JUMPS | Trait.UNIT_BOUNDED,
    ),
    unary("Acos", "acos", "dst = arccos(src)", FLOATS),
    unary("Acosh", "acosh", "dst = arcosh(src)", FLOATS),
    unary("Asin", "asin", "dst = arcsin(src)", FLOATS),
    unary("Asinh", "asinh", "dst = arsinh(src)", FLOATS, traits=Trait.KEEPS_ERRORS | Trait.BOUNDED),
    unary("Atan", "atan", "dst = arctan(src)", FLOATS, traits=Trait.KEEPS_ERRORS | Trait.BOUNDED),
    unary("Atanh", "atanh", "dst = artanh(src)", FLOATS),
    unary("Ceil", "ceil", "dst = src rounded up to an integer", FLOATS, traits=Trait.POLYNOMIAL | Trait.JUMPS),
    unary("Cos", "cos", "dst = cos(src)", FLOATS, traits=Trait.KEEPS_ERRORS | Trait.UNIT_BOUNDED | Trait.PERIODIC),
    unary("Cosh", "cosh", "dst = cosh(src)", FLOATS),
    unary("Erf", "erf", "dst = the error function of src", FLOATS, traits=Trait.KEEPS_ERRORS | Trait.UNIT_BOUNDED),
    unary("Exp", "exp", "dst = e ** src", FLOATS),
    unary("Floor", "floor", "dst = src rounded down to an integer", FLOATS, traits=Trait.POLYNOMIAL | Trait.JUMPS),
    unary("Log", "log", "dst = the natural logarithm of src", FLOATS),
    unary(
        "Round",
        "round",
        "dst = src rounded to the nearest integer, halves to the even one",
        FLOATS,
        traits=Trait.POLYNOMIAL | Trait.JUMPS,
    ),
    unary("Sigmoid", "sigmoid", "dst = 1 / (1 + e ** -src)", FLOATS, traits=Trait.KEEPS_ERRORS | Trait.UNIT_BOUNDED),
    unary(
        "Sin",
        "sin",
        "dst = sin(src)",
        FLOATS,
        traits=Trait.KEEPS_ERRORS | Trait.BOUNDED | Trait.UNIT_BOUNDED | Trait.PERIODIC,
    ),
    unary("Sinh", "sinh", "dst = sinh(src)", FLOATS),
    unary("Sqrt", "sqrt", "dst = the square root of src", FLOATS),
    unary("Tan", "tan", "dst = tan(src)", FLOATS, traits=Trait.PERIODIC),
    unary("Tanh", "tanh", "dst = tanh(src)", FLOATS, traits=Trait.KEEPS_ERRORS | Trait.BOUNDED | Trait.UNIT_BOUNDED),
    binary("Add", "add", "dst = src_0 + src_1", NUMBERS, traits=Trait.ARITHMETIC | Trait.COMMUTATIVE),
    binary("Subtract", "subtract", "dst = src_0 - src_1", NUMBERS, traits=Trait.ARITHMETIC),
    binary("Multiply", "multiply", "dst = src_0 * src_1", NUMBERS, traits=Trait.ARITHMETIC | Trait.COMMUTATIVE),
    binary("Divide", "divide", "dst = src_0 / src_1; of integers, rounded towards 0", NUMBERS, traits=Trait.ARITHMETIC),
    binary(
        "Maximum",
        "maximum",
        "dst = max(src_0, src_1)",
        NUMBERS,
        traits=Trait.BOUNDED | Trait.ARITHMETIC | Trait.COMMUTATIVE,
    ),
    binary(
        "Minimum",
        "minimum",
        "dst = min(src_0, src_1)",
        NUMBERS,
        traits=Trait.BOUNDED | Trait.ARITHMETIC | Trait.COMMUTATIVE,
    ),
    binary(
        "Mod", "mod", "dst = the remainder of src_0 / src_1", NUMBERS, TRUNCATE, traits=Trait.JUMPS | Trait.ARITHMETIC
    ),
    binary("BitwiseAnd", "bitwise_and", "dst = src_0 & src_1", INTEGERS, traits=Trait.COMMUTATIVE),
    binary("BitwiseOr", "bitwise_or", "dst = src_0 | src_1", INTEGERS, traits=Trait.COMMUTATIVE),
    binary("BitwiseXor", "bitwise_xor", "dst = src_0 ^ src_1", INTEGERS, traits=Trait.COMMUTATIVE),
    binary("ShiftLeft", "shift_left", "dst = src_0 * 2 ** src_1", INTEGERS),
    binary("ShiftRight", "shift_right", "dst = src_0 / 2 ** src_1, rounded down", INTEGERS),
    unary("BitwiseNot", "bitwise_not", "dst = ~src", INTEGERS),
    Schema(
        "Pow",
        "host_pow",
        "host",
        "dst = src_0 ** src_1, in the data type of src_0",
        ports("src_0:T1 src_1:T2"),
        ports("dst:T1"),
        rows("T1 T2", f"{FLOAT_NAMES}|{INTEGER_NAMES} {FLOAT_NAMES}|{INTEGER_NAMES}"),
        binary_shape,
        shape_rules=(sources_broadcast,),
        traits=Trait.POINTWISE,
    ),
    Schema(
        "Cast",
        "host_cast",
        "host",
        "dst = src in another data type; a fraction is cut off where dst is an integer",
        ports("src:T1"),
        ports("dst:T2"),
        rows("T1 T2", f"{ALL_NAMES} {ALL_NAMES}"),
        same_shape,
        (SATURATE,),
        traits=Trait.POINTWISE | Trait.CASTS,
    ),
)
