"""Interprets the nodes of a model: each value is a known array, computed at once, or a tensor of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from ...errors import ArgumentError, FormatError, OneGraphError, SpecError
from ...graph import Graph
from ...opset.dtypes import DataType
from ...opset.schema import Shape
from ..lowering.emitter import Array, Emitter, Value
from . import tables as tables
from .foreign import expanded, run_elsewhere
from .node import LOWERINGS, Node, NotLowered
from .own import own_op
from .types import array_of, data_type

DEFAULT_DOMAINS = ("", "ai.onnx")
MAX_DEPTH = 64  # of functions that call functions


class Importer:
    """Makes the graph of a model.

    Args:
        model: the model.
        directory: folder of its external data; empty if it has none.
        shapes: shapes of inputs that replace those of the model, by name.
    """

    def __init__(self, model: onnx.ModelProto, directory: str, shapes: Mapping[str, object]) -> None:
        self.model, self.directory, self.shapes = model, directory, shapes
        self.made = Graph()
        self.emit = Emitter(self.made)
        self.opsets = {one.domain: one.version for one in model.opset_import}
        self.functions = {(one.domain, one.name): one for one in model.functions}

    def graph(self) -> Graph:
        """The graph.

        Raises:
            FormatError: the model is not valid, or has what no graph can have; the error names the node.
        """
        graph = self.model.graph
        values: dict[str, Any] = {
            one.name: array_of(one, f"initializer {one.name!r}", self.directory) for one in graph.initializer
        }
        unused = set(self.shapes) - {one.name for one in graph.input}
        if unused:
            raise ArgumentError(
                f"shapes: {sorted(unused)}; expected names of the inputs {[one.name for one in graph.input]}"
            )
        for one in graph.input:
            if one.name not in values:
                values[one.name] = self._input(one)
        self.run(graph.node, values, "")
        for one in graph.output:
            if one.name not in values:
                raise FormatError(f"output {one.name!r}", "no node makes it", "the name of a value")
            self._output(one.name, values[one.name])
        return self.made

    def array(self, tensor: onnx.TensorProto, where: str) -> Array:
        """The contents of a tensor of the model."""
        return array_of(tensor, where, self.directory)

    def dtype(self, number: int, where: str) -> DataType:
        """The data type that ONNX gives this number."""
        return data_type(number, where)

    def _input(self, info: onnx.ValueInfoProto) -> Value:
        where = f"input {info.name!r}"
        if not info.type.HasField("tensor_type"):
            raise FormatError(where, str(info.type.WhichOneof("value")), "a tensor")
        kind = info.type.tensor_type
        shape: Any = self.shapes.get(info.name, _shape(kind))
        return self.made.input(info.name, data_type(kind.elem_type, where), shape)

    def _output(self, name: str, value: Any) -> None:
        if isinstance(value, list) or value is None:
            raise FormatError(f"output {name!r}", "a sequence or nothing", "a tensor")
        while name in self.made.inputs or name in self.made.outputs:
            name += "_"
        self.made.output(name, self.emit.tensor(value))

    def run(self, nodes: Sequence[onnx.NodeProto], values: dict[str, Any], where: str, depth: int = 0) -> None:
        """Lower nodes in their order; ``values`` has the values by name, and gets the results."""
        for number, proto in enumerate(nodes):
            place = f"{where}node {proto.name or number!r} ({proto.op_type})"
            missing = [name for name in proto.input if name and name not in values]
            if missing:
                raise FormatError(place, f"input {missing[0]!r}", "the name of a value that an earlier node makes")
            inputs = [values[name] if name else None for name in proto.input]
            results = self._results(proto, inputs, values, place, depth)
            for name, result in zip(proto.output, results, strict=False):
                if name:
                    values[name] = result

    def _results(
        self, proto: onnx.NodeProto, inputs: Sequence[Any], values: dict[str, Any], place: str, depth: int
    ) -> Sequence[Any]:
        node = Node(proto, inputs, self.emit, self.opsets.get(proto.domain, 1), place)
        node.importer, node.scope, node.depth = self, values, depth
        self.emit.named(proto.name or proto.output[0] if proto.output else proto.name)
        try:
            function = self.functions.get((proto.domain, proto.op_type))
            own = None if function is None else own_op(node)
            if own is not None:
                return own
            if function is not None:
                return self._called(function, node, depth)
            lowering = LOWERINGS.get(proto.op_type) if proto.domain in DEFAULT_DOMAINS else None
            if lowering is not None:
                try:
                    found = lowering(node)
                    return found if isinstance(found, (tuple, list)) and not _is_sequence(found) else [found]
                except (NotLowered, SpecError) as reason:
                    return self._otherwise(node, values, place, depth, str(reason))
            return self._otherwise(node, values, place, depth, "")
        except FormatError:
            raise
        except OneGraphError as error:
            raise FormatError(place, str(error), "a node that the specification of ONNX allows") from None

    def _otherwise(self, node: Node, values: dict[str, Any], place: str, depth: int, reason: str) -> Sequence[Any]:
        """The results of a node without a lowering: by the function that defines it, or by the package onnx."""
        body = expanded(node)
        if body is not None:
            try:
                return self._called(body, node, depth)
            except (NotLowered, OneGraphError):
                pass
        return run_elsewhere(node, values, reason)

    def _called(self, function: onnx.FunctionProto, node: Node, depth: int) -> Sequence[Any]:
        """The results of a function of the model, or of one that defines an op."""
        if depth >= MAX_DEPTH:
            raise FormatError(
                node.where, f"functions that call each other {MAX_DEPTH} deep", "functions without recursion"
            )
        values: dict[str, Any] = dict.fromkeys(function.input)
        values.update(zip(function.input, node.inputs, strict=False))
        given = {one.name: one for one in (*function.attribute_proto, *node.proto.attribute)}
        nodes = [_with_attributes(one, given) for one in function.node]
        before = self.opsets
        self.opsets = {**before, **{one.domain: one.version for one in function.opset_import}}
        try:
            self.run(nodes, values, f"{node.where}: ", depth + 1)
        finally:
            self.opsets = before
        return [values[name] for name in function.output]


def _is_sequence(found: Any) -> bool:
    return isinstance(found, list)


def _with_attributes(proto: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """A node of a function with the attributes of the call in the place of references."""
    if not any(one.ref_attr_name for one in proto.attribute):
        return proto
    made = onnx.NodeProto()
    made.CopyFrom(proto)
    del made.attribute[:]
    for one in proto.attribute:
        if not one.ref_attr_name:
            made.attribute.append(one)
        elif one.ref_attr_name in given:
            attribute = onnx.AttributeProto()
            attribute.CopyFrom(given[one.ref_attr_name])
            attribute.name = one.name
            made.attribute.append(attribute)
    return made


def _shape(kind: Any) -> Shape:
    """The shape of a tensor type; a dim with a name is unknown."""
    if not kind.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in kind.shape.dim)
