"""Adds Concats as copies into the parts of their results, by the kernel for casts."""

from __future__ import annotations

from .ir.step import Step
from .kernels.cast import can_cast
from .report import nbytes
from .schedule import Schedule

LARGE_CONCAT = 1 << 15  # bytes


class Concats:
    """Adds Concats to a schedule.

    Args:
        schedule: the schedule of a graph.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule, self._values = schedule, schedule.values
        self._complete: set[int] = set()  # ids of the Concats whose result is complete

    def add(self, step: Step) -> bool:
        """Add a Concat as one copy for each source; returns False for other steps, and adds nothing.

        The library's Concat copies with one thread, 3 to 10 GB/s. A small one is faster as one step, which would be
        compiled for each size.
        """
        schedule, target = self._schedule, self._values[step.outputs[0]]
        first = schedule.grown.get(step.id)
        if step.kind != "Concat":
            return False
        if not schedule.changes and nbytes(target) < LARGE_CONCAT and target.dense and first is None:
            return False
        if not all(can_cast(self._values[number], target) for number in step.inputs):
            return False
        self._complete.add(step.id)
        known = len(first.inputs) if first is not None and first.id in self._complete else 0
        axis = int(step.attrs.get("axis", step.op.attrs.get("axis"))) % len(target.shape)  # type: ignore[arg-type]
        note, start = schedule.note("copy", step, "into parts of the result", step.note), 0
        for index, source in enumerate([self._values[number] for number in step.inputs]):
            offset = target.offset + start * target.strides[axis]
            start += source.shape[axis]
            if index >= known:
                schedule.copy_into(source.id, schedule.part(target, source.shape, target.strides, offset), note)
        return True
