"""``make fuzz MINUTES=n``: changed inputs of every kind of the corpus, each kind in processes of its own.

A finding is printed with its input, made short, and with a command that shows it again. A worker writes each input to a
file before it tries it, so a signal or a hang has an input too; a new worker then continues.
"""

import argparse
import importlib.util
import random
import subprocess
import sys
import tempfile
import time

from .corpus import CORPUS, FOUND, inputs
from .grow import FINDINGS, in_child
from .kinds import KINDS

GUIDED = ("files", "attributes")  # kinds of which atheris tries thousands a second
LEAST = 20  # seconds of atheris, which takes ten to mark the package
WORKER = 50_000  # inputs of a process; its memory may grow


def fuzzed(kind, seed, seconds, count):
    """Try inputs of a kind for some seconds, and print what was found; returns the number of findings."""
    end, first, last, kept, found = time.monotonic() + seconds, seed, seed + count, 0, 0
    while (rest := end - time.monotonic()) > 0 and seed < last:
        report = in_child(kind, seed, min(WORKER, last - seed), keeps=True, seconds=rest)
        for text in report.findings:
            print(f"\n{kind}, {text}", flush=True)
        seed, kept, found = seed + report.tried, kept + report.kept, found + len(report.findings)
        if not report.tried:  # the worker does not get as far as its first input
            break
    told = f"{seed - first} inputs (seeds {first} to {seed - 1}) from {len(inputs(kind)) - kept}, {kept} kept"
    print(f"{kind:11} {told}, {found} findings, {seconds:.0f} s", flush=True)
    return found


def guided(kind, seed, seconds, count):
    """atheris on a kind, where it is installed; its own output tells what it found.

    It starts from the corpus, and adds each input that reaches new branches to build/corpus.
    """
    if seconds < LEAST:
        print(f"{kind:11} no time for atheris, {seconds:.0f} s")
        return 0
    folder = FOUND / kind
    folder.mkdir(parents=True, exist_ok=True)
    before = len([*folder.iterdir()])
    FINDINGS.joinpath(kind).mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={int(seconds) + 1}",
        f"-seed={seed % 2**31}",
        f"-runs={count}",
        "-timeout=60",
        "-verbosity=0",
    ]
    options.append(f"-artifact_prefix={FINDINGS / kind}/")
    folders = [one for one in (folder, CORPUS / kind) if one.exists()]
    command = [sys.executable, "-m", "tests.fuzz.coverage_guided", kind, *options, *folders]
    with tempfile.TemporaryFile() as errors:
        done = subprocess.run(command, stdout=errors, stderr=errors, check=False)
        errors.seek(0)
        said = "no finding" if done.returncode == 0 else errors.read().decode(errors="replace")[-4000:]
    kept = len([*folder.iterdir()]) - before
    print(f"{kind:11} atheris, seed {seed}: {kept} kept, {said}, {seconds:.0f} s", flush=True)
    return int(done.returncode != 0)


def main():
    """Parse the command line, run everything, and exit with 1 where there is a finding."""
    told = "\n".join(f"  {name:11} {kind.tries}" for name, kind in KINDS.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", epilog=f"kinds:\n{told}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", default=[*KINDS], metavar="KIND", help="all without one")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--count", type=int, default=10**9, help="inputs of each kind")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    for kind in [kind for kind in options.kinds if not KINDS[kind].is_there]:
        print(f"{kind:11} {KINDS[kind].needs} is not installed")
    works = [(fuzzed, kind) for kind in options.kinds if KINDS[kind].is_there]
    if importlib.util.find_spec("atheris") is not None:
        works += [(guided, kind) for kind in options.kinds if kind in GUIDED]
    found, end = 0, time.monotonic() + options.minutes * 60
    for place, (work, kind) in enumerate(works):
        found += work(kind, options.seed, max(1.0, (end - time.monotonic()) / (len(works) - place)), options.count)
    print(f"{found} findings")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
