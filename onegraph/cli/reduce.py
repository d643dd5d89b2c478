"""Implements ``onegraph reduce``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .._util.counted import counted
from ..errors import ArgumentError, OneGraphError
from .graph_source import GraphSource
from .once import OnceCommand
from .options import Compiling, bare_option, compiling, graph_file, json_option
from .terminal import emit, progress
from .value_types import Integer, Number, OutputPath

if TYPE_CHECKING:
    from ..graph import Graph


@click.command(cls=OnceCommand)
@graph_file
@compiling
@click.option("--command", metavar="'PROG {}'", help="Program that gets the path of a JSON file and fails for it.")
@click.option("--seed", type=Integer(min=0), default=0, show_default=True, metavar="N", help="Seed of the inputs.")
@click.option(
    "--time-limit",
    type=Number(min=0.1, max=86400),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Limit for one run; a longer run counts as a hang.",
)
@click.option(
    "--max-tests", type=Integer(min=1), default=2000, show_default=True, metavar="N", help="Maximum number of runs."
)
@click.option(
    "-o", "--output", type=OutputPath(".json"), metavar="OUT.json", help="Output file; by default FILE.reduced.json."
)
@bare_option
@json_option
def command(
    source: GraphSource,
    compiling: Compiling,
    command: str | None,
    seed: int,
    time_limit: float,
    max_tests: int,
    output: str | None,
    bare: bool,
    as_json: bool,
) -> int:
    """Make the graph in FILE smaller while it keeps failing in the same way.

    The graph runs in a separate process. A failure is a crash, a hang, an exception, or a result that differs from the
    numpy reference; with --command, it is an exit status of your program other than 0. With --bare, the library
    as it is runs the graph, so that its own faults show. The smallest graph found is
    written as JSON and printed as Python code, or with --bare as a C++ program against oneDNN's headers, with a line
    for benchdnn, oneDNN's test program.

    Exit status 1 if nothing fails.
    """
    from ..tools.failure_probe import Prober
    from ..tools.reduce import reduce

    if bare and command is not None:
        raise click.UsageError("--bare or --command, not both")
    graph = source.load_to_run(cut=command is None)  # the user's program may need the Wildcards
    stem = "graph.json" if source.path == "-" else source.path
    path = Path(output) if output is not None else Path(stem).with_suffix(".reduced.json")
    for written in (path, path.with_suffix(".npz")):
        source.keep("-o", written, graph)
    from ..runtime.compile_options import compile_options  # last, because it needs the library

    compile_options(graph, **compiling._asdict())  # otherwise a wrong option would count as a failure of every graph
    with Prober(command=command, seed=seed, options=compiling._asdict(), time_limit=time_limit, bare=bare) as prober:
        failure = prober.failure(graph)
        if failure is None:
            emit({"fails": False}) if as_json else click.echo("the graph does not fail")
            return 1

        def fails(candidate: Graph) -> bool:
            try:
                return prober.failure(candidate) == failure
            except ArgumentError:  # random inputs cannot be made
                return False

        with progress("reduce") as tell:
            smallest = reduce(
                graph,
                fails,
                progress=lambda tests, best: tell(tests, 0, f"{failure.kind}, {counted(len(best.ops), 'op')} left"),
                max_tests=max_tests,
            )
    smallest.save(path)
    # oneDNN 3.2 does not read the mode from the file.
    mode = compiling.fpmath_mode or json.loads(smallest.to_json())["fpmath_mode"]
    line = f"benchdnn --mode=C --graph{'' if mode == 'strict' else f' --attr-fpmath={mode}'} --case={path}"
    code = _bare(smallest, path, seed, compiling) if bare else _python(smallest, path, seed, compiling, command)
    if as_json:
        facts: dict[str, object] = {
            "fails": True,
            "kind": failure.kind,
            "detail": failure.detail,
            "ops": len(smallest.ops),
        }
        emit(
            {**facts, "before": len(graph.ops), "json": str(path), "cpp" if bare else "python": code, "benchdnn": line}
        )
        return 0
    counts = f"{counted(len(graph.ops), 'op')} before, {len(smallest.ops)} now, in {path}"
    mark = "//" if bare else "#"
    click.echo(f"{mark} {failure}\n{mark} {counts}\n{mark} {line}\n\n{code}", nl=False)
    return 0


def _bare(graph: Graph, path: Path, seed: int, compiling: Compiling) -> str:
    """Write the C++ program that reproduces the failure, and return it."""
    from .._util.atomic_write import write_atomically
    from ..tools.cpp_program import to_cpp

    try:
        code = to_cpp(graph, seed=seed, policy=compiling.policy, fpmath_mode=compiling.fpmath_mode or "strict")
    except OneGraphError as error:  # the reference lacks an op, or there are too many numbers
        return f"// no program: {' '.join(str(error).split())}\n"
    write_atomically(path.with_suffix(".cpp"), lambda stream: stream.write(code.encode()))
    return code


def _python(graph: Graph, path: Path, seed: int, compiling: Compiling, program: str | None) -> str:
    """Write the Python code that reproduces the failure, and return it."""
    from .._util.atomic_write import write_atomically
    from ..tools.python_code import save_python

    path = path.with_suffix(".py")
    try:
        save_python(graph, path)
        code = path.read_text(encoding="utf-8")
    except OneGraphError as error:  # the file has something that the builder cannot express
        path.unlink(missing_ok=True)
        return f"# no Python code: {' '.join(str(error).split())}\n"
    if program is not None:
        return code
    options = ", ".join(f"{name}={value!r}" for name, value in compiling._asdict().items() if value is not None)
    code += f"""
if __name__ == "__main__":
    from onegraph.testing.random_inputs import random_inputs

    inputs = random_inputs(g, {seed})
    print(g.compile({options})(**inputs))
    print(og.reference.run(g, inputs))
"""
    write_atomically(path, lambda stream: stream.write(code.encode()))
    return code
