"""Pauses Python's garbage collector while many long-lived objects are made, of which it could free none."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from typing import TypeVar

from .library import resume_collector

Result = TypeVar("Result")
_pausing: set[int] = set()  # ids of the threads that pause the collector


def without_collector(make: Callable[[], Result]) -> Result:
    """Call ``make`` with the collector paused and return its result.

    A collector that was enabled is enabled again afterwards, even after an interrupt.
    """
    if not gc.isenabled():  # it stays enabled if another thread enables it meanwhile
        return make()
    try:
        _pausing.add(threading.get_ident())
        gc.disable()
        return make()
    finally:
        resume_collector()
        _pausing.discard(threading.get_ident())


def _after_fork() -> None:
    """Enable the collector in a forked child where the thread that paused it does not exist."""
    if _pausing and threading.get_ident() not in _pausing:
        gc.enable()
    _pausing.intersection_update([threading.get_ident()])


os.register_at_fork(after_in_child=_after_fork)
