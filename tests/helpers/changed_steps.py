"""Graphs in front of a pass in which one field of a step, or of a value that it reads or writes, differs.

Each field differs in turn, so that each condition of a pass on one of them decides once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np

import onegraph as og
from onegraph.arrays.ndarrays import aligned_empty
from onegraph.compiler.ir.edit import Edit
from onegraph.compiler.ir.lowered import Lowered
from onegraph.compiler.ir.step import Step
from onegraph.compiler.ir.value import Value, Values, dense_of
from onegraph.compiler.options import Options
from onegraph.compiler.passes import PASSES, Pass
from onegraph.errors import OneGraphError

from . import drawn_steps
from .compiler_calls import watch
from .pass_graphs.forms import MAKERS

Front = tuple[Lowered, Options, Step]
KINDS = 5  # of the steps that a pass changes
DRAWS = 6  # graphs of each form
MOST_NEAR = 3  # steps beside one
MOST = 1 << 14  # elements of a constant in the place of a variable


def normalized() -> og.Graph:
    """A convolution of f16, which runs in f32, and the normalization of its result in f16."""
    g, window = og.Graph(), {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    weights, row = g.constant(np.ones((3, 3, 4, 8), np.float16)), np.ones(8, np.float32)
    y = g.convolution(g.input("x", "f16", (1, 6, 6, 4)), weights, **window)
    g.output("y", g.batch_norm_inference(y, *[g.constant(row) for _ in range(4)], epsilon=1e-3))
    return g


def graphs() -> Iterator[og.Graph]:
    """Graphs that passes change."""
    for name in ("taken", "attended", "in_codes", "trained", "planned"):
        yield from drawn_steps.listed(name)
    yield from drawn_steps.listed("opened")[::9]
    for make, number in product(MAKERS, range(DRAWS)):
        with suppress(OneGraphError, IndexError):  # a draw need not be valid
            yield make(Random(number))


def fronts(given: Iterable[og.Graph]) -> dict[str, dict[tuple[str, str], Front]]:
    """By pass, graphs in front of it, each with a step of another kind that the pass changes."""
    found: dict[str, dict[tuple[str, str], Front]] = {each.name: {} for each in PASSES}
    for place, graph in enumerate(given):
        options = Options(opens=place % 3 == 2)

        def keep(each: Pass, before: Lowered, after: Lowered, options: Options = options) -> None:
            if before is after or len(own := found[each.name]) >= KINDS:
                return
            known = {fields_of(step) for step in after.steps}
            for step in before.steps:
                if fields_of(step) not in known and len(own) < KINDS:
                    own.setdefault((step.kind, step.executor), (before, options, step))

        watch(graph, options, keep)
    return found


def fields_of(step: Step) -> tuple[object, ...]:
    return step.executor, step.kind, step.inputs, step.outputs, step.note, tuple(step.attrs), len(step.refused)


def filled(value: Value, number: float) -> Value:
    """A value as a constant whose first element is a number, and the others those that it had, or ones."""
    array = aligned_empty(value.shape, value.dtype.numpy)
    array[...] = 1 if value.constant is None else value.constant
    array.reshape(-1)[:1] = number
    return value._replace(constant=array)


def other_values(value: Value) -> Iterator[Value]:
    yield value._replace(dtype=og.bf16 if value.dtype is og.f32 else og.f32)
    yield value._replace(strides=tuple([2 * stride for stride in value.strides]))
    for axis, dim in enumerate(value.shape):
        shape = (*value.shape[:axis], dim + 1, *value.shape[axis + 1 :])
        yield value._replace(shape=shape, strides=dense_of(shape))
    yield value._replace(shape=(1, *value.shape), strides=(1, *value.strides))
    if value.constant is not None:
        yield value._replace(constant=None)
    if int(np.prod(value.shape)) <= MOST:
        yield from (filled(value, number) for number in (1, np.nan) if number == 1 or value.dtype is og.f32)


def other_attribute(value: Any) -> Any:
    if isinstance(value, (bool, np.bool_)):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, tuple) and value:
        return (*value[:-1], other_attribute(value[-1]))
    others = {"NXC": "NCX", "NCX": "NXC", "XIO": "OIX", "OIX": "XIO", "per_tensor": "per_channel"}
    return others.get(value, "none") if isinstance(value, str) else value


def other_steps(step: Step) -> Iterator[Step]:
    yield step._replace(executor="reference")
    yield step._replace(note="said before")
    yield step._replace(part=None)
    for inputs in (step.inputs[::-1], step.inputs[:-1], (*step.inputs[:-1], step.inputs[0])) if step.inputs else ():
        yield step._replace(inputs=inputs)
    given = dict(step.attrs) or (dict(step.part.attrs) if step.part is not None else {})
    for name, value in given.items():
        rest = {key: one for key, one in given.items() if key != name}
        for attrs in ({**given, name: other_attribute(value)}, rest):
            yield step._replace(attrs=attrs, part=step.part and replace(step.part, attrs=attrs))


def beside(lowered: Lowered, step: Step) -> Iterator[Lowered]:
    """The graph, and those in which one field of the step differs, of a value of it, or of a step beside it."""
    values = lowered.values
    yield replace(lowered, values=Values(values), keys={})
    near = [one for number in step.inputs if (one := lowered.maker(number)) is not None]
    near += [one for number in step.outputs for one in lowered.consumers(number)]
    for own in [step, *near[:MOST_NEAR]]:
        for other in other_steps(own):
            steps = tuple([other if one is own else one for one in lowered.steps])
            yield replace(lowered, values=Values(values), steps=steps, keys={})
    for number in dict.fromkeys((*step.inputs, *step.outputs)):
        for value in other_values(values[number]):
            yield replace(lowered, values=Values({**values, number: value}), keys={})
        made = replace(lowered, values=Values(values), keys={})
        vars(made)["returned"] = lowered.returned | {number}
        yield made


def lines(each: Pass, lowered: Lowered, options: Options, described: Callable[..., str]) -> list[str]:
    """The steps that a pass makes of a graph, or the type of its error."""
    edit = Edit(lowered)
    try:
        with np.errstate(all="ignore"):
            each.run(edit, options)
        return [described(step, edit.values) for step in edit.done().steps]
    except Exception as error:
        return [type(error).__name__]


def changed(described: Callable[..., str], given: Iterable[og.Graph]) -> Iterator[tuple[str, list[str]]]:
    """What each pass makes of graphs beside those that it changes among the given ones, by the name of the pass."""
    found = fronts(given)
    for each in PASSES:
        for lowered, options, step in found[each.name].values():
            for other in beside(lowered, step):
                yield each.name, lines(each, other, options, described)
