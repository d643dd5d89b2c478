"""Names the ops of Python's operators, and converts operands that are numbers or arrays into contents of constants."""

from __future__ import annotations

from functools import cache

import numpy as np

from .._util.exact_types import has_type
from ..arrays.ndarrays import array_of, is_numpy
from ..errors import ArgumentError, class_of, shown
from ..inference.type_table import typing_of
from ..ir.op import Array, LogicalTensor
from ..opset.dtypes import DataType
from ..opset.editions.registry import DEFAULT, HOST
from ..opset.editions.registry import edition as edition_named

# Operator -> the op, the edition that has it, and whether the operands change places.
OPS = {
    "+": ("Add", DEFAULT, False),
    "-": ("Subtract", DEFAULT, False),
    "*": ("Multiply", DEFAULT, False),
    "/": ("Divide", DEFAULT, False),
    "@": ("MatMul", DEFAULT, False),
    "**": ("Pow", "legacy-1", False),  # later editions have Pow with an attribute as exponent only
    ">=": ("GreaterEqual", DEFAULT, False),
    "<=": ("GreaterEqual", DEFAULT, True),
    ">": ("Greater", "legacy-1", False),
    "<": ("Less", "legacy-1", False),
    "%": ("Mod", HOST, False),
    "//": ("Mod", HOST, False),  # and what rounds the quotient down, of it
    "&": ("BitwiseAnd", HOST, False),
    "|": ("BitwiseOr", HOST, False),
    "^": ("BitwiseXor", HOST, False),
    "~": ("BitwiseNot", HOST, False),
    "abs": ("Abs", DEFAULT, False),
}
ONE_OPERAND = frozenset(["~", "abs"])
OF_BOOLEANS = {"&": "And", "|": "Or", "^": "Xor", "~": "Not"}
ROUNDED = "/"  # of integers: the host op cuts the fraction off, which the operator of Python does not
NUMBERS = frozenset(dtype.numpy for dtype in DataType)
EXACT = frozenset(dtype for dtype in DataType if np.array(0.5).astype(dtype.numpy).astype(np.float64) != 0.5)


def op_of(sign: str, dtype: DataType) -> tuple[str, str, bool]:
    """The op of an operator on tensors of a data type, its edition, and whether the operands change places.

    It is the host op for the data types that the specification lacks, such as s64.
    """
    kind, edition, swapped = OPS[sign]
    if dtype is DataType.boolean and sign in OF_BOOLEANS:
        kind = OF_BOOLEANS[sign]
    elif (sign != ROUNDED or dtype not in EXACT) and not _has(edition, kind, dtype) and _has(HOST, kind, dtype):
        edition = HOST
    return kind, edition, swapped


@cache
def _has(edition: str, kind: str, dtype: DataType) -> bool:
    schema = edition_named(edition).schemas[kind]
    return bool(typing_of(edition, kind, (dtype,) * len(schema.inputs), ())[0])


def is_array(operand: object) -> bool:
    """Whether an operand is a numpy array or anything with ``__dlpack__``, and no number."""
    return not has_type(operand, np.generic) and (is_numpy(operand) or hasattr(operand, "__dlpack__"))


def type_of(operand: object) -> DataType | None:
    """The data type of a numpy array; None for other operands, and for arrays of other types."""
    return next((one for one in DataType if one.numpy == operand.dtype), None) if is_numpy(operand) else None


def contents_like(kind: str, operand: object, like: LogicalTensor) -> Array | None:
    """A number, a numpy array, or anything with ``__dlpack__`` in the data type of ``like``; None for other operands.

    Raises:
        ArgumentError: the operand does not hold numbers, or holds one that the data type does not.
    """
    if has_type(operand, (bool, int, float)):
        subject, array = f"{kind}: {shown(operand)}", np.asarray(operand)
    elif is_numpy(operand) or hasattr(operand, "__dlpack__"):
        subject = f"{kind}: the {class_of(operand)}"
        array = array_of(subject, operand)
    else:
        return None
    target = like.dtype.numpy
    if array.dtype == target:
        return array
    label = like.name
    if array.dtype.kind not in "biuf" and array.dtype not in NUMBERS:
        raise ArgumentError(f"{subject} of {array.dtype}; expected numbers, which become {like.dtype} as {label} is")
    with np.errstate(all="ignore"):
        numbers, contents = array.astype(np.float64), array.astype(target)
        kept = contents.astype(np.float64)
    exact = like.dtype in EXACT
    if not (np.array_equal(numbers, kept) if exact else (np.isfinite(numbers) <= np.isfinite(kept)).all()):
        noun = "integers within its range" if exact else "numbers within its range"
        raise ArgumentError(f"{subject}; expected {noun}, as {label} is {like.dtype}")
    return contents


def array_of_numbers(operand: object) -> object:
    """A number, of numpy too, or a list of numbers as an array; another operand as it is."""
    if not has_type(operand, (bool, int, float, list, tuple, np.generic)):
        return operand
    try:
        array = np.asarray(operand)
    except ValueError:  # rows of different lengths
        return operand
    return array if array.dtype.kind in "biuf" else operand
