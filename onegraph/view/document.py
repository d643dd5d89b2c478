"""Writes the HTML page of a graph: one file that contains everything it needs and loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from .._util.tracebacks import ends_traceback
from .._util.validation import integer
from ..errors import Violation
from .model import Record, ReportLike, Times, model

if TYPE_CHECKING:
    from ..builder.graph import DataGraph

SCRIPTS = ("dagre.min.js", "layout.js", "draw.js", "camera.js", "panel.js", "page.js")


@ends_traceback
def page(
    graph: DataGraph,
    report: ReportLike | Mapping[str, object] | None = None,
    violations: Iterable[Violation] | None = None,
    times: Times | None = None,
    *,
    title: str = "graph",
) -> str:
    """A self-contained HTML page of a graph, with zoom, search and details on click.

    Args:
        graph: the graph.
        report: ``Executable.report()``; partitions are coloured, and fused ops and ops that run in numpy are marked.
        violations: result of ``check_graph``; each violation is shown at its op.
        times: seconds of one run of each partition, in the order of the report or by index; shown as heat.
        title: heading of the page.

    Raises:
        ArgumentError: an argument has the wrong type.
    """
    data = model(graph, report, violations, times, title=title, specification=True)
    return _document({**data, "embedded": False}, str(data["title"]))


def embedded(graph: DataGraph, *, height: int = 520) -> str:
    """The page as an ``iframe`` for a notebook, ``height`` pixels high.

    The frame is sandboxed: it has its own origin and cannot access the notebook.
    """
    height = integer("height", height, 1, 2**15)
    data = model(graph, specification=True)
    inner = escape(_document({**data, "embedded": True}, "graph"))
    style = f"width:100%;height:{height}px;border:1px solid #8884;border-radius:8px"
    return f'<iframe title="graph" sandbox="allow-scripts allow-downloads" style="{style}" srcdoc="{inner}"></iframe>'


@cache
def asset(name: str) -> str:
    """The text of a file under ``assets``."""
    text = (files(__package__) / "assets" / name).read_text(encoding="utf-8")
    # Without this line browsers would try to load the source map of a minified script.
    return text.replace(f"//# sourceMappingURL={name}.map", "")


@cache
def _template() -> Template:
    """The page without its data. Its content security policy only allows the scripts of this package, by hash."""
    scripts = [f"\n{asset(name).strip()}\n" for name in SCRIPTS]
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    fixed = {
        "hashes": " ".join(f"'sha256-{digest}'" for digest in hashes),
        "style": asset("page.css"),
        "drawing": asset("graph.css"),
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts).replace("$", "$$"),
    }
    return Template(Template(asset("page.html")).safe_substitute(fixed))


def _document(data: Record, title: str) -> str:
    heading = escape(title.encode("utf-8", "replace").decode())  # a lone surrogate cannot be written to a file
    return _template().substitute(title=heading, model=script_json(data))


def script_json(data: object) -> str:
    """JSON text that is safe inside a script element, whatever strings it contains."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
