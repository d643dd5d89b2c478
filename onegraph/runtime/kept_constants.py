"""Counts the constants that the library keeps for programs, and lets it forget those of programs that are gone.

The library keeps what it computes from constants, such as weights in the layout of a kernel. From 3.3 on it finds them
by a hash that may collide, and it never forgets those of a destroyed partition. So programs watch the first execution
of each step: where the library allocates nothing, it took the constants of another partition.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from itertools import count

from ..capi.caches import programs_keep_constants
from ..native.library import call, ffi, lib

# While programs exist whose constants would have to be prepared again, the library forgets only if the others take more
# than these do, and more than this.
MOST_BYTES, MOST_BLOCKS = 1 << 24, 16

_kept: dict[int, tuple[int, int]] = {}  # bytes and blocks of each program that exists
_numbers = count()


def count_kept(program: object, sizes: Sequence[int]) -> None:
    """Count the constants of a program until it is gone; ``sizes``: their bytes for each step."""
    number = next(_numbers)
    _kept[number] = sum(sizes), len(sizes)
    weakref.finalize(program, _drop, number).atexit = False
    _forget_unused()


def prepared_bytes() -> int:
    """The bytes that the library keeps of constants, for all programs of this process."""
    now = ffi.new("size_t[2]")
    lib.onegraph_prepared(now, now + 1)
    return int(now[0])


def _drop(number: int) -> None:
    del _kept[number]
    _forget_unused()


def _forget_unused() -> None:
    """Empty the library's cache of constants if it has too many of programs that are gone."""
    now, programs = ffi.new("size_t[2]"), [*_kept.values()]
    lib.onegraph_prepared(now, now + 1)
    for index, most in enumerate((MOST_BYTES, MOST_BLOCKS)):
        live = sum([program[index] for program in programs])
        limit = live + max(live, most) if live else 0
        if now[index] > limit and programs_keep_constants():
            call(lib.onegraph_flush_constants)
            return
