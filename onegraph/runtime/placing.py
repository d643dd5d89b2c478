"""Places the values of a program in memory: slots, offsets in the arena, and the caller's arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..builder.graph import DataGraph
from ..capi.settings import is_aligned, least_alignment
from ..compiler.ir.value import Value
from ..compiler.kernels.native import CompiledKernel
from ..compiler.memory_planner import Lifetime, aligned, free_rooms, plan_memory
from ..compiler.report import nbytes
from ..compiler.schedule import Schedule
from ..compiler.steps import CompiledStep, NumpyStep
from ..errors import StateError
from ..ir.op import Array
from .placement import ARENA, Placement, copy_of, span

Steps = Sequence[CompiledStep | NumpyStep]


class Rooms:
    """Places of values in the arena, and the steps with them: those of the last program where sizes are equal."""

    def __init__(self) -> None:
        self._known: tuple[object, Plan, Steps, list[CompiledStep | NumpyStep]] | None = None

    def find(self, slots: Slots, sizes: Mapping[int, int], steps: Steps) -> tuple[Plan, list[CompiledStep | NumpyStep]]:
        """The plan for sizes of pieces in bytes, and the steps with room for what kernels need meanwhile."""
        in_place, known = _in_place(steps), self._known
        key = tuple(sizes.values()), in_place
        plan = known[1] if known is not None and known[0] == key else _planned(slots, sizes, in_place, len(steps))
        is_new = known is None or plan is not known[1]
        before, made = ((), []) if known is None or is_new else known[2:]
        roomy = [
            made[index] if index < len(made) and step is before[index] else _with_room(step, plan.rooms[index])
            for index, step in enumerate(steps)
        ]
        self._known = key, plan, [*steps], roomy
        return plan, [*roomy]


class Plan(NamedTuple):
    """Where pieces of memory lie in the arena.

    Attributes:
        in_place: outputs of steps, each with the input whose memory it may reuse.
        offsets: of the pieces.
        size: of the arena, in bytes.
        rooms: for each step, where nobody uses the arena meanwhile: start and size.
    """

    in_place: Mapping[int, int]
    offsets: Mapping[int, int]
    size: int
    rooms: Sequence[tuple[int, int]]


class Slots(NamedTuple):
    """What the places of the values of a program depend on besides sizes.

    Attributes:
        graph: the graph.
        written, last: by piece of memory, the step that first writes it, and the step that last uses it.
        direct, copied, external, constants, slots, residents: as in ``Placement``.
    """

    graph: DataGraph
    written: Mapping[int, int]
    last: Mapping[int, int]
    direct: tuple[tuple[str, int], ...]
    copied: tuple[tuple[str, int], ...]
    external: tuple[int, ...]
    constants: Mapping[int, Array]
    slots: Mapping[int, int]
    residents: Mapping[int, Sequence[int]]

    def pieces(self) -> list[int]:
        """The pieces of memory in the arena, in the order in which they are written."""
        return [number for number in self.written if number not in self.slots]

    def placed(
        self, values: Mapping[int, Value], sizes: Mapping[int, int], steps: Steps, rooms: Rooms
    ) -> tuple[Placement, list[CompiledStep | NumpyStep]]:
        """The places of values, and the steps with room for what kernels need meanwhile.

        Args:
            values: by number.
            sizes: of the pieces of memory in the arena, in bytes.
            steps: whose memory they are.
            rooms: finds the places in the arena.
        """
        written, last = self.written, self.last
        plan, roomy = rooms.find(self, sizes, steps)
        inputs, names = {tensor.id for tensor in self.graph.inputs.values()}, {number for _, number in self.direct}
        over_inputs = {
            target: source
            for target, source in plan.in_place.items()
            if target in names and source in inputs and last[source] == written[target]
        }
        ends = self.direct, self.copied, self.external, self.constants, self.slots
        return Placement(self.graph, values, *ends, plan.offsets, plan.size, self.residents, over_inputs), roomy


def place_values(graph: DataGraph, schedule: Schedule) -> Placement:
    """Assign a slot to every piece of memory, an offset in the arena to every intermediate, and room to every step."""
    slots = slots_of(graph, schedule)
    placement, schedule.steps[:] = slots.placed(schedule.values, piece_sizes(slots, schedule), schedule.steps, Rooms())
    return placement


def piece_sizes(slots: Slots, schedule: Schedule) -> dict[int, int]:
    """The sizes of the pieces of memory in the arena, in bytes."""
    values, sizes = schedule.values, schedule.sizes
    return {number: sizes.get(number) or nbytes(values[number]) for number in slots.pieces()}


def slots_of(graph: DataGraph, schedule: Schedule) -> Slots:
    """The slots of the pieces of memory of a schedule, and when they are in use."""
    values, sizes, steps = schedule.values, schedule.sizes, schedule.steps
    for value in values.values():
        if value.storage != value.id and not _lies_inside(value, values[value.storage], sizes):
            raise StateError(f"{value.name!r} would lie outside of its memory; this is a mistake in onegraph")
    written, last = _liveness(values, steps)
    inputs = [tensor.id for tensor in graph.inputs.values()]
    names = {
        tensor.id: name
        for name, tensor in graph.outputs.items()
        if tensor.id in written and tensor.id not in inputs and values[tensor.id].storage == tensor.id
    }
    copied = tuple((name, tensor.id) for name, tensor in graph.outputs.items() if names.get(tensor.id) != name)
    last.update((values[number].storage, len(steps)) for _, number in copied)
    external = (*inputs, *names)
    bears_any_address = least_alignment() == 1
    elsewhere = _read_outside_of_library(values, steps) | {values[number].storage for _, number in copied}
    constants = {
        number: constant
        if is_aligned(constant) or (bears_any_address and number not in elsewhere)
        else copy_of(constant)
        for number in last
        if (constant := values[number].constant) is not None
    }
    slots = {number: slot for slot, number in enumerate((*external, *constants), ARENA + 1)}
    residents: dict[int, list[int]] = {}
    for number in {*_numpy_values(steps), *(number for _, number in copied)}:
        residents.setdefault(values[number].storage, []).append(number)
    direct = tuple((name, number) for number, name in names.items())
    return Slots(graph, written, last, direct, copied, external, constants, slots, residents)


def _planned(slots: Slots, sizes: Mapping[int, int], in_place: Mapping[int, int], n_steps: int) -> Plan:
    written, last = slots.written, slots.last
    lifetimes = [Lifetime(number, aligned(size), written[number], last[number]) for number, size in sizes.items()]
    offsets, arena_size = plan_memory(lifetimes, in_place)
    return Plan(in_place, offsets, arena_size, free_rooms(lifetimes, offsets, arena_size, n_steps))


def _with_room(step: CompiledStep | NumpyStep, room: tuple[int, int]) -> CompiledStep | NumpyStep:
    return step._replace(room=room) if isinstance(step, CompiledStep) else step


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
    found: set[int] = set()
    for step in steps:
        if isinstance(step, NumpyStep):
            used = {*step.inputs, *step.outputs} - {None, *step.rows}
            found.update(values[number].storage for number in used if number is not None)
        if isinstance(step, CompiledStep) and isinstance(step.compiled, CompiledKernel):
            found.update(piece for place, piece in enumerate(step.pieces) if place not in step.rows)
    return found


def _in_place(steps: Steps) -> dict[int, int]:
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
    first = value.offset + sum(step for step in steps if step < 0)
    last = value.offset + sum(step for step in steps if step > 0)
    end = (last + 1) * value.dtype.numpy.itemsize
    # Where the library chose the size, it is asked first: of rows that are rounded up, it is that of the view.
    return first >= 0 and (end <= sizes.get(whole.id, 0) or end <= span(whole))
