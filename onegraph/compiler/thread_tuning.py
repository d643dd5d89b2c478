"""Chooses the number of threads of each step of a program, because a small step loses more by threads than it gains.

Many kernels keep the number of threads that they were compiled for, so a step that runs with fewer threads is compiled
again for that number.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, MutableMapping, Sequence
from itertools import chain

from ..capi import CompiledPartition
from ..capi.threads import ThreadCount, restore_threads
from ..errors import OneGraphError
from ..opset import kinds
from .kernels.native import CompiledKernel
from .known_threads import Counts, find_counts, keep_counts, key_of
from .notes import Note
from .partition_store import PartitionStore
from .steps import CompiledStep

# A step with at most this many bytes of inputs and outputs is compiled for one thread first, and keeps it if quick.
SMALL_BYTES = 1 << 15
# A step that takes less time than this on one thread gets one thread, because starting others takes as long.
QUICK_SECONDS = 4e-6
# A step with more bytes than this gets all threads without a measurement.
LARGE_BYTES = 1 << 20
# So does a product with more floating-point operations for each thread, which take 5 to 10 us.
LARGE_FLOPS = 1 << 20
# A step that takes longer than this on one thread gets all threads; other load could only falsify a measurement. Few
# threads are worthwhile sooner: that much for each thread.
LONG_SECONDS, LONG_SECONDS_EACH = 1e-4, 1e-5
# If other load prevents measuring, a step that takes longer than this on one thread gets all threads, others get one.
WORTHWHILE_SECONDS = 1e-5
# More threads must save more time than this, because threads start later in a program than in the measuring loop.
MIN_GAIN_SECONDS = 1e-6

# Ops whose kernels have a barrier of their own, at which each thread spins until the last one arrives. Beside another
# program that holds a processor, they take 20 to 100 times as long; on one thread, twice as long.
SPINNING = (kinds.BATCH_NORMS - {"BatchNormInference"}) | kinds.with_output("diff_weights")

# By compiled partition and number of threads, the same one for these threads; None if the library refuses.
Made = MutableMapping[CompiledPartition, dict[int, CompiledPartition | None]]
Measure = Callable[[Sequence[CompiledStep], Sequence[int]], list[float | None]]


def share_threads(
    steps: Sequence[CompiledStep],
    notes: Sequence[Note],
    fixed: Mapping[int, int],
    limit: int,
    measure: Measure | None,
    store: PartitionStore,
) -> tuple[list[CompiledStep], list[int]]:
    """The steps, some of them compiled again, and the number of threads for each; 0 for all that a run may use.

    Args:
        steps: compiled for ``limit`` threads; small ones for one thread.
        notes: the notes of the program.
        fixed: numbers of threads that the user set, by the note of the step.
        limit: number of threads of the caller.
        measure: returns the time of each step in seconds with the given numbers of threads; None if there is not
            enough memory to measure.
        store: what other programs of the executable have measured and compiled.
    """
    chosen, counts, variants_of = list(steps), [fixed.get(step.note, 0) for step in steps], store.variants
    steps_by_kernel: dict[CompiledPartition | CompiledKernel, list[int]] = {}  # steps to measure that take equally long
    for index, step in enumerate(steps):
        if counts[index]:
            chosen[index] = compiled_for(step, counts[index], variants_of)
            continue
        counts[index] = int(step.is_small)
        is_large = step.nbytes > LARGE_BYTES or step.flops > LARGE_FLOPS * limit
        if not step.is_quick and (step.is_small or not is_large):
            steps_by_kernel.setdefault(step.like, []).append(index)
    if measure is None or not steps_by_kernel:
        return chosen, counts
    groups = [*steps_by_kernel.values()]
    firsts = [steps[indices[0]] for indices in groups]
    counts_of_groups = _counts(firsts, notes, limit, measure, store)
    for indices, count in zip(groups, counts_of_groups, strict=True):
        if count is None:
            continue
        for index in indices:
            chosen[index] = _on(count, steps[index], limit, variants_of)
            counts[index] = count if count < limit else 0
    for kernel in steps_by_kernel:
        used = {chosen[index].compiled for index in steps_by_kernel[kernel]}
        variants = variants_of.get(kernel, {}) if isinstance(kernel, CompiledPartition) else {}
        for tried in [threads for threads, variant in variants.items() if variant not in used]:
            del variants[tried]  # with the constants that the library has prepared for the measurement
    for index in chain.from_iterable(groups):
        if steps[index].again is not None:  # the first execution, in which constants are prepared, is to come
            chosen[index] = compiled_for(steps[index], counts[index] or limit, {})
    return chosen, counts


def _counts(
    steps: Sequence[CompiledStep], notes: Sequence[Note], limit: int, measure: Measure, store: PartitionStore
) -> Counts:
    """The number of threads with which each step is fast; None where it cannot be measured.

    Where sizes change, a step gets the number of an earlier one that computes the same on about as many bytes.
    """
    kinds = [_kind_of(step, notes, limit) for step in steps] if store.rounds else []
    if kinds and all(kind in store.counts for kind in kinds):
        return [store.counts[kind] for kind in kinds]
    key = key_of([notes[step.note] for step in steps], limit)
    counts = find_counts(key, len(steps), limit)
    if counts is None:
        counts, is_sure = measured(steps, limit, measure, store.variants)
        if is_sure:
            keep_counts(key, counts)
    store.counts.update(zip(kinds, counts, strict=False))
    return counts


def _kind_of(step: CompiledStep, notes: Sequence[Note], limit: int) -> Hashable:
    """What a step computes, and about how much."""
    return tuple([part.kind for part in notes[step.note].steps]), step.nbytes.bit_length(), step.is_small, limit


def without_barriers(
    steps: Sequence[CompiledStep], notes: Sequence[Note], fixed: Mapping[int, int], counts: Sequence[int]
) -> list[CompiledStep]:
    """The steps, where those whose kernels spin at barriers have a partition for one thread too.

    One thread adds numbers in another order, so a step with a number of threads that the user set has none: its results
    repeat bit by bit beside other programs too.

    Args:
        steps: the steps.
        notes: the notes of the program.
        fixed: numbers of threads that the user set, by the note of the step.
        counts: the number of threads of each step; 0 for all.
    """
    variants: Made = {}
    steps_without = []
    for step, count in zip(steps, counts, strict=True):
        spins = step.note not in fixed and count != 1 and step.again is None
        spins = spins and not isinstance(step.compiled, CompiledKernel)
        if spins and any(part.kind in SPINNING for part in notes[step.note].steps):
            single = compiled_for(step, 1, variants).compiled
            if single is not step.compiled and isinstance(single, CompiledPartition):
                step = step._replace(alone=single)
        steps_without.append(step)
    return steps_without


def measured(steps: Sequence[CompiledStep], limit: int, measure: Measure, variants: Made) -> tuple[Counts, bool]:
    """The number of threads with which each step is fast, None where it cannot be measured, and whether that is sure.

    Args:
        steps, limit, measure: as for ``share_threads``.
        variants: gets what is compiled.
    """
    numbers, enough = (*powers_of_two(limit), limit), long_seconds(limit)
    counts: Counts = []
    short: dict[int, float] = {}  # time on one thread, by index
    for index, alone in enumerate(measure(steps, [1] * len(steps))):
        counts.append(None if not alone else 1 if alone < QUICK_SECONDS else limit)
        if alone and QUICK_SECONDS <= alone < enough:
            short[index] = alone
    tried = [_on(count, steps[index], limit, variants) for index in short for count in numbers]
    times = measure(tried, [*numbers] * len(short))
    time_of = iter(times)
    for index, alone in short.items():
        counts[index] = numbers[fastest([next(time_of) for _ in numbers], alone)]
    return counts, None not in counts and None not in times


def _on(count: int, step: CompiledStep, limit: int, variants: Made) -> CompiledStep:
    """The step compiled for ``count`` threads."""
    return step if count == (1 if step.is_small else limit) else compiled_for(step, count, variants)


def long_seconds(limit: int) -> float:
    """The time on one thread from which a step gets all of ``limit`` threads without another measurement."""
    return min(LONG_SECONDS, LONG_SECONDS_EACH * limit)


def fastest(seconds: Sequence[float | None], alone: float) -> int:
    """The index of the smallest number of threads that is about as fast as the fastest.

    Args:
        seconds: time of a step for rising numbers of threads; None where other load prevented measuring.
        alone: time on one thread as the step was compiled first, in seconds.
    """
    known_seconds = [second for second in seconds if second is not None]
    if len(known_seconds) < len(seconds):
        return 0 if alone < WORTHWHILE_SECONDS else len(seconds) - 1
    return next(index for index, second in enumerate(known_seconds) if second <= min(known_seconds) + MIN_GAIN_SECONDS)


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
    variants = made.setdefault(old, {})
    if count not in variants:
        threads = ThreadCount()
        try:
            threads.use(count)
            partition = old.partition if step.again is None else step.again()
            variants[count] = CompiledPartition._checked(partition, old.inputs, old.outputs, old.engine)
        except OneGraphError:
            variants[count] = None
        finally:
            restore_threads(threads.before)
    return step._replace(compiled=variants[count] or old)
