"""Lowers nodes of users' domains by the functions that they registered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._util.counted import counted
from ...errors import FormatError, OneGraphError, shown
from ...graph import Graph
from ...ir.op import LogicalTensor
from ...lowering.emitter import dtype_of
from ...reference import run
from .node import Node, TensorList
from .registered import CustomNode

EXPECTED = "a tensor of the graph for each output of the node"


def custom(node: Node, function: Callable[[CustomNode], Any]) -> Sequence[Any]:
    """The results of a node by a registered function.

    Raises:
        FormatError: an input is no tensor, or the function returns something else than tensors.
    """
    if any(isinstance(value, TensorList) for value in node.inputs):
        raise FormatError(node.where, "a sequence as an input of a registered function", "tensors")
    return _now(node, function) if node.importer.now else _results(node, function, node.emit.graph, node.emit.tensor)


def _now(node: Node, function: Callable[[CustomNode], Any]) -> Sequence[Any]:
    """The results of ops of a graph of their own, computed in numpy."""
    graph, arrays = Graph(), dict[str, Any]()

    def tensor(value: Any) -> LogicalTensor:
        name = f"x{len(arrays)}"
        arrays[name] = value
        return graph.input(name, dtype_of(value), value.shape)

    returned = _results(node, function, graph, tensor)
    for number, tensor_result in enumerate(returned):
        graph.output(f"y{number}", tensor_result)
    results = run(graph, arrays)
    return [np.asarray(results[f"y{number}"]) for number in range(len(returned))]


def _results(
    node: Node, function: Callable[[CustomNode], Any], graph: Any, tensor: Callable[[Any], LogicalTensor]
) -> list[LogicalTensor]:
    proto = node.proto
    attrs = {one.name: node.attr(one.name) for one in proto.attribute}
    inputs = [None if value is None else tensor(value) for value in node.inputs]
    try:
        returned = function(CustomNode(proto.op_type, proto.name, graph, inputs, attrs, len(proto.output)))
    except MemoryError:
        raise
    except Exception as error:  # whatever a function of the user raises
        problem = str(error) if isinstance(error, OneGraphError) else f"{type(error).__name__}: {error}"
        raise FormatError(node.where, f"its registered function raised {problem}", EXPECTED) from error
    results = [*returned] if isinstance(returned, (tuple, list)) else [returned]
    if len(results) != len(proto.output):
        raise FormatError(node.where, f"{counted(len(results), 'result')} of its registered function", EXPECTED)
    for number, result in enumerate(results):
        if graph._known(result) is None:
            problem = f"tensor {result.name!r} of another graph" if isinstance(result, LogicalTensor) else shown(result)
            raise FormatError(node.where, f"result {number} of its registered function is {problem}", EXPECTED)
    return results
