"""Runs nodes without a lowering: as the function that defines the op, or with the package onnx on the host."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import FormatError
from ...lowering.emitter import dtype_of, shape_of
from ...opset.dtypes import DataType
from .node import Node, TensorList, Unsettled
from .protos import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto
from .types import DTYPES, NUMBERS

RANDOM = frozenset(
    ["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)
DOMAINS = {"ai.onnx": ""}  # other names of domains
CONVERTED = 13  # the op set that old nodes are converted to


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
        schema: Any = onnx.defs.get_schema(proto.op_type, node.opset, DOMAINS.get(proto.domain, proto.domain))
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
            return made
    return None


def _state_op_set(function: FunctionProto, node: Node) -> None:
    """Give a function the op set of a node, whose graphs become part of it."""
    for one in function.opset_import:
        if DOMAINS.get(one.domain, one.domain) == "":
            one.version = node.opset


def _type(value: Any) -> TypeProto:
    from onnx import helper

    shape = shape_of(value)
    dims = None if shape is None else [f"d{axis}" if dim is None else dim for axis, dim in enumerate(shape)]
    made: TypeProto = helper.make_tensor_type_proto(NUMBERS[dtype_of(value)], dims)
    return made


def _sequence_type(value: Any) -> TypeProto:
    """The type of a value that may be a sequence."""
    from onnx import helper

    if value is None:
        return TypeProto()
    if not isinstance(value, TensorList):
        return _type(value)
    made: TypeProto = helper.make_sequence_type_proto(_type(value[0]) if value else TypeProto())
    return made


def converted(node: Node) -> tuple[GraphProto, int] | None:
    """A graph that computes a node of an old op set with newer nodes, and its op set; None if there is none."""
    import onnx
    from onnx import helper

    proto = node.proto
    if not onnx.defs.has(proto.op_type, node.opset, "") and proto.op_type != "Upsample":
        return None
    given = dict(zip(proto.input, node.inputs, strict=False))
    given.pop("", None)
    inputs = [ValueInfoProto(name=name, type=_type(value)) for name, value in given.items()]
    types = _inferred(_model(node, given))
    outputs = [ValueInfoProto(name=name, type=types.get(name, TypeProto())) for name in proto.output if name]
    graph = helper.make_graph([node.importer.storage.inlined(proto)], "node", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", node.opset)])
    try:
        return onnx.version_converter.convert_version(model, CONVERTED).graph, CONVERTED
    except Exception:  # the package raises errors of many classes
        return None


def is_typed(node: Node, values: Mapping[str, Any]) -> bool:
    """Whether the package onnx finds the attributes of a node right, and infers the types of its results."""
    try:
        _check(node)
    except FormatError:
        return False
    given = {name: values[name] for name in node.proto.input if name}
    return not any(isinstance(one, TensorList) for one in given.values()) and bool(_inferred(_model(node, given), True))


def run_elsewhere(node: Node, values: Mapping[str, Any], waits: Unsettled | None = None) -> Sequence[Any]:
    """The results of an op that the package onnx runs on the host, or that is lowered once more is known.

    Args:
        node: the node.
        values: the values around it, by name.
        waits: what the lowering of the node waits for; None if it has none.

    Raises:
        FormatError: the package has no such op, or a value is no tensor.
    """
    proto = node.proto
    names = [name for name in dict.fromkeys([*proto.input, *captured(proto)]) if name]
    given = {name: values[name] for name in names if name in values}
    for name, value in given.items():
        if value is None or isinstance(value, TensorList):
            raise FormatError(node.where, f"input {name!r} is a sequence or an absent optional", "a tensor")
    _check(node)
    model = _model(node, given)
    outputs = [name for name in proto.output if name]
    inferred, stated = _inferred(model), {} if waits is None else _stated_types(node)
    types = [
        found
        for name in outputs
        if (found := _tensor_type(inferred.get(name)) or _tensor_type(stated.get(name))) is not None
    ]
    if len(types) < len(outputs):
        raise FormatError(node.where, "a result that is not a tensor of a known type", "a node that returns tensors")
    shapes = [number for _, shape in types for number in _coded(shape)]
    attrs = {
        "model": b64encode(model.SerializeToString()).decode(),
        "nodes": proto.op_type,
        "shapes": shapes,
        "shape_inputs": [[*given].index(proto.input[index]) for index in (() if waits is None else waits.contents)],
    }
    repeatable = proto.op_type not in RANDOM and not any(one.HasField("g") for one in proto.attribute)
    results = iter(node.emit.foreign([*given.values()], attrs, [dtype for dtype, _ in types], repeatable=repeatable))
    return [next(results) if name else None for name in proto.output]


def _check(node: Node) -> None:
    """Raise FormatError if the attributes of a node are not those of its op."""
    import onnx

    if any(one.HasField("g") or one.graphs for one in node.proto.attribute):
        return  # the checker does not know the values around the node
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = onnx.IR_VERSION, node.importer.opsets
    try:
        onnx.checker.check_node(node.importer.storage.inlined(node.proto), context)
    except onnx.checker.ValidationError as error:
        raise FormatError(node.where, str(error).strip().splitlines()[0], "a node of the op set") from None


def _coded(shape: Sequence[int | None] | None) -> list[int]:
    return [-1] if shape is None else [len(shape), *[-1 if dim is None else dim for dim in shape]]


def captured(proto: NodeProto) -> list[str]:
    """Names of outer values that the subgraphs of a node read."""
    found: list[str] = []
    for attribute in proto.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            inner = {one.name for one in (*graph.input, *graph.initializer)}
            for node in graph.node:
                found += [name for name in (*node.input, *captured(node)) if name and name not in inner]
                inner.update(node.output)
            found += [one.name for one in graph.output if one.name not in inner]
    return found


def _model(node: Node, given: Mapping[str, Any]) -> ModelProto:
    from onnx import helper

    proto = node.proto
    inputs = [ValueInfoProto(name=name, type=_type(value)) for name, value in given.items()]
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


def _inferred(model: ModelProto, strict: bool = False) -> dict[str, TypeProto]:
    """The types of the outputs, by the shape inference of onnx; none if the node is not valid and ``strict`` is set."""
    import onnx

    try:
        found = onnx.shape_inference.infer_shapes(model, strict_mode=strict, data_prop=True)
    except Exception:  # the package raises errors of many classes
        return {}
    return {one.name: one.type for one in found.graph.output}


def _stated_types(node: Node) -> dict[str, TypeProto]:
    """The types of the outputs that share a type variable with an input; an unknown op keeps the type of the first."""
    import onnx
    from onnx import helper

    proto = node.proto
    try:
        schema: Any = onnx.defs.get_schema(proto.op_type, node.opset, DOMAINS.get(proto.domain, proto.domain))
    except Exception:  # the package has no such op
        known = {"": dtype_of(node.value(0))}
        variables = [""] * len(proto.output)
    else:
        known = {
            port.type_str: dtype_of(value)
            for port, value in zip(schema.inputs, node.inputs, strict=False)
            if value is not None and not isinstance(value, TensorList)
        }
        variables = [port.type_str for port in schema.outputs]
    pairs = zip(proto.output, variables, strict=False)
    return {name: helper.make_tensor_type_proto(NUMBERS[known[one]], None) for name, one in pairs if one in known}


def _tensor_type(kind: TypeProto | None) -> tuple[DataType, Sequence[int | None] | None] | None:
    """Data type and shape of a type; None if it is no tensor of a known data type."""
    if kind is None or not kind.HasField("tensor_type") or kind.tensor_type.elem_type not in DTYPES:
        return None
    tensor = kind.tensor_type
    if not tensor.HasField("shape"):
        return DTYPES[tensor.elem_type], None
    dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    return DTYPES[tensor.elem_type], dims
