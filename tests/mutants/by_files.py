"""Mutants of the whole package or of its changed lines, judged by the files of tests that run their functions.

The last whole run of ``make test`` has noted which files run which functions. Those that run little else judge first;
further ones judge what survives.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from .. import changed
from ..branches.plugin import REACHED
from .child import PACKAGE, SURVIVED, Trial
from .operators import Mutant, mutants
from .stages import OF_CHILDREN, OF_CONSTANTS, files_named

SHORTEST = 20.0  # seconds that a trial has at least
JOBS = 2  # mutants at once
# How many seconds the files of each trial take at most, unless its quickest file takes longer.
OF_CHANGED = (20.0,)
OF_PACKAGE = (4.0, 16.0, 60.0, 60.0)
SPECIFIC = 2  # trials of files that run little else
RECORD = "/test_recorded_"


@dataclass
class Candidate:
    """A mutant with the files of tests of its trials, and the seconds that these took."""

    mutant: Mutant
    trials: list[tuple[list[str], float]]


class Record:
    """What the last whole run has noted."""

    def __init__(self) -> None:
        if not REACHED.exists():
            raise SystemExit(f"{REACHED} is missing: make test writes it, where all tests run")
        record = json.loads(REACHED.read_text())
        self.functions: dict[str, dict[str, list[str]]] = record["functions"]
        self.seconds: dict[str, float] = record["seconds"]
        self._of_module = {
            module: Counter(file for files in ways.values() for file in files)
            for module, ways in self.functions.items()
        }
        self._of_all = sum(self._of_module.values(), Counter[str]())

    def candidate(self, mutant: Mutant, limits: Collection[float]) -> Candidate:
        """A mutant with its trials: files that run its function, or any of its module if it is in none.

        Those with the largest share of the module in what they run come first, records before the others from the third
        trial on, and files that run the room in processes of their own last. What stands outside of functions, and
        defaults, meet what compares constants before.
        """
        ways = self.functions[mutant.module].items()
        found = {file for way, files in ways for file in files if mutant.function in ("", way.split()[-1])}
        of_module = self._of_module[mutant.module]
        waiting = sorted(found, key=lambda file: (-of_module[file] / self._of_all[file], file))
        if len(limits) > 1:
            room = next((room for room in OF_CHILDREN if mutant.module.startswith(f"{room}/")), "")
            waiting += [file for file in named(OF_CHILDREN.get(room, ())) if file not in found]
            if mutant.line not in mutant.body:
                waiting = [*dict.fromkeys([*named(OF_CONSTANTS), *waiting])]
        trials = list[list[str]]()
        for place, limit in enumerate(limits):
            if place == SPECIFIC:
                waiting.sort(key=lambda file: RECORD not in file)
            trials.append(self._first(waiting, limit))
        return Candidate(mutant, [(files, sum(map(self._seconds, files))) for files in trials if files])

    def _first(self, waiting: list[str], limit: float) -> list[str]:
        """Take files in order that fit into a limit together, at least one."""
        chosen, took = list[str](), 0.0
        for file in waiting:
            if not chosen or took + self._seconds(file) <= limit:
                took += self._seconds(file)
                chosen.append(file)
        waiting[:] = [file for file in waiting if file not in chosen]
        return chosen

    def _seconds(self, file: str) -> float:
        return self.seconds.get(file, 0.0)


def named(names: Collection[str]) -> list[str]:
    """The files of tests with these names, as records name them."""
    return [str(path.relative_to(changed.ROOT)) for name in names for path in files_named(name)]


def of_changed(known: Collection[str], seed: int) -> list[Candidate]:
    """The mutants of changed lines of functions, in a random order.

    Modules that no test runs, as those of PyTorch's front end without PyTorch, have none.
    """
    record = Record()
    lines = {name.removeprefix("onegraph/"): numbers for name, numbers in changed.lines("onegraph").items()}
    made = _mutants(record.functions.keys() & lines.keys(), known, seed)
    found = [mutant for mutant in made if mutant.function and mutant.line in lines[mutant.module]]
    print(f"{len(found)} mutants of changed lines of onegraph since {changed.base()[:12] or 'nothing'}", flush=True)
    return [record.candidate(mutant, OF_CHANGED) for mutant in found]


def of_package(known: Collection[str], seed: int, folder: str | None, count: int | None) -> list[Candidate]:
    """The mutants of all modules that tests run, or of those in a folder, or some of them, in a random order."""
    record = Record()
    found = _mutants([name for name in record.functions if name.startswith(folder or "")], known, seed)
    print(f"{len(found)} mutants of onegraph", flush=True)
    return [record.candidate(mutant, OF_PACKAGE) for mutant in found[:count]]


def room_of(mutant: Mutant) -> str:
    """The room of a mutant; front ends have one each."""
    parts = Path(mutant.module).parts
    return "/".join(parts[: 2 if parts[0] == "frontends" else 1][: len(parts) - 1]) or "."


def _mutants(modules: Collection[str], known: Collection[str], seed: int) -> list[Mutant]:
    """The mutants of some modules that tests run, in a random order."""
    paths = [(name, PACKAGE / name) for name in sorted(modules)]
    made = [one for name, path in paths if path.exists() for one in mutants(name, path.read_text())]
    found = [one for one in made if one.key not in known]
    random.Random(seed).shuffle(found)
    return found


def judged(chosen: list[Candidate], seconds: float) -> list[tuple[Mutant, str]]:
    """The verdicts on these mutants that fit into a time."""
    verdicts = [(one.mutant, "not run") for one in chosen if not one.trials]
    waiting = [one for one in chosen if one.trials]
    running: list[tuple[Candidate, Trial]] = []
    end = time.monotonic() + seconds
    while (waiting or running) and time.monotonic() < end:
        while waiting and len(running) < JOBS:
            one = waiting.pop(0)
            files, took = one.trials.pop(0)
            running.append((one, Trial(one.mutant, files, SHORTEST + 5 * took)))
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
