"""Defines host ops that compute element by element. The specification has some of them for fewer data types."""

from __future__ import annotations

from ..ops.binary import binary_shape
from ..schema import Schema, same_shape
from ..signature import Attribute, ports, rows
from .types import ALL_NAMES, FLOAT_NAMES, FLOATS, INTEGER_NAMES, INTEGERS, NUMBERS, binary, sources_broadcast, unary

TRUNCATE = Attribute("truncate", "bool", "True: dst has the sign of src_0, else that of src_1.", default=False)
SATURATE = Attribute(
    "saturate",
    "bool",
    "Whether a number beyond the range of an 8-bit float type becomes its largest number, else infinity or NaN.",
    default=True,
)

OPS = (
    unary("Abs", "abs", "dst = |src|", NUMBERS),
    unary("Negative", "negative", "dst = -src", NUMBERS),
    unary("Sign", "sign", "dst = -1, 0 or 1: the sign of src", NUMBERS),
    unary("Acos", "acos", "dst = arccos(src)", FLOATS),
    unary("Acosh", "acosh", "dst = arcosh(src)", FLOATS),
    unary("Asin", "asin", "dst = arcsin(src)", FLOATS),
    unary("Asinh", "asinh", "dst = arsinh(src)", FLOATS),
    unary("Atan", "atan", "dst = arctan(src)", FLOATS),
    unary("Atanh", "atanh", "dst = artanh(src)", FLOATS),
    unary("Ceil", "ceil", "dst = src rounded up to an integer", FLOATS),
    unary("Cos", "cos", "dst = cos(src)", FLOATS),
    unary("Cosh", "cosh", "dst = cosh(src)", FLOATS),
    unary("Erf", "erf", "dst = the error function of src", FLOATS),
    unary("Exp", "exp", "dst = e ** src", FLOATS),
    unary("Floor", "floor", "dst = src rounded down to an integer", FLOATS),
    unary("Log", "log", "dst = the natural logarithm of src", FLOATS),
    unary("Round", "round", "dst = src rounded to the nearest integer, halves to the even one", FLOATS),
    unary("Sigmoid", "sigmoid", "dst = 1 / (1 + e ** -src)", FLOATS),
    unary("Sin", "sin", "dst = sin(src)", FLOATS),
    unary("Sinh", "sinh", "dst = sinh(src)", FLOATS),
    unary("Sqrt", "sqrt", "dst = the square root of src", FLOATS),
    unary("Tan", "tan", "dst = tan(src)", FLOATS),
    unary("Tanh", "tanh", "dst = tanh(src)", FLOATS),
    binary("Add", "add", "dst = src_0 + src_1", NUMBERS),
    binary("Subtract", "subtract", "dst = src_0 - src_1", NUMBERS),
    binary("Multiply", "multiply", "dst = src_0 * src_1", NUMBERS),
    binary("Divide", "divide", "dst = src_0 / src_1; of integers, rounded towards 0", NUMBERS),
    binary("Maximum", "maximum", "dst = max(src_0, src_1)", NUMBERS),
    binary("Minimum", "minimum", "dst = min(src_0, src_1)", NUMBERS),
    binary("Mod", "mod", "dst = the remainder of src_0 / src_1", NUMBERS, TRUNCATE),
    binary("BitwiseAnd", "bitwise_and", "dst = src_0 & src_1", INTEGERS),
    binary("BitwiseOr", "bitwise_or", "dst = src_0 | src_1", INTEGERS),
    binary("BitwiseXor", "bitwise_xor", "dst = src_0 ^ src_1", INTEGERS),
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
    ),
)
