"""A graph compiled for inputs of known shapes: its steps, where every value lies, and how many threads a step gets."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np

from .._util.fork_safety import cached_property
from ..arrays.ndarrays import aligned_empty, laid_empty, owners, strided
from ..builder.graph import DataGraph
from ..capi.settings import is_aligned
from ..capi.thread_affinity import calling_thread
from ..capi.threads import ThreadCount, get_num_threads, restore_threads
from ..compiler.compile import compile_steps
from ..compiler.lower import Value, lower
from ..compiler.memory_planner import Lifetime, aligned, plan_memory
from ..compiler.report import PartitionReport, nbytes
from ..compiler.schedule import Schedule
from ..compiler.steps import LibraryStep, NumpyStep
from ..compiler.thread_tuning import LONG_SECONDS, share_threads
from ..errors import UnsupportedError
from ..ir.op import Array
from ..native.library import address_of, lib
from .plan import Plan, PlanSource, plan_error

ARENA = 0  # the slot of what lies inside
# A program that needs more bytes than this is not run for measurement: its steps get every thread.
HUGE = 2**30

Threads = int | Mapping[int, int] | None


class Program:
    """Compiled steps of a graph with known shapes. It is immutable; a :class:`Frame` holds the memory of one run.

    Every piece of memory has a slot: 0 is the arena, where intermediates share one block; then come the graph inputs,
    the graph outputs that steps write into, and the constants.

    Args:
        graph: every shape of it known.
        policy, fallback, fpmath_mode, threads: as for :meth:`onegraph.Graph.compile`.

    Raises:
        UnsupportedError: with ``fallback=False``: what the library does not support, with the reasons.
    """

    def __init__(
        self, graph: DataGraph, *, policy: str, fallback: bool, fpmath_mode: str, threads: Threads = None
    ) -> None:
        count, share = ThreadCount(), not isinstance(threads, int)
        try:
            count.use(threads if isinstance(threads, int) else None)
            schedule = compile_steps(lower(graph), policy=policy, fpmath_mode=fpmath_mode, share=share)
        finally:
            restore_threads(count.before)
        if not fallback:
            _refuse_fallback([note.report(0, None) for note in schedule.notes if note.executor == "reference"])
        self.graph = graph
        self.values = schedule.values
        self.free_frames: list[Frame] = []  # of finished calls, for the next ones
        self._place_values(schedule)
        self._plan(schedule, threads)

    # Where everything lies -------------------------------------------------------------------------------------------

    def _place_values(self, schedule: Schedule) -> None:
        """Give every piece of memory its slot, and every intermediate its offset in the arena."""
        written, last = self._liveness(schedule.steps)
        names = self._choose_outputs(written)
        # (name, value) of the outputs that steps write into; of two names for one value the last has it.
        self.direct = tuple((name, number) for number, name in names.items())
        # Those that are inputs, constants, views, or second names, and are filled at the end.
        self.copied = tuple((name, t.id) for name, t in self.graph.outputs.items() if names.get(t.id) != name)
        last.update((self.values[number].storage, len(schedule.steps)) for _, number in self.copied)
        inputs = [tensor.id for tensor in self.graph.inputs.values()]
        self.external = (*inputs, *names)
        self.constants = {
            number: constant if is_aligned(constant) else _copied(constant)
            for number in last
            if (constant := self.values[number].constant) is not None
        }
        self.slots = {number: slot for slot, number in enumerate((*self.external, *self.constants), ARENA + 1)}
        in_place = _in_place(schedule.steps)
        lifetimes = [
            Lifetime(number, aligned(schedule.sizes.get(number) or nbytes(self.values[number])), start, last[number])
            for number, start in written.items()
            if number not in self.slots
        ]
        self.offsets, self.arena_size = plan_memory(lifetimes, in_place)
        # Outputs, each with the input upon which it may lie where the caller gives that up.
        self.in_place = {
            target: source
            for target, source in in_place.items()
            if target in names and source in inputs and last[source] == written[target]
        }
        self._places = {number: (slot, 0) for number, slot in self.slots.items()}
        self._places.update((number, (ARENA, offset)) for number, offset in self.offsets.items())

    def _liveness(self, steps: Sequence[LibraryStep | NumpyStep]) -> tuple[dict[int, int], dict[int, int]]:
        """For each piece of memory the step that writes it first, and the step that uses it last."""
        written: dict[int, int] = {}
        last: dict[int, int] = {}
        for index, step in enumerate(steps):
            if isinstance(step, LibraryStep):
                outputs, used = step.pieces[step.n_inputs :], step.pieces
            else:
                outputs = [self.values[number].storage for number in step.outputs]
                used = [*outputs, *[self.values[number].storage for number in step.inputs if number is not None]]
            for piece in outputs:
                written.setdefault(piece, index)
            for piece in used:
                last[piece] = index
        return written, last

    def _choose_outputs(self, written: Mapping[int, int]) -> dict[int, str]:
        """The values that steps write straight into the caller's outputs, with the name of the output."""
        inputs = {tensor.id for tensor in self.graph.inputs.values()}
        return {
            tensor.id: name
            for name, tensor in self.graph.outputs.items()
            if tensor.id in written and tensor.id not in inputs and self.values[tensor.id].storage == tensor.id
        }

    # What runs -------------------------------------------------------------------------------------------------------

    def _plan(self, schedule: Schedule, threads: Threads) -> None:
        """Divide the steps into those of C and those of numpy, and choose the numbers of threads."""
        in_c = [step for step in schedule.steps if isinstance(step, LibraryStep)]
        self.parts = _parts(schedule.steps)
        # The values that numpy reads or writes, and which of them lie in each of the caller's arrays.
        touched = {n for part in self.parts if isinstance(part, NumpyStep) for n in (*part.inputs, *part.outputs)}
        self.touched = {n for n in (*touched, *(number for _, number in self.copied)) if n is not None}
        self.residents: dict[int, list[int]] = {}
        for number in self.touched:
            self.residents.setdefault(self.values[number].storage, []).append(number)
        # Whether a run is one call into C.
        self.in_c = len(self.parts) == 1 and len(in_c) > 0 and not self.copied
        # The thread that alone can run it; None where all can. One that a fork has left behind, if there is any.
        owners = {owner for step in in_c if (owner := step.compiled.owner_thread) is not None}
        self.owner_thread = next(iter(owners - {calling_thread()} or owners), None)
        every = threads if isinstance(threads, int) else 0
        counts = [every] * len(in_c)
        limit = get_num_threads() or 1
        if not every and limit > 1:
            chosen = threads if isinstance(threads, Mapping) else {}
            measure = self._measure if self._is_measurable() else None
            in_c, counts = share_threads(in_c, chosen, limit, measure)
        self.source = self._source(in_c, every)
        if not every:
            self.source.threads = counts
        self._notes = schedule.notes
        self._threads = {step.note: count for step, count in zip(in_c, counts, strict=True)}

    def _source(self, steps: Sequence[LibraryStep], limit: int) -> PlanSource:
        return PlanSource(
            steps, self._places, 1 + len(self.external) + len(self.constants), limit, self.owner_thread is not None
        )

    def _is_measurable(self) -> bool:
        return self.arena_size + sum(span(self.values[number]) for number in self.external) < HUGE

    def _measure(self, steps: Sequence[LibraryStep], counts: Sequence[int]) -> list[float | None]:
        """The seconds that each of some steps takes on so many threads, on blank memory."""
        if not steps:
            return []
        source = self._source(steps, 0)
        source.threads = list(counts)
        frame = Frame(self, source)
        if self.owner_thread not in (
            None,
            calling_thread(),
        ):  # a signal handler has forked: kernels would wait for threads that are gone
            return [None] * len(steps)
        return frame.measure(LONG_SECONDS)  # where the plan itself knows of a fork

    @cached_property
    def reports(self) -> tuple[PartitionReport, ...]:
        """What is said of each partition."""
        return tuple(note.report(index, self._threads.get(index)) for index, note in enumerate(self._notes))

    def check_out(self) -> Frame:
        """A frame for one run, to be given back."""
        try:
            frame = self.free_frames.pop()
        except IndexError:
            return Frame(self)
        frame.program = self
        return frame

    def give_back(self, frame: Frame) -> None:
        """Keep a frame for the next run."""
        frame.release()
        self.free_frames.append(frame)


