"""What graphs and partitions have in common that differ in sizes alone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set

from .._util.open_sizes import settled
from ..opset.signature import AttrValue
from .ir.lowered import Lowered
from .ir.step import Step
from .ir.value import Value

# Attributes that follow from the shapes of tensors, such as the window of a reduction that is computed as a pool.
OF_SIZES = frozenset(["shape", "sizes", "kernel", "pads_begin", "pads_end", "src_shape", "dst_shape", "weights_shape"])


def structure_of(lowered: Lowered) -> Hashable:
    """What the search for fusions depends on, but for sizes above 1: equal for graphs that differ in sizes alone."""
    steps = [
        (step.executor, step.kind, step.inputs, step.outputs, _searched(step), step.part is None)
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
        (step.kind, tuple([places[number] for number in (*step.inputs, *step.outputs)]), _attrs(step, frozenset()))
        for step in steps
    ]
    return tuple(ops), tuple(map(_type, values)), tuple([places[number] for number in results])


def _searched(step: Step) -> Hashable:
    """The attributes of a step of the library; the search for fusions does not read those of others."""
    return _attrs(step, OF_SIZES) if step.executor == "library" else ()


def _attrs(step: Step, of_sizes: Set[str]) -> Hashable:
    return tuple([(name, _few(value) if name in of_sizes else value) for name, value in step.attrs.items()])


def _few(sizes: AttrValue) -> Hashable:
    """Sizes above 1 as 2, as the search for fusions takes them."""
    return tuple([settled(size) if size < 2 else 2 for size in sizes]) if isinstance(sizes, tuple) else sizes


def _type(value: Value) -> tuple[Hashable, ...]:
    return value.dtype, _few(value.shape), value.constant is None, value.dense
