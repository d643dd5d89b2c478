"""``python -m benchmarks.cluster.training``: a data-parallel step on two processes against one process.

Each process has one processor. One process computes the whole batch; two processes compute a half each, and average
the gradients with gloo over the loopback. The model is a transformer like GPT-2, of 4 layers. The losses of all steps
must be equal up to rounding.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from socket import socket
from statistics import median
from typing import Any, NamedTuple

import numpy as np

import onegraph as og
from onegraph.distributed import Group

from ..models import gpt2
from ..models.optimizers import Optimizer
from ..models.tasks import read
from ..models.training import Tensor, Training

BATCH, TOKENS, WORDS, WIDTH, HEADS, LAYERS = 32, 128, 2000, 256, 4, 4
WARM, STEPS, ROUNDS = 3, 7, 3
ROWS = "ROWS_OF_A_PROCESS"
TOLERANCE = 1e-4  # of a loss; the sums of the halves round otherwise


class Averaged(Training):
    """A model whose gradients and loss are averaged over the processes."""

    def averaged(self, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
        return og.distributed.average(self.graph, gradients)

    def finish(self, losses: list[Any]) -> None:
        super().finish([*og.distributed.average(self.graph, losses)])


class Times(NamedTuple):
    """Seconds in a step.

    Attributes:
        whole: of the step.
        starts: when each bucket starts to travel.
        waited: for buckets, behind the backward pass.
        sizes: bytes of each bucket.
        losses: of all steps.
    """

    whole: float
    starts: list[float]
    waited: float
    sizes: list[int]
    losses: list[float]


def built(batch: int) -> og.Graph:
    """The graph of a step on ``batch`` sequences."""
    sizes = {"width": WIDTH, "layers": LAYERS, "words": WORDS, "tokens": TOKENS}
    net = Averaged(gpt2.parameters(**sizes), og.f32, Optimizer("AdamW", 1e-3))
    given = {name: net.given(name, np.zeros(batch * TOKENS, np.int64)) for name in ("words", "label")}
    forward = partial(gpt2.forward, tokens=TOKENS, heads=HEADS, layers=LAYERS)
    net.finish(read(net, given, batch, forward))
    return net.graph


def sequences(step: int) -> tuple[np.ndarray, np.ndarray]:
    """A batch: words, and the words that follow."""
    text = np.random.default_rng(step).integers(0, 50, (BATCH, TOKENS + 1))
    return text[:, :-1], text[:, 1:]


def work() -> None:
    """One process of the group."""
    group = og.distributed.join(timeout=60)
    rows = int(os.environ[ROWS])
    part = slice(group.rank * rows, (group.rank + 1) * rows)
    step = built(rows).compile(threads=1)
    group.share_variables(step)
    starts, waits, sizes, begun = watched(group)
    losses, seconds, starting, waiting = [], [], [], []
    for number in range(WARM + STEPS):
        words, label = (np.ascontiguousarray(array[part].reshape(-1)) for array in sequences(number))
        starts.clear()
        waits.clear()
        sizes.clear()
        begun[0] = time.perf_counter()
        losses.append(step(words=words, label=label).item())
        seconds.append(time.perf_counter() - begun[0])
        starting.append([*starts])
        waiting.append(sum(waits))
    if group.rank == 0:
        middle = [median(column) for column in zip(*starting[WARM:], strict=True)]
        print(json.dumps(Times(median(seconds[WARM:]), middle, median(waiting[WARM:]), sizes, losses)))
    group.leave()


def watched(group: Group) -> tuple[list[float], list[float], list[int], list[float]]:
    """Lists that get the times of the buckets of a step, which begins at the time in the last list."""
    starts, waits, sizes, begun = list[float](), list[float](), list[int](), [0.0]
    start, wait = group.start, group.wait

    def timed_start(memory: np.ndarray) -> None:
        starts.append(time.perf_counter() - begun[0])
        sizes.append(memory.nbytes)
        start(memory)

    def timed_wait(memory: np.ndarray) -> None:
        before = time.perf_counter()
        wait(memory)
        waits.append(time.perf_counter() - before)

    group.start, group.wait = timed_start, timed_wait  # type: ignore[method-assign]
    return starts, waits, sizes, begun


def run(count: int, batch: int = BATCH) -> Times:
    """The times of rank 0 in a group of ``count`` processes, each on a processor of its own, which share a batch."""
    with socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    common = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    common[ROWS] = str(batch // count)
    command = [sys.executable, "-m", __spec__.name, "work"]
    processes = [
        subprocess.Popen(
            ["taskset", "-c", str(rank), *command],
            env={**os.environ, **common, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    texts = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit("a process failed")
    return Times(*json.loads(texts[0]))


def main() -> None:
    gained = []
    for number in range(ROUNDS):
        one, two = run(1), run(2)
        np.testing.assert_allclose(two.losses, one.losses, rtol=TOLERANCE)
        gained.append(one.whole / two.whole)
        if number == 0:
            print(f"loss of steps 1 and {len(one.losses)}: {one.losses[0]:.4f} {one.losses[-1]:.4f} on one process,")
            print(f"  {two.losses[0]:.4f} {two.losses[-1]:.4f} on two, relative difference below {TOLERANCE}")
            print(f"{sum(two.sizes) / 1e6:.1f} MB of gradients in {len(two.sizes)} buckets")
        starts = ", ".join(f"{start / two.whole:.0%}" for start in two.starts)
        print(f"step: one process {one.whole * 1e3:.0f} ms, two {two.whole * 1e3:.0f} ms: {gained[-1]:.2f} x")
        print(f"  buckets start at {starts} of a step, {two.waited / two.whole:.1%} of it is spent waiting")
    print(f"median: {median(gained):.2f} x, goal 1.8 x")


if __name__ == "__main__":
    work() if sys.argv[1:] == ["work"] else main()
