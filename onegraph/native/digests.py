"""Computes digests of the contents of files at the speed of memory; see ``csrc/file_digest.cpp``."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from .._util.interpreter_tricks import blake2b
from .._util.mapped_file import MappedFile
from .library import ffi, lib

PACKAGE = Path(__file__).resolve().parents[1]
ENDINGS = (".py", ".so")
MOST_THREADS = 4  # more read no faster
CHUNK, SIZE = int(lib.onegraph_digest_chunk), int(lib.onegraph_digest_size)
# Seconds between the start of a process and its first import of the package, at least.
EARLIEST_IMPORT = 0.02


def digest_of(file: int | MappedFile, offset: int, size: int) -> str:
    """The digest of a part of a file.

    Args:
        file: the descriptor of an open file, which is read; or a mapped file, which takes half the time.
        offset, size: of the part.

    Raises:
        OSError: the file is shorter, or cannot be read.
    """
    digests = bytearray(SIZE * -(-size // CHUNK))
    threads = min(MOST_THREADS, len(os.sched_getaffinity(0)))
    descriptor, address = (file, 0) if isinstance(file, int) else (file.descriptor, file.address)
    if address and offset + size > os.fstat(descriptor).st_size:  # reading memory behind the end would end the process
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    _refuse(lib.onegraph_digest(descriptor, address, offset, size, threads, ffi.from_buffer(digests)))
    return _joined(digests, size)


@cache
def package_digest() -> str | None:
    """The digest of the package: its Python sources, the extension, and the versions of what computes with it.

    None if the files have changed since this process has started, which may then run older code than they hold.
    """
    try:
        paths = sorted(_sources(str(PACKAGE)))
        all_paths = [os.fsencode(path) for path in (*paths, *_versions())]
        digests, changed = bytearray(SIZE * len(all_paths)), ffi.new("long long *")
        names = b"".join([path + b"\0" for path in all_paths])
        _refuse(lib.onegraph_digest_files(len(all_paths), names, ffi.from_buffer(digests), changed))
        if not paths or 1e-9 * changed[0] > _started() + EARLIEST_IMPORT:
            return None
    except (OSError, ValueError):
        return None
    return _joined(digests, [os.path.relpath(path, PACKAGE) for path in paths], sys.version, np.__version__)


def _sources(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(ENDINGS):
                yield entry.path
            elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                yield from _sources(entry.path)


def _versions() -> list[str]:
    """The file that has the version of the package onnx, which computes constants of models; it is not imported."""
    spec = find_spec("onnx")
    path = None if spec is None or spec.origin is None else Path(spec.origin).with_name("version.py")
    return [str(path)] if path is not None and path.exists() else []


def _started() -> float:
    """When this process has started, in seconds since 1970."""
    with open("/proc/self/stat", "rb") as file:
        ticks = int(file.read().rpartition(b")")[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age


def _joined(digests: bytearray, *more: object) -> str:
    made = blake2b(digests, digest_size=16)
    made.update(repr(more).encode())
    return made.hexdigest()


def _refuse(error: int) -> None:
    if error:
        raise OSError(error, os.strerror(error))
