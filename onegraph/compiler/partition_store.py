"""What the programs of an executable share of their compilation, so that a new size compiles only what depends on it.

Programs for other sizes have the same ops. Where the size does not reach an op, its partition and the constants that
the library prepared for it serve all programs. Where it does, the ops are divided into partitions as they were for an
earlier size, which saves the search for fusions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

if TYPE_CHECKING:
    from ..capi import CompiledPartition, Partition
    from .ir.part import Part

# A partition of an earlier size: places of its steps in the graph, and the values that others read.
Group = tuple[tuple[int, ...], tuple[int, ...]]
Pieces = list[tuple[list[int], list[int]]]  # the places of steps, and the results among their values
MOST_STRUCTURES = 16  # of the graphs of one executable; sizes of 1 and lowerings of models make several


class SharedPartitions:
    """What one compilation takes from those before it, and leaves to the next one.

    Args:
        prepared: by what products compute, but for rows, the rows for which the library prepares their weights, with
            any number of threads.

    Attributes:
        patterns: each ``Pattern`` by its wiring; it lives as long as a program that uses it.
        reorders: copies between layouts, by layouts.
        opened: by what steps compute, whatever the sizes, a partition for all sizes; None if there is none.
        seen: the keys of ``opened`` that one size has had so far.
        sound: whether the library computes an op right that a rewrite has not asked for.
        groups: by the structure of a graph, how the library divided it into partitions.
        pieces: by the structure of a graph and the steps of a piece that was cut off a partition, how it was divided.
    """

    def __init__(self, prepared: dict[Hashable, int] | None = None) -> None:
        self.opened: dict[Hashable, Partition | None] = {}
        self.seen: set[Hashable] = set()
        self.sound: dict[Part, bool] = {}
        self.prepared = {} if prepared is None else prepared
        self.patterns: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        self.reorders: WeakValueDictionary[Hashable, CompiledPartition] = WeakValueDictionary()
        self.groups: dict[Hashable, Sequence[Group]] = {}
        self.pieces: dict[Hashable, dict[Hashable, Pieces]] = {}

    def keep_groups(self, structure: Hashable, groups: Sequence[Group]) -> None:
        """Keep how the library divided a graph."""
        while len(self.groups) >= MOST_STRUCTURES:
            del self.groups[next(iter(self.groups))]
        self.groups[structure] = groups
        self.pieces = {key: pieces for key, pieces in self.pieces.items() if key in self.groups}


class PartitionStore:
    """Lends the shared partitions of an executable to one compilation at a time.

    Attributes:
        rounds: whether rows may be rounded up, as sizes change.
        repeats: whether the program is the body of a loop, so that beginning a step of few elements counts.
        variants: by compiled partition and number of threads, the same one for other threads.
        counts: by what a step computes, and about how much, the number of threads that is fast.
    """

    def __init__(self) -> None:
        self.rounds, self.repeats = False, False
        self.variants: WeakKeyDictionary[CompiledPartition, dict[int, CompiledPartition | None]] = WeakKeyDictionary()
        self.counts: dict[Hashable, int | None] = {}
        self._known: dict[Hashable, SharedPartitions] = {}
        self._prepared: dict[Hashable, int] = {}

    def forget(self) -> None:
        """Forget all partitions, as after a failed run, whose constants a kept partition might wait for."""
        self._known.clear()
        self._prepared = {}
        self.variants.clear()

    @contextmanager
    def lent(self, key: Hashable) -> Iterator[SharedPartitions]:
        """What is known under a key; nothing while another compilation uses it, and after one that failed.

        ``key``: what compiled partitions depend on besides their ops, such as the number of threads.
        """
        shared = self._known.pop(key, None) or SharedPartitions(self._prepared)
        yield shared
        returned = self._known.get(key)  # of a compilation at the same time
        if returned is None or len(returned.patterns) <= len(shared.patterns):
            self._known[key] = shared
