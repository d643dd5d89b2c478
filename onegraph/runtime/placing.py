"""Places the values of a program in memory: slots, offsets in the arena, and the caller's arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..arrays.mapped_files import give_back
from ..builder.graph import DataGraph
from ..capi.settings import is_aligned, least_alignment
from ..compiler.ir.value import Value
from ..compiler.kernels.native import CompiledKernel
from ..compiler.memory_planner import Lifetimes
from ..compiler.report import nbytes
from ..compiler.schedule import Schedule
from ..compiler.steps import CompiledStep, NumpyStep
from ..errors import StateError
from ..ir.op import Array
from .placement import ARENA, Placement, copy_of, span

Steps = Sequence[CompiledStep | NumpyStep]


class Slots(NamedTuple):
    """What the places of the values of a program depend on besides sizes.

    Attributes:
        graph: the graph.
        written, last: by piece of memory, the step that first writes it, and the step that last uses it.
        lifetimes: of the pieces of memory in the arena.
        direct, copied, external, constants, slots, residents: as in ``Placement``.
    """

    graph: DataGraph
    written: Mapping[int, int]
    last: Mapping[int, int]
    lifetimes: Lifetimes
    direct: tuple[tuple[str, int], ...]
    copied: tuple[tuple[str, int], ...]
    external: tuple[int, ...]
    constants: Mapping[int, Array]
    slots: Mapping[int, int]
    residents: Mapping[int, Sequence[int]]

    def over_inputs(self, in_place: Mapping[int, int]) -> dict[int, int]:
        """The graph outputs that may lie in the memory of an input; ``in_place`` as ``in_place_of`` finds it."""
        written, last = self.written, self.last
        inputs, names = {tensor.id for tensor in self.graph.inputs.values()}, {number for _, number in self.direct}
        return {
            target: source
            for target, source in in_place.items()
            if target in names and source in inputs and last[source] == written[target]
        }

    def placed(
        self, values: Mapping[int, Value], offsets: Array, arena_size: int, over_inputs: Mapping[int, int]
    ) -> Placement:
        """The places of values.

        Args:
            values: by number.
            offsets, arena_size: as ``lifetimes`` plans them.
            over_inputs: as the method of this name returns them.
        """
        places = dict(zip(self.lifetimes.numbers, offsets.tolist(), strict=True))
        ends = self.direct, self.copied, self.external, self.constants, self.slots
        return Placement(self.graph, values, *ends, places, arena_size, self.residents, over_inputs)


def place_values(graph: DataGraph, schedule: Schedule) -> Placement:
    """Assign a slot to every piece of memory, an offset in the arena to every intermediate, and room to every step."""
    slots = slots_of(graph, schedule)
    in_place, sizes = in_place_of(schedule.steps), piece_sizes(slots, schedule).values()
    offsets, arena_size, rooms = slots.lifetimes.planned([*sizes], slots.lifetimes.sources(in_place))
    schedule.steps[:] = [
        step._replace(room=(start, size)) if isinstance(step, CompiledStep) else step
        for step, (start, size) in zip(schedule.steps, rooms.tolist(), strict=True)
    ]
    return slots.placed(schedule.values, offsets, arena_size, slots.over_inputs(in_place))


def _in_memory(constant: Array) -> Array:
    """An aligned copy of a constant, whose pages of a file are given back."""
    copy_ = copy_of(constant)
    give_back([constant])
    return copy_


def piece_sizes(slots: Slots, schedule: Schedule) -> dict[int, int]:
    """The sizes of the pieces of memory in the arena, in bytes."""
    values, sizes = schedule.values, schedule.sizes
    return {number: sizes.get(number) or nbytes(values[number]) for number in slots.lifetimes.numbers}


def slots_of(graph: DataGraph, schedule: Schedule) -> Slots:
    """The slots of the pieces of memory of a schedule, and when they are in use."""
    values, sizes, steps = schedule.values, schedule.sizes, schedule.steps
    for value in values.values():
        if value.storage != value.id and not _lies_inside(value, values[value.storage], sizes):
            raise StateError(f"{value.name!r} would lie outside of its memory; this is a mistake in onegraph")
    written, last = _liveness(values, steps)
    inputs = [tensor.id for tensor in graph.inputs.values()]
    names = {tensor.id: name for name, tensor in graph.outputs.items() if tensor.id in written}  # steps write no input
    copied = tuple((name, tensor.id) for name, tensor in graph.outputs.items() if names.get(tensor.id) != name)
    last.update((values[number].storage, len(steps)) for _, number in copied)
    external = (*inputs, *names)
    bears_any_address = least_alignment() == 1
    elsewhere = _read_outside_of_library(values, steps) | {values[number].storage for _, number in copied}
    constants = {
        number: constant
        if is_aligned(constant) or (bears_any_address and number not in elsewhere)
        else _in_memory(constant)
        for number in last
        if (constant := values[number].constant) is not None
    }
    slots = {number: slot for slot, number in enumerate((*external, *constants), ARENA + 1)}
    residents: dict[int, list[int]] = {}
    for number in {*_numpy_values(steps), *(number for _, number in copied)}:
        residents.setdefault(values[number].storage, []).append(number)
    direct = tuple((name, number) for number, name in names.items())
    in_arena = {number: step for number, step in written.items() if number not in slots}
    lifetimes = Lifetimes(in_arena, last, len(steps))
    return Slots(graph, written, last, lifetimes, direct, copied, external, constants, slots, residents)


def _liveness(values: Mapping[int, Value], steps: Steps) -> tuple[dict[int, int], dict[int, int]]:
    """Two dictionaries by piece of memory: the step that first writes it, and the step that last uses it."""
    written: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, step in enumerate(steps):
        if isinstance(step, CompiledStep):
            outputs, used = step.pieces[step.n_inputs :], step.pieces
        else:
            outputs = [values[number].storage for number in step.outputs]
            used = [*outputs, *[values[number].storage for number in step.inputs if number is not None]]
        for piece in outputs:
            written.setdefault(piece, index)
        for piece in used:
            last[piece] = index
    return written, last


def _read_outside_of_library(values: Mapping[int, Value], steps: Steps) -> set[int]:
    """The pieces of memory that numpy or a kernel of the package reads. Both want numbers at aligned addresses."""
    read: set[int] = set()
    for step in steps:
        if isinstance(step, NumpyStep):
            used = {*step.inputs, *step.outputs} - {None, *step.rows}
            read.update(values[number].storage for number in used if number is not None)
        if isinstance(step, CompiledStep) and isinstance(step.compiled, CompiledKernel):
            read.update(piece for place, piece in enumerate(step.pieces) if place not in step.rows)
    return read


def in_place_of(steps: Steps) -> dict[int, int]:
    """Outputs of library steps, each with the input whose memory it may reuse.

    An input that the step reads as two values is excluded.
    """
    return {
        target: source
        for step in steps
        if isinstance(step, CompiledStep)
        for target, source in step.in_place
        if step.pieces[: step.n_inputs].count(source) == 1
    }


def _numpy_values(steps: Steps) -> Iterator[int]:
    """The values that numpy steps read or write."""
    for step in steps:
        if isinstance(step, NumpyStep):
            yield from (number for number in (*step.inputs, *step.outputs) if number is not None)


def _lies_inside(value: Value, whole: Value, sizes: Mapping[int, int]) -> bool:
    """Whether every element of a view lies in the memory of ``whole``."""
    if 0 in value.shape:
        return True
    steps = [(dim - 1) * step for dim, step in zip(value.shape, value.strides, strict=True)]
    first = value.offset + sum(min(step, 0) for step in steps)
    last = value.offset + sum(max(step, 0) for step in steps)
    end = (last + 1) * value.dtype.numpy.itemsize
    # Where the library chose the size, it is asked first: of rows that are rounded up, it is that of the view.
    return first >= 0 and (end <= sizes.get(whole.id, 0) or end <= span(whole))
