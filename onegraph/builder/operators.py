"""Adds the ops of Python's operators, and makes constants of operands that are numbers or arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from .._util.exact_types import has_type, real
from ..arrays.ndarrays import array_of, is_numpy
from ..errors import ArgumentError, class_of, shown
from ..ir.op import Array, LogicalTensor
from ..opset.dtypes import DataType
from ..opset.editions.registry import DEFAULT

if TYPE_CHECKING:
    from .graph import DataGraph

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
}


NUMBERS = frozenset(dtype.numpy for dtype in DataType)
EXACT = frozenset(DataType[name] for name in ("s8", "u8", "s32", "s64", "s4", "u4", "boolean"))


def add_operator(graph: DataGraph, sign: str, left: object, right: object) -> LogicalTensor:
    """Add the op of an operator; NotImplemented if an operand is neither a tensor nor an array or a number.

    Raises:
        SpecError: the op cannot have these tensors.
        ArgumentError: a tensor belongs to another graph, or a number is not one of the tensor's data type.
    """
    like = cast("LogicalTensor", left if has_type(left, LogicalTensor) else right)
    if sign == "abs":
        return graph.abs(like)
    if sign == "**" and like is left and (power := real(right)) is not None:
        return graph.square(like) if power == 2 else graph.pow(like, beta=power)
    kind, edition, swapped = OPS[sign]
    tensors = [_tensor(graph, kind, operand, like) for operand in (left, right)]
    if None in tensors:
        return cast("LogicalTensor", NotImplemented)  # Python then raises a TypeError that names both classes
    return cast("LogicalTensor", graph.op(kind, tensors[::-1] if swapped else tensors, edition=edition))


def _tensor(graph: DataGraph, kind: str, operand: object, like: LogicalTensor) -> LogicalTensor | None:
    """The tensor of an operand, which may be a new constant of the data type of ``like``; None if it gives none."""
    if has_type(operand, LogicalTensor):
        return operand
    if has_type(operand, (bool, int, float)):
        what, array = f"{kind}: {shown(operand)}", np.asarray(operand)
    elif is_numpy(operand) or hasattr(operand, "__dlpack__"):
        what = f"{kind}: the {class_of(operand)}"
        array = array_of(what, operand)
    else:
        return None
    return graph.constant(_converted(what, array, like), dtype=like.dtype)


def _converted(what: str, array: Array, like: LogicalTensor) -> Array:
    """The array in the data type of ``like``.

    Raises:
        ArgumentError: the array does not hold numbers, or holds one that the data type does not.
    """
    target = like.dtype.numpy
    if array.dtype == target:
        return array
    label = like.name or "the other operand"
    if array.dtype.kind not in "biuf" and array.dtype not in NUMBERS:
        raise ArgumentError(f"{what} of {array.dtype}; expected numbers, which become {like.dtype} as {label} is")
    with np.errstate(all="ignore"):
        numbers, found = array.astype(np.float64), array.astype(target)
        kept = found.astype(np.float64)
    exact = like.dtype in EXACT
    if not (np.array_equal(numbers, kept) if exact else (np.isfinite(numbers) <= np.isfinite(kept)).all()):
        which = "integers within its range" if exact else "numbers within its range"
        raise ArgumentError(f"{what}; expected {which}, as {label} is {like.dtype}")
    return found
