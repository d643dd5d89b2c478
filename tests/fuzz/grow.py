"""Changes inputs of a kind at random and tries them: ``python -m tests.fuzz.grow KIND SEED COUNT``.

An input that reaches new branches is kept in build/corpus, and is changed in its turn. A process has 8 GB of memory and
a time limit for each input, so that an input that asks for more is a finding too.
"""

from __future__ import annotations

import faulthandler
import resource
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

from .corpus import CORPUS, FOUND, LARGEST, ROOT, Branches, inputs, keep, marking, replayed
from .kinds import KINDS

MEMORY = 8 << 30
SECONDS = 200  # an input takes milliseconds; the import of PyTorch's samples takes seconds, more on a busy machine


def originals(kind: str, keeps: bool) -> list[bytes]:
    """What the changes begin with."""
    known = [path.read_bytes() for path in inputs(kind, *([] if keeps else [CORPUS]))]
    more = getattr(KINDS[kind].functions, "originals", list)
    return [*known, *more()]


def in_child(kind: str, first: int, count: int, *, keeps: bool = False) -> list[str]:
    """The findings of a process that tries ``count`` changed inputs: seeds with their errors.

    ``keeps``: whether it starts from build/corpus too, and adds to it; otherwise a seed is always the same input.
    """
    command = [sys.executable, "-m", "tests.fuzz.grow", kind, str(first), str(count), *(["keep"] if keeps else [])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    seeds = [line for line in done.stdout.splitlines() if line.startswith("@")]
    rest = "\n".join(line for line in done.stdout.splitlines() if not line.startswith("@"))
    found = rest.split("FAIL ")[1:]
    if not seeds or not seeds[-1].startswith("@done"):
        found.append(f"ended by {done.returncode} at {seeds[-1:]}: {done.stderr[-3000:]}")
    return found


def error_of(kind: str, data: bytes) -> str:
    """What goes wrong with an input, also if it raises."""
    try:
        return replayed(kind, data)
    except Exception:
        return traceback.format_exc()


def shown(kind: str, data: bytes) -> str:
    """A shorter input that goes wrong in the same way, if the kind has a function for it."""
    try:
        shorten = getattr(KINDS[kind].functions, "shown", None)
        return "" if shorten is None else str(shorten(data))
    except Exception:
        return traceback.format_exc()


def main(kind: str, first: int, count: int, keeps: bool, folder: Path = FOUND) -> None:
    """Try the changed inputs of the seeds; print each seed before it, and the findings."""
    faulthandler.enable()
    branches = marking() if keeps else Branches()
    population = originals(kind, keeps)
    known = branches.reached(lambda: [error_of(kind, path.read_bytes()) for path in inputs(kind) if keeps])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    begin, before = time.monotonic(), len(population)
    for seed in range(first, first + count):
        print(f"@{seed}", flush=True)
        signal.alarm(SECONDS)
        data, found = KINDS[kind].functions.changed(population, seed), list[str]()
        ways = branches.reached(lambda data=data, found=found: found.append(error_of(kind, data)))  # type: ignore[misc]
        signal.alarm(0)
        if found[0]:
            print(f"FAIL {seed}\n{found[0]}\n{shown(kind, data)}", flush=True)
        elif ways - known and len(data) <= LARGEST:
            known |= ways
            population.append(data)
            keep(kind, data, folder)
    print(f"@done {count} inputs in {time.monotonic() - begin:.0f} s, {len(population) - before} kept", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), "keep" in sys.argv)
