"""Makes a copy of a graph in which some inputs are constants, whose memory is not copied."""

from __future__ import annotations

from collections.abc import Mapping

from ..builder.graph import DataGraph
from ..ir.op import Array, LogicalTensor


def with_values(
    graph: DataGraph, values: Mapping[str, Array], outputs: Mapping[str, int], input_names: Mapping[str, int]
) -> DataGraph:
    """The graph with constants in the place of inputs.

    Inputs and ops that nothing reads are left out.

    Args:
        graph: the graph.
        values: the contents of inputs, by name.
        outputs: ids of the tensors that become outputs, by name.
        input_names: ids of results of ops that become further inputs, by name.
    """
    made, renewed = graph._empty(), dict[int, LogicalTensor]()
    needed, taken = {*outputs.values()}, {*input_names.values()}
    for op in reversed(graph.ops):
        if any(tensor.id in needed and tensor.id not in taken for tensor in op.outputs):
            needed.update(tensor.id for tensor in op.inputs)
    names = {tensor.id: name for name, tensor in graph._inputs.items()} | {
        one: name for name, one in input_names.items()
    }
    for tensor in graph._tensors:
        name = names.get(tensor.id)
        if tensor.id not in needed or (name is None and not tensor.constant):
            continue
        value = tensor.value if name is None else values.get(name)
        renewed[tensor.id] = made._tensor(tensor.dtype, tensor.shape, tensor.name, None, value)
        if value is None:
            assert name is not None
            made._inputs[name] = renewed[tensor.id]
    for op in graph.ops:
        if any(tensor.id in needed and tensor.id not in taken for tensor in op.outputs):
            sources = [renewed[tensor.id] for tensor in op.inputs]
            renewed.update(zip([tensor.id for tensor in op.outputs], made._repeat_op(op, sources), strict=True))
    made._outputs = {name: renewed[number] for name, number in outputs.items()}
    made._note_reading(graph._roundings, as_read=graph._is_as_read())
    return made
