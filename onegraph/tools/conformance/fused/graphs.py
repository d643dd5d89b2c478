"""Makes graphs of the documented fusion patterns that are more than a chain, one for each choice of their ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....checker.check import check_graph
from ....graph import Graph
from ....ir.op import LogicalTensor
from ....opset.dtypes import DataType
from ....opset.editions.registry import edition_of_version
from ....opset.fusion_graphs import GRAPHS, REAL, FusionGraph, PatternOp
from ....opset.fusion_patterns import UNARY
from ....opset.signature import Version

ATTRS = {"Clamp": {"min": 0.25, "max": 1.0}, "Elu": {"alpha": 0.5}, "LeakyReLU": {"alpha": 0.125}}
ATTRS["HardSigmoid"] = {"alpha": 0.25, "beta": 0.5}
BY_TITLE = {pattern.title: pattern for pattern in GRAPHS}


def graph_choices(version: Version, names: Sequence[str] = ()) -> Iterator[tuple[str, tuple[str, ...], str, bool]]:
    """The title of the pattern, the kinds of its nodes and the data type of each case that an edition allows.

    The last of each tells whether the guide of the version has the pattern.

    Args:
        version: that of the library.
        names: ops that patterns are named after; all by default.
    """
    edition = edition_of_version(version)
    for pattern in GRAPHS:
        for dtype in pattern.dtypes if not names or pattern.main in names else ():
            for kinds in pattern.choices(dtype):
                if not check_graph(graph_of(pattern, kinds, dtype), edition=edition, library="none").errors:
                    yield pattern.title, kinds, dtype, pattern.is_documented(kinds, dtype, version)


def graph_of(pattern: FusionGraph, kinds: Sequence[str], dtype: str) -> Graph:
    """The graph of a case; its inputs are the arguments that its ops read."""
    graph = Graph()
    values: dict[str, LogicalTensor] = {}
    arguments: dict[str, LogicalTensor] = {}

    def value(name: str, kind: str, beside: LogicalTensor | None) -> LogicalTensor:
        if name in values:
            return values[name]
        if name not in arguments:
            tensor = pattern.arguments[name]
            own = {REAL: dtype, "same": beside.dtype.value if beside is not None else "f32"}
            dtype_of_source = "f32" if kind == "Quantize" else own.get(tensor.dtype, tensor.dtype)
            arguments[name] = graph.input(name, dtype_of_source, tensor.shape)
        return arguments[name]

    for node, kind in zip(pattern.nodes, kinds, strict=True):
        if not kind:
            inner = next((name for name in node.inputs if name in values), None)
            if inner is not None:
                values[node.name] = values[inner]
            else:
                values[node.name] = value(node.inputs[0], kind, None)
            continue
        first = next((values[name] for name in node.inputs if name in values), None)
        used = node.inputs[:1] if kind in UNARY else node.other_inputs.get(kind, node.inputs)
        values[node.name] = _added(graph, node, kind, [value(name, kind, first) for name in used], dtype)
    graph.output("dst", values[pattern.nodes[-1].name])
    return graph


def _added(graph: Graph, node: PatternOp, kind: str, inputs: Sequence[LogicalTensor], dtype: str) -> LogicalTensor:
    """The first result of a node; further ones are outputs of the graph."""
    result = {REAL: dtype, "": None}.get(node.result, node.result)
    attrs = {**ATTRS.get(kind, {}), **node.attrs.get(kind, {})}
    own = next((tensor.dtype for tensor in inputs if tensor.dtype is not DataType.boolean), DataType.f32)
    chosen = None if result is None or (result == own.value and kind != "Quantize") else result
    names = ["dst", "stats"][: node.outputs] if kind == "SoftMax" else None
    made = graph.op(kind, list(inputs), attrs, dtype=chosen, outputs=names)
    if node.outputs == 1:
        single: LogicalTensor = made
        return single
    graph.output(node.name, made[1])
    first: LogicalTensor = made[0]
    return first
