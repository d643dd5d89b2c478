"""Makes mutants of rooms of the package, runs the tests that touch each, and prints the share that the tests notice.

    python -m tests.mutants serialize --count 200 --seed 1
    python -m tests.mutants package --shard 2/8 --seconds 3600
    python -m tests.mutants changed --seconds 60 --least 60
    python -m tests.mutants native --count 30 --module avg_pool

The last whole ``make test`` has noted which tests run which ways of the package. ``package`` is all rooms, ``binding``
the Python code of native, ``native`` the C++ code, and ``changed`` what has changed since the branch left the main
branch. Survivors that change nothing stand in equivalent.json with the reason.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections import Counter
from pathlib import Path

from . import native, trials
from .child import PACKAGE, SURVIVED
from .operators import Mutant

EQUIVALENT = Path(__file__).with_name("equivalent.json")


def main() -> int:
    """Run the command; the status is 1 if the tests notice a smaller share than they must."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("room", help="of the package, or package, changed or native; . for modules in no folder")
    parser.add_argument("--count", type=int, help="of mutants, drawn at random; by default all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shard", default="1/1", help="the part to run, such as 2/8")
    parser.add_argument("--module", help="how the paths of its modules begin; a file or folder of native")
    parser.add_argument("--seconds", type=float, default=math.inf, help="that all may take; by default any")
    parser.add_argument("--least", type=float, default=100.0, help="percent of the mutants that must be noticed")
    given = parser.parse_args()
    known = json.loads(EQUIVALENT.read_text())
    part, parts = map(int, given.shard.split("/"))
    if given.room == "native":
        verdicts = native.judged(known, given.module, given.count, given.seed, (part, parts))
    else:
        if given.room == "changed":
            candidates = trials.of_changed(known, given.seed)
        else:
            candidates = trials.of_room(known, given.seed, given.room, given.module, (part, parts), given.count)
        verdicts = trials.judged(candidates, given.seconds)
    return report(given.room, verdicts, given.least)


def report(room: str, verdicts: list[tuple[Mutant, str]], least: float) -> int:
    """Print the survivors and the score of each room."""
    alive = [(mutant, found) for mutant, found in verdicts if found in (SURVIVED, "not run")]
    for mutant, found in alive:
        print(f"{found:9} {mutant.name}")
    rooms = Counter(trials.room_of(mutant) for mutant, _ in verdicts)
    missed = Counter(trials.room_of(mutant) for mutant, _ in alive)
    if len(rooms) > 1:
        print(*(f"{name}: {count - missed[name]} of {count}" for name, count in sorted(rooms.items())), sep="\n")
    noticed = len(verdicts) - len(alive)
    share = 100 * noticed / len(verdicts) if verdicts else 100.0
    print(f"{room}: {noticed} of {len(verdicts)} mutants noticed, {share:.1f} %  ({time.process_time():.0f} s here)")
    return int(share < least)


if __name__ == "__main__":
    os.chdir(PACKAGE.parent)
    sys.exit(main())
