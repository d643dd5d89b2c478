"""Finds the first op whose result differs from the reference, by bisection over the beginnings of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .._util.records import record
from ..errors import OneGraphError
from ..graph import Graph
from ..runtime.executable import Executable
from ..testing.tolerance import Comparison
from .expected_results import Expected, ReferenceOracle


@record(frozen=True)
class Difference:
    """The first tensor that differs from the reference, in the order of the ops.

    Attributes:
        op: kind and name of the op that writes the tensor.
        comparison: the tensor compared with its reference.
        partition: kind and name of the ops that ran in one partition with this op.
        executor: executor of the partition.
        alone: whether the result is right if ops run one by one (policy debug), so that their fusion causes the
            difference. None if this is unknown.
    """

    op: str
    comparison: Comparison
    partition: tuple[str, ...]
    executor: str
    alone: bool | None


def first_difference(
    oracle: ReferenceOracle, compiled: Callable[[Graph], Executable], debug: Callable[[Graph], Executable]
) -> Difference | None:
    """The first difference, by bisection over the beginnings of the graph, which are fused like the whole graph."""
    graph = oracle.graph
    expected = oracle.expected({tensor.id for op in graph.ops for tensor in op.outputs})
    right, wrong = 0, len(graph.ops)
    steps = max(1, (wrong - 1).bit_length())
    while wrong - right > 1:
        oracle.progress("bisection", steps - (wrong - right - 1).bit_length(), steps)
        middle = (right + wrong) // 2
        part = beginning(graph, middle)
        bad = part.outputs and not all(one.agrees for one in _compared(oracle, part, compiled(part), expected))
        right, wrong = (right, middle) if bad else (middle, wrong)
    oracle.progress("bisection", steps, steps)
    part = beginning(graph, wrong)
    model = compiled(part)
    difference = next((one for one in _compared(oracle, part, model, expected) if not one.agrees), None)
    if difference is None:
        return None
    tensor = part.outputs[difference.name]
    op = next(op for op in graph.ops if any(result.id == tensor.id for result in op.outputs))
    label = f"{op.kind} {op.name!r}"
    partition = next((partition for partition in model.report().partitions if op.name in partition.names), None)
    try:
        alone = {one.name: one.agrees for one in _compared(oracle, part, debug(part), expected)}.get(difference.name)
    except OneGraphError:
        alone = None
    return Difference(
        label, difference, partition.ops if partition else (), partition.executor if partition else "", alone
    )


def _compared(
    oracle: ReferenceOracle, part: Graph, model: Executable, expected: Mapping[int, Expected]
) -> tuple[Comparison, ...]:
    return oracle.compare(part, model._run_by_name(oracle.inputs), expected)


def beginning(graph: Graph, count: int) -> Graph:
    """The first ``count`` ops of a graph.

    Outputs are the graph outputs that these ops write, and the tensors that the other ops read, with the names of the
    tensors, ``op.port``.
    """
    part = graph.copy()
    part._ops = part._ops[:count]
    made = {tensor.id for op in part.ops for tensor in op.outputs}
    outputs = {name: tensor for name, tensor in graph.outputs.items() if tensor.id in made}
    named = {tensor.id for tensor in outputs.values()}
    for op in graph.ops[count:]:
        for tensor in op.inputs:
            if tensor.id in made - named:
                outputs[f"{tensor.name} ({tensor.id})" if tensor.name in outputs else tensor.name] = tensor
                named.add(tensor.id)
    part._outputs = outputs
    return part
