"""A worker: cases by their numbers, each named on a line before it runs and followed by what went wrong in it."""

import faulthandler
import json
import os
import random
import resource
import sys
import traceback
import warnings
from functools import partial

import onegraph as og
from onegraph.faults.ops import OPS
from onegraph.testing.cases import CASES as ALL

from ..fuzz.differ import DRAWN, RECIPES, check, compare_graph, draw
from .memory import IS_LOADED

EVERY_CASE = [case for case in ALL if case.kind != "Wildcard"]


def graphs(seed, kind):
    """What goes wrong with the graph of a seed."""
    yield from check(*draw(random.Random(seed), kind))


def cases(seed):
    """The valid uses that tests have of every op, by number."""
    case = EVERY_CASE[seed - 1]
    g = og.Graph()
    ends = []
    for number, array in enumerate(case.inputs):
        dtype = "s64" if array.dtype.name == "int64" else array.dtype
        ends.append(g.input(f"x{number}", dtype, array.shape))
    g.op(case.kind, ends, case.attrs, dtype=case.dtype, outputs=case.outputs)
    for number, tensor in enumerate(g.ops[-1].outputs or ends[:1]):  # End has no output
        g.output(f"y{number}", tensor)
    arrays = {f"x{number}": array for number, array in enumerate(case.inputs)}
    for variant, text in compare_graph(g, arrays, [{"policy": "debug", "threads": None, "way": "out"}]):
        yield variant, f"{case}: {text}"


CASES = {"cases": cases} | {kind: partial(graphs, kind=kind) for kind in RECIPES}


def switch_off(names):
    """Forget the faults of single ops with these names, to see whether the run finds them again."""
    OPS.records[:] = [fault for fault in OPS.records if fault.name not in names]


def main(kind, first, count):
    warnings.simplefilter("ignore")
    for seed in range(first, min(first + count, len(EVERY_CASE) + 1) if kind == "cases" else first + count):
        print(f"@{seed}", flush=True)
        try:
            for variant, text in CASES[kind](seed):
                print("FAIL", json.dumps([seed, variant, text]), flush=True)
        except Exception as error:
            traceback.print_exc(limit=-5)
            print("FAIL", json.dumps([seed, None, f"{type(error).__name__}: {error}"]), flush=True)
    print("@done", flush=True)


MEMORY = 6 * 2**30  # a graph of small tensors never needs more


if __name__ == "__main__":
    if not IS_LOADED:  # which names the block
        faulthandler.enable()
    switch_off(os.environ.get("GUARD_WITHOUT", "").split())
    if not os.environ.get("LD_PRELOAD"):  # the shadow of a sanitizer, or the arena of guard.c, is larger than any limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if sys.argv[1] == "one":
        sys.exit(bool(DRAWN[sys.argv[2]].replay(sys.stdin.buffer.read())))
    for named in sys.argv[1].split(","):
        if named != sys.argv[1]:
            print(f"{named}:")
        main(named, int(sys.argv[2]), int(sys.argv[3]))
