"""Options that several commands share."""

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

from ..errors import ArgumentError, FormatError, SpecError, UnsupportedError
from ..graph import Graph
from ..opset.editions.registry import EDITIONS, edition
from ..serialize.document import FPMATH_MODES
from ..serialize.json_text import MAX_BYTES
from ..serialize.npz import read_inputs, write_arrays
from . import note

if TYPE_CHECKING:
    from ..ir.op import Array
    from .terminal import Progress

Command = Callable[..., Any]


class FilePath(click.Path):
    """The name of a file."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name, where it is one."""
        if value == "" or "\0" in value:
            self.fail(f"{value!r} is not the name of a file", param, ctx)
        return super().convert(value, param, ctx)


class OutputPath(FilePath):
    """The name of a file to write, with one of these suffixes where there are any.

    What is no regular file, such as ``/dev/null``, may be called anything; a named pipe would wait for a reader.
    """

    def __init__(self, *suffixes: str, **options: Any) -> None:
        super().__init__(**options)
        self.suffixes = suffixes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name, where such a file can be written."""
        found = super().convert(value, param, ctx)
        if found == "-" and self.allow_dash:
            return found
        mode = 0
        with suppress(OSError):
            mode = os.stat(found).st_mode
        # The pipes of a shell, /dev/fd/63 or /dev/stdout, have a reader, and no name of their own.
        if stat.S_ISFIFO(mode) and os.path.lexists(os.path.realpath(found)):
            self.fail(f"{found!r} is a named pipe; expected a file", param, ctx)
        if self.suffixes and Path(found).suffix not in self.suffixes and (mode == 0 or stat.S_ISREG(mode)):
            self.fail(f"{found!r}; expected a name that ends in {' or '.join(self.suffixes)}", param, ctx)
        return found


class EditionName(click.Choice[str]):
    """The name of an edition; an error says what was probably meant."""

    def __init__(self) -> None:
        super().__init__(EDITIONS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name, where there is such an edition."""
        try:
            return edition(value).name
        except ArgumentError as error:
            self.fail(str(error), param, ctx)


class Integer(click.IntRange):
    """An integer in a range, which messages call so."""

    name = "integer"

    def _describe_range(self) -> str:
        return "" if self.min is None and self.max is None else super()._describe_range()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The integer, where it is one."""
        if isinstance(value, str) and not value.isascii():  # int() reads the digits of every script
            self.fail(f"{value!r} is not a valid integer", param, ctx)
        return super().convert(value, param, ctx)


class Number(click.FloatRange):
    """A number in a range, which messages call so."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, where it is one."""
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
    help="Where it goes: .json or .py; stdout by default.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="JSON on standard output, and nothing else there.")


@dataclass(frozen=True)
class Source:
    """A graph file, and how it is rewritten; ``-`` is standard input."""

    path: str
    rewrites: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The file, for messages."""
        return "standard input" if self.path == "-" else self.path

    def load(self, *, cut: bool = False) -> Graph:
        """The graph; with ``cut``, without its Wildcards, and standard error says so.

        Raises:
            FormatError: the file cannot be read or holds no graph.
            SpecError: an op breaks the specification.
            ArgumentError: the graph cannot be rewritten like that.
        """
        try:
            return self.parse(standard_input() if self.path == "-" else None, cut)
        except SpecError as error:
            named = [replace(one, message=f"{self.name}: {one.message}") for one in error.violations]
            raise SpecError(named) from None

    def load_to_run(self, *, cut: bool = True) -> Graph:
        """The graph, which has something to compute; raises as ``load`` does."""
        graph = self.load(cut=cut)
        if not graph.outputs:
            raise FormatError(self.name, "the graph has no output", "ops other than Wildcards, and ends")
        return graph

    def keep(self, option: str, output: str | Path, graph: Graph | None = None, *others: str) -> None:
        """Raise where an output is a file that is read: FILE, the constants of ``graph`` beside it, or one of others.

        Raises:
            ArgumentError: it is, perhaps by another name.
        """
        inputs = ["/dev/stdin" if self.path == "-" else self.path, *others]
        if graph is not None and any(tensor.constant for tensor in graph._tensors):
            file = Path(self.path)
            inputs.append(str(file.with_name(f"{file.name}.npz") if file.suffix == ".py" else file.with_suffix(".npz")))
        for path in inputs:
            with suppress(OSError):  # one of them is not there
                if os.path.isfile(output) and os.path.samefile(path, output):
                    raise ArgumentError(f"{option}: {str(output)!r} is the input; expected another file")

    def parse(self, content: bytes | None, cut: bool = False) -> Graph:
        """The graph of the file, or of what was read from standard input; errors of ops do not name the file."""
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
        """The graph as the options rewrite it; like benchdnn, they may name shapes of tensors that no op reads."""
        if not self.rewrites:
            return graph
        from ..tools.harness import rewrite_like_benchdnn

        found, passed_over = rewrite_like_benchdnn(graph, **self.rewrites)
        if passed_over:
            listed = ", ".join(map(str, passed_over))
            note(f"in_shapes: passed over, as no op reads them: tensors {listed}")
        return found


def cut_at_wildcards(graph: Graph) -> Graph:
    """The graph without its Wildcards; standard error says so where there were any."""
    count = sum(op.kind == "Wildcard" for op in graph.ops)
    if not count:
        return graph
    what = "1 Wildcard is" if count == 1 else f"{count} Wildcards are"
    note(f"{what} left out: what they write is input, what they read is output")
    return graph.without_wildcards()


def standard_input() -> bytes:
    """What stands in standard input, which may be as much as a file."""
    if sys.stdin is None:
        raise FormatError("standard input", "closed", "a graph")
    content = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise FormatError("standard input", f"more than {MAX_BYTES} bytes", f"at most {MAX_BYTES}")
    return content


def _once(context: click.Context, param: click.Parameter, values: tuple[Any, ...]) -> Any:
    """The value of an option that is given once at most; of others click takes the last."""
    if len(values) > 1:
        raise click.BadParameter("given twice; expected all of it at once", context, param)
    return values[0] if values else None


def _rewriting(name: str, text: str, **more: Any) -> Callable[[Any], Command]:
    return click.option(name, **{"metavar": "TEXT", **more}, multiple=True, callback=_once, help=text)


REWRITES = (
    _rewriting("--in-shapes", "Other shapes of inputs, by id or name: 0:2x64+src:64x10."),
    _rewriting("--op-attrs", "Other attributes of ops: 4:strides:2x2*groups:1+relu:alpha:0.1."),
    _rewriting("--mb", "Another batch size.", metavar="N", type=Integer(min=0, max=2**31 - 1)),
    _rewriting("--dt", "Another data type of floats: bf16; or of some tensors: 0:bf16+3:f32."),
    _rewriting("--op-kind", "Other kinds of ops: 1:Multiply."),
)


def graph_file(command: Command) -> Command:
    """The argument FILE and benchdnn's options that rewrite it; the function gets them as ``source: Source``."""

    @wraps(command)
    def with_source(file: str, **options: Any) -> Any:
        names = ("in_shapes", "op_attrs", "mb", "dt", "op_kind")
        given = {name: options.pop(name) for name in names}
        rewrites = {name: value for name, value in given.items() if value is not None}
        source = Source(file, rewrites)
        try:
            return command(source=source, **options)
        except UnsupportedError as error:
            raise UnsupportedError(f"{source.name}: {error}") from None

    return _with(with_source, (click.argument("file", type=FilePath(allow_dash=True)), *REWRITES))


