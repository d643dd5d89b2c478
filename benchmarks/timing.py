"""Alternating runs: every contender has a turn in every round, so that noise affects all contenders equally."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from statistics import median
from typing import NamedTuple

from .machine import Load, undisturbed

# A contender runs ``count`` times in its turn.
Contender = Callable[[int], object]
# Whether the row with this name is measured.
Chosen = Callable[[str], bool]
# Seconds to wait between turns: the workers of a thread pool spin for a while after a run and hold processors.
SETTLE = 0.005
# The number of rounds that are measured however long they take.
FEWEST = 3


@dataclass(frozen=True)
class Effort:
    """How long to measure: the number of rounds, the seconds of a contender's turn in a round, and of all rounds.

    Three rounds are measured even if these take more than ``limit`` seconds.
    """

    rounds: int = 15
    turn: float = 0.02
    limit: float = math.inf

    def each_round(self) -> Iterator[int]:
        """The rounds, as long as the limit allows."""
        end = time.perf_counter() + self.limit
        for done in range(self.rounds):
            if done >= FEWEST and time.perf_counter() > end:
                return
            yield done


QUICK = Effort(rounds=2, turn=0.0)


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        case: the name of the measured case.
        seconds: for each contender, the median time of one run. All others are compared with the first contender.
        speed: for each other contender, its speed relative to the first contender, the median over rounds.
        numbers: other figures by name, with the unit in the name.
        note: a remark for the reader of this row.
        load: what else ran on the machine meanwhile, as :mod:`benchmarks.machine` describes it.
        version: the version of onegraph, in a file of results.
    """

    case: str
    seconds: dict[str, float] = field(default_factory=dict)
    speed: dict[str, float] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    note: str = ""
    load: Load = field(default_factory=dict)
    version: str = ""


def every(case: str) -> bool:
    """Choose all rows."""
    return True


class Timing(NamedTuple):
    """The ``seconds``, ``speed`` and ``load`` of a :class:`Row`."""

    seconds: dict[str, float]
    speed: dict[str, float]
    load: Load


def calls(run: Callable[[], object]) -> Contender:
    """A contender that calls ``run`` in a loop. The loop adds about 0.02 us per call."""

    def contender(count: int) -> None:
        for _ in repeat(None, count):
            run()

    return contender


def alternate(contenders: Mapping[str, Contender], effort: Effort) -> Timing:
    """Time the contenders in turns, and again if something else ran meanwhile."""
    counts = {name: _count(contender, effort.turn) for name, contender in contenders.items()}

    def rounds() -> dict[str, list[float]]:
        taken: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in effort.each_round():
            for name, contender in contenders.items():
                time.sleep(SETTLE)
                contender(1)  # untimed: wakes the threads and warms the caches
                taken[name].append(_seconds(contender, counts[name]))
        return taken

    taken, load = undisturbed(rounds)
    peer = next(iter(taken))
    speed = {
        name: median(theirs / ours for theirs, ours in zip(taken[peer], times, strict=True))
        for name, times in taken.items()
        if name != peer
    }
    return Timing({name: median(times) for name, times in taken.items()}, speed, load)


def _count(contender: Contender, turn: float) -> int:
    """The number of runs that fill a turn."""
    contender(1)
    count = 1
    while (seconds := _seconds(contender, count) * count) < turn / 4:
        count *= 4
    return max(1, round(count * turn / seconds))


def _seconds(contender: Contender, count: int) -> float:
    begin = time.perf_counter()
    contender(count)
    return (time.perf_counter() - begin) / count