class Frame:
    """What one run of a program needs beside the caller's arrays; for one run at a time.

    ``source``: the steps, those of the program by default.
    """

    def __init__(self, program: Program, source: PlanSource | None = None) -> None:
        # ``release`` drops this reference, as the program holds the frames that wait: a cycle keeps kernels and memory
        # until the garbage collector runs, and some bytes of the library for ever.
        self.program = program
        self.plan = Plan(program.source if source is None else source)
        self.number = self.plan.number  # where native/csrc/call.cpp looks for it
        self._arena = aligned_empty((program.arena_size,), np.dtype(np.uint8))
        self.plan.bind(0, address_of(self._arena))
        self._constants = tuple(program.constants.values())  # a run that is one call into C holds the frame alone
        for number, constant in program.constants.items():
            self.plan.bind(program.slots[number], address_of(constant))
        # Arrays for what numpy reads or writes; those in the caller's memory come and go with it.
        self._arrays = {number: self._inside(number) for number in program.touched if self._is_inside(number)}
        self._watched: list[tuple[weakref.ref[Array], int, int]] = []

    def bind(self, external: Mapping[int, Array]) -> None:
        """Let the external values live in these arrays, of the shapes and strides that they were compiled for."""
        # numpy resizes no array that has a weak reference, whatever refcheck says: its address must hold.
        watched = [owner for array in external.values() for owner in owners(array)]
        self._watched = [(weakref.ref(owner), address_of(owner), owner.nbytes) for owner in watched]
        for number, array in external.items():
            self.plan.bind(self.program.slots[number], address_of(array))
            for resident in self.program.residents.get(number, ()):
                self._arrays[resident] = self._view(resident, array)

    def refuse_moved(self) -> None:
        """Raise StateError where an array has other memory than when it was bound."""
        for watch, place, size in self._watched:
            array = watch()
            if array is not None and (address_of(array), array.nbytes) != (place, size):
                raise plan_error(lib.onegraph_moved)

    def release(self) -> None:
        """Forget the program and the caller's arrays, so that a frame that waits keeps nobody's memory."""
        self._watched.clear()
        for number in self.program.touched:
            if not self._is_inside(number):
                self._arrays.pop(number, None)
        del self.program

    def run(self) -> None:
        """Execute every step on the bound arrays."""
        for part in self.program.parts:
            if isinstance(part, range):
                self.plan.run_steps(part.start, part.stop)
            else:
                self.run_numpy(part)

    def run_numpy(self, step: NumpyStep) -> None:
        """Execute one step of numpy's."""
        inputs = [None if number is None else self._arrays[number] for number in step.inputs]
        for number, result in zip(step.outputs, step.run(inputs), strict=True):
            self._arrays[number][...] = result

    def copy_outputs(self, results: Mapping[str, Array]) -> None:
        """Fill the outputs that no step writes: inputs, constants, views, second names of another output."""
        for name, number in self.program.copied:
            results[name][...] = self._arrays[number]

    def measure(self, enough: float) -> list[float | None]:
        """The seconds that every step takes on blank memory; see :meth:`onegraph.runtime.plan.Plan.measure`."""
        self._arena.fill(0)
        program = self.program
        blank = {number: np.zeros(span(program.values[number]), np.uint8) for number in program.external}
        for number, memory in blank.items():
            self.plan.bind(program.slots[number], address_of(memory))
        return self.plan.measure(enough)

    def _is_inside(self, number: int) -> bool:
        return self.program.values[number].storage not in self.program.external

    def _inside(self, number: int) -> Array:
        """The array of a value in the arena or in a constant."""
        value = self.program.values[number]
        constant = self.program.constants.get(value.storage)
        if constant is not None:
            return self._view(number, constant)
        size = value.dtype.numpy.itemsize
        offset = self.program.offsets[value.storage]
        return np.ndarray(value.shape, value.dtype.numpy, self._arena, offset, [step * size for step in value.strides])

    def _view(self, number: int, whole: Array) -> Array:
        """A value that lives in an array: the array itself, or the same memory by other axes."""
        value = self.program.values[number]
        if value.storage == number:
            return whole
        return strided(whole, value.shape, value.strides)


