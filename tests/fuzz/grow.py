"""Changes inputs of a kind at random and tries them: ``python -m tests.fuzz.grow KIND SEED COUNT``.

An input that reaches new branches is kept in build/corpus, and is changed in its turn. A process has 8 GB of memory and
a time limit for each input, so that an input that asks for more is a finding too.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

from .corpus import CORPUS, FOUND, LARGEST, ROOT, Branches, inputs, keep, marking, replayed

MEMORY = 8 << 30
SECONDS = 60  # an input takes milliseconds
VALUES = (None, True, -1, 0, 1, 2**31, 2**63, 1e308, "", "f32", "NXC", "auto", [], [None], {}, [2, 3])


def originals(kind: str, keeps: bool) -> list[bytes]:
    """What the changes begin with."""
    known = [path.read_bytes() for path in inputs(kind, *([] if keeps else [CORPUS]))]
    if kind == "onnx":
        from .onnx_models import models

        return [*known, *models()]
    return known


def changed(kind: str, population: list[bytes], seed: int) -> bytes:
    """A changed input; a graph is drawn anew, as most changes of one are refused."""
    rng = random.Random(seed)
    if kind == "onnx":
        from .onnx_models import mutant

        return mutant(population, seed)
    if kind == "graphs":
        from .differ import RECIPES, random_case

        steps, _ = random_case(seed, most=8, kind=rng.choice([*RECIPES]))
        return json.dumps(steps).encode()
    data = rng.choice(population)
    with contextlib.suppress(ValueError, RecursionError):
        if rng.random() < 0.8:
            return json.dumps(_changed_value(json.loads(data), rng, json.loads(rng.choice(population)))).encode()
    from .onnx_models import changed_bytes

    return changed_bytes(data, rng)


def _changed_value(value: object, rng: random.Random, other: object) -> object:
    """A value of JSON with one change; parts of another one come in."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice([*value])
        if rng.random() < 0.1:
            return {key: part for key, part in value.items() if key != name}
        inner = other.get(name, other) if isinstance(other, dict) else other
        return value | {name: _changed_value(value[name], rng, inner)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        inner = rng.choice(other) if isinstance(other, list) and other else other
        parts = [*value]
        parts[place : place + rng.choice((0, 1, 1, 1, 1))] = rng.choice(
            ([], [_changed_value(value[place], rng, inner)], [_changed_value(value[place], rng, inner)])
        )
        return parts
    if isinstance(value, int) and rng.random() < 0.3:
        return value + rng.choice((-1, 1))
    return other if rng.random() < 0.3 else rng.choice(VALUES)


def in_child(kind: str, first: int, count: int, *, keeps: bool = False) -> list[str]:
    """The findings of a process that tries ``count`` changed inputs: seeds with their errors.

    ``keeps``: whether it starts from build/corpus too, and adds to it; otherwise a seed is always the same input.
    """
    command = [sys.executable, "-m", "tests.fuzz.grow", kind, str(first), str(count), *(["keep"] if keeps else [])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    seeds = [line for line in done.stdout.splitlines() if line.startswith("@")]
    found = done.stdout.split("FAIL ")[1:]
    if not seeds or not seeds[-1].startswith("@done"):
        found.append(f"ended by {done.returncode} at {seeds[-1:]}: {done.stderr[-3000:]}")
    return found


def error_of(kind: str, data: bytes) -> str:
    """What goes wrong with an input, also if it raises."""
    try:
        return replayed(kind, data)
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
        data, found = changed(kind, population, seed), list[str]()
        ways = branches.reached(lambda data=data, found=found: found.append(error_of(kind, data)))  # type: ignore[misc]
        signal.alarm(0)
        if found[0]:
            print(f"FAIL {seed}\n{found[0]}", flush=True)
        elif ways - known and len(data) <= LARGEST:
            known |= ways
            population.append(data)
            keep(kind, data, folder)
    print(f"@done {count} inputs in {time.monotonic() - begin:.0f} s, {len(population) - before} kept", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), "keep" in sys.argv)
