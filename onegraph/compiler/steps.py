"""The steps of a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .._util.open_sizes import OpenSize
from ..ir.op import Array
from .ir.value import Value

if TYPE_CHECKING:
    from ..capi import CompiledPartition, Partition
    from .ir.step import Step
    from .kernels.native import CompiledKernel

# Writes the results of the first arrays into the second.
Run = Callable[[Sequence[Array | None], Sequence[Array]], None]


class PartitionRecipe(Protocol):
    """What a partition is compiled from, in which sizes are open."""

    def sizes(self) -> tuple[OpenSize, ...]:
        """The open sizes that it depends on."""


class CompiledStep(NamedTuple):
    """A compiled partition, or a kernel of the package, and the memory of its inputs and outputs.

    ``pieces``: the numbers of the pieces of memory of its inputs and outputs, in the order in which it was compiled.
    ``in_place``: pairs (output, input) of pieces; the output may reuse the memory of the input.
    ``again``: makes another partition of the same ops, of which the library keeps no constants yet.
    ``recipe``: makes the step for other sizes, if sizes were open.
    ``like``: the first compiled partition with the same ops and layouts, which takes as long.
    """

    compiled: CompiledPartition | CompiledKernel
    like: CompiledPartition | CompiledKernel
    pieces: Sequence[int]
    n_inputs: int
    in_place: Sequence[tuple[int, int]]
    note: int
    nbytes: int  # size of inputs and outputs
    flops: int = 0  # of products, as many of f32 as take the same time; 0 for other ops
    is_small: bool = False  # compiled for one thread
    is_quick: bool = False  # its time is not measured
    shifts: Sequence[int] = ()  # for each piece, bytes to its first element; empty if all are 0
    again: Callable[[], Partition] | None = None  # None if the library finds no constants of the step by a hash
    ends: Sequence[int] = ()  # the values that its ops read and write; the pieces may have copies of the former
    room: tuple[int, int] = 0, 0  # where the block of intermediates has memory that nobody uses meanwhile: start, size
    alone: CompiledPartition | None = None  # for one thread, which is faster beside other programs; see thread_tuning
    recipe: PartitionRecipe | None = None
    rows: Sequence[int] = ()  # of its inputs, those that may lie at any address, because it copies rows of them


def shifts_of(values: Sequence[Value]) -> Sequence[int]:
    """For each value the bytes from the start of its memory to its first element; empty if all are 0."""
    return [value.shift for value in values] if any(value.offset for value in values) else ()


def nothing(arrays: Sequence[Array | None], results: Sequence[Array]) -> None:
    """The run of a step whose results have no elements."""


class NumpyStep(NamedTuple):
    """One op that numpy runs; None stands for an absent optional input.

    Attributes:
        run: computes the outputs.
        inputs, outputs: numbers of values.
        note: the index of the note that describes it.
        rows: inputs of which it copies rows, whatever their address.
        source: the step that it is made from; None for a copy.
    """

    run: Run
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    note: int
    rows: tuple[int | None, ...] = ()
    source: Step | None = None


class Ending(NamedTuple):
    """The end of a program.

    Attributes:
        n_steps: the number of steps that run last, together.
        variables: the names of the variables whose next values may take the place of the present ones.
    """

    n_steps: int
    variables: frozenset[str]
