"""Implements ``onegraph view``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from .._util.atomic_write import write_atomically
from ..checker.check import check_graph
from ..errors import LIBRARY, UNSAFE, LibraryError, UnsupportedError, Violation
from . import note
from .graph_source import GraphSource
from .once import OnceCommand
from .options import Compiling, InputData, compiling, graph_file, json_option
from .terminal import emit, progress
from .value_types import Integer, OutputPath


@click.command(cls=OnceCommand)
@graph_file
@click.option(
    "-o",
    "--output",
    type=OutputPath(".html", ".htm", allow_dash=True),
    metavar="PAGE.html",
    help="Output file; by default FILE with .html, in the working directory; - is standard output. In Python, "
    "onegraph.view.svg draws an SVG.",
)
@click.option(
    "--profile",
    "profiled",
    is_flag=True,
    help="Run the graph on random inputs, colour and sort partitions by their time, and mark reference kernels.",
)
@click.option("--seed", type=Integer(min=0), default=0, metavar="N", show_default=True, help="Seed of random data.")
@compiling
@click.option("--no-compile", is_flag=True, help="Show only the file, without partitions; needs no library.")
@json_option
def command(
    source: GraphSource,
    output: str | None,
    profiled: bool,
    seed: int,
    compiling: Compiling,
    no_compile: bool,
    as_json: bool,
) -> None:
    """Write an HTML page that shows the graph in FILE, with zoom, search and details on click; it needs no network.

    It shows the ops with attributes and shapes, fused ops, ops that run in numpy, and violations that check finds.
    What the library lacks or gets wrong stands in the details of an op, not among the violations.
    """
    from ..view import page

    if profiled and no_compile:
        raise click.UsageError("--profile or --no-compile, not both")
    if output == "-" and as_json:
        raise click.UsageError("--json and a page on standard output exclude each other")
    graph = source.load(contents=False)
    target = Path(output or f"{Path(source.path).stem if source.path != '-' else 'graph'}.html")
    if output != "-":
        source.keep("-o", target, graph)
    violations = check_graph(graph)
    report, times = None, None
    with progress("view") as tell:
        try:
            runs = graph.without_wildcards()
            wanted = (runs.outputs or profiled) and not no_compile
            model = runs.compile(**compiling._asdict()) if wanted else None
            report = None if model is None else model.report()
        except (LibraryError, UnsupportedError) as error:
            if profiled:
                raise
            note(f"without partitions: {error}")
        if profiled and model is not None:
            times = model.profile(*InputData(source, None, None, seed).read(runs, tell).values())
            report = model.report(implementations=True)
        text = page(graph, report=report, violations=violations, times=times, title=Path(source.path).stem or "graph")
    # Names may have lone surrogates, which UTF-8 cannot encode.
    content = text.encode(errors="backslashreplace")
    if output == "-":
        click.echo(content)
        return
    write_atomically(target, lambda stream: stream.write(content))
    if as_json:
        emit({"page": str(target), "bytes": len(content), "ops": len(graph.ops), **_counts(violations)})
    else:
        click.echo(str(target))


def _counts(violations: Sequence[Violation]) -> dict[str, int]:
    """The number of violations, and of limits of the library, which the executable goes around."""
    limits = sum(violation.severity in (LIBRARY, UNSAFE) for violation in violations)
    return {"violations": len(violations) - limits, "limits": limits}
