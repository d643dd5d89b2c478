"""Keeps what was compiled in files, for later processes.

A file has a digest of its contents. A file that is damaged, of another program or too long is ignored, and so is a file
that another user owns or may write to. The reader checks what it gets against the program that it belongs to, and
computes it anew if it does not fit. Several processes may use the folder at once: a file is replaced as a whole, so
the contents of one that is mapped stay as they are, also if it is removed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..errors import ArgumentError
from .drafts import Draft, remove_abandoned
from .mapped_file import MappedFile, open_regular
from .paths import absolute, path_of

VARIABLE = "ONEGRAPH_CACHE"  # the folder; empty for none
SUFFIX = ".onegraph"
HEADER = 128  # bytes, so that what is aligned in the data is aligned in memory too
MOST_BYTES = 1 << 27  # of a file
MOST_FILES = 512
MOST_BYTES_TOGETHER = 1 << 30  # of all files
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
Digest = Callable[["int | MappedFile", int, int], str]  # of a file: of the bytes from a place on, so many
_chosen: list[Path | None] = []  # what the program has set, otherwise empty


def get_cache_folder() -> Path | None:
    """The folder of the files that onegraph keeps for later processes; None if it keeps none.

    ``set_cache_folder`` sets it; before, it is the environment variable ``ONEGRAPH_CACHE``, where an empty text stands
    for None, or else ``onegraph`` in ``XDG_CACHE_HOME`` or ``~/.cache``.
    """
    if _chosen:
        return _chosen[-1]
    folder, base = os.environ.get(VARIABLE), os.environ.get("XDG_CACHE_HOME", "")
    try:
        if folder is not None:
            return Path(absolute(folder)) if folder else None
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "onegraph"
    except (OSError, RuntimeError):  # no current folder, no home
        return None


def set_cache_folder(folder: object) -> None:
    """Set the folder of the files that onegraph keeps for later processes; it is made when the first file is written.

    Args:
        folder: a path; None to keep nothing and to read nothing.

    Raises:
        ArgumentError: ``folder`` is neither a path nor None, or is relative where there is no current folder.
    """
    path = None if folder is None else path_of("folder", folder, "the path of a folder, or None")
    if path is not None and os.path.exists(path) and not os.path.isdir(path):
        raise ArgumentError(f"folder: {str(path)!r} is not a folder")
    try:
        _chosen[:] = [None if path is None else Path(absolute(path))]
    except OSError:
        raise ArgumentError(f"folder: {str(path)!r} is relative, and the current folder is gone") from None


def find(key: str, digest: Digest) -> memoryview | None:
    """The data that was kept under a key, in a mapped file; None if there is none, or it cannot be read.

    Args:
        key: at most 32 hexadecimal digits.
        digest: that was used when the data was kept.
    """
    folder = get_cache_folder()
    if folder is None:
        return None
    with suppress(OSError):
        path = _file(folder, key)
        with open(open_regular(path), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not is_own(status) or not HEADER <= status.st_size <= MOST_BYTES:
                return None
            mapped = MappedFile.of(file.fileno(), path)
            if mapped[:HEADER] != _head(key, digest(mapped, HEADER, len(mapped) - HEADER)):
                return None
            with suppress(OSError):  # a folder that can only be read
                os.utime(file.fileno())  # the files that were not used for longest are removed first
            return memoryview(mapped)[HEADER:]
    return None


def keep(key: str, digest: Digest, *data: bytes | memoryview) -> None:
    """Keep data, given in parts, under a key. Does nothing if the file cannot be written, or would be too long."""
    folder, size = get_cache_folder(), sum(map(len, data))
    if folder is None or HEADER + size > MOST_BYTES:
        return
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = Draft(folder, 0o600)
        try:
            # Not written through to the disk, which may take long: the digest tells what a loss of power damages.
            for part in (bytes(HEADER), *data):
                draft.stream.write(part)
            draft.stream.flush()
            draft.stream.seek(0)
            draft.stream.write(_head(key, digest(draft.stream.fileno(), HEADER, size)))
            draft.stream.flush()
            draft.place(_file(folder, key))
        finally:
            draft.close()
            remove_abandoned(folder)
        _limit(folder)


def is_own(status: os.stat_result) -> bool:
    """Whether a file belongs to this user, and no other one may write to it."""
    return status.st_uid == os.geteuid() and not status.st_mode & WRITABLE_BY_OTHERS


def _file(folder: Path, key: str) -> Path:
    return folder / f"{key}{SUFFIX}"


def _head(key: str, digest: str) -> bytes:
    """What stands before the data in the file of a key."""
    return f"onegraph cache 3 {key} {digest}\n".encode().ljust(HEADER)


def _limit(folder: Path) -> None:
    """Remove files until a quarter of the limits is free, if there are too many; those that were used last stay."""
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # another process has removed it
                if entry.name.endswith(SUFFIX):
                    status = entry.stat(follow_symlinks=False)
                    files.append((status.st_mtime, entry.path, status.st_size))
    files.sort()
    count, size = len(files), sum(size for _, _, size in files)
    if count <= MOST_FILES and size <= MOST_BYTES_TOGETHER:
        return
    for _, path, own in files:
        if count <= MOST_FILES * 3 // 4 and size <= MOST_BYTES_TOGETHER * 3 // 4:
            break
        count, size = count - 1, size - own
        with suppress(OSError):
            os.unlink(path)
