"""Adds the host op Pad as copies: of the source into its part of the result, and of what lies around it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..opset.editions.registry import HOST
from .ir.step import Step
from .ir.value import Dims, Value
from .kernels.cast import can_cast
from .schedule import Schedule

MOST_COPIES = 32  # of one Pad; more are left to numpy
Box = list[tuple[int, int]]  # for each axis of the result, the first element and the number of elements


def add_pad(schedule: Schedule, step: Step) -> bool:
    """Add a Pad with known numbers that cut nothing; returns False for other steps, and adds nothing."""
    op, values = step.op, schedule.values
    if op.kind != "Pad" or op.edition != HOST:
        return False
    source, target = values[step.inputs[0]], values[step.outputs[0]]
    constants = [None if tensor is None else tensor.value for tensor in (*op.inputs[1:], None)]
    pads = [] if constants[0] is None else [int(number) for number in constants[0].tolist()]
    if not pads or min(pads) < 0 or not can_cast(source, target):
        return False
    inside = [*zip(pads[: len(source.shape)], source.shape, strict=True)]
    mode = op.attrs.get("mode", "constant")
    around: list[tuple[Box, Box | None]]
    if mode == "constant" and (constants[1] is not None or len(op.inputs) == 2):
        around = [(box, None) for box in _around(inside, target.shape)]
    elif mode == "reflect" and _is_short(inside, target.shape):
        around = [*_mirrored(inside, target.shape)]
    else:
        return False
    if len(around) > MOST_COPIES:
        return False
    note = schedule.note("copy", step, "with the elements around it, by all threads", step.note)
    schedule.copy_into(source.id, _part(schedule, target, inside), note)
    for box, border in around:
        if border is None:
            number = np.zeros((), source.dtype.numpy) if constants[1] is None else constants[1]
            first = schedule.new_constant(number.reshape((1,) * len(source.shape)), "value")
        else:
            first = _part(schedule, target, border)
        schedule.copy_into(first, _part(schedule, target, box), note)
    return True


def _around(inside: Box, shape: Dims) -> Iterator[Box]:
    """Boxes that fill a result around the source."""
    for axis, (before, dim) in enumerate(inside):
        for ends in ((0, before), (before + dim, shape[axis] - before - dim)):
            if ends[1]:
                yield [*inside[:axis], ends, *[(0, size) for size in shape[axis + 1 :]]]


def _is_short(inside: Box, shape: Dims) -> bool:
    """Whether each axis has as many elements as are mirrored, next to the one in which they are."""
    return all(max(before, end - before - dim) < dim for (before, dim), end in zip(inside, shape, strict=True))


def _mirrored(inside: Box, shape: Dims) -> Iterator[tuple[Box, Box]]:
    """Boxes of one element along an axis, and those that they are copied from, which are filled before."""
    for axis, (before, dim) in enumerate(inside):
        last = before + dim - 1
        places = [(before - step, before + step) for step in range(1, before + 1)]
        places += [(last + step, last - step) for step in range(1, shape[axis] - last)]
        done, left = [(0, size) for size in shape[:axis]], inside[axis + 1 :]
        yield from (([*done, (to, 1), *left], [*done, (place, 1), *left]) for to, place in places)


def _part(schedule: Schedule, value: Value, box: Box) -> int:
    """A new value: the elements of a box; returns its id."""
    offset = sum(start * step for (start, _), step in zip(box, value.strides, strict=True))
    return schedule.part(value, tuple([size for _, size in box]), value.strides, value.offset + offset)
