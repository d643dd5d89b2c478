"""``make fuzz MINUTES=n``: random graphs, gradients, ops with any attributes, ONNX nodes, coverage-guided files,
programs of PyTorch, and changed and drawn inputs of each kind of the corpus, in processes.

A finding is printed with its seed and a short script that reproduces it. A worker names each case before it runs the
case, so a signal or a hang has a name too; a new worker then continues.
"""

import argparse
import importlib.util
import json
import os
import random
import selectors
import subprocess
import sys
import tempfile
import time

from .corpus import CORPUS, FOUND
from .differ import random_case
from .grow import in_child
from .kinds import KINDS
from .recipe import reproducer
from .shorten import fails_in_child, fails_in_process, shorten

CASE_SECONDS = 120  # a case takes milliseconds; on a busy machine much longer


def graphs(kind, first, seconds, count=10**9):
    """(seed, variant or None, text) of findings in ``count`` random graphs of a kind from the seed ``first`` on."""
    end, seed, last = time.monotonic() + seconds, first, first + count
    while time.monotonic() < end and seed < last:
        errors = tempfile.TemporaryFile()  # noqa: SIM115
        command = [sys.executable, "-m", "tests.fuzz.child", kind, str(seed), str(min(100000, last - seed))]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        try:
            for line in _lines(worker, end):
                if line.startswith("@"):
                    seed = int(line[1:]) if line[1:].isdigit() else seed
                elif line.startswith("FAIL"):
                    yield tuple(json.loads(line[5:]))
        except TimeoutError:
            yield seed, None, f"no answer within {CASE_SECONDS} s"
        finally:
            worker.kill()
            code = worker.wait()
            errors.seek(0)
            said = next((line for line in errors.read().decode().splitlines() if line.startswith("guard:")), "")
            errors.close()
        if time.monotonic() < end and code not in (0, -9):
            yield seed, None, f"ended by {code} {said}".rstrip()
        seed += 1
    print(f"{kind}: seeds {first} to {seed - 1}", flush=True)


def _lines(worker, end):
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(worker.stdout, selectors.EVENT_READ)
        waiting = time.monotonic()
        while time.monotonic() < end:
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


def show(kind, finding):
    """Print a finding and the shortest script for it."""
    seed, variant, text = finding
    print(f"\n{kind}, seed {seed}: {text}", flush=True)
    if kind == "gradients":
        from ..helpers.gradient_programs import program

        print(program(seed), flush=True)
        return
    try:
        steps, ways = random_case(seed, kind=kind)
        dies = variant is None
        for way in ways if dies else [variant]:
            fails = fails_in_child(way) if dies else fails_in_process(way)
            if fails(steps):
                print(f"# {way}")
                print(reproducer(shorten(steps, fails, 60 if dies else 400), way), flush=True)
                return
    except Exception as error:
        print(f"(not reproduced: {type(error).__name__}: {error})")


def attributes(seed, seconds):
    """hypothesis over ops, for a time."""
    from hypothesis import HealthCheck, given, settings
    from hypothesis import seed as seeded

    from .attributes import examine, uses

    end, failed, first = time.monotonic() + seconds, 0, seed
    while time.monotonic() < end:
        test = settings(max_examples=500, deadline=None, database=None, suppress_health_check=list(HealthCheck))(
            given(uses())(examine)
        )
        try:
            seeded(seed)(test)()
        except Exception as error:
            failed += 1
            print(f"\nattributes, seed {seed}: {type(error).__name__}: {error}")
            print("\n".join(getattr(error, "__notes__", ())), flush=True)
        seed += 1
    print(f"attributes: seeds {first} to {seed - 1}, 500 uses each", flush=True)
    return failed


def guided(seed, seconds, found=FOUND):
    """atheris, where it is installed; its own output tells what it found.

    It starts from the corpus, and adds each input that reaches new branches to the folder ``found``.
    """
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: no coverage-guided fuzzing")
        return 0
    corpus = found / "files"
    corpus.mkdir(parents=True, exist_ok=True)
    before = len([*corpus.iterdir()])
    with tempfile.TemporaryDirectory() as artifacts:
        options = [f"-max_total_time={int(seconds)}", f"-seed={seed % 2**31}", "-timeout=60", "-verbosity=0"]
        command = [
            sys.executable,
            "-m",
            "tests.fuzz.coverage_guided",
            *options,
            f"-artifact_prefix={artifacts}/",
            str(corpus),
            str(CORPUS / "files"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        said = "nothing" if done.returncode == 0 else done.stderr[-2000:] + done.stdout[-2000:]
    print(f"atheris, seed {seed}, from {before} inputs to {len([*corpus.iterdir()])}: {said}", flush=True)
    return int(done.returncode != 0)


def grown(kind, seed, seconds, some=1000):
    """Changed inputs of the corpus, if the package that they need is installed."""
    if not KINDS[kind].is_there:
        print(f"{KINDS[kind].needs} is not installed: no inputs of the kind {kind}")
        return 0
    end, failed, first = time.monotonic() + seconds, 0, seed
    while time.monotonic() < end:
        for finding in in_child(kind, seed, some, keeps=True):
            failed += 1
            print(f"\n{kind}, seed {finding}", flush=True)
        seed += some
    print(f"{kind}: seeds {first} to {seed - 1}", flush=True)
    return failed


def open_dims(seed, seconds):
    """Random ONNX nodes of known dims, open dims and unknown rank, if the package onnx is installed."""
    if importlib.util.find_spec("onnx") is None:
        return 0
    from .onnx_open_dims import in_child

    end, failed, first = time.monotonic() + seconds, 0, seed
    while time.monotonic() < end:
        for finding in in_child(seed, 200):
            failed += 1
            print(f"\nONNX node, seed {finding}", flush=True)
        seed += 200
    print(f"ONNX nodes: seeds {first} to {seed - 1}", flush=True)
    return failed


def torch(seed, seconds):
    """Random programs of PyTorch, if it is installed."""
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed: no programs")
        return 0
    from tests.torch_backend.run_programs import run

    return run(seed, 10**9, seconds)


def main():
    """Parse the command line, run everything, and exit with 1 where there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    seconds = options.minutes * 60
    found, failed = {}, 0
    kinds = {"graphs": 0.1, "blocks": 0.05, "quantized": 0.05, "host": 0.15} | (
        {} if importlib.util.find_spec("torch") is None else {"gradients": 0.1}
    )
    for kind, share in kinds.items():
        for seed, variant, text in graphs(kind, options.seed, seconds * share):
            if (kind, seed) not in found:
                found[kind, seed] = (seed, variant, text)
                show(kind, found[kind, seed])
    failed += attributes(options.seed, seconds * 0.1)
    failed += guided(options.seed, seconds * 0.05)
    for kind in KINDS:
        failed += grown(kind, options.seed, seconds * 0.05)
    failed += open_dims(options.seed, seconds * 0.1)
    failed += torch(options.seed, seconds * 0.1)
    print(f"{len(found)} findings in graphs, {failed} elsewhere")
    sys.exit(1 if found or failed else 0)


if __name__ == "__main__":
    main()
