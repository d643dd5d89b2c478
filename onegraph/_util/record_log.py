"""Keeps many short texts by key in one file of the cache folder, to which several processes append.

A record is a line: a key, a text and a checksum. A process appends it in one call, so records of two processes do not
mix. A line that a full disk or a killed process has cut off has a wrong checksum and is ignored. Finding a key reads
what was appended since the last look, and lists no folder. A file that has become long is replaced by its newer half.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from pathlib import Path

from .disk_cache import get_cache_folder, is_own
from .drafts import Draft, locked, remove_abandoned
from .fork_safety import new_rlock
from .mapped_file import open_regular

MOST_BYTES = 1 << 20  # of the file
MOST_TEXT = 1 << 14  # characters of a text; longer ones are not kept


class RecordLog:
    """The texts in a file of the cache folder.

    Args:
        name: of the file.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = new_rlock()
        self._texts: dict[str, str] = {}
        self._seen: tuple[Path | None, int, int] = None, 0, 0  # path and inode of the file, and how much was read

    def find(self, key: str) -> str | None:
        """The text that was kept last under a key; None if there is none, or the file cannot be read."""
        with self._lock:
            self._read()
            return self._texts.get(key)

    def keep(self, key: str, text: str) -> None:
        """Keep a text without spaces under a key. Does nothing if the file cannot be written."""
        folder = get_cache_folder()
        if folder is None or len(text) > MOST_TEXT:
            return
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(folder / self.name, flags, 0o600)
            try:
                # The line before may be cut off, so that each line begins with its own end of line.
                os.write(descriptor, f"\n{_line(key, text)}\n".encode())
                size = os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)
            if size > MOST_BYTES:
                self._shorten(folder)

    def _read(self) -> None:
        """Read what was appended since the last look."""
        folder = get_cache_folder()
        path = None if folder is None else folder / self.name
        try:
            if path is None:
                raise FileNotFoundError
            with open(open_regular(path), "rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                if not is_own(status):
                    raise PermissionError
                if (path, status.st_ino) != self._seen[:2] or status.st_size < self._seen[2]:
                    self._texts, self._seen = {}, (path, status.st_ino, 0)
                file.seek(self._seen[2])
                whole, end, _ = file.read(2 * MOST_BYTES).rpartition(b"\n")
        except OSError:
            self._texts, self._seen = {}, (None, 0, 0)
            return
        self._texts.update(_records(whole))
        self._seen = path, status.st_ino, self._seen[2] + len(whole) + len(end)

    def _shorten(self, folder: Path) -> None:
        """Replace the file by its newer half. What another process appends to the old file meanwhile is lost."""
        with locked(folder):
            path = folder / self.name
            if path.stat().st_size <= MOST_BYTES:
                return
            kept = [_line(key, text) for key, text in _records(path.read_bytes()).items()]
            while sum(map(len, kept)) + 2 * len(kept) > MOST_BYTES // 2:
                del kept[: -(-len(kept) // 4)]
            draft = Draft(folder, 0o600)
            try:
                draft.stream.write("".join([f"\n{line}\n" for line in kept]).encode())
                draft.stream.flush()
                draft.place(path)
            finally:
                draft.close()
        remove_abandoned(folder)


def _line(key: str, text: str) -> str:
    return f"{key} {text} {zlib.crc32(f'{key} {text}'.encode()):08x}"


def _records(lines: bytes) -> dict[str, str]:
    """The texts by key, those that were kept last behind the others."""
    records: dict[str, str] = {}
    for line in lines.split(b"\n"):
        with suppress(ValueError):
            key, text, checksum = line.decode().split(" ")
            if int(checksum, 16) == zlib.crc32(f"{key} {text}".encode()):
                records.pop(key, None)
                records[key] = text
    return records
