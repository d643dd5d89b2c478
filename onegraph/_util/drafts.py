"""Makes drafts: files that get their names when they are complete, and locks of the folders that they are in.

A draft has a name that begins with a dot, and a lock that its writer holds. The lock ends with the process, however it
ends. So another writer can tell the draft of a process that was killed from one that is being written, and removes it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

PREFIX, SUFFIX = ".onegraph-", ".draft"
PATIENCE, PAUSE = 20.0, 2e-3  # seconds that a lock is waited for, and between two attempts


class Draft:
    """A file without its name yet.

    Attributes:
        name: in its folder, until it gets the name of a file.
        path: where it is; None when it has got its name.
        stream: to write to, and to read from.
    """

    def __init__(self, folder: Path, mode: int) -> None:
        self.path: Path | None
        while True:
            self.name = f"{PREFIX}{os.urandom(8).hex()}{SUFFIX}"
            self.path = folder / self.name
            self.stream: IO[bytes] = open(  # noqa: SIM115 - ``drafts`` closes it
                os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), mode), "w+b"
            )
            lock(self.stream.fileno())
            if self.path.exists():  # otherwise another writer took it for abandoned, before it was locked
                return
            self.stream.close()

    def place(self, path: Path) -> None:
        """Give the file its name; a file of that name is replaced."""
        if self.path is not None:
            self.path.replace(path)
            self.path = None

    def flush(self) -> None:
        """Write all contents to the disk."""
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def close(self) -> None:
        """Close the file, and remove it if it has got no name."""
        if self.path is not None:
            with suppress(OSError):
                os.unlink(self.path)
        with suppress(OSError):  # a full disk: what could not be written goes nowhere
            self.stream.close()


def remove_abandoned(folder: Path) -> None:
    """Remove the drafts in a folder whose writers are gone."""
    with suppress(OSError), os.scandir(folder) as entries:
        for path in [entry.path for entry in entries if is_draft(entry.name)]:
            with suppress(OSError), _free(path) as is_free:
                if is_free:
                    os.unlink(path)


def is_draft(name: str) -> bool:
    """Whether a file is a draft, by its name."""
    return name.startswith(PREFIX) and name.endswith(SUFFIX)


def is_abandoned(path: Path) -> bool:
    """Whether a draft is gone, or its writer is."""
    try:
        with _free(path) as is_free:
            return is_free
    except FileNotFoundError:
        return True
    except OSError:
        return False


@contextmanager
def _free(path: str | Path) -> Iterator[bool]:
    """A block in which nobody else has a draft; gives False where file systems have no locks.

    Raises:
        OSError: somebody else has it, or it cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield lock(descriptor, wait=0)
    finally:
        os.close(descriptor)


def lock(descriptor: int, *, wait: float = PATIENCE, shared: bool = False) -> bool:
    """Lock an open file until it is closed; False where file systems have no locks.

    Args:
        descriptor: of the file.
        wait: seconds to wait for another holder of the lock.
        shared: True lets several readers in at once.

    Raises:
        OSError: another holder has not given up the lock in time.
    """
    if fcntl is None:
        return False
    kind, end = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB, time.monotonic() + wait
    while True:
        try:
            fcntl.flock(descriptor, kind)
        except BlockingIOError:
            # A blocking call would wait for ever if a signal handler has interrupted the holder in this thread.
            if time.monotonic() >= end:
                raise
            time.sleep(PAUSE)
        except OSError:
            return False
        else:
            return True


@contextmanager
def locked(folder: Path, *, shared: bool = False) -> Iterator[bool]:
    """A block in which nobody else replaces files of a folder; gives False where file systems have no locks.

    Args:
        folder: it exists.
        shared: True lets several readers in at once.

    Raises:
        OSError: a writer holds the lock for longer than ``PATIENCE``.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError:  # a folder without the permission to read
        yield False
        return
    try:
        yield lock(descriptor, shared=shared)
    finally:
        os.close(descriptor)


def flush_folder(folder: Path) -> None:
    """Write the names of a folder to the disk, so that they survive a loss of power."""
    with suppress(OSError):  # file systems that flush no folders
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
