"""Compiles the steps of a lowered graph with the library, and falls back to numpy.

A partition that the library refuses, or would compute wrong, is compiled op by op. A partition that has a reference
kernel only is cut before the op that makes it slow, and both sides are partitioned anew. An op that is still refused
becomes a view if it only changes shape or axis order, and a numpy step otherwise. The library chooses the layout of a
tensor between partitions if every reader honours strides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod

import numpy as np

from .._util.fork_safety import cached_property
from ..capi import CompiledPartition, Partition
from ..capi.caches import (
    compiled_partition_cache_changes,
    get_compiled_partition_cache_capacity,
    programs_keep_constants,
)
from ..capi.settings import has_avx2, has_vnni
from ..capi.threads import restore_threads
from ..errors import OneGraphError, OutOfMemoryError, UnsupportedError
from ..faults.fusions import wrong_fusion, wrong_strides
from ..faults.operands import rows_together, varying
from ..faults.ops.pooling import SLOW_CHANNELS_FIRST
from ..faults.performance import REFERENCE, reference_kernel
from ..faults.slow_fusions import slow_fusion
from ..faults.use import VIEWS, Fused
from ..native.library import HASHES_CONSTANTS, VERSION, lib
from .lower import Lowered, Step, Value, dense_of
from .partition_cache import Layout, Pattern, Wiring, wiring
from .partitioner import find_partitions, search
from .report import nbytes
from .schedule import Schedule
from .steps import (
    ARITHMETIC,
    LibraryStep,
    Note,
    channels_last,
    collapsed_binary,
    is_slow_pool,
    mixed,
    needs_dense,
    slow_operand,
)
from .thread_tuning import SMALL_BYTES
from .to_capi import capi_graph

WITH_REFERENCE_KERNELS = frozenset(kind for fault in REFERENCE for kind in fault.ops)
# Elements; the memory that can be read behind prepared constants is at least that of their layout in a kernel.
MOST_CONSTANTS = 1 << 29
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
    schedule = _StepCompiler(lowered, fpmath_mode, share=share, keeps=keeps, unkept=unkept).run(policy)
    switched = changes != compiled_partition_cache_changes() or get_compiled_partition_cache_capacity() > 0
    if keeps or not switched:
        return schedule
    # Another thread enabled the cache meanwhile.
    return _StepCompiler(lowered, fpmath_mode, share=share, keeps=True, unkept=unkept).run(policy)


class _StepCompiler:
    """Fills the schedule of a graph.

    ``keeps``: whether the library caches prepared constants by partition id, or whole compiled partitions, so that
    compiling a partition again would reuse its constants. ``unkept``: as for :func:`compile_steps`.
    """

    def __init__(self, lowered: Lowered, fpmath_mode: str, *, share: bool, keeps: bool, unkept: frozenset[int]) -> None:
        self._lowered = lowered
        self._schedule = Schedule(lowered)
        self._values = self._schedule.values
        self._share = share
        self._fpmath_mode = fpmath_mode
        self._patterns: dict[tuple[Wiring, tuple[bool, ...]], Pattern] = {}
        self._slow: dict[int, bool] = {}  # whether a binary op has a slow operand, by id of its part
        self._collapsed: dict[int, tuple[CompiledPartition, list[int]]] = {}
        self._keeps, self._unkept = keeps, unkept
        self._can_keep = HASHES_CONSTANTS and programs_keep_constants() and not lib.onegraph_can_prepare()

    def run(self, policy: str) -> Schedule:
        """Fill the schedule; called once."""
        steps = self._lowered.steps
        library_ops = sum(step.executor == "library" for step in steps)
        try:
            if policy == "fusion" and library_ops > 1:  # the search for fusions takes at least 3 ms
                for partition, found in find_partitions(self._lowered, self._fpmath_mode):
                    self._add(found, partition)
            else:
                for step in steps:
                    self._add_one(step)
            for pattern in self._patterns.values():
                self._use_threads(pattern)
                pattern.compile_others()
            for step in self._lowered.folded:
                self._schedule.note("constant", step, "computed once, at compilation")
        finally:
            restore_threads(self._schedule.threads.before)
        return self._schedule

    # Partitions ------------------------------------------------------------------------------------------------------

    def _add(self, steps: Sequence[Step], partition: Partition | None, note: str = "") -> None:
        """Add the steps of one partition; ``note`` says why they are not part of a larger one."""
        if len(steps) == 1:
            self._add_one(steps[0], note, partition)
            return
        reason, cut = "", 0
        if any(step.kind not in VIEWS for step in steps):  # as a partition, views would be copied
            try:
                pattern, numbers = self._pattern(steps, partition)
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
        needed = {
            n for step in steps for n in step.outputs if any(o.id not in inside for o in self._readers.get(n, ()))
        }
        for partition, found in [*search(self._lowered, self._fpmath_mode, steps, needed)]:
            self._add(found, partition, note)

    def _pattern(self, steps: Sequence[Step], partition: Partition | None = None) -> tuple[Pattern, list[int]]:
        """The pattern of these steps, made if it is new, and their values in the order of the pattern.

        Args:
            steps: the steps of a partition.
            partition: the library's partition of these steps; None only for a single step, whose partition is made
                here.

        Raises:
            OneGraphError: the library refuses the op.
        """
        results = steps[0].outputs if len(steps) == 1 or partition is None else partition.output_ids
        wired, numbers = wiring(steps, results)
        constant = tuple([self._values[number].constant is not None for number in numbers]) if len(steps) > 1 else ()
        key = wired, constant
        pattern = self._patterns.get(key)
        if pattern is not None and not (self._keeps and self._reads_constants(steps)):
            return pattern, numbers
        reason, cut = "", 0
        if partition is None:
            graph, refused = capi_graph(self._lowered, self._fpmath_mode, steps)
            if refused:
                raise UnsupportedError(*refused.values())
            (partition,) = graph.partitions("debug")
        if len(steps) > 1:
            inputs = [*dict.fromkeys(partition.input_ids)]
            constants = frozenset([number for number, known in zip(numbers, constant, strict=True) if known])
            uses = [self._schedule.use(step) for step in steps]
            fused = Fused(uses, has_vnni(), has_avx2(), constants=constants)
            if reason := wrong_fusion(fused, VERSION):
                reason = f"{reason}, so that the ops run one by one"
            elif slow := slow_fusion(fused, VERSION):
                reason, cut = f"{slow.reason}, so that the ops run apart", slow.place
        else:
            inputs = [*dict.fromkeys(steps[0].inputs)]
        size = sum([nbytes(self._values[number]) for number in (*inputs, *results)])
        keeps = self._keeps_constants(steps, inputs)
        pattern = self._patterns[key] = Pattern(partition, steps, inputs, results, numbers, size, keeps, reason, cut)
        pattern.marks = tuple(self._marks(steps))
        return pattern, numbers

    def _keeps_constants(self, steps: Sequence[Step], inputs: Sequence[int]) -> bool:
        """Whether the library may keep what it computes from the constants of a partition with these inputs."""
        if not HASHES_CONSTANTS:
            return True
        if not self._can_keep:
            return False
        constants = [self._values[number].constant for number in inputs]
        sizes = [constant.size for constant in constants if constant is not None]
        # There is nothing to keep of a scalar, such as the scale in an attention, for which some kernels keep nothing.
        is_worthwhile = max(sizes, default=0) > 1 and sum(sizes) < MOST_CONSTANTS
        return is_worthwhile and self._unkept.isdisjoint(step.id for step in steps)

    def _partition_again(self, steps: Sequence[Step], results: Sequence[int]) -> Partition:
        """Another partition of these steps, of which the library keeps no constants yet."""
        graph, _ = capi_graph(self._lowered, self._fpmath_mode, steps, results)
        partitions = graph.partitions("fusion" if len(steps) > 1 else "debug")
        for partition in partitions:
            if len(partition.ops) == len(steps):
                return partition
        raise UnsupportedError("the library finds another partition for the same ops")

    def _marks(self, steps: Sequence[Step]) -> Iterator[str]:
        """The steps that are known to run a reference kernel because there is no better way, for the report."""
        for step in steps:
            if step.kind in WITH_REFERENCE_KERNELS and (
                found := reference_kernel(self._schedule.use(step).call, VERSION)
            ):
                yield f"reference kernel: {found}"

    def _reads_constants(self, steps: Sequence[Step]) -> bool:
        return any(self._values[number].constant is not None for step in steps for number in step.inputs)

    def _add_one(self, step: Step, note: str = "", partition: Partition | None = None) -> None:
        """Add one step: compiled by the library if possible, otherwise as a view or a numpy step."""
        schedule, reason = self._schedule, ""
        if step.executor == "view":
            return  # a change of axis order that costs nothing
        if step.executor == "library":
            if step.kind in VIEWS and schedule.add_view(step):
                return
            try:
                if not self._add_collapsed(step, note):
                    pattern, numbers = self._pattern((step,), partition)
                    self._add_library(pattern, (step,), numbers, note)
                return
            except OneGraphError as error:
                reason = _refusal(error)
            if schedule.take_back(step.outputs):  # maybe refused for the strides of the graph output
                self._add_one(step, note)
                return
        if step.executor == "copy" or step.kind == "TypeCast":
            schedule.add_cast(step, reason)
        elif not schedule.add_view(step):
            schedule.add_numpy(step, reason)

    # The library's partitions ----------------------------------------------------------------------------------------

    def _add_library(self, pattern: Pattern, steps: Sequence[Step], numbers: Sequence[int], note: str = "") -> None:
        """Add a library step that runs a pattern on the values ``numbers``."""
        schedule, ends = self._schedule, [numbers[place] for place in pattern.places]
        count = pattern.n_inputs
        if len(steps) > 1 and len(ends) > count + 1:
            schedule.take_back(ends[count:])  # a view and its source would be written into one memory
        values = [self._values[number] for number in ends]
        layout, copies = self._layout(pattern, steps, values)
        free = tuple([value.dense and self._is_free(value) for value in values[count:]]) if layout.is_open else ()
        is_small = self._use_threads(pattern)
        compiled = pattern.compile(values, layout, free)
        for index, chosen, size in compiled.chosen:
            value = values[index] = values[index]._replace(strides=chosen)
            self._values[value.id], schedule.sizes[value.id] = value, size
        pieces = [value.storage for value in values]
        index = len(schedule.notes)
        in_place = compiled.in_place and [(pieces[target], pieces[source]) for target, source in compiled.in_place]
        made, like = compiled.made, compiled.like
        is_quick = is_small and pattern.is_quick
        again = None
        if HASHES_CONSTANTS and made._compilation.keeps_constants:
            again = partial(self._partition_again, steps, ends[count:])
        schedule.steps.append(
            LibraryStep(made, like, pieces, count, in_place, index, pattern.nbytes, is_small, is_quick, again)
        )
        schedule.notes.append(Note("oneDNN", steps, (note, *pattern.marks), values[:count], values[count:]))
        for source, target, why in copies:
            schedule.add_copy(source, target, steps[-1], why)

    def _layout(
        self, pattern: Pattern, steps: Sequence[Step], values: list[Value]
    ) -> tuple[Layout, list[tuple[Value, Value, str]]]:
        """The layout of a pattern for the strides of ``values``, and the copies of results to make after the ops.

        In ``values``, dense values replace those whose strides the ops do not honour, and channels-last values those of
        a pool that is slow otherwise. A copy is a source, a target and the reason.

        Raises:
            UnsupportedError: the ops cannot be run on values of these strides.
        """
        schedule, count, copies = self._schedule, pattern.n_inputs, list[tuple[Value, Value, str]]()
        layout = pattern.layouts.get(tuple([value.strides for value in values]))
        if layout is not None:
            return layout, copies
        returned = {value.id for value in values[count:] if value.id in schedule.returned and not value.dense}
        strided = frozenset([value.id for value in values if not value.dense])
        uses = [schedule.use(step) for step in steps] if strided and len(steps) > 1 else []
        if not uses or not wrong_strides(Fused(uses, strided=strided), VERSION):
            returned.clear()
        elif reason := wrong_strides(Fused(uses, strided=strided - returned), VERSION):
            raise UnsupportedError(f"{reason}, so that the ops run one by one")
        copied = mixed(steps, values[:count]) if strided else ()
        for index, value in enumerate(values):
            if value.id in returned or value.id in copied or (not value.dense and needs_dense(value, steps)):
                if index < count:
                    values[index] = self._values[schedule.dense_copy(value)]
                    continue
                if value.id not in schedule.returned:
                    raise UnsupportedError(f"{steps[-1].kind} writes dense tensors only")
                values[index] = schedule.new_value(value, dense_of(value.shape))
                copies.append((values[index], value, f"{steps[-1].kind} writes dense tensors only"))
        if len(steps) == 1 and is_slow_pool(steps[0], schedule.use(steps[0]).call, values):
            for index, value in enumerate(values):
                strides = channels_last(value.shape)
                if index < count:
                    values[index] = self._values[schedule.copy(value, strides, SLOW_CHANNELS_FIRST.reason)]
                elif not self._is_free(value):
                    values[index] = schedule.new_value(value, strides)
                    copies.append((values[index], value, SLOW_CHANNELS_FIRST.reason))
        # Convolutions of channels-first data are fastest with channels-last strides, as are the ops between them.
        is_open = any(step.attrs.get("data_format") == "NCX" for step in steps)
        is_open = is_open or not all(value.dense for value in values[:count])
        return pattern.layouts.setdefault(tuple([value.strides for value in values]), Layout(is_open, {})), copies

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
        if not self._is_slow(step):
            return False
        values, schedule = self._values, self._schedule
        ends = [number if values[number].dense else schedule.dense_copy(values[number]) for number in step.inputs]
        if not all(values[number].dense for number in step.outputs):
            return False
        known = self._collapsed.get(id(step.part))
        if known is None:
            schedule.threads.use(None)
            compiled = collapsed_binary(step._replace(inputs=tuple(ends)), values)
            if compiled is None:
                return False
            places = [[*ends, *step.outputs].index(tensor.id) for tensor in (*compiled.inputs, *compiled.outputs)]
            known = self._collapsed[id(step.part)] = compiled, places
        compiled, places = known
        shapes = [values[number].shape for number in ends]
        small = min((0, 1), key=lambda index: prod(shapes[index]))
        if (count := rows_together(values[step.outputs[0]].shape, shapes[small])) > 1:
            ends[small] = schedule.repeated(ends[small], count)
            reason = "on longer rows, as the library starts anew with each row for a vector that is so short"
        else:
            reason = (
                "on fewer axes, as the library has a reference kernel only for an operand that is broadcast like this"
            )
        index = self._schedule.note("oneDNN", step, note, reason)
        schedule.add_compiled(compiled, [[*ends, *step.outputs][place] for place in places], index)
        return True

    def _is_slow(self, step: Step) -> bool:
        """Whether the library has no fast kernel for the operand of a binary op."""
        known = self._slow.get(id(step.part))
        if known is None:
            known = self._slow[id(step.part)] = slow_operand(step, self._values) is not None
        return known

    @cached_property
    def _readers(self) -> dict[int, list[Step]]:
        """The steps that read a value."""
        readers: dict[int, list[Step]] = {}
        for step in self._lowered.steps:
            for number in step.inputs:
                readers.setdefault(number, []).append(step)
        return readers

    def _is_free(self, value: Value) -> bool:
        """Whether the library may choose the layout: the value is not returned, and every reader honours strides."""
        if len(value.shape) < 2 or 0 in value.shape:
            return False
        if value.id in self._schedule.returned or value.id in self._schedule.viewed:
            return False
        readers = self._readers.get(value.id, ())
        return bool(readers) and all(
            step.executor == "library"
            and step.kind != "StaticReshape"
            and not needs_dense(value, [step])
            and not (self._is_slow(step) or (step.kind in ARITHMETIC and self._repeats_batch(step)))
            for step in readers
        )

    def _repeats_batch(self, step: Step) -> bool:
        """Whether the operand of a binary op is broadcast along the first axis alone: fast for dense tensors only."""
        result = self._values[step.outputs[0]].shape
        return any(
            not varies[0] and all(varies[1:]) and result[0] > 1
            for varies in (varying(result, self._values[number].shape) for number in step.inputs)
        )


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
