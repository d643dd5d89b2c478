"""The index of the cache folder: short texts by kind and key in one file, to which several processes append.

A record is a line: a kind, a key, a text and a checksum. A process appends its records in one call, so records of two
processes do not mix. A line that a full disk or a killed process has cut off has a wrong checksum and is ignored.
Finding a key reads what was appended since the last look, and lists no folder. A file that has become long is replaced
by its newer half.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from .cache_folder import get_cache_folder, is_own, make_folder
from .drafts import Draft, locked, remove_abandoned
from .fork_safety import new_rlock
from .mapped_file import open_regular

NAME = "index.log"
MOST_BYTES = 1 << 20  # of the file
MOST_TEXT = 1 << 14  # characters of a text; longer ones are not kept
ATTEMPTS = 8  # of appending to a file that others replace
LASTING = "files"  # the kind of which a long index loses no records: these name what the folder has
HEAD = "head"  # the kind of the first record of a file that replaced another one, which has a key of its own
BYTES_OF_HEAD = 36
Records = dict[str, str]  # texts by key


class FolderIndex:
    """The index of the cache folder, as this process has read it."""

    def __init__(self) -> None:
        self._lock = new_rlock()
        self._records: dict[str, Records] = {}
        self._is_whole = True
        self._file: tuple[Path, int, bytes] | None = None  # path, inode and first bytes
        self._end = 0  # how many bytes of the file were read

    def records(self, kind: str) -> tuple[Records, bool]:
        """The texts of a kind by key, those that were written last behind the others, and whether all could be read."""
        with self._lock:
            self._read()
            return dict(self._records.get(kind, {})), self._is_whole

    def find(self, kind: str, key: str) -> str | None:
        """The text that was written last under a key; None if there is none, or the file cannot be read."""
        with self._lock:
            self._read()
            return self._records.get(kind, {}).get(key)

    def write(self, folder: Path, kind: str, records: Mapping[str, str]) -> None:
        """Append texts without spaces by key; an empty text removes a key.

        Raises:
            OSError: the file cannot be written.
        """
        size = _append(folder / NAME, _lines({kind: records}))
        if size > MOST_BYTES:
            self.replace(folder, _newer_half)

    def replace(self, folder: Path, changed: Callable[[dict[str, Records]], dict[str, Records]]) -> None:
        """Replace the file. What other processes append meanwhile is appended to the new one.

        Args:
            folder: of the index.
            changed: the records of the new file, from all texts by kind and key.

        Raises:
            OSError: the file cannot be written.
        """
        path = folder / NAME
        with locked(folder):
            descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
            with open(descriptor, "rb", buffering=0) as old:
                whole = old.read() if is_own(os.fstat(descriptor)) else b""
                records: dict[str, Records] = {}
                _read_lines(whole, records)
                records.pop(HEAD, None)
                lines = _lines({HEAD: {os.urandom(8).hex(): "new"}, **changed(records)})
                draft = Draft(folder, 0o600)
                try:
                    draft.stream.write(lines)
                    draft.stream.flush()
                    draft.place(path)
                finally:
                    draft.close()
                if rest := old.read():
                    _append(path, rest)
        remove_abandoned(folder)

    def _read(self) -> None:
        """Read what was appended since the last look."""
        folder = get_cache_folder()
        path = None if folder is None else folder / NAME
        try:
            if path is None:
                raise FileNotFoundError
            with open(open_regular(path), "rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                if not is_own(status):
                    raise PermissionError
                # A new file may get the inode of the one that it replaces.
                read = path, status.st_ino, file.read(BYTES_OF_HEAD)
                if read != self._file or status.st_size < self._end:
                    self._records, self._is_whole, self._file, self._end = {}, True, read, 0
                file.seek(self._end)
                whole, end, _ = file.read().rpartition(b"\n")
        except OSError:
            self._records, self._file = {}, None
            return
        self._is_whole &= _read_lines(whole, self._records)
        self._end += len(whole) + len(end)


INDEX = FolderIndex()


class RecordLog:
    """The texts of a kind in the index, which may be lost.

    Attributes:
        kind: of the texts.
        index: the index.
    """

    def __init__(self, kind: str, index: FolderIndex = INDEX) -> None:
        self.kind, self.index = kind, index

    def find(self, key: str) -> str | None:
        """The text that was kept last under a key; None if there is none, or the index cannot be read."""
        return self.index.find(self.kind, key)

    def keep(self, key: str, text: str) -> None:
        """Keep a text without spaces under a key. Does nothing if the index cannot be written."""
        folder = get_cache_folder()
        if folder is None or len(text) > MOST_TEXT:
            return
        with suppress(OSError):
            make_folder(folder)
            self.index.write(folder, self.kind, {key: text})


def _append(path: Path, lines: bytes) -> int:
    """Append lines to the file of a path, which others may replace; returns the size of the file."""
    for _ in range(ATTEMPTS):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, lines)
            status = os.fstat(descriptor)
            with suppress(FileNotFoundError):
                if os.stat(path).st_ino == status.st_ino:
                    break
        finally:
            os.close(descriptor)
    return status.st_size


def _newer_half(records: dict[str, Records]) -> dict[str, Records]:
    """The records without the older ones of the kinds that may be lost, in half of the room."""
    kept = {kind: dict(texts) for kind, texts in records.items()}
    while len(_lines(kept)) > MOST_BYTES // 2 and any(texts for kind, texts in kept.items() if kind != LASTING):
        for kind, texts in kept.items():
            for key in [*texts][: -(-len(texts) // 4)] if kind != LASTING else ():
                del texts[key]
    return kept


def _lines(records: Mapping[str, Mapping[str, str]]) -> bytes:
    """The lines of records. What stands before them may be cut off, so each begins with an end of line."""
    texts = [f"{kind} {key} {text}" for kind, of_kind in records.items() for key, text in of_kind.items()]
    return "".join([f"\n{text} {zlib.crc32(text.encode()):08x}\n" for text in texts]).encode()


def _read_lines(lines: bytes, records: dict[str, Records]) -> bool:
    """Read the records of lines; False if a line is damaged."""
    is_whole = True
    for line in filter(None, lines.split(b"\n")):
        try:
            kind, key, text, checksum = line.decode().split(" ")
            is_right = int(checksum, 16) == zlib.crc32(f"{kind} {key} {text}".encode())
        except ValueError:
            is_right = False
        if is_right:
            texts = records.setdefault(kind, {})
            texts.pop(key, None)
            if text:
                texts[key] = text
        is_whole &= is_right
    return is_whole
