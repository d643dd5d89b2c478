"""Reads and writes the folder of a saved model.

It has ``graph.json``, ``graph.npz`` with the constants, and ``model.json`` with the settings of the compilation and
checksums of the other two files.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from .._util.atomic_write import explained, write_together
from .._version import __version__
from ..errors import FormatError, shown
from ..ir.op import Array
from .document import json_integer, json_object, json_string, parse_json
from .files import read_file
from .npz import ARCHIVE, contents_of, write_archive

MODEL, GRAPH, CONSTANTS = "model.json", "graph.json", "graph.npz"
FORM = 1
SAVED = "the file that was saved together with model.json"
CHECKSUM = 2**32 - 1


def write_model(folder: Path, text: str, arrays: Mapping[str, Array], settings: Mapping[str, object]) -> None:
    """Write the folder of a model. No file is replaced before all are complete.

    Args:
        folder: is made if it does not exist.
        text: of ``graph.json``.
        arrays: the constants.
        settings: plain data.

    Raises:
        FormatError: a file cannot be written.
    """
    graph = text.encode() + b"\n"
    sums = {GRAPH: zlib.crc32(graph)}

    def described() -> bytes:
        whole = {"form": FORM, "onegraph": __version__, "settings": settings, "checksums": sums}
        return json.dumps(whole, indent=2).encode() + b"\n"

    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_together(
        [
            (folder / CONSTANTS, lambda stream: sums.update({CONSTANTS: write_archive(stream, arrays)})),
            (folder / GRAPH, lambda stream: stream.write(graph)),
            (folder / MODEL, lambda stream: stream.write(described())),
        ]
    )


def read_settings(folder: Path) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """The settings of a model, and the checksums of its other files.

    Raises:
        FormatError: the file is missing or broken, or was written by a newer onegraph.
    """
    place = folder / MODEL
    try:
        raw = parse_json(read_file(place))
        writer = json_string(raw.get("onegraph", "?"), "onegraph")
        json_integer(raw.get("form"), "form", 1, FORM, f"at most {FORM}; onegraph {writer} wrote this, install it")
        sums = json_object(raw.get("checksums"), "checksums")
        for name in (GRAPH, CONSTANTS):
            json_integer(sums.get(name), f"checksums.{name}", 0, CHECKSUM, "a checksum")
        return json_object(raw.get("settings"), "settings"), sums
    except FormatError as error:
        if error.where == str(place):
            raise
        raise FormatError(f"{place}: {error.where}", error.given, error.expected) from None


def read_model(folder: Path) -> tuple[Mapping[str, object], bytes]:
    """The settings of a model, and the contents of ``graph.json``; the checksums of both files fit.

    Raises:
        FormatError: a file is missing or broken, was changed, or was written by a newer onegraph.
    """
    settings, sums = read_settings(folder)
    graph = read_file(folder / GRAPH)
    if zlib.crc32(graph) != sums[GRAPH]:
        raise FormatError(str(folder / GRAPH), "other contents", SAVED)
    archive = folder / CONSTANTS
    try:
        with zipfile.ZipFile(archive) as found:
            if contents_of(found) != sums[CONSTANTS]:
                raise FormatError(str(archive), "other contents", SAVED)
    except OSError as error:
        raise FormatError(str(archive), error.strerror or str(error), SAVED) from None
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, UnicodeError) as error:
        raise FormatError(str(archive), shown(str(error)), ARCHIVE) from None
    return settings, graph
