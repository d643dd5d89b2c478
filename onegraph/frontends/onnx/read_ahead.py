"""Reads the large tensors of a model from its file, with several threads while the structure is parsed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread

import numpy as np

from ...arrays.ndarrays import aligned_empty
from ...ir.op import Array

BYTE = np.dtype(np.uint8)
MOST_THREADS = 4  # more do not copy faster
LEAST_BYTES = 1 << 22  # for each thread; a thread takes as long to start as it takes to copy a part of that


class ReadAhead:
    """The contents of some places of a file.

    Args:
        file: descriptor of the file, which stays open until ``stop``.
        chunks: offset and size of each place.
    """

    def __init__(self, file: int, chunks: Sequence[tuple[int, int]]) -> None:
        self._file, self._stopped = file, False
        self._failure: OSError | None = None
        self._read = set[int]()  # offsets of the places that threads have read
        self._waiting: dict[int, tuple[Thread, Array]] = {}  # by offset
        self._threads: list[Thread] = []
        total = sum(size for _, size in chunks)
        count = min(MOST_THREADS, len(os.sched_getaffinity(0)), total // LEAST_BYTES)
        if count < 2:
            return
        arrays = [(offset, aligned_empty((size,), BYTE)) for offset, size in chunks]
        done, shares = 0, list[list[tuple[int, Array]]]([] for _ in range(count))
        for offset, array in arrays:
            shares[done * count // total].append((offset, array))
            done += array.nbytes
        for share in shares:
            thread = Thread(target=self._read_all, args=(share,), daemon=True)
            self._waiting.update((offset, (thread, array)) for offset, array in share)
            self._threads.append(thread)
            thread.start()

    def take(self, offset: int, size: int) -> Array | None:
        """The bytes of a place, in aligned memory that nobody else has; None if the file is shorter.

        Raises:
            OSError: the file cannot be read.
        """
        thread, array = self._waiting.pop(offset, (None, None))
        if thread is None or array is None:
            array = aligned_empty((size,), BYTE)
            return array if _read(self._file, offset, array) else None
        thread.join()
        if self._failure is not None:
            raise self._failure
        return array if offset in self._read else None

    def stop(self) -> None:
        """Wait until no thread reads."""
        self._stopped = True
        for thread in self._threads:
            thread.join()

    def _read_all(self, share: Sequence[tuple[int, Array]]) -> None:
        try:
            for offset, array in share:
                if self._stopped or not _read(self._file, offset, array):
                    return
                self._read.add(offset)
        except OSError as error:
            self._failure = error


@contextmanager
def reading(file: int, chunks: Sequence[tuple[int, int]]) -> Iterator[ReadAhead]:
    """The contents of places of a file; at the end of the block, nothing reads the file."""
    found = ReadAhead(file, chunks)
    try:
        yield found
    finally:
        found.stop()


def _read(file: int, offset: int, array: Array) -> bool:
    """Read the bytes from an offset on into an array; returns False if the file is shorter."""
    target, done = memoryview(array), 0  # type: ignore[arg-type]
    while done < len(target):  # one read has at most 2 GB
        count = os.preadv(file, [target[done:]], offset + done)
        if not count:
            return False
        done += count
    return True
