"""``python -m benchmarks.cluster.memory``: the memory of four workers that load one saved model, against that of one.

The kernel's proportional set size (Pss) divides each page by the number of processes that share it, so that the sum
over the workers is the memory that they take together. The peak of the sum is taken while they load and run.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

import numpy as np

import onegraph as og

ROWS, WIDTH, LAYERS, WORDS = 32, 2048, 12, 400_000
Sizes = dict[str, float]


def products() -> og.Graph:
    """200 MB of weights of products, which the library copies into its own layout."""
    g, random = og.Graph(), np.random.default_rng(0)
    h = g.input("x", og.f32, (ROWS, WIDTH))
    for _ in range(LAYERS):
        h = g.relu(g.matmul(h, g.constant(random.normal(0, 0.03, (WIDTH, WIDTH)).astype(np.float32))))
    g.output("y", h)
    return g


def embedding() -> og.Graph:
    """A table of 819 MB, of which a call reads some rows, and 4 MB of weights of a product."""
    g, random = og.Graph(), np.random.default_rng(0)
    words = g.input("x", og.s64, (ROWS,))
    table = g.constant(random.normal(0, 1, (WORDS, 512)).astype(np.float32))
    rows = g.op("Gather", [table, words], {"axis": 0}, edition="host")
    g.output("y", g.matmul(rows, g.constant(random.normal(0, 0.03, (512, WIDTH)).astype(np.float32))))
    return g


def small() -> og.Graph:
    """A model without constants."""
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (4,))))
    return g


MODELS = {"embedding": embedding, "products": products}


def sizes(pid: int) -> Sizes:
    """Megabytes of a process: all, those of files, and those of its own."""
    found = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, rest = line.partition(":")
        found[name] = int(rest.split()[0]) / 1024
    return {"Pss": found["Pss"], "file": found["Pss_File"], "own": found["Pss_Anon"]}


def work(folder: str, connection: Connection) -> None:
    """A worker: loads the model, runs it twice, and tells what its constants take."""
    model = og.load(folder)
    (spec,) = model.inputs
    x = np.zeros(spec.shape, spec.dtype.numpy)
    for _ in range(2):
        model(x)
    connection.send(dict(model.report().memory))
    connection.recv()


def together(folder: str, count: int) -> tuple[Sizes, Sizes, dict[str, int]]:
    """The peak and the settled sum of the sizes of some workers, and what one of them says of its constants."""
    context, ends = multiprocessing.get_context("spawn"), []
    workers: list[SpawnProcess] = []
    for _ in range(count):
        own, other = context.Pipe()
        workers.append(context.Process(target=work, args=(folder, other)))
        ends.append(own)
        workers[-1].start()
    peak: Sizes = {"Pss": 0.0, "file": 0.0, "own": 0.0}

    def total() -> Sizes:
        found = [sizes(worker.pid or 0) for worker in workers]
        return {name: sum(one[name] for one in found) for name in peak}

    while not all(end.poll() for end in ends):
        peak = max(peak, total(), key=lambda one: one["Pss"])
        time.sleep(0.02)
    settled, told = total(), [end.recv() for end in ends]
    peak = max(peak, settled, key=lambda one: one["Pss"])
    for end, worker in zip(ends, workers, strict=True):
        end.send(None)
        worker.join()
    return peak, settled, told[0]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        small().compile(threads=1).save(folder)
        base = together(folder, 1)[1]["own"]
    print(f"a worker with a model of 16 bytes has {base:.0f} MB of its own")
    for name, build in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            build().compile(threads=1).save(folder)
            one, settled, told = together(folder, 1)
            four, _, _ = together(folder, 4)
        repacked = settled["own"] - base
        goal = 1.2 * one["Pss"] + 3 * repacked
        print(f"{name}: constants {told['mapped'] / 2**20:.0f} MB mapped, {told['own'] / 2**20:.0f} MB own arrays")
        print(f"  one worker: peak {one['Pss']:.0f} MB, of which files {settled['file']:.0f}, repacked {repacked:.0f}")
        print(f"  four workers: peak {four['Pss']:.0f} MB, {four['Pss'] / one['Pss']:.2f} of one")
        print(f"  goal: at most 1.2 of one, and what three more have repacked: {goal:.0f} MB")


if __name__ == "__main__":
    main()
