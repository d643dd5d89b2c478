"""Chooses the number of threads of each step of a program, because a small step loses more by threads than it gains.

Many kernels keep the number of threads that they were compiled for, so a step that runs with fewer threads is compiled
again for that number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from ..capi import CompiledPartition
from ..capi.threads import ThreadCount, restore_threads
from ..errors import OneGraphError
from .kernels import CompiledKernel
from .steps import CompiledStep

# A step with at most this many bytes of inputs and outputs is compiled for one thread first, and keeps it if quick.
SMALL_BYTES = 1 << 15
# A small step that takes less time than this on one thread keeps one thread.
QUICK_SECONDS = 4e-6
# A step with more bytes than this gets all threads without a measurement.
LARGE_BYTES = 1 << 20
# A step that takes longer than this on one thread gets all threads; other load could only falsify a measurement.
LONG_SECONDS = 1e-4
# If other load prevents measuring, a step that takes longer than this on one thread gets all threads, others get one.
WORTHWHILE_SECONDS = 1e-5
# More threads must save more time than this, because threads start later in a program than in the measuring loop.
MIN_GAIN_SECONDS = 1e-6

Made = dict[tuple[CompiledPartition, int], CompiledPartition]
Measure = Callable[[Sequence[CompiledStep], Sequence[int]], list[float | None]]


def share_threads(
    steps: Sequence[CompiledStep],
    fixed: Mapping[int, int],
    limit: int,
    measure: Measure | None,
) -> tuple[list[CompiledStep], list[int]]:
    """The steps, some of them compiled again, and the number of threads for each; 0 for all that a run may use.

    Args:
        steps: compiled for ``limit`` threads; small ones for one thread.
        fixed: numbers of threads that the user set, by the note of the step.
        limit: number of threads of the caller.
        measure: returns the time of each step in seconds with the given numbers of threads; None if there is not
            enough memory to measure.
    """
    chosen, counts = list(steps), [fixed.get(step.note, 0) for step in steps]
    made: Made = {}  # steps may share a compiled partition
    steps_by_kernel: dict[CompiledPartition | CompiledKernel, list[int]] = {}  # steps to measure that take equally long
    for index, step in enumerate(steps):
        if counts[index]:
            chosen[index] = compiled_for(step, counts[index], made)
            continue
        counts[index] = int(step.is_small)
        if not step.is_quick and step.nbytes <= LARGE_BYTES:
            steps_by_kernel.setdefault(step.like, []).append(index)
    if measure is None:
        return chosen, counts

    def on(count: int, step: CompiledStep) -> CompiledStep:
        return step if count == (1 if step.is_small else limit) else compiled_for(step, count, made)

    def give(count: int, indices: Sequence[int]) -> None:
        for index in indices:
            chosen[index], counts[index] = on(count, steps[index]), count if count < limit else 0

    numbers = (*powers_of_two(limit), limit)
    firsts = [steps[indices[0]] for indices in steps_by_kernel.values()]
    short: list[tuple[list[int], float]] = []
    for indices, alone in zip(steps_by_kernel.values(), measure(firsts, [1] * len(firsts)), strict=True):
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
    for index in chain.from_iterable(steps_by_kernel.values()):
        if steps[index].again is not None:  # the first execution, in which constants are prepared, is to come
            chosen[index] = compiled_for(steps[index], counts[index] or limit, {})
    return chosen, counts


def fastest(seconds: Sequence[float | None], alone: float) -> int:
    """The index of the smallest number of threads that is about as fast as the fastest.

    Args:
        seconds: time of a step for rising numbers of threads; None where other load prevented measuring.
        alone: time on one thread as the step was compiled first, in seconds.
    """
    known = [taken for taken in seconds if taken is not None]
    if len(known) < len(seconds):
        return 0 if alone < WORTHWHILE_SECONDS else len(seconds) - 1
    return next(index for index, taken in enumerate(known) if taken <= min(known) + MIN_GAIN_SECONDS)


def powers_of_two(limit: int) -> list[int]:
    """1, 2, 4 and so on below ``limit``."""
    return [1 << exponent for exponent in range((limit - 1).bit_length())]


def compiled_for(step: CompiledStep, count: int, made: Made) -> CompiledStep:
    """The step compiled for ``count`` threads, cached in ``made``; unchanged if the library refuses.

    A kernel of the package runs with any number of threads.
    """
    old = step.compiled
    if isinstance(old, CompiledKernel):
        return step
    if (old, count) not in made:
        threads = ThreadCount()
        try:
            threads.use(count)
            partition = old.partition if step.again is None else step.again()
            made[old, count] = CompiledPartition._checked(partition, old.inputs, old.outputs, old.engine)
        except OneGraphError:
            made[old, count] = old
        finally:
            restore_threads(threads.before)
    return step._replace(compiled=made[old, count])
