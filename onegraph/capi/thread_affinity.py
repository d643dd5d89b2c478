"""Compiled partitions that belong to a thread.

For some ops oneDNN makes kernels whose scratch memory is the one block that the compiling thread has for all of them.
In another thread such a kernel would write to the block of that thread, which may be too small or not there; and
destroying it there would make that thread count one user too few. So these partitions are executed and destroyed by
the thread that compiled them and by no other.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any


class OwnerThread:
    """A thread, and what it is to destroy because others could not."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[Any], int], Any, tuple[object, ...]]] = deque()

    def destroy(self, function: Callable[[Any], int], pointer: Any, parents: tuple[object, ...] = ()) -> int:
        """Destroy an object of this thread: now if this thread asks, else when it compiles the next time."""
        if self is calling_thread():
            return function(pointer)
        self._waiting.append((function, pointer, parents))
        return 0

    def clear(self) -> None:
        """Destroy what other threads have left."""
        while self._waiting:
            function, pointer, _ = self._waiting.popleft()
            function(pointer)


_local = threading.local()


def calling_thread() -> OwnerThread:
    """That of the calling thread."""
    found = getattr(_local, "thread", None)
    if not isinstance(found, OwnerThread):
        found = _local.thread = OwnerThread()
    return found


def _forget_thread() -> None:
    """The thread that comes out of a fork has no threads for what it compiled with several: it compiles anew."""
    _local.__dict__.clear()


os.register_at_fork(after_in_child=_forget_thread)
