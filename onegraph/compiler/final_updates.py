"""Moves the updates of variables to the end of a program, where they may take the place of the old values.

A step that fails must leave every variable as it was. Some kernels of the package cannot fail. So the updates that they
compute run last, in one call into C, when all that may fail has succeeded. Such a variable needs no second memory.

Rows that are written behind those of a cache are read by the steps behind. Their kernel runs at its place, over the old
value, and keeps the few rows that were there: if the call fails, it writes them back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from ..builder.graph import DataGraph
from .ir.value import Value
from .kernels.native import CompiledKernel, compiled, packed
from .kernels.registry import named
from .schedule import Schedule
from .steps import CompiledStep, Ending, NumpyStep


def move_updates_last(schedule: Schedule, graph: DataGraph, updates: Mapping[str, str]) -> Ending:
    """Put the updates of variables at the end of a schedule.

    Args:
        schedule: the steps in an order in which they can run.
        graph: the graph, in which variables are inputs, and their next values are outputs.
        updates: by name of variable, the output that is its next value.
    """
    old = _replaced(graph, updates, schedule.values)
    last: list[CompiledStep] = []  # from the last one on
    computing: list[CompiledStep | NumpyStep] = []
    needed = {schedule.values[output.id].storage for output in graph.outputs.values() if output.id not in old}
    for step in reversed(schedule.steps):
        if (
            isinstance(step, CompiledStep)
            and isinstance(step.compiled, CompiledKernel)
            and named(step.compiled.name).updates
            and needed.isdisjoint(written := step.pieces[step.n_inputs :])
            and old.keys() >= {*written}
        ):
            last.append(step)
        else:
            computing.append(step)
            needed.update(_read(step, schedule.values))
    schedule.steps[:] = [*reversed(computing), *reversed(last)]
    names, in_place = {tensor.id: name for name, tensor in graph.inputs.items()}, [*_in_place(last, old, schedule)]
    returned = {schedule.values[output.id].storage for output in graph.outputs.values()}
    for place, number in _reversible(schedule, old, returned):
        schedule.steps[place] = _taking_back(schedule, schedule.steps[place])
        in_place.append(number)
    return Ending(len(last), frozenset(names[old[number]] for number in in_place))


def _replaced(graph: DataGraph, updates: Mapping[str, str], values: Mapping[int, Value]) -> dict[int, int]:
    """The old value of each next value that has memory of its own, and that nobody else gets."""
    outputs = [tensor.id for tensor in graph.outputs.values()]
    pairs = {graph.outputs[output].id: graph.inputs[name].id for name, output in updates.items()}
    return {new: old for new, old in pairs.items() if outputs.count(new) == 1 and values[new].storage == new}


def _in_place(last: list[CompiledStep], old: Mapping[int, int], schedule: Schedule) -> Iterator[int]:
    """The next values whose step is the last reader of the old value, and reads it element by element, if at all.

    ``last``: the steps that run last, the last one first.
    """
    read: set[int] = set()  # by the steps behind
    for step in last:
        note = schedule.notes[step.note]
        unlike = {
            value.storage: value
            for value in note.inputs
            if value.offset or not value.dense or value.shape != note.outputs[0].shape
        }
        types = {value.storage: value.dtype for value in note.inputs}
        for value in note.outputs:
            number = value.storage  # of the next value, which the step may see as an image
            source = old[number]
            is_dense = value.dense and schedule.values[number].dense
            is_alike = is_dense and source not in unlike and types.get(source, value.dtype) is value.dtype
            if source not in read and is_alike:
                yield number
        read.update(types)


def _reversible(schedule: Schedule, old: Mapping[int, int], returned: Set[int]) -> Iterator[tuple[int, int]]:
    """The places of steps that may write over a variable at once, with the next value that each writes.

    ``returned``: the memory of the outputs.
    """
    read = {*returned}  # by the steps behind, and by the caller
    for place in range(len(schedule.steps) - 1, -1, -1):
        step = schedule.steps[place]
        now = _read(step, schedule.values)
        if _takes_back(step):
            number, source = step.pieces[step.n_inputs], step.pieces[0]  # type: ignore[union-attr]
            is_alone = source not in read and now.count(source) == 1
            past, result = schedule.notes[step.note].inputs[0], schedule.notes[step.note].outputs[0]
            is_alike = past.dense and result.dense and not past.offset and past.shape == result.shape
            if old.get(number) == source and is_alone and is_alike:
                yield place, number
        read.update(now)


def _takes_back(step: CompiledStep | NumpyStep) -> bool:
    is_kernel = isinstance(step, CompiledStep) and isinstance(step.compiled, CompiledKernel)
    return is_kernel and named(step.compiled.name).takes_back  # type: ignore[union-attr]


def _taking_back(schedule: Schedule, step: CompiledStep | NumpyStep) -> CompiledStep:
    """A step that keeps what it writes over."""
    assert isinstance(step, CompiledStep)
    assert isinstance(step.compiled, CompiledKernel)
    note, name = schedule.notes[step.note], step.compiled.name
    kernel = compiled(name, note.inputs, note.outputs, packed(name, {"takes_back": True}))
    return step._replace(compiled=kernel, like=kernel)


def _read(step: CompiledStep | NumpyStep, values: Mapping[int, Value]) -> list[int]:
    """The pieces of memory that a step reads."""
    if isinstance(step, CompiledStep):
        return [*step.pieces[: step.n_inputs]]
    return [values[number].storage for number in step.inputs if number is not None]
