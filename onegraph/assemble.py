"""From a lowered graph to steps that run: partitions compiled by the library, and what numpy does in their place.

A partition that the library refuses, or would compute wrong, is tried op by op; what is still refused becomes a view
where it only names the axes anew, and a numpy step otherwise. The layout of a tensor between partitions is left to the
library where every reader honours strides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from .capi import CompiledPartition, Partition
from .capi.caches import (
    compiled_partition_cache_changes,
    get_compiled_partition_cache_capacity,
    get_constant_tensor_cache,
)
from .capi.settings import has_avx2, has_vnni
from .capi.threads import restore_threads
from .errors import LibraryRuntimeError, OneGraphError, OutOfMemoryError, UnsupportedError
from .forks import cached_property
from .layouts import Layouts
from .library_graph import capi_graph
from .lower import Lowered, Step, Value
from .native import VERSION
from .patterns import Layout, Pattern, Wiring, wiring
from .plain import isinstance
from .plan import LibraryStep
from .report import nbytes
from .spec.fusions import wrong_fusion
from .spec.slow_fusions import slow_fusion
from .spec.use import VIEWS
from .spec.wrong_operands import wrong_strides
from .steps import (
    ARITHMETIC,
    Note,
    NumpyStep,
    caster,
    collapsed_binary,
    in_order,
    needs_dense,
    numpy_step,
    slow_operand,
)
from .threads import SMALL_BYTES

PIECE = 400  # steps that the library searches for partitions at a time
OVERLAP = 50  # more than any of its patterns is long
ENOUGH = 1 << 27  # bytes that are there where memory is not short


class Assembly(Layouts):
    """The steps of a graph in the order in which they run, with the values that they read and write.

    Args:
        lowered: the graph.
        policy: ``fusion`` or ``debug``.
        fpmath_mode: as the library takes it.
        share: whether small partitions are compiled for one thread.
        keeps: whether the library keeps what it makes of constants for all that is compiled of a partition, by the
            number of the partition, or with the compiled one, which it then gives out again.
    """

    def __init__(self, lowered: Lowered, *, policy: str, fpmath_mode: str, share: bool, keeps: bool) -> None:
        super().__init__(lowered)
        self._share = share
        self._fpmath_mode = fpmath_mode
        self._patterns: dict[Wiring, Pattern] = {}
        self._slow: dict[int, bool] = {}  # binary ops, by their parts
        self._collapsed: dict[int, tuple[CompiledPartition, list[int]]] = {}
        self._keeps = keeps
        library_ops = sum(step.executor == "library" for step in lowered.steps)
        try:
            if policy == "fusion" and library_ops > 1:  # looking for fusions takes 3 ms, whatever the graph
                self._add_partitions(lowered.steps)
            else:
                for step in lowered.steps:
                    self._add_one(step)
            for pattern in self._patterns.values():
                self._use_threads(pattern)
                pattern.compile_others()
        finally:
            restore_threads(self._threads.before)

    @classmethod
    def of(cls, lowered: Lowered, *, policy: str, fpmath_mode: str, share: bool) -> Assembly:
        """The steps, for the caches as they are."""
        changes = compiled_partition_cache_changes()
        keeps = get_compiled_partition_cache_capacity() > 0 or (VERSION >= (3, 3) and get_constant_tensor_cache())
        made = cls(lowered, policy=policy, fpmath_mode=fpmath_mode, share=share, keeps=keeps)
        switched = changes != compiled_partition_cache_changes() or get_compiled_partition_cache_capacity() > 0
        if keeps or not switched:
            return made
        # Another thread switched the cache on meanwhile.
        return cls(lowered, policy=policy, fpmath_mode=fpmath_mode, share=share, keeps=True)

    # Partitions ------------------------------------------------------------------------------------------------------

    def _add_partitions(self, steps: Sequence[Step]) -> None:
        """Steps that the library may join."""
        # The library's search takes time with the square of the number of ops, so it gets a piece at a time. What would
        # reach into the last steps of a piece may be cut short there, and is searched again with what comes after.
        count = len(steps)
        last_read = {number: step.id for step in steps for number in step.inputs}
        waiting: list[Step] = []
        at = 0
        while waiting or at < count:
            piece = [*waiting, *steps[at : at + PIECE - len(waiting)]]
            at += len(piece) - len(waiting)
            firm = count if at == count else piece[-OVERLAP].id  # the first of those that are searched again
            done: set[int] = set()
            for partition, numbers, refused in self._found(piece, last_read):
                if numbers[0] >= count:
                    continue  # a mark in the library's graph
                if numbers[-1] >= firm and done:
                    break
                done.update(numbers)
                if len(numbers) > 1:
                    self._add(partition, [steps[number] for number in numbers])
                else:
                    (number,) = numbers
                    self._add_one(steps[number], "", None if number in refused else partition)
            waiting = [step for step in piece if step.id not in done]

    def _found(
        self, piece: Sequence[Step], last_read: Mapping[int, int]
    ) -> Iterator[tuple[Partition, list[int], Collection[int]]]:
        """Partitions in an order in which they can run, the numbers of their ops, and which ops the library refuses."""
        needed = [number for step in piece for number in step.outputs if last_read.get(number, -1) > piece[-1].id]
        graph, refused = capi_graph(self.lowered, self._fpmath_mode, piece, needed)
        try:
            partitions = graph.partitions("fusion")
        except LibraryRuntimeError:
            if len(piece) == 1:
                raise
            # The search throws on some graphs that have much in common with one of its patterns.
            half = len(piece) // 2
            yield from self._found(piece[:half], last_read)
            yield from self._found(piece[half:], last_read)
            return
        for partition, numbers in in_order(partitions, piece):
            yield partition, numbers, refused

    def _add(self, partition: Partition, steps: Sequence[Step]) -> None:
        reason = ""
        if any(step.kind not in VIEWS for step in steps):  # views are no copies, or one
            try:
                pattern, numbers = self._pattern(steps, partition)
                if not (reason := pattern.reason):
                    self._add_library(pattern, steps, numbers)
                    return
            except OneGraphError as error:
                reason = _refusal(error)
        for step in steps:
            self._add_one(step, reason)

    def _pattern(self, steps: Sequence[Step], partition: Partition | None = None) -> tuple[Pattern, list[int]]:
        """What the library knows of ops like these, and the values of these in turn.

        Args:
            steps: one op, or several.
            partition: what the library made of them; by default that is found out for one op.

        Raises:
            OneGraphError: the library refuses the op.
        """
        results = steps[0].outputs if len(steps) == 1 or partition is None else partition.output_ids
        key, numbers = wiring(steps, results)
        pattern = self._patterns.get(key)
        if pattern is not None and not (self._keeps and self._reads_constants(steps)):
            return pattern, numbers
        reason = ""
        if partition is None:
            graph, refused = capi_graph(self.lowered, self._fpmath_mode, steps)
            if refused:
                raise UnsupportedError(*refused.values())
            (partition,) = graph.partitions("debug")
        if len(steps) > 1:
            inputs = [*dict.fromkeys(partition.input_ids)]
            uses = [self._use(step) for step in steps]
            reason = wrong_fusion(uses, VERSION, vnni=has_vnni(), avx2=has_avx2()) or slow_fusion(uses)
            reason = reason and f"{reason}, so that the ops run one by one"
        else:
            inputs = [*dict.fromkeys(steps[0].inputs)]
        size = sum([nbytes(self.values[number]) for number in (*inputs, *results)])
        pattern = self._patterns[key] = Pattern(partition, steps, inputs, results, numbers, size, reason)
        return pattern, numbers

    def _reads_constants(self, steps: Sequence[Step]) -> bool:
        return any(self.values[number].constant is not None for step in steps for number in step.inputs)

    def _add_one(self, step: Step, note: str = "", partition: Partition | None = None) -> None:
        """One op: the library's if it takes it, or else a view or a step of numpy's."""
        if step.executor == "view":
            return  # a change of axis order that costs nothing
        reason = ""
        if step.executor == "library":
            if step.kind in VIEWS and self._add_view(step):
                return
            try:
                if step.kind not in ARITHMETIC or not self._add_collapsed(step, note):
                    pattern, numbers = self._pattern((step,), partition)
                    self._add_library(pattern, (step,), numbers, note)
                return
            except OneGraphError as error:
                reason = _refusal(error)
            if self._take_back(step.outputs):  # the strides that a place in the output asks for may be the reason
                self._add_one(step, note)
                return
        if step.executor == "copy" or step.kind == "TypeCast":
            self._add_cast(step, reason)
        elif not self._add_view(step):
            self.steps.append(numpy_step(step, self.values, self._note("reference", step, reason or step.note)))

    def _add_cast(self, step: Step, reason: str) -> None:
        """A TypeCast by numpy: of data types that the CPU has not, the library's takes 20 times as long."""
        (target,) = step.outputs
        reason = reason or "by numpy: the library's kernel for data types that the CPU has not is slower"
        index = self._note("copy", step, step.note, reason)
        self.steps.append(NumpyStep(caster(self.values[target].dtype), step.inputs, step.outputs, index))

    # The library's partitions ----------------------------------------------------------------------------------------

    def _add_library(self, pattern: Pattern, steps: Sequence[Step], numbers: Sequence[int], note: str = "") -> None:
        """What runs steps of a pattern on their values, ``numbers``."""
        ends = [numbers[place] for place in pattern.places]
        count = pattern.n_inputs
        if len(steps) > 1 and len(ends) > count + 1:
            self._take_back(ends[count:])  # a view and its source would be written into one memory
        values = [self.values[number] for number in ends]
        layout, copies = self._layout(pattern, steps, values)
        free = tuple([value.dense and self._is_free(value) for value in values[count:]]) if layout.is_open else ()
        is_small = self._use_threads(pattern)
        compiled = pattern.compile(values, layout, free)
        for index, chosen, size in compiled.chosen:
            value = values[index] = values[index]._replace(strides=chosen)
            self.values[value.id], self.sizes[value.id] = value, size
        pieces = [value.storage for value in values]
        index = len(self.notes)
        in_place = compiled.in_place and [(pieces[target], pieces[source]) for target, source in compiled.in_place]
        made, like = compiled.made, compiled.like
        is_quick = is_small and pattern.is_quick
        self.steps.append(LibraryStep(made, like, pieces, count, in_place, index, pattern.nbytes, is_small, is_quick))
        self.notes.append(Note("oneDNN", steps, (note,), values[:count], values[count:]))
        for source, target in copies:
            self._add_copy(source, target, steps[-1], f"{steps[-1].kind} writes dense tensors only")

    def _layout(
        self, pattern: Pattern, steps: Sequence[Step], values: list[Value]
    ) -> tuple[Layout, list[tuple[Value, Value]]]:
        """What there is of a pattern for the strides of ``values``, in which dense ones replace those that ops misread.

        Beside it the copies to be made of results behind the ops: source and target.

        Raises:
            UnsupportedError: the ops cannot be run on values of these strides.
        """
        count, copies = pattern.n_inputs, list[tuple[Value, Value]]()
        layout = pattern.layouts.get(tuple([value.strides for value in values]))
        if layout is not None:
            return layout, copies
        returned = {value.id for value in values[count:] if value.id in self._returned and not value.dense}
        strided = {value.id for value in values if not value.dense}
        uses = [self._use(step) for step in steps] if strided and len(steps) > 1 else []
        if not uses or not wrong_strides(uses, strided, VERSION):
            returned.clear()
        elif reason := wrong_strides(uses, strided - returned, VERSION):
            raise UnsupportedError(f"{reason}, so that the ops run one by one")
        for index, value in enumerate(values):
            if value.id in returned or (not value.dense and needs_dense(value, steps)):
                if index < count:
                    values[index] = self.values[self._dense_copy(value)]
                    continue
                if value.id not in self._returned:
                    raise UnsupportedError(f"{steps[-1].kind} writes dense tensors only")
                values[index] = self._dense_twin(value)
                copies.append((values[index], value))
        # Channels-last strides serve convolutions of channels-first data best, and all else in their midst.
        is_open = any(step.attrs.get("data_format") == "NCX" for step in steps)
        is_open = is_open or not all(value.dense for value in values[:count])
        return pattern.layouts.setdefault(tuple([value.strides for value in values]), Layout(is_open, {})), copies

    def _use_threads(self, pattern: Pattern) -> bool:
        """From now on compile for one thread if the pattern is small and others may get more; returns whether it is."""
        is_small = self._share and pattern.nbytes <= SMALL_BYTES
        self._threads.use(1 if is_small else None)
        return is_small

    def _add_collapsed(self, step: Step, note: str) -> bool:
        """A binary op whose operand the library broadcasts fast on fewer axes only, if it is one."""
        if not self._is_slow(step):
            return False
        ends = [*step.inputs, *step.outputs]
        known = self._collapsed.get(id(step.part)) if all(self.values[number].dense for number in ends) else None
        if known is None:
            self._threads.use(None)
            compiled = collapsed_binary(step, self.values)
            if compiled is None:
                return False
            places = [ends.index(tensor.id) for tensor in (*compiled.inputs, *compiled.outputs)]
            known = self._collapsed[id(step.part)] = compiled, places
        reason = "on fewer axes, as the library has a reference kernel only for an operand that is broadcast like this"
        compiled, places = known
        self._add_compiled(compiled, [ends[place] for place in places], self._note("oneDNN", step, note, reason))
        return True

    def _is_slow(self, step: Step) -> bool:
        """Whether the library has no fast kernel for the operand of a binary op."""
        known = self._slow.get(id(step.part))
        if known is None:
            known = self._slow[id(step.part)] = slow_operand(step, self.values) is not None
        return known

    @cached_property
    def _readers(self) -> dict[int, list[Step]]:
        """The steps that read a value."""
        readers: dict[int, list[Step]] = {}
        for step in self.lowered.steps:
            for number in step.inputs:
                readers.setdefault(number, []).append(step)
        return readers

    def _is_free(self, value: Value) -> bool:
        """Whether the layout of a value may be any: it stays inside, and whoever reads it honours strides."""
        if len(value.shape) < 2 or value.id in self._returned or value.id in self._viewed or 0 in value.shape:
            return False
        readers = self._readers.get(value.id, ())
        return bool(readers) and all(
            step.executor == "library"
            and step.kind != "StaticReshape"
            and not needs_dense(value, [step])
            and not (step.kind in ARITHMETIC and self._is_slow(step))
            for step in readers
        )


def _refusal(error: OneGraphError) -> str:
    """Why the library does not run something; where memory is short, which may pass, the error is raised again.

    The library throws bad_alloc for some of the shapes that it cannot do, too.
    """
    if isinstance(error, OutOfMemoryError):
        try:
            if not error.what:
                raise MemoryError
            np.empty(ENOUGH, np.uint8)
        except MemoryError:
            raise error from None
    return str(error)
