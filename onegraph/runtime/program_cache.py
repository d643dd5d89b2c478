"""Caches the programs of an executable by input shapes, with a limit and counters, for several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .._util.fork_safety import new_rlock
from .._util.interpreter_tricks import Counter, is_held, written_function
from .._util.validation import integer
from ..errors import StateError
from .growing import Growing, Grown
from .program import Program
from .quick_call import QuickCall
from .staged import Staged

CAPACITY, MOST = 128, 2**31 - 1
# Beyond so many programs, the least recently used ones go while they take more bytes than this beside the newest one.
FEW, MOST_BYTES = 16, 1 << 30
_making = threading.local()  # is_making: whether the thread is making an entry


class Counters(NamedTuple):
    """The fields of :class:`CacheInfo`."""

    hits: int
    misses: int
    evictions: int
    size: int
    capacity: int


class CacheInfo(Counters):
    """Counters of the program cache, which has one program for each combination of input shapes.

    Attributes:
        hits: calls that found their program.
        misses: calls that made a program.
        evictions: programs that were dropped for another, the least recently used first.
        size, capacity: current and maximum number of programs.
        reused: the misses whose steps were those of another size, so that only what the size reaches was computed.
        partitions: number of partitions that the library compiled for these.
        reason: why the last program that was compiled as a whole cannot serve other sizes; empty if it can.
        grown: number of results that calls wrote behind an input where it lies, such as the caches of a decoder.
        moved: number of such inputs that were copied to memory with more room.
    """

    reused = 0
    partitions = 0
    reason = ""
    grown = 0
    moved = 0

    def whole(self) -> dict[str, Any]:
        """The counters by name, for reports, with what says how programs were made."""
        more = {name: getattr(self, name) for name in ("reused", "partitions", "reason", "grown", "moved")}
        return {**self._asdict(), **{name: value for name, value in more.items() if value}}


@dataclass(eq=False, slots=True)
class Entry:
    """The program for one combination of shapes.

    Attributes:
        program: the program, or the stages of a graph whose shapes depend on contents.
        quick: runs the program in one C call; returns None for arguments that it cannot handle.
        used: number of the last lookup that found this entry.
        implementations: names by index of partition; None until they are requested.
        times: seconds of each partition in the last profile, by index; empty if there is none.
        pieces: bytes of the pieces of memory that the program keeps, by what tells them apart.
        grown: what it writes for each cache that grows.
    """

    program: Program | Staged
    quick: QuickCall
    used: int = 0
    implementations: dict[int, str] | None = None
    times: Mapping[int, float] = field(default_factory=dict)
    pieces: Mapping[Hashable, int] = field(default_factory=dict)
    grown: Sequence[Grown] = ()


class ProgramCache:
    """Entries by key, for several threads. An evicted entry lives as long as a call or a bound run uses it.

    The capacity limits their number. A few are kept whatever their size, and more only while they take little memory.

    Only making an entry takes a lock, because a signal handler or a destructor may interrupt any method and use the
    cache itself.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.entries: dict[Hashable, Entry] = {}
        self._turns: dict[Hashable, threading.RLock] = {}  # held while an entry is being made
        self._lookups, self._misses, self._evictions = Counter(), Counter(), Counter()
        self.tick = self._lookups.tick
        self._newest: Mapping[Hashable, int] = {}  # pieces of the program that was added last
        self._left = 0  # bytes that programs may take before they are counted again

    def find(self, key: Hashable, make: Callable[[], Entry]) -> Entry:
        """The entry of a key. The first thread makes it while others wait; if that fails, the next thread tries.

        Raises:
            StateError: this call interrupts the making of an entry in the same thread, and would have to wait.
        """
        while (entry := self.entries.get(key)) is None:
            turn, is_making = self._turns.setdefault(key, new_rlock()), getattr(_making, "is_making", False)
            if is_making and is_held(turn):
                raise StateError(
                    "the executable is compiling for these shapes, in this very thread or in one that may wait for it; "
                    "a signal handler or a destructor that calls it then has to leave that to another thread, or until "
                    "later"
                )
            _making.is_making = True
            try:
                with turn:
                    if self._turns.get(key) is turn:  # otherwise another thread finished: look again
                        try:
                            if key not in self.entries:
                                return self._add(key, make())
                        finally:
                            self._turns.pop(key, None)
            finally:
                _making.is_making = is_making
        entry.used = self.tick()
        return entry

    def latest(self) -> Entry | None:
        """The entry that was used last."""
        return max(self.entries.copy().values(), key=lambda entry: entry.used, default=None)

    def resize(self, capacity: int) -> None:
        """Change the capacity and evict the entries beyond it."""
        self._evict(capacity)
        self.capacity = capacity
        self._evict(capacity)  # entries that other threads added meanwhile

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
        self._evict(self.capacity - 1)  # before adding, so that an interrupt leaves no entry beyond the capacity
        self.entries[key] = entry
        self._misses.tick()
        self._evict(self.capacity)
        self._evict_large(entry.pieces)
        return entry

    def _evict(self, count: int) -> None:
        while len(entries := self.entries.copy()) > count:
            self._drop(_oldest(entries))

    def _evict_large(self, newest: Mapping[Hashable, int]) -> None:
        """Evict entries while all take too much memory. What the newest one shares would not be freed."""
        before, self._newest = self._newest, newest
        self._left -= sum([size for piece, size in newest.items() if piece not in before])
        while self._left < 0 and len(entries := self.entries.copy()) > FEW:
            self._left = MOST_BYTES - _bytes(entries, newest)
            if self._left < 0:
                self._drop(_oldest(entries))

    def _drop(self, key: Hashable) -> None:
        if self.entries.pop(key, None) is not None:
            self._evictions.tick()


