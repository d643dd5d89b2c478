"""Writes a graph as a model in the ONNX format."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Any

import onnx
from onnx import helper, numpy_helper

from ..._util.paths import path_of
from ..._util.tracebacks import ends_traceback
from ..._version import __version__
from ...builder.graph import DataGraph, snapshot
from ...errors import ArgumentError, UnsupportedError, shown
from ...ir.op import LogicalTensor, Op, schema_of
from ...opset.dtypes import DataType
from ...opset.editions.dialect import base_call, channel_swap, format_of, is_swapped
from ...opset.editions.registry import BASE, base_of
from ...opset.host.control import BODIES
from ...opset.schema import Call, Schema, TensorType
from ...opset.signature import Fill
from ...serialize import with_constants
from ...serialize.words import of_word
from .meanings import MODERN
from .own import TYPES
from .saving import (
    attention,
    bodies,
    control,
    detection,
    elementwise,
    host,
    interpolation,
    learned,
    linear_attention,
    movement,
    normalization,
    packed,
    quantization,
    recurrence,
    reduction,
    windows,
)
from .saving.body import Array, FunctionBody, Functions, NodeValue
from .saving.files import write_model
from .saving.kept import needed, oldest_format
from .saving.nodes import HELPERS, UnwrittenNode, proto
from .saving.table import COMPOSED, REFUSED, WRITERS, composed
from .types import NUMBERS

MODULES = (
    bodies,
    detection,
    elementwise,
    reduction,
    movement,
    quantization,
    windows,
    normalization,
    interpolation,
    attention,
    packed,
    learned,
    linear_attention,
    recurrence,
    host,
    control,
)
# The oldest op set whose nodes take bf16 in every place; ONNX Runtime has it since 1.21.
OPSET, IR = 22, 10
# Data types that only newer op sets have: the op set, and the version of the format.
NEWER = {
    DataType.f4_e2m1: (23, 11),
    DataType.e8m0: (24, 12),
    DataType.int2: (25, 13),
    DataType.uint2: (25, 13),
}
# Host ops that only some op sets have, and those that other runtimes lack in the newest op sets.
NEWER_KINDS = {"CumProd": (26, 13), "DeformColumns": (19, 9), "GridSample": (20, 9)}
OLDER_KINDS = frozenset(["RoiAlign"])
# A message of protobuf has at most 2 GiB. Larger models have their constants in a file of their own.
MAX_BYTES = 2**31 - 2**20
SMALL = 1024  # bytes of a constant that stays in the model


@ends_traceback
def save(graph: DataGraph, path: object) -> None:
    """Write a graph as a model in the ONNX format, which other runtimes and tools read.

    Ops become standard nodes where ONNX has them: Quantize and Dequantize the QDQ form, ops on channels-last images
    nodes between Transposes, of which neighbours cancel. Other ops become functions in the domain ``onegraph``; their
    bodies are standard nodes, so that every runtime computes them, and :func:`load` reads them as the ops that they
    were. Names of inputs, outputs and ops stay; an unknown dim of an input is called as in the model that it
    was read from, else ``<input>_<axis>``. ONNX has no strides and no constant inputs, so these two are lost.

    A file is replaced when the new one is complete. A symbolic link stays: the file that it leads to is replaced. The
    constants of a model of more than 2 GiB stand beside it, in a file that the model names, with the ending ``.data``.
    Saving again writes a file of another name, and removes the old one once the model names the new one.

    Args:
        graph: the graph, with ops of any edition.
        path: of the ONNX file.

    Raises:
        UnsupportedError: no nodes compute an op, such as a Wildcard, or shapes are unknown that its nodes depend on.
        FormatError: a file cannot be written.
        ArgumentError: the path is no path, or that of a JSON file.
    """
    target = path_of("path", path, "the path of an ONNX file")
    if target.suffix == ".json":
        raise ArgumentError(f"path: {shown(str(target))}; expected the path of an ONNX file; Graph.save writes JSON")
    if not target.name:
        raise ArgumentError(f"path: {shown(str(target))}; expected the path of an ONNX file")
    model, constants = Exporter(_without_variables(snapshot(graph))).model()
    large = {name: array for name, array in constants.items() if array.nbytes >= SMALL}
    if sum(array.nbytes for array in constants.values()) <= MAX_BYTES:
        large = {}
    small = [numpy_helper.from_array(array, name) for name, array in constants.items() if name not in large]
    write_model(target, model, large, small)


def _without_variables(graph: DataGraph) -> DataGraph:
    """The graph of one call, with the first contents of variables as constants and without their next values."""
    if not graph.variables:
        return graph
    fixed = with_constants(graph._as_step(), graph._initial)
    fixed._outputs = {name: fixed._outputs[name] for name in graph.outputs}
    return fixed


class Exporter:
    """Makes the model of a graph.

    Args:
        graph: the graph.
        functions: of the model whose node has the graph.
    """

    def __init__(self, graph: DataGraph, functions: Functions | None = None) -> None:
        self.graph = graph
        self.functions = Functions(*_op_set(graph), _inner) if functions is None else functions
        names = [*graph.inputs, *graph.outputs]
        for name in names:
            if not name.isprintable():
                raise UnsupportedError(f"name {shown(name)}: ONNX has names of printable characters")
        self.body = FunctionBody(self.functions, {*names})
        self.values: dict[int, NodeValue] = {
            tensor.id: NodeValue(self.body, name, tensor.dtype) for name, tensor in graph.inputs.items()
        }

    def model(self) -> tuple[onnx.ModelProto, dict[str, Array]]:
        """The model without its constants, and the constants by name.

        Raises:
            UnsupportedError: no nodes compute an op; the message has the reason.
        """
        graph, body = self.graph, self.body
        for op in graph.ops:
            self._op(op)
        body.op = ""
        renamed: dict[str, str] = {}
        made_here = {name for node in body.nodes for name in node.outputs}
        for name, tensor in graph.outputs.items():
            value = self._value(tensor)
            if value.name in renamed or value.name not in made_here:
                (renamed_value,) = body.nodes_results("Identity", [value], [value.dtype])
                renamed[renamed_value.name] = name
            else:
                renamed[value.name] = name
        nodes = body.without_unused(renamed)
        for node in nodes:
            node.inputs = [renamed.get(name, name) for name in node.inputs]
            node.outputs = [renamed.get(name, name) for name in node.outputs]
        read = {name for node in nodes for name in node.inputs}
        made = helper.make_graph(
            [proto(node, name) for node, name in zip(nodes, _names(nodes), strict=True)],
            "onegraph",
            [_info(name, tensor, _dims_of(graph, name, tensor)) for name, tensor in graph.inputs.items()],
            [_info(name, tensor) for name, tensor in graph.outputs.items()],
        )
        opsets = [helper.make_opsetid("", self.functions.opset)]
        domains = {**dict.fromkeys([one.domain for one in self.functions.protos], 1), **self.functions.imports}
        opsets += [helper.make_opsetid(domain, version) for domain, version in sorted(domains.items())]
        model = helper.make_model(
            made,
            functions=self.functions.protos,
            opset_imports=opsets,
            ir_version=self.functions.ir,
            producer_name="onegraph",
            producer_version=__version__,
        )
        constants = {name: array for name, array in body.constants.items() if name in read}
        body.constants.clear()  # the body and its values refer to each other until the garbage collector runs
        return model, constants

    def _value(self, tensor: LogicalTensor) -> NodeValue:
        if tensor.id not in self.values:
            assert tensor.value is not None
            self.values[tensor.id] = self.body.constant(tensor.value, tensor.name or "constant")
        return self.values[tensor.id]

    def _op(self, op: Op) -> None:
        schema = schema_of(op)
        base = base_of(schema)
        if base.kind in REFUSED:
            raise UnsupportedError(f"{op.kind} {op.name!r} in ONNX: {REFUSED[base.kind]}")
        types = [TensorType(tensor.dtype, tensor.shape, tensor.value) for tensor in op.inputs]
        call = base_call(schema, base, op.attrs, types, len(op.outputs), [tensor.dtype for tensor in op.outputs])
        self.body.op = op.name
        values: list[NodeValue | None] = [
            self._swapped(schema, schema.input_port(index).name, self._value(tensor), op, tensor)
            for index, tensor in enumerate(op.inputs[: len(call.inputs)])
        ]
        try:
            results = self._written(base.kind, call, values)
        except UnsupportedError as error:
            raise UnsupportedError(f"{op.kind} {op.name!r} in ONNX: {error}") from None
        for port, tensor, value in zip(schema.outputs, op.outputs, results, strict=False):
            self.values[tensor.id] = self._swapped(schema, port.name, value, op, tensor)

    def _written(self, kind: str, call: Call, values: list[NodeValue | None]) -> Sequence[NodeValue]:
        result: Any
        plain = normalization.PLAIN.get(kind)
        if plain is not None and plain[0](call):
            result = plain[1](call, *values)
        elif kind in COMPOSED:
            return composed(self.body, kind, call, values, _attributes(call) if kind in BASE else {})
        else:
            # What draws numbers may have no inputs, whose values know the body.
            more = {"body": self.body} if kind == "host OnnxNode" else {}
            result = WRITERS[kind](call, *values, **more)
        return result if isinstance(result, tuple) else [result]

    def _swapped(self, schema: Schema, port: str, value: NodeValue, op: Op, tensor: LogicalTensor) -> NodeValue:
        """The tensor with its channel axes in the order of the base vocabulary or back (the same exchange)."""
        if not is_swapped(schema, port) or port.endswith("_shape"):
            return value
        if tensor.shape is None:
            raise UnsupportedError(f"{op.kind} {op.name!r} in ONNX: the rank of {port} is unknown")
        return value.transpose(channel_swap(len(tensor.shape), format_of(schema, op.attrs)))


def _inner(graph: DataGraph, functions: Functions) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model of a graph that a node of a model with these functions has, and its constants."""
    return Exporter(graph, functions).model()


