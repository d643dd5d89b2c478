"""Finds the program that an earlier process has compiled for the same model, and keeps programs for later ones.

A program belongs to a model, the options of the compilation, the library and the processor. It has the weights that
were computed; all others stay in the files of the model.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from .._util import disk_cache
from .._util.mapped_file import Identity, MappedFile, identity_of
from ..builder.graph import DataGraph
from ..builder.origin import Origin, digest, files_of
from ..capi.caches import get_compiled_partition_cache_capacity, programs_keep_constants
from ..capi.machine import machine
from ..capi.threads import get_num_threads, is_forked, thread_share
from ..errors import OneGraphError
from ..native.library import HASHES_CONSTANTS
from .compile_options import Options
from .executable import RECORDERS, Executable
from .kept_partitions import NotKeptError

LONG = 1 << 22  # bytes; more are written in a thread, because that takes longer than a first result


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

    files, data = files_of(disk_cache.find(key)), disk_cache.find(_program_key(key, options))
    if files is None or data is None:
        return None
    with suppress(NotKeptError, OSError):
        mapped = [_mapped(*file) for file in files]
        return Executable._of_program(KeptProgram(data, mapped, options, read), options, read)
    return None


def keep(origin: Origin, executable: Executable) -> None:
    """Keep the program of an executable for later processes, if it has one."""
    from .compiled_program import CompiledProgram
    from .program_writer import written

    program, options = executable._programs.only_program(), executable._programs.options
    if not isinstance(program, CompiledProgram) or not _is_usable():
        return
    with suppress(NotKeptError, OneGraphError):
        data = written(program, origin.files)
        files = [(os.path.realpath(file.path), file.identity) for file in origin.files]
        key = _program_key(origin.key, options)

        def write() -> None:
            disk_cache.keep(key, *data)
            disk_cache.keep(origin.key, json.dumps(files).encode())

        if sum(map(len, data)) < LONG:
            write()
            return
        with suppress(RuntimeError):  # the system refuses a thread, or the interpreter ends
            threading.Thread(target=write, name="onegraph cache").start()


def _is_usable() -> bool:
    """Whether programs of this process are like those of others."""
    is_plain = not (RECORDERS or is_forked() or get_compiled_partition_cache_capacity())
    return is_plain and not HASHES_CONSTANTS and programs_keep_constants()


def _program_key(key: str, options: Options) -> str:
    given = options._asdict()
    if isinstance(options.threads, Mapping):
        given["threads"] = sorted(options.threads.items())
    return digest(key, machine(), get_num_threads(), thread_share(), given)


def _mapped(path: str, identity: Identity) -> MappedFile:
    # O_NONBLOCK: opening a pipe must not wait.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if identity_of(os.fstat(file.fileno())) != identity:
            raise NotKeptError("the file has changed")
        return MappedFile.of(file.fileno(), path)
