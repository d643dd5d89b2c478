"""Writes the files of a capture.

::

    folder/
      info.json           what ``onegraph info --json`` prints
      0001/               the first graph
        graph.json        the graph, with graph.npz for its constants
        options.json      the options of compile
        report.txt        the report, if the compilation succeeded
        error.txt         the exception, if it failed
        call_0001.npz     the inputs of a call, as ``onegraph run --inputs`` takes them
        call_0001.txt     the exception of that call
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from pathlib import Path

from ..._util.fork_safety import new_rlock
from ..._util.validation import expect
from ...builder.graph import DataGraph, expect_graph
from ...errors import FormatError
from ...ir.op import Array
from ...serialize import save
from ...serialize.npz import write_arrays

_lock = new_rlock()


class Recording:
    """A folder that graphs are recorded to.

    Args:
        folder: its path.
        inputs: whether the inputs of calls are recorded too.
        max_bytes: limit for the size of all recorded inputs.

    Attributes:
        is_open: whether calls are still recorded.
    """

    def __init__(self, folder: Path, inputs: bool, max_bytes: int) -> None:
        self.folder, self.inputs = folder, inputs
        self.n_graphs, self.is_open = 0, False
        self._left = max_bytes

    def graph(self, graph: DataGraph, options: Mapping[str, object]) -> Record:
        """Write a graph that is about to be compiled, and return its record."""
        expect_graph(graph)
        expect("options", options, Mapping)
        with _lock:
            self.n_graphs += 1
            number = self.n_graphs
        place = self.folder / f"{number:04}"
        try:
            place.mkdir()
        except OSError as error:
            raise FormatError(str(place), error.strerror or str(error), "a folder that is not there yet") from None
        save(DataGraph.copy(graph), place / "graph.json")
        write_text(place / "options.json", json.dumps(dict(options), indent=2, default=str, skipkeys=True))
        return Record(self, place)

    def take(self, size: int) -> bool:
        """Reserve ``size`` bytes of the limit; returns whether there was room."""
        with _lock:
            fits = size <= self._left
            self._left -= size if fits else 0
            return fits


class Record:
    """The files of one graph."""

    def __init__(self, owner: Recording, place: Path) -> None:
        self.owner, self.place = owner, place
        self.calls = 0

    def call(self, inputs: Mapping[str, Array]) -> Path | None:
        """Write the inputs of a call.

        Returns:
            the path for the text of an exception; None if the recording has ended.
        """
        if not self.owner.is_open:
            return None
        with _lock:
            self.calls += 1
            path = self.place / f"call_{self.calls:04}.npz"
        if self.owner.inputs and self.owner.take(sum(array.nbytes for array in inputs.values())):
            write_arrays(path, inputs)
        return path.with_suffix(".txt")

    def report(self, text: str) -> None:
        """Write the report."""
        write_text(self.place / "report.txt", text)

    def error(self, error: BaseException, path: Path | None = None) -> None:
        """Write an exception with its traceback."""
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        write_text(path or self.place / "error.txt", text)


def write_text(path: Path, text: str) -> None:
    """Write a text to a file; raises FormatError if that fails."""
    try:
        path.write_text(text + "\n", errors="backslashreplace")
    except OSError as error:
        raise FormatError(str(path), error.strerror or str(error), "a path that can be written") from None
