"""Chooses draws that decide conditions which nothing else decides: ``python -m tests.conditions.choose``.

It starts from the answers of the last ``make conditions``, draws for the seconds that are given for each material, and
adds the numbers that answer a question to tests/recorded/chosen.txt. Errors that are not the package's are printed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from pathlib import Path
from random import Random

from .asked import BUILD, ROOT, begin, missed, prepare

FRUITLESS = 60  # draws of a name without an answer, after which others come first


def main() -> None:
    """Draw, and write the numbers that are kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.conditions.choose", description=__doc__.partition("\n")[0])
    parser.add_argument("materials", nargs="*", help="by default all")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each material")
    parser.add_argument("--first", type=int, default=0, help="the first number")
    given = parser.parse_args()
    os.environ.update(CONDITIONS=str(BUILD / "places"), CONDITIONS_ROOT=str(ROOT))
    met = BUILD / "met"
    asked = prepare(keeps=True)
    begin()
    sys.path.insert(0, str(ROOT / "tests"))
    from tests.helpers import draws

    for name in given.materials or draws.MATERIALS:
        found = search(name, draws.MATERIALS[name], met, given.first, given.seconds)
        kept = draws.chosen(name)
        for one, numbers in found.items():
            kept[one] = sorted({*kept.get(one, ()), *numbers})
        draws.choose(name, kept)
    missed(asked)


def search(name: str, material, met: Path, first: int, seconds: float) -> dict[str, list[int]]:  # type: ignore[no-untyped-def]
    """The numbers of a material that answer questions, by name."""
    names, found = [*material.names()], {}
    next_ = dict.fromkeys(names, first)
    idle = dict.fromkeys(names, 0)
    end, count, before, failed = time.monotonic() + seconds, 0, sum(met.read_bytes()), 0
    start, rng = before, Random(first)
    while time.monotonic() < end:
        least = min(idle.values())
        one = rng.choice([each for each in names if idle[each] <= least + FRUITLESS // 4])
        number = next_[one]
        next_[one] += 1
        count += 1
        try:
            material.lines(one, number)
        except Exception as error:
            failed += 1
            if failed <= 5:
                print(f"{name} {one} {number}: {error!r}"[:300])
                print("".join(traceback.format_list(traceback.extract_tb(error.__traceback__)[-2:])))
        now = sum(met.read_bytes())
        idle[one] = 0 if now > before else idle[one] + 1
        if now > before:
            found.setdefault(one, []).append(number)
            before = now
    print(
        f"{name}: {count} draws, {sum(map(len, found.values()))} kept, {before - start} questions answered", flush=True
    )
    return found


if __name__ == "__main__":
    main()
