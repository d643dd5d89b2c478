"""Random blocks of networks: what fusion, or the library itself, makes more than 1.5 times as slow.

Each block is compiled with the policy ``fusion`` and compared with its ops one by one (policy ``debug``), with PyTorch
where it is installed, and with numpy where that is cheap. ``python -m benchmarks.blocks --count 1000 --seed 7 matmul``
prints every block that is slower than one of these; ``--graphs FOLDER`` does so for the files of a folder.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import onegraph as og
from onegraph import reference
from onegraph.testing.random_inputs import random_inputs

from . import peers
from .kernels import notes
from .known_blocks import known
from .models.network import sizes
from .random_blocks import FAMILIES, block
from .timing import QUICK, SETTLE, Effort, Row, Timing, alternate, calls

LIMIT = 1.5  # times another contender; a block beyond is a find
LEAST = 50e-6  # seconds by which a find is slower
# Ops that plain loops over memory do not compute in numpy.
SLOW_IN_NUMPY = ("Conv", "AvgPool", "MaxPool", "Interpolate", "MatMul")
FEW_PRODUCTS = 1 << 27  # of a MatMul, which numpy computes in about the time of such loops
ONE_BY_ONE, FUSED, NUMPY, TORCH = "one by one", "fused", "numpy, in f64", "torch eager"
POLICIES = {ONE_BY_ONE: "debug", FUSED: "fusion"}
SURE = Effort(rounds=5, turn=0.01)
Case = tuple[str, og.Graph, Mapping[str, np.ndarray]]


class Block:
    """A block, compiled with both policies, and the seconds of one run of each contender.

    Attributes:
        alone: why there is no run of PyTorch; empty if there is one.
        reason: why the block stays slow, if that is known.
    """

    def __init__(self, name: str, graph: og.Graph, given: Mapping[str, np.ndarray]) -> None:
        self.name, self.graph = name, graph
        self.models = {name: graph.compile(policy=policy) for name, policy in POLICIES.items()}
        bound = {name: model.bind(**given) for name, model in self.models.items()}
        self.runs: dict[str, Callable[[], object]] = {name: one.run for name, one in bound.items()}
        self.alone = self._join_torch(given, bound[FUSED])
        self.seconds = {name: quickest(run) for name, run in self.runs.items()}
        if self.seconds[FUSED] > LEAST and is_cheap_in_numpy(graph):
            self.seconds[NUMPY] = quickest(lambda: reference.run(graph, given), 1)
        self.reason = known(text(graph), self.rival)

    def _join_torch(self, given: Mapping[str, np.ndarray], ours: Any) -> str:
        if not peers.installed("torch"):
            return "torch is not installed"
        from .torch_ops import UntranslatableError, difference, torch_run

        try:
            run = torch_run(self.graph, given)
        except UntranslatableError as error:
            return str(error)
        results = ours.run()
        for one, other in zip(results if isinstance(results, tuple) else (results,), run(), strict=True):
            if said := difference(np.asarray(one), other):
                return f"results of torch: {said}"
        self.runs[TORCH] = run
        return ""

    def time_again(self, effort: Effort = SURE) -> Timing:
        """Time all contenders but numpy in turns."""
        timing = alternate({name: calls(run) for name, run in self.runs.items()}, effort)
        self.seconds.update(timing.seconds)
        self.reason = known(text(self.graph), self.rival)
        return timing

    @property
    def rival(self) -> str:
        """The fastest other contender."""
        return min((name for name in self.seconds if name != FUSED), key=lambda name: self.seconds[name])

    @property
    def ratio(self) -> float:
        """How many times as long as the fastest other contender the fused block takes."""
        return self.seconds[FUSED] / self.seconds[self.rival]

    @property
    def is_find(self) -> bool:
        return self.ratio > LIMIT and self.seconds[FUSED] - min(self.seconds.values()) > LEAST


def is_cheap_in_numpy(graph: og.Graph) -> bool:
    products = [op for op in graph.ops if op.kind == "MatMul"]
    rest = [op for op in graph.ops if op.kind != "MatMul"]
    return not any(op.kind.startswith(SLOW_IN_NUMPY) for op in rest) and all(
        np.prod(sizes(op.outputs[0])) * sizes(op.inputs[0])[-1] < FEW_PRODUCTS
        for op in products
        if op.inputs[0] is not None
    )


def arrays(graph: og.Graph) -> dict[str, np.ndarray]:
    """Positive numbers around 1 for every input, small integers for int8."""
    rng, found = np.random.default_rng(0), {}
    for name, tensor in graph.inputs.items():
        shape, kind = sizes(tensor), tensor.dtype.numpy
        found[name] = (rng.integers(0, 100, shape) if kind.kind in "iu" else rng.random(shape) + 0.5).astype(kind)
    return found


def quickest(run: Callable[[], object], rounds: int = 3) -> float:
    """The shortest time of a few runs, of one if it is long."""
    time.sleep(SETTLE)
    run()
    taken = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begin)
        if taken[-1] > 0.05:
            break
    return min(taken)


def random_cases(family: str, numbers: Iterable[int], seed: int) -> Iterator[Case]:
    for number in numbers:
        graph = block(family, number, seed)
        yield f"{family} {number}", graph, arrays(graph)


def graphs_in(folder: Path, numbers: range) -> Iterator[Case]:
    """The graphs of files in a folder, such as ``tests/benchdnn/inputs/graph`` of oneDNN."""
    for path in sorted(folder.rglob("*.json"))[numbers.start : numbers.stop]:
        try:
            graph = og.Graph.load(path)
            yield str(path.relative_to(folder)), graph, random_inputs(graph)
        except og.OneGraphError as error:
            print(f"{path}: {str(error).splitlines()[0]}", flush=True)


def measured(cases: Iterable[Case]) -> Iterator[Block]:
    """The blocks; those that are slow in a brief measurement are measured for longer."""
    for case in cases:
        try:
            found = Block(*case)
        except og.OneGraphError as error:
            print(f"{case[0]}: {str(error).splitlines()[0]}", flush=True)
            continue
        if found.is_find:
            found.time_again()
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
        found = [*measured(random_cases(family, range(count), seed))]
        slow = [one for one in found if one.is_find]
        worst = max(slow or found, key=lambda one: (not one.reason, one.ratio))
        timing = worst.time_again(QUICK if quick else SURE)
        numbers = {
            "blocks": float(count),
            "compared with PyTorch": float(sum(not one.alone for one in found)),
            f"slower than {LIMIT} times": float(len(slow)),
            "of these with a known reason": float(sum(bool(one.reason) for one in slow)),
        }
        what = f"{worst.name}: {text(worst.graph)}; {notes(worst.models[FUSED].report(), worst.runs[FUSED])}"
        yield Row(f"random blocks, {family}", worst.seconds, timing.speed, numbers, what, timing.load)


def show(name: str, cases: Iterable[Case]) -> None:
    """Print the finds among some blocks, and a line that counts."""
    counts, alone, reasons = Counter[str](), Counter[str](), Counter[str]()
    for found in measured(cases):
        counts["blocks"] += 1
        alone[found.alone] += 1
        if found.is_find:
            times = ", ".join(f"{name} {seconds * 1e3:.2f} ms" for name, seconds in found.seconds.items())
            print(f"{found.name}: {found.ratio:.1f} times {found.rival}; {times}\n  {text(found.graph)}", flush=True)
            counts["finds"] += 1
            if found.reason:
                print(f"  known: {found.reason}", flush=True)
                reasons[found.reason] += 1
    print(
        f"{name}: {counts['blocks']} blocks, {alone.pop('', 0)} beside torch, {counts['finds']} slow, "
        f"{counts['finds'] - reasons.total()} of these without a known reason"
    )
    for title, found_counts in (("without torch", alone), ("known", reasons)):
        for reason, count in found_counts.most_common():
            print(f"  {title}: {count} x {reason}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.blocks", description=__doc__)
    parser.add_argument("families", nargs="*", metavar="family", help=f"of {', '.join(FAMILIES)}; all by default")
    parser.add_argument("--count", type=int, default=100, help="blocks of each family, or files")
    parser.add_argument("--first", type=int, default=0, help="the number of the first block or file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--graphs", type=Path, metavar="FOLDER", help="measure the graphs of these files instead")
    given = parser.parse_args()
    numbers = range(given.first, given.first + given.count)
    if given.graphs:
        show(str(given.graphs), graphs_in(given.graphs, numbers))
        return
    for family in given.families or FAMILIES:
        show(family, random_cases(family, numbers, given.seed))


if __name__ == "__main__":
    main()
