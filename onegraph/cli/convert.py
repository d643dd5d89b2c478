"""``onegraph convert``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..errors import ArgumentError
from ..spec.editions import EDITIONS
from .options import FilePath, Source, graph_file, json_option, written


@click.command()
@graph_file
@click.option("-o", "--output", type=FilePath(), metavar="OUT", help="Where it goes: .json or .py; stdout by default.")
@click.option(
    "--edition", type=click.Choice(EDITIONS), metavar="NAME", help="Say the graph in the words of another edition."
)
@click.option("--for-version", metavar="3.2", help="JSON that this version of oneDNN reads.")
@json_option
def command(source: Source, output: str | None, edition: str | None, for_version: str | None, as_json: bool) -> None:
    """Convert the graph in FILE: JSON to the Python code that builds it, and back; another edition, version or shape.

    A FILE that ends in .py is RUN, as python FILE runs it, and the graph is its variable g. JSON is read and never run.
    Constants go to an .npz file beside the output. Without -o the other form is printed.
    """
    from ..codegen import load_python, save_python, to_python
    from ..harness import rewrite
    from ..translation import translate_graph

    is_python = source.path.endswith(".py")
    if is_python:
        graph = load_python(source.path)
        graph = rewrite(graph, **source.rewrites) if source.rewrites else graph
    else:
        graph = source.load()
    if edition is not None:
        graph = translate_graph(graph, edition)
    to_code = not is_python if output is None or output == "-" else output.endswith(".py")
    if to_code and for_version is not None:
        raise ArgumentError("--for-version: it is JSON that versions differ in; expected an output that ends in .json")
    if output is not None and output != "-":
        if Path(output).resolve() == Path(source.path).resolve():
            raise ArgumentError(f"-o: {output!r} is the input; expected another file")
        if to_code:
            save_python(graph, output)
        else:
            graph.save(output, for_version=for_version)
        if as_json:
            click.echo(written(graph, output))
        return
    if any(tensor.constant for tensor in graph._tensors) and (not to_code or to_python(graph)[1]):
        raise ArgumentError("this graph has constants, which go to a file beside the output; give -o OUT")
    text = to_python(graph)[0] if to_code else graph.to_json(for_version=for_version)
    if as_json and to_code:
        text = json.dumps({"code": text}) + "\n"
    click.echo(text, nl=not to_code)
