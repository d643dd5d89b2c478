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
    refusals = [*[name for name, value in refused.items() if value], *["two variants"] * (len(variants) > 1)]
    if refusals or len({*names}) < len(names):
        raise click.BadParameter(
            f"--size: {', '.join(refusals) or 'a dim is given twice'}; expected each dim once, alone"
        )
    combinations = [dict(zip(names, some, strict=True)) for some in itertools.product(*[some for _, some in sizes])]
    measurements = bench_sizes(graph, combinations, variants[0], **options)
    if as_json:
        emit([_facts(one) for one in measurements])
    else:
        _show(measurements)


def _facts(measurement: SizeMeasurement) -> dict[str, object]:
    return {
        "sizes": dict(measurement.sizes),
        "first": measurement.first,
        "median": measurement.median,
        "made": measurement.made,
        "partitions": measurement.partitions,
        "reason": measurement.reason,
        "samples": list(measurement.samples),
    }


def _show(measurements: Sequence[SizeMeasurement]) -> None:
    titles = [*measurements[0].sizes, "first call>", "median later>", "runs>", "program", "partitions compiled>", "why"]
    titles[: len(measurements[0].sizes)] = [f"{name}>" for name in measurements[0].sizes]
    rows = [
        [
            *measurement.sizes.values(),
            duration(measurement.first),
            duration(measurement.median),
            f"{len(measurement.samples):,}",
            measurement.made,
            measurement.partitions,
            measurement.reason,
        ]
        for measurement in measurements
    ]
    print_rich(table(titles, rows))
