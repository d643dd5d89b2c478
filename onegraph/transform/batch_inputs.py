"""Which inputs of a graph have a batch as their first dim that can be changed for all of them together.

The rules are those of benchdnn's ``--mb``: a tensor has one where every op that reads it carries its first dim over to
a result that has one. Source: oneDNN 3.13, tests/benchdnn/graph/deserialize.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping

from .._util.exact_types import isinstance
from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor, Op, schema_of
from ..opset.editions.registry import base_of

# An op that is told the shape of its result is told the batch too.
SHAPES = ("dst_shape", "src_shape", "output_shape", "input_shape")


def with_batch(graph: DataGraph) -> list[LogicalTensor]:
    """The graph inputs that have a batch."""
    readers: dict[int, list[Op]] = {}
    for op in graph.ops:
        for tensor in op.inputs:
            if tensor is not None:
                readers.setdefault(tensor.id, []).append(op)
    found: dict[int, bool] = {}
    for op in reversed(graph.ops):
        for tensor in (*op.inputs, *op.outputs):
            if tensor is not None and tensor.id not in found:
                found[tensor.id] = all(_carries(reader, tensor, found) for reader in readers.get(tensor.id, ()))
    return [tensor for tensor in graph.inputs.values() if tensor.shape and found.get(tensor.id, False)]


def _carries(op: Op, tensor: LogicalTensor, found: Mapping[int, bool]) -> bool:
    """Whether an op carries the batch of an input over to its first output, which has one."""
    schema = schema_of(op)
    kind = base_of(schema).kind
    if kind == "End":
        return True
    shapes = [None if one is None else one.shape for one in op.inputs]
    index = next(index for index, one in enumerate(op.inputs) if one is tensor)
    told = any(name in op.attrs for name in SHAPES) or any(
        one is not None and schema.input_port(at).name in SHAPES for at, one in enumerate(op.inputs)
    )
    first, second = shapes[0], shapes[1] if len(shapes) > 1 else None
    target = op.attrs.get("shape", ())  # of StaticReshape
    if told or not op.outputs or (isinstance(target, tuple) and target and target[0] not in (-1, 0)):
        able = False
    elif kind.endswith(("Backward", "BackwardData", "BackwardWeights")):
        stats = kind == "LayerNormBackward" and index in (2, 3) and bool(tensor.shape and first)
        able = index < 2 or (stats and tensor.shape[0] == first[0])  # type: ignore[index]
    elif schema.category == "binary" and kind not in ("BiasAdd", "PReLU", "Select"):
        other = shapes[1 - index] if index < 2 else None
        if tensor.shape is None or other is None:
            able = False
        elif len(tensor.shape) == len(other):
            able = tensor.shape[:1] == other[:1] or other[:1] == (1,)
        else:
            able = len(tensor.shape) > len(other)
    elif kind == "PReLU" and index == 1:
        able = first is not None and second is not None and len(first) == len(second) and first[0] == second[0]
    elif kind == "MatMul":
        able = index == 0 or (index == 1 and tensor.shape is not None and len(tensor.shape) > 2)
    else:
        able = index == 0 or kind == "Concat"
    return able and found.get(op.outputs[0].id, True)
