"""Tries patterns again on the graph of a model whose dims have become known."""

from __future__ import annotations

from ..builder.graph import AnyGraph
from ..ir.op import LogicalTensor
from ..transform.part import without_unread
from .emitter import Emitter, Value
from .patterns import OF_KNOWN_DIMS


def lowered_again(graph: AnyGraph) -> AnyGraph:
    """The graph with what the patterns that need known dims find now."""
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
        renewed.update(zip([end.id for end in op.outputs], emit.repeat(op, inputs), strict=True))
    made._outputs = {name: _laid(emit.tensor(renewed[end.id]), end) for name, end in graph._outputs.items()}
    made._constant_inputs, made._n_read = set(graph._constant_inputs), len(made._ops)
    return without_unread(made)


def _laid(tensor: LogicalTensor, like: LogicalTensor) -> LogicalTensor:
    return tensor._laid_out(like.strides)
