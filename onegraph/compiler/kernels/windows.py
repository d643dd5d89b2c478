"""Copies of the elements under each window, as rows of a matrix; the kernel for casts copies them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import gt, mul, sub
from typing import NamedTuple

import numpy as np

from ..ir.step import Step
from ..ir.value import Dims, Value, dense_of
from ..schedule import Schedule
from .adding import Adding
from .cast import CAST
from .kernel import Kernel


class Windows(NamedTuple):
    """The windows that a step of executor ``windows`` copies; one number for each spatial axis."""

    places: Dims
    kernel: Dims
    strides: Dims
    dilations: Dims
    pads_begin: Dims

    @property
    def reach(self) -> Dims:
        """The elements from the first one of the first window to the last one of the last."""
        axes = zip(self.places, self.kernel, self.strides, self.dilations, strict=True)
        return tuple([(n - 1) * stride + (size - 1) * dilation + 1 for n, size, stride, dilation in axes])


def windows_of(step: Step) -> Windows:
    """The windows of a step of executor ``windows``."""
    return Windows(*[step.attrs[name] for name in Windows._fields])  # type: ignore[arg-type]


def _add(adding: Adding, step: Step, _: Sequence[str]) -> str:
    """Add the copies. The channels of the source lie last."""
    schedule, source, target = adding.schedule, adding.values[step.inputs[0]], adding.values[step.outputs[0]]
    taken, is_first = windows_of(step), step.attrs["channels_first"]
    note = schedule.note("copy", step, "the elements under each window, side by side")
    if any(taken.pads_begin) or any(map(gt, taken.reach, source.shape[1:-1])):
        source = _padded(adding.schedule, source, taken, note)
    image, *between, inner = source.strides
    inside = [*map(mul, between, taken.dilations)]
    channels, kernel = source.shape[-1], taken.kernel
    shape = (source.shape[0], *taken.places, *((channels, *kernel) if is_first else (*kernel, channels)))
    row = (inner, *inside) if is_first else (*inside, inner)
    windows = schedule.part(source, shape, (image, *map(mul, between, taken.strides), *row), source.offset)
    schedule.copy_into(windows, schedule.part(target, shape, dense_of(shape), 0), note)
    return ""


def _padded(schedule: Schedule, source: Value, windows: Windows, note: int) -> Value:
    """A copy of what windows reach of images, with zeros around it."""
    batch, *places, channels = source.shape
    shape = (batch, *windows.reach, channels)
    target = schedule.new_value(source._replace(shape=shape, constant=None), dense_of(shape))
    zero = schedule.new_constant(np.zeros((1,) * len(shape), source.dtype.numpy), "zero")
    schedule.copy_into(zero, target.id, note)
    room = [*map(sub, windows.reach, windows.pads_begin)]
    if min(room) > 0:
        shape = (batch, *map(min, places, room), channels)
        offset = sum(map(mul, windows.pads_begin, target.strides[1:]))
        parts = (source, source.offset), (target, offset)
        first, second = (schedule.part(value, shape, value.strides, start) for value, start in parts)
        schedule.copy_into(first, second, note)
    return target


WINDOWS = Kernel(CAST.name, executor="windows", is_dense=False, is_movement=True, add=_add)
KERNELS = (WINDOWS,)
