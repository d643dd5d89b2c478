"""Makes a graph of some ops of another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..builder.graph import AnyGraph
from ..ir.op import LogicalTensor, Op


def part_of(
    graph: AnyGraph, ops: Iterable[Op], inputs: Mapping[str, LogicalTensor], outputs: Mapping[str, int]
) -> AnyGraph:
    """A graph of some ops and the constants that they read.

    Args:
        graph: the whole graph.
        ops: some of its ops, each behind those that produce its inputs.
        inputs: the tensors that become inputs, by name.
        outputs: ids of the tensors that become outputs, by name.
    """
    part, taken = graph._empty(), list(ops)
    read = {tensor.id for op in taken for tensor in op.inputs} | set(outputs.values())
    renewed: dict[int, LogicalTensor] = {}
    for tensor in graph._tensors:
        if tensor.constant and tensor.id in read:
            renewed[tensor.id] = part._tensor(tensor.dtype, tensor.shape, tensor.name, None, tensor.value)
    for name, tensor in inputs.items():
        renewed[tensor.id] = part._inputs[name] = part._tensor(tensor.dtype, tensor.shape, name, tensor.strides)
    for op in taken:
        sources = [renewed[tensor.id] for tensor in op.inputs]
        renewed.update(zip((tensor.id for tensor in op.outputs), part._repeat_op(op, sources), strict=True))
    part._outputs = {name: renewed[number] for name, number in outputs.items()}
    part._note_reading(graph._roundings, as_read=graph._is_as_read())
    return part


def without_unread(graph: AnyGraph) -> AnyGraph:
    """The graph without the ops and constants that no output depends on."""
    needed = {tensor.id for tensor in graph.outputs.values()}
    kept: list[Op] = []
    for op in reversed(graph.ops):
        if any(tensor.id in needed for tensor in op.outputs):
            needed.update(tensor.id for tensor in op.inputs)
            kept.append(op)
    part = part_of(graph, reversed(kept), graph.inputs, {name: tensor.id for name, tensor in graph.outputs.items()})
    for name, tensor in graph.outputs.items():
        part._outputs[name] = part._outputs[name]._laid_out(tensor.strides)
    part._constant_inputs = set(graph._constant_inputs)
    return part
