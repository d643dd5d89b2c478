"""``python -m benchmarks.cluster.throughput ENGINE``: batch inference on two workers against one, with ray or dask.

Each worker has one processor. The model is a convolutional network with 0.7 GFLOP for an image. Everything is
started and every model is compiled before the time begins.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

import onegraph as og
from onegraph.distributed import BatchInference

SIZE, CHANNELS, LAYERS = 48, 64, 5
BATCH, BATCHES, ROUNDS = 16, 32, 3
WINDOW = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}


def network() -> og.Graph:
    """The mean of each channel behind some convolutions."""
    g, random = og.Graph(), np.random.default_rng(0)
    h = g.input("images", og.f32, (None, SIZE, SIZE, 3))
    for layer in range(LAYERS):
        before = CHANNELS if layer else 3
        weights = random.normal(0, (2 / 9 / before) ** 0.5, (3, 3, before, CHANNELS)).astype(np.float32)
        h = g.relu(g.convolution(h, g.constant(weights), **WINDOW))
    g.output("means", g.reduce_mean(h, axes=[1, 2], keep_dims=False))
    return g


def batches() -> list[np.ndarray]:
    images = np.random.default_rng(0).normal(size=(BATCH, SIZE, SIZE, 3)).astype(np.float32)
    return [images + number for number in range(BATCHES)]


def with_dask(folder: str, workers: int) -> Callable[[], np.ndarray]:
    """The function that maps all batches once, on a cluster of Dask that runs."""
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    client = Client(cluster)
    infer = BatchInference(folder, batch_size=BATCH)
    given = client.scatter([{"images": images} for images in batches()])  # of a dict, each value would be scattered
    for worker in client.scheduler_info()["workers"]:
        client.submit(infer, given[0], workers=[worker], pure=False).result()

    def run() -> np.ndarray:
        found = client.gather(client.map(infer, given, pure=False))
        return np.concatenate([one["means"] for one in found])

    run.close = lambda: (client.close(), cluster.close())  # type: ignore[attr-defined]
    return run


def with_ray(folder: str, workers: int) -> Callable[[], np.ndarray]:
    """The function that maps all batches once, on a cluster of Ray that runs."""
    import ray

    ray.init("local", num_cpus=workers, include_dashboard=False)
    # Actors that live as long as the measurement; Ray Data starts its own for each dataset.
    pool = [ray.remote(num_cpus=1)(BatchInference).remote(folder, batch_size=BATCH) for _ in range(workers)]
    given = [ray.put({"images": images}) for images in batches()]
    ray.get([actor.__call__.remote(given[0]) for actor in pool])

    def run() -> np.ndarray:
        from ray.util import ActorPool

        found = ActorPool(pool).map(lambda actor, batch: actor.__call__.remote(batch), given)
        return np.concatenate([one["means"] for one in found])

    run.close = ray.shutdown  # type: ignore[attr-defined]
    return run


ENGINES = {"dask": with_dask, "ray": with_ray}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster.throughput")
    parser.add_argument("engine", choices=ENGINES)
    start = ENGINES[parser.parse_args().engine]
    taken: dict[int, list[float]] = {1: [], 2: []}
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        network().compile(threads=1).save(Path(folder))
        for workers in (1, 2):
            run = start(folder, workers)
            for _ in range(ROUNDS):
                begun = time.perf_counter()
                results[workers] = run()
                taken[workers].append(time.perf_counter() - begun)
            run.close()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(results[1], results[2])
    one, two = (BATCH * BATCHES / median(taken[workers]) for workers in (1, 2))
    print(f"one worker {one:.0f} images/s, two workers {two:.0f} images/s: {two / one:.2f} x, goal 1.9 x")


if __name__ == "__main__":
    main()
