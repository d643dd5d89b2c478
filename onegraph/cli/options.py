"""Defines the options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from .._util.atomic_write import write_atomically
from .._util.records import record
from ..errors import ArgumentError, UnsupportedError
from ..graph import Graph
from ..serialize.document import FPMATH_MODES
from ..serialize.npz import read_inputs, write_arrays
from .graph_source import GraphSource
from .value_types import FilePath, Integer, OutputPath

if TYPE_CHECKING:
    from ..ir.op import Array
    from ..runtime.profile import Profile
    from .terminal import Progress

Command = Callable[..., Any]
POLICIES = ("fusion", "debug")

graph_output = click.option(
    "-o",
    "--output",
    type=OutputPath(".json", ".py", ".onnx", ".cpp", allow_dash=True),
    metavar="OUT",
    help="Output file, .json, .py, .onnx or .cpp; by default standard output.",
)
bare_option = click.option(
    "--bare",
    is_flag=True,
    help="Run the library as it is, in a process of its own: without the ways around its faults, and without numpy.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print only JSON on standard output.")


REWRITES = (
    click.option("--in-shapes", help="Other shapes of inputs, by id or name: 0:2x64+src:64x10."),
    click.option("--op-attrs", help="Other attributes of ops: 4:strides:2x2*groups:1+relu:alpha:0.1."),
    click.option("--mb", help="Another batch size.", metavar="N", type=Integer(min=0, max=2**31 - 1)),
    click.option("--dt", help="Another data type of floats: bf16; or of some tensors: 0:bf16+3:f32."),
    click.option("--op-kind", help="Other kinds of ops: 1:Multiply; undef removes the op."),
    click.option("--tensor-property", help="Other property types of tensors: 4:constant."),
)


def graph_file(command: Command) -> Command:
    """Add the argument FILE and benchdnn's rewriting options; the function gets them as ``source: GraphSource``."""

    @wraps(command)
    def with_source(file: str, **options: Any) -> Any:
        source = GraphSource(file, _taken_rewrites(options))
        try:
            return command(source=source, **options)
        except UnsupportedError as error:
            raise UnsupportedError(f"{source.name}: {error}") from None

    return _with(with_source, (click.argument("file", type=FilePath(allow_dash=True)), *REWRITES))


def graph_files(command: Command) -> Command:
    """Add the argument FILES and benchdnn's rewriting options; the function gets ``sources``, one for each file."""

    @wraps(command)
    def with_sources(files: tuple[str, ...], **options: Any) -> Any:
        rewrites = _taken_rewrites(options)
        sources = tuple(GraphSource(file, rewrites) for pattern in files for file in _matching(pattern))
        return command(sources=sources, **options)

    argument = click.argument("files", type=FilePath(allow_dash=True), nargs=-1, required=True)
    return _with(with_sources, (argument, *REWRITES))


def _taken_rewrites(options: dict[str, Any]) -> dict[str, Any]:
    """The rewriting options that were given; they are removed from ``options``."""
    names = ("in_shapes", "op_attrs", "mb", "dt", "op_kind", "tensor_property")
    taken = {name: options.pop(name) for name in names}
    return {name: value for name, value in taken.items() if value is not None}


def _matching(pattern: str) -> Sequence[str]:
    """The files of a pattern with ``*``, ``?`` or ``**``, in alphabetical order; another name is the file itself."""
    if Path(pattern).is_dir():
        raise ArgumentError(
            f"{pattern}: a folder; expected files, such as the pattern '{Path(pattern, '**', '*.json')}'"
        )
    if pattern == "-" or not has_magic(pattern) or Path(pattern).exists():
        return [pattern]
    files = sorted(name for name in glob(pattern, recursive=True) if not Path(name).is_dir())
    if not files:
        raise ArgumentError(f"{pattern}: no file matches; expected a name or a pattern of files")
    return files


class Compiling(NamedTuple):
    """The options of :meth:`onegraph.Graph.compile`."""

    policy: str
    fpmath_mode: str | None
    threads: int | None
    fallback: bool
    reproducible: bool
    finite_math: bool


