"""One run of a loop whose iterations are calls into C: where its tensors lie in each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ..arrays.ndarrays import aligned_empty
from ..ir.op import Array
from ..native.library import address_of, ffi, lib
from ..reference.host.control import Course
from .plan import plan_error

if TYPE_CHECKING:
    from .frame import Frame

CHUNK = 4096  # iterations of one call into C
ENOUGH = 50_000_000  # nanoseconds of one call into C, during which interrupts wait


class Moving(NamedTuple):
    """Where a tensor lies: at ``first`` in iteration 0.

    In iteration n it lies n - 1 times ``step`` bytes behind ``odd`` or ``even``, as n is.
    """

    first: int
    odd: int
    even: int
    step: int = 0


class CompiledLoop(Protocol):
    """A loop whose body is a program."""

    @property
    def body(self) -> Any:
        """The body, as :class:`~onegraph.runtime.repeat.Repeatable` says."""

    @property
    def names(self) -> Sequence[str]:
        """The inputs of the program."""

    @property
    def slots(self) -> Mapping[str, int]:
        """Where the program has its inputs and results."""

    @property
    def types(self) -> Mapping[str, tuple[Any, tuple[int, ...]]]:
        """The data types and shapes of both."""

    @property
    def n_results(self) -> int:
        """The number of results of the loop that are no states."""


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
        self,
        loop: CompiledLoop,
        course: Course,
        results: Sequence[Array] | None,
        limit: int,
        chosen: Mapping[str, Array],
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
        if after is not None:
            assert state is not None
            later = self._rows[after][: self.done - 1]
            return np.concatenate([state[None], later]) if len(later) else np.array(state[None])
        values = {**course.given, **body.values}
        value = state if state is not None else body.fixed[name] if name in body.fixed else values[source]
        return np.array(np.broadcast_to(value, (self.done, *value.shape)))


def _still(array: Array) -> Moving:
    place = address_of(array)
    return Moving(place, place, place)
