"""Defines host ops that compute element by element. The specification has some of them for fewer data types."""

from __future__ import annotations

from ..ops.binary import binary_shape
from ..schema import same_shape
from ..signature import Attribute, rows
from ..traits import Trait
from .types import (
    ALL_NAMES,
    FLOAT_NAMES,
    FLOATS,
    INTEGER_NAMES,
    INTEGERS,
    NUMBERS,
    binary,
    host,
    sources_broadcast,
    unary,
)

TRUNCATE = Attribute("truncate", "bool", "True: dst has the sign of src_0, else that of src_1.", default=False)
SATURATE = Attribute(
    "saturate",
    "bool",
    "Whether a number beyond the range of an 8-bit float type becomes its largest number, else infinity or NaN.",
    default=True,
)

OPS = (
    unary("Abs", "dst = |src|", NUMBERS, traits=Trait.KEEPS_ERRORS | Trait.POLYNOMIAL | Trait.BOUNDED),
    unary("Negative", "dst = -src", NUMBERS, traits=Trait.KEEPS_ERRORS | Trait.POLYNOMIAL | Trait.BOUNDED),
    unary(
        "Sign",
        "dst = -1, 0 or 1: the sign of src",
        NUMBERS,
        traits=Trait.POLYNOMIAL | Trait.JUMPS | Trait.UNIT_BOUNDED,
    ),
    unary("Acos", "dst = arccos(src)", FLOATS),
    unary("Acosh", "dst = arcosh(src)", FLOATS),
    unary("Asin", "dst = arcsin(src)", FLOATS),
    unary("Asinh", "dst = arsinh(src)", FLOATS, traits=Trait.KEEPS_ERRORS | Trait.BOUNDED),
    unary("Atan", "dst = arctan(src)", FLOATS, traits=Trait.KEEPS_ERRORS | Trait.BOUNDED),
    unary("Atanh", "dst = artanh(src)", FLOATS),
    unary("Ceil", "dst = src rounded up to an integer", FLOATS, traits=Trait.POLYNOMIAL | Trait.JUMPS),
    unary("Cos", "dst = cos(src)", FLOATS, traits=Trait.KEEPS_ERRORS | Trait.UNIT_BOUNDED | Trait.PERIODIC),
    unary("Cosh", "dst = cosh(src)", FLOATS),
    unary("Erf", "dst = the error function of src", FLOATS, traits=Trait.KEEPS_ERRORS | Trait.UNIT_BOUNDED),
    unary("Exp", "dst = e ** src", FLOATS),
    unary("Floor", "dst = src rounded down to an integer", FLOATS, traits=Trait.POLYNOMIAL | Trait.JUMPS),
    unary("Log", "dst = the natural logarithm of src", FLOATS),
    unary(
        "Round",
        "dst = src rounded to the nearest integer, halves to the even one",
        FLOATS,
        traits=Trait.POLYNOMIAL | Trait.JUMPS,
    ),
    unary("Sigmoid", "dst = 1 / (1 + e ** -src)", FLOATS, traits=Trait.KEEPS_ERRORS | Trait.UNIT_BOUNDED),
    unary(
        "Sin",
        "dst = sin(src)",
        FLOATS,
        traits=Trait.KEEPS_ERRORS | Trait.BOUNDED | Trait.UNIT_BOUNDED | Trait.PERIODIC,
    ),
    unary("Sinh", "dst = sinh(src)", FLOATS),
    unary("Sqrt", "dst = the square root of src", FLOATS),
    unary("Tan", "dst = tan(src)", FLOATS, traits=Trait.PERIODIC),
    unary("Tanh", "dst = tanh(src)", FLOATS, traits=Trait.KEEPS_ERRORS | Trait.BOUNDED | Trait.UNIT_BOUNDED),
    binary("Add", "dst = src_0 + src_1", NUMBERS, traits=Trait.ARITHMETIC | Trait.COMMUTATIVE),
    binary("Subtract", "dst = src_0 - src_1", NUMBERS, traits=Trait.ARITHMETIC),
    binary("Multiply", "dst = src_0 * src_1", NUMBERS, traits=Trait.ARITHMETIC | Trait.COMMUTATIVE),
    binary("Divide", "dst = src_0 / src_1; of integers, rounded towards 0", NUMBERS, traits=Trait.ARITHMETIC),
    binary(
        "Maximum",
        "dst = max(src_0, src_1)",
        NUMBERS,
        traits=Trait.BOUNDED | Trait.ARITHMETIC | Trait.COMMUTATIVE,
    ),
    binary(
        "Minimum",
        "dst = min(src_0, src_1)",
        NUMBERS,
        traits=Trait.BOUNDED | Trait.ARITHMETIC | Trait.COMMUTATIVE,
    ),
    binary("Mod", "dst = the remainder of src_0 / src_1", NUMBERS, TRUNCATE, traits=Trait.JUMPS | Trait.ARITHMETIC),
    binary("BitwiseAnd", "dst = src_0 & src_1", INTEGERS, traits=Trait.COMMUTATIVE),
    binary("BitwiseOr", "dst = src_0 | src_1", INTEGERS, traits=Trait.COMMUTATIVE),
    binary("BitwiseXor", "dst = src_0 ^ src_1", INTEGERS, traits=Trait.COMMUTATIVE),
    binary("ShiftLeft", "dst = src_0 * 2 ** src_1", INTEGERS),
    binary("ShiftRight", "dst = src_0 / 2 ** src_1, rounded down", INTEGERS),
    unary("BitwiseNot", "dst = ~src", INTEGERS),
    host(
        "Pow",
        "dst = src_0 ** src_1, in the data type of src_0",
        "src_0:T1 src_1:T2",
        "dst:T1",
        rows("T1 T2", f"{FLOAT_NAMES}|{INTEGER_NAMES} {FLOAT_NAMES}|{INTEGER_NAMES}"),
        binary_shape,
        shape_rules=(sources_broadcast,),
        traits=Trait.POINTWISE,
    ),
    host(
        "Cast",
        "dst = src in another data type; a fraction is cut off where dst is an integer",
        "src:T1",
        "dst:T2",
        rows("T1 T2", f"{ALL_NAMES} {ALL_NAMES}"),
        same_shape,
        (SATURATE,),
        traits=Trait.POINTWISE | Trait.CASTS,
    ),
)
