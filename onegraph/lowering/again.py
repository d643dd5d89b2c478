"""Tries patterns and lowerings again on the graph of a model whose dims have become known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..builder.graph import AnyGraph
from ..ir.op import LogicalTensor, Op
from ..opset.shapes import known, known_dims
from ..transform.part import without_unread
from .emitter import Emitter, Value, numbers
from .movement import NATIVE, reshape
from .patterns import OF_KNOWN_DIMS

NodeAgain = Callable[[Emitter, Op, Sequence[LogicalTensor | None]], Sequence[Value] | None]
# By the kind of an op that stands for a node of another package: what lowers the node with what is known now. A front
# end enters it.
NODES: dict[str, NodeAgain] = {}
# Ops that are one StaticReshape, or none, in a model with known dims.
RESHAPES = frozenset(["Reshape", "StaticReshape", "Squeeze", "Unsqueeze"])


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
        renewed.update(zip([end.id for end in op.outputs], _again(emit, op, inputs), strict=True))
    made._outputs = {name: _laid(emit.tensor(renewed[end.id]), end) for name, end in graph._outputs.items()}
    made._constant_inputs, made._n_read = set(graph._constant_inputs), len(made._ops)
    return without_unread(made)


def _again(emit: Emitter, op: Op, inputs: Sequence[LogicalTensor | None]) -> Sequence[Value]:
    """The results of an op, or of what replaces it now."""
    node, shape = NODES.get(op.kind), op.outputs[0].shape
    if node is not None and (found := node(emit, op, inputs)) is not None:
        return found
    src = inputs[0] if op.kind in RESHAPES and inputs else None
    if src is not None and src.dtype in NATIVE and known(shape) and 0 not in known_dims(shape):
        return (reshape(emit, src, numbers(*known_dims(shape))),)
    return emit.repeat(op, inputs)


def _laid(tensor: LogicalTensor, like: LogicalTensor) -> LogicalTensor:
    return tensor._laid_out(like.strides)
