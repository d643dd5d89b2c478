"""Finds the graph inputs whose first dim is a batch, so that the batch of all of them can be changed together.

The rules are those of benchdnn's ``--mb``: a tensor has a batch if every op that reads it keeps its first dim as the
first dim of a result that has a batch. Source: oneDNN 3.13, tests/benchdnn/graph/deserialize.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor, Op, schema_of
from ..opset.editions.registry import base_of
from ..opset.kinds import ARITHMETIC
from ..opset.schema import Schema
from ..opset.signature import Shape

# Attributes and inputs that give the shape of a result, and with it the batch.
SHAPES = ("dst_shape", "src_shape", "output_shape", "input_shape")


def with_batch(graph: DataGraph) -> list[LogicalTensor]:
    """The graph inputs that have a batch."""
    readers: dict[int, list[Op]] = {}
    for op in graph.ops:
        for tensor in op.inputs:
            readers.setdefault(tensor.id, []).append(op)
    carrying: dict[int, bool] = {}
    for op in reversed(graph.ops):
        for tensor in (*op.inputs, *op.outputs):
            if tensor.id not in carrying:
                carrying[tensor.id] = all(_carries(reader, tensor, carrying) for reader in readers.get(tensor.id, ()))
    return [tensor for tensor in graph.inputs.values() if tensor.shape and carrying.get(tensor.id, False)]


def _carries(op: Op, tensor: LogicalTensor, carrying: Mapping[int, bool]) -> bool:
    """Whether the first dim of input ``tensor`` is the first dim of the op's first output, and that is a batch."""
    schema = schema_of(op)
    kind = base_of(schema).kind
    if kind == "End":
        return True
    if not op.outputs or _has_given_shape(op, schema):
        return False
    index = next(index for index, source in enumerate(op.inputs) if source is tensor)
    shapes = [source.shape for source in op.inputs]
    return _keeps_batch(kind, index, shapes) and carrying.get(op.outputs[0].id, True)


def _has_given_shape(op: Op, schema: Schema) -> bool:
    """Whether an attribute or an input gives the shape of the result, including the batch."""
    target = op.attrs.get("shape", ())  # an attribute of StaticReshape
    if isinstance(target, tuple) and target and target[0] not in (-1, 0):
        return True
    ports = (schema.input_port(index).name for index in range(len(op.inputs)))
    return not {*op.attrs, *ports}.isdisjoint(SHAPES)


def _keeps_batch(kind: str, index: int, shapes: Sequence[Shape]) -> bool:
    """Whether the first dim of input ``index`` becomes the first dim of the result, for this kind of op."""
    if kind.endswith(("Backward", "BackwardData", "BackwardWeights")):
        is_statistic = kind == "LayerNormBackward" and index in (2, 3)
        return index < 2 or (is_statistic and _have_one_batch(shapes[index], shapes[0]))
    if kind in ARITHMETIC or kind == "GreaterEqual":
        return index < 2 and _is_not_broadcast(shapes[index], shapes[1 - index])
    if kind == "PReLU" and index == 1:
        return _have_one_rank(shapes[0], shapes[1]) and _have_one_batch(shapes[0], shapes[1])
    if kind == "MatMul":
        return index == 0 or (index == 1 and len(shapes[1] or ()) > 2)
    return index == 0 or kind == "Concat"


def _have_one_rank(first: Shape, second: Shape) -> bool:
    return first is not None and second is not None and len(first) == len(second)


def _have_one_batch(first: Shape, second: Shape) -> bool:
    return bool(first and second) and first[0] == second[0]  # type: ignore[index]


def _is_not_broadcast(shape: Shape, second: Shape) -> bool:
    """Whether an operand of a binary op has the batch of the result and is not broadcast along it."""
    if shape is None or second is None:
        return False
    if len(shape) != len(second):
        return len(shape) > len(second)
    return shape[:1] == second[:1] or second[:1] == (1,)
