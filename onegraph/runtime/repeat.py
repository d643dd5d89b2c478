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

    def program(self, inputs: Mapping[str, Array]) -> Program | None:
        """The program for the shapes of these arrays, if there is one already."""


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
        placed = program.placement
        self.names = tuple(program.graph.inputs)
        self.slots = {name: placed.slots[tensor.id] for name, tensor in program.graph.inputs.items()}
        self.slots.update((name, placed.slots[number]) for name, number in placed.direct)
        inputs = {name: placed.values[tensor.id] for name, tensor in program.graph.inputs.items()}
        self.types = {name: (value.dtype.numpy, tuple(value.shape)) for name, value in inputs.items()}
        self.types.update((end.name, (end.dtype.numpy, tuple(end.shape))) for end in placed.outputs())
        self.n_results = (call.n_outputs or 0) - call.s64("n_states")

    @classmethod
    def of(cls, call: Call, body: Repeatable) -> Repeat | None:
        """What runs a loop in C; None if its body needs more than one call into C, or only renames values."""
        if not may_repeat(body):
            return None
        slices = body.slices()
        names = {f"g{number}": result for number, result in enumerate(slices)}
        executable = body.compiled(names) if names else body.executable
        program = None if executable is None else executable._programs.only_program()
        return cls.of_program(call, body, program, {name: slices[result] for name, result in names.items()})

    @classmethod
    def of_program(
        cls, call: Call, body: Repeatable, program: Program | None, slices: Mapping[str, Slice]
    ) -> Repeat | None:
        """What runs a loop by a program of its body; None if that needs more than one call into C."""
        if program is None or not program.in_c or program.owner_thread is not None:
            return None
        repeat = cls(call, body, program, slices)
        return repeat if repeat._is_steady() else None

    def _is_steady(self) -> bool:
        """Whether the states have the same shapes after an iteration as before it."""
        afters = {f"s{name[1:]}": source for name, source in self.body.same.items() if name[0] == "t"}
        return all(self.types[state] == self.types[end] for state, end in afters.items() if state in self.types)

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


class OpenRepeat:
    """The iterations of a loop whose body is compiled for the shapes that come.

    Args:
        call: the op.
        body: its body.
    """

    def __init__(self, call: Call, body: Repeatable) -> None:
        self._call, self._body = call, body
        self._last: tuple[Program, Repeat | None] | None = None

    def run(self, course: Course, results: Sequence[Array] | None) -> tuple[Sequence[Array] | None, int]:
        """As :meth:`Repeat.run`; no iteration runs if there is no program for these shapes yet."""
        if course.limit <= 0 or not course.goes:
            return NONE_RAN
        program, last = self._body.program(course.inputs(0)), self._last
        if program is None:
            return NONE_RAN
        if last is None or last[0] is not program:
            self._last = last = program, Repeat.of_program(self._call, self._body, program, {})
        return NONE_RAN if last[1] is None else last[1].run(course, results)


def may_repeat(body: Repeatable) -> bool:
    """Whether a body computes something, and each state and the condition unless they stay as they are."""
    is_moved = any(source != f"s{name[1:]}" for name, source in body.passed.items() if name.startswith("t"))
    is_fixed = any(name.startswith("t") for name in body.fixed) or "going" in body.passed
    return bool(body.same) and not is_moved and not is_fixed


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
            source = same_as.get(f"y{number}")
            if source is not None and source not in self._rows:
                self._rows[source] = self._memory(number, results)
        for source in self._kept():
            if source not in self._rows:
                self._rows[source] = self._new_memory(source)
        for name in {*same_as.values()} - {*self._rows}:
            dtype, shape = loop.types[name]
            self._turns[name] = aligned_empty(shape, dtype), aligned_empty(shape, dtype)

    def _memory(self, number: int, results: Sequence[Array] | None) -> Array:
        """Memory for the slices of a result: that of the result itself, if it lies as the slices are made."""
        course, index = self._course, len(self._course.states) + number
        source = self._loop.body.same[f"y{number}"]
        _, shape = self._loop.types[source]
        if results is not None and not self._checks and course.lies_as_made(number):
            target = results[index]
            if target.shape == (self._limit, *shape) and target.flags.c_contiguous:
                return target
        return self._new_memory(source)

    def _new_memory(self, source: str) -> Array:
        """Memory for what an output of the body is in all iterations."""
        dtype, shape = self._loop.types[source]
        return aligned_empty((min(self._limit, CHUNK) if self._checks else self._limit, *shape), dtype)

    def _kept(self) -> list[str]:
        """The outputs of the body that are states, of which a result has what they were before each iteration."""
        body = self._loop.body
        states = [f"t{source[1:]}" for end, source in body.passed.items() if end[0] == "y" and source[0] == "s"]
        return [body.same[state] for state in states if state in body.same]

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
        for number, state in enumerate(self._course.states):
            assert state is not None
            name = self._loop.body.same.get(f"t{number}")
            rows = self._rows.get(name or "")
            states_after.append(
                state if name is None else self._turns[name][last & 1] if rows is None else rows[last, ...]
            )
        return states_after

    def finish(self) -> Sequence[Array]:
        """The last states, and the results."""
        slices = map(self._slices_of, range(self._loop.n_results))
        return [*self.states(), *[self._course.laid(number, slice_) for number, slice_ in enumerate(slices)]]

    def _slices_of(self, number: int) -> Array:
        """The slices of a result: what the body has computed, or what it has passed on."""
        body, course, name = self._loop.body, self._course, f"y{number}"
        if name in body.same:
            return self._rows[body.same[name]][: self.done]
        source = body.passed.get(name, "")
        if source == "i":
            return np.arange(self.done)
        if source[:1] == "x":
            return np.array(course.scanned[int(source[1:])][: self.done])
        state = course.states[int(source[1:])] if source[:1] == "s" else None
        after = body.same.get(f"t{source[1:]}") if state is not None else None
        if state is not None and after is not None:
            later = self._rows[after][: self.done - 1]
            return np.concatenate([state[None], later]) if len(later) else np.array(state[None])
        values = {**course.given, **body.values}
        value = state if state is not None else body.fixed[name] if name in body.fixed else values[source]
        return np.array(np.broadcast_to(value, (self.done, *value.shape)))


def _still(array: Array) -> Moving:
    place = address_of(array)
    return Moving(place, place, place)
