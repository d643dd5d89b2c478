"""Adds the steps that kernels of the package run to a schedule."""

from __future__ import annotations

from collections.abc import Sequence

from ..edge_layouts import EdgeLayouts
from ..ir.lowered import Lowered
from ..ir.step import Step
from ..ir.value import Value, dense_of
from ..notes import Note
from ..schedule import Schedule
from .kernel import Kernel, refusal

STRIDED_OUTPUT = "the output has strides"


class Adding:
    """Adds steps to a schedule.

    Args:
        lowered: the graph.
        schedule: its schedule.
        edges: the layouts of its values.
    """

    def __init__(self, lowered: Lowered, schedule: Schedule, edges: EdgeLayouts) -> None:
        self.lowered, self.schedule, self.values, self.edges = lowered, schedule, schedule.values, edges

    def at(self, numbers: Sequence[int]) -> list[Value]:
        """The values of these ids."""
        return [self.values[number] for number in numbers]

    def add(self, kernel: Kernel, step: Step, *reasons: str) -> str:
        """Add a step that a kernel runs; returns why it does not take the step, and adds nothing then."""
        return self.plainly(kernel, step, reasons) if kernel.add is None else kernel.add(self, step, reasons)

    def note_also(self, reason: str) -> int:
        """Add a reason to the last note, about the step that the library computes first; returns its index."""
        notes = self.schedule.notes
        notes[-1] = notes[-1]._replace(reasons=(*notes[-1].reasons, reason))
        return len(notes) - 1

    def plainly(self, kernel: Kernel, step: Step, reasons: Sequence[str]) -> str:
        """Add a step whose values are those of the kernel, in the layouts that it takes."""
        schedule, inputs = self.schedule, step.inputs[: kernel.n_read]
        if refused := refusal(kernel.takes, self.at((*inputs, *step.outputs))):
            return refused
        if kernel.is_dense:
            schedule.take_back([value.id for value in self.at(step.outputs) if not value.dense])
        wanted = self.at(step.outputs)
        ins = [self._readable(kernel, value) for value in self.at(inputs)]
        outs = [
            schedule.new_value(value, dense_of(value.shape)) if kernel.is_dense and not value.dense else value
            for value in wanted
        ]
        executor, texts = "copy" if kernel.is_movement else "kernel", (kernel.reason,) if kernel.reason else (*reasons,)
        schedule.notes.append(Note(executor, step.members or (step,), texts, ins, outs))
        pairs = in_place_pairs(ins if kernel.overwrites else ins[: kernel.changes], outs)
        note, numbers = len(schedule.notes) - 1, kernel.numbers(step)
        schedule.add_kernel(kernel.name, ins, outs, note, numbers, pairs, varies=kernel.varies, rows=kernel.rows)
        for source, target in zip(outs, wanted, strict=True):
            if source is not target:
                schedule.add_copy(source, target, step, STRIDED_OUTPUT)
        return ""

    def _readable(self, kernel: Kernel, value: Value) -> Value:
        is_taken = value.dense if kernel.is_dense else not value.irregular
        return value if is_taken else self.values[self.schedule.dense_copy(value)]


def in_place_pairs(inputs: Sequence[Value], outputs: Sequence[Value]) -> list[tuple[int, int]]:
    """Pairs of memory in which an output may lie over an input, the last inputs first; see ``CompiledStep``."""
    like = [value for value in inputs if value.shape == outputs[0].shape]
    return [
        (target.storage, source.storage)
        for target, source in zip(outputs, reversed(like), strict=False)
        if target.dtype is source.dtype and not source.offset
    ]
