"""Ties compiled partitions with thread affinity to the thread that compiled them.

For some ops oneDNN makes kernels whose scratch memory is one block that all such kernels of a thread share. In another
thread such a kernel would write to the block of that thread, which may be too small or missing. Destroying the kernel
there would decrement the wrong thread's count of users. So only the compiling thread executes and destroys these
partitions.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any


class OwnerThread:
    """A thread, and the C objects that it must destroy because other threads released them."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[Any], int], Any, tuple[object, ...]]] = deque()

    def destroy(self, function: Callable[[Any], int], pointer: Any, parents: tuple[object, ...] = ()) -> int:
        """Destroy a C object of this thread: now if this thread calls, otherwise at its next compilation."""
        if self is calling_thread():
            return function(pointer)
        self._waiting.append((function, pointer, parents))
        return 0

    def clear(self) -> None:
        """Destroy the C objects that other threads released."""
        while self._waiting:
            function, pointer, _ = self._waiting.popleft()
            function(pointer)


_local = threading.local()


def calling_thread() -> OwnerThread:
    """The OwnerThread of the calling thread."""
    thread = getattr(_local, "thread", None)
    if not isinstance(thread, OwnerThread):
        thread = _local.thread = OwnerThread()
    return thread


def _forget_thread() -> None:
    """Give the forked thread a new identity: it lacks the worker threads of its compiled partitions."""
    _local.__dict__.clear()


os.register_at_fork(after_in_child=_forget_thread)
