"""Finds the pattern of each partition, and says which fusions not to compile, or where to cut them.

The library computes some fusions wrong, so that their ops run one by one. A fusion that has a reference kernel only is
cut before the op that makes it slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from ..capi import Partition
from ..capi.caches import programs_keep_constants
from ..capi.settings import has_amx, has_avx2, has_avx512, has_vnni
from ..errors import UnsupportedError
from ..faults.fusions import wrong_fusion
from ..faults.ops.spanned_source import SPANNED_SOURCE, spans_source
from ..faults.performance import REFERENCE, SLOW_WEIGHTS, reference_kernel
from ..faults.slow_fusions import slow_fusion
from ..faults.use import Fused
from ..native.library import HASHES_CONSTANTS, RUNTIME, VERSION, lib
from .arithmetic import f32_flops
from .ir.lowered import Lowered
from .ir.step import Step
from .ir.value import Values
from .lifting import lifted_rank, with_lifted
from .open_values import At, SizedValues, ValuesAt, step_at
from .partition_cache import Pattern, wiring
from .partition_store import SharedPartitions
from .report import nbytes
from .schedule import Schedule, use_of
from .structure import open_key
from .to_capi import capi_graph, open_partition

WITH_REFERENCE_KERNELS = frozenset(kind for fault in REFERENCE for kind in fault.ops)
# Elements; the memory that can be read behind prepared constants is at least that of their layout in a kernel.
MOST_CONSTANTS = 1 << 29


class Patterns:
    """The patterns of a graph; partitions with the same wiring share one.

    Args:
        lowered: the graph.
        schedule: its schedule.
        fpmath_mode: name of the library's mode.
        keeps: whether the library caches prepared constants by partition id, or whole compiled partitions, so that
            compiling a partition again would reuse its constants.
        unkept: ids of the steps whose constants the library must not keep.
        postpones: as for :class:`Pattern`.
        known: what earlier programs of the executable have compiled.
        at: what open sizes are.
    """

    def __init__(
        self,
        lowered: Lowered,
        schedule: Schedule,
        fpmath_mode: str,
        *,
        keeps: bool,
        unkept: frozenset[int],
        postpones: bool,
        known: SharedPartitions,
        at: At | None = None,
    ) -> None:
        self.at, self._values = at, schedule.values if at is None else ValuesAt(schedule.values, at)
        if at is not None:
            lowered = replace(lowered, values=SizedValues(lowered.values, at))
        self._lowered, self._fpmath_mode = lowered, fpmath_mode
        self._shared, self._known, self._own = known, known.patterns, dict[object, Pattern]()
        self._used: dict[int, Pattern] = {}  # also those that another one with other constants has replaced
        self._rounds = lowered.shared.partitions.rounds
        self._keeps, self._unkept, self.postpones = keeps, unkept, postpones
        self._can_keep = HASHES_CONSTANTS and programs_keep_constants() and not lib.onegraph_can_prepare()

    def __iter__(self) -> Iterator[Pattern]:
        return iter(self._used.values())

    def find(
        self, steps: Sequence[Step], partition: Partition | None = None, results: Sequence[int] = ()
    ) -> tuple[Pattern, list[int]]:
        """The pattern of these steps, made if it is new, and their values in the order of the pattern.

        Args:
            steps: the steps of a partition.
            partition: the library's partition of these steps; None for one that is made here.
            results: the values that later steps or the caller read; those of the partition by default.

        Raises:
            OneGraphError: the library refuses the op.
        """
        if len(steps) == 1:
            results = steps[0].outputs
        elif partition is not None:
            results = partition.output_ids
        if self.at is not None:
            steps = [step_at(step, self.at) for step in steps]
        if self._mode(steps) != self._fpmath_mode:
            partition = None
        wired, numbers = wiring(steps, results)
        constant = tuple([self._values[number].constant is not None for number in numbers]) if len(steps) > 1 else ()
        key = wired, constant
        reads_constants = self._reads_constants(steps)
        # Newer libraries find prepared constants by a hash, which each program watches by itself; a cache of compiled
        # partitions finds them by the partition.
        is_apart = reads_constants and (HASHES_CONSTANTS or self._keeps)
        table = self._own if is_apart else self._known
        pattern = table.get(key)
        if pattern is not None and not (self._keeps and reads_constants) and not pattern.is_elsewhere:
            self._used[id(pattern)] = pattern
            return pattern, numbers
        lifts, opened = lifted_rank(steps, self._values), None
        if lifts:
            lifted = self._lifted(steps, numbers, results, lifts)
            lifts, partition = (lifts, lifted) if lifted is not None else (0, partition)
        if not (lifts or is_apart):
            opened = self._opened(steps, numbers, results)
        partition = opened or partition or self._alone(steps, numbers, results)
        inputs, reason, cut = [*dict.fromkeys(steps[0].inputs)], "", 0
        if len(steps) > 1:
            inputs = [*dict.fromkeys(partition.input_ids)]
            inputs = inputs if opened is None else [numbers[place] for place in inputs]
            constants = [number for number, is_constant in zip(numbers, constant, strict=True) if is_constant]
            reason, cut = self._verdict(steps, constants)
        size = sum([nbytes(self._values[number]) for number in (*inputs, *results)])
        keeps = self._keeps_constants(steps, inputs) and not self._reads_in_place(steps)
        ends = inputs, results, numbers
        pattern = Pattern(partition, steps, *ends, size, keeps, self.postpones, reason, cut)
        if opened is not None:
            pattern.ids = pattern.places
        table[key] = self._used[id(pattern)] = pattern
        pattern.lifts = lifts
        pattern.flops = f32_flops(steps, [self._values[number] for number in inputs])
        pattern.marks = tuple(self._marks(steps, lifts))
        return pattern, numbers

    def _lifted(
        self, steps: Sequence[Step], numbers: Sequence[int], results: Sequence[int], lifts: int
    ) -> Partition | None:
        """The library's partition of the steps on more axes; None if it divides them."""
        lowered = with_lifted(self._with_values(numbers), steps, lifts)
        graph, refused = capi_graph(lowered, self._mode(steps), steps, results)
        partitions = [] if refused else graph.partitions("fusion" if len(steps) > 1 else "debug")
        return next((partition for partition in partitions if len(partition.ops) == len(steps)), None)

    def _alone(self, steps: Sequence[Step], numbers: Sequence[int], results: Sequence[int]) -> Partition:
        """A partition of these steps and no others.

        Raises:
            OneGraphError: the library refuses the op, or divides the steps.
        """
        lowered = self._with_values(numbers)
        if len(steps) > 1:
            return self._partition(lowered, steps, results)
        graph, refused = capi_graph(lowered, self._mode(steps), steps)
        if refused:
            raise UnsupportedError(*refused.values())
        (partition,) = graph.partitions("debug")
        return partition

    def _verdict(self, steps: Sequence[Step], constants: Sequence[int]) -> tuple[str, int]:
        """Why a fusion is not run as it is, empty if it is; and where to cut it, 0 to run the ops one by one."""
        uses = [use_of(step, self._values) for step in steps]
        fused = Fused(
            uses,
            *(has_vnni(), has_avx2(), has_avx512()),
            constants=frozenset(constants),
            openmp=RUNTIME == "OpenMP",
            amx=has_amx(),
            strict=self._mode(steps) == "strict",
        )
        if reason := wrong_fusion(fused, VERSION):
            ends = range(2, len(uses))
            place = next((end for end in ends if wrong_fusion(replace(fused, uses=uses[: end + 1]), VERSION)), 0)
            place = 0 if wrong_fusion(replace(fused, uses=uses[:2]), VERSION) else place
            return f"{reason}, so that the ops run {'apart' if place else 'one by one'}", place
        if slow := slow_fusion(fused, VERSION):
            return f"{slow.reason}, so that the ops run apart", slow.place
        return "", 0

    def _mode(self, steps: Sequence[Step]) -> str:
        """The mode for steps: strict for a convolution that would crash in another type than f32."""
        if not has_amx():
            return self._fpmath_mode
        parts = [step.part for step in steps if step.part is not None and step.kind in SPANNED_SOURCE.ops]
        return "strict" if any(spans_source(part.call) for part in parts) else self._fpmath_mode

    def _opened(self, steps: Sequence[Step], numbers: Sequence[int], results: Sequence[int]) -> Partition | None:
        """A partition for all sizes, if these steps have had another size; its ports are places in ``numbers``."""
        key = open_key(steps, [self._values[number] for number in numbers], results)
        shared = self._shared
        if key not in shared.seen:
            shared.seen.add(key)
            return None
        if key not in shared.opened:
            place = {number: place for place, number in enumerate(numbers)}
            values = {place[number]: self._values[number]._replace(id=place[number]) for number in numbers}
            renumbered = [
                step._replace(
                    id=index,
                    inputs=tuple([place[number] for number in step.inputs]),
                    outputs=tuple([place[number] for number in step.outputs]),
                )
                for index, step in enumerate(steps)
            ]
            ends = [place[number] for number in results]
            shared.opened[key] = open_partition(values, renumbered, self._mode(steps), ends)
        return shared.opened[key]

    def _reads_in_place(self, steps: Sequence[Step]) -> bool:
        """Whether a product reads constant weights where they lie, because they are prepared for other rows already.

        A copy of all weights for each number of rows would take more memory than the product gains time.
        """
        products = [step for step in steps if step.kind == "MatMul"]
        codes = {step.outputs[0]: step.inputs[0] for step in steps if step.kind in ("Dequantize", "TypeCast")}
        weights = [self._values[_source(step.inputs[1], codes)] for step in products]
        if (
            not self._rounds
            or not weights
            or any(weight.constant is None or len(weight.shape) != 2 for weight in weights)
        ):
            return False
        rows = prod(self._values[products[0].inputs[0]].shape[:-1])
        key = tuple([step.kind for step in steps]), tuple([(weight.dtype, weight.shape) for weight in weights])
        return self._shared.prepared.setdefault(key, rows) != rows

    def _keeps_constants(self, steps: Sequence[Step], inputs: Sequence[int]) -> bool:
        """Whether the library may keep what it computes from the constants of a partition with these inputs."""
        if not HASHES_CONSTANTS:
            return True
        if not self._can_keep:
            return False
        constants = [self._values[number].constant for number in inputs]
        sizes = [constant.size for constant in constants if constant is not None]
        # There is nothing to keep of a scalar, such as the scale in an attention, for which some kernels keep nothing.
        is_worthwhile = any(size > 1 for size in sizes) and sum(sizes) < MOST_CONSTANTS
        return is_worthwhile and self._unkept.isdisjoint(step.id for step in steps)

    def partition_again(self, steps: Sequence[Step], results: Sequence[int]) -> Partition:
        """Another partition of these steps, of which the library keeps no constants yet."""
        return self._partition(self._lowered, steps, results)

    def _partition(self, lowered: Lowered, steps: Sequence[Step], results: Sequence[int]) -> Partition:
        graph, _ = capi_graph(lowered, self._mode(steps), steps, results)
        partitions = graph.partitions("fusion" if len(steps) > 1 else "debug")
        for partition in partitions:
            if len(partition.ops) == len(steps):
                return partition
        raise UnsupportedError("the library finds another partition for the same ops")

    def _with_values(self, numbers: Sequence[int]) -> Lowered:
        """The graph with these values, some of which the schedule may have added."""
        values = self._lowered.values
        added = {number: self._values[number] for number in numbers if number not in values}
        if not added:
            return self._lowered
        read = {number: values[number] for number in numbers if number in values}
        return replace(self._lowered, values=Values({**values, **read, **added}))

    def _marks(self, steps: Sequence[Step], lifts: int) -> Iterator[str]:
        """How the steps run, and those that run a reference kernel because there is no better way, for the report."""
        if lifts:
            yield f"on four axes, as {SLOW_WEIGHTS.told[0].lower()}{SLOW_WEIGHTS.told[1:]}"
        for step in steps:
            if step.kind in WITH_REFERENCE_KERNELS and (
                fault := reference_kernel(use_of(step, self._values).call, VERSION)
            ):
                yield f"reference kernel: {fault}"

    def _reads_constants(self, steps: Sequence[Step]) -> bool:
        return any(self._values[number].constant is not None for step in steps for number in step.inputs)


def _source(number: int, before: Mapping[int, int]) -> int:
    """The first of the values that follow from each other up to this one; ``before``: the value before each of them."""
    while number in before:
        number = before[number]
    return number
