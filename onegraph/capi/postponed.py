"""Compiles several partitions at once, each in a thread."""

from __future__ import annotations

from collections.abc import Sequence

from .compilation import compile_all, empty_caches
from .partition import CompiledPartition

AT_ONCE = 32  # compilations in one call, during which interrupts wait


def compile_postponed(groups: Sequence[Sequence[CompiledPartition]], most: int) -> list[int]:
    """Compile the results of ``_postponed`` and ``_another`` without thread affinity, several at once.

    Args:
        groups: a result of ``_postponed``, and what ``_another`` made of it; either may be missing.
        most: number of threads that compile.

    Returns:
        for each group the status; if it is not success, none of the group was compiled.
    """
    statuses: list[int] = []
    for start in range(0, len(groups), AT_ONCE):
        chunk = groups[start : start + AT_ONCE]
        made = compile_all([(group[0]._compilation, len(group)) for group in chunk], most)
        for group, (pointers, status) in zip(chunk, made, strict=True):
            statuses.append(status)
            for partition, pointer in zip(group, pointers, strict=False):
                partition._own(pointer)
            if pointers:
                group[0]._compilation.query(pointers[0])
    if any(statuses):
        empty_caches()
    return statuses
