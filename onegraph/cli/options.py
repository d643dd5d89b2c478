"""Defines the types and options that several commands share."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from .._util.atomic_write import write_atomically
from ..errors import ArgumentError, FormatError, SpecError, UnsupportedError
from ..graph import Graph
from ..opset.editions.registry import EDITIONS, edition
from ..serialize.document import FPMATH_MODES
from ..serialize.json_text import MAX_BYTES
from ..serialize.npz import read_inputs, write_arrays
from . import note

if TYPE_CHECKING:
    from ..ir.op import Array
    from ..runtime.profile import Profile
    from .terminal import Progress

Command = Callable[..., Any]


class FilePath(click.Path):
    """The name of a file."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name; fails if it is no valid file name."""
        if value == "" or "\0" in value:
            self.fail(f"{value!r} is not the name of a file", param, ctx)
        return super().convert(value, param, ctx)


class OutputPath(FilePath):
    """The name of a file to write; it must have one of the suffixes, if there are any.

    Special files such as ``/dev/null`` may have any name. Named pipes are refused, because opening one waits for a
    reader.
    """

    def __init__(self, *suffixes: str, **options: Any) -> None:
        super().__init__(**options)
        self.suffixes = suffixes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name; fails if such a file cannot be written."""
        found = super().convert(value, param, ctx)
        if found == "-" and self.allow_dash:
            return found
        mode = 0
        with suppress(OSError):
            mode = os.stat(found).st_mode
        # Pipes of a shell, such as /dev/fd/63 or /dev/stdout, have a reader; their real path does not exist.
        if stat.S_ISFIFO(mode) and os.path.lexists(os.path.realpath(found)):
            self.fail(f"{found!r} is a named pipe; expected a file", param, ctx)
        if self.suffixes and Path(found).suffix not in self.suffixes and (mode == 0 or stat.S_ISREG(mode)):
            self.fail(f"{found!r}; expected a name that ends in {' or '.join(self.suffixes)}", param, ctx)
        return found


class EditionName(click.Choice[str]):
    """The name of an edition; an error suggests the nearest one."""

    def __init__(self) -> None:
        super().__init__(EDITIONS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name; fails if there is no such edition."""
        try:
            return edition(value).name
        except ArgumentError as error:
            self.fail(str(error), param, ctx)


class Integer(click.IntRange):
    """An integer in a range, called an integer in messages."""

    name = "integer"

    def _describe_range(self) -> str:
        return "" if self.min is None and self.max is None else super()._describe_range()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The integer; fails if the text is none."""
        if isinstance(value, str) and not value.isascii():  # int() accepts the digits of every script
            self.fail(f"{value!r} is not a valid integer", param, ctx)
        return super().convert(value, param, ctx)


class Number(click.FloatRange):
    """A number in a range, called a number in messages."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; fails if the text is none, or NaN."""
        number = super().convert(value, param, ctx)
        if number != number or (isinstance(value, str) and not value.isascii()):
            self.fail(f"{value!r} is not a valid number", param, ctx)
        return number


POLICIES = ("fusion", "debug")

graph_output = click.option(
    "-o",
    "--output",
    type=OutputPath(".json", ".py", allow_dash=True),
    metavar="OUT",
    help="Output file, .json or .py; by default standard output.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print only JSON on standard output.")


