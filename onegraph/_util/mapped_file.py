"""Maps a file into memory."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Identity = tuple[int, ...]


def identity_of(status: os.stat_result) -> Identity:
    """The identity of a file and of its contents: whoever writes to the file changes the last number."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class MappedFile(mmap.mmap):
    """The contents of a regular file, which cannot be written through it.

    Attributes:
        path: the path of the file, for messages.
        address: of the first byte.
        identity: of the file, and of its contents when it was mapped.
    """

    path: str
    address: int
    identity: Identity

    @classmethod
    def of(cls, descriptor: int, path: object) -> MappedFile:
        """Map a whole file that is open for reading and not empty."""
        made = cls(descriptor, 0, access=mmap.ACCESS_READ)
        made.path = str(path)
        made.address = np.frombuffer(made, np.uint8).__array_interface__["data"][0]
        made.identity = identity_of(os.fstat(descriptor))
        return made

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
        """Give the pages at a place back to the system."""
        if hasattr(mmap, "MADV_DONTNEED"):  # Windows has no madvise
            self.madvise(mmap.MADV_DONTNEED, offset, size)
