"""Chooses how the steps of a program run, so that results have the same bits for any number of threads and any batch.

The kernels of the library add numbers in an order that may depend on the number of threads and on the batch that they
were compiled for. Every step therefore has a canonical form: compiled for one thread and, if its rows are independent,
for the smallest part of the batch. The step is compiled for the largest number of threads with which it computes the
bits of its canonical form. If there is none, it runs in its canonical form, part by part.

The comparison is made at compilation, with random numbers, so it covers every kernel of every version of the library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ..capi import CompiledPartition, LogicalTensor
from ..capi.engine import default_engine
from ..capi.threads import ThreadCount, restore_threads
from ..errors import OneGraphError, OutOfMemoryError, UnsupportedError
from ..opset.kinds import PLACING
from .independent_rows import independent_parts
from .ir.lowered import Lowered
from .ir.step import Step
from .ir.value import Dims, Value, Values, dense_of
from .kernels.native import CompiledKernel
from .notes import Note
from .passes.winograd import OF_ONE_IMAGE
from .schedule import Schedule
from .steps import CompiledStep
from .thread_tuning import Made, compiled_for, powers_of_two
from .to_capi import capi_graph, capi_tensor

# Ops whose kernel of the package adds up what its threads have computed.
SHARED = frozenset(["AttentionBackward"])
# Ops that only move or round elements, one by one.
EXACT = PLACING | {"TypeCast"}

AGREED = "reproducible"
FIXED = "reproducible for this batch alone, because its rows depend on each other"
FEWER = "on {} of {} threads, because on more the kernel adds in another order"
BY_PART = "reproducible in {} parts of the batch, because the kernel for the whole adds in another order"


class StepComparison(NamedTuple):
    """A step to be compared with its canonical form.

    Attributes:
        step: the step, compiled for ``threads`` threads.
        threads: their number.
        canonical: the step for a part, by the number of the part. Its pieces are the ports of ``step``.
        parts: the number of parts; 1 if the canonical form is the whole on one thread.
        tensors: the values at the ports of the step, inputs first.
        divided: for each of them, whether it is divided along its first axis.
    """

    step: CompiledStep
    threads: int
    canonical: Callable[[int], CompiledStep]
    parts: int
    tensors: Sequence[Value]
    divided: Sequence[bool]


class Choice(NamedTuple):
    """How a step runs: the steps for it, one after another, their number of threads, and the reason."""

    steps: Sequence[CompiledStep]
    threads: int
    reason: str


class Reproducible:
    """Chooses how the steps of a schedule run.

    Args:
        lowered: the graph.
        fpmath_mode: name of the library's mode.
        schedule: the schedule of the graph.
        agrees: whether the two forms of a case compute the same bits.
    """

    def __init__(
        self, lowered: Lowered, fpmath_mode: str, schedule: Schedule, agrees: Callable[[StepComparison], bool]
    ) -> None:
        self._lowered = replace(lowered, values=schedule.values)
        self._fpmath_mode, self._notes, self._agrees = fpmath_mode, schedule.notes, agrees
        self._known: dict[object, tuple[int, str]] = {}
        self._made: Made = {}

    def choose(self, steps: Sequence[CompiledStep], counts: Sequence[int], limit: int) -> list[Choice]:
        """How each step runs.

        Args:
            steps: the steps.
            counts: the number of threads that each step is to use; 0 for ``limit``. A step may get fewer.
            limit: the largest number of threads.
        """
        return [self._chosen(step, count, limit) for step, count in zip(steps, counts, strict=True)]

    def _chosen(self, step: CompiledStep, count: int, limit: int) -> Choice:
        note, compiled = self._notes[step.note], step.compiled
        kinds = {step.kind for step in note.steps}
        if kinds <= SHARED:
            return Choice([step], 1, _joined(AGREED, 1, count or limit))
        if isinstance(compiled, CompiledKernel) or kinds <= EXACT:
            return Choice([step], count, "")
        key = step.like, count
        if key not in self._known:
            self._known[key] = self._decided(step, note, count or limit)
        threads, reason = self._known[key]
        if not threads:
            form = _Part(step, note, self._lowered, self._fpmath_mode)
            return Choice([form.step(index) for index in range(form.count)], 1, reason)
        fresh: Made = {} if step.again is not None else self._made  # constants of the others are prepared
        return Choice([compiled_for(step, threads, fresh)], threads, reason)

    def _decided(self, step: CompiledStep, note: Note, most: int) -> tuple[int, str]:
        """The number of threads, 0 for the canonical form; and the reason."""
        tensors, form, reason = [*note.inputs, *note.outputs], None, AGREED
        if not step.ends:  # an elementwise op on fewer axes
            return most, AGREED
        produced = {number for part in note.steps for number in part.outputs}
        if not {number for part in note.steps for number in part.inputs} - produced <= {*step.ends}:
            return 1, FIXED  # ops on other values than those of its note, such as those that run for NaN alone
        try:
            form = _Part(step, note, self._lowered, self._fpmath_mode)
        except OutOfMemoryError:
            raise
        except OneGraphError:
            reason = AGREED if note.steps[0].note == OF_ONE_IMAGE else FIXED
        divided = [form is not None and number in form.values for number in step.ends]
        for count in (most, *reversed(powers_of_two(most))):
            trial = compiled_for(step, count, self._made)
            if form is None and count == 1:
                return 1, _joined(reason, count, most)
            canonical = partial(_on_one_thread, step, self._made) if form is None else form.on_ports
            if self._agrees(
                StepComparison(trial, count, canonical, 1 if form is None else form.count, tensors, divided)
            ):
                return count, _joined(reason, count, most)
        assert form is not None
        return 0, BY_PART.format(form.count)


def _on_one_thread(step: CompiledStep, variants: Made, part: int) -> CompiledStep:
    return compiled_for(step, 1, variants)._replace(pieces=range(len(step.pieces)), shifts=())


def _joined(reason: str, count: int, most: int) -> str:
    return reason if count == most else f"{reason}, {FEWER.format(count, most)}"


class _Part:
    """A step compiled for one part of the batch, and one thread.

    Args:
        step: the step.
        note: its note.
        lowered: the graph, with the values of the schedule.
        fpmath_mode: name of the library's mode.

    Raises:
        OneGraphError: the step has no independent parts, or the library refuses one.

    Attributes:
        values: ids of the values that are divided.
        count: the number of parts.
    """

    def __init__(self, step: CompiledStep, note: Note, lowered: Lowered, fpmath_mode: str) -> None:
        parts = independent_parts(note.steps, lowered.values)
        if parts is None:
            raise UnsupportedError("rows depend on each other")
        self.values, self.count, self._whole = parts.values, parts.number, step
        ends = [
            value._replace(id=number) for number, value in zip(step.ends, (*note.inputs, *note.outputs), strict=True)
        ]
        ports = {number: port for port, number in enumerate(step.ends)}
        strides = {value.id: value.strides for value in ends}
        values = {n: self._part_of(value, strides.get(n)) for n, value in lowered.values.items() if n in parts.values}
        divided = replace(lowered, values=Values(lowered.values | {value.id: value for value in ends} | values))
        results = step.ends[step.n_inputs :]
        graph, _ = capi_graph(divided, fpmath_mode, [_with_shape(step, values) for step in note.steps], results)
        partitions = graph.partitions("fusion" if len(note.steps) > 1 else "debug")
        partition = next((candidate for candidate in partitions if len(candidate.ops) == len(note.steps)), None)
        if partition is None:
            raise UnsupportedError("the library finds another partition for a part of the batch")
        assert isinstance(step.compiled, CompiledPartition)
        kinds = [tensor.property for tensor in step.compiled.inputs]
        inputs = [*dict.fromkeys(partition.input_ids)]
        outputs = [*partition.output_ids]
        self._order = [ports[number] for number in (*inputs, *outputs)]
        self._bytes = [_first_axis(values[number]) if number in values else 0 for number in (*inputs, *outputs)]
        ins = [capi_tensor(number, divided.values[number], kinds[ports[number]]) for number in inputs]
        outs = [_with_strides(number, divided.values[number]) for number in outputs]
        threads = ThreadCount()
        try:
            threads.use(1)
            self._compiled = CompiledPartition._checked(partition, ins, outs, default_engine())
        finally:
            restore_threads(threads.before)

    def _part_of(self, value: Value, strides: Dims | None) -> Value:
        shape = (value.shape[0] // self.count, *value.shape[1:])
        return value._replace(shape=shape, strides=strides or dense_of(shape))

    def on_ports(self, index: int) -> CompiledStep:
        """The step for a part, with the ports of the whole step as pieces."""
        shifts = [index * size for size in self._bytes]
        return self._whole._replace(compiled=self._compiled, pieces=self._order, shifts=shifts, in_place=())

    def step(self, index: int) -> CompiledStep:
        """The step for a part."""
        first, pieces = self._whole.shifts or [0] * len(self._order), self._whole.pieces
        shifts = [first[port] + index * size for port, size in zip(self._order, self._bytes, strict=True)]
        return self.on_ports(index)._replace(pieces=[pieces[port] for port in self._order], shifts=shifts)


def _with_shape(step: Step, values: dict[int, Value]) -> Step:
    """The step of a part; the shape of a StaticReshape is in an attribute."""
    if step.kind != "StaticReshape" or step.part is None or step.outputs[0] not in values:
        return step
    attrs = {**step.attrs, "shape": values[step.outputs[0]].shape, "special_zero": False}
    return step._replace(attrs=attrs, part=replace(step.part, attrs=attrs))


def _first_axis(value: Value) -> int:
    """Bytes from the start of a part to the start of the next."""
    return value.shape[0] * value.strides[0] * value.dtype.numpy.itemsize


def _with_strides(number: int, value: Value) -> LogicalTensor:
    return LogicalTensor._checked(number, value.dtype, value.shape, value.strides)
