"""How many threads each step of a program gets: joining them costs a small step more than they gain.

Many kernels keep the number of threads that they were compiled with, so a step that is to run with fewer is compiled
for fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .capi import CompiledPartition
from .capi.settings import ThreadCount, restore_threads
from .errors import OneGraphError
from .plan import LibraryStep

# A step that moves no more bytes than this is compiled for one thread from the start and not measured.
SMALL = 1 << 15
# One that moves more gets every thread: that it takes longer than LONG needs no measuring.
LARGE = 1 << 20
# One that takes longer on one thread, in seconds, gets every thread: a busy neighbour could only mislead measuring.
LONG = 1e-4
# More threads must gain more than this, in seconds: beside other work they join later than in a loop of one step alone.
WORTH = 1e-6

Measure = Callable[[Sequence[LibraryStep], int], list[float]]


def share_threads(
    steps: Sequence[LibraryStep],
    fixed: Mapping[int, int],
    limit: int,
    measure: Measure | None,
) -> tuple[list[LibraryStep], list[int]]:
    """The steps, some of them compiled anew, and the number of threads for each; 0 is as many as a run may use.

    Args:
        steps: compiled for ``limit`` threads, but small ones for one.
        fixed: numbers that are given, by the note of the step.
        limit: number of threads of the caller.
        measure: returns the seconds of each of some steps on at most so many threads, 0 for those they are compiled
            for; None where there is no memory for that.
    """
    chosen, counts = list(steps), [fixed.get(step.note, 0) for step in steps]
    made: dict[tuple[CompiledPartition, int], CompiledPartition] = {}  # steps may share what was compiled
    for index, step in enumerate(steps):
        if counts[index]:
            chosen[index] = compiled_for(step, counts[index], made)
        elif step.is_small:
            counts[index] = 1
    if measure is None:
        return chosen, counts
    open_ones = [index for index, count in enumerate(counts) if not count and steps[index].nbytes <= LARGE]
    alone = measure([steps[index] for index in open_ones], 1)
    tried = [
        (index, count, compiled_for(steps[index], count, made) if count < limit else steps[index])
        for index, seconds in zip(open_ones, alone, strict=True)
        if seconds < LONG
        for count in (*powers_of_two(limit), limit)
    ]
    best: dict[int, float] = {}
    taken = measure([step for _, _, step in tried], 0)
    for (index, _, _), seconds in zip(tried, taken, strict=True):
        best[index] = min(seconds, best.get(index, seconds))
    for (index, count, step), seconds in zip(tried, taken, strict=True):
        if index in best and seconds <= best[index] + WORTH:
            del best[index]  # the first, with the fewest threads
            chosen[index], counts[index] = step, count if count < limit else 0
    return chosen, counts


def powers_of_two(limit: int) -> list[int]:
    """1, 2, 4 and so on below ``limit``."""
    return [1 << exponent for exponent in range((limit - 1).bit_length())]


def compiled_for(
    step: LibraryStep, count: int, made: dict[tuple[CompiledPartition, int], CompiledPartition]
) -> LibraryStep:
    """The step compiled for ``count`` threads, once for all in ``made``, or as it is where the library refuses."""
    old = step.compiled
    if (old, count) not in made:
        threads = ThreadCount()
        try:
            threads.use(count)
            made[old, count] = CompiledPartition._checked(old.partition, old.inputs, old.outputs, old.engine)
        except OneGraphError:
            made[old, count] = old
        finally:
            restore_threads(threads.before)
    return step._replace(compiled=made[old, count])
