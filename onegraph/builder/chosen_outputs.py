"""Makes a graph with other outputs than its own, such as results inside the graph."""

from __future__ import annotations

from .._util.exact_types import elements, has_type, text
from ..errors import ArgumentError, shown
from ..ir.op import LogicalTensor
from .graph import AnyGraph, DataGraph
from .model_values import tensor_of_value


def returning(graph: AnyGraph, argument: object) -> AnyGraph:
    """A copy of ``graph`` that returns the chosen tensors; assignments to variables stay.

    Args:
        graph: the graph.
        argument: tensors of the graph, or names: of outputs, of tensors such as ``conv.dst``, or of ops with one
            result.

    Raises:
        ArgumentError: ``argument`` is no list, is empty, or names something that the graph does not have.
    """
    several = elements(argument)
    if not several:
        raise ArgumentError(
            f"outputs: {shown(argument)}; expected a list of tensors, or of names of outputs, tensors or ops"
        )
    new = DataGraph.copy(graph)
    hidden = {output: new._outputs[output] for output in new._next.values()}
    chosen: dict[str, LogicalTensor] = {}
    for index, value in enumerate(several):
        name, tensor = _named(new, f"outputs[{index}]", value)
        while name in new._inputs or name in hidden or name in chosen:
            name += "_out"
        chosen[name] = tensor
    new._outputs = {**chosen, **hidden}
    return new


def _named(graph: DataGraph, where: str, value: object) -> tuple[str, LogicalTensor]:
    """The tensor that is meant, and its name as an output."""
    label = text(value)
    if label is None:
        if not has_type(value, LogicalTensor):
            raise ArgumentError(f"{where}: {shown(value)}; expected a tensor of this graph, or a name")
        tensor = graph._own(value, where)
        names = [name for name, output in graph.outputs.items() if output.id == tensor.id]
        return names[0] if names else tensor.name, tensor
    if label in graph.outputs:
        return label, graph.outputs[label]
    value = tensor_of_value(graph._model_values, graph._tensors, label)
    if value is not None and value[1] is not None:
        view = value[1]
        return label, graph.op(view.kind, [value[0]], view.attrs, dtype=view.dtype, edition=view.edition)
    return label, graph._tensor_named(label, where)
