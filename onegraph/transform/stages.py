"""Divides a graph where shapes become known only while it runs.

An op is open if the shape of a result is unknown, or if it reads a shape or axes that are not known yet. What does not
depend on an open op is the first stage, and the rest waits for its results. If every op depends on an open one, the
open ops that can run are the first stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor, Op, shape_inputs_of
from ..opset.shapes import known
from .part import part_of


class Stages(NamedTuple):
    """A graph in two parts.

    Attributes:
        first: a graph of the ops that can run now; None if numpy runs them, as their results have unknown shapes.
        heads: the ops that numpy runs.
        rest: a graph of the other ops.
        needed: for each input of ``rest``, by name, the tensor of the graph that it is.
    """

    first: DataGraph | None
    heads: Sequence[Op]
    rest: DataGraph
    needed: dict[str, LogicalTensor]


def is_open(op: Op) -> bool:
    """Whether numpy alone can run an op now, because the shapes of its results follow from contents."""
    if not all(known(tensor.shape) for tensor in op.outputs):
        return True
    for index in shape_inputs_of(op):
        tensor = op.inputs[index] if index < len(op.inputs) else None
        if tensor is not None and tensor.value is None:
            return True
    return False


def stages(graph: DataGraph) -> Stages | None:
    """The stages of a graph whose inputs have known shapes; None if it has one stage alone."""
    waiting: set[int] = set()  # ids of the tensors that depend on an open op
    rest: list[Op] = []
    heads: list[Op] = []
    for op in graph.ops:
        depends = any(tensor.id in waiting for tensor in op.inputs)
        if depends or is_open(op):
            rest.append(op)
            waiting.update(tensor.id for tensor in op.outputs)
            if not depends:
                heads.append(op)
    if not rest:
        return None
    if len(rest) < len(graph.ops):
        taken = {op.id for op in rest}
        first: list[Op] = [op for op in graph.ops if op.id not in taken]
    else:
        first, taken = heads, {op.id for op in graph.ops} - {op.id for op in heads}
        rest = [op for op in graph.ops if op.id in taken]
    made = {tensor.id: tensor for op in first for tensor in op.outputs}
    graph_inputs = {tensor.id: tensor for tensor in graph.inputs.values()}
    read = {tensor.id for op in rest for tensor in op.inputs}
    returned = {tensor.id for tensor in graph.outputs.values()}
    known_ids = made | graph_inputs
    needed = {f"t{number}": known_ids[number] for number in sorted(read | returned) if number in known_ids}
    after = part_of(graph, rest, needed, {name: tensor.id for name, tensor in graph.outputs.items()})
    if first is heads:
        return Stages(None, heads, after, needed)
    ends = {name: tensor.id for name, tensor in needed.items() if tensor.id in made}
    if not ends:
        return Stages(None, (), after, needed)
    before = part_of(graph, first, dict(graph.inputs), ends)
    return Stages(before, (), after, needed)
