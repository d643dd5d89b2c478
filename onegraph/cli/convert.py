"""Implements ``onegraph convert``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..errors import ArgumentError
from . import note
from .graph_source import GraphSource, cut_at_wildcards, save_graph
from .once import OnceCommand
from .options import graph_file, graph_output, json_option, written
from .value_types import EditionName


@click.command(cls=OnceCommand)
@graph_file
@graph_output
@click.option("--edition", type=EditionName(), metavar="NAME", help="Translate the graph to another edition.")
@click.option(
    "--for", "--for-version", "for_version", metavar="3.2", help="Write JSON that this version of oneDNN reads."
)
@click.option(
    "--without-wildcards", "cut", is_flag=True, help="Remove Wildcards: their outputs become inputs, and the reverse."
)
@json_option
def command(
    source: GraphSource, output: str | None, edition: str | None, for_version: str | None, cut: bool, as_json: bool
) -> None:
    """Convert the graph in FILE: JSON, Python code that builds it, ONNX or C++; or to another edition or shape.

    An OUT that ends in .cpp is a program that needs the headers of oneDNN alone. It runs the graph on random inputs in
    the library as it is, and prints where outputs differ from the numpy reference.

    A FILE that ends in .py is RUN, as python FILE runs it, and the graph is its variable g. JSON is read and never run.
    Constants go to an .npz file beside the output. Without -o the other format is printed; with --for-version, JSON.
    """
    from ..tools.python_code import load_python, to_python, unsaid
    from ..transform.translate_graph import translate_graph

    is_python = source.path.endswith(".py")
    if is_python:
        graph = load_python(source.path)
        graph = source.rewritten(cut_at_wildcards(graph) if cut else graph)
    else:
        graph = source.load(cut=cut)
    if edition is not None:
        graph = translate_graph(graph, edition)
    to_onnx = str(output).endswith((".onnx", ".cpp"))  # without a file for constants
    printed = output is None or output == "-"
    to_code = not is_python and for_version is None if printed else str(output).endswith(".py")
    if (to_code or to_onnx) and for_version is not None:
        raise ArgumentError("--for-version: it is JSON that versions differ in; expected an output that ends in .json")
    missing = unsaid(graph) if to_code else ""
    if missing:
        note(f"Python code has no word for {missing}; left out")
    if output is not None and not printed:
        source.keep("-o", output)
        if any(tensor.constant for tensor in graph._tensors) and not to_onnx:
            source.keep("-o", Path(f"{output}.npz") if to_code else Path(output).with_suffix(".npz"), graph)
        save_graph(graph, output, for_version)
        if as_json:
            click.echo(written(graph, output))
        return
    if any(tensor.constant for tensor in graph._tensors) and (not to_code or to_python(graph)[1]):
        raise ArgumentError("this graph has constants, which go to a file beside the output; give -o OUT")
    text = to_python(graph)[0] if to_code else graph.to_json(for_version=for_version)
    if as_json and to_code:
        text = json.dumps({"code": text}) + "\n"
    # In the encoding of files, not in that of the terminal.
    click.echo(text.encode(errors="backslashreplace"), nl=not to_code)
