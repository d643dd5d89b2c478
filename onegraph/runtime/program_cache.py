"""What an executable keeps of the shapes it was called with: bounded, counted, and filled once however many ask."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .._util.fork_safety import new_rlock
from .._util.interpreter_tricks import Counter, is_held, written_function
from ..errors import StateError
from .bound_run import QuickCall
from .program import Program

CAPACITY = 16
_making = threading.local()  # depth: how many entries the thread makes, one from within another


class CacheInfo(NamedTuple):
    """How calls of an executable met its programs, one for each combination of input shapes.

    Attributes:
        hits: calls whose program was there.
        misses: calls that compiled one.
        evictions: programs that made room for another, the least recently used first.
        size, capacity: programs there are, and may be.
    """

    hits: int
    misses: int
    evictions: int
    size: int
    capacity: int


@dataclass(eq=False, slots=True)
class Entry:
    """What belongs to one combination of shapes.

    Attributes:
        program: None where numpy runs the whole graph.
        quick: answers None to what the program cannot take in one call.
        used: the number of the last lookup that found it.
        implementations: names by index of partition; None before they were asked for.
    """

    program: Program | None
    quick: QuickCall
    used: int = 0
    implementations: dict[int, str] | None = None


class Cache:
    """Entries by key; threads may share it. What is evicted lives on for as long as a call or a bound run uses it.

    Nothing but the making of an entry takes a lock: a signal handler, or a destructor that the garbage collector calls,
    may come at any moment in any of this and ask for more of it.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.entries: dict[Hashable, Entry] = {}
        self._turns: dict[Hashable, threading.RLock] = {}  # held by who makes an entry
        self._lookups, self._misses, self._evictions = Counter(), Counter(), Counter()
        self.tick = self._lookups.tick

    def find(self, key: Hashable, make: Callable[[], Entry]) -> Entry:
        """The entry of a key. The first thread that asks makes it, others wait; where it fails, the next one tries.

        Raises:
            StateError: the thread is making an entry already, was interrupted by what asks, and would wait.
        """
        while (entry := self.entries.get(key)) is None:
            turn, depth = self._turns.setdefault(key, new_rlock()), getattr(_making, "depth", 0)
            if depth and is_held(turn):
                raise StateError(
                    "the executable is compiling for these shapes, in this very thread or in one that may wait for it; "
                    "a signal handler or a destructor that calls it then has to leave that to another thread, or until "
                    "later"
                )
            _making.depth = depth + 1
            try:
                with turn:
                    if self._turns.get(key) is turn:  # or else it is over: the entry is there, or the next one tries
                        try:
                            if key not in self.entries:
                                return self._add(key, make())
                        finally:
                            self._turns.pop(key, None)
            finally:
                _making.depth = depth
        entry.used = self.tick()
        return entry

    def latest(self) -> Entry | None:
        """The entry that was used last."""
        return max(self.entries.copy().values(), key=lambda entry: entry.used, default=None)

    def resize(self, capacity: int) -> None:
        """Allow another number of entries; those too many go."""
        self._evict(capacity)
        self.capacity = capacity
        self._evict(capacity)  # what other threads have added meanwhile

    def clear(self) -> None:
        """Drop every entry."""
        for key in self.entries.copy():
            self._drop(key)

    def info(self) -> CacheInfo:
        """The counters."""
        lookups, misses, evictions = self._lookups.read(), self._misses.read(), self._evictions.read()
        return CacheInfo(lookups - misses, misses, evictions, len(self.entries), self.capacity)

    def _add(self, key: Hashable, entry: Entry) -> Entry:
        entry.used = self.tick()
        self._evict(self.capacity - 1)  # before, so that an interrupt leaves none too many
        self.entries[key] = entry
        self._misses.tick()
        self._evict(self.capacity)
        return entry

    def _evict(self, count: int) -> None:
        while len(entries := self.entries.copy()) > count:
            self._drop(min(entries, key=lambda key: entries[key].used))

    def _drop(self, key: Hashable) -> None:
        if self.entries.pop(key, None) is not None:
            self._evictions.tick()


def dispatch(cache: Cache, n_inputs: int, value_inputs: Sequence[int]) -> QuickCall:
    """A quick call for a graph of unknown shapes: that of the program for the shapes of its arrays, if there is one.

    Args:
        cache: the programs; its keys are the shapes of all inputs, then the bytes of ``value_inputs``. The quick call
            of the entry looks at the rest.
        n_inputs: number of graph inputs.
        value_inputs: places of the inputs whose contents are part of the key.
    """
    names = [f"x{index}" for index in range(n_inputs)]
    parts = [f"{name}.shape" for name in names] + [f"x{index}.tobytes()" for index in value_inputs]
    key_of = written_function(names, f"({', '.join(parts)},)")
    entries, tick = cache.entries, cache.tick

    def call(arrays: tuple[Any, ...], out: object = None) -> Any:
        try:
            entry = entries[key_of(*arrays)]
        except Exception:  # an argument is no array, or its shape is new
            return None
        result = entry.quick(arrays, out)
        if result is not None:
            entry.used = tick()
        return result

    return call
