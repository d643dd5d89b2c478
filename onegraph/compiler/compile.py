"""Compiles the steps of a lowered graph with the library, and falls back to numpy.

A partition that the library refuses, or would compute wrong, is compiled op by op. A partition with a slow kernel is
cut before the op that makes it slow, and both sides are partitioned anew. An op that is still refused becomes a view if
it only changes shape or axis order, and a numpy step otherwise.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial

from ..capi import Partition
from ..capi.caches import (
    compiled_partition_cache_changes,
    get_compiled_partition_cache_capacity,
    programs_keep_constants,
)
from ..capi.threads import get_num_threads, restore_threads
from ..errors import OneGraphError
from ..faults.use import VIEWS
from ..native.library import HASHES_CONSTANTS
from .concats import Concats
from .edge_layouts import EdgeLayouts
from .ir.lowered import Lowered
from .ir.step import Step
from .kernels.adding import Adding
from .kernels.batch_norm import add_norm
from .kernels.codes import add_rescaling
from .kernels.elements import add_repeated
from .kernels.norm_relu import NORMALIZED, add_norm_guards
from .kernels.registry import EXACT, for_op, of_executor
from .library_steps import LibrarySteps, NoParametersError, OtherStepsError, refusal_of
from .open_values import At
from .pads import add_pad, add_tile
from .partition_cache import wiring
from .partition_store import Group, Pieces, SharedPartitions
from .partitioner import find_partitions, search
from .passes.special_values import BOUNDED
from .patterns import Patterns
from .rounded_rows import RoundedRows
from .row_leaks import RowLeaks
from .schedule import Schedule
from .structure import structure_of
from .views import add_view
from .wide_hosts import add_widened

ENOUGH = 1 << 27  # bytes; an allocation of this size fails only if memory is short
COPIES = add_view, add_pad, add_tile  # what adds an op that moves elements, and returns whether it did


def compile_steps(
    lowered: Lowered,
    *,
    policy: str,
    fpmath_mode: str,
    share: bool,
    unkept: frozenset[int] = frozenset(),
    at: At | None = None,
) -> Schedule:
    """The steps of a graph, compiled.

    Args:
        lowered: the graph.
        policy: ``fusion`` or ``debug``.
        fpmath_mode: name of the library's mode.
        share: whether small partitions are compiled for one thread.
        unkept: ids of the steps whose constants the library must not keep.
        at: what open sizes are; None if all are known.
    """
    changes, keeps = compiled_partition_cache_changes(), library_keeps()

    def compiled(keeps: bool) -> Schedule:
        compiler = partial(_StepCompiler, lowered, fpmath_mode, share=share, keeps=keeps, unkept=unkept, at=at)
        key, store = known_by(policy, fpmath_mode, share, keeps, unkept), lowered.shared.partitions
        rounds = store.rounds and not HASHES_CONSTANTS
        with store.lent(key) as known:
            schedule = compiler(postpones=True, known=known, rounds=rounds).run(policy)
            if schedule is not None:
                return schedule
        # The library refuses a postponed partition, so that the steps behind it may differ.
        schedule = compiler(postpones=False, known=SharedPartitions(), rounds=False).run(policy)
        assert schedule is not None
        return schedule

    schedule = compiled(keeps)
    switched = changes != compiled_partition_cache_changes() or get_compiled_partition_cache_capacity() > 0
    if keeps or not switched:
        return schedule
    return compiled(keeps=True)  # another thread enabled the cache meanwhile


def library_keeps() -> bool:
    """Whether the library caches prepared constants, or whole compiled partitions; see :class:`Patterns`."""
    return get_compiled_partition_cache_capacity() > 0 or (HASHES_CONSTANTS and programs_keep_constants())


def known_by(policy: str, fpmath_mode: str, share: bool, keeps: bool, unkept: frozenset[int]) -> Hashable:
    """What compiled partitions depend on besides their ops, under which the store lends them."""
    return policy, fpmath_mode, share, keeps, unkept, get_num_threads()


class _StepCompiler:
    """Fills the schedule of a graph.

    Args:
        lowered, fpmath_mode, share, unkept, at: as for :func:`compile_steps`.
        keeps, postpones, known: as for :class:`Patterns`.
        rounds: whether rows are rounded up.
    """

    def __init__(
        self,
        lowered: Lowered,
        fpmath_mode: str,
        *,
        share: bool,
        keeps: bool,
        unkept: frozenset[int],
        at: At | None,
        postpones: bool,
        known: SharedPartitions,
        rounds: bool,
    ) -> None:
        self._lowered, self._fpmath_mode, self._at = lowered, fpmath_mode, at
        self._schedule = schedule = Schedule(lowered, known)
        edges = EdgeLayouts(lowered, schedule)
        self._adding, self._concats = Adding(lowered, schedule, edges), Concats(schedule)
        self._patterns = Patterns(
            lowered, schedule, fpmath_mode, keeps=keeps, unkept=unkept, postpones=postpones, known=known, at=at
        )
        graph_inputs = frozenset([tensor.id for tensor in lowered.graph.inputs.values()])
        rows = RoundedRows(schedule, graph_inputs, known) if rounds else None
        self._library = LibrarySteps(schedule, edges, self._patterns, share=share, rows=rows)
        self._leaks = RowLeaks(schedule)
        self._known = known
        self._pieces: dict[object, Pieces] = {}  # by wiring
        self._known_pieces: dict[Hashable, Pieces] = {}  # by steps, of graphs that differ in sizes alone
        self._scales: bool  # whether a kernel of the package runs a Quantize or Dequantize

    def run(self, policy: str) -> Schedule | None:
        """Fill the schedule; called once.

        Returns:
            the schedule; None if the library refuses a partition that was postponed.
        """
        steps, self._scales = self._lowered.steps, policy == "fusion"
        library_ops = sum(step.executor == "library" for step in steps)
        try:
            if policy == "fusion" and library_ops > 1:  # the search for fusions takes at least 3 ms
                self._add_groups()
            else:
                for step in steps:
                    self._add_one(step)
            if not self._library.compile_postponed():
                return None
            self._schedule.patterns = [*self._patterns]
            for step in self._lowered.folded:
                self._schedule.note("constant", step, "computed once, at compilation", step.note)
        finally:
            restore_threads(self._schedule.threads.before)
        return self._schedule

    def _add_groups(self) -> None:
        """Add the partitions of the graph, which are those of an earlier graph that differs in sizes alone."""
        steps, structure = self._lowered.steps, structure_of(self._lowered)
        known = self._known.groups.get(structure)
        if known is None and self._at is not None:
            raise OtherStepsError("the library has not divided a graph of this structure")
        self._known_pieces = self._known.pieces.setdefault(structure, {})
        if known is not None:
            for places, results in known:
                self._add([steps[place] for place in places], None, "", results)
            return
        groups: list[Group] = []
        for partition, members in find_partitions(self._lowered, self._fpmath_mode):
            results = () if partition is None else tuple(partition.output_ids)
            groups.append((tuple([step.id for step in members]), results))
            self._add(members, partition)
        self._known.keep_groups(structure, groups)

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
        if add_norm(self._adding, steps):
            return
        reason, cut = "", 0
        if any(step.kind not in VIEWS for step in steps):  # as a partition, views would be copied
            try:
                reason, cut = self._add_partition(steps, partition, results, note)
            except OneGraphError as error:
                reason = refusal_of(error)
            if not reason:
                add_norm_guards(self._adding, steps)
                return
        if cut:
            self._add_piece(steps[:cut], reason)
            self._add_piece(steps[cut:], reason)
            return
        for step in steps:
            self._add_one(step, reason)

    def _add_partition(
        self, steps: Sequence[Step], partition: Partition | None, results: Sequence[int], note: str
    ) -> tuple[str, int]:
        """Add one partition, and what computes it again; parameters and results as of ``LibrarySteps.add``."""
        if reason := self._leaks.refusal(steps):
            return reason, 0
        first = len(self._schedule.notes)
        reason, cut = self._library.add(steps, partition, results, note)
        if not reason:
            ends = results if partition is None else partition.output_ids
            self._leaks.add(steps, steps[0].outputs if len(steps) == 1 else ends, first, self._add_one)
        return reason, cut

    def _add_piece(self, steps: Sequence[Step], note: str) -> None:
        """Add some steps of a partition, which are partitioned without the others."""
        if len(steps) == 1:
            self._add_one(steps[0], note)
            return
        inside = tuple([step.id for step in steps])
        made = [number for step in steps for number in step.outputs]
        consumers = {number: [step.id for step in self._lowered.consumers(number)] for number in made}
        needed = {number for number in made if not {*inside}.issuperset(consumers[number])}
        ends = [number for number in made if number in needed]
        wired, numbers = wiring(steps, ends)  # equal pieces are partitioned in the same way
        place = inside, tuple(ends)
        known = self._pieces.get(wired, self._known_pieces.get(place))
        if known is not None:
            self._pieces[wired] = self._known_pieces[place] = known
            for places, results in known:
                self._add([steps[place] for place in places], None, note, [numbers[result] for result in results])
            return
        if self._at is not None:
            raise NoParametersError("a partition is cut where the size decides")
        known = self._pieces[wired] = []
        for partition, members in [*search(self._lowered, self._fpmath_mode, steps, needed)]:
            outputs = () if partition is None else partition.output_ids
            known.append(([steps.index(step) for step in members], [numbers.index(number) for number in outputs]))
            self._add(members, partition, note)
        self._known_pieces[place] = known  # whole now

    def _add_one(self, step: Step, note: str = "", partition: Partition | None = None) -> None:
        """Add one step: compiled by the library if possible, otherwise as a view or a numpy step."""
        schedule, reason = self._schedule, ""
        if step.executor == "view":
            return  # a change of axis order that costs nothing
        if self._add_kernel(step, note) or schedule.add_repeated(step):
            return
        if step.executor == "library":
            if add_repeated(self._adding, step):
                return
            if (step.kind in VIEWS and add_view(schedule, step)) or self._concats.add(step):
                return
            if add_norm(self._adding, [step]) or (self._scales and add_rescaling(self._adding, step)):
                return
            try:
                if not self._library.add_collapsed(step, note):
                    self._leaks.refuse(step)
                    self._add_partition((step,), partition, (), note)
                return
            except OneGraphError as error:
                reason = refusal_of(error)
            if schedule.take_back(step.outputs):  # maybe refused for the strides of the graph output
                self._add_one(step, note)
                return
        if step.executor == "copy" or step.kind == "TypeCast":
            schedule.add_cast(step, reason)
        elif not (any(add(schedule, step) for add in COPIES) or self._concats.add(step)):
            self._add_without_library(step, reason or step.note)

    def _add_kernel(self, step: Step, note: str) -> bool:
        """Add a step that a pass has given to a kernel of the package; returns False for other steps."""
        is_alone = NORMALIZED in step.attrs or BOUNDED in step.attrs  # of what the library would have to fuse
        kernel = of_executor(EXACT if is_alone else step.executor)
        if kernel is None:
            return False
        if kernel.follows:
            self._add_one(step._replace(executor="library"), note)
        refused = self._adding.add(kernel, step, step.note)
        assert not refused
        return True

    def _add_without_library(self, step: Step, reason: str) -> None:
        """Add a step that a kernel of the package runs, if there is one for its op, and otherwise numpy."""
        kernel = for_op(step)
        if kernel is not None:
            refused = self._adding.add(kernel, step, reason)
            if not refused:
                return
            step = step._replace(refused=(*step.refused, f"{kernel.name}: {refused}"))
        if not add_widened(self._schedule, step, partial(self._add_without_library, reason=reason)):
            self._schedule.add_numpy(step, reason)
