"""Runs nodes whose lowering depends on what only a run knows: they become an OnnxNode, or are computed now."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import FormatError
from ...lowering.emitter import Array, dtype_of, is_known, shape_of
from ...opset.dtypes import DataType
from ...opset.shapes import known_dims
from .double import in_double
from .foreign import inferred, model_of, stated_types
from .functions import domain_of
from .node import LOWERINGS, SEQUENCES, SHAPED, Node, Unsettled
from .order import captured, graphs_of
from .package import run_in_package
from .protos import NodeProto, TypeProto
from .proven import is_proven
from .types import DTYPES
from .ways import HELP, Found, UnloweredError, examine, refuse

# What draws random numbers, so that each call computes it anew.
RANDOM = frozenset(
    [
        *("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike"),
        *("RandomUniform", "RandomUniformLike"),
    ]
)
MAX_TRIED = 1 << 16  # elements of the inputs of a node that is tried when a model is read


def computed_now(node: Node, reason: str) -> Sequence[Any]:
    """The results of a node whose inputs are all known, and which no lowering takes.

    Raises:
        UnloweredError: nothing computes the node.
    """
    domain, kind = domain_of(node.proto.domain), node.proto.op_type
    arrays = [value for value in node.inputs if value is not None and not isinstance(value, SEQUENCES)]
    if kind in LOWERINGS and not domain and any(array.dtype == np.float64 for array in arrays):
        result = in_double(node, LOWERINGS[kind])
        if result is not None:
            return result
    if is_proven(node.proto, domain, node.opset):
        return run_in_package(node)
    where = Found(node.where, domain, kind, node.opset, node.proto)
    raise UnloweredError(node.where, f"{where}: {reason}", HELP)


def deferred(node: Node, values: Mapping[str, Any], reason: str, waits: Unsettled | None = None) -> Sequence[Any]:
    """The results of a node that runs when more is known, by an OnnxNode.

    Args:
        node: the node.
        values: the values around it.
        reason: why it is not lowered now.
        waits: what its lowering waits for; None if it has none.

    Raises:
        FormatError: nothing runs the node, or a value is no tensor.
    """
    proto = node.proto
    examine(node.importer, proto, node.where, reason)
    names = [name for name in dict.fromkeys([*proto.input, *captured(proto)]) if name]
    known_values = {name: values[name] for name in names if name in values}
    for name, value in known_values.items():
        if value is None or isinstance(value, SEQUENCES):
            raise FormatError(node.where, f"input {name!r} is a sequence or an absent optional", "a tensor")
    _check(node)
    model = model_of(node, known_values)
    outputs = [name for name in proto.output if name]
    kinds, stated, declared = inferred(model), _stated(node), node.importer.declared if node.depth == 0 else {}
    types = [
        typed
        for name in outputs
        if (typed := next(filter(None, (_tensor_type(one.get(name)) for one in (kinds, stated, declared))), None))
    ]
    if len(types) < len(outputs):
        domain = domain_of(proto.domain) or "ai.onnx"
        text = (
            f"{proto.op_type} of {domain}, op set {node.opset}, is not lowered ({reason}), and no type of its result is"
        )
        raise FormatError(
            node.where, f"{text} known", "a node that onegraph lowers, or whose results value_info states"
        )
    if graphs_of(proto) and _has_ceil(proto):  # the package infers wrong sizes of some pools
        types = [(dtype, None if shape is None else [None] * len(shape)) for dtype, shape in types]
    tried = _tried(node, known_values, reason)
    sure = proto.op_type in SHAPED and not proto.domain and all(one is None or is_known(one) for one in node.inputs[1:])
    known: list[Sequence[int | None] | None] = [shape for _, shape in types]
    if tried is not None:
        known = [one.shape if sure else _agreed(shape, one.shape) for shape, one in zip(known, tried, strict=False)]
    shapes = [number for shape in known for number in _coded(shape)]
    attrs: dict[str, object] = {
        "model": b64encode(model.SerializeToString()).decode(),
        "nodes": proto.op_type,
        "shapes": shapes,
        "shape_inputs": [
            [*known_values].index(proto.input[index]) for index in (() if waits is None else waits.contents)
        ],
    }
    attrs["draws"] = _draws(proto)
    repeatable = not attrs["draws"] and not graphs_of(proto)
    results = iter(
        node.emit.foreign([*known_values.values()], attrs, [dtype for dtype, _ in types], repeatable=repeatable)
    )
    return [next(results) if name else None for name in proto.output]


def _agreed(shape: Sequence[int | None] | None, tried: Sequence[int]) -> Sequence[int | None] | None:
    """An inferred shape without the dims in which a trial differs: the package infers some wrong ones."""
    if shape is None or len(shape) != len(tried):
        return None
    return [dim if dim == other else None for dim, other in zip(shape, tried, strict=True)]


def _tried(node: Node, known_values: Mapping[str, Any], reason: str) -> Sequence[Array] | None:
    """The results of a node for ones in the place of its inputs; None if their shapes are unknown or ones do not fit.

    Raises:
        FormatError: nothing runs the node.
    """
    shapes = [shape_of(value) for value in known_values.values()]
    if graphs_of(node.proto) or any(shape is None or None in shape for shape in shapes):
        return None
    if sum(int(np.prod(known_dims(shape))) for shape in shapes) > MAX_TRIED:
        return None
    arrays = {
        name: value if isinstance(value, np.ndarray) else np.ones(value.shape, value.dtype.numpy)
        for name, value in known_values.items()
    }
    try:
        result: Sequence[Array] = node.importer.evaluated(model_of(node, known_values), arrays)
    except UnloweredError:
        domain = domain_of(node.proto.domain)
        refuse(node.importer, [Found(node.where, domain, node.proto.op_type, node.opset, node.proto)], reason)
    except FormatError:
        if not all(is_known(value) or dtype_of(value).numpy.kind not in "iub" for value in known_values.values()):
            return None  # other indices or sizes than 1 may be allowed
        raise
    except Exception:  # an error of numpy, which may depend on contents too
        return None
    return result


def _check(node: Node) -> None:
    """Raise FormatError if the attributes of a node are not those of its op."""
    import onnx

    if graphs_of(node.proto):
        return  # the checker does not know the values around the node
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = onnx.IR_VERSION, node.importer.opsets
    try:
        onnx.checker.check_node(node.importer.storage.inlined(node.proto), context)
    except onnx.checker.ValidationError as error:
        raise FormatError(node.where, str(error).strip().splitlines()[0], "a node of the op set") from None


def _coded(shape: Sequence[int | None] | None) -> list[int]:
    return [-1] if shape is None else [len(shape), *[-1 if dim is None else dim for dim in shape]]


def _has_ceil(proto: NodeProto) -> bool:
    """Whether a node, or one in its graphs, is a pool whose size is rounded up."""
    inner = [one for graph in graphs_of(proto) for one in graph.node]
    return any(one.name == "ceil_mode" and one.i for one in proto.attribute) or any(map(_has_ceil, inner))


def _draws(proto: NodeProto) -> bool:
    """Whether a node, or one in its graphs, draws random numbers."""
    return proto.op_type in RANDOM or any(_draws(one) for graph in graphs_of(proto) for one in graph.node)


def is_typed(node: Node, values: Mapping[str, Any]) -> bool:
    """Whether the package onnx finds the attributes of a node right, and infers the types of its results."""
    try:
        _check(node)
    except FormatError:
        return False
    values_read = {name: values[name] for name in node.proto.input if name}
    return not any(isinstance(one, SEQUENCES) for one in values_read.values()) and bool(
        inferred(model_of(node, values_read), True)
    )


def _stated(node: Node) -> Mapping[str, TypeProto]:
    """The types of results without shapes: of a node with graphs those of a graph, else those of inputs."""
    graphs = graphs_of(node.proto)
    if not graphs:
        return stated_types(node)
    ends = graphs[0].output[node.proto.op_type == "Loop" :]  # the first result of a loop's body is its condition
    types = {}
    for name, end in zip(node.proto.output, ends, strict=False):
        types[name] = TypeProto()
        types[name].CopyFrom(end.type)
        types[name].tensor_type.ClearField("shape")
    return types


def _tensor_type(kind: TypeProto | None) -> tuple[DataType, Sequence[int | None] | None] | None:
    """Data type and shape of a type; None if it is no tensor of a known data type."""
    if kind is None or not kind.HasField("tensor_type") or kind.tensor_type.elem_type not in DTYPES:
        return None
    tensor = kind.tensor_type
    if not tensor.HasField("shape"):
        return DTYPES[tensor.elem_type], None
    dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    return DTYPES[tensor.elem_type], dims
