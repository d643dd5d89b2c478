"""What an executable keeps of the shapes it was called with: bounded, counted, and filled once however many ask."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .errors import StateError
from .forks import new_lock
from .program import Program
from .runs import QuickCall

CAPACITY = 16


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


class Turn:
    """Which thread makes an entry."""

    __slots__ = ("lock", "owner")

    def __init__(self) -> None:
        self.lock, self.owner = new_lock(), 0


class Cache:
    """Entries by key; threads may share it. What is evicted lives on for as long as a call or a bound run uses it."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.entries: dict[Hashable, Entry] = {}
        self._lock = new_lock()
        self._turns: dict[Hashable, Turn] = {}
        self._ticks = itertools.count()  # of lookups; reading them counts as one
        self._reads = self._misses = self._evictions = 0
        self.tick = self._ticks.__next__  # one step of the interpreter, so that no thread needs a lock

    def find(self, key: Hashable, make: Callable[[], Entry]) -> Entry:
        """The entry of a key. The first thread that asks makes it, others wait; where it fails, the next one tries.

        Raises:
            StateError: the thread is making it already, and was interrupted by what asks.
        """
        entry = self.entries.get(key)
        if entry is None:
            turn, own = self._turns.setdefault(key, Turn()), threading.get_ident()
            if turn.lock.locked() and turn.owner == own:
                raise StateError(
                    "the executable is compiling for these shapes in this very thread; a signal handler that calls it "
                    "then has to leave that to another thread, or until later"
                )
            with turn.lock:
                turn.owner = own
                entry = self.entries.get(key)
                if entry is None:
                    try:
                        return self._add(key, make())
                    finally:
                        self._turns.pop(key, None)
        entry.used = self.tick()
        return entry

    def latest(self) -> Entry | None:
        """The entry that was used last."""
        with self._lock:
            return max(self.entries.values(), key=lambda entry: entry.used, default=None)

    def resize(self, capacity: int) -> None:
        """Allow another number of entries; those too many go."""
        with self._lock:
            self.capacity = capacity
            self._evict()

    def clear(self) -> None:
        """Drop every entry."""
        with self._lock:
            for key in list(self.entries):
                self._drop(key)

    def info(self) -> CacheInfo:
        """The counters."""
        with self._lock:
            lookups = self.tick() - self._reads
            self._reads += 1
            return CacheInfo(lookups - self._misses, self._misses, self._evictions, len(self.entries), self.capacity)

    def _add(self, key: Hashable, entry: Entry) -> Entry:
        with self._lock:
            entry.used = self.tick()
            self._misses += 1
            self.entries[key] = entry
            self._evict()
            return entry

    def _evict(self) -> None:
        while len(self.entries) > self.capacity:
            self._drop(min(self.entries, key=lambda key: self.entries[key].used))

    def _drop(self, key: Hashable) -> None:
        del self.entries[key]
        self._evictions += 1


# A key is the shapes of the inputs and the contents of those that give shapes. Asking for more would cost as much as
# the run of a small graph; the quick call of the entry looks at the rest.
DISPATCH = """
def call(arrays, out=None):
    try:
        {inputs} = arrays
        entry = entries[{key}]
    except Exception:  # no arrays, or shapes that are new
        return None
    result = entry.quick(arrays, out)
    if result is not None:
        entry.used = tick()
    return result
"""


def dispatch(cache: Cache, n_inputs: int, value_inputs: Sequence[int]) -> QuickCall:
    """A quick call for a graph of unknown shapes: that of the program for the shapes of its arrays, if there is one.

    Args:
        cache: the programs; its keys are the shapes of all inputs, then the bytes of ``value_inputs``.
        n_inputs: number of graph inputs.
        value_inputs: places of the inputs whose contents are part of the key.
    """
    names = [f"x{index}" for index in range(n_inputs)]
    key = [f"{name}.shape" for name in names] + [f"x{index}.tobytes()" for index in value_inputs]
    source = DISPATCH.format(inputs=f"{', '.join(names)},", key=f"({', '.join(key)},)")
    scope: dict[str, Any] = {"entries": cache.entries, "tick": cache.tick}
    exec(source, scope)
    call: QuickCall = scope.pop("call")
    return call
