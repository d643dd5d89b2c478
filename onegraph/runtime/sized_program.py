"""Programs for known sizes, made from a program whose sizes are open."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from .._util.fork_safety import cached_property
from ..builder.graph import DataGraph
from ..capi import LogicalTensor
from ..capi.thread_affinity import calling_thread
from ..capi.threads import ThreadCount, restore_threads, thread_share
from ..compiler.ir.value import Value
from ..compiler.library_steps import NoParametersError, Partitioning
from ..compiler.notes import Note
from ..compiler.numpy_steps import numpy_step_at
from ..compiler.open_values import At, value_at
from ..compiler.recipes import MadePartition, compile_recipes
from ..compiler.report import FOR_ALL, FOR_EARLIER, FOR_THESE, PartitionReport
from ..compiler.steps import CompiledStep, Ending, NumpyStep
from .compiled_program import divided, owner_of, prepared
from .open_program import OpenProgram
from .open_steps import in_place_at
from .plan import PlanSource, rows_of
from .program import Program


class Ready:
    """A partition for some sizes. Programs hold it, and the program with open sizes knows it as long as one does.

    Args:
        kernel: the partition.
    """

    def __init__(self, kernel: MadePartition) -> None:
        self.made = kernel


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
        self._form, self._whole, self.known = form, make_graph, form.known
        evaluated = form.evaluated(sizes)
        self._at = at = form.at(sizes, evaluated)
        values, numbers = form.values.at(sizes), np.array(evaluated, np.int64)
        self._ready = ready = self._partitions(at)
        made = [one.made for one in ready]
        self._patterns = {id(one.pattern): one.pattern for one in made if one.pattern}.values()
        partitions = [one.compiled for one in made]
        self.placement, self._rooms, offsets = form.in_memory.placed(values, numbers, made, at)
        self.in_c, self.ending, self.step_notes = form.is_in_c, Ending(0, frozenset()), form.notes
        self._prepared = {**form.prepared, **prepared(partitions)}
        self._is_first = form.source is None
        if form.source is None:
            form.source = self._first_source()
        rows, memory = form.kernels.at(numbers)
        rows = np.concatenate([form.fixed_rows, rows, rows_of(partitions)])[form.of_step]
        kept = form.fixed, partitions, memory
        is_new = self._is_first or self.compiled > 0
        self.source = form.source.filled(rows, kept, self._rooms, offsets, is_new=is_new)
        self.parts = self._divided(values)
        self.owner_thread = owner_of([*form.fixed, *partitions])
        if self.owner_thread not in (None, calling_thread()):
            raise NoParametersError("a step that sizes share runs in another thread")

    @cached_property
    def steps(self) -> Sequence[CompiledStep]:  # type: ignore[override]
        """Those that C runs."""
        form, at, steps = self._form, self._at, list[CompiledStep]()
        tensors = dict[Hashable, LogicalTensor]()
        kernels = [source.at(at).made(tensors) for source in form.sources]
        compiled = [*form.fixed, *kernels, *[one.made.compiled for one in self._ready]]
        for index, place, room in zip(form.in_c, form.of_step, self._rooms.tolist(), strict=True):
            step, kernel = form.schedule.steps[index], compiled[place]
            assert isinstance(step, CompiledStep)
            like, in_place = kernel, step.in_place
            if index in form.recipes:
                recipe, kind = form.recipes[index]
                made = self._ready[kind].made
                like, in_place = made.like, in_place_at(recipe, made, at)
            shifts = [*map(at, step.shifts)]
            steps.append(step._replace(compiled=kernel, like=like, in_place=in_place, shifts=shifts, room=tuple(room)))
        return steps

    def _first_source(self) -> PlanSource:
        """The source of plans, from which those for other sizes are made."""
        form, placed = self._form, self.placement
        arenas = form.arenas if self.in_c and placed.residents.keys() <= placed.slots.keys() else None
        places, pages = placed.places(), placed.file_pages()
        source = PlanSource(self.steps, places, placed.n_slots, form.runs_limit, pages, arenas=arenas)
        source.threads = form.counts
        return source

    def _divided(self, values: Mapping[int, Value]) -> list[range | NumpyStep]:
        """The steps, divided between C and numpy, whose steps are made for these sizes."""
        form = self._form
        if len(form.in_c) == len(form.schedule.steps) > 0:
            return [range(len(form.in_c))]
        steps = [*form.schedule.steps]
        for index in form.on_host:
            steps[index] = numpy_step_at(steps[index], values, self._at)  # type: ignore[arg-type]
        return divided(steps)

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
        unready = [
            number for number in missing if number not in ready_by_number and kinds[number].alike not in ready_by_kind
        ]
        ready_by_number.update(self._compiled(unready, at))
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
            for count, alike in groups.items():
                threads.use(count)
                kernels = compile_recipes(
                    [form.kinds[number].recipe for number in alike],
                    at,
                    form.lowered,
                    form.schedule,
                    policy=options.policy,
                    fpmath_mode=options.fpmath_mode,
                    share=not isinstance(options.threads, int),
                )
                ready_by_number.update(zip(alike, map(Ready, kernels), strict=True))
        finally:
            restore_threads(threads.before)
        return ready_by_number

    def pieces(self) -> dict[Hashable, int]:
        """The arena, if it has its own, and the constants that the library has prepared for each partition."""
        return {**({} if self.source.arenas else super().pieces()), **self._prepared}

    def _takes(self) -> int:
        """Nothing for others than the first, as they take the memory of those for other sizes."""
        return super()._takes() if self._is_first else 0

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
