"""Plans the memory of the values inside a program: one block, shared by values with disjoint lifetimes."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..arrays.ndarrays import ALIGNMENT


class Lifetime(NamedTuple):
    """A piece of memory that step ``start`` writes and step ``end`` uses last.

    ``size`` is in bytes, rounded up by ``aligned``.
    """

    number: int
    size: int
    start: int
    end: int


def aligned(size: int) -> int:
    """``size`` rounded up to a multiple of the alignment, at least one, so that every piece has its own address."""
    return max(-(-size // ALIGNMENT), 1) * ALIGNMENT


def plan_memory(lifetimes: Sequence[Lifetime], in_place: Mapping[int, int]) -> tuple[dict[int, int], int]:
    """Offsets in one block for pieces of memory with these lifetimes, and the size of the block.

    The pieces are placed in the order of their first steps. A piece takes the smallest free gap that holds it, or grows
    the block, and frees its memory after its last step.

    Args:
        lifetimes: of every piece.
        in_place: from the number of a piece to that of a piece whose memory it may reuse, if the step that writes the
            first is the last to use the second, and their sizes are equal.
    """
    offsets: dict[int, int] = {}
    piece_by_number = {piece.number: piece for piece in lifetimes}
    ending: dict[int, list[Lifetime]] = {}
    for piece in lifetimes:
        ending.setdefault(piece.end, []).append(piece)
    reused: set[int] = set()
    gaps = _Gaps()
    freed = 0
    order = sorted(lifetimes, key=lambda piece: piece.start)
    steps = sorted(ending)
    for piece in order:
        while freed < len(steps) and steps[freed] < piece.start:
            for dead in ending[steps[freed]]:
                if dead.number not in reused:
                    gaps.free(offsets[dead.number], dead.size)
            freed += 1
        source = piece_by_number.get(in_place.get(piece.number, -1))
        if (
            source is not None
            and source.size == piece.size
            and source.start < source.end == piece.start
            and source.number not in reused
        ):
            reused.add(source.number)
            offsets[piece.number] = offsets[source.number]
        else:
            offsets[piece.number] = gaps.take(piece.size)
    return offsets, gaps.end


def free_rooms(
    lifetimes: Sequence[Lifetime], offsets: Mapping[int, int], size: int, n_steps: int
) -> list[tuple[int, int]]:
    """For each step the largest part of the block that no piece uses meanwhile: its offset, and its size.

    A kernel's scratch memory can lie there.

    Args:
        lifetimes: of every piece.
        offsets, size: what ``plan_memory`` returned.
        n_steps: the number of steps.
    """
    starting: dict[int, list[tuple[int, int]]] = {}
    ending: dict[int, list[tuple[int, int]]] = {}
    for piece in lifetimes:
        place = offsets[piece.number], offsets[piece.number] + piece.size
        starting.setdefault(piece.start, []).append(place)
        ending.setdefault(piece.end, []).append(place)
    used: list[tuple[int, int]] = []  # ordered
    rooms: list[tuple[int, int]] = []
    for step in range(n_steps):
        for place in starting.get(step, ()):
            insort(used, place)
        largest, start = (0, 0), 0
        for begin, end in used:
            if begin - start > largest[1]:
                largest = start, begin - start
            start = max(start, end)
        rooms.append((start, size - start) if size - start > largest[1] else largest)
        for place in ending.get(step, ()):
            del used[bisect_left(used, place)]
    return rooms


class _Gaps:
    """The free gaps of a growing block, by offset to join neighbours and by size to find the smallest that fits."""

    def __init__(self) -> None:
        self.end = 0
        self._by_size: list[tuple[int, int]] = []
        self._size_at: dict[int, int] = {}
        self._start_before: dict[int, int] = {}  # start of the gap that ends at an offset

    def take(self, size: int) -> int:
        index = bisect_left(self._by_size, (size, 0))
        if index < len(self._by_size):
            gap, start = self._by_size[index]
            self._remove(start)
            if gap > size:
                self._add(start + size, gap - size)
            return start
        last = self._start_before.get(self.end)
        start = self.end
        if last is not None:  # extend the gap at the end of the block
            start = last
            self._remove(last)
        self.end = start + size
        return start

    def free(self, start: int, size: int) -> None:
        before = self._start_before.get(start)
        if before is not None:
            size += self._remove(before)
            start = before
        if start + size in self._size_at:
            size += self._remove(start + size)
        self._add(start, size)

    def _add(self, start: int, size: int) -> None:
        self._size_at[start] = size
        self._start_before[start + size] = start
        insort(self._by_size, (size, start))

    def _remove(self, start: int) -> int:
        size = self._size_at.pop(start)
        del self._start_before[start + size]
        del self._by_size[bisect_left(self._by_size, (size, start))]
        return size
