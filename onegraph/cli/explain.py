"""Implements ``onegraph explain``."""

from __future__ import annotations

import click

from .graph_source import GraphSource
from .once import OnceCommand
from .options import Compiling, InputData, compiling, data, graph_file, json_option
from .terminal import emit, progress
from .value_types import Integer


@click.command(cls=OnceCommand)
@graph_file
@data
@compiling
@click.option("--runs", type=Integer(min=1, max=10**6), default=10, show_default=True, help="Measured runs.")
@click.option("--kernels", is_flag=True, help="Name oneDNN's kernels too, which another process finds in a second.")
@json_option
def command(
    source: GraphSource, data: InputData, compiling: Compiling, runs: int, kernels: bool, as_json: bool
) -> None:
    """Say what each op of the graph in FILE costs, and why its ops are not fused. - is standard input.

    The times of ops and partitions stand beside what this machine can do: multiply-adds beside the fastest product of
    matrices, bytes beside the bandwidth of its memory. These two are measured once and kept in the cache folder,
    on an idle machine. Where a step moves more bytes than the memory can, which caches then hold, there is "cache".

    For each tensor between two partitions there is the reason why the two are not one: a second consumer, no pattern
    and the nearest one, a data type, a fault of oneDNN by its name, a kernel of the package or of numpy.
    """
    graph = source.load_to_run()
    with progress("explain") as tell:
        model = graph.compile(**compiling._asdict())
        arrays = data.read(graph, tell)
        explanation = model.explain(*arrays.values(), runs=runs, implementations=kernels)
    if as_json:
        emit(explanation.to_dict())
    else:
        click.echo(str(explanation))
