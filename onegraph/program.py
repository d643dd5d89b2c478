"""A graph compiled for inputs of known shapes: its steps, where every value lies, and how many threads a step gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .arrays import laid_empty
from .assemble import assemble
from .capi.homes import home
from .capi.settings import is_aligned
from .capi.threads import ThreadCount, get_num_threads, restore_threads
from .errors import UnsupportedError
from .forks import cached_property
from .frame import Frame, span
from .graph import Graph
from .lower import lower
from .memory import Lifetime, aligned, plan_memory
from .op import Array
from .plain import isinstance
from .plan import LibraryStep, PlanSource
from .report import PartitionReport, nbytes
from .schedule import Schedule
from .steps import NumpyStep
from .threads import LONG_SECONDS, share_threads

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

    def __init__(self, graph: Graph, *, policy: str, fallback: bool, fpmath_mode: str, threads: Threads = None) -> None:
        count, share = ThreadCount(), not isinstance(threads, int)
        try:
            count.use(threads if isinstance(threads, int) else None)
            schedule = assemble(lower(graph), policy=policy, fpmath_mode=fpmath_mode, share=share)
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
        values, steps, sizes = self.values, schedule.steps, schedule.sizes
        written: dict[int, int] = {}
        last: dict[int, int] = {}
        for index, step in enumerate(steps):
            if isinstance(step, LibraryStep):
                outputs, used = step.pieces[step.n_inputs :], step.pieces
            else:
                outputs = [values[number].storage for number in step.outputs]
                used = [*outputs, *[values[number].storage for number in step.inputs if number is not None]]
            for piece in outputs:
                written.setdefault(piece, index)
            for piece in used:
                last[piece] = index
        inputs = {tensor.id for tensor in self.graph.inputs.values()}
        names = {
            tensor.id: name
            for name, tensor in self.graph.outputs.items()
            if tensor.id in written and tensor.id not in inputs and values[tensor.id].storage == tensor.id
        }
        # (name, value) of the outputs that steps write into; of two names for one value the last has it.
        self.direct = tuple((name, number) for number, name in names.items())
        # Those that are inputs, constants, views, or second names, and are filled at the end.
        self.copied = tuple((name, t.id) for name, t in self.graph.outputs.items() if names.get(t.id) != name)
        last.update((values[number].storage, len(steps)) for _, number in self.copied)
        self.external = (
            *(tensor.id for tensor in self.graph.inputs.values()),
            *(number for _, number in self.direct),
        )
        self.constants: dict[int, Array] = {}
        for number in last:
            constant = values[number].constant
            if constant is not None:
                self.constants[number] = constant if is_aligned(constant) else _copied(constant)
        self.slots = {number: slot for slot, number in enumerate((*self.external, *self.constants), ARENA + 1)}
        lifetimes = [
            Lifetime(number, aligned(sizes.get(number) or nbytes(values[number])), start, last[number])
            for number, start in written.items()
            if number not in self.slots
        ]
        # Not where the step reads the piece another time, as another value.
        in_place = {
            target: source
            for step in steps
            if isinstance(step, LibraryStep)
            for target, source in step.in_place
            if step.pieces[: step.n_inputs].count(source) == 1
        }
        self.offsets, self.arena_size = plan_memory(lifetimes, in_place)
        # Outputs, each with the input upon which it may lie where the caller gives that up.
        self.in_place = {
            target: source
            for target, source in in_place.items()
            if target in names and source in inputs and last[source] == written[target]
        }
        self._places = {number: (slot, 0) for number, slot in self.slots.items()}
        self._places.update((number, (ARENA, offset)) for number, offset in self.offsets.items())

    def _plan(self, schedule: Schedule, threads: Threads) -> None:
        """The steps in turn: ranges of the plan's, and numpy's between them."""
        self.parts: list[range | NumpyStep] = []
        in_c = [step for step in schedule.steps if isinstance(step, LibraryStep)]
        first = last = 0
        for step in schedule.steps:
            if isinstance(step, LibraryStep):
                last += 1
                continue
            if first < last:
                self.parts.append(range(first, last))
                first = last
            self.parts.append(step)
        if first < last:
            self.parts.append(range(first, last))
        # The values that numpy reads or writes, and which of them lie in each of the caller's arrays.
        touched = {n for part in self.parts if isinstance(part, NumpyStep) for n in (*part.inputs, *part.outputs)}
        self.touched = {n for n in (*touched, *(number for _, number in self.copied)) if n is not None}
        self.residents: dict[int, list[int]] = {}
        for number in self.touched:
            self.residents.setdefault(self.values[number].storage, []).append(number)
        # Whether a run is one call into C.
        self.in_c = len(self.parts) == 1 and len(in_c) > 0 and not self.copied
        # The thread that alone can run it; None where all can. One that a fork has left behind, if there is any.
        homes = {owner for step in in_c if (owner := step.compiled.home) is not None}
        self.home = next(iter(homes - {home()} or homes), None)

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
            steps, self._places, 1 + len(self.external) + len(self.constants), limit, self.home is not None
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
        if self.home not in (None, home()):  # a signal handler has forked: kernels would wait for threads that are gone
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
