"""What graphs and partitions have in common that differ in sizes alone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from .ir.lowered import Lowered
from .ir.step import Step
from .ir.value import Value


def structure_of(lowered: Lowered) -> Hashable:
    """What the search for fusions depends on, but for sizes above 1: equal for graphs that differ in sizes alone."""
    steps = [
        (step.executor, step.kind, step.inputs, step.outputs, _attrs(step, "shape"), step.part is None)
        for step in lowered.steps
    ]
    used = sorted({number for step in lowered.steps for number in (*step.inputs, *step.outputs)})
    return tuple(steps), tuple([(number, *_type(lowered.values[number])) for number in used]), lowered.returned


def open_key(steps: Sequence[Step], values: Sequence[Value], results: Sequence[int]) -> Hashable:
    """What an open partition of steps depends on: equal for steps that differ in sizes above 1 alone.

    Args:
        steps: library steps.
        values: their values, in the order in which the steps name them.
        results: the values that others read.
    """
    places = {value.id: place for place, value in enumerate(values)}
    ops = [
        (step.kind, tuple([places[number] for number in (*step.inputs, *step.outputs)]), _attrs(step, ""))
        for step in steps
    ]
    return tuple(ops), tuple(map(_type, values)), tuple([places[number] for number in results])


def _attrs(step: Step, without: str) -> Hashable:
    return tuple([(name, value) for name, value in step.attrs.items() if name != without])


def _type(value: Value) -> tuple[Hashable, ...]:
    dims = tuple([dim if dim < 2 else 2 for dim in value.shape])
    return value.dtype, dims, value.constant is None, value.dense
