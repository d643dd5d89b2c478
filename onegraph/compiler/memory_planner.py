"""Plans the memory of the values inside a program: one block, shared by values with disjoint lifetimes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..arrays.ndarrays import ALIGNMENT
from ..ir.op import Array
from ..native.library import ffi, lib, status_error


def aligned(size: int) -> int:
    """``size`` rounded up to a multiple of the alignment, at least one, so that every piece has its own address."""
    return max(-(-size // ALIGNMENT), 1) * ALIGNMENT


class Lifetimes:
    """Pieces of memory, each of which one step writes and a step uses last.

    Args:
        written, last: these steps by number of a piece, in the order of the first.
        n_steps: the number of steps.

    Attributes:
        numbers: of the pieces.
    """

    def __init__(self, written: Mapping[int, int], last: Mapping[int, int], n_steps: int) -> None:
        self.numbers = [*written]
        self._place = {number: place for place, number in enumerate(self.numbers)}
        self._starts = _integers([*written.values()])
        self._ends = _integers([last[number] for number in self.numbers])
        self._n_steps = n_steps
        self._last: tuple[tuple[bytes, bytes], tuple[Array, int, Array]] | None = None

    def sources(self, in_place: Mapping[int, int]) -> Array:
        """For each piece, which one's memory it may reuse, as ``planned`` takes it; -1 for none.

        Args:
            in_place: from the number of a piece to that of a piece whose memory it may reuse, if the step that writes
                the first is the last to use the second, and their sizes are equal.
        """
        place = self._place
        return _integers([place.get(in_place.get(number, -1), -1) for number in self.numbers])

    def planned(self, sizes: Sequence[int] | Array, sources: Array) -> tuple[Array, int, Array]:
        """Offsets of the pieces in one block, the size of the block, and for each step the largest part of the block
        that no piece uses meanwhile, where a kernel's scratch memory can lie: its offset, and its size.

        The pieces are placed in the order of their first steps. A piece takes the smallest free gap that holds it, or
        grows the block, and frees its memory after its last step.

        Args:
            sizes: in bytes.
            sources: as ``sources`` returns them.
        """
        rounded = np.maximum((_integers(sizes) + ALIGNMENT - 1) // ALIGNMENT, 1) * ALIGNMENT
        key = rounded.tobytes(), sources.tobytes()
        if self._last is not None and self._last[0] == key:  # sizes that are close round to the same ones
            return self._last[1]
        offsets, rooms, size = np.empty_like(rounded), np.empty((self._n_steps, 2), np.int64), ffi.new("int64_t *")
        status = lib.onegraph_plan_memory(
            len(self.numbers),
            *[ffi.from_buffer("int64_t[]", array) for array in (rounded, self._starts, self._ends, sources)],
            self._n_steps,
            *[ffi.from_buffer("int64_t[]", array) for array in (offsets, rooms)],
            size,
        )
        if status:
            raise status_error("onegraph_plan_memory", status)
        offsets.flags.writeable = rooms.flags.writeable = False
        self._last = key, (offsets, size[0], rooms)
        return self._last[1]


def _integers(numbers: Sequence[int] | Array) -> Array:
    return np.ascontiguousarray(numbers, np.int64)
