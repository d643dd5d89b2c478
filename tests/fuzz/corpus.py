"""Inputs that reached new branches: a folder of small files for each fuzzer, which the suite replays.

A run of ``make fuzz`` starts from tests/corpus, and adds what reaches new branches to build/corpus.
``python -m tests.fuzz.corpus`` copies those of build/corpus to tests/corpus that reach branches which the others do
not: first those that reach the most for the time and the bytes that they take.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from .kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]
CORPUS, FOUND = ROOT / "tests" / "corpus", ROOT / "build" / "corpus"
LARGEST = 6000  # bytes of an input
MOST, DOZENS = 60_000, 80  # bytes and number of all inputs of a kind in tests/corpus


def inputs(kind: str, *folders: Path) -> list[Path]:
    """The files of a kind, those of tests/corpus first."""
    return [path for folder in folders or (CORPUS, FOUND) for path in sorted((folder / kind).glob("*"))]


def keep(kind: str, data: bytes, folder: Path = FOUND) -> Path:
    """Add an input under a digest of its contents."""
    target = folder / kind / hashlib.sha256(data).hexdigest()[:16]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return target


def replayed(kind: str, data: bytes) -> str:
    """What goes wrong with an input; empty if nothing does."""
    text: str = KINDS[kind].functions.replay(data)
    return text


class Branches:
    """The ways of the package that have run, where it is imported behind ``marking``."""

    def new(self) -> set[tuple[str, int]]:
        """Those that ran since the last call."""
        from ..branches import marks

        found = set()
        for module, states in marks.RAN.items():
            if any(states):
                found |= {(module, number) for number, ran in enumerate(states) if ran}
                states[:] = [0] * len(states)
        return found

    def reached(self, work: Callable[[], object]) -> set[tuple[str, int]]:
        """The ways that a function runs, of which those are known afterwards."""
        self.new()
        work()
        return self.new()


def marking() -> Branches:
    """Mark the package, which nothing has imported yet."""
    from ..branches import marks

    assert not any(name.partition(".")[0] == "onegraph" for name in sys.modules), "the package is imported already"
    sys.meta_path.insert(0, marks.Finder())  # type: ignore[arg-type]
    return Branches()


class Reached(NamedTuple):
    """The ways of the package that an input runs, and the seconds that it takes."""

    ways: set[tuple[str, int]]
    seconds: float = 0.0


def fewest(
    reached: dict[bytes, Reached], covered: Iterable[tuple[str, int]], room: float, seconds: float
) -> list[bytes]:
    """Inputs that reach what others do not, in some bytes and seconds: the most new branches for their cost first."""
    rest = {data: one._replace(ways=one.ways - {*covered}) for data, one in reached.items()}
    chosen = list[bytes]()
    while rest:
        data = max(rest, key=lambda one: (len(rest[one].ways) / (len(one) + 100 + 10_000 * rest[one].seconds), one))
        ways, took = rest.pop(data)
        if ways and len(data) <= room and took <= seconds:
            chosen.append(data)
            room, seconds = room - len(data), seconds - took
            rest = {other: one._replace(ways=one.ways - ways) for other, one in rest.items()}
    return chosen


def main() -> None:
    """Copy to tests/corpus what it is to have."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.corpus")
    parser.add_argument("kinds", nargs="*", default=[kind for kind, one in KINDS.items() if one.is_there])
    parser.add_argument("--anew", action="store_true", help="inputs of tests/corpus have no right to stay")
    options = parser.parse_args()
    branches = marking()

    def reached(kind: str, path: Path) -> Reached:
        data, begin = path.read_bytes(), time.process_time()
        ways = branches.reached(lambda: replayed(kind, data))
        again = time.process_time()
        replayed(kind, data)  # imports nothing that another input needs too
        return Reached(ways, min(again - begin, time.process_time() - again))

    for kind in options.kinds:
        own, found = inputs(kind, CORPUS), inputs(kind, FOUND)
        stay = [path for path in own if "_" in path.name or not options.anew]  # digests have no underscore
        known = [reached(kind, path) for path in stay]
        others = {path.read_bytes(): reached(kind, path) for path in [*own, *found] if path not in stay}
        covered = set[tuple[str, int]]().union(*(one.ways for one in known))
        room = MOST - sum(path.stat().st_size for path in stay)
        rest = KINDS[kind].seconds - sum(one.seconds for one in known)
        chosen = fewest(others, covered, room, rest)[: DOZENS - len(stay)]
        for path in own:
            if path not in stay and path.read_bytes() not in chosen:
                path.unlink()
        for data in [data for data in chosen if data not in {path.read_bytes() for path in inputs(kind, CORPUS)}]:
            keep(kind, data, CORPUS)
        all_ways = covered.union(*(one.ways for one in others.values()))
        kept = covered.union(*(others[data].ways for data in chosen))
        took = sum(one.seconds for one in [*known, *(others[data] for data in chosen)])
        told = f"{len(stay)} inputs stay, {len(chosen)} of {len(others)} are chosen"
        print(f"{kind}: {told}, {len(kept)} of {len(all_ways)} branches, {took:.1f} s", flush=True)


if __name__ == "__main__":
    main()
