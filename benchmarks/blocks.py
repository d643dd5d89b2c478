"""Random blocks of networks: what fusion, or the library itself, makes more than 1.5 times as slow.

Each block is compiled with the policy ``fusion`` and compared with its ops one by one (policy ``debug``), and with
numpy where that is cheap. ``python -m benchmarks.blocks --count 1000 --seed 7 matmul`` prints every block that is
slower than one of these.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np

import onegraph as og
from onegraph import reference

from .kernels import notes
from .models.network import sizes
from .random_blocks import FAMILIES, block
from .timing import QUICK, Effort, Row, Timing, alternate, calls

LIMIT = 1.5  # times another contender; a block beyond is a find
LEAST = 50e-6  # seconds by which a find is slower
# Families whose blocks numpy computes in about the time of plain loops over memory.
CHEAP_IN_NUMPY = ("matmul", "attention", "normalization", "elementwise", "reduction", "movement")
ONE_BY_ONE, FUSED, NUMPY = "one by one", "fused", "numpy, in f64"
POLICIES = {ONE_BY_ONE: "debug", FUSED: "fusion"}
SURE = Effort(rounds=5, turn=0.01)


class Block:
    """A random block, compiled with both policies, and the seconds of one run of each contender."""

    def __init__(self, family: str, number: int, seed: int) -> None:
        self.name, self.graph = f"{family} {number}", block(family, number, seed)
        self.given = arrays(self.graph)
        self.models = {name: self.graph.compile(policy=policy) for name, policy in POLICIES.items()}
        self.runs = {name: model.bind(**self.given).run for name, model in self.models.items()}
        self.seconds = {name: quickest(run) for name, run in self.runs.items()}
        if family in CHEAP_IN_NUMPY and self.seconds[FUSED] > LEAST:
            self.seconds[NUMPY] = quickest(lambda: reference.run(self.graph, self.given), 1)

    def time_again(self, effort: Effort = SURE) -> Timing:
        """Time both policies in turns."""
        timing = alternate({name: calls(run) for name, run in self.runs.items()}, effort)
        self.seconds.update(timing.seconds)
        return timing

    @property
    def ratio(self) -> float:
        """How many times as long as the fastest other contender the fused block takes."""
        return self.seconds[FUSED] / min(seconds for name, seconds in self.seconds.items() if name != FUSED)

    @property
    def is_find(self) -> bool:
        return self.ratio > LIMIT and self.seconds[FUSED] - min(self.seconds.values()) > LEAST


def arrays(graph: og.Graph) -> dict[str, np.ndarray]:
    """Positive numbers around 1 for every input, small integers for int8."""
    rng, found = np.random.default_rng(0), {}
    for name, tensor in graph.inputs.items():
        shape, kind = sizes(tensor), tensor.dtype.numpy
        found[name] = (rng.integers(0, 100, shape) if kind.kind in "iu" else rng.random(shape) + 0.5).astype(kind)
    return found


def quickest(run: Callable[[], object], rounds: int = 3) -> float:
    """The shortest time of a few runs, of one if it is long."""
    run()
    taken = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begin)
        if taken[-1] > 0.05:
            break
    return min(taken)


def finds(family: str, numbers: range, seed: int) -> Iterator[Block]:
    """The blocks that are slow in a brief measurement and in a longer one."""
    for number in numbers:
        found = Block(family, number, seed)
        if found.is_find:
            found.time_again()
            if found.is_find:
                yield found


def text(graph: og.Graph) -> str:
    """The ops of a block with the types of their inputs."""
    return " + ".join(
        f"{op.kind}({', '.join(f'{tensor.dtype}{list(sizes(tensor))}' for tensor in op.inputs if tensor is not None)})"
        for op in graph.ops
    )


def rows(quick: bool = False, seed: int = 0) -> Iterator[Row]:
    """One row for each family: how many finds there are among its blocks, and the times of the worst block."""
    count = 1 if quick else 200
    for family in FAMILIES:
        found = [] if quick else [*finds(family, range(count), seed)]
        worst = max(found, key=lambda one: one.ratio) if found else Block(family, 0, seed)
        timing = worst.time_again(QUICK if quick else SURE)
        numbers = {"blocks": float(count), f"slower than {LIMIT} times": float(len(found))}
        what = f"{worst.name}: {text(worst.graph)}; {notes(worst.models[FUSED].report(), worst.runs[FUSED])}"
        yield Row(f"random blocks, {family}", worst.seconds, timing.speed, numbers, what, timing.load)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.blocks", description=__doc__)
    parser.add_argument("families", nargs="*", metavar="family", help=f"of {', '.join(FAMILIES)}; all by default")
    parser.add_argument("--count", type=int, default=100, help="blocks of each family")
    parser.add_argument("--first", type=int, default=0, help="the number of the first block")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for family in given.families or FAMILIES:
        for found in finds(family, range(given.first, given.first + given.count), given.seed):
            times = ", ".join(f"{name} {seconds * 1e3:.2f} ms" for name, seconds in found.seconds.items())
            print(f"{found.name}: {found.ratio:.1f} times; {times}\n  {text(found.graph)}", flush=True)


if __name__ == "__main__":
    main()
