"""Locks that a fork may find held: in its child there is no other thread that would let go of them."""

from __future__ import annotations

import os
import threading
import weakref

_locks: weakref.WeakSet[threading.Lock] = weakref.WeakSet()


def new_lock() -> threading.Lock:
    """A lock that is free in the child of a fork, whoever held it in the parent."""
    made = threading.Lock()
    _locks.add(made)
    return made


def _free_locks() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()  # type: ignore[attr-defined]


os.register_at_fork(after_in_child=_free_locks)
