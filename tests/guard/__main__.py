"""``make guard``: every op on memory between pages that nobody may touch, for each library, CPU and side of the blocks.

A worker names each case before it runs the case, so a read or write beside a block has a case too. A finding is printed
with the shortest script for it.
"""

import argparse
import os
import sys

from benchmarks.newer_libraries import LIBRARIES

from ..fuzz.__main__ import graphs, show
from .memory import compiled

KINDS = {
    "cases": 100_000,
    "training": None,
    "blocks": None,
    "quantized": None,
    "graphs": None,
}  # the number of cases; None for the one that is asked for
INSTRUCTIONS = ("", "AVX512_CORE", "AVX2", "SSE41")
SECONDS = 10**6


def environments(versions):
    """The environment of each library, by version; that of the package by ``3.2.0``."""
    return {version: {} if version == "3.2.0" else LIBRARIES[version]() for version in versions}


def run(environment, kind, first, count):
    """Print the findings of one kind of cases; returns how many there are."""
    os.environ.update(environment)
    found = 0
    try:
        for finding in graphs(kind, first, SECONDS, count):
            found += 1
            show(kind, finding)
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
