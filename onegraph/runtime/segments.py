"""Divides the ops of a graph whose sizes contents decide into segments: ops between two of these sizes.

The sizes of what a segment reads are the sizes of all that it computes. So a segment is an executable, whose programs
for the sizes that have come before are kept, while a graph of such ops has no program that holds for two calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..builder.graph import DataGraph
from ..ir.op import Array, Op, shape_inputs_of
from ..opset import kinds
from ..opset.host.control import BODIES
from ..transform.part import part_of

LEAST = 4  # ops that take longer one by one than an executable of them takes to call
# Ops whose results have sizes that contents decide, beside those that read a shape.
OPENING = kinds.CONTENT_SIZED | {*BODIES}
SIZES = frozenset(["Shape", "Size"])
# Makes the executable of a graph.
Make = Callable[[DataGraph], Any]


class Segment(NamedTuple):
    """Ops that an executable runs.

    Attributes:
        run: gives the results for the arrays that the ops read.
        inputs: the ids of what they read.
        outputs: the ids of the results that other ops read, or that are outputs of the graph.
    """

    run: Callable[[Sequence[Array]], Sequence[Array]]
    inputs: list[int]
    outputs: list[int]


def segments(graph: DataGraph, make: Make) -> list[Segment | Op] | None:
    """The segments of a graph, and the ops between them, in an order in which they can run.

    Returns:
        None if there is no segment, or nothing else.
    """
    stages = _stages(graph)
    if not any(alone for _, alone in stages):
        return None
    read_by_stage = [{end.id for op in (*ops, *alone) for end in op.inputs} for ops, alone in stages]
    returned = {tensor.id for tensor in graph.outputs.values()}
    parts: list[Segment | Op] = []
    for number, (ops, alone) in enumerate(stages):
        waiting = {end.id for op in alone for end in op.inputs}
        after = returned.union(waiting, *read_by_stage[number + 1 :])
        segment = _segment(graph, ops, after, make) if len(ops) >= LEAST else None
        parts += [*(ops if segment is None else [segment]), *alone]
    return parts if any(isinstance(part, Segment) for part in parts) else None


def _stages(graph: DataGraph) -> list[tuple[list[Op], list[Op]]]:
    """For each stage, the ops whose sizes the results of earlier stages have, and then those that decide sizes."""
    stages: list[tuple[list[Op], list[Op]]] = []
    made = {tensor.id: 0 for tensor in graph.inputs.values()}  # by id, the stage whose ops can read a tensor
    of_sizes = set[int]()  # tensors whose contents follow from the sizes of their stage
    for op in graph.ops:
        ends = [(index, end) for index, end in enumerate(op.inputs) if end.value is None]
        stage = max([made[end.id] for _, end in ends], default=0)
        follow = {index for index, end in ends if end.id in of_sizes and made[end.id] == stage}
        deciding = {index for index, _ in ends} & {*shape_inputs_of(op)}
        is_alone = op.kind in OPENING or not deciding <= follow
        while len(stages) <= stage:
            stages.append(([], []))
        stages[stage][is_alone].append(op)
        made.update((end.id, stage + is_alone) for end in op.outputs)
        if not is_alone and (op.kind in SIZES or len(follow) == len(ends)):
            of_sizes.update(end.id for end in op.outputs)
    return stages


def _segment(graph: DataGraph, ops: Sequence[Op], after: set[int], make: Make) -> Segment | None:
    """A segment of some ops, which decide the sizes of their results themselves; None if nothing reads these.

    Args:
        graph: the graph.
        ops: the ops.
        after: the ids of the tensors that later ops read, or that are outputs of the graph.
        make: makes the executable.
    """
    made = {end.id: end for op in ops for end in op.outputs}
    read = {end.id: end for op in ops for end in op.inputs if end.value is None and end.id not in made}
    outputs = [number for number in made if number in after]
    if not outputs:
        return None
    inputs = {f"x{place}": tensor for place, tensor in enumerate(read.values())}
    part = part_of(graph, ops, inputs, {f"y{place}": number for place, number in enumerate(outputs)})
    return Segment(PartRun(make(part), len(outputs) == 1), [*read], outputs)


class PartRun:
    """Runs a segment.

    Args:
        executable: of its ops.
        is_single: whether it has one result.
    """

    def __init__(self, executable: Any, is_single: bool) -> None:
        self.executable, self._is_single = executable, is_single

    def __call__(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """The results for the arrays that the ops read."""
        results = self.executable(*arrays)
        return (results,) if self._is_single else results