def stated_capacity(capacity: object) -> int:
    """A number of programs that a user states.

    Raises:
        ArgumentError: it is no such number.
    """
    return integer("cache_capacity", capacity, 1, MOST)


def _oldest(entries: Mapping[Hashable, Entry]) -> Hashable:
    """The key of the entry that was used least recently."""
    used = [entry.used for entry in entries.values()]  # half the time of a key function
    return [*entries][used.index(min(used))]


def _bytes(entries: Mapping[Hashable, Entry], newest: Mapping[Hashable, int]) -> int:
    """The bytes that programs, which may share memory, keep beside the newest one."""
    pieces: dict[Hashable, int] = {}
    for entry in entries.values():
        pieces.update(entry.pieces)
    return sum([size for piece, size in pieces.items() if piece not in newest])


def dispatch(
    cache: ProgramCache,
    growing: Growing,
    n_inputs: int,
    value_inputs: Sequence[int],
    new_entry: Callable[[], Callable[[tuple[Any, ...], int], Entry | None] | None],
) -> QuickCall:
    """A quick call for a graph with unknown dims: it finds the program for the shapes of its arrays and runs it.

    It returns None if there is no such program, and none whose steps are known, or if the program's own quick call
    returns None.

    Args:
        cache: the programs; a key has the shapes of all inputs, then the bytes of ``value_inputs``, and the capacity of
            caches that are not dense.
        growing: the caches.
        n_inputs: number of graph inputs.
        value_inputs: positions of the inputs whose contents are part of the key.
        new_entry: refers weakly to what gives the entry for arrays of new shapes and a capacity of caches, if the steps
            for them are known, and None otherwise.
    """
    names = [f"x{index}" for index in range(n_inputs)]
    parts = [f"{name}.shape" for name in names] + [f"x{index}.tobytes()" for index in value_inputs]
    key_of = written_function(names, f"({', '.join(parts)},)")
    entries, tick = cache.entries, cache.tick

    def made(arrays: tuple[Any, ...], room: int) -> Entry | None:
        make = new_entry()
        return None if make is None else make(arrays, room)

    def call(arrays: tuple[Any, ...], out: object = None) -> Any:
        try:
            entry = entries.get(key_of(*arrays))
        except Exception:  # an argument is not an array
            if len(arrays) == n_inputs and all(type(array) is np.ndarray for array in arrays):
                raise  # a signal handler raised it
            return None
        if entry is None:
            entry = made(arrays, 0)
            return None if entry is None else entry.quick(arrays, out)
        result = entry.quick(arrays, out)
        if result is not None:
            entry.used = tick()
        return result

    def growing_call(arrays: tuple[Any, ...], out: object = None) -> Any:
        caches = growing.prepared(arrays, grows=out is None, moves=False) if len(arrays) == n_inputs else None
        if caches is None:
            result = call(arrays, out)
            if result is not None:
                growing.note(result)
            return result
        if not all(type(array) is np.ndarray for array in arrays):
            return None
        arrays, room = tuple(caches[0]), caches[1]
        known = entries.get((*key_of(*arrays), *((room,) if room else ())))
        entry = known or made(arrays, room)
        if entry is None:
            return None
        step = growing.step(entry.grown, arrays) if out is None else None
        result = entry.quick(arrays, out if step is None else growing.out(step))
        if result is not None:
            if step is not None:
                step.finish()
            if known is not None:
                entry.used = tick()
        return result

    return growing_call if growing.growths or growing.may_learn else call