@dataclass(frozen=True)
class Source:
    """A graph file with options that rewrite it; ``-`` is standard input."""

    path: str
    rewrites: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of the file for messages."""
        return "standard input" if self.path == "-" else self.path

    def load(self, *, cut: bool = False) -> Graph:
        """The graph; ``cut`` removes its Wildcards, with a note on standard error.

        Raises:
            FormatError: the file cannot be read or is not a graph.
            SpecError: an op breaks the specification.
            ArgumentError: the options do not fit the graph.
        """
        try:
            return self.parse(standard_input() if self.path == "-" else None, cut)
        except SpecError as error:
            named = [replace(one, message=f"{self.name}: {one.message}") for one in error.violations]
            raise SpecError(named) from None

    def load_to_run(self, *, cut: bool = True) -> Graph:
        """The graph, which has at least one output; raises the errors of ``load``, and FormatError without outputs."""
        graph = self.load(cut=cut)
        if not graph.outputs:
            raise FormatError(self.name, "the graph has no output", "ops other than Wildcards, and ends")
        return graph

    def keep(self, option: str, output: str | Path, graph: Graph | None = None, *others: str) -> None:
        """Refuse an output that is also read: FILE, the constants of ``graph`` beside it, or one of ``others``.

        Raises:
            ArgumentError: the output is one of these files, perhaps under another name.
        """
        inputs = ["/dev/stdin" if self.path == "-" else self.path, *others]
        if graph is not None and any(tensor.constant for tensor in graph._tensors):
            file = Path(self.path)
            inputs.append(str(file.with_name(f"{file.name}.npz") if file.suffix == ".py" else file.with_suffix(".npz")))
        for path in inputs:
            with suppress(OSError):  # one of the files does not exist
                if os.path.isfile(output) and os.path.samefile(path, output):
                    raise ArgumentError(f"{option}: {str(output)!r} is the input; expected another file")

    def parse(self, content: bytes | None, cut: bool = False) -> Graph:
        """The graph of the file, or of ``content`` from standard input; errors about ops do not name the file."""
        if self.path.endswith(".py"):
            raise FormatError(self.name, "Python code", "JSON, which onegraph convert FILE.py -o FILE.json makes of it")
        if content is None:
            graph = Graph.load(self.path)
        else:
            try:
                graph = Graph.from_json(content)
            except FormatError as error:
                raise FormatError(f"{self.name}: {error.where}", error.given, error.expected) from None
        return self.rewritten(cut_at_wildcards(graph) if cut else graph)

    def rewritten(self, graph: Graph) -> Graph:
        """The graph rewritten by the options; like in benchdnn, they may give shapes for tensors that no op reads."""
        if not self.rewrites:
            return graph
        from ..tools.harness import rewrite_like_benchdnn

        found, passed_over = rewrite_like_benchdnn(graph, **self.rewrites)
        if passed_over:
            listed = ", ".join(map(str, passed_over))
            note(f"in_shapes: passed over, as no op reads them: tensors {listed}")
        return found


def cut_at_wildcards(graph: Graph) -> Graph:
    """The graph without its Wildcards; if it has any, a note is printed on standard error."""
    count = sum(op.kind == "Wildcard" for op in graph.ops)
    if not count:
        return graph
    what = "1 Wildcard is" if count == 1 else f"{count} Wildcards are"
    note(f"{what} left out: what they write is input, what they read is output")
    return graph.without_wildcards()


def standard_input() -> bytes:
    """The contents of standard input; refuses more than the size limit of files."""
    if sys.stdin is None:
        raise FormatError("standard input", "closed", "a graph")
    content = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise FormatError("standard input", f"more than {MAX_BYTES} bytes", f"at most {MAX_BYTES}")
    return content


def _given_once(context: click.Context, param: click.Parameter, values: tuple[Any, ...]) -> Any:
    """The value of an option that may be given once; for a repeated option, click would silently take the last."""
    if len(values) > 1:
        raise click.BadParameter("given twice; expected all of it at once", context, param)
    return values[0] if values else None


def _rewriting(name: str, text: str, **more: Any) -> Callable[[Any], Command]:
    return click.option(name, **{"metavar": "TEXT", **more}, multiple=True, callback=_given_once, help=text)


REWRITES = (
    _rewriting("--in-shapes", "Other shapes of inputs, by id or name: 0:2x64+src:64x10."),
    _rewriting("--op-attrs", "Other attributes of ops: 4:strides:2x2*groups:1+relu:alpha:0.1."),
    _rewriting("--mb", "Another batch size.", metavar="N", type=Integer(min=0, max=2**31 - 1)),
    _rewriting("--dt", "Another data type of floats: bf16; or of some tensors: 0:bf16+3:f32."),
    _rewriting("--op-kind", "Other kinds of ops: 1:Multiply; undef removes the op."),
    _rewriting("--tensor-property", "Other property types of tensors: 4:constant."),
)


def graph_file(command: Command) -> Command:
    """Add the argument FILE and benchdnn's rewriting options; the function gets them as ``source: Source``."""

    @wraps(command)
    def with_source(file: str, **options: Any) -> Any:
        names = ("in_shapes", "op_attrs", "mb", "dt", "op_kind", "tensor_property")
        given = {name: options.pop(name) for name in names}
        rewrites = {name: value for name, value in given.items() if value is not None}
        source = Source(file, rewrites)
        try:
            return command(source=source, **options)
        except UnsupportedError as error:
            raise UnsupportedError(f"{source.name}: {error}") from None

    return _with(with_source, (click.argument("file", type=FilePath(allow_dash=True)), *REWRITES))


class Compiling(NamedTuple):
    """The options of :meth:`onegraph.Graph.compile`."""

    policy: str
    fpmath_mode: str | None
    threads: int | None
    fallback: bool


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
)


def compiling(command: Command) -> Command:
    """Add the options of ``Graph.compile``; the function gets them as ``compiling: Compiling``."""

    @wraps(command)
    def with_options(policy: str, fpmath_mode: str | None, threads: int | None, fallback: bool, **options: Any) -> Any:
        return command(compiling=Compiling(policy, fpmath_mode, threads, fallback), **options)

    return _with(with_options, COMPILING)


@dataclass(frozen=True)
class InputData:
    """The source of inputs, and the file for results."""

    source: Source
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
    def with_data(source: Source, inputs: str | None, outputs: str | None, seed: int, **options: Any) -> Any:
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
