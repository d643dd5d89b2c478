"""Keeps what was measured and compiled in files, for later processes.

A file has a checksum of its contents. A file that is damaged, of another program or too long is ignored, and so is a
file that another user owns or may write to. The reader checks what it gets against the program that it belongs to, and
computes it anew if it does not fit. Several processes may use the folder at once: a file is replaced as a whole, so
the contents of one that is mapped stay as they are.
"""

from __future__ import annotations

import os
import stat
import threading
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..errors import ArgumentError
from .mapped_file import MappedFile
from .paths import path_of

VARIABLE = "ONEGRAPH_CACHE"  # the folder; empty for none
SUFFIX = ".onegraph"
HEADER = 64  # bytes, so that what is aligned in the data is aligned in memory too
MOST_BYTES = 1 << 27  # of a file
MOST_FILES = 512
MOST_BYTES_TOGETHER = 1 << 30  # of all files
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_chosen: list[Path | None] = []  # what the program has set, otherwise empty


def get_cache_folder() -> Path | None:
    """The folder of the files that onegraph keeps for later processes; None if it keeps none.

    ``set_cache_folder`` sets it; before, it is the environment variable ``ONEGRAPH_CACHE``, where an empty text stands
    for None, or else ``onegraph`` in ``XDG_CACHE_HOME`` or ``~/.cache``.
    """
    if _chosen:
        return _chosen[-1]
    given = os.environ.get(VARIABLE)
    if given is not None:
        return Path(given).absolute() if given else None
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "onegraph"
    except RuntimeError:  # no home
        return None


def set_cache_folder(folder: object) -> None:
    """Set the folder of the files that onegraph keeps for later processes; it is made when the first file is written.

    Args:
        folder: a path; None to keep nothing and to read nothing.

    Raises:
        ArgumentError: ``folder`` is neither a path nor None.
    """
    path = None if folder is None else path_of("folder", folder, "the path of a folder, or None")
    if path is not None and path.exists() and not path.is_dir():
        raise ArgumentError(f"folder: {str(path)!r} is not a folder")
    _chosen[:] = [None if path is None else path.absolute()]


def find(key: str) -> memoryview | None:
    """The data that was kept under a key, in a mapped file; None if there is none, or it cannot be read.

    Args:
        key: at most 32 hexadecimal digits.
    """
    folder = get_cache_folder()
    if folder is None:
        return None
    with suppress(OSError):
        path = _file(folder, key)
        # Opening a pipe must not wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb", buffering=0):
            status = os.fstat(descriptor)
            is_own = status.st_uid == os.geteuid() and not status.st_mode & WRITABLE_BY_OTHERS
            if not stat.S_ISREG(status.st_mode) or not is_own or not HEADER <= status.st_size <= MOST_BYTES:
                return None
            mapped = MappedFile.of(descriptor, path)
            body = memoryview(mapped)[HEADER:]
            if mapped[:HEADER] == _head(key, [body]):
                os.utime(descriptor)  # the files that were not used for longest are removed first
                return body
    return None


def keep(key: str, *data: bytes | memoryview) -> None:
    """Keep data, given in parts, under a key. Does nothing if the file cannot be written, or would be too long."""
    folder = get_cache_folder()
    if folder is None or HEADER + sum(map(len, data)) > MOST_BYTES:
        return
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = folder / f".{key}.{os.getpid()}.{threading.get_ident()}{SUFFIX}"
        try:
            # Not flushed to the disk, which may take long: what a crash damages is ignored.
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                for part in (_head(key, data), *data):
                    file.write(part)
            draft.replace(_file(folder, key))
        finally:
            draft.unlink(missing_ok=True)
        _limit(folder)


def _file(folder: Path, key: str) -> Path:
    return folder / f"{key}{SUFFIX}"


def _head(key: str, data: Sequence[bytes | memoryview]) -> bytes:
    """What stands before the data in the file of a key."""
    checksum = 0
    for part in data:
        checksum = zlib.crc32(part, checksum)
    return f"onegraph cache 2 {key} {checksum:08x}\n".encode().ljust(HEADER)


def _limit(folder: Path) -> None:
    """Remove files until a quarter of the limits is free, if there are too many; those that were used last stay."""
    with os.scandir(folder) as entries:
        found = [(entry.stat(follow_symlinks=False), entry.path) for entry in entries if entry.name.endswith(SUFFIX)]
    files = sorted((status.st_mtime, path, status.st_size) for status, path in found)
    count, size = len(files), sum(size for _, _, size in files)
    if count <= MOST_FILES and size <= MOST_BYTES_TOGETHER:
        return
    for _, path, own in files:
        if count <= MOST_FILES * 3 // 4 and size <= MOST_BYTES_TOGETHER * 3 // 4:
            break
        count, size = count - 1, size - own
        with suppress(OSError):
            os.unlink(path)
