"""Runs a graph in stages where shapes become known only while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..builder.graph import DataGraph
from ..ir.op import Array, label_of
from .subprograms import Bodies, host_run

if TYPE_CHECKING:
    from ..compiler.report import PartitionReport, Report
    from ..transform.stages import Stages
    from .profile import Profile

OPEN_SHAPE = "the shape of a result depends on contents, so numpy runs the op and the rest is compiled for its result"


class Runnable(Protocol):
    """An executable, as the stages see it."""

    def _run_by_name(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The results of a call, by name."""

    def report(self) -> Report:
        """The partitions of the program that was used last."""

    def profile(self, /, *arrays: object, runs: int = ...) -> Profile:
        """The times of the partitions."""


class Staged:
    """The stages of a graph, of which the last is compiled when the results of the others are known.

    Args:
        graph: a graph whose inputs have known shapes.
        stages: the graph, divided.
        compiled: compiles a graph.
        bodies: of control flow.
    """

    def __init__(
        self,
        graph: DataGraph,
        stages: Stages,
        compiled: Callable[[DataGraph], Runnable],
        bodies: Bodies,
    ) -> None:
        self._graph, self._stages = graph, stages
        self._first = None if stages.first is None else compiled(stages.first)
        self._rest = compiled(stages.rest)
        runs = {op.id: host_run(op, bodies) for op in stages.heads}
        self._steps = [
            (runs[op.id], [end.id for end in op.inputs], [end.id for end in op.outputs]) for op in stages.heads
        ]
        self._constants = {one.id: one.value for one in graph._tensors if one.value is not None}
        self._inputs = {tensor.id: name for name, tensor in graph.inputs.items()}
        self._wanted = [(name, tensor.id) for name, tensor in stages.needed.items()]
        self._ends = self._named_ends()

    def _named_ends(self) -> list[tuple[str, str]] | None:
        """The outputs by name, each with its name among what the last stage needs; None if that stage computes some."""
        rest = self._stages.rest
        names = {tensor.id: name for name, tensor in rest.inputs.items()}
        ends = [tensor.id for tensor in rest.outputs.values()]
        if rest.ops or len({*ends}) < len(ends) or not names.keys() >= {*ends}:
            return None
        return [(name, names[tensor.id]) for name, tensor in rest.outputs.items()]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of the graph for these inputs, by name."""
        needed = self._needed(inputs)
        if self._ends is not None:
            results = {name: needed[source] for name, source in self._ends}
            if self._is_apart(results, inputs):
                return results
        return self._rest._run_by_name(needed)

    def _is_apart(self, results: Mapping[str, Array], inputs: Mapping[str, Array]) -> bool:
        """Whether results share memory with no input, no constant and no other result."""
        memories, result_arrays = [*inputs.values(), *self._constants.values()], [*results.values()]
        if all(array.base is None for array in result_arrays):  # each owns its memory
            owners = [*map(id, result_arrays)]
            return len({*owners}) == len(owners) and not {*owners}.intersection(map(id, memories))
        for place, array in enumerate(result_arrays):
            if any(np.may_share_memory(array, memory) for memory in (*memories, *result_arrays[:place])):
                return False
        return True

    def _needed(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The inputs of the last stage, by name."""
        if self._first is not None:
            made = self._first._run_by_name(inputs)
            return {name: made[name] if name in made else inputs[self._inputs[number]] for name, number in self._wanted}
        values = self._constants.copy()
        for number, name in self._inputs.items():
            values[number] = inputs[name]
        with np.errstate(all="ignore"):
            for run, sources, ends in self._steps:
                values.update(zip(ends, run([values[source] for source in sources]), strict=True))
        return {name: values[number] for name, number in self._wanted}

    def profile(self, inputs: Mapping[str, Array], runs: int) -> Profile:
        """The profile of all stages, in their order."""
        from .measuring import joined, measure_heads

        needed = self._needed(inputs)
        if self._first is None:
            (report,) = self._first_reports()
            first = measure_heads(self._graph, report, partial(self._needed, inputs), runs)
        else:
            first = self._first.profile(*inputs.values(), runs=runs)
        return joined(first, self._rest.profile(*needed.values(), runs=runs), len(self._first_reports()))

    def _first_reports(self) -> tuple[PartitionReport, ...]:
        from ..compiler.report import PartitionReport

        if self._first is not None:
            return self._first.report().partitions
        heads = self._stages.heads
        kinds, names = tuple([label_of(op) for op in heads]), tuple([op.name for op in heads])
        return (PartitionReport(0, "host", kinds, names, (OPEN_SHAPE,)),)

    def reports(self) -> tuple[PartitionReport, ...]:
        """The partitions of all stages, in their order."""
        all_reports = (*self._first_reports(), *self._rest.report().partitions)
        return tuple(replace(report, index=index) for index, report in enumerate(all_reports))
