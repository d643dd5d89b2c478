"""How many threads each step of a program gets: joining them costs a small step more than they gain.

Many kernels keep the number of threads that they were compiled with, so a step that is to run with fewer is compiled
for fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..capi import CompiledPartition
from ..capi.threads import ThreadCount, restore_threads
from ..errors import OneGraphError
from .steps import LibraryStep

# A step that moves no more than this is compiled for one thread from the start, and stays so where it is quick.
SMALL_BYTES = 1 << 15
# One that takes no longer than this on one thread has nothing to gain.
QUICK_SECONDS = 4e-6
# One that moves more than this gets every thread: that it takes long needs no measuring.
LARGE_BYTES = 1 << 20
# One that takes longer than this on one thread gets every thread: a busy neighbour could only mislead measuring.
LONG_SECONDS = 1e-4
# One that takes longer on one thread is worth several: it gets every one where a neighbour keeps others from measuring.
WORTHWHILE_SECONDS = 1e-5
# More threads must gain more than this: beside other work they join later than in a loop of one step alone.
MIN_GAIN_SECONDS = 1e-6

Measure = Callable[[Sequence[LibraryStep], Sequence[int]], list[float | None]]


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
        measure: returns the seconds of each of some steps on so many threads; None where there is no memory for that.
    """
    chosen, counts = list(steps), [fixed.get(step.note, 0) for step in steps]
    made: dict[tuple[CompiledPartition, int], CompiledPartition] = {}  # steps may share what was compiled
    alike: dict[CompiledPartition, list[int]] = {}  # of the steps to measure
    for index, step in enumerate(steps):
        if counts[index]:
            chosen[index] = compiled_for(step, counts[index], made)
            continue
        counts[index] = int(step.is_small)
        if not step.is_quick and step.nbytes <= LARGE_BYTES:
            alike.setdefault(step.like, []).append(index)
    if measure is None:
        return chosen, counts

    def on(count: int, step: LibraryStep) -> LibraryStep:
        return step if count == (1 if step.is_small else limit) else compiled_for(step, count, made)

    def give(count: int, indices: Sequence[int]) -> None:
        for index in indices:
            chosen[index], counts[index] = on(count, steps[index]), count if count < limit else 0

    numbers = (*powers_of_two(limit), limit)
    firsts = [steps[indices[0]] for indices in alike.values()]
    short: list[tuple[list[int], float]] = []
    for indices, alone in zip(alike.values(), measure(firsts, [1] * len(firsts)), strict=True):
        if not alone or (steps[indices[0]].is_small and alone < QUICK_SECONDS):
            continue
        if alone < LONG_SECONDS:
            short.append((indices, alone))
        else:
            give(limit, indices)
    tried = [on(count, steps[indices[0]]) for indices, _ in short for count in numbers]
    taken = iter(measure(tried, [*numbers] * len(short)))
    for indices, alone in short:
        give(numbers[fastest([next(taken) for _ in numbers], alone)], indices)
    return chosen, counts


def fastest(seconds: Sequence[float | None], alone: float) -> int:
    """The index of the fewest threads that are about as fast as any.

    Args:
        seconds: what a step takes by number of threads, in rising order; None where a neighbour hid it.
        alone: what it takes on one thread as it was compiled first.
    """
    known = [taken for taken in seconds if taken is not None]
    if len(known) < len(seconds):
        return 0 if alone < WORTHWHILE_SECONDS else len(seconds) - 1
    return next(index for index, taken in enumerate(known) if taken <= min(known) + MIN_GAIN_SECONDS)


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
