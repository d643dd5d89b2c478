"""``make guard``: every op on memory between pages that nobody may touch, for each library, CPU and side of the blocks.

A worker names each case before it runs the case, so a read or write beside a block has a case too. A finding is printed
with the shortest script for it.
"""

import argparse
import json
import os
import random
import selectors
import subprocess
import sys
import tempfile
import time

from benchmarks.newer_libraries import LIBRARIES

from ..fuzz.differ import DRAWN, draw
from ..fuzz.shorten import shorten
from .memory import compiled

KINDS = {
    "cases": 100_000,
    "training": None,
    "blocks": None,
    "quantized": None,
    "graphs": None,
}  # the number of cases; None for the one that is asked for
INSTRUCTIONS = ("", "AVX512_CORE", "AVX2", "SSE41")
CASE_SECONDS = 120  # a case takes milliseconds; on a busy machine much longer


def environments(versions):
    """The environment of each library, by version; that of the package by ``3.2.0``."""
    return {version: {} if version == "3.2.0" else LIBRARIES[version]() for version in versions}


def cases(kind, first, count):
    """(seed, text) of findings in ``count`` cases of a kind from the seed ``first`` on."""
    seed, last = first, first + count
    while seed < last:
        errors = tempfile.TemporaryFile()  # noqa: SIM115
        command = [sys.executable, "-m", "tests.guard.worker", kind, str(seed), str(min(100000, last - seed))]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        try:
            for line in _lines(worker):
                if line.startswith("@"):
                    seed = int(line[1:]) if line[1:].isdigit() else seed
                elif line.startswith("FAIL"):
                    number, variant, text = json.loads(line[5:])
                    yield number, f"{text}, {variant}"
        except TimeoutError:
            yield seed, f"no answer within {CASE_SECONDS} s"
        finally:
            worker.kill()
            code = worker.wait()
            errors.seek(0)
            said = next((line for line in errors.read().decode().splitlines() if line.startswith("guard:")), "")
            errors.close()
        if code not in (0, -9):
            yield seed, f"ended by {code} {said}".rstrip()
        seed += 1
    print(f"{kind}: seeds {first} to {seed - 1}", flush=True)


def _lines(worker):
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(worker.stdout, selectors.EVENT_READ)
        waiting = time.monotonic()
        while True:
            if not selector.select(1):
                if time.monotonic() - waiting > CASE_SECONDS:
                    raise TimeoutError
                continue
            waiting = time.monotonic()
            chunk = os.read(worker.stdout.fileno(), 65536)
            if not chunk:
                return
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line.decode() for line in whole)


def show(kind, seed, text):
    """Print a finding and the shortest script for it."""
    print(f"\n{kind}, seed {seed}: {text}", flush=True)
    if kind not in DRAWN:
        return

    def still_fails(data):
        command = [sys.executable, "-m", "tests.guard.worker", "one", kind]
        try:
            return subprocess.run(command, input=data, capture_output=True, timeout=CASE_SECONDS).returncode != 0
        except subprocess.TimeoutExpired:
            return True

    try:
        data = json.dumps(DRAWN[kind].told(draw(random.Random(seed), kind))).encode()
        print(DRAWN[kind].shown(shorten(data, DRAWN[kind].smaller, still_fails)), flush=True)
    except Exception as error:
        print(f"(not reproduced: {type(error).__name__}: {error})")


def run(environment, kind, first, count):
    """Print the findings of one kind of cases; returns how many there are."""
    os.environ.update(environment)
    found = 0
    try:
        for seed, text in cases(kind, first, count):
            found += 1
            show(kind, seed, text)
    finally:
        for name in environment:
            del os.environ[name]
    return found


def main():
    """Parse the command line, run everything, and exit with 1 where there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.guard")
    parser.add_argument("--cases", type=int, default=5000, help="random cases of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--libraries", nargs="*", default=["3.2.0", *LIBRARIES])
    parser.add_argument("--isa", nargs="*", default=INSTRUCTIONS, help="ONEDNN_MAX_CPU_ISA; empty for all of the CPU")
    parser.add_argument("--sides", nargs="*", default=["end", "begin"])
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--without", default="", help="names of recorded faults that are to be forgotten")
    options = parser.parse_args()
    guard = {"LD_PRELOAD": str(compiled()), "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
    found = 0
    for version, library in environments(options.libraries).items():
        for isa in options.isa:
            for side in options.sides:
                chosen = {**guard, **library, "GUARD_SIDE": side, "GUARD_WITHOUT": options.without}
                for kind in options.kinds:
                    print(f"oneDNN {version}, {isa or 'every instruction'}, {side}:", end=" ", flush=True)
                    chosen |= {"ONEDNN_MAX_CPU_ISA": isa} if isa else {}
                    found += run(chosen, kind, options.seed, KINDS[kind] or options.cases)
    print(f"{found} findings")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
