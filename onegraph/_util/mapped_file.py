"""Maps files into memory."""

from __future__ import annotations

import errno
import mmap
import os
import stat
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .paths import absolute

Identity = tuple[int, ...]


def identity_of(status: os.stat_result) -> Identity:
    """The identity of a file and of its contents. A writer through a memory map leaves it as it is."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class NotRegularError(OSError):
    """A path leads to no regular file."""


class MappedFile(mmap.mmap):
    """The contents of a regular file, which cannot be written through it.

    Attributes:
        path: the path of the file, for messages.
        address: of the first byte.
        identity: of the file, and of its contents when it was mapped.
        descriptor: of the open file.
    """

    path: str
    address: int
    identity: Identity
    descriptor: int

    @classmethod
    def of(cls, descriptor: int, path: object) -> MappedFile:
        """Map a whole file that is open for reading and not empty."""
        made = cls(descriptor, 0, access=mmap.ACCESS_READ)
        made.path = str(path)
        made.address = np.frombuffer(made, np.uint8).__array_interface__["data"][0]
        made.identity = identity_of(os.fstat(descriptor))
        made.descriptor = os.dup(descriptor)
        weakref.finalize(made, os.close, made.descriptor).atexit = False
        return made

    def is_changed(self) -> bool:
        """Whether the file is known to have been written to since it was mapped."""
        return identity_of(os.fstat(self.descriptor))[2:4] != self.identity[2:4]

    def array(self, offset: int, shape: Iterable[int], dtype: np.dtype[Any]) -> NDArray[Any]:
        """The numbers at a place of the file, without a copy. The place need not be aligned to the data type."""
        dims = tuple(shape)
        memory: Any = self
        array: NDArray[Any] = np.ndarray(dims, dtype, memory, offset)
        return array

    def give_back(self) -> None:
        """Give all pages back to the system."""
        self.give_back_part(0, len(self))

    def give_back_part(self, offset: int, size: int) -> None:
        """Give the pages at a place back to the system, unless the process has locked its memory."""
        if hasattr(mmap, "MADV_DONTNEED"):  # Windows has no madvise
            with suppress(OSError):
                self.madvise(mmap.MADV_DONTNEED, offset, size)


def open_regular(path: str | os.PathLike[str]) -> int:
    """Open a regular file for reading.

    Raises:
        NotRegularError: it is another kind of file.
        OSError: it cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # opening a pipe must not wait
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularError(errno.EINVAL, "not a regular file")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class SourceFile(NamedTuple):
    """A file that a model is read from.

    Attributes:
        written: its path as the caller and the model have it.
        resolved: its path without symbolic links, as it was when the file was opened.
        mapped: its contents; None if it is empty.
    """

    written: str
    resolved: str
    mapped: MappedFile | None


class SourceFiles:
    """The files that a model is read from. Each is opened once, so that all readers see the same contents.

    Attributes:
        notice: is called with each file, before anything is read from it; None for nothing.
    """

    def __init__(self) -> None:
        self.notice: Callable[[SourceFile], object] | None = None
        self._files: dict[str, SourceFile] = {}

    def __iter__(self) -> Iterator[SourceFile]:
        return iter([*self._files.values()])

    def open(self, path: str | os.PathLike[str], resolved: str | None = None) -> MappedFile | None:
        """The contents of a file, or None if it is empty.

        Args:
            path: as it is written.
            resolved: the path without symbolic links, if it is known.

        Raises:
            NotRegularError: it is no regular file.
            OSError: it cannot be opened.
        """
        written = absolute(path)
        if written not in self._files:
            real = os.path.realpath(path) if resolved is None else resolved
            with open(open_regular(real), "rb", buffering=0) as file:
                is_empty = not os.fstat(file.fileno()).st_size
                mapped = None if is_empty else MappedFile.of(file.fileno(), path if resolved is None else resolved)
            source = SourceFile(written, real, mapped)
            if self.notice is not None:
                self.notice(source)
            self._files[written] = source
        return self._files[written].mapped
