"""Alternating runs: every contender has its turn in every round, so that all of them meet the same noise."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from statistics import median

# A contender runs ``count`` times. What is left of its round goes to the others, in turn.
Contender = Callable[[int], object]
# Workers of a thread pool spin for a while after a run; the next contender has the processors to itself after this.
SETTLE = 0.005


@dataclass(frozen=True)
class Effort:
    """How long to measure: rounds, and seconds of a contender's turn in each of them."""

    rounds: int = 15
    turn: float = 0.02


QUICK = Effort(rounds=2, turn=0.0)


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        case: what ran.
        seconds: for each contender the median time of one run; the first one is the peer of all others.
        speed: for each of the others its speed as a multiple of the first one's, the median over rounds.
        numbers: further figures by name, the unit in the name.
        note: what a reader should know of this row.
    """

    case: str
    seconds: dict[str, float] = field(default_factory=dict)
    speed: dict[str, float] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    note: str = ""


def calls(run: Callable[[], object]) -> Contender:
    """A contender that calls ``run``; the loop around it costs about 0.02 us a call."""

    def contender(count: int) -> None:
        for _ in repeat(None, count):
            run()

    return contender


def alternate(contenders: Mapping[str, Contender], effort: Effort) -> tuple[dict[str, float], dict[str, float]]:
    """Time the contenders in turn; returns ``seconds`` and ``speed`` of a :class:`Row`."""
    counts = {name: _count(contender, effort.turn) for name, contender in contenders.items()}
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(effort.rounds):
        for name, contender in contenders.items():
            time.sleep(SETTLE)
            contender(1)  # wakes the threads and warms the caches, untimed
            taken[name].append(_seconds(contender, counts[name]))
    peer = next(iter(taken))
    speed = {
        name: median(theirs / ours for theirs, ours in zip(taken[peer], times, strict=True))
        for name, times in taken.items()
        if name != peer
    }
    return {name: median(times) for name, times in taken.items()}, speed


def _count(contender: Contender, turn: float) -> int:
    """How many runs fill a turn."""
    contender(1)
    count = 1
    while (seconds := _seconds(contender, count) * count) < turn / 4:
        count *= 4
    return max(1, round(count * turn / seconds))


def _seconds(contender: Contender, count: int) -> float:
    begin = time.perf_counter()
    contender(count)
    return (time.perf_counter() - begin) / count
