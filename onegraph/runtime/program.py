"""Compiles a graph for inputs of known shapes to a program: steps, the memory of values, and threads of steps."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby

import numpy as np

from .._util.fork_safety import cached_property
from ..arrays.ndarrays import aligned_empty, laid_empty, owners, strided
from ..builder.graph import DataGraph
from ..capi.caches import give_up_constants
from ..capi.settings import is_aligned
from ..capi.thread_affinity import calling_thread
from ..capi.threads import ThreadCount, get_num_threads, restore_threads
from ..compiler.codes import compute_on_codes
from ..compiler.compile import compile_steps
from ..compiler.constants import fold_constants
from ..compiler.lower import lower
from ..compiler.lowered import Value
from ..compiler.memory_planner import Lifetime, aligned, plan_memory
from ..compiler.pointwise import join_elementwise
from ..compiler.repetition import repeat_for_readers
from ..compiler.report import PartitionReport, nbytes
from ..compiler.schedule import Schedule
from ..compiler.shared_constants import SharedConstants
from ..compiler.steps import CompiledStep, NumpyStep
from ..compiler.thread_tuning import LONG_SECONDS, share_threads
from ..compiler.unsigned_codes import use_unsigned_codes
from ..errors import OutOfMemoryError, StateError, UnsupportedError
from ..ir.op import Array
from ..native.library import address_of, lib
from .kept_constants import count_kept
from .plan import Plan, PlanSource, as_pointer, plan_error
from .state import State

ARENA = 0  # the slot of intermediates
# A program that needs more bytes than this is not measured; its steps get all threads.
HUGE = 2**30
# After so many compilations, the constants of all steps are prepared in every run.
ATTEMPTS = 4

Threads = int | Mapping[int, int] | None


class Program:
    """Compiled steps of a graph with known shapes. It is immutable; a :class:`Frame` holds the memory of one run.

    Every piece of memory is in a slot. Slot 0 is the arena, one block that the intermediates share. The next slots are
    the graph inputs, the graph outputs that steps write into, and the constants.

    Args:
        graph: a graph with known shapes.
        policy, fallback, fpmath_mode, threads: as for :meth:`onegraph.Graph.compile`.
        shared: what other programs of the executable have computed from constants; nothing by default.

    Raises:
        UnsupportedError: ``fallback`` is False, and the library does not support some ops; the text has the reasons.
    """

    def __init__(
        self,
        graph: DataGraph,
        *,
        policy: str,
        fallback: bool,
        fpmath_mode: str,
        threads: Threads = None,
        shared: SharedConstants | None = None,
    ) -> None:
        lowered = fold_constants(lower(graph, fallback=fallback, shared=shared), policy)
        if policy == "fusion":
            lowered = join_elementwise(repeat_for_readers(compute_on_codes(use_unsigned_codes(lowered))))
        compiled = partial(compile_steps, lowered, policy=policy, fpmath_mode=fpmath_mode)
        self.graph = graph
        self.free_frames: list[Frame] = []  # frames of finished runs, for reuse
        unkept, attempts = frozenset[int](), 0
        while True:
            schedule = self._compiled(compiled, threads, unkept)
            if not fallback:
                _refuse_fallback([note.report(0, None) for note in schedule.notes if note.executor == "reference"])
            self.values = schedule.values
            self._place_values(schedule)
            self._plan(schedule, threads)
            taken = self._prepare()
            if not taken:
                break
            attempts += 1
            if attempts == ATTEMPTS:
                unkept = frozenset(step.id for step in lowered.steps)
            elif attempts > 1:  # the first time may be a collision, which partitions that are made again do not have
                unkept |= {step.id for note in taken for step in schedule.notes[note].steps}

    def _compiled(self, compiled: Callable[..., Schedule], threads: Threads, unkept: frozenset[int]) -> Schedule:
        """The schedule, compiled for these threads; the constants of the steps ``unkept`` are prepared in every run."""
        count, share = ThreadCount(), not isinstance(threads, int)
        try:
            count.use(threads if isinstance(threads, int) else None)
            return compiled(share=share, unkept=unkept)
        finally:
            restore_threads(count.before)

    # Memory ----------------------------------------------------------------------------------------------------------

    def _place_values(self, schedule: Schedule) -> None:
        """Assign a slot to every piece of memory, and an offset in the arena to every intermediate."""
        for value in self.values.values():
            if value.storage != value.id and not _lies_inside(value, self.values[value.storage], schedule.sizes):
                raise StateError(f"{value.name!r} would lie outside of its memory; this is a mistake in onegraph")
        written, last = self._liveness(schedule.steps)
        names = self._choose_outputs(written)
        # (name, value) of the outputs that steps write into; a value with several names has the last one here.
        self.direct = tuple((name, number) for number, name in names.items())
        # (name, value) of the other outputs: inputs, constants, views and further names. They are copied at the end.
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
        self.spare_arenas: list[Array] = []  # of measurements; the next frame takes over the memory
        # Outputs, each with the input whose memory it may reuse if the caller gives up that input.
        self.in_place = {
            target: source
            for target, source in in_place.items()
            if target in names and source in inputs and last[source] == written[target]
        }
        self._places = {number: (slot, 0) for number, slot in self.slots.items()}
        self._places.update((number, (ARENA, offset)) for number, offset in self.offsets.items())

    def _liveness(self, steps: Sequence[CompiledStep | NumpyStep]) -> tuple[dict[int, int], dict[int, int]]:
        """Two dictionaries by piece of memory: the step that first writes it, and the step that last uses it."""
        written: dict[int, int] = {}
        last: dict[int, int] = {}
        for index, step in enumerate(steps):
            if isinstance(step, CompiledStep):
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
        """The values that steps write directly into the caller's outputs, with the name of the output."""
        inputs = {tensor.id for tensor in self.graph.inputs.values()}
        return {
            tensor.id: name
            for name, tensor in self.graph.outputs.items()
            if tensor.id in written and tensor.id not in inputs and self.values[tensor.id].storage == tensor.id
        }

    # Execution -------------------------------------------------------------------------------------------------------

    def _plan(self, schedule: Schedule, threads: Threads) -> None:
        """Divide the steps between C and numpy, and choose the numbers of threads."""
        in_c = [step for step in schedule.steps if isinstance(step, CompiledStep)]
        self.parts = _parts(schedule.steps)
        # The values that numpy reads or writes, and those of them in each of the caller's arrays.
        touched = {n for part in self.parts if isinstance(part, NumpyStep) for n in (*part.inputs, *part.outputs)}
        self.touched = {n for n in (*touched, *(number for _, number in self.copied)) if n is not None}
        self.residents: dict[int, list[int]] = {}
        for number in self.touched:
            self.residents.setdefault(self.values[number].storage, []).append(number)
        # Whether one call into C executes the whole program.
        self.in_c = len(self.parts) == 1 and len(in_c) > 0 and not self.copied
        # The only thread that can run the program; None if every thread can. Of several, one that a fork left behind.
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
        self._keeping = [step.note for step in in_c if step.again is not None]
        self._notes, self.step_notes = schedule.notes, [step.note for step in schedule.steps]
        self._threads = {step.note: count for step, count in zip(in_c, counts, strict=True)}

    def _source(self, steps: Sequence[CompiledStep], limit: int) -> PlanSource:
        return PlanSource(
            steps, self._places, 1 + len(self.external) + len(self.constants), limit, self.owner_thread is not None
        )

    def _prepare(self) -> list[int]:
        """Let the library prepare constants that it finds by a hash.

        Returns:
            the notes of the steps that would run with the constants of another partition.
        """
        if not self._keeping:
            return []
        frame = Frame(self)
        try:
            kept = frame.prepare()
        except OutOfMemoryError:
            give_up_constants()
            return self._keeping
        finally:
            frame.end()
        found = [size for size, keeps in zip(kept, self.source.keeps, strict=True) if keeps]
        taken = [note for note, size in zip(self._keeping, found, strict=True) if size < 0]
        if not taken:
            count_kept(self, found)
        return taken

    def _is_measurable(self) -> bool:
        return self.arena_size + sum(span(self.values[number]) for number in self.external) < HUGE

    def _measure(self, steps: Sequence[CompiledStep], counts: Sequence[int]) -> list[float | None]:
        """The time of each step in seconds with these numbers of threads, on zeroed memory."""
        if not steps:
            return []
        source = self._source(steps, 0)
        source.threads = list(counts)
        frame = Frame(self, source)
        if self.owner_thread not in (
            None,
            calling_thread(),
        ):  # a signal handler forked: kernels would wait for threads that do not exist
            return [None] * len(steps)
        try:
            return frame.measure(LONG_SECONDS)  # the plan checks for a fork itself
        finally:
            frame.end()

    @cached_property
    def reports(self) -> tuple[PartitionReport, ...]:
        """The reports of the partitions."""
        return tuple(note.report(index, self._threads.get(index)) for index, note in enumerate(self._notes))

    def check_out(self) -> Frame:
        """A frame for one run; ``give_back`` returns it afterwards."""
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
    """The plan and the memory that one run of a program needs besides the caller's arrays; for one run at a time.

    ``source``: the source of the plan; that of the program by default.
    """

    def __init__(self, program: Program, source: PlanSource | None = None) -> None:
        # ``release`` drops this reference, because the program refers to its free frames: a cycle would keep kernels
        # and memory until the garbage collector runs, and some bytes of the library forever.
        self.program = program
        self.plan = Plan(program.source if source is None else source)
        self.number = self.plan.number  # read by native/csrc/call.cpp
        try:
            self._arena = program.spare_arenas.pop()
        except IndexError:
            self._arena = aligned_empty((program.arena_size,), np.dtype(np.uint8))
        self.plan.bind(0, address_of(self._arena))
        self._constants = tuple(program.constants.values())  # a run in C refers to the frame only
        for number, constant in program.constants.items():
            self.plan.bind(program.slots[number], address_of(constant))
        # Arrays that numpy reads or writes; ``bind`` adds and ``release`` removes those in the caller's memory.
        self._arrays = {number: self._inside(number) for number in program.touched if self._is_inside(number)}
        self._watched: list[tuple[weakref.ref[Array], int, int]] = []
        # By turn: the values of the variables, the addresses of their slots, and the views that numpy steps read.
        self._variables: dict[int, tuple[object, list[tuple[int, object]], dict[int, Array]]] = {}

    def bind(self, external: Mapping[int, Array]) -> None:
        """Bind the external values to these arrays, which have the compiled shapes and strides."""
        # The weak references stop numpy from resizing the arrays, even with refcheck=False, so addresses stay valid.
        watched = [owner for array in external.values() for owner in owners(array)]
        self._watched = [(weakref.ref(owner), address_of(owner), owner.nbytes) for owner in watched]
        self._rebind(external)

    def bind_variables(self, state: State) -> None:
        """Bind the present values of the variables, and the memory for the next ones."""
        present, known = state.present, self._variables.get(state.turn)
        if known is None or known[0] is not present:
            inputs, direct, following = self.program.graph.inputs, dict(self.program.direct), state.following
            external = {inputs[name].id: array for name, array in present.items()}
            external.update((direct[name], array) for name, array in following.items() if name in direct)
            slots = [(self.program.slots[number], as_pointer(address_of(array))) for number, array in external.items()]
            views = {n: self._view(n, external[e]) for e in external for n in self.program.residents.get(e, ())}
            known = self._variables[state.turn] = present, slots, views
        self.plan.bind_all(known[1])
        self._arrays.update(known[2])

    def _rebind(self, external: Mapping[int, Array]) -> None:
        for number, array in external.items():
            self.plan.bind(self.program.slots[number], address_of(array))
            for resident in self.program.residents.get(number, ()):
                self._arrays[resident] = self._view(resident, array)

    def refuse_moved(self) -> None:
        """Raise StateError if an array has other memory than when it was bound."""
        for watch, place, size in self._watched:
            array = watch()
            if array is not None and (address_of(array), array.nbytes) != (place, size):
                raise plan_error(lib.onegraph_moved)

    def end(self) -> None:
        """Leave the arena, whose pages the system has filled, to the next frame; this one cannot run again."""
        self.program.spare_arenas.append(self._arena)

    def release(self) -> None:
        """Drop the program and the caller's arrays, so that a free frame does not keep their memory."""
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
        """Execute one numpy step."""
        inputs = [None if number is None else self._arrays[number] for number in step.inputs]
        step.run(inputs, [self._arrays[number] for number in step.outputs])

    def copy_outputs(self, results: Mapping[str, Array]) -> None:
        """Fill the outputs that no step writes: inputs, constants, views, and further names of an output."""
        for name, number in self.program.copied:
            if name in results:
                results[name][...] = self._arrays[number]

    def measure(self, enough: float) -> list[float | None]:
        """The time of every step in seconds on zeroed memory; see :meth:`onegraph.runtime.plan.Plan.measure`."""
        with self._blank():
            return self.plan.measure(enough)

    def prepare(self) -> list[int]:
        """Prepare constants on zeroed memory; see :meth:`onegraph.runtime.plan.Plan.prepare`."""
        with self._blank():
            return self.plan.prepare()

    @contextmanager
    def _blank(self) -> Iterator[None]:
        """A block in which all memory but the constants is zeroed."""
        self._arena.fill(0)
        program = self.program
        blank = {number: np.zeros(span(program.values[number]), np.uint8) for number in program.external}
        for number, memory in blank.items():
            self.plan.bind(program.slots[number], address_of(memory))
        yield

    def _is_inside(self, number: int) -> bool:
        return self.program.values[number].storage not in self.program.external

    def _inside(self, number: int) -> Array:
        """The array of a value whose memory is in the arena or in a constant."""
        value = self.program.values[number]
        constant = self.program.constants.get(value.storage)
        if constant is not None:
            return self._view(number, constant)
        size = value.dtype.numpy.itemsize
        offset = self.program.offsets[value.storage] + value.shift
        return np.ndarray(value.shape, value.dtype.numpy, self._arena, offset, [step * size for step in value.strides])

    def _view(self, number: int, whole: Array) -> Array:
        """The value as an array: ``whole`` itself, or a view of it."""
        value = self.program.values[number]
        if value.storage == number:
            return whole
        return strided(whole, value.shape, value.strides, value.shift)