def _op_set(graph: DataGraph) -> tuple[int, int]:
    """The op set of a model and the version of its format: the oldest ones with its data types and kept nodes.

    Other runtimes lack newer op sets of some kinds that an OnnxNode keeps, such as RoiAlign.
    """
    graphs = [graph, *_bodies(graph)]
    dtypes = {tensor.dtype for graph in graphs for tensor in graph._tensors}
    ops = [op for graph in graphs for op in graph.ops]
    kept = [b64decode(str(op.attrs["model"])) for op in ops if op.kind == "OnnxNode"]
    is_older = bool(kept) or any(op.kind in OLDER_KINDS for op in ops)
    least = OPSET if not is_older or DataType.bf16 in dtypes else MODERN
    newer = [NEWER_KINDS[op.kind] for op in ops if op.kind in NEWER_KINDS]
    opset, ir = max([(least, IR), *newer, *(NEWER[dtype] for dtype in dtypes if dtype in NEWER)])
    opset = max([opset, *(needed(onnx.load_from_string(one)) for one in kept)])
    return opset, max(ir, oldest_format(opset))


def _bodies(graph: DataGraph) -> Iterator[DataGraph]:
    """The bodies of control flow, with those inside of them."""
    for op in graph.ops:
        for name in BODIES.get(op.kind, ()):
            body = of_word(str(op.attrs[name]))
            yield body
            yield from _bodies(body)