def span(value: Value) -> int:
    """Bytes from the first to the last element of a value, both included."""
    reach = sum((dim - 1) * step for dim, step in zip(value.shape, value.strides, strict=True))
    return (reach + 1) * value.dtype.numpy.itemsize if math.prod(value.shape) else 0


def _in_place(steps: Sequence[LibraryStep | NumpyStep]) -> dict[int, int]:
    """Outputs of the library's steps, each with the input upon which it may lie.

    An input that the same step reads twice, as two values, is left out.
    """
    return {
        target: source
        for step in steps
        if isinstance(step, LibraryStep)
        for target, source in step.in_place
        if step.pieces[: step.n_inputs].count(source) == 1
    }


def _parts(steps: Sequence[LibraryStep | NumpyStep]) -> list[range | NumpyStep]:
    """The steps in turn: ranges of the library's, counted among themselves, and numpy's between them."""
    parts: list[range | NumpyStep] = []
    count = 0
    for is_numpy, group in groupby(steps, lambda step: isinstance(step, NumpyStep)):
        if is_numpy:
            parts += [step for step in group if isinstance(step, NumpyStep)]
        else:
            first, count = count, count + sum(1 for _ in group)
            parts.append(range(first, count))
    return parts


def _copied(constant: Array) -> Array:
    """A constant in memory of its own, laid out as it was."""
    strides = [step // constant.itemsize for step in constant.strides]
    laid = laid_empty(constant.shape, strides, constant.dtype)
    laid[...] = constant
    return laid


def _refuse_fallback(reports: Sequence[PartitionReport]) -> None:
    lines = [f"{', '.join(report.ops)}: {report.reason}" for report in reports]
    if lines:
        raise UnsupportedError("the library does not run all of the graph:\n  " + "\n  ".join(lines))
