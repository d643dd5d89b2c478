"""Lets Concats of more and more tensors share memory, so that each step copies the tensors that are new.

In a dense block, each layer reads a Concat of the results of all layers before it. The result of such a Concat is the
first part of that of the next one, if its readers are normalizations: their kernel reads parts of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from .ir.lowered import Lowered
from .ir.step import Step
from .ir.value import Value


def _is_norm_of_rows(step: Step) -> bool:
    """Whether an op normalizes along the last axis by given statistics, which a kernel does to parts of rows."""
    is_last = step.attrs.get("data_format", "NXC") == "NXC"
    return step.kind == "BatchNormInference" and step.executor == "library" and is_last


def growing(lowered: Lowered, values: Mapping[int, Value], fixed: AbstractSet[int]) -> dict[int, Step]:
    """By id of a Concat, the earlier one whose result is the first part of its own.

    Args:
        lowered: the graph.
        values: its values.
        fixed: ids of the values whose memory is decided.
    """
    concats = [step for step in lowered.steps if step.kind == "Concat" and step.executor == "library"]
    if len(concats) < 2:
        return {}
    growth: dict[int, Step] = {}
    latest: list[Step] = []  # Concats whose results no later one has yet
    for step in concats:
        first = next((earlier for earlier in reversed(latest) if _continues(step, earlier, values)), None)
        if first is not None and values[step.outputs[0]].dense and step.outputs[0] not in fixed:
            growth[step.id] = first
            latest.remove(first)
        result = step.outputs[0]
        if result not in fixed and all(_is_norm_of_rows(consumer) for consumer in lowered.consumers(result)):
            latest.append(step)
    return growth


def placed_in(grown: Mapping[int, Step], lowered: Lowered, values: Mapping[int, Value]) -> dict[int, Value]:
    """By id, the results of the Concats that are the first part of a later one, placed in the memory of that one."""
    placed: dict[int, Value] = {}
    for step in reversed(lowered.steps):
        if step.id in grown:
            number, result = grown[step.id].outputs[0], step.outputs[0]
            storage = placed.get(result) or values[result]
            placed[number] = values[number].placed(storage.storage, storage.strides, storage.offset)
    return placed


def _continues(step: Step, first: Step, values: Mapping[int, Value]) -> bool:
    """Whether a Concat begins with all tensors of another one."""
    rank = len(values[step.outputs[0]].shape)
    axes = {int(concat.attrs["axis"]) % rank for concat in (step, first)}  # type: ignore[arg-type]
    return axes == {rank - 1} and _begins(step.inputs, first.inputs) and len(step.inputs) > len(first.inputs)


def _begins(numbers: Sequence[int], first: Sequence[int]) -> bool:
    return tuple(numbers[: len(first)]) == tuple(first)
