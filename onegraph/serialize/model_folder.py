"""Reads and writes the folder of a saved model.

It has ``graph.json``, ``graph.npz`` with the constants, and ``model.json`` with the settings of the compilation and
checksums and digests of the other two files.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, NamedTuple

from .._util.atomic_write import FilePart, TornError, explained, write_together
from .._util.interpreter_tricks import blake2b
from .._util.mapped_file import SourceFiles
from .._version import __version__
from ..errors import FormatError
from ..ir.op import Array
from .document import json_integer, json_object, json_string, parse_json
from .files import explained_archive, open_part, read_file
from .npz import contents_of, digest_of_archive, open_archive, write_archive

MODEL, GRAPH, CONSTANTS = "model.json", "graph.json", "graph.npz"
FORM = 1
SAVED = "the file that was saved together with model.json"
CHECKSUM = 2**32 - 1


def write_model(
    folder: Path, text: Callable[[str], str], arrays: Mapping[str, Array], settings: Mapping[str, object]
) -> None:
    """Write the folder of a model. No file is replaced before all are complete.

    Args:
        folder: is made if it does not exist.
        text: makes the contents of ``graph.json`` from the digest of the archive.
        arrays: the constants.
        settings: plain data.

    Raises:
        FormatError: a file cannot be written.
    """
    sums: dict[str, int] = {}
    digests: dict[str, str] = {}

    def write_constants(stream: IO[bytes]) -> str:
        digests[CONSTANTS], sums[CONSTANTS] = write_archive(stream, arrays)
        return digests[CONSTANTS]

    def write_graph(stream: IO[bytes]) -> str:
        graph = text(digests[CONSTANTS]).encode() + b"\n"
        sums[GRAPH], digests[GRAPH] = zlib.crc32(graph), _digest(graph)
        stream.write(graph)
        return digests[GRAPH]

    def described() -> bytes:
        whole = {"form": FORM, "onegraph": __version__, "settings": settings, "checksums": sums, "digests": digests}
        return json.dumps(whole, indent=2).encode() + b"\n"

    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    parts = [FilePart(folder / CONSTANTS, write_constants), FilePart(folder / GRAPH, write_graph)]
    write_together(parts, folder / MODEL, lambda stream: stream.write(described()))


class Saved(NamedTuple):
    """What ``model.json`` says.

    Attributes:
        settings: of the compilation.
        sums: checksums of the other files.
        digests: of the other files; empty in folders of older versions.
    """

    settings: Mapping[str, object]
    sums: Mapping[str, object]
    digests: Mapping[str, str]


def read_settings(folder: Path, files: SourceFiles) -> Saved:
    """The settings of a model, and the checksums and digests of its other files.

    Raises:
        FormatError: the file is missing or broken, or was written by a newer onegraph.
    """
    place = folder / MODEL
    try:
        raw = parse_json(read_file(place, files))
        writer = json_string(raw.get("onegraph", "?"), "onegraph")
        json_integer(raw.get("form"), "form", 1, FORM, f"at most {FORM}; onegraph {writer} wrote this, install it")
        sums, digests = (json_object(raw.get(key, {}), key) for key in ("checksums", "digests"))
        for name in (GRAPH, CONSTANTS):
            json_integer(sums.get(name), f"checksums.{name}", 0, CHECKSUM, "a checksum")
        texts = {name: json_string(digest, f"digests.{name}") for name, digest in digests.items()}
        return Saved(json_object(raw.get("settings"), "settings"), sums, texts)
    except FormatError as error:
        if error.where == str(place):
            raise
        raise FormatError(f"{place}: {error.where}", error.given, error.expected) from None


def read_model(folder: Path, files: SourceFiles) -> tuple[Mapping[str, object], bytes]:
    """The settings of a model, and the contents of ``graph.json``; the checksums of both files fit.

    Raises:
        TornError: a file was changed, or the folder is written to now.
        FormatError: a file is missing or broken, or was written by a newer onegraph.
    """
    saved = read_settings(folder, files)
    place, archive = folder / GRAPH, folder / CONSTANTS
    with explained_archive(place, SAVED):
        graph, is_right = open_part(files, place, saved.digests.get(GRAPH), lambda mapped: _digest(mapped[:]))
    if not is_right or zlib.crc32(graph) != saved.sums[GRAPH]:
        raise TornError(str(place), "other contents", SAVED)
    with explained_archive(archive, SAVED):
        # The graph has the digest of the archive too, with which the constants are read.
        mapped, _ = open_part(files, archive, saved.digests.get(CONSTANTS), digest_of_archive)
        with open_archive(mapped) as opened:
            if contents_of(opened) != saved.sums[CONSTANTS]:
                raise TornError(str(archive), "other contents", SAVED)
    return saved.settings, graph[:]


def _digest(contents: bytes) -> str:
    return blake2b(contents, digest_size=16).hexdigest()
