"""The notes about the steps of a program, of which its report is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..ir.op import Op
from .arithmetic import arithmetic_of
from .ir.step import Step
from .ir.value import Value
from .report import PartitionReport


class Note(NamedTuple):
    """The executor of some steps, and the reasons. Without steps, the note is about a copy of the input."""

    executor: str
    steps: Sequence[Step]
    reasons: tuple[str, ...]
    inputs: Sequence[Value]
    outputs: Sequence[Value]

    def report(self, index: int, threads: int | None) -> PartitionReport:
        """The report of partition ``index`` of a program, which runs with this number of threads."""
        reasons = self.reasons
        if self.executor == "oneDNN":
            reasons = (*reasons, *[step.note for step in self.steps])
        ops = [named for step in self.steps for named in ((step.label, step.op.name), *_names(step.folded))]
        kinds, names = zip(*ops, strict=True) if ops else (("copy of",), (self.inputs[0].name,))
        ends = tuple(self.inputs), tuple(self.outputs)
        computes = self.executor in ("oneDNN", "kernel", "reference", "host") and bool(self.steps)
        arithmetic = arithmetic_of(self.steps, self.inputs) if computes else ""
        refused = tuple(dict.fromkeys(text for step in self.steps for text in step.refused))
        return PartitionReport(index, self.executor, kinds, names, reasons, *ends, threads, arithmetic, refused)


def _names(ops: Sequence[Op]) -> list[tuple[str, str]]:
    return [(op.kind, op.name) for op in ops]
