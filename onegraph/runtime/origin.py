"""Knows the files that a graph was read from, so that its compiled programs can be kept for later processes.

A program holds what it was computed from: the package, and every file of the model with a digest of its contents. No
time stamp proves anything, because a writer through a memory map leaves it as it is. The key of a model only tells
under which name its programs are kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from .._util import disk_cache
from .._util.cache_folder import get_cache_folder
from .._util.interpreter_tricks import blake2b
from .._util.mapped_file import MappedFile, SourceFile, SourceFiles
from .._util.paths import absolute
from .._version import __version__
from ..builder.graph import DataGraph
from ..native.digests import digest_of, package_digest
from ..native.library import HASHES_CONSTANTS

FORM = 2
FEW = 1 << 22  # bytes of which a digest takes no time


class Origin(NamedTuple):
    """Where a graph was read from, and what it was then.

    Attributes:
        key: of the model.
        files: that the graph was read from, each with the digest of its contents before they were read.
        contents: of the graph.
    """

    key: str
    files: Sequence[tuple[SourceFile, str]]
    contents: object

    def fits(self, graph: DataGraph) -> bool:
        """Whether the graph is as it was read."""
        return self.contents == contents_of(graph)

    @property
    def mapped(self) -> list[MappedFile]:
        """The files that are not empty."""
        return [file.mapped for file, _ in self.files if file.mapped is not None]

    @property
    def is_short(self) -> bool:
        """Whether the digests of the files take no time."""
        return sum(map(len, self.mapped)) < FEW

    def proof(self) -> list[Any] | None:
        """What a program holds of its origin, as plain data; None if a file was written to since it was opened."""
        package = package_digest()
        files = [(file.written, file.resolved, digest) for file, digest in self.files]
        if package is None or any(digest_of_file(file) != digest for file, digest in self.files):
            return None
        return [package, files]


class Reading:
    """Opens the files of a model for reading, and takes their digests before anything is read.

    Args:
        opened: files of the model that were opened already, of which nothing was read.
    """

    def __init__(self, opened: SourceFiles | None = None) -> None:
        self._digests: list[tuple[SourceFile, str]] = []
        self.files = SourceFiles() if opened is None else opened
        notice = partial(_add_digest, self._digests)  # a method would be a cycle, which keeps the files open
        for file in self.files:
            notice(file)
        self.files.notice = notice

    def origin(self, key: str, graph: DataGraph) -> Origin | None:
        """The origin of a graph that was read from these files; None if its programs are not kept."""
        contents = contents_of(graph)
        return None if contents is None else Origin(key, [*self._digests], contents)


def _add_digest(digests: list[tuple[SourceFile, str]], file: SourceFile) -> None:
    digests.append((file, digest_of_file(file)))


def keeps_programs() -> bool:
    """Whether there is a folder for programs, and a library whose programs can be kept."""
    return get_cache_folder() is not None and not HASHES_CONSTANTS


def contents_of(graph: DataGraph) -> object:
    """Equal for graphs with the same records; None for graphs with variables."""
    return None if graph._initial else ([*graph._ops], dict(graph._inputs), dict(graph._outputs))


def key_of(path: str | os.PathLike[str], *arguments: object) -> str:
    """The key of the model in a file that is read with these arguments, which are plain data."""
    return digest(FORM, __version__, absolute(path), arguments)


def opened(key: str) -> SourceFiles | None:
    """The files of a model of which a program was kept, opened now; None if none was kept, or a file is missing."""
    entry = disk_cache.find(key, digest_of)
    if entry is None:
        return None
    files = SourceFiles()
    with suppress(OSError, ValueError, TypeError):
        for path in json.loads(bytes(entry)):
            files.open(path, os.path.realpath(path))
        return files
    return None


def remember(key: str, files: Iterable[SourceFile]) -> None:
    """Keep the paths of a model's files, which tells that a program was kept, and proves nothing about it."""
    disk_cache.keep(key, digest_of, json.dumps([file.written for file in files]).encode())


def is_proven(proof: Any, files: Sequence[SourceFile]) -> bool:
    """Whether a program was compiled by this package from files with these contents."""
    with suppress(LookupError, TypeError, ValueError, OSError):  # other data, or a file that cannot be read
        package, files_facts = proof
        paths = [[file.written, file.resolved] for file in files]
        if (
            package is not None
            and package == package_digest()
            and paths == [file_facts[:2] for file_facts in files_facts]
        ):
            return all(
                digest_of_file(file) == file_facts[2] for file, file_facts in zip(files, files_facts, strict=True)
            )
    return False


def digest_of_file(file: SourceFile) -> str:
    """The digest of the contents that a file has now.

    Raises:
        OSError: the file cannot be read, or was shortened.
    """
    return "" if file.mapped is None else digest_of(file.mapped, 0, len(file.mapped))


def digest(*parts: object) -> str:
    """A key of plain data."""
    return blake2b(repr(parts).encode(), digest_size=16).hexdigest()
