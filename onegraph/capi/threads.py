"""Reads and sets the number of threads that the library uses for the calling thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .._util.processor_share import Share, openmp_threads, processor_share
from .._util.validation import integer
from ..errors import UnsupportedError
from ..native import library
from ..native.library import lib
from .engine import engines_exist

# More threads than processors slow each other down, and OpenMP ends the process if it cannot start a thread.
MAX_THREADS = max(64, os.cpu_count() or 1)
# Runtimes that pass the work to threads of their own and wait for them.
THREADED_ELSEWHERE = ("SYCL", "TBB", "thread pool")
_forked: set[int] = set()


def get_num_threads() -> int | None:
    """Number of threads that runs of the calling thread may use; None if the library is not built with OpenMP.

    This is OpenMP's setting of the calling thread. A new thread starts with the setting of the process, which is
    ``OMP_NUM_THREADS`` or the number of processors, whatever other threads have set.
    """
    function = library.omp_function("omp_get_max_threads")
    return None if function is None else int(function())


def threads_now() -> int:
    """Number of threads that runs of the calling thread may use; 1 where the library is not built with OpenMP."""
    return get_num_threads() or 1


def thread_share() -> Share:
    """How many threads a run of the calling thread uses by default, and what limits them.

    OpenMP knows ``OMP_NUM_THREADS`` and the processor affinity, and no other limit. A number that the calling thread
    has set takes the place of all limits.
    """
    now, share = get_num_threads(), processor_share()
    if is_forked():
        return Share(1, "this process was forked after oneDNN ran")
    if now is None or now in (share.threads, openmp_threads()):
        return share
    return Share(now, f"onegraph.set_num_threads({now})")


def check_threads(count: object) -> int:
    """``count`` as a valid number of threads.

    Raises:
        ArgumentError: it is not a positive integer, or is larger than 64 and the number of processors.
    """
    return integer("threads", count, 1, MAX_THREADS)


def is_forked() -> bool:
    """Whether the calling thread was forked after an engine was made, so that it can use one thread only."""
    return threading.get_ident() in _forked


def set_num_threads(count: int) -> None:
    """Set the number of threads for runs that the calling thread starts, from the next one on.

    Other threads keep their numbers; see ``get_num_threads``, and ``num_threads`` for a block. An executable that was
    compiled for a given number of threads uses that number.

    Raises:
        ArgumentError: the count is not a positive integer, or is larger than 64 and the number of processors.
        UnsupportedError: the library is not built with OpenMP; or this thread was forked, where OpenMP would wait
            forever for threads that the child process does not have.
    """
    number = check_threads(count)
    function = library.omp_function("omp_set_num_threads")
    if function is None:
        raise UnsupportedError(f"the library runs its threads with {library.RUNTIME}; only OpenMP's can be set")
    if number > 1 and is_forked():
        raise UnsupportedError(
            f"threads: {number}; this process was forked after oneDNN ran, so that this thread can only use 1; "
            "start processes with the method spawn, or run in a new thread"
        )
    function(number)


@contextmanager
def num_threads(count: int) -> Iterator[None]:
    """A block in which runs of the calling thread use ``count`` threads: ``with onegraph.num_threads(2): ...``.

    Raises:
        ArgumentError, UnsupportedError: as for ``set_num_threads``.
    """
    before = threads_now()
    try:
        set_num_threads(count)
        yield
    finally:
        restore_threads(before)


# Sets the number of threads of the calling thread, or 1 if that thread was forked meanwhile. It is a C function, so an
# interrupt cannot stop it in a ``finally``.
restore_threads: Callable[[int], object] = lib.onegraph_restore_threads


class ThreadCount:
    """Changes the number of threads of the calling thread for a while; does nothing where it cannot be set.

    The creator calls ``restore_threads(count.before)`` at the end.
    """

    def __init__(self) -> None:
        self.before = self._now = threads_now()
        self._is_fixed = is_forked()

    def use(self, count: int | None) -> None:
        """Use ``count`` threads from now on; None for the original number."""
        count = count or self.before
        if count != self._now and not self._is_fixed:
            restore_threads(count)
            self._now = count


def _after_fork() -> None:
    """In a forked child, stop the library from waiting for its threads, which the child does not have."""
    if library.RUNTIME in THREADED_ELSEWHERE:
        if library.has_compiled():
            lib.onegraph_lose_threads()
    elif engines_exist():  # OpenMP can run with the one thread that the child has
        lib.onegraph_forked()
        _forked.add(threading.get_ident())


if library.omp_function("omp_set_num_threads") is not None or library.RUNTIME in THREADED_ELSEWHERE:
    os.register_at_fork(after_in_child=_after_fork)
