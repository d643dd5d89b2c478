"""Locks that a fork may find held: in its child there is no other thread that would let go of them."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from ..errors import StateError

_locks: weakref.WeakSet[Any] = weakref.WeakSet()

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801
        """One without the lock that Python has here before 3.12. Where several threads compute, one value is kept."""

        def __get__(self, instance: object, owner: type | None = None) -> Any:
            """The value, which is computed when it is first asked for."""
            if instance is None:
                return self
            return vars(instance).setdefault(self.attrname, self.func(instance))


def new_rlock() -> threading.RLock:
    """A lock that is free in the child of a fork, but for the call that a signal handler interrupted to fork.

    The thread that holds it can take it once more, as a signal handler or a destructor does.
    """
    try:
        made = threading.RLock()
    except RecursionError:
        raise
    except RuntimeError:  # what Python says where there is no memory for one
        raise MemoryError("no memory for a lock") from None
    _locks.add(made)
    return made


def refuse_inner(lock: threading.RLock, what: str) -> None:
    """Raise StateError where the calling thread holds the lock: it is in a signal handler, in the midst of a change."""
    if lock._is_owned():  # type: ignore[attr-defined]
        raise StateError(f"{what}: this thread is in the midst of changing it; call this when that is done")


def _free_locks() -> None:
    for lock in list(_locks):
        if not lock._is_owned():  # by a call that goes on in the child, and lets go of it
            lock._at_fork_reinit()


os.register_at_fork(after_in_child=_free_locks)
