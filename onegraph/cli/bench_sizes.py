"""The times of ``onegraph bench`` for several sizes of unknown dims."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..graph import Graph
from .terminal import duration, emit, print_rich, table

if TYPE_CHECKING:
    from ..tools.bench import Variant
    from ..tools.bench_sizes import SizeMeasurement


class DimSizes(click.ParamType[Any]):
    """The name of an unknown dim, and its sizes: NAME=N,..."""

    name = "sizes"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, list[int]]:
        """The name and the sizes."""
        name, _, numbers = str(value).rpartition("=")
        if not name or not all(number.strip().isdecimal() for number in numbers.split(",")):
            self.fail(f"{value!r}; expected a dim and its sizes, as batch=1,2,7", param, ctx)
        return name, [int(number) for number in numbers.split(",")]


size_option = click.option(
    "--size",
    "sizes",
    type=DimSizes(),
    multiple=True,
    metavar="DIM=N,...",
    help="Sizes of an unknown dim: its name in an ONNX model, or INPUT:AXIS. Of several dims, all combinations.",
)


def show_sizes(
    graph: Graph,
    sizes: Sequence[tuple[str, list[int]]],
    variants: Sequence[Variant],
    refused: Mapping[str, object],
    as_json: bool,
    **options: Any,
) -> None:
    """Time all combinations of sizes, and print a table or JSON.

    Args:
        graph: with unknown dims.
        sizes: of each dim.
        variants: of the compilation, of which there must be one.
        refused: options that cannot be given with sizes, by name; false where they are not.
        as_json: whether to print JSON.
        options: of ``bench_sizes``.
    """
    from ..tools.bench_sizes import bench_sizes

    names = [name for name, _ in sizes]
    given = [*[name for name, value in refused.items() if value], *["two variants"] * (len(variants) > 1)]
    if given or len({*names}) < len(names):
        raise click.BadParameter(f"--size: {', '.join(given) or 'a dim is given twice'}; expected each dim once, alone")
    combinations = [dict(zip(names, some, strict=True)) for some in itertools.product(*[some for _, some in sizes])]
    found = bench_sizes(graph, combinations, variants[0], **options)
    if as_json:
        emit([_facts(one) for one in found])
    else:
        _show(found)


def _facts(one: SizeMeasurement) -> dict[str, object]:
    return {
        "sizes": dict(one.sizes),
        "first": one.first,
        "median": one.median,
        "made": one.made,
        "partitions": one.partitions,
        "reason": one.reason,
        "samples": list(one.samples),
    }


def _show(found: Sequence[SizeMeasurement]) -> None:
    titles = [*found[0].sizes, "first call>", "median later>", "runs>", "program", "partitions compiled>", "why"]
    titles[: len(found[0].sizes)] = [f"{name}>" for name in found[0].sizes]
    rows = [
        [
            *one.sizes.values(),
            duration(one.first),
            duration(one.median),
            f"{len(one.samples):,}",
            one.made,
            one.partitions,
            one.reason,
        ]
        for one in found
    ]
    print_rich(table(titles, rows))
