"""Knows the files that a graph was read from, so that its compiled programs can be kept for later processes.

A model is known by the identity of its files, and by the arguments with which they were read.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from .._util import disk_cache
from .._util.interpreter_tricks import blake2b
from .._util.mapped_file import Identity, MappedFile, identity_of
from .._version import __version__
from .graph import DataGraph

FORM = 1
# A file that changed in the last so many seconds could change again without another time of change.
SETTLED = 2.0


class Origin(NamedTuple):
    """Where a graph was read from, and what it was then.

    Attributes:
        key: of the model.
        files: that the graph was read from.
        contents: of the graph.
    """

    key: str
    files: Sequence[MappedFile]
    contents: object

    def fits(self, graph: DataGraph) -> bool:
        """Whether the graph is as it was read."""
        return self.contents == contents_of(graph)


def contents_of(graph: DataGraph) -> object:
    """Equal for graphs with the same records; None for graphs with variables."""
    return None if graph._initial else ([*graph._ops], dict(graph._inputs), dict(graph._outputs))


def key_of(path: str | os.PathLike[str], *arguments: object) -> str | None:
    """The key of the model in a file that is read with these arguments, which are plain data; None without a cache."""
    if disk_cache.get_cache_folder() is None:
        return None
    try:
        where, status = os.path.realpath(path), os.stat(path)
    except OSError:
        return None
    return digest(FORM, __version__, where, identity_of(status), arguments)


def origin_of(key: str | None, files: Iterable[MappedFile], graph: DataGraph) -> Origin | None:
    """The origin of a graph that was read from these files; None if its programs are not kept."""
    found, contents = [*files], contents_of(graph)
    newest = max([1e-9 * max(file.identity[3:]) for file in found], default=0.0)
    if key is None or contents is None or time.time() - newest < SETTLED:
        return None
    return Origin(key, found, contents)


def is_known(key: str | None) -> bool:
    """Whether a program of a model was kept, and the files of the model are the same as then."""
    return key is not None and files_of(disk_cache.find(key)) is not None


def files_of(kept: bytes | memoryview | None) -> list[tuple[str, Identity]] | None:
    """The paths and identities of a model's files; None if one has changed."""
    if kept is None:
        return None
    with suppress(OSError, ValueError, TypeError):
        files = [(path, tuple(identity)) for path, identity in json.loads(bytes(kept))]
        if all(identity_of(os.stat(path)) == identity for path, identity in files):
            return files
    return None


def digest(*parts: object) -> str:
    """A key of plain data."""
    return blake2b(repr(parts).encode(), digest_size=16).hexdigest()
