"""Draws a graph as SVG, with the same scripts as the page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .._util.tracebacks import ends_traceback
from .._util.validation import flag
from ..errors import UnsupportedError, Violation
from .document import asset, script_json
from .model import ReportLike, Times, model

if TYPE_CHECKING:
    from ..builder.graph import DataGraph

SCRIPTS = ("dagre.min.js", "layout.js", "draw.js")
# Stack limit of the interpreter in bytes, beyond which it raises; dagre recurses once for each rank of a band.
STACK = 2 * 1024 * 1024
# The only browser function that dagre needs.
PRELUDE = "globalThis.structuredClone = value => JSON.parse(JSON.stringify(value));"


@ends_traceback
def svg(
    graph: DataGraph,
    report: ReportLike | Mapping[str, object] | None = None,
    violations: Iterable[Violation] | None = None,
    times: Times | None = None,
    *,
    title: str = "graph",
    collapse: bool = False,
) -> str:
    """An SVG document of a graph, drawn as :func:`page` draws it.

    Args:
        graph: the graph.
        report: ``Executable.report()``, for the partitions.
        violations: result of ``check_graph``.
        times: seconds of one run of each partition, in the order of the report or by index.
        title: text for screen readers.
        collapse: True draws each partition of several ops as one box.

    Raises:
        UnsupportedError: the interpreter of the extra ``view`` is not installed.
        ArgumentError: an argument has the wrong type.
    """
    flag("collapse", collapse)
    try:
        import quickjs
    except ImportError:
        raise UnsupportedError(
            "svg needs the JavaScript interpreter of the extra 'view': pip install 'onegraph[view]'; "
            "Graph.to_dot() and the page need nothing"
        ) from None
    context = quickjs.Context()
    context.set_max_stack_size(STACK)
    for text in (PRELUDE, *map(asset, SCRIPTS)):
        context.eval(text)
    context.set("given", script_json(model(graph, report, violations, times, title=title)))
    context.set("style", asset("graph.css"))
    places = "model.partitions.keys()" if collapse else ""
    drawn = context.eval(
        "(() => { const model = JSON.parse(given);"
        f" return JSON.stringify(draw.svg(model, draw.usual(model), style, new Set({places}))); }})()"
    )
    return str(json.loads(drawn))
