"""Writes a graph in the dot language of Graphviz."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from .._util.tracebacks import ends_traceback
from ..builder.graph import DataGraph, snapshot
from ..errors import ERROR, Violation
from ..ir.op import LogicalTensor, Op
from ..opset.shapes import show
from .model import Record, ReportLike, Times, model


@ends_traceback
def dot(
    graph: DataGraph,
    report: ReportLike | Mapping[str, object] | None = None,
    violations: Iterable[Violation] | None = None,
    times: Times | None = None,
    *,
    title: str = "graph",
) -> str:
    """The text of a graph in the dot language.

    Partitions of several ops are clusters, and ops that run in numpy are dashed. Constants are gray, and so are inputs
    that are declared constant.

    Args:
        graph: the graph.
        report: ``Executable.report()``, for the partitions.
        violations: result of ``check_graph``; the ops that break the specification are outlined in red.
        times: seconds of one run of each partition, in the order of the report or by index.
        title: name of the graph.

    Raises:
        ArgumentError: an argument has the wrong type.
    """
    graph = snapshot(graph)._as_step()
    data = model(graph, report, violations, times, title=title)
    return "\n".join(_lines(graph, data, str(data["title"]))) + "\n"


def _lines(graph: DataGraph, data: Record, title: str) -> Iterator[str]:
    yield f"digraph {quoted(title)} {{"
    yield '  node [shape=box, style="rounded,filled", fillcolor="white", fontname="sans-serif"];'
    yield '  edge [fontname="sans-serif", fontsize=10];'
    ops, partitions = data["ops"], data["partitions"]
    assert isinstance(ops, list)
    assert isinstance(partitions, list)
    for place, partition in enumerate(partitions):
        members = [number for number in partition["ops"] if ops[number]["partition"] == place]
        seconds = "" if partition["seconds"] is None else f", {partition['seconds'] * 1e6:.3g} us"
        if len(members) > 1:
            yield f"  subgraph cluster_{place} {{"
            label = f"partition {partition['index']}, {partition['executor']}{seconds}"
            yield f"    label={quoted(label)};"
            yield from (f"    op_{number};" for number in members)
            yield "  }"
    for number, op in enumerate(graph.ops):
        record = ops[number]
        marks = ', style="rounded,filled,dashed"' if record["numpy"] else ""
        is_wrong = any(found["severity"] == ERROR for found in record["violations"])
        marks += ', color="red", penwidth=2' if is_wrong else ""
        yield f"  op_{number} [label={quoted(op.kind, op.name)}, tooltip={quoted(*_tooltip(op))}{marks}];"
    yield from _ends(graph)


def _ends(graph: DataGraph) -> Iterator[str]:
    """The nodes of graph inputs, constants and outputs, and all edges."""
    sources = {tensor.id: f"op_{number}" for number, op in enumerate(graph.ops) for tensor in op.outputs}
    for name, tensor in graph.inputs.items():
        sources[tensor.id] = f"input_{tensor.id}"
        constant = ', fillcolor="gray95"' if name in graph.constant_inputs else ""
        yield f"  input_{tensor.id} [label={quoted(name, _type(tensor))}, shape=oval{constant}];"
    for number, op in enumerate(graph.ops):
        for tensor in (given for given in op.inputs if given is not None):
            if tensor.id not in sources:
                sources[tensor.id] = f"constant_{tensor.id}"
                label = quoted(tensor.name, _type(tensor))
                yield f'  constant_{tensor.id} [label={label}, shape=oval, fillcolor="gray95"];'
            label = f" [label={quoted(_type(tensor))}]" if sources[tensor.id].startswith("op_") else ""
            yield f"  {sources[tensor.id]} -> op_{number}{label};"
    for place, (name, tensor) in enumerate(graph.outputs.items()):
        yield f"  output_{place} [label={quoted(name, _type(tensor))}, shape=oval, penwidth=2];"
        if tensor.id in sources:
            yield f"  {sources[tensor.id]} -> output_{place};"
    yield "}"


def _type(tensor: LogicalTensor) -> str:
    return f"{tensor.dtype} {show(tensor.shape)}"


def _tooltip(op: Op) -> list[str]:
    return [f"{name}: {value}" for name, value in op.attrs.items()] or [op.kind]


# Control characters and lone surrogates, which cannot be written to a file.
_UNFIT = re.compile("[\x00-\x1f\ud800-\udfff]")


def quoted(*lines: str) -> str:
    """A quoted string of the dot language with one or more lines; quotes and backslashes are escaped."""
    plain = (_UNFIT.sub("\ufffd", line) for line in lines)
    return '"' + "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in plain) + '"'
