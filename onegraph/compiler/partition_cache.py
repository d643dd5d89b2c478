"""Ops that come again: what the library made of the first ones serves all that are wired alike, on the same layouts.

Real graphs repeat their layers, and a compiled partition runs on any tensors. Only what the library may have made of
constants is its own, so that with other constants the same ops are compiled once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from ..capi import CompiledPartition, LogicalTensor, Partition
from ..capi.engine import default_engine
from ..errors import OneGraphError, UnsupportedError
from ..opset.editions.registry import BASE
from .lower import Dims, Step, Value
from .to_capi import capi_tensor

Wiring = int | tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
# The categories of ops that alone make nothing of a constant that is worth keeping.
PLAIN_CATEGORIES = frozenset(["binary", "elementwise"])
# The categories of ops that the library has fast kernels for, on every machine, so that few bytes mean little time.
QUICK_CATEGORIES = PLAIN_CATEGORIES | {"matmul"}


class Layout(NamedTuple):
    """Strides that the ops honour: whether those of the outputs may be left open, and what was compiled for them."""

    is_open: bool
    compiled: dict[object, Compiled]


class Compiled(NamedTuple):
    """What the library made.

    ``like``: the same where it is the first of its kind, else that.
    ``chosen``: the ports of outputs for which it chose other strides, with these and the size in bytes.
    ``in_place``: ports of outputs and of the inputs whose memory they may take.
    """

    made: CompiledPartition
    like: CompiledPartition
    chosen: tuple[tuple[int, Dims, int], ...]
    in_place: tuple[tuple[int, int], ...]


def wiring(steps: Sequence[Step], results: Sequence[int]) -> tuple[Wiring, list[int]]:
    """What steps have in common that do the same with other values, and the values of these steps in turn.

    Args:
        steps: library steps, alive as long as the wiring is looked at.
        results: the values that leave them.
    """
    first = steps[0]
    if len(steps) == 1 and len(set(first.inputs)) == len(first.inputs):
        return id(first.part), [*first.inputs, *first.outputs]
    ends = [*chain.from_iterable([step.inputs + step.outputs for step in steps])]
    numbers = [*dict.fromkeys(ends)]
    place = dict(zip(numbers, range(len(numbers)), strict=True)).__getitem__
    parts = tuple([id(step.part) for step in steps])
    return (parts, tuple(map(place, ends)), tuple(map(place, results))), numbers


class Pattern:
    """The partition of the first ops that were wired in some way.

    Args:
        partition: as the library made it.
        steps: its ops.
        inputs, outputs: the values at its ports, in the order of the ports.
        values: all values of the steps, as ``wiring`` tells them.
        nbytes: of all that is read and written.
        reason: why it is not to be compiled; empty where it is.

    Attributes:
        is_quick: whether few bytes mean little time.
        places: for each port, inputs first, its place among the values.
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
        reason: str = "",
    ) -> None:
        self.partition, self.reason = partition, reason
        self._ids = *inputs, *outputs
        self.places, self.n_inputs = [values.index(number) for number in self._ids], len(inputs)
        self.layouts: dict[tuple[Dims, ...], Layout] = {}
        self.nbytes = nbytes
        self._others: dict[CompiledPartition, list[CompiledPartition]] = {}
        categories = {BASE[step.kind].category for step in steps}
        self.is_quick, self._is_plain = (
            categories <= QUICK_CATEGORIES,
            len(steps) == 1 and categories <= PLAIN_CATEGORIES,
        )

    def compile(self, values: Sequence[Value], layout: Layout, free: tuple[bool, ...]) -> Compiled:
        """What runs the ops on such values, for the number of threads that is set, after ``compile_others``.

        Args:
            values: those at the ports.
            layout: what there is for their strides.
            free: for each output whether its layout is left to the library; of none where it is empty.

        Raises:
            OneGraphError: the library refuses.
        """
        constants = () if self._is_plain else tuple([value.constant is not None for value in values[: self.n_inputs]])
        known = layout.compiled.get((free, constants))
        if known is None:
            known = layout.compiled[free, constants] = self._compile(values, free)
        elif True in constants:
            another = known.made._another()
            self._others.setdefault(known.made, []).append(another)
            return Compiled(another, known.made, known.chosen, known.in_place)
        return known

    def compile_others(self) -> None:
        """Compile what ``compile`` gave beside the first one of each kind, for the number of threads that is set.

        Raises:
            OneGraphError: there is no memory.
        """
        for first, others in self._others.items():
            first._compile_others(others)

    def _compile(self, values: Sequence[Value], free: tuple[bool, ...]) -> Compiled:
        count, ids = self.n_inputs, self._ids
        inputs, outputs = values[:count], values[count:]
        kinds = ["variable" if self._is_plain or value.constant is None else "constant" for value in inputs]
        tensors = [capi_tensor(*given) for given in zip(ids[:count], inputs, kinds, strict=True)]
        # The library is not told the shape of a dense output: it would take a wrong one for right.
        results = [_result(*given) for given in zip(ids[count:], outputs, strict=True)]
        compiled = None
        if any(free):
            anyhow = [
                LogicalTensor._checked(tensor.id, tensor.dtype, None, None, "any") if is_free else tensor
                for tensor, is_free in zip(results, free, strict=True)
            ]
            with suppress(OneGraphError):
                compiled = CompiledPartition._checked(self.partition, tensors, anyhow, default_engine())
        if compiled is None or any(tensor.strides is None for tensor in compiled.outputs):
            compiled = CompiledPartition._checked(self.partition, tensors, results, default_engine())
        chosen = []
        for index, (value, tensor) in enumerate(zip(outputs, compiled.outputs, strict=True), count):
            if tensor.shape != value.shape and not (value.shape == () and tensor.shape == (1,)):
                raise UnsupportedError(f"the library infers {tensor.shape} for {value.name}, not {value.shape}")
            if tensor.strides is None:
                raise UnsupportedError(f"the library chose an opaque layout for {value.name}")
            if any(dim > 1 and a != b for dim, a, b in zip(value.shape, tensor.strides, value.strides, strict=False)):
                if not (free and free[index - count]):  # the products of huge dims overflow
                    raise UnsupportedError(f"the library infers strides {tensor.strides} for {value.name}")
                chosen.append((index, tensor.strides, tensor.mem_size or 0))
        in_place = tuple([(ids.index(target), ids.index(source)) for source, target in compiled.inplace_pairs])
        return Compiled(compiled, compiled, tuple(chosen), in_place)


def _result(number: int, value: Value) -> LogicalTensor:
    if value.dense:
        return LogicalTensor._checked(number, value.dtype, None)
    return capi_tensor(number, value, "variable")
