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

    def profile(self, /, *arrays: object, runs: int = 20) -> Profile:
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
        self._runs = {op.id: host_run(op, bodies) for op in stages.heads}
        self._constants = {tensor.id: tensor.value for tensor in graph._tensors if tensor.value is not None}

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of the graph for these inputs, by name."""
        needed = self._needed(inputs)
        if (results := self._complete(needed, inputs)) is not None:
            return results
        return self._rest._run_by_name(needed)

    def _complete(self, needed: Mapping[str, Array], inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        """The outputs if the last stage has no ops; None if it has some, or an output shares memory."""
        rest_stage, names = self._stages.rest, {tensor.id: name for name, tensor in self._stages.rest.inputs.items()}
        ends = [tensor.id for tensor in rest_stage.outputs.values()]
        if rest_stage.ops or len({*ends}) < len(ends) or not names.keys() >= {*ends}:
            return None
        results = {name: needed[names[tensor.id]] for name, tensor in rest_stage.outputs.items()}
        memories = [*inputs.values(), *self._constants.values()]
        for place, array in enumerate(results.values()):
            if any(np.may_share_memory(array, memory) for memory in (*memories, *[*results.values()][:place])):
                return None
        return results

    def _needed(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The inputs of the last stage, by name."""
        graph, stages, needed = self._graph, self._stages, dict[str, Array]()
        if self._first is not None:
            needed.update(self._first._run_by_name(inputs))
        else:
            values = {tensor.id: inputs[name] for name, tensor in graph.inputs.items()} | self._constants
            with np.errstate(all="ignore"):
                for op in stages.heads:
                    results = self._runs[op.id]([None if tensor is None else values[tensor.id] for tensor in op.inputs])
                    values.update(zip([tensor.id for tensor in op.outputs], results, strict=True))
            needed.update((name, values[tensor.id]) for name, tensor in stages.needed.items())
        names = {tensor.id: name for name, tensor in graph.inputs.items()}
        for name, tensor in stages.needed.items():
            if name not in needed:
                needed[name] = inputs[names[tensor.id]]
        return {name: needed[name] for name in stages.needed}

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
        found = (*self._first_reports(), *self._rest.report().partitions)
        return tuple(replace(report, index=index) for index, report in enumerate(found))
