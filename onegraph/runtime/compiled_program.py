"""Compiles a graph for inputs of known shapes to a program: steps, the memory of values, and threads of steps."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby

from ..arrays.mapped_files import give_back, refuse_shortened
from ..builder.graph import DataGraph
from ..capi import CompiledPartition
from ..capi.caches import give_up_constants
from ..capi.settings import slow_types
from ..capi.thread_affinity import OwnerThread, calling_thread
from ..capi.threads import ThreadCount, restore_threads, thread_share, threads_now
from ..compiler.compile import compile_steps
from ..compiler.final_updates import move_updates_last
from ..compiler.kernels.native import CompiledKernel
from ..compiler.lower import lower
from ..compiler.options import Options
from ..compiler.passes import run_passes
from ..compiler.report import PartitionReport
from ..compiler.reproducible import Choice, Reproducible
from ..compiler.schedule import Schedule
from ..compiler.shared_constants import SharedConstants
from ..compiler.steps import CompiledStep, NumpyStep
from ..compiler.thread_tuning import long_seconds, share_threads, without_barriers
from ..errors import OutOfMemoryError, UnsupportedError
from ..transform.widen import widened
from .compile_options import Threads
from .equal_bits import agrees
from .frame import Frame
from .kept_constants import count_kept
from .placing import place_values
from .plan import PlanSource
from .program import Program

# A program that needs more bytes than this is not measured; its steps get all threads.
HUGE = 2**30
# After so many compilations, the constants of all steps are prepared in every run.
ATTEMPTS = 4


class CompiledProgram(Program):
    """A program that is compiled from its graph.

    Args:
        graph: a graph with known shapes.
        policy, fallback, fpmath_mode, threads, reproducible, finite_math: as for :meth:`onegraph.Graph.compile`.
        updates: by name of variable, the output that is its next value.
        shared: what other programs of the executable have computed from constants; nothing by default.
        opens: whether the steps are to be those of any of several sizes.

    Attributes:
        steps: the steps that run in C.
        notes: about the partitions, by index of report.

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
        reproducible: bool = False,
        finite_math: bool = False,
        updates: Mapping[str, str] = {},
        shared: SharedConstants | None = None,
        opens: bool = False,
    ) -> None:
        contents = [tensor.value for tensor in graph._tensors if tensor.value is not None]
        refuse_shortened(contents)
        if policy == "fusion":
            graph = widened(graph, slow_types())
        # Whether numpy is faster depends on the batch, and numpy adds in an order of its own.
        fallback_of_ops = fallback and not reproducible
        lowered = lower(graph, fallback=fallback_of_ops, shared=shared, finite_math=finite_math, opens=opens)
        following = frozenset([graph.outputs[output].id for output in updates.values()])
        lowered = run_passes(
            lowered,
            Options(
                policy, fpmath_mode, reproducible, finite_math, following, lowered.shared.partitions.repeats, opens
            ),
        )
        compiled = partial(compile_steps, lowered, policy=policy, fpmath_mode=fpmath_mode)
        super().__init__(graph, thread_share())
        self.transformed, self._store = lowered.transformed, lowered.shared.partitions
        unkept, attempts = frozenset[int](), 0
        while True:
            schedule = _compiled(compiled, threads, self.share.threads, unkept)
            if not fallback:
                _refuse_fallback([note.report(0, None) for note in schedule.notes if note.executor == "reference"])
            self._patterns = schedule.patterns  # later programs of the executable find them as long as this one lives
            self.ending = move_updates_last(schedule, graph, updates)
            self.placement = place_values(graph, schedule)
            self._spare_arenas.clear()
            self._plan(
                schedule, threads, Reproducible(lowered, fpmath_mode, schedule, agrees) if reproducible else None
            )
            without_memory = self._prepare()
            if not without_memory:
                break
            attempts += 1
            if attempts == ATTEMPTS:
                unkept = frozenset(step.id for step in lowered.steps)
            elif attempts > 1:  # the first time may be a collision, which partitions that are made again do not have
                unkept |= {step.id for note in without_memory for step in schedule.notes[note].steps}
        give_back(contents)

    def _plan(self, schedule: Schedule, threads: Threads, reproducible: Reproducible | None) -> None:
        """Divide the steps between C and numpy, and choose the numbers of threads."""
        in_c = [step for step in schedule.steps if isinstance(step, CompiledStep)]
        self.parts = self._divided(schedule)
        # Whether one call into C executes the whole program.
        self.in_c = len(in_c) == len(schedule.steps) > 0 and not self.placement.copied
        self.owner_thread = owner_of([step.compiled for step in in_c])
        stated = threads if isinstance(threads, int) else 0
        counts = [stated] * len(in_c)
        limit = min(threads_now(), self.share.threads)
        if not stated and limit > 1:
            chosen = threads if isinstance(threads, Mapping) else {}
            is_measurable = self.placement.arena_size + self.placement.external_size() < HUGE
            measure = self._measure if is_measurable else None
            in_c, counts = share_threads(in_c, schedule.notes, chosen, limit, measure, self._store)
            if reproducible is None:
                in_c = without_barriers(in_c, schedule.notes, chosen, counts)
        if reproducible is not None:
            in_c, counts = self._settle(schedule, reproducible.choose(in_c, counts, stated or limit))
        self.source = self._source(in_c, stated or self._most(), self.ending.n_steps)
        if reproducible is not None or not stated:
            self.source.threads = counts
        self.steps = in_c
        self._keeping = [step.note for step in in_c if step.again is not None]
        self.notes, self.step_notes = schedule.notes, [step.note for step in schedule.steps]
        pairs = [*zip(in_c, counts, strict=True)][::-1]  # of the steps with one note, the first one counts
        self._threads = {step.note: count for step, count in pairs}

    def _settle(self, schedule: Schedule, choices: Sequence[Choice]) -> tuple[list[CompiledStep], list[int]]:
        """Replace the compiled steps of a schedule by the chosen ones; returns them and their numbers of threads."""
        remaining, steps = iter(choices), list[CompiledStep | NumpyStep]()
        for step in schedule.steps:
            steps += next(remaining).steps if isinstance(step, CompiledStep) else [step]
        schedule.steps = steps
        for choice in choices:
            number = choice.steps[0].note
            note = schedule.notes[number]
            schedule.notes[number] = note._replace(reasons=tuple(dict.fromkeys([*note.reasons, choice.reason])))
        self.parts = self._divided(schedule)
        chosen = [(step, choice.threads) for choice in choices for step in choice.steps]
        return [step for step, _ in chosen], [threads for _, threads in chosen]

    def _divided(self, schedule: Schedule) -> list[range | NumpyStep]:
        """The steps before the ending, divided between C and numpy."""
        return divided(schedule.steps[: len(schedule.steps) - self.ending.n_steps])

    def _most(self) -> int:
        """The share of the process, where OpenMP's setting of the calling thread exceeds it; otherwise 0."""
        return self.share.threads if self.share.threads < threads_now() else 0

    def _source(self, steps: Sequence[CompiledStep], limit: int, n_last: int = 0) -> PlanSource:
        placed = self.placement
        bound, pages = self.owner_thread is not None, placed.file_pages()
        return PlanSource(steps, placed.places(), placed.n_slots, limit, pages, n_last=n_last, bound=bound)

    def _prepare(self) -> list[int]:
        """Let the library prepare constants that it finds by a hash.

        Returns:
            the notes of the steps that would run with the constants of another partition.
        """
        if not self._keeping:
            return []
        with self._trial(self.source) as frame:
            try:
                with frame.blank() as plan:
                    sizes = plan.prepare()
            except OutOfMemoryError:
                give_up_constants()
                return self._keeping
        total_sizes, prepared = list[int](), set[tuple[int, ...]]()
        for step, size, keeps in zip(self.steps, sizes, self.source.keeps, strict=True):
            if keeps:  # the parts of a batch run one partition, which takes its own constants from the second part on
                memory = id(step.compiled), *step.pieces
                total_sizes.append(0 if memory in prepared else size)
                prepared.add(memory)
        without_memory = [note for note, size in zip(self._keeping, total_sizes, strict=True) if size < 0]
        if not without_memory:
            count_kept(self, total_sizes)
        return without_memory

    def _measure(self, steps: Sequence[CompiledStep], counts: Sequence[int]) -> list[float | None]:
        """The time of each step in seconds with these numbers of threads, on zeroed memory."""
        if not steps:
            return []
        source = self._source(steps, self._most())
        source.threads = list(counts)
        with self._trial(source) as frame:
            if self.owner_thread not in (None, calling_thread()):
                # A signal handler forked: kernels would wait for threads that do not exist.
                return [None] * len(steps)
            with frame.blank() as plan:
                return plan.measure(long_seconds(threads_now()))  # the plan checks for a fork itself

    @contextmanager
    def _trial(self, source: PlanSource) -> Iterator[Frame]:
        """A frame for measurements. The next frame takes over its arena, whose pages the system has filled."""
        frame = self._frame(source)
        try:
            yield frame
        finally:
            if frame.arena is not None:
                self._spare_arenas.append(frame.arena)

    def pieces(self) -> dict[Hashable, int]:
        """The arena, and the constants that the library has prepared for each partition."""
        return {**super().pieces(), **prepared([step.compiled for step in self.steps])}

    def whole_graph(self) -> DataGraph:
        """The graph that was compiled."""
        return self.graph

    def _reports(self) -> tuple[PartitionReport, ...]:
        return tuple(note.report(index, self._threads.get(index)) for index, note in enumerate(self.notes))