COMPILING = (
    click.option("--policy", type=click.Choice(POLICIES), default="fusion", help="debug runs the ops one by one."),
    click.option(
        "--fpmath-mode",
        type=click.Choice(FPMATH_MODES),
        help="Lowest precision of f32 arithmetic; by default the mode in FILE.",
    ),
    click.option(
        "--threads",
        type=Integer(min=1),
        metavar="N",
        help="Threads; by default the fastest number, up to OpenMP's setting.",
    ),
    click.option(
        "--no-fallback",
        "fallback",
        is_flag=True,
        default=True,
        flag_value=False,
        help="Fail if numpy would compute an op.",
    ),
    click.option("--reproducible", is_flag=True, help="The same bits for any number of threads and any batch size."),
    click.option("--finite-math", is_flag=True, help="Faster, but ReLU and its like may lose NaN and infinities."),
)


def compiling(command: Command) -> Command:
    """Add the options of ``Graph.compile``; the function gets them as ``compiling: Compiling``."""

    @wraps(command)
    def with_options(**options: Any) -> Any:
        chosen = Compiling(*[options.pop(name) for name in Compiling._fields])
        return command(compiling=chosen, **options)

    return _with(with_options, COMPILING)


@record(frozen=True)
class InputData:
    """The source of inputs, and the file for results."""

    source: GraphSource
    inputs: str | None
    outputs: str | None
    seed: int

    def read(self, graph: Graph, progress: Progress | None = None, *, calibrated: bool = False) -> dict[str, Array]:
        """An array for each input of the graph; ``progress`` is called with the number of inputs done.

        Random data that are ``calibrated`` keep the results of the graph finite and in range.

        Raises:
            FormatError: the file does not have the inputs.
            ArgumentError: a shape is unknown, so that no random data can be made; or the output file is also read.
        """
        from ..testing.calibrated_inputs import calibrated_inputs
        from ..testing.random_inputs import random_inputs

        if self.outputs is not None:
            self.source.keep("--outputs", self.outputs, graph, *([] if self.inputs is None else [self.inputs]))
        if self.inputs is not None:
            return read_inputs(self.inputs, graph)
        try:
            return (calibrated_inputs if calibrated else random_inputs)(graph, self.seed, progress)
        except ArgumentError as error:
            raise ArgumentError(f"{self.source.name}: {error}") from None

    def write(self, results: Mapping[str, Array]) -> None:
        """Write the results to the output file, if there is one."""
        if self.outputs is not None:
            write_arrays(self.outputs, results)


DATA = (
    click.option("--inputs", type=FilePath(), metavar="X.npz", help="Inputs by name; by default random data."),
    click.option("--outputs", type=OutputPath(".npz"), metavar="Y.npz", help="File for the results, by name."),
    click.option("--seed", type=Integer(min=0), default=0, metavar="N", show_default=True, help="Seed of random data."),
)


trace_option = click.option(
    "--trace",
    type=OutputPath(".json"),
    metavar="TRACE.json",
    help="Write the time of every partition there, for https://ui.perfetto.dev.",
)


def write_trace(path: str, profiles: Mapping[str, Profile]) -> None:
    """Write profiles, by name, in Chrome's trace event format."""
    from ..runtime.profile import chrome_trace

    content = chrome_trace(profiles).encode()
    write_atomically(Path(path), lambda stream: stream.write(content))


def data(command: Command) -> Command:
    """Add the options for inputs and outputs; the function gets them as ``data: InputData``."""

    @wraps(command)
    def with_data(source: GraphSource, inputs: str | None, outputs: str | None, seed: int, **options: Any) -> Any:
        return command(source=source, data=InputData(source, inputs, outputs, seed), **options)

    return _with(with_data, DATA)


def _with(function: Command, options: Sequence[Callable[[Any], Command]]) -> Command:
    for option in reversed(options):
        function = option(function)
    return function


def written(graph: Graph, output: str) -> str:
    """The JSON text that ``--json`` prints about a graph written to a file."""
    return json.dumps(
        {
            "file": output,
            "ops": len(graph.ops),
            "inputs": list(graph.inputs),
            "outputs": list(graph.outputs),
            "edition": graph.edition,
        }
    )
