"""Reuses compiled partitions for later steps with the same ops, wiring and layouts.

Graphs repeat their layers, and a compiled partition runs on any tensors. Only prepared constants belong to one compiled
partition, so the same ops with other constants are compiled again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from ..capi import CompiledPartition, LogicalTensor, Partition
from ..capi.engine import default_engine
from ..capi.thread_affinity import calling_thread
from ..errors import OneGraphError, OutOfMemoryError, UnsupportedError
from ..native.library import HASHES_CONSTANTS
from ..opset.editions.registry import BASE
from .ir.part import Part
from .ir.step import Step
from .ir.value import Dims, Value
from .lifting import lifted
from .shared_constants import Key
from .to_capi import capi_tensor

Wiring = Part | None | tuple[tuple[Part | None, ...], tuple[int, ...], tuple[int, ...]]
# Categories of ops for which the library prepares no constants.
PLAIN_CATEGORIES = frozenset(["binary", "elementwise"])
PLAIN_NORMS = frozenset(["LayerNorm", "GroupNorm"])  # other ops for which it prepares none alone: two vectors
# Categories of ops with fast kernels on every CPU, so that few bytes mean little time.
QUICK_CATEGORIES = PLAIN_CATEGORIES | {"matmul"}


class PortLayout(NamedTuple):
    """Strides at the ports that the ops honour.

    Attributes:
        is_open: whether the library may choose the strides of outputs.
        compiled: what was compiled for these strides.
    """

    is_open: bool
    compiled: dict[object, Compiled]


class Compiled(NamedTuple):
    """A compiled partition and how to use it.

    Attributes:
        made: the compiled partition.
        like: the first compiled partition that differs from ``made`` in its constants only; maybe ``made``.
        chosen: for each output with strides that the library chose: its port, the strides and the size in bytes.
        in_place: pairs of an output port and the input port whose memory it may reuse; ``Pattern.settle`` fills it.
    """

    made: CompiledPartition
    like: CompiledPartition
    chosen: tuple[tuple[int, Dims, int], ...]
    in_place: list[tuple[int, int]]


def wiring(steps: Sequence[Step], results: Sequence[int]) -> tuple[Wiring, list[int]]:
    """The wiring of steps, which is equal for steps that compute the same on other values, and their values in order.

    Args:
        steps: library steps.
        results: the values that later steps or the caller read.
    """
    first = steps[0]
    if len(steps) == 1 and len(set(first.inputs)) == len(first.inputs):
        return first.part, [*first.inputs, *first.outputs]
    ends = [*chain.from_iterable([step.inputs + step.outputs for step in steps])]
    numbers = [*dict.fromkeys(ends)]
    place = dict(zip(numbers, range(len(numbers)), strict=True)).__getitem__
    parts = tuple([step.part for step in steps])
    return (parts, tuple(map(place, ends)), tuple(map(place, results))), numbers


class Pattern:
    """The partition of the first steps with some wiring.

    Args:
        partition: the library's partition.
        steps: its steps.
        inputs, outputs: the values at its ports, in the order of the ports.
        values: all values of the steps, as ``wiring`` returns them.
        nbytes: size of all inputs and outputs.
        keeps: whether the library may keep what it computes from constants.
        postpones: whether a partition is compiled together with those of other patterns.
        reason: why it must not be compiled; empty if it can be.
        cut: the number of first steps that are to be partitioned without the others instead; 0 for no such cut.

    Attributes:
        marks: remarks for the report.
        lifts: the number of axes of the values that get axes of size 1 in front; 0 if none do.
        is_quick: whether few bytes mean little time.
        flops: as in ``CompiledStep``.
        ids: of the ports of the partition, inputs first.
        places: for each port, the index of its value in ``values``.
        n_inputs: number of inputs.
        layouts: by the strides at the ports.
    """

    def __init__(
        self,
        partition: Partition,
        steps: Sequence[Step],
        inputs: Sequence[int],
        outputs: Sequence[int],
        values: Sequence[int],
        nbytes: int,
        keeps: bool,
        postpones: bool,
        reason: str = "",
        cut: int = 0,
    ) -> None:
        self.partition, self.reason, self._keeps, self.cut = partition, reason, keeps, cut
        self._postpones = postpones
        self.marks: tuple[str, ...] = ()
        self.lifts, self.flops = 0, 0
        self.ids: Sequence[int] = (*inputs, *outputs)
        self.places, self.n_inputs = [values.index(number) for number in (*inputs, *outputs)], len(inputs)
        self.layouts: dict[tuple[Dims, ...], PortLayout] = {}
        self.nbytes = nbytes
        self._duplicates: dict[CompiledPartition, list[CompiledPartition]] = {}
        # The compiled partitions, by the first one and the constants: layers may share weights, as those of ALBERT do.
        self._prepared: dict[tuple[CompiledPartition, tuple[Key, ...]], Compiled] = {}
        self._waiting: list[tuple[Compiled, Sequence[Value]]] = []  # what is postponed, and the values at its ports
        categories = {BASE[step.kind].category for step in steps}
        self.is_quick, self._is_plain = (
            categories <= QUICK_CATEGORIES,
            categories <= PLAIN_CATEGORIES or (len(steps) == 1 and steps[0].kind in PLAIN_NORMS),
        )

    @property
    def takes_all(self) -> bool:
        """Whether one compiled partition serves all constants, as the library prepares none."""
        return self._is_plain or not self._keeps

    def layout(self, strides: Sequence[Dims], is_open: bool) -> PortLayout:
        """The layout for these strides at the ports; ``is_open`` as in :class:`PortLayout`."""
        return self.layouts.setdefault(tuple(strides), PortLayout(is_open, {}))

    def compile(
        self, values: Sequence[Value], layout: PortLayout, free: tuple[bool, ...], key: Callable[[Value], Key]
    ) -> Compiled:
        """The compiled partition for these values and the current number of threads.

        It can run after the groups of ``postponed`` are compiled.

        Args:
            values: the values at the ports.
            layout: the layout for their strides.
            free: for each output, whether the library chooses its layout; empty if it chooses none.
            key: the key of a constant, which is equal for equal constants of all programs.

        Raises:
            OneGraphError: the library refuses the partition.
        """
        constants = () if self.takes_all else tuple([value.constant is not None for value in values[: self.n_inputs]])
        known = layout.compiled.get((free, constants))
        is_new = known is None
        if known is None:
            known = layout.compiled[free, constants] = self._compile(values, free)
        if True not in constants:
            return known
        weights = tuple([key(value) for value in values[: self.n_inputs] if value.constant is not None])
        if is_new:
            self._prepared[known.made, weights] = known
        compiled = self._prepared.get((known.made, weights))
        if compiled is None:
            another = known.made._another()
            self._duplicates.setdefault(known.made, []).append(another)
            compiled = self._prepared[known.made, weights] = Compiled(another, known.made, known.chosen, known.in_place)
        return compiled

    def postponed(self) -> list[list[CompiledPartition]]:
        """What ``compile`` has postponed since the last call, as ``compile_postponed`` takes it.

        That are partitions that may be compiled at the same time as others, and partitions that differ from another in
        constants only.
        """
        firsts = [compiled.made for compiled, _ in self._waiting]
        groups = [[first, *self._duplicates.pop(first, ())] for first in firsts]
        groups += self._duplicates.values()
        self._duplicates.clear()
        return groups

    @property
    def is_elsewhere(self) -> bool:
        """Whether another thread alone can execute what was compiled."""
        compiled = [compiled_ for layout in self.layouts.values() for compiled_ in layout.compiled.values()]
        owners = {compiled_.made.owner_thread for compiled_ in compiled} - {None}
        return bool(owners) and owners != {calling_thread()}

    def settle(self) -> None:
        """Check the results of what was postponed.

        Raises:
            UnsupportedError: the library infers other results.
        """
        for compiled, values in self._waiting:
            self._check(compiled, values, ())
        self._waiting.clear()

    def _compile(self, values: Sequence[Value], free: tuple[bool, ...]) -> Compiled:
        try:
            return self._compile_kept(values, free)
        except OutOfMemoryError:
            raise
        except OneGraphError:
            if not (HASHES_CONSTANTS and self._keeps):
                raise
        self._keeps = False  # 3.13 refuses a Dropout of a constant whose constants are kept
        return self._compile_kept(values, free)

    def _compile_kept(self, values: Sequence[Value], free: tuple[bool, ...]) -> Compiled:
        count, ids = self.n_inputs, self.ids
        if self.lifts:
            values, free = [lifted(value, self.lifts) for value in values], ()
        inputs, outputs = values[:count], values[count:]
        keeps = self._keeps and not self._is_plain
        kinds = ["constant" if keeps and value.constant is not None else "variable" for value in inputs]
        tensors = [capi_tensor(*tensor_facts) for tensor_facts in zip(ids[:count], inputs, kinds, strict=True)]
        # A dense output is compiled without its shape, because the library would accept a wrong one.
        results = [_result(*tensor_facts) for tensor_facts in zip(ids[count:], outputs, strict=True)]
        compiled = None
        if any(free):
            open_results = [
                LogicalTensor._checked(tensor.id, tensor.dtype, None, None, "any") if is_free else tensor
                for tensor, is_free in zip(results, free, strict=True)
            ]
            with suppress(OneGraphError):
                compiled = CompiledPartition._checked(self.partition, tensors, open_results, default_engine())
        if compiled is None or any(tensor.strides is None for tensor in compiled.outputs):
            compiled = CompiledPartition._postponed(self.partition, tensors, results, default_engine())
            if self._postpones and compiled.owner_thread is None:
                entry = Compiled(compiled, compiled, (), [])
                self._waiting.append((entry, values))
                return entry
            compiled._make()
        entry = Compiled(compiled, compiled, (), [])
        return entry._replace(chosen=self._check(entry, values, free))

    def _check(
        self, compiled: Compiled, values: Sequence[Value], free: tuple[bool, ...]
    ) -> tuple[tuple[int, Dims, int], ...]:
        """Fill the in-place pairs of a compiled partition, and return its chosen layouts."""
        kernel, count, ids = compiled.made, self.n_inputs, self.ids
        chosen = []
        for index, (value, tensor) in enumerate(zip(values[count:], kernel.outputs, strict=True), count):
            if tensor.shape != value.shape and not (value.shape == () and tensor.shape == (1,)):
                raise UnsupportedError(f"the library infers {tensor.shape} for {value.name}, not {value.shape}")
            if tensor.strides is None:
                raise UnsupportedError(f"the library chose an opaque layout for {value.name}")
            if any(dim > 1 and a != b for dim, a, b in zip(value.shape, tensor.strides, value.strides, strict=False)):
                if not (free and free[index - count]):  # strides of huge dims overflow
                    raise UnsupportedError(f"the library infers strides {tensor.strides} for {value.name}")
                chosen.append((index, tensor.strides, tensor.mem_size or 0))
        compiled.in_place.extend((ids.index(target), ids.index(source)) for source, target in kernel.inplace_pairs)
        return tuple(chosen)


def _result(number: int, value: Value) -> LogicalTensor:
    if value.dense:
        return LogicalTensor._checked(number, value.dtype, None)
    return capi_tensor(number, value, "variable")