def _compiled(compiled: Callable[..., Schedule], threads: Threads, most: int, unkept: frozenset[int]) -> Schedule:
    """The schedule, compiled for these threads, or at most for ``most``.

    The constants of the steps ``unkept`` are prepared in every run.
    """
    count, share = ThreadCount(), not isinstance(threads, int)
    try:
        count.use(threads if isinstance(threads, int) else min(most, count.before))
        return compiled(share=share, unkept=unkept)
    finally:
        restore_threads(count.before)


def prepared(kernels: Iterable[CompiledPartition | CompiledKernel]) -> dict[Hashable, int]:
    """By partition, the bytes of the constants that the library prepares for it."""
    return {
        id(kernel): sum([input_.known_size for input_ in kernel.inputs if input_.property == "constant"])
        for kernel in kernels
        if isinstance(kernel, CompiledPartition)
    }


def owner_of(kernels: Iterable[CompiledPartition | CompiledKernel]) -> OwnerThread | None:
    """The only thread that can run these; None if every thread can. Of several, one that a fork left behind."""
    owners = {owner for kernel in kernels if (owner := kernel.owner_thread) is not None}
    return next(iter(owners - {calling_thread()} or owners), None)


def divided(steps: Sequence[CompiledStep | NumpyStep]) -> list[range | NumpyStep]:
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


def _refuse_fallback(reports: Sequence[PartitionReport]) -> None:
    lines = [f"{', '.join(report.ops)}: {report.reason}" for report in reports]
    if lines:
        raise UnsupportedError("the library does not run all of the graph:\n  " + "\n  ".join(lines))
