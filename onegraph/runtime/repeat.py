"""Runs the iterations of a loop in C, where one call into C runs the body and the shapes stay the same.

The states lie in two pieces of memory in turn: an iteration reads one and writes the other, so nothing is copied. A
state that is a result too lies in the memory of the result. Slices are read and written where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..ir.op import Array
from ..opset.schema import Call
from ..reference.host.control import Course
from .program import Program
from .repeat_rounds import Rounds


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


NONE_RAN = None, 0  # of the iterations


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
        assert call.n_outputs is not None
        self.n_results = call.n_outputs - call.s64("n_states")

    @classmethod
    def of(cls, call: Call, body: Repeatable) -> Repeat | None:
        """What runs a loop in C; None if its body needs more than one call into C, or only renames values."""
        if not may_repeat(body):
            return None
        slices = body.slices()
        names = {f"g{number}": result for number, result in enumerate(slices)}
        executable = body.compiled(names) if names else body.executable
        return cls.of_program(
            call, body, executable._programs.only_program(), {name: slices[result] for name, result in names.items()}
        )

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
        if course.limit <= 0 or not course.goes or not self._fits(course):
            return NONE_RAN
        chosen = {
            name: np.moveaxis(self._source(slice_, course), slice_.axis, 0) for name, slice_ in self._slices.items()
        }
        limit = course.limit if np.all(self.body.fixed.get("going", True)) else 1
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
