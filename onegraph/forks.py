"""Locks that a fork may find held: in its child there is no other thread that would let go of them."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from .errors import StateError

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def new_lock() -> threading.Lock:
    """A lock that is free in the child of a fork, whoever held it in the parent."""
    made = threading.Lock()
    _locks.add(made)
    return made


def new_rlock() -> threading.RLock:
    """One that the thread which holds it can take once more, as a signal handler or a destructor does."""
    made = threading.RLock()
    _locks.add(made)
    return made


def refuse_inner(lock: threading.RLock, what: str) -> None:
    """Raise StateError where the calling thread holds the lock: it is in a signal handler, in the midst of a change."""
    if lock._is_owned():  # type: ignore[attr-defined]
        raise StateError(f"{what}: this thread is in the midst of changing it; call this when that is done")


def _free_locks() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()


os.register_at_fork(after_in_child=_free_locks)
