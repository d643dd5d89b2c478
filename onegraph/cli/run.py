"""Implements ``onegraph run``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
import numpy as np

from ..opset.dtypes import OF_NUMPY
from ..serialize import with_known
from .graph_source import GraphSource
from .once import OnceCommand
from .options import (
    Compiling,
    InputData,
    bare_option,
    compiling,
    data,
    graph_file,
    json_option,
    trace_option,
    write_trace,
)
from .terminal import dims, emit, print_rich, progress, table

if TYPE_CHECKING:
    from ..graph import Graph
    from ..ir.op import Array


@click.command(cls=OnceCommand)
@graph_file
@data
@compiling
@bare_option
@trace_option
@json_option
def command(
    source: GraphSource, data: InputData, compiling: Compiling, bare: bool, trace: str | None, as_json: bool
) -> int | None:
    """Compile the graph in FILE, run it once, and summarise the results. - is standard input.

    Inputs are random numbers in the domain of the ops that read them, or the arrays of an .npz file by name. Inputs
    that FILE marks as constant are constant here too: the library prepares them once.

    With --bare, exit status 1 if the library does not run the graph.
    """
    graph = source.load_to_run()
    if bare:
        return _run_bare(graph, data, compiling, as_json)
    if trace is not None:
        source.keep("--trace", trace, graph)
    with progress("run") as tell:
        graph, inputs = with_known(graph, data.read(graph, tell))
        tell(0, 0)
        model = graph.compile(**compiling._asdict())
        results = model(*inputs.values())
        start = time.perf_counter()
        results = model(*inputs.values())
        seconds = time.perf_counter() - start
    if trace is not None:
        write_trace(trace, {"onegraph": model.profile(*inputs.values(), runs=1, implementations=True)})
    outputs = model._interface.by_name(results)
    data.write(outputs)
    facts = [{"name": name, **summary(array)} for name, array in outputs.items()]
    report = model.report()
    if as_json:
        emit({"outputs": facts, "seconds": seconds, "report": report.to_dict()})
        return None
    columns = ("output", "dtype", "shape=", "min>", "max>", "mean>", "not finite>")
    print_rich(table(columns, [[fact["name"], fact["dtype"], *_cells(fact)] for fact in facts]), str(report))
    return None


def _run_bare(graph: Graph, data: InputData, compiling: Compiling, as_json: bool) -> int:
    """Run the library as it is, print what came of it, and return the exit status."""
    from ..tools.bare import run_bare

    with progress("run") as tell:
        graph, inputs = with_known(graph, data.read(graph, tell))
        results = run_bare(graph, inputs, policy=compiling.policy, fpmath_mode=compiling.fpmath_mode)
    data.write(results.results)
    facts = [{"name": name, **summary(array)} for name, array in results.results.items()]
    if as_json:
        emit({**results.to_dict(), "outputs": facts})
    elif results.results:
        columns = ("output", "dtype", "shape=", "min>", "max>", "mean>", "not finite>")
        rows = [[fact["name"], fact["dtype"], *_cells(fact)] for fact in facts]
        print_rich(table(columns, rows), results.text())
    else:
        click.echo(results.text())
    return 0 if results.results else 1


def summary(array: Array) -> dict[str, object]:
    """The summary of an array: data type, shape, and minimum, maximum and mean of its finite elements."""
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    return {
        "dtype": str(OF_NUMPY[array.dtype]),
        "shape": list(array.shape),
        "min": float(finite.min()) if finite.size else None,
        "max": float(finite.max()) if finite.size else None,
        "mean": float(finite.mean()) if finite.size else None,
        "not_finite": int(wide.size - finite.size),
    }


def _cells(fact: dict[str, object]) -> list[str]:
    shape = fact["shape"]
    assert isinstance(shape, list)
    numbers = [_number(fact[key]) for key in ("min", "max", "mean")]
    return [dims(shape), *numbers, str(fact["not_finite"] or "")]


def _number(value: object) -> str:
    return f"{value + 0.0:.6g}" if isinstance(value, float) else ""  # prints -0.0 as 0
