"""Measures again while something else runs on the machine. :mod:`onegraph.tools.machine` finds what else runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from onegraph.tools.machine import Load, described, load, load_by_work, snapshot

Result = TypeVar("Result")
# The machine is idle if everything else together uses less than this, in percent of one processor.
IDLE = 5.0
# How often a measurement is taken at most until the machine was idle meanwhile. 1 if the user accepts a busy machine.
attempts = 3


def is_idle(found: Mapping[str, float]) -> bool:
    return found.get("all", 0.0) < IDLE


def undisturbed(measure: Callable[[], Result]) -> tuple[Result, Load]:
    """Measure, and again if something else ran meanwhile; returns the last result and what ran beside it."""
    for _ in range(attempts):
        before = snapshot()
        result = measure()
        found = load(before, snapshot(), os.getpid())
        if is_idle(found):
            break
    return result, found


def load_at_rest(seconds: float = 0.5) -> Load:
    """What runs while this process sleeps; and what slows down fixed work if no process in /proc explains it."""
    for _ in range(attempts):
        before = snapshot()
        time.sleep(seconds)
        found = load(before, snapshot(), os.getpid())
        if is_idle(found):
            found = load_by_work() or found
        if is_idle(found):
            break
    return found


__all__ = ["Load", "described", "is_idle", "load_at_rest", "undisturbed"]
