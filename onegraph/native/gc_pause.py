"""Pauses Python's garbage collector while many objects are made that all stay: it would look at them in vain."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from typing import TypeVar

from .library import resume_collector

Result = TypeVar("Result")
_pausing: set[int] = set()  # threads that it waits for


def without_collector(make: Callable[[], Result]) -> Result:
    """What ``make`` returns; if the collector runs, it runs again afterwards, whatever interrupts this."""
    if not gc.isenabled():  # and if another thread lets it run again meanwhile, nobody stops it anew
        return make()
    try:
        _pausing.add(threading.get_ident())
        gc.disable()
        return make()
    finally:
        resume_collector()
        _pausing.discard(threading.get_ident())


def _after_fork() -> None:
    """In the child nobody else would let the collector run again."""
    if _pausing and threading.get_ident() not in _pausing:
        gc.enable()
    _pausing.intersection_update([threading.get_ident()])


os.register_at_fork(after_in_child=_after_fork)