def span(value: Value) -> int:
    """Bytes from the start of the first element of a value to the end of the last."""
    reach = sum((dim - 1) * step for dim, step in zip(value.shape, value.strides, strict=True))
    return (reach + 1) * value.dtype.numpy.itemsize if math.prod(value.shape) else 0


def _lies_inside(value: Value, whole: Value, sizes: Mapping[int, int]) -> bool:
    """Whether every element of a view lies in the memory of ``whole``."""
    if 0 in value.shape:
        return True
    steps = [(dim - 1) * step for dim, step in zip(value.shape, value.strides, strict=True)]
    first = value.offset + sum(step for step in steps if step < 0)
    last = value.offset + sum(step for step in steps if step > 0)
    size = max(span(whole), sizes.get(whole.id, 0))
    return first >= 0 and (last + 1) * value.dtype.numpy.itemsize <= size


def _in_place(steps: Sequence[CompiledStep | NumpyStep]) -> dict[int, int]:
    """Outputs of library steps, each with the input whose memory it may reuse.

    An input that the step reads as two values is excluded.
    """
    return {
        target: source
        for step in steps
        if isinstance(step, CompiledStep)
        for target, source in step.in_place
        if step.pieces[: step.n_inputs].count(source) == 1
    }


def _parts(steps: Sequence[CompiledStep | NumpyStep]) -> list[range | NumpyStep]:
    """The steps in order: ranges of successive library steps, which are counted by themselves, and numpy steps."""
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
    """A copy of a constant with the same strides."""
    strides = [step // constant.itemsize for step in constant.strides]
    copied = laid_empty(constant.shape, strides, constant.dtype)
    copied[...] = constant
    return copied


def _refuse_fallback(reports: Sequence[PartitionReport]) -> None:
    lines = [f"{', '.join(report.ops)}: {report.reason}" for report in reports]
    if lines:
        raise UnsupportedError("the library does not run all of the graph:\n  " + "\n  ".join(lines))
