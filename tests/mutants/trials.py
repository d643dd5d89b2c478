"""Mutants of rooms of the package or of changed lines, judged by the tests that run their place.

A few quick tests of different files judge first, then further ones, and whole files what survives.
"""

from __future__ import annotations

import gc
import random
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import changed
from .child import PACKAGE, SURVIVED, Trial
from .operators import Mutant, mutants
from .reached import Reached
from .stages import OF_CHILDREN, OF_CONSTANTS, files_named

SHORTEST = 20.0  # seconds that a trial has at least
JOBS = 2  # mutants at once
RECORD = "/test_recorded_"


@dataclass(frozen=True)
class Limits:
    """How much judges a mutant.

    Attributes:
        tests: how many files each trial by tests takes tests of, and their seconds.
        files: the seconds of each trial by whole files, unless its quickest file takes longer.
        specific: how many of those take files that run little else; records come first in the others.
    """

    tests: Sequence[tuple[int, float]]
    files: Sequence[float]
    specific: int = 1


OF_CHANGED = Limits([(6, 2.0)], [20.0])
OF_PACKAGE = Limits([(6, 2.0), (12, 6.0)], [16.0, 60.0, 60.0])


@dataclass
class Candidate:
    """A mutant with the tests of its trials, or files of them, and the seconds that these took."""

    mutant: Mutant
    trials: list[tuple[list[str], float]]


def candidate(record: Reached, mutant: Mutant, limits: Limits) -> Candidate:
    """A mutant with its trials.

    Files that run its room in processes of their own come last. What stands outside of functions, and defaults, meet
    what compares constants before.
    """
    is_inside = mutant.line in mutant.body
    files, trials = record.files(mutant), list[list[str]]()
    waiting = [test for test in record.tests(mutant) if mutant.function]
    for count, seconds in limits.tests:
        trials.append(_first_tests(record, mutant.module, waiting, count, seconds))
    if not is_inside:
        trials.insert(0, named(OF_CONSTANTS))
    files += [file for file in named(OF_CHILDREN.get(room_of(mutant), ())) if file not in files]
    for place, limit in enumerate(limits.files):
        if place == limits.specific:
            files.sort(key=lambda file: RECORD not in file)
        trials.append(_first_files(record, files, limit))
    return Candidate(mutant, [(each, sum(map(record.seconds, each))) for each in trials if each])


def _first_tests(record: Reached, module: str, waiting: list[str], count: int, limit: float) -> list[str]:
    """Take tests of a few files that fit into a limit together, those of each file in turn; at least one test."""
    by_file = defaultdict[str, list[str]](list)
    for test in waiting:
        by_file[test.partition("::")[0]].append(test)
    files = sorted(by_file, key=lambda file: (-record.share(module, file), file))[:count]
    chosen, took = list[str](), 0.0
    for turn in range(max((len(by_file[file]) for file in files), default=0)):
        for test in (by_file[file][turn] for file in files if turn < len(by_file[file])):
            if not chosen or took + record.seconds(test) <= limit:
                took += record.seconds(test)
                chosen.append(test)
    waiting[:] = [test for test in waiting if test not in chosen and test.partition("::")[0] not in files]
    return chosen


def _first_files(record: Reached, waiting: list[str], limit: float) -> list[str]:
    """Take files in order that fit into a limit together, at least one."""
    chosen, took = list[str](), 0.0
    for file in waiting:
        if not chosen or took + record.seconds(file) <= limit:
            took += record.seconds(file)
            chosen.append(file)
    waiting[:] = [file for file in waiting if file not in chosen]
    return chosen


def named(names: Collection[str]) -> list[str]:
    """The files of tests with these names, as records name them."""
    return [str(path.relative_to(changed.ROOT)) for name in names for path in files_named(name)]


def of_changed(known: Collection[str], seed: int) -> list[Candidate]:
    """The mutants of changed lines of functions, in a random order.

    Modules that no test runs, as those of PyTorch's front end without PyTorch, have none.
    """
    record = Reached()
    lines = {name.removeprefix("onegraph/"): numbers for name, numbers in changed.lines("onegraph").items()}
    made = _mutants({*record.modules} & lines.keys(), known, seed)
    found = [mutant for mutant in made if mutant.function and mutant.line in lines[mutant.module]]
    print(f"{len(found)} mutants of changed lines of onegraph since {changed.base()[:12] or 'nothing'}", flush=True)
    return [candidate(record, mutant, OF_CHANGED) for mutant in found]


def of_room(
    known: Collection[str], seed: int, room: str, module: str | None, shard: tuple[int, int], count: int | None
) -> list[Candidate]:
    """The mutants of a room, or of all rooms of the package, in a random order.

    Args:
        known: the keys of those to leave out.
        seed: of the order.
        room: its name, or ``package``.
        module: the beginning of the paths of modules, or None for all.
        shard: its number and how many there are.
        count: how many to take before the shard is; None for all.
    """
    record = Reached()
    modules = [name for name in record.modules if name.startswith(module or "")]
    found = [one for one in _mutants(modules, known, seed) if room in ("package", room_of(one))]
    print(f"{len(found)} mutants of {room}", flush=True)
    part, parts = shard
    return [candidate(record, mutant, OF_PACKAGE) for mutant in found[:count][part - 1 :: parts]]


def room_of(mutant: Mutant) -> str:
    """The room of a mutant; front ends have one each, and ``native`` is the C++ code."""
    parts = Path(mutant.module).parts
    room = "/".join(parts[: 2 if parts[0] == "frontends" else 1][: len(parts) - 1]) or "."
    return "binding" if room == "native" and mutant.module.endswith(".py") else room


def _mutants(modules: Collection[str], known: Collection[str], seed: int) -> list[Mutant]:
    """The mutants of some modules, in a random order."""
    made = [one for name in sorted(modules) for one in mutants(name, (PACKAGE / name).read_text())]
    found = [one for one in made if one.key not in known]
    random.Random(seed).shuffle(found)
    return found


def judged(chosen: list[Candidate], seconds: float) -> list[tuple[Mutant, str]]:
    """The verdicts on these mutants that fit into a time."""
    verdicts = [(one.mutant, "not run") for one in chosen if not one.trials]
    waiting = [one for one in chosen if one.trials]
    running: list[tuple[Candidate, Trial]] = []
    end = time.monotonic() + seconds
    gc.collect()
    gc.freeze()  # so that no collection in a process of a trial copies what this one knows
    while (waiting or running) and time.monotonic() < end:
        while waiting and len(running) < JOBS:
            one = waiting.pop(0)
            tests, took = one.trials.pop(0)
            running.append((one, Trial(one.mutant, tests, SHORTEST + 5 * took)))
        for one, trial in [*running]:
            if (verdict := trial.verdict()) is None:
                continue
            running.remove((one, trial))
            if verdict == SURVIVED and one.trials:
                waiting.insert(0, one)
            else:
                verdicts.append((one.mutant, verdict))
                print(f"{verdict:9} {one.mutant.name}", flush=True)
        time.sleep(0.02)
    for _, trial in running:
        trial.stop()
    return verdicts