def _attributes(call: Call) -> dict[str, Any]:
    """All attributes of an op that have values, and the data types of the results, so that a reader knows the op."""
    rank = next((input_.rank for input_ in call.inputs if input_ is not None and input_.rank is not None), 2)
    attributes: dict[str, Any] = {}
    for attribute in call.schema.attributes:
        value: Any = call.attr(attribute.name)
        value = call.s64s(attribute.name, rank - 2) if type(value) is Fill else value
        if value is not None:
            attributes[attribute.name] = (
                int(value) if attribute.kind == "bool" else float(value) if attribute.kind == "f32" else value
            )
    attributes[TYPES] = [*map(str, call.output_types)]
    return attributes


def _names(nodes: Sequence[UnwrittenNode]) -> list[str]:
    """A name for each node: the main one of an op has the name of the op."""
    main: dict[str, int] = {}
    for number, node in enumerate(nodes):
        if node.op and (node.op not in main or node.kind not in HELPERS):
            main[node.op] = number
    taken, names = {*main}, list[str]()
    for number, node in enumerate(nodes):
        name = node.op
        if main.get(name) != number:
            base = f"{node.op}/{node.kind}" if node.op else node.kind
            name, count = base, 1
            while name in taken:
                count += 1
                name = f"{base}_{count}"
            taken.add(name)
        names.append(name)
    return names


def _dims_of(graph: DataGraph, name: str, tensor: LogicalTensor) -> list[str]:
    """A name for each dim of an input: that of the model from which it was read, or that of the input and the axis."""
    rank = len(tensor.shape or ())
    read = (graph._dims or {}).get(name, ())
    labels = read if len(read) == rank else [""] * rank
    return [label or f"{name}_{axis}" for axis, label in enumerate(labels)]


def _info(name: str, tensor: LogicalTensor, names: Sequence[str] = ()) -> onnx.ValueInfoProto:
    """A port of the model; unknown dims have names if there are some."""
    dims = None if tensor.shape is None else list[int | str | None](tensor.shape)
    if dims is not None and names:
        dims = [label if dim is None else dim for dim, label in zip(dims, names, strict=True)]
    return helper.make_tensor_value_info(name, NUMBERS[tensor.dtype], dims)
