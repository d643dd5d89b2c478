"""Rewrites models of ONNX with other data types of floating-point numbers, and reads what their inputs are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from .._util.records import record

HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
SINGLE = {TensorProto.FLOAT16: TensorProto.FLOAT, TensorProto.BFLOAT16: TensorProto.FLOAT}
DOUBLE = {**SINGLE, TensorProto.FLOAT: TensorProto.DOUBLE}
INTEGER_ATTRIBUTES = ("to", "dtype", "output_dtype", "stash_type", "softmax_precision", "qk_matmul_precision")
ROUNDING_NODES = frozenset(["QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "Round"])


@record(frozen=True)
class ModelInput:
    """An input of a model: its name, ONNX data type, and dims; a dim is a size, a name, or None."""

    name: str
    elem_type: int
    dims: tuple[int | str | None, ...] | None

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
        """The shape for sizes of the open dims, by :meth:`open_dims`."""
        if self.dims is None:
            return None
        names = iter(self.open_dims())
        return tuple([dim if type(dim) is int else sizes[next(names)] for dim in self.dims])

    def open_dims(self) -> list[str]:
        """The names of the open dims; those without a name get one of their own."""
        dims = enumerate(self.dims or ())
        return [dim if type(dim) is str else f"{self.name}.{axis}" for axis, dim in dims if type(dim) is not int]


def inputs_of(model: onnx.ModelProto) -> list[ModelInput] | None:
    """The inputs of a model that a caller gives; None if one is no tensor."""
    inputs = []
    known = {one.name for one in model.graph.initializer}
    for port in model.graph.input:
        if port.name in known:
            continue
        if not port.type.HasField("tensor_type"):
            return None
        tensor = port.type.tensor_type
        dims = None
        if tensor.HasField("shape"):
            dims = tuple(
                one.dim_value if one.HasField("dim_value") else one.dim_param or None for one in tensor.shape.dim
            )
        inputs.append(ModelInput(port.name, tensor.elem_type, dims))
    return inputs


def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph, and those in the attributes of its nodes; an attribute of another type has an empty one."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                yield from graphs_of(inner)


def rounds(model: onnx.ModelProto) -> bool:
    """Whether a model rounds numbers to integers, so that rounding errors can move results by a whole step."""
    return any(node.op_type in ROUNDING_NODES for graph in graphs_of(model.graph) for node in graph.node)


def is_half(model: onnx.ModelProto) -> bool:
    """Whether a weight, an input or an output of a model is f16 or bf16."""
    ports = [*model.graph.input, *model.graph.output]
    types = {port.type.tensor_type.elem_type for port in ports} | {one.data_type for one in model.graph.initializer}
    return not types.isdisjoint(HALVES)


def retyped(model: onnx.ModelProto, types: Mapping[int, int]) -> onnx.ModelProto:
    """A copy of a model whose tensors of some data types have others; numbers are converted exactly to wider types."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for graph in graphs_of(made.graph):
        for tensor in graph.initializer:
            _retype_tensor(tensor, types)
        for port in [*graph.input, *graph.output, *graph.value_info]:
            _retype_type(port.type, types)
        _retype_nodes(graph.node, types)
    for function in made.functions:
        _retype_nodes(function.node, types)
    return made


def _retype_nodes(nodes: Any, types: Mapping[int, int]) -> None:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.name in INTEGER_ATTRIBUTES and attribute.i in types:
                attribute.i = types[attribute.i]
            for tensor in [attribute.t, *attribute.tensors]:
                _retype_tensor(tensor, types)


def _retype_type(type_proto: onnx.TypeProto, types: Mapping[int, int]) -> None:
    for field in ("tensor_type", "sparse_tensor_type"):
        if getattr(type_proto, field).elem_type in types:
            getattr(type_proto, field).elem_type = types[getattr(type_proto, field).elem_type]
    for field in ("sequence_type", "optional_type"):
        if type_proto.HasField(field):
            _retype_type(getattr(type_proto, field).elem_type, types)


def _retype_tensor(tensor: onnx.TensorProto, types: Mapping[int, int]) -> None:
    if tensor.data_type in types:
        target = onnx.helper.tensor_dtype_to_np_dtype(types[tensor.data_type])
        values: Any = np.asarray(numpy_helper.to_array(tensor))
        tensor.CopyFrom(numpy_helper.from_array(values.astype(target), tensor.name))


__all__ = ["DOUBLE", "SINGLE", "ModelInput", "graphs_of", "inputs_of", "is_half", "retyped", "rounds"]
