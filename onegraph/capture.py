"""Recording what is compiled: a user's bug in one folder.

::

    folder/
      info.json           what ``onegraph info --json`` prints
      0001/               the first graph
        graph.json        the graph, with graph.npz for its constants
        options.json      the options of compile
        report.txt        the report, where it was compiled
        error.txt         the exception, where it was not
        call_0001.npz     the inputs of a call, as ``onegraph run --inputs`` takes them
        call_0001.txt     the exception of that call
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from .errors import ArgumentError, FormatError, OneGraphError, StateError
from .forks import new_rlock
from .graph import Graph
from .npz import write_arrays
from .once import Made
from .op import Array
from .serialize.files import path_of
from .validate import expect, flag, integer

if TYPE_CHECKING:
    from .executor import Executable

MAX_BYTES = 2**28
_lock = new_rlock()


class capture(Made):  # noqa: N801 - it is called like a function, as contextlib's own are
    """Record every graph compiled within a ``with`` block, in any thread, to files.

    What is written is there before the library is called, so that it is left behind by a crash too. Executables that
    were compiled in the block are recorded until it ends. Blocks may be nested: each of them records.

    Args:
        folder: a folder that is new or empty.
        inputs: also the inputs of each call and of each ``bind``.
        max_bytes: inputs are kept as long as they are no more than this many bytes in all; later ones are left out.

    Raises:
        ArgumentError: the folder holds something, or an option makes no sense.
        FormatError: a file cannot be written.
    """

    def __init__(self, folder: str | PathLike[str], *, inputs: bool = False, max_bytes: int = MAX_BYTES) -> None:
        flag("inputs", inputs)
        self.folder = path_of("folder", folder, "the path of a folder that is new or empty")
        self.inputs = inputs
        self.executable: type[Executable]
        self._left = integer("max_bytes", max_bytes, 0, 2**63 - 1, "a number of bytes")
        self._graphs = 0
        self._open = False

    def __enter__(self) -> capture:
        """Start to record."""
        if self._open or self._graphs:
            raise ArgumentError("capture: used before; make another")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if any(self.folder.iterdir()):
                raise ArgumentError(f"folder: {str(self.folder)!r} is not empty; expected one that is new or empty")
        except OSError as error:
            raise FormatError(str(self.folder), error.strerror or str(error), "a folder to write to") from None
        _write(self.folder / "info.json", json.dumps(_facts(), indent=2))
        from . import executor
        from .recorded import Recorded

        self.executable = Recorded
        self._open = True
        executor.RECORDERS += (self,)  # the last of all: where an interrupt comes before, nobody will stop to record
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to record; a StateError where it does not."""
        from .executor import RECORDERS

        self._open = False
        try:
            RECORDERS.remove(self)
        except ValueError:
            raise StateError("capture: not recording; expected a with block that has not ended") from None

    def graph(self, graph: Graph, options: Mapping[str, object]) -> Record:
        """A record of a graph that is about to be compiled."""
        expect("graph", graph, Graph)
        expect("options", options, Mapping)
        with _lock:
            self._graphs += 1
            number = self._graphs
        place = self.folder / f"{number:04}"
        try:
            place.mkdir()
        except OSError as error:
            raise FormatError(str(place), error.strerror or str(error), "a folder that is not there yet") from None
        graph.save(place / "graph.json")
        _write(place / "options.json", json.dumps(dict(options), indent=2, default=str, skipkeys=True))
        return Record(self, place)

    def take(self, size: int) -> bool:
        """Whether there is room for so many bytes more, which is then taken."""
        with _lock:
            fits = size <= self._left
            self._left -= size if fits else 0
            return fits


class Record:
    """The files of one graph."""

    def __init__(self, owner: capture, place: Path) -> None:
        self.owner, self.place = owner, place
        self.calls = 0

    def call(self, inputs: Mapping[str, Array]) -> Path | None:
        """Write the inputs of a call; the path of a text for its exception, None where nothing is recorded any more."""
        if not self.owner._open:
            return None
        with _lock:
            self.calls += 1
            path = self.place / f"call_{self.calls:04}.npz"
        if self.owner.inputs and self.owner.take(sum(array.nbytes for array in inputs.values())):
            write_arrays(path, inputs)
        return path.with_suffix(".txt")

    def report(self, text: str) -> None:
        """Write the report."""
        _write(self.place / "report.txt", text)

    def error(self, error: BaseException, path: Path | None = None) -> None:
        """Write an exception, with where it came from."""
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        _write(path or self.place / "error.txt", text)


def _facts() -> dict[str, object]:
    from . import __version__

    try:
        from .capi import version_info

        return {"onegraph": __version__, **version_info()}
    except (ImportError, OneGraphError) as error:
        return {"onegraph": __version__, "error": str(error)}


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text + "\n", errors="backslashreplace")
    except OSError as error:
        raise FormatError(str(path), error.strerror or str(error), "a path that can be written") from None


__all__ = ["capture"]
