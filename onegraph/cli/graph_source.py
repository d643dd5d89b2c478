"""Reads the graph that a command works on, and refuses to overwrite its file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from .._util.atomic_write import TornError
from .._util.records import record
from ..errors import ArgumentError, FormatError, SpecError
from ..graph import Graph
from ..serialize.files import read_file
from ..serialize.json_text import MAX_BYTES, ONNX
from . import note
from .op_records import graph_of


@record(frozen=True)
class GraphSource:
    """A graph file with options that rewrite it; ``-`` is standard input."""

    path: str
    rewrites: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of the file for messages."""
        return "standard input" if self.path == "-" else self.path

    def load(self, *, cut: bool = False, contents: bool = True) -> Graph:
        """The graph.

        Args:
            cut: remove its Wildcards, with a note on standard error.
            contents: False also takes a file whose file of constants is missing, with a note on standard error; the
                constants are then inputs.

        Raises:
            FormatError: the file cannot be read or is not a graph.
            SpecError: an op breaks the specification.
            ArgumentError: the options do not fit the graph.
        """
        try:
            return self.parse(standard_input() if self.path == "-" else None, cut, contents)
        except SpecError as error:
            named = [replace(violation, message=f"{self.name}: {violation.message}") for violation in error.violations]
            raise SpecError(named) from None

    def load_to_run(self, *, cut: bool = True) -> Graph:
        """The graph, which has at least one output; raises the errors of ``load``, and FormatError without outputs."""
        graph = self.load(cut=cut)
        if not graph.outputs:
            raise FormatError(self.name, "the graph has no output", "ops other than Wildcards, and ends")
        return graph

    def keep(self, option: str, output: str | Path, graph: Graph | None = None, *more_inputs: str) -> None:
        """Refuse an output that is also read: FILE, the constants of ``graph`` beside it, or one of ``more_inputs``.

        Raises:
            ArgumentError: the output is one of these files, perhaps under another name.
        """
        inputs = ["/dev/stdin" if self.path == "-" else self.path, *more_inputs]
        if graph is not None and any(tensor.constant for tensor in graph._tensors):
            file = Path(self.path)
            inputs.append(str(file.with_name(f"{file.name}.npz") if file.suffix == ".py" else file.with_suffix(".npz")))
        for path in inputs:
            with suppress(OSError):  # one of the files does not exist
                if os.path.isfile(output) and os.path.samefile(path, output):
                    raise ArgumentError(f"{option}: {str(output)!r} is the input; expected another file")

    def parse(self, content: bytes | None, cut: bool = False, contents: bool = True) -> Graph:
        """The graph of the file, or of ``content`` from standard input; errors about ops do not name the file."""
        beginning = self._beginning() if content is None else content
        expect_format(self.name, beginning)
        graph = self._from_onnx(content) if ONNX.match(beginning) else self._from_json(content, contents)
        return self.rewritten(cut_at_wildcards(graph) if cut else graph)

    def is_onnx(self) -> bool:
        """Whether the file is a model of ONNX."""
        return ONNX.match(self._beginning()) is not None

    def _beginning(self) -> bytes:
        """The first bytes of a file; none of what cannot be read, which the reader of graphs reports."""
        if not os.path.isfile(self.path):  # opening a pipe would wait
            return b""
        try:
            with open(self.path, "rb") as stream:
                return stream.read(16)
        except OSError:
            return b""

    def _from_json(self, content: bytes | None, contents: bool) -> Graph:
        """A graph of oneDNN, or one of the ops that the file describes."""
        try:
            return self._from_files(contents) if content is None else Graph.from_json(content)
        except FormatError as error:
            if content is None and not os.path.isfile(self.path):
                raise
            described = graph_of(self.name, read_file(Path(self.path)) if content is None else content)
            if described is not None:
                return described
            if content is None:
                raise
            raise FormatError(f"{self.name}: {error.where}", error.given, error.expected) from None

    def _from_files(self, contents: bool) -> Graph:
        try:
            return Graph.load(self.path)
        except TornError as error:
            if contents:
                raise
            note(f"{error.where}: {error.given}; the constants in it are inputs here")
            return Graph.from_json(read_file(Path(self.path)))

    def _from_onnx(self, content: bytes | None) -> Graph:
        graph = onnx_files(self.name).load(self.path if content is None else content)
        assert isinstance(graph, Graph)
        return graph

    def rewritten(self, graph: Graph) -> Graph:
        """The graph rewritten by the options; like in benchdnn, they may give shapes for tensors that no op reads."""
        if not self.rewrites:
            return graph
        from ..tools.harness import rewrite_like_benchdnn

        rewritten_graph, passed_over = rewrite_like_benchdnn(graph, **self.rewrites)
        if passed_over:
            listed = ", ".join(map(str, passed_over))
            note(f"in_shapes: passed over, as no op reads them: tensors {listed}")
        return rewritten_graph


def expect_format(name: str, beginning: bytes) -> None:
    """Raise FormatError if the ending of a file's name and its first bytes show that it is no graph."""
    if name.endswith(".py"):
        raise FormatError(name, "Python code", "JSON, which onegraph convert FILE.py -o FILE.json makes of it")
    if name.endswith(".onnx") and not ONNX.match(beginning) and os.path.isfile(name):
        raise FormatError(name, "other contents" if beginning else "an empty file", "a model of ONNX")


def onnx_files(name: str) -> ModuleType:
    """The module that reads and writes ``name``, a model of ONNX; FormatError if the package onnx is not installed."""
    try:
        from .. import onnx
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise FormatError(name, "a model of ONNX", "JSON, or the package onnx: pip install onegraph[onnx]") from None
    return onnx


def save_graph(graph: Graph, output: str, for_version: str | None = None) -> None:
    """Write a graph to a file, in the format that the ending of its name says."""
    from ..tools.python_code import save_python

    if output.endswith(".onnx"):
        onnx_files(output).save(graph, output)
    elif output.endswith(".py"):
        save_python(graph, output)
    elif output.endswith(".cpp"):
        from ..tools.cpp_program import save_cpp

        save_cpp(graph, output)
    else:
        graph.save(output, for_version=for_version)


def cut_at_wildcards(graph: Graph) -> Graph:
    """The graph without its Wildcards; if it has any, a note is printed on standard error."""
    count = sum(op.kind == "Wildcard" for op in graph.ops)
    if not count:
        return graph
    subject = "1 Wildcard is" if count == 1 else f"{count} Wildcards are"
    note(f"{subject} left out: what they write is input, what they read is output")
    return graph.without_wildcards()


def standard_input() -> bytes:
    """The contents of standard input; refuses more than the size limit of files."""
    if sys.stdin is None:
        raise FormatError("standard input", "closed", "a graph")
    content = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise FormatError("standard input", f"more than {MAX_BYTES} bytes", f"at most {MAX_BYTES}")
    return content
