"""Implements ``onegraph random``."""

from __future__ import annotations

import click

from ..opset.editions.registry import DEFAULT
from .graph_source import save_graph
from .once import OnceCommand
from .options import graph_output, json_option, written
from .value_types import EditionName, Integer


@click.command(cls=OnceCommand)
@click.option("--seed", type=Integer(), default=0, show_default=True, help="Seed of all random choices.")
@click.option(
    "--ops", type=Integer(min=1, max=10_000), default=10, show_default=True, metavar="N", help="Number of ops."
)
@click.option("--dtypes", metavar="f32,bf16,…", help="Data types of activations and weights.  [f32,bf16,s8,u8]")
@click.option("--kinds", metavar="MatMul,ReLU,…", help="Ops to choose from; by default all but Wildcard.")
@click.option(
    "--edition",
    type=EditionName(),
    default=DEFAULT,
    metavar="NAME",
    show_default=True,
    help="Edition of the ops.",
)
@graph_output
@json_option
def command(
    seed: int, ops: int, dtypes: str | None, kinds: str | None, edition: str, output: str | None, as_json: bool
) -> None:
    """Make a random valid graph: branches, several outputs, small shapes. The same seed gives the same graph.

    Constants go to an .npz file beside the output; without -o they become inputs that are marked as constant.
    """
    from ..testing.random_graph import DTYPES, random_graph

    chosen = DTYPES if dtypes is None else dtypes.split(",")
    graph = random_graph(seed, ops, dtypes=chosen, kinds=None if kinds is None else kinds.split(","), edition=edition)
    if output is None or output == "-":  # the text is already JSON
        click.echo(graph.to_json())
        return
    save_graph(graph, output)
    if as_json:
        click.echo(written(graph, output))
