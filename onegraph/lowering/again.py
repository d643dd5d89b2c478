"""Tries patterns and lowerings again on the graph of a model whose dims have become known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..builder.graph import AnyGraph
from ..ir.op import LogicalTensor, Op
from ..transform.part import without_unread
from .emitter import Emitter, Value
from .patterns import OF_KNOWN_DIMS

NodeAgain = Callable[[Emitter, Op, Sequence[LogicalTensor | None]], Sequence[Value] | None]
# By the kind of an op that stands for a node of another package: what lowers the node with what is known now. A front
# end enters it.
NODES: dict[str, NodeAgain] = {}


def lowered_again(graph: AnyGraph) -> AnyGraph:
    """The graph with what the patterns that need known dims find now, and with lowerings of nodes that had none."""
    made, renewed = graph._empty(), dict[int, Value]()
    for tensor in graph._tensors:
        if tensor.constant:
            renewed[tensor.id] = made._tensor(tensor.dtype, tensor.shape, tensor.name, None, tensor.value)
    for name, tensor in graph._inputs.items():
        one = made._tensor(tensor.dtype, tensor.shape, name, tensor.strides, tensor.value)
        renewed[tensor.id] = made._inputs[name] = one
    emit = Emitter(made, OF_KNOWN_DIMS)
    for op in graph._ops:
        emit.named(op.name)
        inputs = [None if one is None else emit.tensor(renewed[one.id]) for one in op.inputs]
        node = NODES.get(op.kind)
        found = None if node is None else node(emit, op, inputs)
        results = emit.repeat(op, inputs) if found is None else found
        renewed.update(zip([end.id for end in op.outputs], results, strict=True))
    made._outputs = {name: _laid(emit.tensor(renewed[end.id]), end) for name, end in graph._outputs.items()}
    made._constant_inputs, made._n_read = set(graph._constant_inputs), len(made._ops)
    return without_unread(made)


def _laid(tensor: LogicalTensor, like: LogicalTensor) -> LogicalTensor:
    return tensor._laid_out(like.strides)
