"""Data-parallel training: every process takes its part of each batch, and the gradients are averaged.

``python data_parallel.py`` starts two processes on this machine. On several machines, start
``torchrun --nnodes 2 --nproc-per-node 1 --rdzv-endpoint HOST:29500 data_parallel.py`` on each of them.

The process of rank 0 saves a checkpoint after each epoch. If a process ends, the others stop with an error within
seconds; torchrun starts all of them again (``--max-restarts``), and they go on from the checkpoint.

Needs the extra ``torch``, of which it uses gloo: ``pip install 'onegraph[torch,examples]'``.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import onegraph as og

BATCH, EPOCHS = 64, 10
CHECKPOINT = Path("data_parallel.npz")


def training_step(rows: int) -> og.Graph:
    """The graph of a step on ``rows`` digits: loss, averaged gradients, new weights."""
    g, start = og.Graph(), np.random.default_rng(0)
    pixels, labels = g.input("pixels", og.f32, (rows, 64)), g.input("labels", og.s32, (rows,))
    weights, h = [], pixels
    for place, (before, after) in enumerate([(64, 128), (128, 10)]):
        weights.append(g.variable(f"w{place}", start.normal(0, before**-0.5, (before, after)).astype(np.float32)))
        h = g.matmul(g.relu(h) if place else h, weights[-1])
    loss = og.training.cross_entropy(g, h, labels)
    gradients = og.distributed.average(g, g.gradient(loss, weights))
    og.training.Adam(1e-2).update(g, weights, gradients)
    g.output("loss", *og.distributed.average(g, [loss]))
    return g


def train(group: og.distributed.Group) -> None:
    images, labels = load_digits(return_X_y=True)
    images, labels = (images / 16).astype(np.float32), labels.astype(np.int32)
    rows = BATCH // group.size
    step = training_step(rows).compile(threads=max(1, (os.cpu_count() or 1) // group.size))
    if CHECKPOINT.exists():
        step.load_variables(CHECKPOINT)
    group.share_variables(step)
    steps = len(images) // BATCH
    for epoch in range(int(step.variables["adam/step"]) // steps, EPOCHS):
        order = np.random.default_rng(epoch).permutation(len(images))[: steps * BATCH].reshape(steps, group.size, rows)
        losses = [float(step(images[part], labels[part])) for part in order[:, group.rank]]
        if group.rank == 0:
            step.save_variables(CHECKPOINT)
            print(f"epoch {epoch}: loss {np.mean(losses):.3f}", flush=True)


def main() -> None:
    if "RANK" not in os.environ:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "3"]
        sys.exit(subprocess.call([*torchrun, "--nproc-per-node", "2", __file__]))
    with og.distributed.join(timeout=20) as group:
        train(group)


if __name__ == "__main__":
    main()
