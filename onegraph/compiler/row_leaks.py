"""Adds the steps that compute a product again where its kernel would let NaN and infinities into other rows.

The library's kernel runs first. If an element of the source is NaN or infinite, which one look at the source tells, the
same ops run again in f32, one by one, and write their results over those of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import UnsupportedError
from ..faults.leaks import SOURCES
from ..faults.ops import faults_of
from ..native.library import VERSION
from ..opset.dtypes import DataType
from ..opset.kinds import PLACING
from ..opset.schema import TensorType
from .ir.part import Part
from .ir.step import Step
from .kernels.kernel import FLOATS, Kernel
from .kernels.when_special import BEGIN, END
from .passes.row_leaks import LEAKS
from .schedule import Schedule
from .steps import CompiledStep, NumpyStep

AGAIN = "computed again in f32 if an element of the source is NaN or infinite, which reaches other rows in oneDNN"
ORDERS = PLACING - {"Concat"}  # ops whose result has the elements of the source


class RowLeaks:
    """Adds steps to a schedule.

    Args:
        schedule: the schedule of a graph.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule, self._values = schedule, schedule.values

    def refusal(self, steps: Sequence[Step]) -> str:
        """Why some steps must not be one partition; empty if they may."""
        if not any(LEAKS in step.attrs for step in steps):
            return ""
        ends = {number for step in steps for number in (*step.inputs, *step.outputs)}
        if any(self._values[number].dtype not in FLOATS for number in ends) or self._sources(steps) is None:
            return "NaN would reach other rows inside of the partition, so that the ops run one by one"
        wide = [_in_f32(step) for step in steps if step.kind != "TypeCast"]
        found = next((fault for part in wide for fault in faults_of(part.call, VERSION)), None)
        return "" if found is None else f"NaN would reach other rows, and in f32 {found.reason}"

    def refuse(self, step: Step) -> None:
        """Raise UnsupportedError if a step must not be a partition."""
        if reason := self.refusal((step,)):
            raise UnsupportedError(reason)

    def add(self, steps: Sequence[Step], results: Sequence[int], first: int, add_step: Callable[[Step], None]) -> None:
        """Add what computes steps again that the library has computed, if one of them lets NaN into other rows.

        Args:
            steps: the steps of a partition.
            results: the values that others read.
            first: the number of notes before the partition was added.
            add_step: adds one step to the schedule.
        """
        if not any(LEAKS in step.attrs for step in steps):
            return
        schedule, sources = self._schedule, self._sources(steps)
        assert sources is not None
        note = next(index for index in range(first, len(schedule.notes)) if schedule.notes[index].steps)
        schedule.notes[note] = schedule.notes[note]._replace(reasons=(*schedule.notes[note].reasons, AGAIN))
        numbers = [schedule.forwards(number) for number in dict.fromkeys(sources)]
        begin, count = len(schedule.steps), len(schedule.notes)
        self._add_mark(BEGIN, numbers, note)
        self._add_again(steps, results, add_step)
        del schedule.notes[count:]
        added = schedule.steps[begin + 1 :]
        self._add_mark(END, numbers, note)
        if any(isinstance(step, NumpyStep) for step in added):  # a run cannot pass over these
            schedule.steps[begin] = schedule.steps[-1]
        schedule.steps[begin + 1 : begin + 1 + len(added)] = [
            step._replace(note=note, is_quick=True) if isinstance(step, CompiledStep) else step._replace(note=note)
            for step in added
        ]

    def _add_mark(self, kernel: Kernel, numbers: Sequence[int], note: int) -> None:
        self._schedule.add_kernel(kernel.name, [self._values[number] for number in numbers], (), note)

    def _add_again(self, steps: Sequence[Step], results: Sequence[int], add_step: Callable[[Step], None]) -> None:
        """Add the steps in f32, without constants: the library must keep nothing of steps that may never run."""
        at: dict[int, int] = {}
        for step in steps:
            for number in step.inputs:
                if number not in at:
                    at[number] = self._in_f32(number)
                    if at[number] != number:
                        add_step(_cast(steps[0], number, at[number]))
            if step.kind == "TypeCast":
                at[step.outputs[0]] = at[step.inputs[0]]
                continue
            at.update((number, self._in_f32(number)) for number in step.outputs)
            part = _in_f32(step)
            inputs, outputs = (tuple([at[number] for number in ends]) for ends in (step.inputs, step.outputs))
            add_step(step._replace(inputs=inputs, outputs=outputs, attrs=part.attrs, part=part, whole=False))
        for number in results:
            add_step(_cast(steps[-1], at[number], number))

    def _in_f32(self, number: int) -> int:
        """A new value for the numbers of another one in f32."""
        value = self._values[number]
        return self._values.new(DataType.f32, value.shape, f"{value.name} (f32)")

    def _sources(self, steps: Sequence[Step]) -> list[int] | None:
        """The values that the leaking products of a partition read, in another order maybe; None if it makes one."""
        makers = {number: step for step in steps for number in step.outputs}
        found = []
        for step in steps:
            for port in SOURCES[step.kind] if LEAKS in step.attrs else ():
                number = step.inputs[port]
                while number in makers and makers[number].kind in ORDERS:
                    number = makers[number].inputs[0]
                if number in makers:
                    return None
                found.append(number)
        return found


def _in_f32(step: Step) -> Part:
    """The op of a step with f32 in the place of the other types."""
    assert step.part is not None
    types, outputs = (
        tuple([TensorType(DataType.f32, end.shape) for end in ends]) for ends in (step.part.types, step.part.outputs)
    )
    return Part(step.part.kind, step.part.attrs, step.part.inputs, types, outputs)


def _cast(step: Step, source: int, target: int) -> Step:
    """A cast for the op of a step."""
    return step.instead("copy", (source,), (target,), kind="TypeCast")
