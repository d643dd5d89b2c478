"""Finds the program that an earlier process has compiled for the same model, and keeps programs for later ones.

A model is known by the identity of its files, and by the arguments with which they were read. A program belongs to a
model, the options of the compilation, the library and the processor. It has no weights: these stay in the files of the
model.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from .._util import disk_cache
from .._util.interpreter_tricks import blake2b
from .._version import __version__
from ..arrays.mapped_files import Identity, MappedFile, identity_of
from ..builder.graph import DataGraph
from ..capi.caches import get_compiled_partition_cache_capacity, programs_keep_constants
from ..capi.machine import machine
from ..capi.threads import get_num_threads, is_forked, thread_share
from ..errors import OneGraphError
from ..native.library import HASHES_CONSTANTS
from .compile_options import Options
from .executable import RECORDERS, Executable
from .kept_partitions import NotKeptError

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
    return _digest(FORM, __version__, where, identity_of(status), arguments)


def origin_of(key: str | None, files: Iterable[MappedFile], graph: DataGraph) -> Origin | None:
    """The origin of a graph that was read from these files; None if its programs are not kept."""
    found, contents = [*files], contents_of(graph)
    newest = max([1e-9 * max(file.identity[3:]) for file in found], default=0.0)
    if key is None or contents is None or time.time() - newest < SETTLED:
        return None
    return Origin(key, found, contents)


def is_known(key: str | None) -> bool:
    """Whether a program of a model was kept, and the files of the model are the same as then."""
    return key is not None and _files_of(disk_cache.find(key)) is not None


def _files_of(kept: bytes | None) -> list[tuple[str, Identity]] | None:
    """The paths and identities of a model's files; None if one has changed."""
    if kept is None:
        return None
    with suppress(OSError, ValueError, TypeError):
        files = [(path, tuple(identity)) for path, identity in json.loads(kept)]
        if all(identity_of(os.stat(path)) == identity for path, identity in files):
            return files
    return None


def find(key: str, options: Options, read: Callable[[], DataGraph]) -> Executable | None:
    """The executable of a model, from the program that was kept; None if there is none.

    Args:
        key: of the model.
        options: of the compilation.
        read: reads the graph, for the rare events that need it.
    """
    if not _is_usable():
        return None
    from .kept_program import KeptProgram

    files, data = _files_of(disk_cache.find(key)), disk_cache.find(_program_key(key, options))
    if files is None or data is None:
        return None
    with suppress(NotKeptError, OSError):
        mapped = [_mapped(*file) for file in files]
        return Executable._of_program(KeptProgram(data, mapped, options, read), options, read)
    return None


def keep(origin: Origin, executable: Executable) -> None:
    """Keep the program of an executable for later processes, if it has one."""
    from .compiled_program import CompiledProgram
    from .kept_program import written

    program, options = executable._programs.only_program(), executable._programs.options
    if not isinstance(program, CompiledProgram) or not _is_usable():
        return
    with suppress(NotKeptError, OneGraphError):
        data = written(program, origin.files)
        files = [(os.path.realpath(file.path), file.identity) for file in origin.files]
        disk_cache.keep(_program_key(origin.key, options), data)
        disk_cache.keep(origin.key, json.dumps(files).encode())


def _is_usable() -> bool:
    """Whether programs of this process are like those of others."""
    is_plain = not (RECORDERS or is_forked() or get_compiled_partition_cache_capacity())
    return is_plain and not HASHES_CONSTANTS and programs_keep_constants()


def _program_key(key: str, options: Options) -> str:
    given = options._asdict()
    if isinstance(options.threads, Mapping):
        given["threads"] = sorted(options.threads.items())
    return _digest(key, machine(), get_num_threads(), thread_share(), given)


def _mapped(path: str, identity: Identity) -> MappedFile:
    # O_NONBLOCK: opening a pipe must not wait.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if identity_of(os.fstat(file.fileno())) != identity:
            raise NotKeptError("the file has changed")
        return MappedFile.of(file.fileno(), path)


def _digest(*parts: object) -> str:
    return blake2b(repr(parts).encode(), digest_size=16).hexdigest()
