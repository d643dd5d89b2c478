"""Changes inputs of a kind at random and tries them: ``python -m tests.fuzz.grow KIND --seed 1 --count 1000``.

An input that reaches new branches is kept in build/corpus, and is changed in its turn. A process has 8 GB of memory and
a time limit for each input, so that an input that asks for more is a finding too. A finding is a file in
build/findings: ``python -m tests.fuzz.grow KIND FILE`` shows it again.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from .corpus import CORPUS, FOUND, LARGEST, ROOT, Branches, inputs, keep, marking, replayed
from .kinds import KINDS
from .shorten import shorten, sort_of

FINDINGS = ROOT / "build" / "findings"
MEMORY = 8 << 30
WORKER = ("-m", "tests.fuzz.grow")
SECONDS = 300  # an input takes milliseconds; the import of PyTorch takes seconds, more on a busy machine
CHILDREN = 120  # seconds in which an input that ends its process is shortened


def originals(kind: str, keeps: bool) -> list[bytes]:
    """What the changes begin with."""
    known = [path.read_bytes() for path in inputs(kind, *([] if keeps else [CORPUS]))]
    more = getattr(KINDS[kind].functions, "originals", list)
    return [*known, *more()]


def changed(kind: str, population: list[bytes], seed: int) -> bytes:
    """The changed input of a seed."""
    data: bytes = KINDS[kind].functions.changed(population, random.Random(seed))
    return data


def optional(kind: str, name: str) -> Callable[[bytes], Any]:
    """A function that a kind may have; one that gives its argument, or nothing, in its place."""
    usual = {"kept": lambda data: data, "smaller": lambda data: (), "shown": lambda data: ""}[name]
    found: Callable[[bytes], Any] = getattr(KINDS[kind].functions, name, usual)
    return found


def error_of(kind: str, data: bytes) -> str:
    """What goes wrong with an input, also if it raises."""
    try:
        return replayed(kind, data)
    except Exception:
        return traceback.format_exc()


def shown(kind: str, data: bytes) -> str:
    """A shorter input that goes wrong in the same way, as a person reads it, and its file."""
    sort = sort_of(error_of(kind, data))
    try:
        data = optional(kind, "kept")(data)
        data = shorten(data, optional(kind, "smaller"), lambda other: sort_of(error_of(kind, other)) == sort)
        text = optional(kind, "shown")(data)
    except Exception:
        text = traceback.format_exc()
    return f"{text}\n{told(kind, data)}"


def told(kind: str, data: bytes) -> str:
    """Where the input of a finding is, and the command that shows it again."""
    return f"python -m tests.fuzz.grow {kind} {os.path.relpath(keep(kind, data, FINDINGS), ROOT)}"


class Report(NamedTuple):
    """What a process that tries inputs says.

    Attributes:
        findings: the texts of the findings, each with its seed, or its name in the corpus, first.
        tried: how many inputs it tried.
        kept: how many reached new branches.
    """

    findings: list[str]
    tried: int
    kept: int


def in_child(kind: str, first: int, count: int, *, keeps: bool = False, seconds: float = 1e6) -> Report:
    """The findings of a process that tries ``count`` changed inputs, as far as it gets in some seconds.

    ``keeps``: whether it starts from build/corpus too, and adds to it; otherwise a seed is always the same input.
    """
    command = [sys.executable, *WORKER, kind, "--seed", str(first), "--count", str(count)]
    command += ["--seconds", str(seconds), *(["--keep"] if keeps else [])]
    worker = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    said, errors = worker.communicate()
    seeds = [line for line in said.splitlines() if line.startswith("@")]
    found = "\n".join(line for line in said.splitlines() if not line.startswith("@")).split("FAIL ")[1:]
    kept = sum(line == "@kept" for line in seeds)
    tried = [int(line[1:]) for line in seeds if line[1:].isdigit()]
    running = _running(kind, worker.pid)
    if not seeds or seeds[-1] != "@done":
        data, name = running.read_bytes() if running.exists() else None, f"seed {tried[-1]}" if tried else "the corpus"
        if data is not None and _ends(kind, data, "--draw"):
            text = f"{kind}, {name}: the drawing of the program ends the process, {told(kind, data)}"
            print(text, flush=True)
        else:
            text = "" if data is None else _fatal(kind, data)
            found.append(f"{name} ended by {worker.returncode}: {errors[-3000:]}\n{text}")
    running.unlink(missing_ok=True)
    return Report(found, len(tried), kept)


def _running(kind: str, process: int) -> Path:
    """The file with the input that a process tries."""
    return FINDINGS / kind / f"running.{process}"


def _ends(kind: str, data: bytes, *options: str) -> bool:
    """Whether an input ends its process, or takes too long."""
    path = _running(kind, os.getpid())
    path.write_bytes(data)
    command = [sys.executable, *WORKER, kind, str(path), *options]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=SECONDS).returncode not in (0, 1)
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.unlink()


def _fatal(kind: str, data: bytes) -> str:
    """The file of a shorter input that ends its process too."""
    try:
        data = shorten(data, optional(kind, "smaller"), lambda other: _ends(kind, other), CHILDREN)
    except Exception:  # the program of an input need not come to an end
        return f"{traceback.format_exc()}\n{told(kind, data)}"
    return told(kind, data)


def grow(kind: str, first: int, count: int, seconds: float, keeps: bool, folder: Path = FOUND) -> None:
    """Try the inputs of the corpus, and then the changed inputs of the seeds; print each seed, and the findings."""
    begin, sorts = time.monotonic(), set[str]()
    branches = marking() if keeps else Branches()
    population, known = originals(kind, keeps), set[tuple[str, int]]()
    running = _running(kind, os.getpid())
    running.parent.mkdir(parents=True, exist_ok=True)

    def reached(name: str, data: bytes) -> set[tuple[str, int]]:
        """The new branches that an input reaches, if nothing goes wrong with it."""
        running.write_bytes(data)
        signal.alarm(SECONDS)
        found = list[str]()
        ways = branches.reached(lambda: found.append(error_of(kind, data)))
        if (text := found[0]) and (sort := sort_of(text)) not in sorts:  # each sort once
            sorts.add(sort)
            print(f"FAIL {name}: {text}\n{shown(kind, data)}", flush=True)
        signal.alarm(0)
        return set() if text else ways - known

    for path in inputs(kind) if keeps else ():
        if time.monotonic() < begin + seconds / 2:  # what is not tried counts as new
            known |= reached(f"input {path.name}", path.read_bytes())
    for seed in range(first, first + count):
        if time.monotonic() > begin + seconds and seed > first:
            break
        print(f"@{seed}", flush=True)
        data = changed(kind, population, seed)
        if (ways := reached(f"seed {seed}", data)) and len(data := optional(kind, "kept")(data)) <= LARGEST:
            known |= ways
            population.append(data)
            keep(kind, data, folder)
            print("@kept", flush=True)
    running.unlink()
    print("@done", flush=True)


def main() -> None:
    """Try changed inputs, or show what goes wrong with those of files; then the exit status is 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.grow")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1e6)
    parser.add_argument("--keep", action="store_true", help="start from build/corpus too, and add to it")
    parser.add_argument("--draw", action="store_true", help="only draw the programs of the files")
    options = parser.parse_args()
    faulthandler.enable()
    if not os.environ.get("LD_PRELOAD"):  # the shadow of a sanitizer is larger than any limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if not options.files:
        grow(options.kind, options.seed, options.count, options.seconds, options.keep)
        return
    if options.draw:
        for path in options.files:
            getattr(KINDS[options.kind].functions, "program", bytes)(path.read_bytes())
        return
    texts = [(path, error_of(options.kind, path.read_bytes())) for path in options.files]
    for path, text in texts:
        print(f"{path}: {text or 'nothing is wrong'}\n{optional(options.kind, 'shown')(path.read_bytes())}", flush=True)
    sys.exit(any(text for _, text in texts))


if __name__ == "__main__":
    main()
