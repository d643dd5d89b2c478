"""``python -m benchmarks.cluster.nodes``: the throughput of data-parallel training on 2 to 1,024 nodes, by a model.

The script measures a step on this machine: its time, and when each bucket of gradients is there. The rest is computed:

- A ring adds a bucket of S bytes over n nodes in 2 (n - 1) messages, of S / n bytes each. A message takes the latency
  of the network, and its bytes over the bandwidth. Each node sends 2 (n - 1) / n S bytes, and receives as many.
- Buckets travel one after another. A bucket starts when its gradients are there and the bucket before it has arrived.
- A step is over when the backward pass is and the last bucket has arrived; then the optimizer runs.
- Processors move the bytes too: each byte that is sent costs a time, which is measured with two processes here.
- The slowest node sets the time of all. The times of a step vary by a share v, so that the slowest of n takes about
  ``1 + v sqrt(2 ln n)`` times as long.

``--times FILE`` takes the measurement from a file, and ``--keep FILE`` writes one.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

NODES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Network(NamedTuple):
    """A network between nodes: seconds of a message, and bytes in a second."""

    name: str
    latency: float
    bandwidth: float


class Step(NamedTuple):
    """A step of one node alone.

    Attributes:
        seconds: of the whole step.
        backward: seconds until the backward pass is over.
        ready: by bucket, seconds until its gradients are there.
        sizes: bytes of each bucket.
        rows: of the batch of one node.
        seconds_per_byte: of the processors of a node, for each byte that it sends.
        variation: of the time of a step, as a share of it.
    """

    seconds: float
    backward: float
    ready: Sequence[float]
    sizes: Sequence[int]
    rows: int
    seconds_per_byte: float
    variation: float


class Prediction(NamedTuple):
    """A step on some nodes: its seconds, those of them that wait for the network, and bytes that a node sends."""

    seconds: float
    exposed: float
    sent: float


# Nine tenths of the bandwidth are of use.
NETWORKS = (
    Network("1 Gbit/s", 50e-6, 0.9e9 / 8),
    Network("10 Gbit/s", 30e-6, 9e9 / 8),
    Network("25 Gbit/s", 20e-6, 22.5e9 / 8),
    Network("100 Gbit/s", 10e-6, 90e9 / 8),
)


def ring_seconds(size: float, nodes: int, network: Network) -> float:
    """How long a ring takes to add a bucket over some nodes."""
    messages = 2 * (nodes - 1)
    return messages * (network.latency + size / nodes / network.bandwidth)


def predicted(step: Step, nodes: int, network: Network) -> Prediction:
    """A step on some nodes."""
    sent = sum(step.sizes) * 2 * (nodes - 1) / nodes
    slowest = 1 + step.variation * math.sqrt(2 * math.log(nodes))
    stretch = slowest * (1 + sent * step.seconds_per_byte / step.seconds)
    arrived = 0.0
    for ready, size in zip(step.ready, step.sizes, strict=True):
        arrived = max(arrived, ready * stretch) + ring_seconds(size, nodes, network)
    backward = step.backward * stretch
    exposed = max(0.0, arrived - backward) if nodes > 1 else 0.0
    return Prediction(step.seconds * stretch + exposed, exposed, sent)


def measured() -> Step:
    """A step on this machine, and the cost of a byte."""
    from . import training

    whole, half, two = training.run(1), training.run(1, training.BATCH // 2), training.run(2)
    sent = sum(two.sizes)  # 2 (n - 1) / n of the bytes, for n = 2
    cost = max(0.0, two.whole - half.whole) / sent
    return Step(whole.whole, max(whole.starts), whole.starts, whole.sizes, training.BATCH, cost, 0.02)


def table(step: Step) -> str:
    """The predictions as Markdown."""
    lines = [f"| nodes | {' | '.join(f'{net.name}: rows/s, efficiency' for net in NETWORKS)} | a node sends |"]
    lines.append("| ---: " * (len(NETWORKS) + 2) + "|")
    for nodes in NODES:
        cells = []
        for network in NETWORKS:
            found = predicted(step, nodes, network)
            rate = nodes * step.rows / found.seconds
            cells.append(f"{rate:,.0f}, {rate / nodes * step.seconds / step.rows:.0%}")
        sent = predicted(step, nodes, NETWORKS[0]).sent
        lines.append(f"| {nodes:,} | {' | '.join(cells)} | {sent / 1e6:.1f} MB |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster.nodes")
    parser.add_argument("--times", type=Path, help="a file with a measurement")
    parser.add_argument("--keep", type=Path, help="write the measurement to this file")
    options = parser.parse_args()
    step = Step(**json.loads(options.times.read_text())) if options.times else measured()
    if options.keep:
        options.keep.write_text(json.dumps(step._asdict(), indent=2) + "\n")
    size, count = sum(step.sizes) / 1e6, len(step.sizes)
    print(f"A step of {step.rows} rows takes {step.seconds * 1e3:.0f} ms on one node; the backward pass is over after")
    print(f"{step.backward * 1e3:.0f} ms. {size:.1f} MB of gradients travel in {count} buckets. A byte that is sent")
    print(f"costs the processors {step.seconds_per_byte * 1e9:.2f} ns.\n")
    print(table(step))


if __name__ == "__main__":
    main()
