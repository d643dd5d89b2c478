"""Changes the ops of a graph in the reference, and finds the changes that a comparison would not notice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter

import numpy as np

from .._util.records import record
from ..errors import OneGraphError
from ..graph import Graph
from ..ir.op import Array, Op
from ..reference.run import narrow, run_op
from ..testing.mutations import CLASSES, Mutation, moved, mutation
from ..testing.tolerance import Comparison
from .expected_results import Expected, ReferenceOracle


@record(frozen=True)
class Unnoticed:
    """A change of an op that the comparison would not notice.

    Attributes:
        op: kind and name of the op.
        change: the change, such as ``src larger by 10 %``; empty if no change of the op has an effect.
        effect: the largest error of an output that the change causes.
        limit: the allowed error of this output.
        output: name of this output; empty if the change has an effect on none.
    """

    op: str
    change: str
    effect: float
    limit: float
    output: str


def unnoticed_changes(
    oracle: ReferenceOracle, places: Sequence[int], expected: Mapping[int, Expected], seconds: float
) -> tuple[list[Unnoticed], int]:
    """The changes of ops that the comparison would not notice, and the number of ops that were changed.

    After ``seconds`` no further op is changed; which ops are changed until then is random.
    """
    unnoticed: list[Unnoticed] = []
    exact = _ExactValues(oracle.graph, oracle.given)
    order = [*places]
    np.random.default_rng(oracle.seed).shuffle(order)
    end = perf_counter() + seconds
    for done, place in enumerate(order):
        if perf_counter() > end:
            return unnoticed, done
        oracle.progress("changed ops", done, len(order))
        missed = _missed(oracle, place, exact, expected)
        if missed is not None:
            unnoticed.append(missed)
    oracle.progress("changed ops", len(order), len(order))
    return unnoticed, len(order)


def _changes(op: Op, place: int, exact: _ExactValues) -> Iterator[Mutation]:
    """One change of each class that has an effect on the op."""
    inputs, results = exact.inputs(place), exact.wide(place)
    is_changed = False
    for kind in CLASSES:
        change = mutation(kind, op, inputs, results)
        if change is not None:
            is_changed = True
            yield change
    last = None if is_changed else moved(results)
    if last is not None:
        yield last


def _missed(
    oracle: ReferenceOracle, place: int, exact: _ExactValues, expected: Mapping[int, Expected]
) -> Unnoticed | None:
    """The first change of an op that the outputs do not show; a change without any effect on them is none."""
    op = oracle.graph.ops[place]
    label, noticed = f"{op.kind} {op.name!r}", False
    change = None
    for change in _changes(op, place, exact):
        try:
            compared = _outputs_with(oracle, place, change, exact, expected)
        except OneGraphError:  # an index that is out of range after the change, or a shape that does not fit
            noticed = True
            continue
        if not all(one.agrees for one in compared):
            noticed = True
        elif compared:
            most = max(compared, key=lambda one: one.max_error / one.limit if one.limit else 0.0)
            return Unnoticed(label, change.text, most.max_error, most.limit, most.name)
    return None if noticed else Unnoticed(label, "" if change is None else change.text, 0.0, 0.0, "")


def _outputs_with(
    oracle: ReferenceOracle, place: int, change: Mutation, exact: _ExactValues, expected: Mapping[int, Expected]
) -> tuple[Comparison, ...]:
    """The outputs that a changed op changes, compared with their references."""
    names = {tensor.id: name for name, tensor in oracle.graph.outputs.items()}
    values: dict[int, Array] = {}
    comparisons = []
    for number, op in enumerate(oracle.graph.ops[place:], place):
        if number == place:
            results = change.results
        elif any(tensor.id in values for tensor in op.inputs):
            pairs = zip(op.inputs, exact.inputs(number), strict=True)
            inputs = [values.get(tensor.id, array) for tensor, array in pairs]
            results = run_op(op, inputs, rounded=False)
        else:
            continue
        for tensor, wide in zip(op.outputs, results, strict=False):
            result = narrow(wide, tensor.dtype)
            right = expected[tensor.id].exact if tensor.id in expected else None
            if right is not None and np.array_equal(result, right):
                continue
            values[tensor.id] = result
            if tensor.id in names:
                comparisons.append(oracle.compare_one(names[tensor.id], tensor, result, expected[tensor.id]))
    return tuple(comparisons)


class _ExactValues:
    """The exact reference of every tensor, computed again when it is first asked for."""

    def __init__(self, graph: Graph, exact_values: Mapping[int, Array]) -> None:
        self.graph, self.values = graph, dict(exact_values)
        self.producers = {tensor.id: place for place, op in enumerate(graph.ops) for tensor in op.outputs}

    def inputs(self, place: int) -> list[Array]:
        """The arrays that an op reads."""
        return [self._value(tensor.id) for tensor in self.graph.ops[place].inputs]

    def wide(self, place: int) -> tuple[Array, ...]:
        """The results of an op, not rounded."""
        return run_op(self.graph.ops[place], self.inputs(place), rounded=False)

    def _value(self, number: int) -> Array:
        waiting = [number]
        while waiting:
            op = self.graph.ops[self.producers[waiting[-1]]] if waiting[-1] not in self.values else None
            if op is None:
                waiting.pop()
                continue
            missing = [tensor.id for tensor in op.inputs if tensor.id not in self.values]
            waiting += missing
            if not missing:
                for tensor, wide in zip(op.outputs, self.wide(self.producers[waiting[-1]]), strict=False):
                    self.values[tensor.id] = narrow(wide, tensor.dtype)
        return self.values[number]
