"""A worker: cases by their numbers, each named on a line before it runs and followed by what went wrong in it."""

import faulthandler
import json
import os
import resource
import sys
import warnings
from functools import partial

from .differ import check, random_case


def graphs(seed, kind="graphs"):
    steps, ways = random_case(seed, kind=kind)
    yield from check(steps, ways)


def gradients(seed):
    """Random programs whose first and second derivatives are compared with PyTorch's."""
    from ..helpers.gradient_programs import differences, program

    for text in differences(program(seed)):
        yield None, text


CASES = {"gradients": gradients, "graphs": graphs, "host": partial(graphs, kind="host")}


def main(kind, first, count):
    warnings.simplefilter("ignore")
    for seed in range(first, first + count):
        print(f"@{seed}", flush=True)
        try:
            for variant, text in CASES[kind](seed):
                print("FAIL", json.dumps([seed, variant, text]), flush=True)
        except Exception as error:
            import traceback

            traceback.print_exc(limit=-5)
            print("FAIL", json.dumps([seed, None, f"{type(error).__name__}: {error}"]), flush=True)
    print("@done", flush=True)


MEMORY = 6 * 2**30  # a graph of small tensors never needs more


if __name__ == "__main__":
    faulthandler.enable()
    if "asan" not in os.environ.get("LD_PRELOAD", ""):  # its shadow memory is larger than any limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if sys.argv[1] == "one":
        steps, variant = json.load(sys.stdin)
        for finding in check(steps, [variant]):
            print("FAIL", json.dumps(finding))
        sys.exit()
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
