"""Finds the elements of a computed shape that are known, such as the channels in a shape of which the batch is unknown.

The shape functions of ops see known contents alone. So a Reshape to a computed shape has a result of unknown dims, and
what is known of them gets lost, unless another op states it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..ir.op import LogicalTensor, Op
from ..opset.dtypes import DataType
from ..opset.kinds import RESHAPES
from ..opset.shapes import known_dims
from .emitter import Emitter, Parts, Value, dtype_of, rank_of, shape_of

MATRIX = 2  # axes
WIDE = frozenset([DataType.f32, DataType.float64])
FAR = -math.inf, math.inf
MOST_OPS = 32  # between the shape and what it is computed of
MOST_NUMBERS = 1 << 10  # of a vector; shapes and what they are computed of have fewer
LARGEST_FLOAT = 1 << 24  # up to which f32 has every integer


def known_parts(emit: Emitter, value: Value | None) -> Parts | None:
    """The elements of a vector of integers, or of a single one; None if their number is unknown."""
    is_float = value is not None and dtype_of(value).numpy.kind == "f"
    return None if is_float else _parts(emit, value, MOST_OPS)


def _parts(emit: Emitter, value: Value | None, most: int, ranks: int = 1) -> Parts | None:
    """The elements of a vector or a matrix, row by row, of integers, which floats may hold.

    Args:
        emit: adds the ops.
        value: the tensor.
        most: ops between it and what it is computed of.
        ranks: its largest rank.
    """
    array = value.value if isinstance(value, LogicalTensor) else value
    if array is not None:
        if array.ndim > ranks or array.size > MOST_NUMBERS or array.dtype.kind not in "biuf":
            return None
        is_held = array.dtype.kind != "f" or bool(np.all(np.abs(array) < LARGEST_FLOAT) and np.all(array % 1 == 0))
        return [*map(int, array.ravel().tolist())] if is_held else None
    op = emit.maker(value)
    if op is None or not most or op.kind not in RULES or len(known_dims(op.outputs[0].shape)) > ranks:
        return None
    if op.id not in emit.parts:  # else a few ops that each read one value twice would take for ever
        pieces = RULES[op.kind](op, InputReader(emit, most - 1))
        emit.parts[op.id] = [*map(_held, pieces)] if pieces is not None and _is_float(op) else pieces
    return emit.parts[op.id]


class InputReader(NamedTuple):
    """Reads the inputs of an op.

    ``most``: the ops between an input and what it is computed of.
    """

    emit: Emitter
    most: int

    def __call__(self, value: Value | None, ranks: int = 1) -> Parts | None:
        """The elements of an input, as of :func:`_parts`."""
        return _parts(self.emit, value, self.most, ranks)


Rule = Callable[[Op, InputReader], Parts | None]


def _is_float(op: Op) -> bool:
    return op.outputs[0].dtype.numpy.kind == "f"


def _held(number: int | None) -> int | None:
    """An integer that f32 holds exactly."""
    return number if number is not None and -LARGEST_FLOAT < number < LARGEST_FLOAT else None


def _shape(op: Op, _: InputReader) -> Parts | None:
    return _source(op).shape


def _source(op: Op) -> LogicalTensor:
    src = op.inputs[0]
    assert src is not None
    return src


def _same(op: Op, parts: InputReader) -> Parts | None:
    return parts(op.inputs[0], MATRIX)


def _cast(op: Op, parts: InputReader) -> Parts | None:
    if op.outputs[0].dtype in WIDE:
        return parts(op.inputs[0])
    return _towards(_cut)(op, parts) if op.outputs[0].dtype.numpy.kind in "iu" else None


def _slice(op: Op, parts: InputReader) -> Parts | None:
    rows, places = _rows(op.inputs[0], parts), [parts(input_) for input_ in op.inputs[1:]]
    numbers = [place[0] for place in places if place is not None and len(place) == 1]
    if rows is None or len(numbers) < len(places) or None in numbers:
        return None
    taken = slice(numbers[0], numbers[1], (*numbers[3:], 1)[0])
    rank = rank_of(op.outputs[0])
    rows = rows[taken] if rank == MATRIX and (*numbers[2:], 0)[0] in (0, -MATRIX) else [row[taken] for row in rows]
    return [number for row in rows for number in row]


def _transpose(op: Op, parts: InputReader) -> Parts | None:
    """The elements of a matrix column by column."""
    rows, order = _rows(op.inputs[0], parts), op.attrs.get("order")
    if rows is None or rank_of(op.outputs[0]) != MATRIX or order == (0, 1):
        return parts(op.inputs[0], MATRIX)
    return [number for column in zip(*rows, strict=True) for number in column]


def _rows(value: Value | None, parts: InputReader) -> list[Parts] | None:
    """The rows of a matrix; one of a vector."""
    cells, shape = parts(value, MATRIX), known_dims(None if value is None else shape_of(value))
    if cells is None or len(shape) < MATRIX:
        return None if cells is None else [cells]
    width = shape[-1]
    return [cells[at : at + width] for at in range(0, len(cells), width)] if type(width) is int and width else None


def _concat(op: Op, parts: InputReader) -> Parts | None:
    lists = [found for input_ in op.inputs if (found := parts(input_)) is not None]
    return [number for numbers in lists for number in numbers] if len(lists) == len(op.inputs) else None


def _gather(op: Op, parts: InputReader) -> Parts | None:
    src, places = parts(op.inputs[0]), parts(op.inputs[1])
    if src is None or places is None:
        return None
    return [src[at] if at is not None and -len(src) <= at < len(src) else None for at in places]


def _elementwise(function: Callable[..., int | None]) -> Rule:
    def rule(op: Op, parts: InputReader) -> Parts | None:
        operands = [operand for input_ in op.inputs if (operand := parts(input_)) is not None]
        count = max(map(len, operands), default=0)
        wide = [list(operand) * count if len(operand) == 1 else operand for operand in operands]
        if len(operands) < len(op.inputs) or any(len(operand) != count for operand in wide):
            return None
        return [*map(function, *wide)]

    return rule


def _both(function: Callable[[int, int], int | None]) -> Rule:
    return _elementwise(lambda a, b: None if a is None or b is None else _whole(function(a, b)))


def _towards(rounded: Callable[[int, int], int | None]) -> Rule:
    """A float as an integer: a quotient of integers, which f32 rounds to no other side of an integer."""

    def rule(op: Op, parts: InputReader) -> Parts | None:
        quotient = parts.emit.maker(op.inputs[0])
        if quotient is None or quotient.kind != "Divide" or not _is_float(quotient):
            return parts(op.inputs[0])
        return _both(rounded)(quotient, parts)

    return rule


def _up(first: int, second: int) -> int | None:
    return -(-first // second) if second > 0 else None


def _down(first: int, second: int) -> int | None:
    return first // second if second > 0 else None


def _cut(first: int, second: int) -> int | None:
    """The quotient, where it is the same rounded down and towards 0."""
    return first // second if first >= 0 and second > 0 else None


def _positive(number: int | None) -> int | None:
    return None if number is None else max(number, 0)


def _within(op: Op, parts: InputReader) -> Parts | None:
    numbers, ends = parts(op.inputs[0]), [op.attrs.get("min", -math.inf), op.attrs.get("max", math.inf)]
    if numbers is None or any(type(end) is not float or end % 1 not in (0, math.inf) for end in ends if end not in FAR):
        return None
    low, high = [None if end in FAR else int(end) for end in ends]  # type: ignore[arg-type]
    bounded = [number if number is None or low is None else max(number, low) for number in numbers]
    return [number if number is None or high is None else min(number, high) for number in bounded]


def _rest(first: int, second: int) -> int | None:
    """The rest of a division, where it is the same for both signs that a rest may have."""
    return first % second if first >= 0 and second > 0 else None


def _whole(number: int | None) -> int | None:
    return None if number is None else number + 0  # an int of a bool


def _quotient(op: Op, parts: InputReader) -> Parts | None:
    return None if _is_float(op) else _both(_cut)(op, parts)


def _product(op: Op, parts: InputReader) -> Parts | None:
    """The product of all numbers, such as the number of elements of a tensor."""
    numbers = parts(op.inputs[0])
    return None if numbers is None or op.attrs.get("axes", (0,)) not in ((0,), (-1,)) else [_multiplied(numbers)]


def _size(op: Op, _: InputReader) -> Parts | None:
    dims = _source(op).shape
    return None if dims is None else [_multiplied(dims)]


def _multiplied(numbers: Sequence[int | None]) -> int | None:
    return None if None in numbers else prod(known_dims(tuple(numbers)))


def _chosen(condition: int | None, first: int | None, second: int | None) -> int | None:
    if condition is None:
        return first if first == second else None
    return first if condition else second


RULES: dict[str, Rule] = {
    "Shape": _shape,
    **dict.fromkeys(RESHAPES, _same),
    "Cast": _cast,
    "Slice": _slice,
    "Transpose": _transpose,
    "Concat": _concat,
    "Gather": _gather,
    "Where": _elementwise(_chosen),
    "Add": _both(operator.add),
    "Subtract": _both(operator.sub),
    "Multiply": _both(operator.mul),
    "Divide": _quotient,
    "Mod": _both(_rest),
    "Ceil": _towards(_up),
    "Floor": _towards(_down),
    "Clamp": _within,
    "ReLU": _elementwise(_positive),
    "Maximum": _both(max),
    "Minimum": _both(min),
    "Equal": _both(operator.eq),
    "Greater": _both(operator.gt),
    "Less": _both(operator.lt),
    "ReduceProd": _product,
    "Size": _size,
}
