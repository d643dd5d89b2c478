"""``python -m tests.torch_backend.run_programs``: random programs of PyTorch, compiled here, against eager mode.

Each finding is printed with its seed and a short script. The exit status is 1 if there is a finding. Programs run in a
process of their own, so a signal or a hang is a finding too.
"""

from __future__ import annotations

import argparse
import logging
import random
import selectors
import subprocess
import sys
import time
import warnings

PROGRAM_SECONDS = 300  # a program takes a tenth of a second; on a busy machine much longer


def examine(first: int, count: int) -> None:
    """Run programs, and print ``@seed`` before each, ``made`` once eager mode ran it, and ``FAIL seed text``."""
    from .program_generator import random_program
    from .program_runs import quick_difference

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    for seed in range(first, first + count):
        print(f"@{seed}", flush=True)
        program = random_program(seed)
        print("made", flush=True)
        text = "invalid" if program is None else quick_difference(program)
        if text and text != "invalid":
            print(f"FAIL {seed} {' '.join(text.split())[:500]}", flush=True)


def findings(first: int, count: int, end: float):
    """(seed, text) of each wrong program among ``count``, until the time ``end``; not where eager mode itself dies."""
    seed, last = first, first + count
    while seed < last and time.monotonic() < end:
        command = [sys.executable, "-m", "tests.torch_backend.run_programs", "--child", str(seed), str(last - seed)]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        hangs = made = False
        with selectors.DefaultSelector() as selector:
            selector.register(worker.stdout, selectors.EVENT_READ)
            while time.monotonic() < end:
                hangs = not selector.select(min(PROGRAM_SECONDS, max(end - time.monotonic(), 0)))
                line = "" if hangs else worker.stdout.readline()
                if line.startswith("@"):
                    seed, made = int(line[1:]), False
                elif line.startswith("made"):
                    made = True
                elif line.startswith("FAIL"):
                    yield seed, line.split(" ", 2)[2].strip()
                else:
                    break
        is_late = time.monotonic() >= end
        if hangs or is_late:
            worker.kill()
        code = worker.wait()
        if not is_late and code and not (hangs or made):
            print(f"seed {seed}: eager mode ended by {code}", flush=True)
        elif not is_late and (hangs or code):
            yield seed, f"no answer within {PROGRAM_SECONDS} s" if hangs else f"ended by {code}"
        seed += 1
    print(f"programs of PyTorch: seeds {first} to {seed - 1}", flush=True)


def show(seed: int) -> None:
    """Print the shortest script for a wrong program."""
    from .program_generator import random_program
    from .program_runs import shortened

    program = random_program(seed)
    if program is not None:
        print(shortened(program).script(), flush=True)


def run(first: int, count: int, seconds: float) -> int:
    """Print what is wrong among programs; returns the number of findings."""
    failed = 0
    for seed, text in findings(first, count, time.monotonic() + seconds):
        failed += 1
        print(f"\nprogram of PyTorch, seed {seed}: {text}", flush=True)
        command = [sys.executable, "-m", "tests.torch_backend.run_programs", "--show", str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10 * PROGRAM_SECONDS, check=False)
        print(done.stdout, flush=True)
    return failed


def main() -> None:
    """Parse the command line, and exit with 1 where there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--child", nargs=2, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--show", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        examine(*options.child)
    elif options.show is not None:
        show(options.show)
    else:
        sys.exit(1 if run(options.seed, options.count, options.minutes * 60) else 0)


if __name__ == "__main__":
    main()
