"""Finds the program that an earlier process has compiled for the same model, and keeps programs for later ones.

A program belongs to a model, the options of the compilation, the library and the processor. It has the weights that
were computed; all others stay in the files of the model. It holds the proof of what it was computed from
(``runtime.origin``), which is checked before it is used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from .._util import disk_cache
from .._util.mapped_file import SourceFiles
from ..builder.graph import DataGraph
from ..capi.caches import get_compiled_partition_cache_capacity, programs_keep_constants
from ..capi.machine import machine
from ..capi.threads import get_num_threads, is_forked, thread_share
from ..errors import OneGraphError
from ..native.digests import digest_of
from ..native.library import HASHES_CONSTANTS
from .compile_options import CompileOptions
from .executable import RECORDERS, Executable
from .kept_partitions import NotKeptError
from .origin import Origin, digest, is_proven, remember

LONG = 1 << 22  # bytes; more are written in a thread, because that takes longer than a first result


def find(key: str, options: CompileOptions, files: SourceFiles, read: Callable[[], DataGraph]) -> Executable | None:
    """The executable of a model, from the program that was kept; None if there is none.

    Args:
        key: of the model.
        options: of the compilation.
        files: of the model.
        read: reads the graph, for the rare events that need it.
    """
    if not _is_usable():
        return None
    from .kept_program import KeptProgram, without_proof

    data = disk_cache.find(_program_key(key, options), digest_of)
    if data is None:
        return None
    sources = [*files]
    mapped = [file.mapped for file in sources if file.mapped is not None]
    with suppress(NotKeptError):
        program, proof = without_proof(data)
        # Reading the files takes as long as compiling, so that both go on at once.
        check = _started(lambda: is_proven(proof, sources))
        try:
            executable = Executable._of_program(KeptProgram(program, mapped, options, read), options, read)
        finally:
            proven = check()
        return executable if proven else None
    return None


def _started(run: Callable[[], bool]) -> Callable[[], bool]:
    """Run a function in a thread of its own; returns a function that waits for its result."""
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(run()), name="onegraph check")
    try:
        thread.start()
    except RuntimeError:  # the system refuses a thread
        return run

    def result() -> bool:
        thread.join()
        return results == [True]

    return result


def keep(origin: Origin, executable: Executable) -> None:
    """Keep the program of an executable for later processes, if it has one."""
    from .compiled_program import CompiledProgram
    from .program_writer import with_proof, written

    program, options = executable._programs.only_program(), executable._programs.options
    if not isinstance(program, CompiledProgram) or not _is_usable():
        return
    with suppress(NotKeptError, OneGraphError):
        data = written(program, origin.mapped)
        key = _program_key(origin.key, options)

        def write() -> None:
            with suppress(OSError):
                proof = origin.proof()
                if proof is not None:
                    disk_cache.keep(key, digest_of, *with_proof(data, proof))
                    remember(origin.key, [file for file, _ in origin.files])

        if sum(map(len, data)) < LONG and origin.is_short:
            write()
            return
        with suppress(RuntimeError):  # the system refuses a thread, or the interpreter ends
            threading.Thread(target=write, name="onegraph cache").start()


def _is_usable() -> bool:
    """Whether programs of this process are like those of others."""
    is_plain = not (RECORDERS or is_forked() or get_compiled_partition_cache_capacity())
    return is_plain and not HASHES_CONSTANTS and programs_keep_constants()


def _program_key(key: str, options: CompileOptions) -> str:
    settings = options._asdict()
    if isinstance(options.threads, Mapping):
        settings["threads"] = sorted(options.threads.items())
    return digest(key, machine(), get_num_threads(), thread_share(), settings)
