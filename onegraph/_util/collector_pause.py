"""Pauses Python's garbage collector in blocks that make many long-lived objects, such as imports."""

from __future__ import annotations

import gc
import os
import threading
from types import TracebackType

_pausing: set[int] = set()  # ids of the threads that pause the collector
MANY = 20_000  # objects; the next run of the collector examines fewer in a few milliseconds
_freezes = False  # whether the program was seen to freeze objects


class CollectorPause:
    """A block in which the collector would take a third of the time and free nothing.

    A collector that was enabled is enabled again afterwards. Its next runs pass over the objects of a block that made
    many, which move to the oldest generation, unless the program freezes objects.
    """

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        if self._was_enabled:
            _pausing.add(threading.get_ident())
            gc.disable()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._was_enabled:
            made, *_ = gc.get_count()  # since the last run of the collector
            gc.enable()
            _pausing.discard(threading.get_ident())
            if made > MANY and not freezes():
                try:
                    gc.freeze()
                finally:
                    gc.unfreeze()


def freezes() -> bool:
    """Whether the program has frozen objects, now or in an earlier call.

    Python counts them one by one: a program with a million of them would wait 20 ms for each model.
    """
    global _freezes
    _freezes = _freezes or bool(gc.get_freeze_count())
    return _freezes


def _after_fork() -> None:
    """Enable the collector in a forked child where the thread that paused it does not exist."""
    if _pausing and threading.get_ident() not in _pausing:
        gc.enable()
    _pausing.intersection_update([threading.get_ident()])


os.register_at_fork(after_in_child=_after_fork)
