"""Keeps what was compiled in files, for later processes.

A file has a digest of its contents. A file that is damaged, of another program or too long is ignored, and so is a file
that another user owns or may write to. The reader checks what it gets against the program that it belongs to, and
computes it anew if it does not fit. Several processes may use the folder at once: a file is replaced as a whole, so
the contents of one that is mapped stay as they are, also if it is removed.

The index of the folder has the names and sizes of all files, also of those that are being written. So a new file is
counted without listing the folder. The folder is listed where the index cannot be right: it is new or damaged, or a
writer was killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from .cache_folder import get_cache_folder, is_own, make_folder
from .drafts import Draft, is_abandoned, is_draft, remove_abandoned
from .folder_index import INDEX, Records
from .mapped_file import MappedFile, open_regular

SUFFIX = ".onegraph"
HEADER = 128  # bytes, so that what is aligned in the data is aligned in memory too
MOST_BYTES = 1 << 27  # of a file
MOST_FILES = 512
MOST_BYTES_TOGETHER = 1 << 30  # of all files
KIND = "files"  # of the records in the index: sizes by name
LISTED = "listed"  # the record of an index that has all files of the folder
Digest = Callable[["int | MappedFile", int, int], str]  # of a file: of the bytes from a place on, so many


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
        path = folder / _name(key)
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
    folder, size = get_cache_folder(), HEADER + sum(map(len, data))
    if folder is None or size > MOST_BYTES:
        return
    with suppress(OSError):
        make_folder(folder)
        draft = Draft(folder, 0o600)
        name, placed = draft.name, dict[str, str]()
        try:
            INDEX.write(folder, KIND, {name: str(size)})
            # Not written through to the disk, which may take long: the digest tells what a loss of power damages.
            for part in (bytes(HEADER), *data):
                draft.stream.write(part)
            draft.stream.flush()
            draft.stream.seek(0)
            draft.stream.write(_head(key, digest(draft.stream.fileno(), HEADER, size - HEADER)))
            draft.stream.flush()
            draft.place(folder / _name(key))
            placed[_name(key)] = str(size)
        finally:
            draft.close()
            INDEX.write(folder, KIND, {name: "", **placed})
        _limit(folder)


def _name(key: str) -> str:
    return f"{key}{SUFFIX}"


def _head(key: str, digest: str) -> bytes:
    """What stands before the data in the file of a key."""
    return f"onegraph cache 3 {key} {digest}\n".encode().ljust(HEADER)


def _limit(folder: Path) -> None:
    """Remove files until a quarter of the limits is free, if there are too many; those that were used last stay."""
    sizes = _sizes(folder)
    if len(sizes) <= MOST_FILES and sum(sizes.values()) <= MOST_BYTES_TOGETHER:
        return
    there = _statuses(folder, sizes)
    count, size = len(there), sum(status.st_size for status in there.values())
    gone = sizes.keys() - there.keys()
    if count > MOST_FILES or size > MOST_BYTES_TOGETHER:
        for name in sorted(there, key=lambda name: there[name].st_mtime):
            if count <= MOST_FILES * 3 // 4 and size <= MOST_BYTES_TOGETHER * 3 // 4:
                break
            if not is_draft(name):
                with suppress(OSError):
                    os.unlink(folder / name)
                count, size, gone = count - 1, size - there[name].st_size, gone | {name}
    INDEX.write(folder, KIND, dict.fromkeys(gone, ""))
    # Another process may have kept a file of the same name, and said so before.
    INDEX.write(folder, KIND, {name: str(status.st_size) for name, status in _statuses(folder, gone).items()})


def _statuses(folder: Path, names: Iterable[str]) -> dict[str, os.stat_result]:
    """The status of each file that is there."""
    statuses = {}
    for name in names:
        with suppress(OSError):
            statuses[name] = os.stat(folder / name)
    return statuses


def _sizes(folder: Path) -> Mapping[str, int]:
    """The sizes of all files by name, from the index, which is made anew where it cannot be right."""
    known, is_whole = INDEX.records(KIND)
    is_right = is_whole and LISTED in known
    if not is_right or any(is_draft(name) and is_abandoned(folder / name) for name in known):
        INDEX.replace(folder, lambda records: {**records, KIND: _listed(folder)})
        known, _ = INDEX.records(KIND)
    return {name: int(size) for name, size in known.items() if size.isdecimal()}


def _listed(folder: Path) -> Records:
    """The records of all files of the folder."""
    remove_abandoned(folder)
    sizes = {LISTED: "all"}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(SUFFIX) or is_draft(entry.name):
                with suppress(OSError):  # another process has removed it
                    sizes[entry.name] = str(entry.stat().st_size)
    return sizes
