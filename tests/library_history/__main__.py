"""The history of the oneDNN library: which fixes come after the last one that was read, and what the tries give.

``python -m tests.library_history next REPOSITORY`` lists the commits of a clone of oneDNN that history.json lacks and
whose subject says that they fix something in the graph API or a CPU kernel. Read each, and add it with a verdict.
``python -m tests.library_history run`` runs the graphs of ``tries`` on every library, and prints a line for each try.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[2]
HISTORY = Path(__file__).with_name("history.json")
FIXES = re.compile(
    r"fix|wrong|incorrect|crash|segfault|overflow|correct|out.of.bound|leak|accuracy|nan|hang|race|revert|avoid|disable|bug",
    re.IGNORECASE,
)
FOLDERS = ("src/graph", "src/cpu", "src/common")


def later(repository):
    """The hash and subject of each fix that history.json lacks, the newest first."""
    known = json.loads(HISTORY.read_text())
    command = ["git", "-C", repository, "log", "--format=%h %s", f"{known['read_from']}..HEAD", "--", *FOLDERS]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    read = {entry["commit"] for entry in known["commits"]}
    return [line for line in lines if FIXES.search(line.partition(" ")[2]) and line.split()[0] not in read]


def is_close(got, wanted, coarse=False):
    """Whether a result is right but for rounding, of which ``coarse`` allows more; wrong kernels are off by more."""
    import numpy as np

    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    ours, theirs = got.astype(float), wanted.astype(float)
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
        return False
    largest = abs(theirs[finite]).max(initial=1)
    slack = 1.0 + coarse if got.dtype.kind in "iu" else (2e-2 if coarse else 1e-4) * largest
    return bool(np.all(abs(ours[finite] - theirs[finite]) <= slack))


def is_coarse(graph):
    """Whether a tensor of 16 bits, or of codes that an op reads, rounds what comes behind it."""
    tensors = [tensor for op in graph.ops for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    read = {tensor.id for op in graph.ops for tensor in op.inputs if tensor is not None}
    made = {tensor.id for op in graph.ops for tensor in op.outputs if op.kind == "Quantize"}
    return any(tensor.dtype.numpy.itemsize == 2 for tensor in tensors) or not read.isdisjoint(made)


def arrays(draw, graph):
    """Random arrays for the inputs.

    Half of a condition holds. Inputs named scale or divisor keep the scores of attention small, so that a SoftMax
    behind them is smooth. Of an input named infinite, some rows are not finite.
    """
    import numpy as np

    feeds, rng = draw(graph), np.random.default_rng(2)
    for name, feed in feeds.items():
        if feed.dtype.kind == "b":
            feeds[name] = rng.random(feed.shape) < 0.5
        if name == "divisor":
            feed[...] = 4
        if name == "scale":
            feed.flat = 0.125 * (2 + np.arange(feed.size) % 3)
        if name == "infinite":
            feed[1::3, 0], feed[2::5, -1] = np.nan, np.inf
    return feeds


def child(names):
    """Print what the loaded library, and onegraph with it, make of each graph."""
    sys.path.insert(0, str(ROOT / "tests"))
    from helpers import raw as bare
    from helpers import sides

    from onegraph import reference
    from onegraph.native import library

    from .tries import TRIES

    sides.CPU_SECONDS = 240  # of a process with all graphs of a try
    sides.arrays = partial(arrays, sides.arrays)

    def through_onegraph(build):
        graph, feeds = sides.built(build)
        coarse = is_coarse(graph)
        wanted = reference.run(graph, feeds)
        for policy in ("fusion", "debug"):
            got = graph.compile(policy=policy)(**feeds)
            for name, result in zip(graph.outputs, got if isinstance(got, tuple) else (got,), strict=True):
                assert is_close(result, wanted[name], coarse), f"{policy}: wrong"

    def raw(build):
        graph, feeds = sides.built(build)
        ops, constants = bare.ops_of(graph)
        fed = constants | {graph.inputs[name].id: feed for name, feed in feeds.items()}
        laid = {tensor.id: bare._lt_of(tensor) for tensor in graph.outputs.values()}
        results, wanted, coarse = bare.run(ops, fed, "fusion", laid), reference.run(graph, feeds), is_coarse(graph)
        return sides.verdict(
            all(is_close(results[tensor.id], wanted[name], coarse) for name, tensor in graph.outputs.items())
        )

    for name in names or TRIES:
        builds = TRIES[name]
        outcomes = each(sides.alone, sides.raw_side, bound(raw, builds))
        mistakes = each(sides.alone, sides.guarded_side, bound(through_onegraph, builds))
        version = ".".join(map(str, library.VERSION))
        counted = Counter(" ".join(found.split()[:4]) for found in outcomes)
        print(json.dumps([version, name, dict(counted), dict(Counter(filter(None, mistakes)))]), flush=True)


def each(alone, side, functions):
    """What a side says of each function: all in one process, or each in its own where that one dies."""
    together = alone(lambda sides: json.dumps([side(one)[:60] for one in sides]), functions)
    return json.loads(together) if together.startswith("[") else [alone(side, one) for one in functions]


def bound(function, builds):
    """The function with each of the graphs."""
    return [partial(function, build) for build in builds]


def run(versions):
    """Run the tries on these libraries; returns how many runs through onegraph went wrong."""
    from benchmarks.newer_libraries import LIBRARIES

    wrong = 0
    for version in versions or ["3.2.0", *LIBRARIES]:
        environment = {**os.environ, **({} if version == "3.2.0" else LIBRARIES[version]())}
        command = [sys.executable, "-m", "tests.library_history", "child"]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        print(done.stdout, end="", flush=True)
        wrong += sum(sum(json.loads(line)[3].values()) for line in done.stdout.splitlines()) + (done.returncode != 0)
    return wrong


def main():
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.library_history")
    parser.add_argument("what", choices=["next", "run", "child"])
    parser.add_argument("names", nargs="*", help="of next: the clone of oneDNN; of run: versions")
    options = parser.parse_args()
    if options.what == "next":
        print("\n".join(later(options.names[0])))
    elif options.what == "child":
        child(options.names)
    else:
        sys.exit(1 if run(options.names) else 0)


if __name__ == "__main__":
    main()