class Compiling(NamedTuple):
    """How a graph is compiled; see :meth:`onegraph.Graph.compile`."""

    policy: str
    fpmath_mode: str | None
    threads: int | None
    fallback: bool


COMPILING = (
    click.option("--policy", type=click.Choice(POLICIES), default="fusion", help="debug runs the ops one by one."),
    click.option(
        "--fpmath-mode",
        type=click.Choice(FPMATH_MODES),
        help="How far f32 arithmetic may be lowered; the file's by default.",
    ),
    click.option(
        "--threads",
        type=Integer(min=1),
        metavar="N",
        help="Threads; by default what measures best, up to OpenMP's setting.",
    ),
    click.option(
        "--no-fallback",
        "fallback",
        is_flag=True,
        default=True,
        flag_value=False,
        help="Refuse what numpy would compute.",
    ),
)


def compiling(command: Command) -> Command:
    """Options of ``Graph.compile``; the function gets them as ``compiling: Compiling``."""

    @wraps(command)
    def with_options(policy: str, fpmath_mode: str | None, threads: int | None, fallback: bool, **options: Any) -> Any:
        return command(compiling=Compiling(policy, fpmath_mode, threads, fallback), **options)

    return _with(with_options, COMPILING)


@dataclass(frozen=True)
class InputData:
    """Where inputs come from and results go."""

    source: Source
    inputs: str | None
    outputs: str | None
    seed: int

    def read(self, graph: Graph, progress: Progress | None = None) -> dict[str, Array]:
        """An array for each input of the graph; ``progress`` is told how many are done.

        Raises:
            FormatError: the file does not hold them.
            ArgumentError: a shape is unknown, so that no random data can be made; or the results would go to a file
                that is read.
        """
        from ..testing.random_inputs import random_inputs

        if self.outputs is not None:
            self.source.keep("--outputs", self.outputs, graph, *([] if self.inputs is None else [self.inputs]))
        if self.inputs is not None:
            return read_inputs(self.inputs, graph)
        try:
            return random_inputs(graph, self.seed, progress)
        except ArgumentError as error:
            raise ArgumentError(f"{self.source.name}: {error}") from None

    def write(self, results: Mapping[str, Array]) -> None:
        """Write the results where they are wanted."""
        if self.outputs is not None:
            write_arrays(self.outputs, results)


DATA = (
    click.option("--inputs", type=FilePath(), metavar="X.npz", help="The inputs by name; random data by default."),
    click.option("--outputs", type=OutputPath(".npz"), metavar="Y.npz", help="Where the results go, by name."),
    click.option("--seed", type=Integer(min=0), default=0, metavar="N", show_default=True, help="Of random data."),
)


def data(command: Command) -> Command:
    """Options for inputs and outputs; the function gets them as ``data: Data``."""

    @wraps(command)
    def with_data(source: Source, inputs: str | None, outputs: str | None, seed: int, **options: Any) -> Any:
        return command(source=source, data=InputData(source, inputs, outputs, seed), **options)

    return _with(with_data, DATA)


def _with(function: Command, options: Sequence[Callable[[Any], Command]]) -> Command:
    for option in reversed(options):
        function = option(function)
    return function


def written(graph: Graph, output: str) -> str:
    """What ``--json`` says of a graph that went to a file."""
    return json.dumps(
        {
            "file": output,
            "ops": len(graph.ops),
            "inputs": list(graph.inputs),
            "outputs": list(graph.outputs),
            "edition": graph.edition,
        }
    )
