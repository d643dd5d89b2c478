"""The steps of a program, and the notes about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..capi import CompiledPartition, Partition
from ..ir.op import Array, Op
from .arithmetic import arithmetic_of
from .kernels import CompiledKernel
from .lowered import Step, Value
from .report import PartitionReport

# Writes the results of the first arrays into the second.
Run = Callable[[Sequence[Array | None], Sequence[Array]], None]


class CompiledStep(NamedTuple):
    """A compiled partition, or a kernel of the package, and the memory of its inputs and outputs.

    ``pieces``: the numbers of the pieces of memory of its inputs and outputs, in the order in which it was compiled.
    ``in_place``: pairs (output, input) of pieces; the output may reuse the memory of the input.
    ``again``: makes another partition of the same ops, of which the library keeps no constants yet.
    ``like``: the first compiled partition with the same ops and layouts, which takes as long.
    """

    compiled: CompiledPartition | CompiledKernel
    like: CompiledPartition | CompiledKernel
    pieces: Sequence[int]
    n_inputs: int
    in_place: Sequence[tuple[int, int]]
    note: int
    nbytes: int  # size of inputs and outputs
    flops: int = 0  # of products, as many of f32 as take the same time; 0 for other ops
    is_small: bool = False  # compiled for one thread
    is_quick: bool = False  # small, and known to take little time
    shifts: Sequence[int] = ()  # for each piece, bytes to its first element; empty if all are 0
    again: Callable[[], Partition] | None = None  # None if the library finds no constants of the step by a hash
    ends: Sequence[int] = ()  # the values that its ops read and write; the pieces may have copies of the former


def shifts_of(values: Sequence[Value]) -> Sequence[int]:
    """For each value the bytes from the start of its memory to its first element; empty if all are 0."""
    return [value.shift for value in values] if any(value.offset for value in values) else ()


class NumpyStep(NamedTuple):
    """One op that numpy runs; None stands for an absent optional input."""

    run: Run
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    note: int


class Ending(NamedTuple):
    """The end of a program.

    Attributes:
        n_steps: the number of steps that run last, together.
        variables: the names of the variables whose next values may take the place of the present ones.
    """

    n_steps: int
    variables: frozenset[str]


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
        return PartitionReport(index, self.executor, kinds, names, reasons, *ends, threads, arithmetic)


def _names(ops: Sequence[Op]) -> list[tuple[str, str]]:
    return [(op.kind, op.name) for op in ops]
