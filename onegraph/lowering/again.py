"""Tries patterns and lowerings again on the graph of a model whose dims have become known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .._util.late_imports import import_late
from .._util.open_numbers import numbers_of
from .._util.open_sizes import is_open
from ..builder.graph import AnyGraph
from ..ir.op import LogicalTensor, Op, shape_inputs_of
from ..opset.host.control import BODIES
from ..opset.kinds import RESHAPES
from ..opset.shapes import known, known_dims
from ..transform.part import without_unread
from .computed_shapes import known_parts
from .emitter import Emitter, Value
from .movement import NATIVE, reshape
from .patterns import OF_KNOWN_DIMS

NodeAgain = Callable[[Emitter, Op, Sequence[LogicalTensor | None]], Sequence[Value] | None]
# By the kind of an op that stands for a node of another package, or has bodies: what lowers it with what is known now.
# Its module enters it, and is imported for the first such op: a graph may come from a file.
NODES: dict[str, NodeAgain] = {}
FRONT_ENDS = {
    "OnnxNode": "onegraph.frontends.onnx.again",
    **dict.fromkeys(BODIES, "onegraph.lowering.control"),
}


def lowered_again(graph: AnyGraph, is_model: bool) -> AnyGraph:
    """The graph with lowerings of nodes that had none, and with what the patterns that need known dims find now.

    Args:
        graph: the graph.
        is_model: whether all ops are those of a model. A graph whose ops were added one by one keeps the ops that were
            asked for, so that no pattern is tried.
    """
    lowered, renewed = graph._empty(), dict[int, Value]()
    for tensor in graph._tensors:
        if tensor.constant:
            renewed[tensor.id] = lowered._tensor(tensor.dtype, tensor.shape, tensor.name, None, tensor.value)
    for name, tensor in graph._inputs.items():
        input_ = lowered._tensor(tensor.dtype, tensor.shape, name, tensor.strides, tensor.value)
        renewed[tensor.id] = lowered._inputs[name] = input_
    emit = Emitter(lowered, OF_KNOWN_DIMS if is_model else None)
    for op in graph._ops:
        emit.named(op.name)
        inputs = [None if input_ is None else emit.tensor(renewed[input_.id]) for input_ in op.inputs]
        results = _again(emit, op, inputs) if is_model or op.kind in FRONT_ENDS else emit.repeat(op, inputs)
        renewed.update(zip([end.id for end in op.outputs], results, strict=True))
    lowered._outputs = {name: _laid(emit.tensor(renewed[end.id]), end) for name, end in graph._outputs.items()}
    lowered._constant_inputs = set(graph._constant_inputs)
    lowered._note_reading(graph._roundings, as_read=is_model)
    return without_unread(lowered)


def _again(emit: Emitter, op: Op, inputs: Sequence[LogicalTensor | None]) -> Sequence[Value]:
    """The results of an op, or of what replaces it now."""
    if op.kind in FRONT_ENDS:
        import_late(FRONT_ENDS[op.kind])
    node = NODES.get(op.kind)
    if node is not None and (replacement := node(emit, op, inputs)) is not None:
        return replacement
    src = inputs[0] if op.kind in RESHAPES else None
    if src is not None and src.dtype in NATIVE:
        shape = op.outputs[0].shape
        parts = shape if known(shape) else known_parts(emit, inputs[1]) if len(inputs) > 1 else None
        if parts is not None and all(parts):  # the op copies a dim of 0
            return (reshape(emit, src, known_dims(tuple(parts))),)
    return emit.repeat(op, [*_sized(emit, op, inputs)])


def _sized(emit: Emitter, op: Op, inputs: Sequence[LogicalTensor | None]) -> Iterator[LogicalTensor | None]:
    """The inputs of an op, of which those that set a shape are constants of open sizes where these are known."""
    shaping = shape_inputs_of(op)
    for port, tensor in enumerate(inputs):
        if port in shaping and tensor is not None and tensor.value is None and known(tensor.shape):
            parts = known_parts(emit, tensor)
            if parts is not None and None not in parts:
                contents = numbers_of(parts, known_dims(tensor.shape))
                if not is_open(parts):
                    contents = contents.astype(tensor.dtype.numpy)
                tensor = emit.graph._tensor(tensor.dtype, tensor.shape, tensor.name, None, contents)
        yield tensor


def _laid(tensor: LogicalTensor, like: LogicalTensor) -> LogicalTensor:
    return tensor._laid_out(like.strides)
