"""Adds the partitions that the library compiles to a schedule."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from .._util.open_sizes import OpenSize, present
from ..capi import CompiledPartition, Partition
from ..capi.postponed import compile_postponed
from ..capi.threads import ThreadCount
from ..errors import OneGraphError, OutOfMemoryError
from ..faults.operands import rows_together
from ..native.library import HASHES_CONSTANTS, status_error
from .edge_layouts import EdgeLayouts
from .ir.part import Part
from .ir.step import Step
from .ir.value import Dims, Value, dense_of
from .notes import Note
from .open_values import At, layout_of, open_sizes_of, value_at
from .partition_cache import Compiled, Pattern, wiring
from .patterns import Patterns
from .rounded_rows import RoundedRows
from .schedule import Schedule
from .shared_constants import Key
from .single_ops import Collapsing
from .slow_layouts import channels_first, channels_last
from .steps import CompiledStep, shifts_of
from .thread_tuning import SMALL_BYTES

ENOUGH = 1 << 27  # bytes; an allocation of this size fails only if memory is short


class NoParametersError(Exception):
    """A program cannot hold sizes as parameters."""


class OtherStepsError(NoParametersError):
    """With open sizes, a graph has other steps than the program for these sizes, which computed more beforehand."""


class Partitioning(NamedTuple):
    """What a partition is compiled from.

    Attributes:
        steps, results: as for ``Patterns.find``.
        values: at the ports, inputs first.
        places: as in ``Pattern``.
        n_inputs: number of inputs.
        is_open, free: as in ``Layout``, and for ``Pattern.compile``.
        is_small: whether it is compiled for one thread.
        chosen: as in ``Compiled``.
        takes_all: as in ``Pattern``.
        pattern: of a partition that depends on no size.
    """

    steps: Sequence[Step]
    results: Sequence[int]
    values: Sequence[Value]
    places: Sequence[int]
    n_inputs: int
    is_open: bool
    free: tuple[bool, ...]
    is_small: bool
    chosen: tuple[tuple[int, Dims, int], ...]
    takes_all: bool
    pattern: Pattern | None

    def compiled(
        self, at: At, patterns: Patterns, key: Callable[[Value], Key], threads: ThreadCount
    ) -> tuple[Pattern, Compiled]:
        """The pattern for known sizes, and what it is compiled to, maybe later.

        Args:
            at: what an open size is.
            patterns: finds patterns for these sizes.
            key: the key of a constant.
            threads: set to the number of threads.

        Raises:
            OneGraphError: the library refuses the partition.
            NoParametersError: for these sizes, the ops are not one partition with these ports.
        """
        pattern, _ = patterns.find(self.steps, None, self.results)
        if pattern.reason or [*pattern.places] != [*self.places] or pattern.n_inputs != self.n_inputs:
            raise NoParametersError("other partitions are fast, or right, for another size")
        values = [value_at(value, at) for value in self.values]
        threads.use(1 if self.is_small else None)
        layout = pattern.layout([value.strides for value in values], self.is_open)
        compiled = pattern.compile(values, layout, self.free, key)
        if compiled.chosen != tuple([(index, tuple(map(at, dims)), at(size)) for index, dims, size in self.chosen]):
            raise NoParametersError("the library chooses other strides for another size")
        return pattern, compiled

    def sizes(self) -> tuple[OpenSize, ...]:
        """The open sizes that it depends on."""
        return open_sizes_of(self.steps, self.values)

    def kind(self, key: Callable[[Value], Key] | None) -> Hashable:
        """What is equal for partitions that are one compiled partition for all sizes.

        ``key``: that of a constant; None where the library prepares none.
        """
        ends = [
            (*layout_of(value), value.constant is not None and (key is None or self.takes_all or key(value)))
            for value in self.values
        ]
        chosen = [dims for _, dims, _ in self.chosen]
        return wiring(self.steps, self.results)[0], tuple(ends), self.is_open, self.free, self.is_small, str(chosen)


def chosen_again(index: int, value: Value, strides: Dims, size: int, at: At) -> tuple[int, Dims, int]:
    """Strides that the library chose for an output, and its size in bytes, as they are for other sizes too.

    Args:
        index: of the port.
        value: the output.
        strides, size: for known sizes.
        at: what open sizes are then.

    Raises:
        NoParametersError: they follow no known rule.
    """
    nbytes = prod(value.shape) * value.dtype.numpy.itemsize
    rules = (dense_of, channels_last, channels_first) if len(value.shape) > 2 else (dense_of,)
    for rule in rules:
        dims = rule(value.shape)
        if tuple(map(at, dims)) == strides and at(nbytes) == size:
            return index, dims, nbytes
    raise NoParametersError("the library chooses strides by the size")


class LibrarySteps:
    """Adds partitions to a schedule.

    Args:
        schedule: the schedule of a graph.
        edges: the layouts of its values.
        patterns: the patterns of its partitions.
        share: whether small partitions are compiled for one thread.
        rows: rounds rows up; None where sizes do not change.
    """

    def __init__(
        self,
        schedule: Schedule,
        edges: EdgeLayouts,
        patterns: Patterns,
        *,
        share: bool,
        rows: RoundedRows | None,
    ) -> None:
        self._schedule, self._values, self._edges, self._patterns = schedule, schedule.values, edges, patterns
        self._share, self._rows = share, rows
        self._shared: list[tuple[int, Compiled, Sequence[Value]]] = []  # steps, and the values at their ports
        self._collapsed: dict[Part | None, tuple[CompiledPartition, list[int]]] = {}

    def add(
        self, steps: Sequence[Step], partition: Partition | None, results: Sequence[int] = (), note: str = ""
    ) -> tuple[str, int]:
        """Add the steps of one partition.

        Args:
            steps: the steps.
            partition, results: as for ``Patterns.find``.
            note: why the steps are not part of a larger partition.

        Returns:
            why they are not to be one partition, empty if they were added, and where to cut them, as in ``Pattern``.

        Raises:
            OneGraphError: the library refuses the partition.
        """
        if len(steps) == 1:
            results = steps[0].outputs
        elif partition is not None:
            results = partition.output_ids
        if self._rows is not None and self._add_rounded(self._rows, steps, results, note):
            return "", 0
        pattern, numbers = self._patterns.find(steps, partition, results)
        if not pattern.reason:
            self._add(pattern, steps, numbers, results, note)
        return pattern.reason, pattern.cut

    def _add_rounded(
        self,
        rows: RoundedRows,
        steps: Sequence[Step],
        results: Sequence[int],
        note: str,
    ) -> bool:
        """Add the steps on more rows; returns False if they do not compute row by row, or the library refuses them."""
        rounded = rows.rounded(steps, results)
        if rounded is None:
            return False
        try:
            pattern, numbers = self._patterns.find(rounded.steps, None, rounded.results)
            if pattern.reason:
                return False
            self._add(pattern, rounded.steps, numbers, rounded.results, "; ".join(filter(None, (note, rounded.note))))
        except OutOfMemoryError:
            raise
        except OneGraphError:
            return False
        rows.finish(rounded, steps[-1])
        return True

    def compile_postponed(self) -> bool:
        """Compile what the patterns have postponed; returns False if the library refuses some of it.

        Raises:
            OneGraphError: the library refuses, and nothing that it may refuse was postponed: memory is short.
        """
        groups = [group for pattern in self._patterns for group in pattern.postponed()]
        failed = next(filter(None, compile_postponed(groups, self._schedule.threads.before)), 0)
        try:
            if failed:
                raise status_error("dnnl_graph_partition_compile", failed)
            for pattern in self._patterns:
                pattern.settle()
        except OneGraphError:
            if self._patterns.postpones:
                return False
            raise
        steps = self._schedule.steps
        for index, compiled, values in self._shared:
            in_place = [
                (values[target].storage, values[source].storage)
                for target, source in compiled.in_place
                if not values[source].offset
            ]
            steps[index] = steps[index]._replace(in_place=in_place)  # type: ignore[call-arg]
        return True

    def _add(
        self, pattern: Pattern, steps: Sequence[Step], numbers: Sequence[int], results: Sequence[int], note: str
    ) -> None:
        """Add a library step that runs a pattern on the values ``numbers``."""
        schedule, ends = self._schedule, [numbers[place] for place in pattern.places]
        count = pattern.n_inputs
        if len(steps) > 1 and len(ends) > count + 1:
            schedule.take_back(ends[count:])  # a view and its source would be written into one memory
        values = [self._values[number] for number in ends]
        layout, copies = self._edges.choose(pattern, steps, values)
        free = tuple([value.dense and self._edges.is_free(value) for value in values[count:]]) if layout.is_open else ()
        is_small = self._use_threads(pattern)
        at = self._patterns.at
        known_values = values if at is None else [value_at(value, at) for value in values]
        compiled = pattern.compile(known_values, layout, free, schedule.key)
        recipe, chosen = None, compiled.chosen
        if at is not None:
            chosen = tuple([chosen_again(index, values[index], strides, size, at) for index, strides, size in chosen])
            settings = pattern.places, count, layout.is_open, free, is_small, chosen, pattern.takes_all
            recipe = Partitioning(steps, results, [*values], *settings, pattern)
            if recipe.sizes():  # the program for the present sizes alone holds it
                recipe = recipe._replace(pattern=None)
        for index, strides, size in chosen:
            value = values[index] = values[index]._replace(strides=strides)
            self._values[value.id], schedule.sizes[value.id] = value, size
        pieces, shifts = [value.storage for value in values], shifts_of(values)
        index = len(schedule.notes)
        kernel, like = compiled.made, compiled.like
        costs, is_quick = (pattern.nbytes, pattern.flops), is_small and pattern.is_quick
        again = None
        if HASHES_CONSTANTS and kernel._compilation.keeps_constants:
            again = partial(self._patterns.partition_again, steps, ends[count:])
        self._shared.append((len(schedule.steps), compiled, values))
        schedule.steps.append(
            CompiledStep(
                kernel, like, pieces, count, (), index, *costs, is_small, is_quick, shifts, again, ends, recipe=recipe
            )
        )
        schedule.notes.append(Note("oneDNN", steps, (note, *pattern.marks), values[:count], values[count:]))
        for source, target, why in copies:
            schedule.add_copy(source, target, steps[-1], why)

    def _use_threads(self, pattern: Pattern) -> bool:
        """Set the threads for the next compilation: one if the pattern is small and threads are shared.

        Returns:
            whether that is so.
        """
        is_small = self._share and pattern.nbytes <= SMALL_BYTES
        self._schedule.threads.use(1 if is_small else None)
        return is_small

    def add_collapsed(self, step: Step, note: str) -> bool:
        """Add a binary op that is fast on fewer axes only, with collapsed axes; returns False for other ops."""
        if not self._edges.has_slow_operand(step):
            return False
        values, schedule = self._values, self._schedule
        ends = [number if values[number].dense else schedule.dense_copy(values[number]) for number in step.inputs]
        if not all(values[number].dense for number in step.outputs):
            return False
        collapsed_part = self._collapsed.get(step.part)
        recipe = Collapsing(step._replace(inputs=tuple(ends)), [values[number] for number in (*ends, *step.outputs)])
        if collapsed_part is None:
            compiled = recipe.compiled(present, schedule.threads)
            if compiled is None:
                return False
            collapsed_part = self._collapsed[step.part] = compiled, recipe.places(compiled)
        compiled, places = collapsed_part
        shapes = [values[number].shape for number in ends]
        small = min((0, 1), key=lambda index: prod(shapes[index]))
        if (count := rows_together(values[step.outputs[0]].shape, shapes[small])) > 1:
            ends[small] = schedule.tiled(ends[small], count)
            reason = "on longer rows, as the library starts anew with each row for a vector that is so short"
        else:
            reason = (
                "on fewer axes, as the library has a reference kernel only for an operand that is broadcast like this"
            )
        index = self._schedule.note("oneDNN", step, note, reason)
        schedule.add_compiled(compiled, [[*ends, *step.outputs][place] for place in places], index, recipe)
        return True


def refusal_of(error: OneGraphError) -> str:
    """The reason why the library refuses ops. If memory is short, which may be temporary, the error is raised again.

    The library also throws bad_alloc for some shapes that it does not support.
    """
    if isinstance(error, OutOfMemoryError):
        try:
            if not error.what:
                raise MemoryError
            np.empty(ENOUGH, np.uint8)
        except MemoryError:
            raise error from None
    return str(error)
