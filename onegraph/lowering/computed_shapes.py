"""Finds the elements of a computed shape that are known, such as the channels in a shape of which the batch is unknown.

The shape functions of ops see known contents alone. So a Reshape to a computed shape has a result of unknown dims, and
what is known of them gets lost, unless another op states it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod

from ..ir.op import LogicalTensor, Op
from ..opset.kinds import HOST_RESHAPES
from .emitter import Emitter, Parts, Value, shape_of

MOST_OPS = 32  # between the shape and what it is computed of
MOST_NUMBERS = 1 << 10  # of a vector; shapes and what they are computed of have fewer


def known_parts(emit: Emitter, value: Value | None, most: int = MOST_OPS) -> Parts | None:
    """The elements of a vector of integers, or of a single one; None if their number is unknown."""
    array = value.value if isinstance(value, LogicalTensor) else value
    if array is not None:
        is_read = array.ndim < 2 and array.size <= MOST_NUMBERS and array.dtype.kind in "biu"
        return array.reshape(-1).tolist() if is_read else None
    op = emit.maker(value)
    rule = None if op is None or not most or len(shape_of(op.outputs[0]) or ()) > 1 else RULES.get(op.kind)
    if rule is None or op is None:
        return None
    if op.id not in emit.parts:  # else a few ops that each read one value twice would take for ever
        emit.parts[op.id] = rule(op, lambda input_: known_parts(emit, input_, most - 1))
    return emit.parts[op.id]


Read = Callable[[Value | None], Parts | None]  # known_parts of an input
Rule = Callable[[Op, Read], Parts | None]


def _shape(op: Op, _: Read) -> Parts | None:
    return None if op.inputs[0] is None else op.inputs[0].shape


def _same(op: Op, parts: Read) -> Parts | None:
    return parts(op.inputs[0])


def _cast(op: Op, parts: Read) -> Parts | None:
    return parts(op.inputs[0]) if op.outputs[0].dtype.numpy.kind in "iu" else None


def _slice(op: Op, parts: Read) -> Parts | None:
    src, places = parts(op.inputs[0]), [parts(input_) for input_ in op.inputs[1:]]
    numbers = [place[0] for place in places if place is not None and len(place) == 1]
    if src is None or len(numbers) < len(places) or None in numbers:
        return None
    step = numbers[3] if len(numbers) > 3 else 1
    return src[numbers[0] : numbers[1] : step]


def _concat(op: Op, parts: Read) -> Parts | None:
    lists = [parts(input_) for input_ in op.inputs]
    return None if None in lists else [number for numbers_ in lists for number in numbers_ or ()]


def _gather(op: Op, parts: Read) -> Parts | None:
    src, places = parts(op.inputs[0]), parts(op.inputs[1])
    if src is None or places is None:
        return None
    return [src[at] if at is not None and -len(src) <= at < len(src) else None for at in places]


def _elementwise(function: Callable[..., int | None]) -> Rule:
    def rule(op: Op, parts: Read) -> Parts | None:
        operands = [operand for operand in map(parts, op.inputs) if operand is not None]
        count = max(map(len, operands), default=0)
        wide = [list(operand) * count if len(operand) == 1 else operand for operand in operands]
        if len(operands) < len(op.inputs) or any(len(operand) != count for operand in wide):
            return None
        return [*map(function, *wide)]

    return rule


def _both(function: Callable[[int, int], int | None]) -> Rule:
    return _elementwise(lambda a, b: None if a is None or b is None else _whole(function(a, b)))


def _whole(number: int | None) -> int | None:
    return None if number is None else number + 0  # an int of a bool


def _divided(first: int, second: int) -> int | None:
    """The quotient, where it is the same rounded down and towards 0."""
    return first // second if first >= 0 and second > 0 else None


def _product(op: Op, parts: Read) -> Parts | None:
    """The product of all numbers, such as the number of elements of a tensor."""
    numbers = parts(op.inputs[0])
    return None if numbers is None or op.attrs.get("axes", (0,)) not in ((0,), (-1,)) else [_multiplied(numbers)]


def _size(op: Op, _: Read) -> Parts | None:
    dims = None if op.inputs[0] is None else op.inputs[0].shape
    return None if dims is None else [_multiplied(dims)]


def _multiplied(numbers: Sequence[int | None]) -> int | None:
    return None if None in numbers else prod(number or 0 for number in numbers)


def _chosen(condition: int | None, first: int | None, second: int | None) -> int | None:
    if condition is None:
        return first if first == second else None
    return first if condition else second


RULES: dict[str, Rule] = {
    "Shape": _shape,
    **dict.fromkeys(HOST_RESHAPES, _same),
    "Cast": _cast,
    "Slice": _slice,
    "Concat": _concat,
    "Gather": _gather,
    "Where": _elementwise(_chosen),
    "Add": _both(operator.add),
    "Subtract": _both(operator.sub),
    "Multiply": _both(operator.mul),
    "Divide": _both(_divided),
    "Maximum": _both(max),
    "Minimum": _both(min),
    "Equal": _both(operator.eq),
    "Greater": _both(operator.gt),
    "Less": _both(operator.lt),
    "ReduceProd": _product,
    "Size": _size,
}
