"""Makes the HTML and SVG of a graph for notebooks."""

from __future__ import annotations

from html import escape

from .._util.counted import counted
from ..builder.graph import DataGraph, expect_graph
from ..errors import UnsupportedError
from .document import embedded
from .picture import svg

# Largest number of ops for which a notebook gets the frame or the SVG. The frame has 150 kB plus 600 bytes for each op;
# the SVG has 1,300 bytes and takes up to 5 ms to draw for each op.
FRAME, PICTURE = 1500, 300


def notebook_html(graph: DataGraph) -> str:
    """The page of a graph in a frame; a text summary if the graph has too many ops."""
    expect_graph(graph)
    return embedded(graph) if len(graph.ops) <= FRAME else f"<pre>{escape(summary(graph))}</pre>"


def notebook_svg(graph: DataGraph) -> str | None:
    """The SVG of a graph; None if it has too many ops, or the extra ``view`` is not installed."""
    expect_graph(graph)
    if len(graph.ops) > PICTURE:
        return None
    try:
        return svg(graph)
    except UnsupportedError:
        return None


def summary(graph: DataGraph) -> str:
    """A summary of a large graph in a few lines: the number of ops of each kind, the inputs and the outputs."""
    kinds: dict[str, int] = {}
    for op in graph.ops:
        kinds[op.kind] = kinds.get(op.kind, 0) + 1
    common = sorted(kinds.items(), key=lambda item: -item[1])
    lines = [f"Graph of {counted(len(graph.ops), 'op')}, edition {graph.edition}"]
    lines += [f"{count:8,}  {kind}" for kind, count in common[:20]]
    lines += [f"          and {len(common) - 20} other kinds"] if len(common) > 20 else []
    ports = {"inputs": graph.inputs, "variables": graph.variables, "outputs": graph.outputs}
    lines += [f"{what}: {_names(list(names))}" for what, names in ports.items() if names or what != "variables"]
    return "\n".join([*lines, "onegraph.view.page(graph) draws it"])


def _names(names: list[str]) -> str:
    return ", ".join(names[:20]) + (f", and {len(names) - 20} more" if len(names) > 20 else "")
