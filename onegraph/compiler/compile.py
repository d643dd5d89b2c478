"""Compiles the steps of a lowered graph with the library, and falls back to numpy.

A partition that the library refuses, or would compute wrong, is compiled op by op. A partition with a slow kernel is
cut before the op that makes it slow, and both sides are partitioned anew. An op that is still refused becomes a view if
it only changes shape or axis order, and a numpy step otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import numpy as np

from ..capi import CompiledPartition, Partition
from ..capi.caches import (
    compiled_partition_cache_changes,
    get_compiled_partition_cache_capacity,
    programs_keep_constants,
)
from ..capi.partition import compile_postponed
from ..capi.threads import restore_threads
from ..errors import OneGraphError, OutOfMemoryError
from ..faults.operands import rows_together
from ..faults.use import VIEWS
from ..native.library import HASHES_CONSTANTS, status_error
from .edge_layouts import EdgeLayouts
from .ir.lowered import Lowered
from .ir.part import Part
from .ir.step import Step
from .ir.value import Value
from .notes import Note
from .own_kernels import OwnKernels
from .pads import add_pad
from .partition_cache import Compiled, Pattern, wiring
from .partitioner import find_partitions, search
from .patterns import Patterns
from .schedule import Schedule
from .single_ops import collapsed_binary
from .steps import CompiledStep, shifts_of
from .thread_tuning import SMALL_BYTES
from .views import add_view

ENOUGH = 1 << 27  # bytes; an allocation of this size fails only if memory is short


def compile_steps(
    lowered: Lowered, *, policy: str, fpmath_mode: str, share: bool, unkept: frozenset[int] = frozenset()
) -> Schedule:
    """The steps of a graph, compiled.

    Args:
        lowered: the graph.
        policy: ``fusion`` or ``debug``.
        fpmath_mode: name of the library's mode.
        share: whether small partitions are compiled for one thread.
        unkept: ids of the steps whose constants the library must not keep.
    """
    changes = compiled_partition_cache_changes()
    keeps = get_compiled_partition_cache_capacity() > 0 or (HASHES_CONSTANTS and programs_keep_constants())

    def compiled(keeps: bool) -> Schedule:
        compiler = partial(_StepCompiler, lowered, fpmath_mode, share=share, keeps=keeps, unkept=unkept)
        # If the library refuses a postponed partition, the steps behind it may differ.
        return compiler(postpones=True).run(policy) or compiler(postpones=False).run(policy)  # type: ignore[return-value]

    schedule = compiled(keeps)
    switched = changes != compiled_partition_cache_changes() or get_compiled_partition_cache_capacity() > 0
    if keeps or not switched:
        return schedule
    return compiled(keeps=True)  # another thread enabled the cache meanwhile


class _StepCompiler:
    """Fills the schedule of a graph.

    Args:
        lowered, fpmath_mode, share, unkept: as for :func:`compile_steps`.
        keeps, postpones: as for :class:`Patterns`.
    """

    def __init__(
        self,
        lowered: Lowered,
        fpmath_mode: str,
        *,
        share: bool,
        keeps: bool,
        unkept: frozenset[int],
        postpones: bool,
    ) -> None:
        self._lowered, self._fpmath_mode, self._share = lowered, fpmath_mode, share
        self._schedule = Schedule(lowered)
        self._values = self._schedule.values
        self._edges = EdgeLayouts(lowered, self._schedule)
        self._own_kernels = OwnKernels(lowered, self._schedule, self._edges)
        self._patterns = Patterns(lowered, self._schedule, fpmath_mode, keeps=keeps, unkept=unkept, postpones=postpones)
        self._postpones = postpones
        self._shared: list[tuple[int, Compiled, Sequence[Value]]] = []  # steps, and the values at their ports
        self._pieces: dict[object, list[tuple[list[int], list[int]]]] = {}
        self._collapsed: dict[Part | None, tuple[CompiledPartition, list[int]]] = {}
        self._scales = False  # whether a kernel of the package runs a Quantize or Dequantize

    def run(self, policy: str) -> Schedule | None:
        """Fill the schedule; called once.

        Returns:
            the schedule; None if the library refuses a partition that was postponed.
        """
        steps, self._scales = self._lowered.steps, policy == "fusion"
        library_ops = sum(step.executor == "library" for step in steps)
        try:
            if policy == "fusion" and library_ops > 1:  # the search for fusions takes at least 3 ms
                for partition, found in find_partitions(self._lowered, self._fpmath_mode):
                    self._add(found, partition)
            else:
                for step in steps:
                    self._add_one(step)
            if not self._compile_postponed():
                return None
            for step in self._lowered.folded:
                self._schedule.note("constant", step, "computed once, at compilation", step.note)
        finally:
            restore_threads(self._schedule.threads.before)
        return self._schedule

    def _compile_postponed(self) -> bool:
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
            if self._postpones:
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

    # Partitions ------------------------------------------------------------------------------------------------------

    def _add(
        self, steps: Sequence[Step], partition: Partition | None, note: str = "", results: Sequence[int] = ()
    ) -> None:
        """Add the steps of one partition.

        Args:
            steps: the steps.
            partition, results: as for ``Patterns.find``.
            note: why the steps are not part of a larger partition.
        """
        if len(steps) == 1:
            self._add_one(steps[0], note, partition)
            return
        if self._own_kernels.add_scaling(steps):
            return
        reason, cut = "", 0
        if any(step.kind not in VIEWS for step in steps):  # as a partition, views would be copied
            try:
                pattern, numbers = self._patterns.find(steps, partition, results)
                reason, cut = pattern.reason, pattern.cut
                if not reason:
                    self._add_library(pattern, steps, numbers, note)
                    return
            except OneGraphError as error:
                reason = _refusal(error)
        if cut:
            self._add_piece(steps[:cut], reason)
            self._add_piece(steps[cut:], reason)
            return
        for step in steps:
            self._add_one(step, reason)

    def _add_piece(self, steps: Sequence[Step], note: str) -> None:
        """Add some steps of a partition, which are partitioned without the others."""
        if len(steps) == 1:
            self._add_one(steps[0], note)
            return
        inside = {step.id for step in steps}
        made = [number for step in steps for number in step.outputs]
        consumers = {number: [step.id for step in self._lowered.consumers(number)] for number in made}
        needed = {number for number in made if not inside.issuperset(consumers[number])}
        ends = [number for number in made if number in needed]
        wired, numbers = wiring(steps, ends)  # equal pieces are partitioned in the same way
        known = self._pieces.get(wired)
        if known is not None:
            for places, results in known:
                self._add([steps[place] for place in places], None, note, [numbers[result] for result in results])
            return
        known = self._pieces[wired] = []
        for partition, found in [*search(self._lowered, self._fpmath_mode, steps, needed)]:
            outputs = () if partition is None else partition.output_ids
            known.append(([steps.index(step) for step in found], [numbers.index(number) for number in outputs]))
            self._add(found, partition, note)

    def _add_one(self, step: Step, note: str = "", partition: Partition | None = None) -> None:
        """Add one step: compiled by the library if possible, otherwise as a view or a numpy step."""
        schedule, kernels, reason = self._schedule, self._own_kernels, ""
        if step.executor == "view":
            return  # a change of axis order that costs nothing
        if step.executor in ("guarded", "patched"):
            self._add_one(step._replace(executor="library"), note)
            kernels.add_guard(step)
            return
        if step.executor == "exact":
            kernels.add_exact(step)
            return
        if step.executor == "pointwise":
            kernels.add_pointwise(step)
            return
        if step.executor == "labels":
            kernels.add_log_softmax_gradient(step)
            return
        if step.executor == "windows":
            kernels.add_windows(step)
            return
        if step.executor in ("vectors", "packed"):
            (kernels.add_vectors if step.executor == "vectors" else kernels.add_packed)(step)
            return
        if schedule.add_repeated(step):
            return
        if step.executor == "kernel":
            (kernels.add_transform if "code" in step.attrs else kernels.add_on_codes)(step)
            return
        if step.executor == "library":
            if (step.kind in VIEWS and add_view(schedule, step)) or kernels.add_concat(step):
                return
            if kernels.add_scaling([step]) or (self._scales and kernels.add_rescaling(step)):
                return
            try:
                if not self._add_collapsed(step, note):
                    pattern, numbers = self._patterns.find((step,), partition)
                    self._add_library(pattern, (step,), numbers, note)
                return
            except OneGraphError as error:
                reason = _refusal(error)
            if schedule.take_back(step.outputs):  # maybe refused for the strides of the graph output
                self._add_one(step, note)
                return
        if step.executor == "copy" or step.kind == "TypeCast":
            schedule.add_cast(step, reason)
        elif add_view(schedule, step) or kernels.add_host_op(step) or add_pad(schedule, step):
            return
        elif not kernels.add_op(step, reason or step.note):
            schedule.add_numpy(step, reason or step.note)

    # The library's partitions ----------------------------------------------------------------------------------------

    def _add_library(self, pattern: Pattern, steps: Sequence[Step], numbers: Sequence[int], note: str = "") -> None:
        """Add a library step that runs a pattern on the values ``numbers``."""
        schedule, ends = self._schedule, [numbers[place] for place in pattern.places]
        count = pattern.n_inputs
        if len(steps) > 1 and len(ends) > count + 1:
            schedule.take_back(ends[count:])  # a view and its source would be written into one memory
        values = [self._values[number] for number in ends]
        layout, copies = self._edges.choose(pattern, steps, values)
        free = tuple([value.dense and self._edges.is_free(value) for value in values[count:]]) if layout.is_open else ()
        is_small = self._use_threads(pattern)
        compiled = pattern.compile(values, layout, free)
        for index, chosen, size in compiled.chosen:
            value = values[index] = values[index]._replace(strides=chosen)
            self._values[value.id], schedule.sizes[value.id] = value, size
        pieces, shifts = [value.storage for value in values], shifts_of(values)
        index = len(schedule.notes)
        made, like = compiled.made, compiled.like
        costs, is_quick = (pattern.nbytes, pattern.flops), is_small and pattern.is_quick
        again = None
        if HASHES_CONSTANTS and made._compilation.keeps_constants:
            again = partial(self._patterns.partition_again, steps, ends[count:])
        self._shared.append((len(schedule.steps), compiled, values))
        schedule.steps.append(
            CompiledStep(made, like, pieces, count, (), index, *costs, is_small, is_quick, shifts, again, ends)
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

    def _add_collapsed(self, step: Step, note: str) -> bool:
        """Add a binary op that is fast on fewer axes only, with collapsed axes; returns False for other ops."""
        if not self._edges.has_slow_operand(step):
            return False
        values, schedule = self._values, self._schedule
        ends = [number if values[number].dense else schedule.dense_copy(values[number]) for number in step.inputs]
        if not all(values[number].dense for number in step.outputs):
            return False
        known = self._collapsed.get(step.part)
        if known is None:
            schedule.threads.use(None)
            compiled = collapsed_binary(step._replace(inputs=tuple(ends)), values)
            if compiled is None:
                return False
            places = [[*ends, *step.outputs].index(tensor.id) for tensor in (*compiled.inputs, *compiled.outputs)]
            known = self._collapsed[step.part] = compiled, places
        compiled, places = known
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
        schedule.add_compiled(compiled, [[*ends, *step.outputs][place] for place in places], index)
        return True


def _refusal(error: OneGraphError) -> str:
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
