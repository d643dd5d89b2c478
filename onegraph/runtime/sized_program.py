"""Programs for known sizes, made from a program whose sizes are open."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from ..builder.graph import DataGraph
from ..capi import CompiledPartition
from ..capi.thread_affinity import calling_thread
from ..capi.threads import ThreadCount, restore_threads, thread_share
from ..compiler.kernels.native import CompiledKernel
from ..compiler.library_steps import NoParametersError, Partitioning
from ..compiler.notes import Note
from ..compiler.numpy_steps import numpy_step_at
from ..compiler.open_values import At, value_at
from ..compiler.recipes import Made, PartitionRecipe, compile_recipes, ends_of
from ..compiler.report import FOR_ALL, FOR_EARLIER, FOR_THESE, PartitionReport
from ..compiler.steps import CompiledStep, Ending, NumpyStep
from .compiled_program import divided, owner_of, prepared
from .open_program import OpenProgram
from .plan import PlanSource
from .program import Program


class Ready:
    """A partition for some sizes. Programs hold it, and the program with open sizes knows it as long as one does.

    Args:
        kernel: the partition.
    """

    def __init__(self, kernel: Made) -> None:
        self.made = kernel

    def step(self, step: CompiledStep | NumpyStep, recipe: PartitionRecipe, at: At) -> CompiledStep:
        """A step that runs the partition.

        Args:
            step: with open sizes.
            recipe: of the step.
            at: what these are.
        """
        ends = ends_of(recipe)
        inside = [(ends[to], ends[source]) for to, source in self.made.in_place]
        in_place = [(to.storage, source.storage) for to, source in inside if not at(source.offset)]
        return _with(step, self.made.compiled, at)._replace(like=self.made.like, in_place=in_place)


class Last(NamedTuple):
    """The program that was made last of one with open sizes, from which the next one takes what is the same.

    Attributes:
        offsets: of intermediates in the arena.
        steps, ready, source, notes: of the program.
        prepared: bytes of the constants that the library prepares, by partition.
    """

    offsets: Mapping[int, int]
    steps: Sequence[CompiledStep]
    ready: Sequence[Ready]
    source: PlanSource
    notes: Sequence[int]
    prepared: Mapping[Hashable, int]


class SizedProgram(Program):
    """A program for known sizes.

    Args:
        form: the program whose sizes are open.
        sizes: the sizes, which fit.
        make_graph: makes the graph with its ops.

    Attributes:
        compiled: the number of partitions that the library has compiled for it.

    Raises:
        OneGraphError: the library refuses a partition.
        NoParametersError: for these sizes, other steps are right or fast.
    """

    def __init__(self, form: OpenProgram, sizes: Sequence[int], make_graph: Callable[[], DataGraph]) -> None:
        super().__init__(form.graph, thread_share())
        self._form, self._whole, at = form, make_graph, form.at(sizes)
        self.known = form.known
        self._at, schedule = at, form.schedule
        values = form.values.at(sizes)
        steps: list[CompiledStep | NumpyStep] = [*schedule.steps]
        kernels: dict[int, CompiledKernel] = {}
        for index, source in form.kernels.items():
            kernel = kernels.get(id(source))
            if kernel is None:
                kernel = kernels[id(source)] = source.at(at).made()
            steps[index] = _with(steps[index], kernel, at)
        for index in form.moved:
            step = steps[index]
            assert isinstance(step, CompiledStep)
            steps[index] = step._replace(shifts=[*map(at, step.shifts)])
        for index in form.on_host:
            steps[index] = numpy_step_at(steps[index], values, at)  # type: ignore[arg-type]
        self._ready = ready = self._partitions(at)
        self._patterns = {
            id(ready_kernel.made.pattern): ready_kernel.made.pattern
            for ready_kernel in ready
            if ready_kernel.made.pattern
        }.values()
        for index, (recipe, kind) in form.recipes.items():
            steps[index] = ready[kind].step(steps[index], recipe, at)
        pieces = {**form.pieces, **{number: at(size) for number, size in form.open_pieces}}
        self.placement, steps = form.slots.placed(values, pieces, steps, form.rooms)
        self.steps = [step for step in steps if isinstance(step, CompiledStep)]
        self.in_c, self.ending = form.is_in_c, Ending(0, frozenset())
        self._take_common(steps)
        self.owner_thread = owner_of(self.steps)
        if self.owner_thread not in (None, calling_thread()):
            raise NoParametersError("a step that sizes share runs in another thread")

    def _take_common(self, steps: Sequence[CompiledStep | NumpyStep]) -> None:
        """Take what the program that was made last has in common with this one, which is all but some steps."""
        form, placed, last = self._form, self.placement, self._form.last
        if last is None or last.offsets is not placed.offsets:
            arenas = form.arenas if self.in_c and placed.residents.keys() <= placed.slots.keys() else None
            places, pages = placed.places(), placed.file_pages()
            source = PlanSource(self.steps, places, placed.n_slots, form.runs_limit, pages, arenas=arenas)
            source.threads = form.counts
            notes = [step.note for step in steps]
            prepared_constants = prepared(self.steps)
        else:
            source, notes = last.source.with_steps(last.steps, self.steps), last.notes
            prepared_constants = last.prepared if self._ready == last.ready else prepared(self.steps)
        form.last = Last(placed.offsets, self.steps, self._ready, source, notes, prepared_constants)
        self.source, self.step_notes, self._prepared = source, notes, prepared_constants
        is_whole = len(steps) == len(self.steps) > 0  # numpy steps are made for these sizes
        self.parts = [range(len(steps))] if is_whole else divided(steps)

    def _partitions(self, at: At) -> list[Ready]:
        """For each kind the partition for these sizes; those that no program has are compiled."""
        form = self._form
        keys = [(number, *map(at, kind.sizes)) for number, kind in enumerate(form.kinds)]
        partitions = [form.partitions.get(key) for key in keys]
        missing = [number for number, ready in enumerate(partitions) if ready is None]
        self.compiled, self._missing = 0, frozenset(missing)
        if missing:
            for number, ready in zip(missing, self._compile(missing, at), strict=True):
                partitions[number] = form.partitions[keys[number]] = ready
        return [ready for ready in partitions if ready is not None]

    def _compile(self, missing: Sequence[int], at: At) -> list[Ready]:
        """Compile the partitions of these kinds."""
        kinds, ready_by_kind = self._form.kinds, dict[int, Ready]()
        firsts = {kinds[number].alike: number for number in reversed(missing)}
        ready_by_number = self._compiled([*firsts.values()], at)
        for alike, number in firsts.items():
            pattern = ready_by_number[number].made.pattern
            if pattern is None or pattern.takes_all:  # kinds that differ in constants alone share it
                ready_by_kind[alike] = ready_by_number[number]
        others = [
            number for number in missing if number not in ready_by_number and kinds[number].alike not in ready_by_kind
        ]
        ready_by_number.update(self._compiled(others, at))
        return [
            ready_by_number[number] if number in ready_by_number else ready_by_kind[kinds[number].alike]
            for number in missing
        ]

    def _compiled(self, numbers: Sequence[int], at: At) -> dict[int, Ready]:
        """Compile the partitions of kinds, by their numbers."""
        form, options, threads = self._form, self._form.options, ThreadCount()
        limit, groups = form.threads_of_steps(), dict[int, list[int]]()
        for number in numbers:
            kind = form.kinds[number]
            is_small = isinstance(kind.recipe, Partitioning) and kind.recipe.is_small
            groups.setdefault(limit if is_small else kind.threads or limit, []).append(number)
        self.compiled += len(numbers)
        ready_by_number: dict[int, Ready] = {}
        try:
            for count, some in groups.items():
                threads.use(count)
                kernels = compile_recipes(
                    [form.kinds[number].recipe for number in some],
                    at,
                    form.lowered,
                    form.schedule,
                    policy=options.policy,
                    fpmath_mode=options.fpmath_mode,
                    share=not isinstance(options.threads, int),
                )
                ready_by_number.update(zip(some, map(Ready, kernels), strict=True))
        finally:
            restore_threads(threads.before)
        return ready_by_number

    def pieces(self) -> dict[Hashable, int]:
        """The arena, if it has its own, and the constants that the library has prepared for each partition."""
        return {**({} if self.source.arenas else super().pieces()), **self._prepared}

    @property
    def notes(self) -> list[Note]:
        """About the partitions, by index of report."""
        form = self._form
        kinds = {form.schedule.steps[index].note: kind for index, (_, kind) in form.recipes.items()}
        return [
            note._replace(
                inputs=[value_at(value, self._at) for value in note.inputs],
                outputs=[value_at(value, self._at) for value in note.outputs],
                reasons=(*map(self._text, note.reasons), self._origin(note, kinds.get(index))),
            )
            for index, note in enumerate(form.schedule.notes)
        ]

    def _origin(self, note: Note, kind: int | None) -> str:
        """For which sizes a partition was compiled; empty for what takes sizes at the call."""
        if note.executor != "oneDNN":
            return ""
        return FOR_ALL if kind is None else FOR_THESE if kind in self._missing else FOR_EARLIER

    def _text(self, reason: str) -> str:
        """A reason that names sizes."""
        for text, size in self._form.texts.items() if "s[" in reason else ():
            reason = reason.replace(text, str(self._at(size)))
        return reason

    def whole_graph(self) -> DataGraph:
        """The graph with its ops, for the shapes of the program."""
        return self._whole()

    def _reports(self) -> tuple[PartitionReport, ...]:
        threads = {step.note: count for step, count in [*zip(self.steps, self._form.counts, strict=True)][::-1]}
        return tuple([note.report(index, threads.get(index)) for index, note in enumerate(self.notes)])


def _with(step: CompiledStep | NumpyStep, kernel: CompiledKernel | CompiledPartition, at: At) -> CompiledStep:
    """A step that is compiled for known sizes."""
    assert isinstance(step, CompiledStep)
    return step._replace(compiled=kernel, like=kernel, shifts=[at(shift) for shift in step.shifts])
