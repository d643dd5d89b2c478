"""Asks the package onnx about a node: the function that defines its op, and the types of its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...lowering.emitter import dtype_of, shape_of
from ...opset.dtypes import DataType
from ...opset.signature import Shape
from .functions import domain_of
from .node import SEQUENCES, Node, StackedList, TensorList
from .protos import AttributeProto, FunctionProto, ModelProto, TypeProto, ValueInfoProto
from .types import NUMBERS

# The types that ops state of results, without a variable.
STATED = {
    "tensor(float)": DataType.f32,
    "tensor(double)": DataType.float64,
    "tensor(int32)": DataType.s32,
    "tensor(int64)": DataType.s64,
    "tensor(bool)": DataType.boolean,
}

STASH = "stash_type"  # the attribute of norms that says in which data type statistics are computed


def newest_op_set() -> int:
    """The newest op set that the package onnx has."""
    import onnx

    newest: int = onnx.defs.onnx_opset_version()
    return newest


def expanded(node: Node) -> FunctionProto | None:
    """The function that defines the op of a node, of the newest op set within its meaning; None if there is none.

    A meaning lasts over several op sets, and the package has a function for some of them. Each function names the op
    set of its own nodes, so that it serves every op set of the meaning.
    """
    import onnx

    proto = node.proto
    try:
        schema: Any = onnx.defs.get_schema(proto.op_type, node.opset, domain_of(proto.domain))
    except Exception:  # the package has no such op
        return None
    made = FunctionProto()
    if schema.has_function:
        made.ParseFromString(schema.get_function_with_opset_version(max(schema.function_opset_versions)))
        return made
    if not schema.has_context_dependent_function:
        return None
    types = [_sequence_type(value).SerializeToString() for value in node.inputs]
    for version in sorted(schema.context_dependent_function_opset_versions, reverse=True):
        try:
            text = schema.get_context_dependent_function_with_opset_version(version, proto.SerializeToString(), types)
        except Exception:  # the package raises errors of many classes
            continue
        if text:
            made.ParseFromString(text)
            if any(one.HasField("g") for one in proto.attribute):
                _state_op_set(made, node)
            if STASH in schema.attributes and sum(map(bool, proto.output)) == 1:
                _keep_float64(made, node)
            return made
    return None


def _keep_float64(function: FunctionProto, node: Node) -> None:
    """Compute the statistics of a float64 tensor in float64, as ONNX Runtime and PyTorch do.

    ONNX's functions cast to float32 by default, and subtract squares, which leaves no right digit where the mean is
    large.
    """
    if dtype_of(node.value(0)) is DataType.float64:
        for inner in function.node:
            for attribute in inner.attribute:
                if inner.op_type == "Cast" and attribute.i == NUMBERS[DataType.f32]:
                    attribute.i = NUMBERS[DataType.float64]


def defaults_of(node: Node) -> list[AttributeProto]:
    """The attributes of an op that have defaults, which its function refers to."""
    import onnx

    schema: Any = onnx.defs.get_schema(node.proto.op_type, node.opset, domain_of(node.proto.domain))
    return [attribute.default_value for attribute in schema.attributes.values() if attribute.default_value.type]


def _state_op_set(function: FunctionProto, node: Node) -> None:
    """Give a function the op set of a node, whose graphs become part of it."""
    for import_ in function.opset_import:
        if domain_of(import_.domain) == "":
            import_.version = node.opset


def _type(value: Any) -> TypeProto:
    return _proto(dtype_of(value), shape_of(value))


def _proto(dtype: DataType, shape: Shape) -> TypeProto:
    from onnx import helper

    dims = None if shape is None else [f"d{axis}" if dim is None else dim for axis, dim in enumerate(shape)]
    made: TypeProto = helper.make_tensor_type_proto(NUMBERS[dtype], dims)
    return made


def _sequence_type(value: Any) -> TypeProto:
    """The type of a value that may be a sequence."""
    from onnx import helper

    made_of: Any = helper.make_sequence_type_proto
    if value is None:
        return TypeProto()
    if isinstance(value, StackedList):
        shape = value.stack.shape
        return made_of(_proto(dtype_of(value.stack), None if shape is None else shape[1:]))
    if not isinstance(value, SEQUENCES):
        return _type(value)
    return made_of(_type(value[0]) if isinstance(value, TensorList) and value else TypeProto())


def model_of(node: Node, known_values: Mapping[str, Any]) -> ModelProto:
    """A model of one node, whose inputs have these values."""
    from onnx import helper

    proto = node.proto
    inputs = [ValueInfoProto(name=name, type=_type(value)) for name, value in known_values.items()]
    outputs = [ValueInfoProto(name=name) for name in proto.output if name]
    importer = node.importer
    graph = helper.make_graph([importer.storage.inlined(proto)], "node", inputs, outputs)
    model: ModelProto = helper.make_model(
        graph, functions=[*map(importer.storage.inlined, importer.functions.values())]
    )
    del model.opset_import[:]
    for domain, version in importer.opsets.items():
        model.opset_import.append(helper.make_opsetid(domain, version))
    return model


def inferred(model: ModelProto, strict: bool = False) -> dict[str, TypeProto]:
    """The types of the outputs, by the shape inference of onnx; none if the node is not valid and ``strict`` is set."""
    import onnx

    try:
        shapes = onnx.shape_inference.infer_shapes(model, strict_mode=strict, data_prop=True)
    except Exception:  # the package raises errors of many classes
        return {}
    return {one.name: one.type for one in shapes.graph.output}


def stated_types(node: Node) -> dict[str, TypeProto]:
    """The types of the outputs that share a type variable with an input; an unknown op keeps the type of the first."""
    import onnx
    from onnx import helper

    proto = node.proto
    try:
        schema: Any = onnx.defs.get_schema(proto.op_type, node.opset, domain_of(proto.domain))
    except Exception:  # the package has no such op
        known = {"": dtype_of(node.value(0))}
        variables = [""] * len(proto.output)
    else:
        known = STATED | {
            port.type_str: dtype_of(value)
            for port, value in zip(schema.inputs, node.inputs, strict=False)
            if value is not None and not isinstance(value, SEQUENCES)
        }
        variables = [port.type_str for port in schema.outputs]
    pairs = zip(proto.output, variables, strict=False)
    return {name: helper.make_tensor_type_proto(NUMBERS[known[one]], None) for name, one in pairs if one in known}
