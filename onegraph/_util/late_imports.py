"""Imports large modules when they are first needed.

Python's locks of modules that another thread is importing stay locked in the child of a fork, which would wait for them
for ever. So a fork waits for the end of these imports.
"""

from __future__ import annotations

import os
import threading
from importlib import import_module

from .collector_pause import CollectorPause

# A fork waits so many seconds at the most. A signal handler may fork while its thread holds up the import.
PATIENCE = 5.0
_importing = threading.RLock()
_imported: set[str] = set()
_got: dict[int, bool] = {}  # whether the fork of a thread got the lock, by id of the thread


def import_late(*names: str) -> None:
    """Import modules, by their absolute names; does nothing if this function has imported them before."""
    if _imported.issuperset(names):
        return
    with _importing, CollectorPause():
        for name in names:
            import_module(name)
    _imported.update(names)


def _before_fork() -> None:
    _got[threading.get_ident()] = _importing.acquire(timeout=PATIENCE)


def _after_fork() -> None:
    if _got.pop(threading.get_ident()):
        _importing.release()


def _after_fork_in_child() -> None:
    if not _got[threading.get_ident()]:
        _importing._at_fork_reinit()  # type: ignore[attr-defined]
    _after_fork()
    _got.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
