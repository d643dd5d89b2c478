"""Prepares the constants of programs, and tells the library to forget those of programs that are gone.

The library keeps what it computes from constants, such as weights in the layout of a kernel. From 3.3 on it finds them
by a hash that may collide, and it never forgets those of a destroyed partition. So the first execution of each step is
watched: where the library allocates nothing, it took the constants of another partition.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from ..native.library import call, ffi, lib

# The library forgets when those of programs that are gone take more than this, and more than all others.
MOST_BYTES, MOST_BLOCKS = 1 << 26, 1000

_live = [0, 0]  # bytes and blocks of the programs that exist


def count_kept(program: object, kept: Sequence[int]) -> None:
    """Count the constants of a program until it is gone; ``kept``: their bytes for each step."""
    found = sum(kept), len(kept)
    _add(*found)
    weakref.finalize(program, _drop, *found).atexit = False
    forget_unused()


def forget_unused() -> None:
    """Empty the library's cache of constants if it has too many of programs that are gone."""
    now = ffi.new("size_t[2]")
    lib.onegraph_prepared(now, now + 1)
    if any(
        total - live > max(live, most) for total, live, most in zip(now, _live, (MOST_BYTES, MOST_BLOCKS), strict=True)
    ):
        call(lib.onegraph_flush_constants)


def _add(n_bytes: int, n_blocks: int) -> None:
    _live[0] += n_bytes
    _live[1] += n_blocks


def _drop(n_bytes: int, n_blocks: int) -> None:
    _add(-n_bytes, -n_blocks)
    forget_unused()
