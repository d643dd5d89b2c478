"""Adds the host ops Pad and Tile as copies: of the source into its parts of the result, and of what lies around it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .ir.step import Step
from .ir.value import Dims, Value
from .kernels.cast import can_cast
from .kernels.strided_copy import can_copy
from .schedule import Schedule

MOST_COPIES = 32  # of one Pad; more are left to numpy
MOST_AXES = 12  # of a tensor in C
Box = list[tuple[int, int]]  # for each axis of the result, the first element and the number of elements


def add_tile(schedule: Schedule, step: Step) -> bool:
    """Add a Tile with known numbers as one copy, which reads the source again and again; False for other steps."""
    op, values = step.op, schedule.values
    if op.kind != "Tile":
        return False
    source, target = values[step.inputs[0]], values[step.outputs[0]]
    assert op.inputs[1] is not None
    counts = op.inputs[1].value
    if counts is None or not can_copy(target, target):
        return False
    shape, steps, places = list[int](), list[int](), list[int]()
    for dim, count, read, written in zip(source.shape, counts.tolist(), source.strides, target.strides, strict=True):
        if count != 1:
            shape, steps, places = [*shape, count], [*steps, 0], [*places, written * dim]
        shape, steps, places = [*shape, dim], [*steps, read], [*places, written]
    if len(shape) > MOST_AXES:
        return False
    note = schedule.note("copy", step, "which reads the source again and again", step.note)
    first = schedule.part(source, tuple(shape), tuple(steps), source.offset)
    schedule.cast((first,), (schedule.part(target, tuple(shape), tuple(places), target.offset),), note)
    return True


def add_pad(schedule: Schedule, step: Step) -> bool:
    """Add a Pad with known numbers; returns False for other steps, and adds nothing."""
    op, values = step.op, schedule.values
    if op.kind != "Pad":
        return False
    source, target = values[step.inputs[0]], values[step.outputs[0]]
    constants = [None if tensor is None else tensor.value for tensor in (*op.inputs[1:], None)]
    pads: list[int] = [] if constants[0] is None else constants[0].tolist()
    mode = op.attrs.get("mode", "constant")
    if not pads or not can_copy(target, target):
        return False
    if min(pads) < 0:
        source, pads = _cut(schedule, source, pads), [max(number, 0) for number in pads]
    inside = [*zip(pads[: len(source.shape)], source.shape, strict=True)]
    around: list[tuple[Box, Box | None]]
    if 0 in source.shape:
        return False
    if mode == "constant" and (constants[1] is not None or len(op.inputs) == 2):
        around = [(box, None) for box in _around(inside, target.shape)]
    elif mode == "edge":
        around = [*_repeated(inside, target.shape)]
    elif mode == "wrap" and _is_short(inside, target.shape, 1):
        around = [*_wrapped(inside, target.shape)]
    elif mode == "reflect" and _is_short(inside, target.shape):
        around = [*_mirrored(inside, target.shape)]
    else:
        return False
    if len(around) > MOST_COPIES:
        return False
    note = schedule.note("copy", step, "with the elements around it, by all threads", step.note)
    schedule.cast((source.id,), (_part(schedule, target, inside),), note)
    for box, border in around:
        if border is None:
            number = np.zeros((), source.dtype.numpy) if constants[1] is None else constants[1]
            array = number.reshape((1,) * len(source.shape))
            first = values.new(source.dtype, array.shape, "value", array)
        else:
            first = _part(schedule, target, border)
        part = _part(schedule, target, box)
        if not can_cast(values[first], values[part]):  # that kernel reads axes of size 1 again and again by itself
            first = _spread(schedule, first, box)
        schedule.cast((first,), (part,), note)
    return True


def _cut(schedule: Schedule, source: Value, pads: list[int]) -> Value:
    """What negative numbers of a Pad leave of its source."""
    rank = len(source.shape)
    begins, ends = ([max(-number, 0) for number in part] for part in (pads[:rank], pads[rank:]))
    sizes = [max(dim - begin - end, 0) for dim, begin, end in zip(source.shape, begins, ends, strict=True)]
    return schedule.values[_part(schedule, source, [*zip(begins, sizes, strict=True)])]


def _spread(schedule: Schedule, number: int, box: Box) -> int:
    """A value whose axes of size 1 are read again and again, until it has the size of a box; returns its id."""
    value, shape = schedule.values[number], tuple([size for _, size in box])
    strides = [0 if dim == 1 else stride for dim, stride in zip(value.shape, value.strides, strict=True)]
    return number if shape == value.shape else schedule.part(value, shape, tuple(strides), value.offset)


def _repeated(inside: Box, shape: Dims) -> Iterator[tuple[Box, Box]]:
    """Boxes before and behind each axis, and the element that is repeated there, whose other axes are filled before."""
    for axis, (before, dim) in enumerate(inside):
        last, done, left = before + dim - 1, [(0, size) for size in shape[:axis]], inside[axis + 1 :]
        for ends, place in (((0, before), before), ((last + 1, shape[axis] - last - 1), last)):
            if ends[1]:
                yield [*done, ends, *left], [*done, (place, 1), *left]


def _wrapped(inside: Box, shape: Dims) -> Iterator[tuple[Box, Box]]:
    """Boxes before and behind each axis, and the elements at the other end that are copied there."""
    for axis, (before, dim) in enumerate(inside):
        end, done, left = before + dim, [(0, size) for size in shape[:axis]], inside[axis + 1 :]
        for (first, size), place in (((0, before), dim), ((end, shape[axis] - end), before)):
            if size:
                yield [*done, (first, size), *left], [*done, (place, size), *left]


def _around(inside: Box, shape: Dims) -> Iterator[Box]:
    """Boxes that fill a result around the source."""
    for axis, (before, dim) in enumerate(inside):
        for ends in ((0, before), (before + dim, shape[axis] - before - dim)):
            if ends[1]:
                yield [*inside[:axis], ends, *[(0, size) for size in shape[axis + 1 :]]]


def _is_short(inside: Box, shape: Dims, more: int = 0) -> bool:
    """Whether each axis has as many elements as are mirrored, next to the one in which they are, or ``more``."""
    return all(max(before, end - before - dim) < dim + more for (before, dim), end in zip(inside, shape, strict=True))


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
