"""What holds for each lowered graph, whatever passes have changed."""

from __future__ import annotations

from collections.abc import Iterator

from .lowered import Lowered
from .part import Part
from .step import Step


def broken_rules(graph: Lowered) -> Iterator[str]:
    """The rules that a graph breaks, in words; nothing for a sound one."""
    yield from (f"value {number} has the id {value.id}" for number, value in graph.values.items() if number != value.id)
    for value in graph.values.values():
        if value.storage not in graph.values:
            yield f"the memory of value {value.id} is that of no value"
        elif value.constant is not None and value.constant.dtype not in (value.dtype.numpy, object):  # open numbers
            yield f"the contents of value {value.id} are {value.constant.dtype}, not {value.dtype}"
    produced: set[int] = set()
    later = {result for step in graph.steps for result in step.outputs}
    for number, step in enumerate(graph.steps):
        if step.id != number:
            yield f"step {number} has the id {step.id}"
        for source in step.reads:
            if source not in graph.values:
                yield f"step {number} ({step.label}) reads value {source}, which there is not"
            elif source in later and source not in produced:
                yield f"step {number} ({step.label}) reads value {source}, which a later step makes"
        for result in step.outputs:
            if result in produced:
                yield f"step {number} ({step.label}) makes value {result}, which an earlier step makes"
            produced.add(result)
        if set(step.reads) <= graph.values.keys():
            yield from _mismatches(graph, step)
    graph_inputs = {tensor.id for tensor in graph.graph.inputs.values()}
    for result in graph.returned - produced - graph_inputs:
        if graph.values[result].constant is None:
            yield f"no step makes value {result}, which the graph returns"


def _mismatches(graph: Lowered, step: Step) -> Iterator[str]:
    """Where the part of a step does not have the types of the values of the step."""
    part: Part | None = step.library_part
    if part is None:
        return
    ends = [*zip(step.inputs, part.types, strict=False), *zip(step.outputs, part.outputs, strict=False)]
    for number, stated in ends:
        if stated != (actual := graph.values[number].type):
            yield f"step {step.id} ({step.label}) takes value {number} as {stated}, not {actual}"
