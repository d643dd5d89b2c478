"""Interprets the nodes of a model: each value is a known array, computed at once, or a tensor of the graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ..._util.counted import counted
from ...errors import FormatError, OneGraphError, SpecError, without_hint
from ...graph import Graph
from ...lowering.emitter import Array, Emitter
from ...lowering.patterns import REWRITES
from ...lowering.subgraph import BodyBuilder
from ...opset.dtypes import DataType
from ...transform.part import without_unread
from . import tables as tables
from .custom import custom
from .deferred import computed_now, deferred, is_typed
from .evaluator import Evaluator
from .foreign import defaults_of, expanded, newest_op_set
from .functions import MAX_NODES, domain_of, refuse_recursion, with_attributes
from .meanings import MODERN, modern
from .model_ends import ModelEnds
from .node import LOWERINGS, SEQUENCES, GrowingList, Node, NotLowered, StackedList, TensorList, Unsettled
from .order import captured, graphs_of, in_order, place_of
from .own import own_op
from .packed_nodes import PackedNodes
from .ports import refuse_unknown
from .protos import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
)
from .registered import OWN
from .storage import Storage
from .types import data_type
from .value_names import model_values
from .ways import Fallbacks, UnloweredError
from .wire import Pieces

# Every supported version of the package onnx has these op sets.
OLDEST, SURE = 1, 21
MAX_DEPTH = 64  # of functions that call functions, and of graphs in nodes


class Importer:
    """Makes the graph of a model.

    Args:
        model: the model.
        storage: the contents of its tensors.
        shapes: by name: shapes of inputs and sizes of named dims, which replace those of the model.
        known: contents of inputs, by name.
        emit: adds the ops of single nodes to another graph; None for a whole model.
        now: whether every value is known, because the nodes run now.
        strict: whether nodes that the package onnx runs are refused.
    """

    def __init__(
        self,
        model: ModelProto,
        storage: Storage,
        shapes: Mapping[str, Any],
        known: Mapping[str, Array],
        emit: Emitter | None = None,
        *,
        now: bool = False,
        strict: bool = False,
    ) -> None:
        self.model, self.storage, self.shapes, self.known = model, storage, shapes, known
        self.made, self._count = Graph(), 0
        self.made._roundings = frozenset()  # as ONNX Runtime, which computes 16-bit nodes in f32 from end to end
        self.emit = emit or Emitter(self.made, REWRITES)
        self.opsets = {domain_of(one.domain): one.version for one in model.opset_import}
        self.now, self.fallbacks = now, Fallbacks(strict)
        typed = (*model.graph.value_info, *model.graph.output)
        self.declared = {one.name: one.type for one in typed if one.HasField("type")}
        self._sorted: dict[int, tuple[object, Sequence[NodeProto]]] = {}
        self.evaluated = evaluated  # for nodes that are tried
        self.functions = {(domain_of(function.domain), function.name): function for function in model.functions}

    def graph(self) -> Graph:
        """The graph.

        Raises:
            FormatError: the model is not valid, or has what no graph can have; the error names the node.
            ArgumentError: a shape or a value is of no input.
        """
        version, graph = self.opsets.get(""), self.model.graph
        if version is not None and (version < OLDEST or (version > SURE and version > newest_op_set())):
            expected = f"1 to {newest_op_set()}"
            raise FormatError(f"opset_import {version}", "an op set that the package onnx lacks", expected)
        refuse_recursion(self.functions, graph.node)
        if graph.sparse_initializer:
            raise FormatError("sparse_initializer", "a sparse tensor", "dense tensors")
        packed = PackedNodes(graph, self.storage, [one.name for one in graph.input if self._is_given(one.name)])
        values = self._initializers(graph, "", packed.unread)
        values.update(packed.values)
        self.emit.name_arrays(values)
        refuse_unknown(graph.input, self.shapes, self.known)
        ends = ModelEnds(self.made, self.emit, self.shapes, self.known)
        # An initializer that is an input too is the default of that input, which shapes and values replace.
        inputs = [one for one in graph.input if one.name not in values or self._is_given(one.name)]
        for input_ in inputs:
            values[input_.name] = ends.input(input_)
        self.run(packed.ordered(self._ordered(graph, {*values, *packed.unread}, "")), values, "")
        self.fallbacks.tell()
        for input_ in graph.output:
            if input_.name not in values:
                raise FormatError(f"output {input_.name!r}", "no node makes it", "the name of a value")
            ends.output(input_.name, values[input_.name])
        made = without_unread(self.made)
        made._model_values = model_values(values, self.emit, made)
        return made

    def _is_given(self, name: str) -> bool:
        """Whether the caller replaces an input."""
        return name in self.shapes or name in self.known

    def array(self, tensor: TensorProto, where: str) -> Array:
        """The contents of a tensor of the model."""
        return self.storage.array(tensor, where)

    def dtype(self, number: int, where: str) -> DataType:
        """The data type that ONNX gives this number."""
        return data_type(number, where)

    def _initializers(self, graph: GraphProto, where: str, unread: Collection[str] = ()) -> dict[str, Any]:
        by_name: dict[str, Any] = {}
        for tensor in graph.initializer:
            place = f"{where}initializer {tensor.name!r}"
            if tensor.name in by_name:
                raise FormatError(place, "two of this name", "a name for each")
            by_name[tensor.name] = None if tensor.name in unread else self.storage.array(tensor, place)
        return {name: array for name, array in by_name.items() if array is not None}

    def _ordered(
        self, graph: GraphProto | FunctionProto, available: Collection[str], where: str
    ) -> Sequence[NodeProto]:
        """The nodes of a graph or function in an order in which they can run."""
        result = self._sorted.get(id(graph))
        if result is None:  # the graph is kept, so that its id stays its own
            result = self._sorted[id(graph)] = graph, in_order(graph.node, available, where)
        return result[1]

    def run(
        self, nodes: Sequence[NodeProto], values: dict[str, Any], where: str, depth: int = 0, whole: str = ""
    ) -> None:
        """Lower nodes in their order; ``values`` has the values by name, and gets the results.

        ``whole`` is the place of the node for which all these nodes stand.
        """
        if depth > MAX_DEPTH:
            raise FormatError(where, f"functions or graphs {MAX_DEPTH} deep in each other", "no recursion")
        for number, proto in enumerate(nodes):
            place = whole or place_of(proto, number, where)
            self._count += 1
            if self._count > MAX_NODES and not self.now:
                raise FormatError(place, f"more than {MAX_NODES} nodes in functions and loops", "fewer nodes")
            missing = [name for name in proto.input if name and name not in values]
            if missing:
                raise FormatError(place, f"input {missing[0]!r}", "the name of a value that a node makes")
            inputs = [values[name] if name else None for name in proto.input]
            results = self._results(proto, inputs, values, place, depth)
            for name, result in zip(proto.output, results, strict=False):
                if name:
                    values[name] = result

    def _results(
        self, proto: NodeProto, inputs: Sequence[Any], values: dict[str, Any], place: str, depth: int
    ) -> Sequence[Any]:
        domain = domain_of(proto.domain)
        node = Node(proto, inputs, self.emit, self.opsets.get(domain, 1), place)
        node.importer, node.scope, node.depth = self, values, depth
        self.emit.named(proto.name or proto.output[0] if proto.output else proto.name)
        try:
            function = self.functions.get((domain, proto.op_type))
            own = None if function is None else own_op(node)
            if own is not None:
                return own
            if (written := OWN.get((domain, proto.op_type))) is not None:
                return custom(node, written)
            if function is not None:
                return self._called(function, node)
            try:
                newer = modern(proto, node.opset, node, place) if domain == "" else None
            except NotLowered as reason:
                return computed_now(node, str(reason)) if self.now else deferred(node, values, str(reason))
            return self._lowered(node, domain, values) if newer is None else self._in_newer_terms(newer, node)
        except FormatError:
            raise
        except OneGraphError as error:
            raise FormatError(place, without_hint(error), "a node that the specification of ONNX allows") from None
        except Exception as error:  # attributes that ONNX does not allow make numpy and Python raise anything
            text = f"{type(error).__name__}: {error}"
            raise FormatError(place, text, "a node that the specification of ONNX allows") from error

    def _lowered(self, node: Node, domain: str, values: dict[str, Any]) -> Sequence[Any]:
        """The results of a node by the table of nodes, or else in another way."""
        kind = node.proto.op_type
        lowering = LOWERINGS.get(f"{domain}::{kind}" if domain else kind)
        if lowering is None:
            return self._otherwise(node, values, "there is no lowering of this kind of node")
        try:
            return _listed(lowering(node))
        except Unsettled as reason:
            return self._later(node, values, reason)
        except NotLowered as reason:
            return self._otherwise(node, values, str(reason))
        except SpecError as error:  # what the base vocabulary refuses, ONNX may allow
            return self._otherwise(node, values, str(error), error)

    def _later(self, node: Node, values: dict[str, Any], reason: Unsettled) -> Sequence[Any]:
        """The results of an OnnxNode, which is lowered once a call states its dims, as with dims that are known now."""
        try:
            return deferred(node, values, str(reason), reason)
        except UnloweredError:
            raise
        except FormatError:
            return self._otherwise(node, values, str(reason))

    def _in_newer_terms(self, nodes: Sequence[NodeProto], node: Node) -> Sequence[Any]:
        """The results of nodes of op set ``MODERN`` that mean what a node of an old op set means."""
        before = self.opsets
        self.opsets = {**before, "": MODERN}
        try:
            values = dict(node.scope) if graphs_of(node.proto) else {}
            values.update((name, input_) for name, input_ in zip(node.proto.input, node.inputs, strict=False) if name)
            self.run(nodes, values, node.where, node.depth + 1, node.where)
        finally:
            self.opsets = before
        return [values.get(name) for name in node.proto.output]

    def _otherwise(
        self, node: Node, values: dict[str, Any], reason: str, error: SpecError | None = None
    ) -> Sequence[Any]:
        """The results of a node without a lowering: by the function that defines it, or by a run of the node.

        ``reason`` says why there is no lowering, and ``error`` why the specification refuses the node.
        """
        body = expanded(node)
        if body is not None and (error is None or is_typed(node, values)):
            mark = self.fallbacks.mark()
            try:
                return self._called(body, node, body.node)
            except (NotLowered, OneGraphError) as other:
                self.fallbacks.forget(mark)
                reason = f"{reason}; its function: {other}"
        try:
            return computed_now(node, reason) if self.now else deferred(node, values, reason)
        except FormatError:
            if error is None:
                raise
            raise FormatError(node.where, without_hint(error), "a node that the specification of ONNX allows") from None

    def _called(self, function: FunctionProto, node: Node, ordered: Sequence[NodeProto] | None = None) -> Sequence[Any]:
        """The results of a function of the model, or of one that defines an op, whose nodes are in order."""
        values: dict[str, Any] = dict.fromkeys(function.input)
        values.update(zip(function.input, node.inputs, strict=False))
        defaults = function.attribute_proto if ordered is None else defaults_of(node)
        attributes = {default.name: default for default in (*defaults, *node.proto.attribute)}
        if ordered is None:
            ordered = self._ordered(function, function.input, f"{node.where}: ")
        nodes = [with_attributes(one, attributes) for one in ordered]
        before = self.opsets
        self.opsets = {**before, **{domain_of(one.domain): one.version for one in function.opset_import}}
        try:
            self.run(nodes, values, f"{node.where}: ", node.depth + 1)
        finally:
            self.opsets = before
        wanted = [*node.proto.output, *[""] * len(function.output)]
        missing = [name for name, used in zip(function.output, wanted, strict=False) if used and name not in values]
        if missing:
            raise NotLowered(f"the function makes no {missing[0]!r}")
        return [values.get(name) for name in function.output]

    def subgraph(
        self, graph: GraphProto, inputs: Sequence[Any], node: Node, body: BodyBuilder | None = None
    ) -> list[Any]:
        """The outputs of a graph in an attribute of a node, which sees the values around the node.

        The ops are added to ``body``, or to the graph around.
        """
        if body is not None:
            around = {name: node.scope[name] for name in captured(node.proto) if name in node.scope}
            inner, before = node.with_inputs(node.inputs), self.emit
            inner.scope = {name: _seen(value, body) for name, value in around.items()}
            self.emit = body.emit
            try:
                return self.subgraph(graph, inputs, inner)
            finally:
                self.emit = before
        where = f"{node.where}: graph {graph.name!r}"
        if len(inputs) != len(graph.input):
            raise FormatError(where, counted(len(graph.input), "input"), f"{len(inputs)}, as the node gives")
        values = {**node.scope, **self._initializers(graph, f"{where}: ")}
        values.update(zip([one.name for one in graph.input], inputs, strict=True))
        available = {one.name for one in (*graph.input, *graph.initializer)}
        self.run(self._ordered(graph, available, f"{where}: "), values, f"{where}: ", node.depth + 1)
        for end in graph.output:
            if end.name not in values:
                raise FormatError(where, f"output {end.name!r}", "the name of a value")
        return [values[one.name] for one in graph.output]


def _seen(value: Any, body: BodyBuilder) -> Any:
    """A value of the graph around a body as the body sees it."""
    if isinstance(value, TensorList):
        return TensorList([body.capture(one) for one in value])
    if isinstance(value, StackedList):
        return StackedList(body.capture(value.stack))
    if isinstance(value, GrowingList):
        raise NotLowered("a body reads a sequence to which a loop adds")
    return None if value is None else body.capture(value)


def _listed(returned: Any) -> Sequence[Any]:
    """The results of a node, of which a sequence of tensors is one."""
    return returned if isinstance(returned, (tuple, list)) and not isinstance(returned, SEQUENCES) else [returned]


def evaluated(model: ModelProto, arrays: Mapping[str, Array]) -> list[Array]:
    """The outputs of a model, for arrays by the names of its inputs.

    Raises:
        FormatError: the nodes are not valid, nothing computes them, or a result is no tensor.
    """
    importer = Importer(model, Storage(None, Pieces(), None), {}, {}, Evaluator(), now=True)
    values: dict[str, Any] = dict(arrays)
    importer.run(model.graph.node, values, "")
    outputs = [values[one.name] for one in model.graph.output]
    if any(one is None or isinstance(one, TensorList) for one in outputs):
        raise FormatError("a result", "a sequence, or an absent optional", "a tensor")
    return [np.asarray(one) for one in outputs]
