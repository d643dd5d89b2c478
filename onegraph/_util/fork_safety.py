"""Makes locks that are usable after a fork: the child resets locks whose holder thread exists only in the parent."""

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
        """A ``cached_property`` without the lock that Python uses before 3.12.

        If several threads compute the value at once, all of them get the one that is stored first.
        """

        def __get__(self, instance: object, owner: type | None = None) -> Any:
            """The value, computed at the first access."""
            if instance is None:
                return self
            return vars(instance).setdefault(self.attrname, self.func(instance))


def new_rlock() -> threading.RLock:
    """A reentrant lock that a fork releases in the child, unless the forking thread itself holds it.

    The forking thread holds the lock if a signal handler that forks has interrupted a locked call; that call continues
    in the child and releases the lock. The lock is reentrant because a signal handler or a destructor may need it while
    its own thread holds it.

    Raises:
        MemoryError: there is no memory for a lock.
    """
    try:
        lock = threading.RLock()
    except RecursionError:
        raise
    except RuntimeError:  # Python raises this when memory for a lock is missing
        raise MemoryError("no memory for a lock") from None
    _locks.add(lock)
    return lock


def refuse_inner(lock: threading.RLock, subject: str) -> None:
    """Raise StateError if the calling thread holds the lock: a signal handler interrupted a change of ``subject``."""
    if lock._is_owned():  # type: ignore[attr-defined]
        raise StateError(f"{subject}: this thread is in the midst of changing it; call this when that is done")


def _free_locks() -> None:
    for lock in list(_locks):
        if not lock._is_owned():  # an owned lock is released by the interrupted call, which continues in the child
            lock._at_fork_reinit()


os.register_at_fork(after_in_child=_free_locks)
