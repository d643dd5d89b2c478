"""Mutants of the lines that have changed, judged within a time by the files of tests that run the changed functions.

The last whole run of ``make test`` has noted which files run which functions.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Collection, Iterator
from functools import partial

from .. import changed
from ..branches.plugin import REACHED
from .child import PACKAGE, Trial
from .operators import Mutant, mutants

LONGEST = 20.0  # seconds that the tests of a mutant take at most, unless the quickest file takes longer
SHORTEST = 20.0  # seconds that a mutant has at least
JOBS = 2  # mutants at once


def files_of(reached: dict[str, list[str]], function: str, seconds: dict[str, float]) -> list[str]:
    """The files of tests that run a function of a module, the quickest first, as many as LONGEST has room for."""
    files = {file for way, files in reached.items() if way.split()[-1] == function for file in files}
    chosen: list[str] = []
    for file in sorted(files, key=lambda file: (seconds.get(file, 0.0), file)):
        if chosen and sum(seconds.get(one, 0.0) for one in [*chosen, file]) > LONGEST:
            break
        chosen.append(file)
    return chosen


def candidates(known: Collection[str]) -> Iterator[tuple[Mutant, list[str], float]]:
    """The mutants of changed lines of functions, with their files of tests and the seconds that these took.

    Modules that no test runs, as those of PyTorch's front end without PyTorch, have none.
    """
    record = json.loads(REACHED.read_text())
    for name, numbers in changed.lines("onegraph").items():
        module, path = name.partition("/")[2], changed.ROOT / name
        if path.suffix != ".py" or module not in record["functions"]:
            continue
        for mutant in mutants(module, path.read_text()):
            if mutant.function and mutant.line in numbers and mutant.key not in known:
                files = files_of(record["functions"][module], mutant.function, record["seconds"])
                yield mutant, files, sum(record["seconds"].get(file, 0.0) for file in files)


def judged(known: Collection[str], seconds: float, seed: int) -> list[tuple[Mutant, str]]:
    """The verdicts that fit into a time, on mutants in a random order."""
    if not REACHED.exists():
        raise SystemExit(f"{REACHED} is missing: make test writes it, where all tests run")
    tried = [*candidates(known)]
    random.Random(seed).shuffle(tried)
    print(
        f"{len(tried)} mutants of changed lines of {PACKAGE.name} since {changed.base()[:12] or 'nothing'}", flush=True
    )
    verdicts = [(mutant, "not run") for mutant, files, _ in tried if not files]
    waiting = [partial(Trial, mutant, files, SHORTEST + 5 * took) for mutant, files, took in tried if files]
    running: list[Trial] = []
    end = time.monotonic() + seconds
    while (waiting or running) and time.monotonic() < end:
        while waiting and len(running) < JOBS:
            running.append(waiting.pop()())
        for trial in [*running]:
            if (verdict := trial.verdict()) is not None:
                running.remove(trial)
                verdicts.append((trial.mutant, verdict))
                print(f"{verdict:9} {trial.mutant.name}", flush=True)
        time.sleep(0.02)
    for trial in running:
        trial.stop()
    return verdicts
