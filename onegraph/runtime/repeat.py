"""Runs the iterations of a loop in C, where one call into C runs the body and the shapes stay the same.

The states lie in two pieces of memory in turn: an iteration reads one and writes the other, so nothing is copied. A
state that is a result too lies in the memory of the result. Slices are read and written where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ..arrays.ndarrays import aligned_empty
from ..ir.op import Array
from ..native.library import address_of, ffi, lib
from ..opset.schema import Call
from ..opset.shapes import known_dims
from ..reference.host.control import Course
from .plan import plan_error
from .program import Program

if TYPE_CHECKING:
    from .frame import Frame


class Slice(NamedTuple):
    """A tensor of which an iteration reads the slice that its number says.

    Attributes:
        source: the input of the body; or the constant itself.
        axis: of the slices.
    """

    source: str | Array
    axis: int


class Repeatable(Protocol):
    """A body, as a loop in C sees it; see :class:`onegraph.runtime.subprograms.CompiledBody`."""

    values: dict[str, Array]
    passed: dict[str, str]
    fixed: dict[str, Array]
    same: dict[str, str]

    @property
    def executable(self) -> Any:
        """Runs the body; None if it computes nothing."""

    def compiled(self, shapes: Mapping[str, int]) -> Any:
        """What runs the body, with results of ops as further inputs, whose ids are given by name."""

    def slices(self) -> dict[int, Slice]:
        """By id of result, the slices that the number of the iteration chooses."""


CHUNK = 4096  # iterations of one call into C
ENOUGH = 50_000_000  # nanoseconds of one call into C, during which interrupts wait


NONE_RAN = None, 0  # of the iterations


class Moving(NamedTuple):
    """Where a tensor lies: at ``first`` in iteration 0.

    In iteration n it lies n - 1 times ``step`` bytes behind ``odd`` or ``even``, as n is.
    """

    first: int
    odd: int
    even: int
    step: int = 0


class Repeat:
    """The iterations of a loop.

    Args:
        call: the op.
        body: its body.
        program: of the body.
        slices: by the name of an input of the program, the slices that the number of the iteration chooses.
    """

    def __init__(self, call: Call, body: Repeatable, program: Program, slices: Mapping[str, Slice]) -> None:
        self.body, self._program, self._slices = body, program, slices
        placed, ends = program.placement, (*program.graph.inputs.items(), *program.graph.outputs.items())
        self.names = tuple(program.graph.inputs)
        self.slots = {name: placed.slots[tensor.id] for name, tensor in program.graph.inputs.items()}
        self.slots.update((name, placed.slots[number]) for name, number in placed.direct)
        self.types = {name: (tensor.dtype.numpy, known_dims(tensor.shape)) for name, tensor in ends}
        self.n_results = (call.n_outputs or 0) - call.s64("n_states")

    @classmethod
    def of(cls, call: Call, body: Repeatable) -> Repeat | None:
        """What runs a loop in C; None if its body needs more than one call into C, or only renames values."""
        count = call.s64("n_states")
        results = {f"y{number}" for number in range((call.n_outputs or 0) - count)}
        is_moved = any(source != f"s{name[1:]}" for name, source in body.passed.items() if name.startswith("t"))
        is_fixed = any(name.startswith("t") for name in body.fixed) or "going" in body.passed
        if not body.same or is_moved or is_fixed or results & {*body.passed, *body.fixed}:
            return None
        slices = body.slices()
        names = {f"g{number}": result for number, result in enumerate(slices)}
        executable = body.compiled(names) if names else body.executable
        program = None if executable is None else executable._programs.only_program()
        if program is None or not program.in_c or program.owner_thread is not None:
            return None
        return cls(call, body, program, {name: slices[result] for name, result in names.items()})

    def run(self, course: Course, results: Sequence[Array] | None) -> tuple[Sequence[Array] | None, int]:
        """The last states and the results of all iterations, and how many iterations have run.

        There are no results if further iterations are to run in another way; the course has the present states then.

        Args:
            course: what the loop reads.
            results: the memory of the results, which is used where it fits.
        """
        goes = course.goes and bool(np.all(self.body.fixed.get("going", True)))
        if course.limit <= 0 or not course.goes or not self._fits(course):
            return NONE_RAN
        chosen = {
            name: np.moveaxis(self._source(slice_, course), slice_.axis, 0) for name, slice_ in self._slices.items()
        }
        limit = course.limit if goes else 1
        most = min([limit, *map(len, chosen.values())])
        if not most:
            return NONE_RAN
        run = Rounds(self, course, results if most == limit else None, most, chosen)
        frame = self._program.check_out()
        try:
            if not run.all(frame):
                return NONE_RAN
        finally:
            self._program.give_back(frame)
        if run.goes and most < limit:  # the next iteration refuses its index
            course.states = [*run.states()]
            return None, run.done
        return run.finish(), run.done

    @staticmethod
    def _source(slice_: Slice, course: Course) -> Array:
        return course.given[slice_.source] if isinstance(slice_.source, str) else slice_.source

    def _fits(self, course: Course) -> bool:
        """Whether the states, slices and other values have the shapes that the body is compiled for."""
        inputs = course.inputs(0)
        types = ((inputs[name], self.types[name]) for name in self.names if name[0] != "g")
        return all(array.shape == shape and array.dtype == dtype for array, (dtype, shape) in types)


class Rounds:
    """One run of a loop.

    Args:
        loop: the loop.
        course: what it reads.
        results: as for :meth:`Repeat.run`.
        limit: the largest number of iterations.
        chosen: by the name of an input of the body, what has its slices along the first axis.

    Attributes:
        done: the number of iterations that have run.
        goes: whether the condition holds after them.
    """

    def __init__(
        self, loop: Repeat, course: Course, results: Sequence[Array] | None, limit: int, chosen: Mapping[str, Array]
    ) -> None:
        self._loop, self._course, self._limit, self.done, self.goes = loop, course, limit, 0, True
        same_as, names = loop.body.same, loop.names
        self._checks = "going" in same_as
        values = {**course.given, **loop.body.values}
        self._captured = {name: np.ascontiguousarray(values[name]) for name in names if name[0] == "c"}
        self._states = [np.ascontiguousarray(state) for state in course.states]
        slices = {f"x{number}": sequence for number, sequence in enumerate(course.scanned)} | dict(chosen)
        self._slices = {
            name: slice_ if slice_[:1].flags.c_contiguous else np.ascontiguousarray(slice_)
            for name, slice_ in slices.items()
            if name in names
        }
        self._numbers = aligned_empty((min(CHUNK, limit),), np.dtype(np.int64))
        self._rows: dict[str, Array] = {}  # by output of the body, the slices of all iterations
        self._turns: dict[str, tuple[Array, Array]] = {}  # by output of the body, the memory that it has in turn
        for number in range(loop.n_results):
            self._rows.setdefault(same_as[f"y{number}"], self._memory(number, results))
        for name in {*same_as.values()} - {*self._rows}:
            dtype, shape = loop.types[name]
            self._turns[name] = aligned_empty(shape, dtype), aligned_empty(shape, dtype)

    def _memory(self, number: int, results: Sequence[Array] | None) -> Array:
        """Memory for the slices of a result: that of the result itself, if it lies as the slices are made."""
        course, index = self._course, len(self._course.states) + number
        dtype, shape = self._loop.types[self._loop.body.same[f"y{number}"]]
        if results is not None and not self._checks and course.lies_as_made(number):
            target = results[index]
            if target.shape == (self._limit, *shape) and target.flags.c_contiguous:
                return target
        rows = min(self._limit, CHUNK) if self._checks else self._limit
        return aligned_empty((rows, *shape), dtype)

    def all(self, frame: Frame) -> bool:
        """Run all iterations; returns False, and runs none, if memory does not lie as the body needs it."""
        done = ffi.new("size_t *")
        while self.done < self._limit:
            end = min(self._limit, self.done + CHUNK)
            self._make_room(end)
            self._numbers[: end - self.done] = np.arange(self.done, end)
            places = self._places()
            slots = ffi.new("onegraph_moving_t[]", [(self._loop.slots[name], *place) for name, place in places.items()])
            count, checks = len(places), int(self._checks)
            status = lib.onegraph_plan_repeat(frame.number, self.done, end, count, slots, checks, ENOUGH, done)
            if status == lib.onegraph_misaligned and not self.done:
                return False
            if status:
                raise plan_error(status)
            self.done = done[0]
            if self._checks and not self._going():
                self.goes = False
                break
        return True

    def _going(self) -> bool:
        """Whether the condition holds after the last iteration."""
        memory = self._turns.get(self._loop.body.same["going"])
        last = self.done - 1
        flags = self._rows[self._loop.body.same["going"]][last] if memory is None else memory[last & 1]
        return bool(flags.reshape(-1)[0])

    def _make_room(self, end: int) -> None:
        for name, rows in self._rows.items():
            if len(rows) < end:
                self._rows[name] = aligned_empty(
                    (min(self._limit, max(end, 2 * len(rows))), *rows.shape[1:]), rows.dtype
                )
                self._rows[name][: self.done] = rows[: self.done]

    def _places(self) -> dict[str, Moving]:
        """Where each tensor of the body lies; that of the condition comes last."""
        same_as, names = self._loop.body.same, {*self._loop.names}
        moving: dict[str, Moving] = {}
        for name in names:
            if name[0] == "c":
                moving[name] = _still(self._captured[name])
            elif name == "i":
                start = address_of(self._numbers) - 8 * self.done
                moving[name] = Moving(start, start + 8, start + 8, 8)
        for name, slice_ in self._slices.items():
            start, step = address_of(slice_[:1]), slice_.strides[0]
            moving[name] = Moving(start, start + step, start + step, step)
        for number, slice_ in enumerate(self._states):
            if f"s{number}" in names:
                source = same_as.get(f"t{number}")
                moving[f"s{number}"] = _still(slice_) if source is None else self._before(source, address_of(slice_))
        ends = [*self._rows, *self._turns]
        if self._checks:
            ends.sort(key=lambda name: name == same_as["going"])
        return moving | {name: self._after(name) for name in ends}

    def _after(self, name: str) -> Moving:
        """Where an iteration writes an output of the body."""
        if name in self._turns:
            first, second = map(address_of, self._turns[name])
            return Moving(first, second, first)
        rows = self._rows[name]
        start, step = address_of(rows), rows.strides[0]
        return Moving(start, start + step, start + step, step)

    def _before(self, name: str, first: int) -> Moving:
        """Where an iteration reads what the one before has written."""
        if name in self._turns:
            even, odd = map(address_of, self._turns[name])
            return Moving(first, even, odd)
        rows = self._rows[name]
        return Moving(first, address_of(rows), address_of(rows), rows.strides[0])

    def states(self) -> list[Array]:
        """The last states."""
        states_after, last = list[Array](), self.done - 1
        for number, state in enumerate(self._states):
            name = self._loop.body.same.get(f"t{number}")
            rows = self._rows.get(name or "")
            states_after.append(
                state if name is None else self._turns[name][last & 1] if rows is None else rows[last, ...]
            )
        return states_after

    def finish(self) -> Sequence[Array]:
        """The last states, and the results."""
        same_as, count = self._loop.body.same, self._loop.n_results
        slices = [self._rows[same_as[f"y{number}"]][: self.done] for number in range(count)]
        return [*self.states(), *[self._course.laid(number, slice_) for number, slice_ in enumerate(slices)]]


def _still(array: Array) -> Moving:
    place = address_of(array)
    return Moving(place, place, place)
