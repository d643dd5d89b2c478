"""Runs control flow: branches and loops, whose bodies are graphs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._util.late_imports import import_late
from ...opset.schema import Call

Array = NDArray[Any]
# Runs a body on arrays by the names of its inputs, of which more may be given; returns its outputs by name.
Run = Callable[[dict[str, Array]], dict[str, Array]]
WORDS, RUN = "onegraph.serialize.words", "onegraph.reference.run"


def _body(call: Call, name: str) -> Run:
    """The graph that an attribute is, run in numpy."""
    import_late(WORDS, RUN)
    graph = sys.modules[WORDS].body_of(call, name)
    run = sys.modules[RUN].run
    return lambda given: run(graph, {input_: given[input_] for input_ in graph.inputs})


def if_(call: Call, condition: Array, *values: Array) -> tuple[Array, ...]:
    """The results of the branch that the condition chooses."""
    return branch(condition, values, lambda name: _body(call, name))


def branch(condition: Array, values: Sequence[Array | None], body: Callable[[str], Run]) -> tuple[Array, ...]:
    """The results of a branch; ``body`` gives what runs the attribute of this name."""
    chosen = "then_body" if _single(condition, "condition") else "else_body"
    results = body(chosen)(_named("c", values))
    return tuple(results[f"y{number}"] for number in range(len(results)))


def loop(call: Call, trips: Array, condition: Array, *values: Array) -> tuple[Array, ...]:
    """The states after the last iteration, and the slices of all iterations put together."""
    return iterate(Course(call, trips, condition, values), _body(call, "body"))


class Course:
    """What a Loop reads: its states, slices and other values, and how often it runs at most.

    Args:
        call: the op.
        trips, condition, values: the inputs of the op.

    Raises:
        ValueError: scanned tensors have different numbers of slices.
    """

    def __init__(self, call: Call, trips: Array, condition: Array, values: Sequence[Array | None]) -> None:
        count, scanned = call.s64("n_states"), call.s64("n_scanned")
        self.call, self.limit, self.goes = call, _single(trips, "trips"), bool(_single(condition, "condition"))
        self.states = list(values[:count])
        moved = list[Array]()
        for number, (array, axis) in enumerate(zip(values[count : count + scanned], _filled(call, "axes"))):  # noqa: B905
            assert array is not None
            if not -array.ndim <= axis < array.ndim:
                raise ValueError(f"scanned tensor {number} has shape {array.shape}; expected an axis {axis}")
            moved.append(np.moveaxis(array, axis, 0))
        sizes = {len(array) for array in moved}
        if len(sizes) > 1:
            raise ValueError(f"the scanned tensors have {sorted(sizes)} slices; expected one number")
        self.scanned = [one[::-1] if back else one for one, back in zip(moved, _filled(call, "reversed"))]  # noqa: B905
        self.limit = min([self.limit, *sizes])
        self.given = _named("c", values[count + scanned :])
        self.n_results = (call.n_outputs or 0) - count

    def inputs(self, number: int) -> dict[str, Array]:
        """The inputs of the body in an iteration."""
        slices = [one[number] for one in self.scanned]
        return {"i": np.array(number, np.int64), **self.given, **_named("s", self.states), **_named("x", slices)}

    def lies_as_made(self, number: int) -> bool:
        """Whether the slices of a result lie one behind another, in the order of the iterations."""
        return _at(self.call, "result_axes", number) == _at(self.call, "result_reversed", number) == 0

    def laid(self, number: int, slices: Array) -> Array:
        """A result of which all slices are given, in the order of the iterations."""
        ordered = slices[::-1] if _at(self.call, "result_reversed", number) else slices
        return np.moveaxis(ordered, 0, _at(self.call, "result_axes", number))

    def joined(self, number: int, slices: Sequence[Array]) -> Array:
        """The slices of a result, in one array; of no iteration an empty one of the shape that the op states."""
        index = len(self.states) + number
        axis = _at(self.call, "result_axes", number)
        if slices:
            if len({slice_.shape for slice_ in slices}) > 1:
                shapes = ", ".join(map(str, dict.fromkeys(slice_.shape for slice_ in slices)))
                raise ValueError(f"result {index} has slices of shapes {shapes}; expected one shape")
            return self.laid(number, np.stack(slices))
        dtype, shape = self.call.output_type(index), self.call.shapes[index]
        assert dtype is not None
        dims = [dim or 0 for dim in shape or (0,)]
        dims[axis] = 0
        return np.zeros(dims, dtype.numpy)


def iterate(course: Course, body: Run, first: int = 0) -> tuple[Array, ...]:
    """The results of a Loop, iteration by iteration, whatever shapes the states take."""
    slices: list[list[Array]] = [[] for _ in range(course.n_results)]
    number = first
    while course.goes and number < course.limit:
        results = body(course.inputs(number))
        course.states = [results[f"t{index}"] for index in range(len(course.states))]
        for index, parts in enumerate(slices):
            parts.append(results[f"y{index}"])
        course.goes = bool(_single(results["going"], "going"))
        number += 1
    states = [np.asarray(state) for state in course.states]
    return (*states, *[course.joined(index, parts) for index, parts in enumerate(slices)])


def _single(array: Array, name: str) -> Any:
    if array.size != 1:
        raise ValueError(f"{name} has shape {array.shape}; expected one element")
    return array.reshape(-1)[0].item()


def _named(letter: str, values: Sequence[Array | None]) -> dict[str, Array]:
    return {f"{letter}{number}": value for number, value in enumerate(values) if value is not None}


def _at(call: Call, name: str, index: int) -> int:
    numbers = call.s64s(name)
    return numbers[index] if index < len(numbers) else 0


def _filled(call: Call, name: str) -> Iterator[int]:
    """The elements of an attribute, then zeros without an end."""
    yield from call.s64s(name)
    while True:
        yield 0
