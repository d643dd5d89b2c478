"""Moves the ops that were added to a copy of a graph to the graph, and repeats forward ops for checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor, Op
from ..opset.editions.registry import edition
from .repeats import SUFFIX


class Transplant:
    """Adds to ``graph`` the ops that ``scratch``, an extended copy of it, has more.

    Args:
        graph, scratch: the graph, and its extended copy.
        checkpoints: the results of ops of ``graph`` that the new ops may read; they compute others again. None is all
            results.
    """

    def __init__(self, graph: DataGraph, scratch: DataGraph, checkpoints: Sequence[LogicalTensor] | None) -> None:
        self.graph, self.scratch = graph, scratch
        self._count = len(graph.ops)
        self._moved: dict[int, LogicalTensor] = {}
        self._repeated: dict[int, Op] = {}
        if checkpoints is not None:
            kept_ids = {tensor.id for tensor in checkpoints}
            self._repeated = {
                tensor.id: op
                for op in graph.ops
                for tensor in op.outputs
                if kept_ids.isdisjoint(output.id for output in op.outputs)
            }

    def moved(self, results: Sequence[LogicalTensor]) -> tuple[LogicalTensor, ...]:
        """Add the ops that ``results`` depend on, and return the results as tensors of the graph."""
        needed, live = {tensor.id for tensor in results}, []
        for op in reversed(self.scratch.ops[self._count :]):
            if any(tensor.id in needed for tensor in op.outputs):
                needed.update(tensor.id for tensor in op.inputs if tensor is not None)
                live.append(op)
        for op in reversed(live):
            self._move(op, op.name)
        return tuple(self._tensor(tensor) for tensor in results)

    def _tensor(self, tensor: LogicalTensor) -> LogicalTensor:
        """A tensor of the scratch graph, or one to repeat, in the graph."""
        moved_tensor = self._moved.get(tensor.id)
        if moved_tensor is not None:
            return moved_tensor
        if tensor.id in self._repeated:
            self._repeat(self._repeated[tensor.id])
            return self._moved[tensor.id]
        if self.graph._by_id.get(tensor.id) is tensor:
            return tensor
        moved_tensor = self.graph._tensor(tensor.dtype, tensor.shape, tensor.name, tensor.strides, tensor.value)
        return self._moved.setdefault(tensor.id, moved_tensor)

    def _repeat(self, op: Op) -> None:
        """Compute an op of the graph again, after the ops that it needs; without recursion, as graphs may be deep."""
        waiting = [op]
        while waiting:
            last = waiting[-1]
            missing = [
                self._repeated[tensor.id]
                for tensor in last.inputs
                if tensor is not None and tensor.id in self._repeated and tensor.id not in self._moved
            ]
            waiting += missing
            if not missing:
                waiting.pop()
                if last.outputs[0].id not in self._moved:
                    self._move(last, f"{last.name}{SUFFIX}")

    def _move(self, op: Op, name: str) -> None:
        inputs = [None if tensor is None else self._tensor(tensor) for tensor in op.inputs]
        dtypes = tuple(tensor.dtype for tensor in op.outputs)
        names = [f"{name}.{tensor.name.rpartition('.')[2]}" for tensor in op.outputs]
        outputs = self.graph._add_op(
            edition(op.edition), op.kind, dict(op.attrs), inputs, dtypes, name=self._free(name), names=names
        )
        self._moved.update(zip((tensor.id for tensor in op.outputs), outputs, strict=True))

    def _free(self, name: str) -> str:
        """The name, or the name with a number behind it, that no op of the graph has."""
        number, free = 1, name
        while free in self.graph._names and self.graph._is_taken(free):
            number += 1
            free = f"{name}_{number}"
        return free
