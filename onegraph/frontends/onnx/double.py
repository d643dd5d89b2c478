"""Computes nodes of float64 whose ops take narrower floats alone: the same ops, without their rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...compiler.array_kernels.convolution import convolved
from ...graph import Graph
from ...ir.op import Op, schema_of
from ...lowering.emitter import Array, Emitter
from ...opset.dtypes import DataType
from ...opset.editions.dialect import base_call
from ...opset.editions.registry import HOST, base_of
from ...opset.schema import TensorType
from ...reference import reference_function, run_op
from .node import Lowering, Node, NotLowered


def in_double(node: Node, lowering: Lowering) -> Sequence[Any] | None:
    """The results of a node with known inputs, some of which are float64; None if a lowering to f32 refuses it.

    The node is lowered for f32, and numpy computes the ops in float64.
    """
    graph, arrays = Graph(), dict[int, Array]()
    inputs: list[Any] = []
    for place, value in enumerate(node.inputs):
        if isinstance(value, np.ndarray) and value.dtype == np.float64:
            tensor = graph.input(f"x{place}", DataType.f32, value.shape)
            arrays[tensor.id] = value
            inputs.append(tensor)
        else:
            inputs.append(value)
    emit = Emitter(graph)
    twin = Node(node.proto, inputs, emit, node.opset, node.where)
    twin.importer, twin.scope, twin.depth = node.importer, node.scope, node.depth
    try:
        returned = lowering(twin)
    except NotLowered:
        return None
    results = returned if isinstance(returned, (tuple, list)) else [returned]
    arrays.update((tensor.id, tensor.value) for tensor in graph._tensors if tensor.value is not None)
    for op in graph.ops:
        ends = _computed(op, [arrays[input_.id] for input_ in op.inputs])
        arrays.update(zip([end.id for end in op.outputs], ends, strict=False))  # fewer results may be wanted
    return [_wide(result, arrays) for result in results]


def _wide(value: Any, arrays: dict[int, Array]) -> Any:
    """The array of a value, in float64 where the lowering has f32."""
    if value is None or isinstance(value, np.ndarray):
        return value
    array = arrays[value.id]
    return array.astype(np.float64 if value.dtype is DataType.f32 else value.dtype.numpy)


def _computed(op: Op, arrays: Sequence[Array]) -> Sequence[Array]:
    """The results of an op, whose floats keep all their digits."""
    schema = schema_of(op)
    if op.kind == "Cast" and op.outputs[0].dtype is DataType.f32:
        return [arrays[0].astype(np.float64)]
    types = [TensorType(input_.dtype, array.shape, array) for input_, array in zip(op.inputs, arrays, strict=True)]
    call = base_call(schema, base_of(schema), op.attrs, types, len(op.outputs), [output.dtype for output in op.outputs])
    if schema.category != HOST:
        result = convolved(call, arrays, op.outputs[0].shape)
        return run_op(op, arrays, rounded=False) if result is None else [result]
    with np.errstate(all="ignore"):
        outcome: Any = reference_function(schema)(call, *arrays)
    return outcome if isinstance(outcome, tuple) else [outcome]
