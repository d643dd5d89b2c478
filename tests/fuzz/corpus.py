"""Inputs that reached new branches: a folder of small files for each fuzzer, which the suite replays.

tests/corpus has recipes of graphs, ONNX models, files for the readers of graphs, calls of the C API, programs of
PyTorch, and functions as users of numpy and of PyTorch write them. A run of ``make fuzz`` starts from them, and adds
what reaches new branches to build/corpus. ``python -m tests.fuzz.corpus`` copies those of build/corpus
to tests/corpus that reach branches which the others do not, the small ones first.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from .kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]
CORPUS, FOUND = ROOT / "tests" / "corpus", ROOT / "build" / "corpus"
LARGEST = 6000  # bytes of an input
MOST, DOZENS = 60_000, 40  # bytes and number of all inputs of a kind in tests/corpus


def inputs(kind: str, *folders: Path) -> list[Path]:
    """The files of a kind, those of tests/corpus first."""
    found = [path for folder in folders or (CORPUS, FOUND) for path in sorted((folder / kind).glob("*"))]
    return [path for path in found if path.suffix == KINDS[kind].suffix]


def keep(kind: str, data: bytes, folder: Path = FOUND) -> None:
    """Add an input under a digest of its contents."""
    target = folder / kind / f"{hashlib.sha256(data).hexdigest()[:16]}{KINDS[kind].suffix}"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


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


def fewest(reached: dict[bytes, set[tuple[str, int]]], covered: Iterable[tuple[str, int]], room: int) -> list[bytes]:
    """Inputs that reach what others do not, at most ``room`` bytes: the most new branches for a byte first."""
    rest, chosen = {data: ways - {*covered} for data, ways in reached.items()}, list[bytes]()
    while rest:
        data = max(rest, key=lambda one: (len(rest[one]) / (len(one) + 100), one))
        ways = rest.pop(data)
        if ways and len(data) <= room:
            chosen.append(data)
            room -= len(data)
            rest = {other: more - ways for other, more in rest.items()}
    return chosen


def main() -> None:
    """Copy to tests/corpus what it is to have."""
    branches = marking()
    for kind in [kind for kind, one in KINDS.items() if one.is_there]:
        own = inputs(kind, CORPUS)
        covered = branches.reached(lambda kind=kind, own=own: [replayed(kind, path.read_bytes()) for path in own])  # type: ignore[misc]
        reached = dict[bytes, set[tuple[str, int]]]()
        for path in inputs(kind, FOUND):
            data = path.read_bytes()
            reached[data] = branches.reached(lambda kind=kind, data=data: replayed(kind, data))  # type: ignore[misc]
        room = MOST - sum(path.stat().st_size for path in own)
        chosen = fewest(reached, covered, room)[: DOZENS - len(own)]
        for data in chosen:
            keep(kind, data, CORPUS)
        print(f"{kind}: {len(own)} inputs, and {len(chosen)} of {len(reached)} that were found")


if __name__ == "__main__":
    main()
