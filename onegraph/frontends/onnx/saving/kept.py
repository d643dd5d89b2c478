"""Writes the nodes of an OnnxNode in the op set of the model that is saved."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import onnx
from onnx import helper

from ....errors import FormatError, UnsupportedError
from ....lowering.emitter import NotLowered
from ....opset.schema import Call
from ..functions import domain_of
from ..meanings import MODERN, modern
from ..order import graphs_of

LEAST_IR = 10


class Types:
    """What the types of a model say of the inputs of a node."""

    def __init__(self, node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]) -> None:
        self.node, self.types = node, types

    def _dims(self, index: int) -> list[int | None] | None:
        name = self.node.input[index] if index < len(self.node.input) else ""
        kind = self.types.get(name)
        if kind is None or not kind.tensor_type.HasField("shape"):
            return None
        return [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.tensor_type.shape.dim]

    def rank_of(self, index: int) -> int | None:
        """The rank of an input; None if it is unknown."""
        dims = self._dims(index)
        return None if dims is None else len(dims)

    def size_of(self, index: int) -> int | None:
        """The number of elements of an input; None if it is unknown."""
        dims, size = self._dims(index), 1
        for dim in dims if dims is not None else [None]:
            if dim is None:
                return None
            size *= dim
        return size

    def contents_of(self, index: int) -> None:
        """None: the model has no contents."""


def model_of(call: Call) -> onnx.ModelProto:
    """The model of an OnnxNode, whose nodes have the forms of op set ``MODERN`` or of their own newer one.

    Raises:
        UnsupportedError: the form of an old node has no newer one.
    """
    model = onnx.load_from_string(b64decode(call.string("model")))
    types = {one.name: one.type for one in model.graph.input}
    try:
        _renew(model.graph.node, _versions(model.opset_import), types)
        for function in model.functions:
            _renew(function.node, _versions(function.opset_import), {})
    except (FormatError, NotLowered) as error:
        raise UnsupportedError(f"a node of an old op set: {error}") from None
    return model


def _versions(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {domain_of(one.domain): one.version for one in imports}


def _renew(nodes: Any, versions: Mapping[str, int], types: Mapping[str, onnx.TypeProto]) -> None:
    """Write nodes, and those in their graphs, in the terms of newer op sets."""
    made: list[onnx.NodeProto] = []
    for node in nodes:
        renewed = None
        if domain_of(node.domain) == "":
            renewed = modern(node, versions.get("", 1), Types(node, types), f"node {node.name!r} ({node.op_type})")
            if node.op_type == "Scan" and versions.get("", 1) < 9:
                raise UnsupportedError("a Scan of op set 8, whose first axis is a batch")
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        made += [copy] if renewed is None else renewed
    for node in made:
        for graph in graphs_of(node):
            _renew(graph.node, versions, {})
    del nodes[:]
    nodes.extend(made)


def needed(model: onnx.ModelProto) -> int:
    """The oldest op set from ``MODERN`` on that has the nodes of a model."""
    version = _versions(model.opset_import).get("", MODERN)
    if version <= MODERN:
        return MODERN
    nodes = [*_every(model.graph.node), *(one for function in model.functions for one in _every(function.node))]
    return max([MODERN, *(_since(node, version) for node in nodes if domain_of(node.domain) == "")])


def _every(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for graph in graphs_of(node):
            yield from _every(graph.node)


def _since(node: onnx.NodeProto, version: int) -> int:
    """The op set that a node needs: that of its attributes and inputs."""
    since: int = onnx.defs.get_schema(node.op_type, version, "").since_version
    if since <= MODERN:
        return MODERN
    if not onnx.defs.has(node.op_type, MODERN, ""):
        return since
    old = onnx.defs.get_schema(node.op_type, MODERN, "")
    fits: bool = all(one.name in old.attributes for one in node.attribute) and len(node.input) <= old.max_input
    return MODERN if fits else since


def oldest_format(opset: int) -> int:
    """The version of the format that an op set needs."""
    least: int = helper.find_min_ir_version_for([helper.make_opsetid("", opset)], ignore_unknown=True)
    return max(LEAST_IR, least)
