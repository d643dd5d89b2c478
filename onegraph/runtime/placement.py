"""Describes where the values of a program lie: in slots, in the arena, and in the caller's arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .._util.open_sizes import is_open
from ..arrays.mapped_files import Pages, pages_of
from ..arrays.ndarrays import laid_empty
from ..builder.graph import DataGraph
from ..compiler.ir.value import Value
from ..ir.op import Array
from .arguments import OutputSpec

ARENA = 0  # the slot of intermediates


@dataclass(frozen=True, eq=False, slots=True)
class Placement:
    """Where the values of a program lie.

    Every piece of memory is in a slot. Slot 0 is the arena, one block that the intermediates share. The next slots are
    the graph inputs, the graph outputs that steps write into, and the constants.

    Attributes:
        graph: the graph of the program.
        values: the values by number.
        direct: (name, value) of the outputs that steps write into; of several names of a value, the last one.
        copied: (name, value) of the other outputs: inputs, constants, views and further names. They are copied at the
            end of a run.
        external: the values in the caller's arrays.
        constants: the arrays of constants that steps read, by value.
        slots: by external value or constant; an input with known contents is both, and has the slot of the constant.
        offsets: in the arena, by intermediate.
        arena_size: in bytes.
        residents: the values that numpy reads or writes, by the piece of memory that they lie in.
        in_place: outputs, each with the input whose memory it may reuse if the caller gives up that input.
    """

    graph: DataGraph
    values: Mapping[int, Value]
    direct: tuple[tuple[str, int], ...]
    copied: tuple[tuple[str, int], ...]
    external: tuple[int, ...]
    constants: Mapping[int, Array]
    slots: Mapping[int, int]
    offsets: Mapping[int, int]
    arena_size: int
    residents: Mapping[int, Sequence[int]]
    in_place: Mapping[int, int]

    @property
    def n_slots(self) -> int:
        """The number of slots."""
        return 1 + len(self.external) + len(self.constants)

    def places(self) -> dict[int, tuple[int, int]]:
        """The slot of each piece of memory, and its offset in the slot in bytes."""
        slots = {number: (slot, 0) for number, slot in self.slots.items()}
        return slots | {number: (ARENA, offset) for number, offset in self.offsets.items()}

    def file_pages(self) -> dict[int, Pages]:
        """The pages of files that constants lie in, by constant."""
        pages_by_value = {number: pages_of(array) for number, array in self.constants.items()}
        return {number: pages for number, pages in pages_by_value.items() if pages is not None}

    def outputs(self) -> list[OutputSpec]:
        """The graph outputs with their shapes."""
        specs = []
        for name, tensor in self.graph.outputs.items():
            value, strides = self.values[tensor.id], tensor.strides
            if strides is not None and is_open(strides):
                strides = value.strides
            specs.append(OutputSpec(name, tensor.dtype, value.shape, strides))
        return specs

    def external_arrays(self, inputs: Mapping[str, Array], results: Mapping[str, Array]) -> dict[int, Array]:
        """The caller's arrays for inputs and outputs, by the value that each holds."""
        arrays = {self.graph.inputs[name].id: array for name, array in inputs.items()}
        arrays.update((number, results[name]) for name, number in self.direct if name in results)
        return arrays

    def external_size(self) -> int:
        """Bytes of the caller's arrays."""
        return sum(span(self.values[number]) for number in self.external)


def span(value: Value) -> int:
    """Bytes from the start of the first element of a value to the end of the last."""
    reach = sum((dim - 1) * step for dim, step in zip(value.shape, value.strides, strict=True))
    return (reach + 1) * value.dtype.numpy.itemsize if math.prod(value.shape) else 0


def copy_of(constant: Array) -> Array:
    """A copy of a constant with the same strides."""
    strides = [step // constant.itemsize for step in constant.strides]
    copy_ = laid_empty(constant.shape, strides, constant.dtype)
    copy_[...] = constant
    return copy_
