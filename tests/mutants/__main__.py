"""Makes mutants of a stage, runs the tests that touch each, and prints the share that the tests notice.

    python -m tests.mutants serialize --count 200 --seed 1
    python -m tests.mutants faults --shard 2/8
    python -m tests.mutants changed --seconds 60 --least 60
    python -m tests.mutants package --count 100 --seed 1
    python -m tests.mutants native --count 30 --module avg_pool

The first run of a stage records which tests run which lines, in build/mutants. A mutant whose line no test runs
survives. Survivors that change nothing stand in equivalent.json with the reason. ``changed`` is no stage, but what has
changed in the package since the branch left the main branch, and ``package`` is all of it: both are judged by whole
files of tests that the last ``make test`` has seen run their functions.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from . import by_files, native
from .child import PACKAGE, SURVIVED, judge
from .operators import Mutant, mutants
from .stages import OF_CHILDREN, OF_CONSTANTS, STAGES, files_named, folder

ROOT = PACKAGE.parent
BUILD = ROOT / "build" / "mutants"
EQUIVALENT = Path(__file__).with_name("equivalent.json")
MOST, ALIKE = 30, 6  # tests of one mutant, and cases of one function among them
REST = 300  # further tests of a mutant that survives those
SHORTEST = 20.0  # seconds that a mutant has at least
LONG = 30.0  # seconds of a file of tests that was not timed


def main() -> int:
    """Run the command; the status is 1 if the tests notice a smaller share than they must."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("stage", choices=[*sorted(STAGES), "changed", "native", "package"])
    parser.add_argument("--count", type=int, help="of mutants, drawn at random; by default all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shard", default="1/1", help="the part to run, such as 2/8")
    parser.add_argument("--module", help="of the stage, the only one to change; a folder for native and package")
    parser.add_argument("--record", action="store_true", help="record anew which tests run which lines")
    parser.add_argument("--seconds", type=float, help="that mutants of changed or package may take; by default any")
    parser.add_argument("--least", type=float, default=100.0, help="percent of the mutants that must be noticed")
    given = parser.parse_args()
    known = json.loads(EQUIVALENT.read_text())
    part, parts = map(int, given.shard.split("/"))
    if given.stage == "native":
        verdicts = native.judged(known, given.module, given.count, given.seed, (part, parts))
        return report("native", verdicts, given.least)
    if given.stage in ("changed", "package"):
        if given.stage == "changed":
            candidates = by_files.of_changed(known, given.seed)
        else:
            candidates = by_files.of_package(known, given.seed, given.module, given.count)
        verdicts = by_files.judged(candidates, given.seconds or math.inf)
        return report(given.stage, verdicts, given.least)
    record = recorded(given.stage, anew=given.record)
    chosen = chosen_mutants(given.stage, given.module)
    random.Random(given.seed).shuffle(chosen)
    chosen = chosen[: given.count][part - 1 :: parts]
    verdicts = [(mutant, verdict(mutant, given.stage, record)) for mutant in chosen]
    return report(given.stage, verdicts, given.least)


def chosen_mutants(stage: str, module: str | None) -> list[Mutant]:
    """The mutants of a stage, without the equivalent ones."""
    known = json.loads(EQUIVALENT.read_text())
    found = []
    for path in sorted((PACKAGE / folder(stage)).glob("*.py" if stage == "." else "**/*.py")):
        name = str(path.relative_to(PACKAGE))
        if module is None or path.stem == module:
            found += [mutant for mutant in mutants(name, path.read_text()) if mutant.key not in known]
    return found


def recorded(stage: str, *, anew: bool) -> dict[str, dict[str, object]]:
    """Which tests run which lines of a stage."""
    path = BUILD / f"{'package' if stage == '.' else stage}.json"
    if anew or not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "MUTANTS_STAGE": str(PACKAGE / folder(stage)), "MUTANTS_RECORD": str(path)}
        tests = [str(path) for name in STAGES[stage] for path in files_named(name)]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutants.contexts", "-p", "no:xdist", *tests]
        done = subprocess.run(command, cwd=ROOT, env=environment)
        if done.returncode:
            raise SystemExit("the tests fail without a mutant")
    found: dict[str, dict[str, object]] = json.loads(path.read_text())
    return found


def verdict(mutant: Mutant, stage: str, record: dict[str, dict[str, object]]) -> str:
    """What the tests that run the line of a mutant say."""
    name = str(Path(mutant.module).relative_to(folder(stage)))
    lines: dict[str, list[str]] = record["lines"].get(name, {})  # type: ignore[attr-defined]
    tests = running(mutant, lines)
    first, found = spread(tests), SURVIVED if tests else "not run"
    others = OF_CHILDREN.get(stage, ()) if lines else STAGES[stage]  # a module may only make records as it is imported
    others = others if mutant.line in mutant.body else (*OF_CONSTANTS, *others)
    beside = [str(path) for name in others for path in files_named(name)]
    for chosen in (first, beside, [test for test in tests if test not in first][:REST]):
        if chosen and found in (SURVIVED, "not run"):
            seconds = sum(float(record["seconds"].get(test, LONG)) for test in chosen)  # type: ignore[arg-type]
            found = judge(mutant, chosen, SHORTEST + 5 * seconds)
    print(f"{found:9} {mutant.name}", flush=True)
    return found


def running(mutant: Mutant, lines: dict[str, list[str]]) -> list[str]:
    """The tests that run the line of a mutant, by the tests of each line of its module that ran.

    A line in the middle of an expression may have none of its own, and a default value has those of the body. What runs
    when the module is imported decides what its functions do, so that all tests of these run it.
    """
    by_line = {number: lines[str(number)] for number in sorted(map(int, lines)) if number in mutant.body}
    if not any(by_line.values()):
        return list(dict.fromkeys(test for tests in lines.values() for test in tests))
    if mutant.line not in mutant.body:
        return next(tests for tests in by_line.values() if tests)
    before = [number for number in by_line if number <= mutant.line]
    return by_line[before[-1]] if before else []


def spread(tests: list[str]) -> list[str]:
    """The first of these tests, and few cases of each function, so that many functions run."""
    cases, chosen = Counter[str](), list[str]()
    for test in tests:
        cases[test.partition("[")[0]] += 1
        if cases[test.partition("[")[0]] <= ALIKE:
            chosen.append(test)
    return chosen[:MOST]


def report(stage: str, verdicts: list[tuple[Mutant, str]], least: float) -> int:
    """Print the survivors and the score of a stage."""
    alive = [(mutant, found) for mutant, found in verdicts if found in (SURVIVED, "not run")]
    for mutant, found in alive:
        print(f"{found:9} {mutant.name}")
    rooms = Counter(by_files.room_of(mutant) for mutant, _ in verdicts)
    missed = Counter(by_files.room_of(mutant) for mutant, _ in alive)
    if len(rooms) > 1:
        print(*(f"{room}: {count - missed[room]} of {count}" for room, count in sorted(rooms.items())), sep="\n")
    noticed = len(verdicts) - len(alive)
    share = 100 * noticed / len(verdicts) if verdicts else 100.0
    print(f"{stage}: {noticed} of {len(verdicts)} mutants noticed, {share:.1f} %  ({time.process_time():.0f} s here)")
    return int(share < least)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
