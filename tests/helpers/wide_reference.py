"""Runs graphs in float64 without rounding, so that finite differences are exact enough to judge gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import onegraph as og
from onegraph.ir.op import Op, schema_of
from onegraph.opset.editions.dialect import base_call
from onegraph.opset.editions.registry import HOST, base_of
from onegraph.opset.schema import TensorType
from onegraph.reference.host import host_function
from onegraph.reference.run import run_op

Array = NDArray[Any]
FLOATS = frozenset(["f32", "bf16", "f16", "float64"])


def run_wide(
    graph: og.Graph, inputs: Mapping[str, Array], wanted: Sequence[og.LogicalTensor]
) -> list[NDArray[np.float64]]:
    """The values of tensors of a graph; floating-point numbers are computed in float64 and never rounded."""
    values = {tensor.id: wide(tensor, np.asarray(inputs[name])) for name, tensor in graph.inputs.items()}
    for op in ops_of(graph, wanted):
        arrays = [None if tensor is None else value_of(tensor, values) for tensor in op.inputs]
        for tensor, result in zip(op.outputs, computed(op, arrays), strict=False):
            values[tensor.id] = wide(tensor, np.asarray(result))
    return [value_of(tensor, values) for tensor in wanted]


def ops_of(graph: og.Graph, wanted: Sequence[og.LogicalTensor]) -> list[Op]:
    """The ops that the tensors depend on, in order."""
    ids, chosen = {tensor.id for tensor in wanted}, []
    for op in reversed(graph.ops):
        if not ids.isdisjoint(tensor.id for tensor in op.outputs):
            chosen.append(op)
            ids.update(tensor.id for tensor in op.inputs if tensor is not None)
    return chosen[::-1]


def value_of(tensor: og.LogicalTensor, values: Mapping[int, Array]) -> Array:
    """The value of a tensor of the graph; that of a constant is its contents."""
    return values[tensor.id] if tensor.value is None else wide(tensor, tensor.value)


def wide(tensor: og.LogicalTensor, array: Array) -> Array:
    """An array of floating-point numbers in float64; others as they are."""
    return array.astype(np.float64) if str(tensor.dtype) in FLOATS else array


def computed(op: Op, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
    """The results of an op, not rounded to the data types of its outputs."""
    if op.edition != HOST:
        return run_op(op, arrays, rounded=False)
    schema = schema_of(op)
    types = [
        None if tensor is None or array is None else TensorType(tensor.dtype, array.shape, array)
        for tensor, array in zip(op.inputs, arrays, strict=True)
    ]
    call = base_call(schema, base_of(schema), op.attrs, types, len(op.outputs), [t.dtype for t in op.outputs])
    found: Any = host_function(base_of(schema))(call, *arrays)
    return found if isinstance(found, tuple) else (found,)
