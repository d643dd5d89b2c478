"""``onegraph view``."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import LibraryError
from ..whole import write_whole
from .options import Compiling, FilePath, Integer, Source, compiling, graph_file, json_option
from .terminal import emit, progress


@click.command()
@graph_file
@click.option(
    "-o",
    "--output",
    type=FilePath(allow_dash=True),
    metavar="PAGE.html",
    help="FILE with .html, in the working directory, by default; - for standard output.",
)
@click.option(
    "--profile", "profiled", is_flag=True, help="Run it on random inputs, and colour partitions by their time."
)
@click.option("--seed", type=Integer(min=0), default=0, metavar="N", show_default=True, help="Of random data.")
@compiling
@json_option
def command(source: Source, output: str | None, profiled: bool, seed: int, compiling: Compiling, as_json: bool) -> None:
    """Write a page that shows the graph in FILE: to zoom, search and click through in a browser, without a network.

    It has the ops with their attributes and shapes, what is fused and what runs on numpy, and what check finds.
    """
    from ..check import check_graph
    from ..view import page

    graph = source.load()
    violations = check_graph(graph)
    report, times = None, None
    with progress("view") as tell:
        try:
            model = graph.compile(**compiling._asdict()) if graph.outputs or profiled else None
            report = None if model is None else model.report()
        except LibraryError as error:
            if profiled:
                raise
            click.echo(f"onegraph: without partitions: {error}", err=True)
        if profiled and model is not None:
            from ..inputs import random_inputs

            times = model.profile(*random_inputs(graph, seed, tell).values())
            report = model.report()
        text = page(graph, report=report, violations=violations, times=times, title=Path(source.path).stem or "graph")
    if output == "-":
        if as_json:
            raise click.UsageError("--json and a page on standard output exclude each other")
        click.echo(text)
        return
    target = Path(output or f"{Path(source.path).stem if source.path != '-' else 'graph'}.html")
    write_whole(target, lambda stream: stream.write(text.encode()))
    if as_json:
        emit({"page": str(target), "bytes": len(text.encode()), "ops": len(graph.ops), "violations": len(violations)})
    else:
        click.echo(str(target))
