"""Batch inference on a cluster of processes: a compiled graph is pickled, sent to every worker and compiled there.

A trained network is a set of arrays. Here, least squares on the features of a fixed convolution replace the training.
The cluster has one worker for each core, and each worker uses one thread. With OpenMP's default, every worker would
start a thread for every core, and the workers would wait for one another.

Needs the extra ``distributed``: ``pip install onegraph[distributed]``.
"""

import os
from time import perf_counter

import numpy as np
from distributed import Client, LocalCluster, get_worker
from sklearn.datasets import load_digits

import onegraph as og

WINDOW = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
FEATURES = 8 * 8 * 16


def features(filters: np.ndarray) -> tuple[og.Graph, og.LogicalTensor]:
    """A graph of the features, for any number of digits, and its last tensor."""
    g = og.Graph()
    digits = g.input("digits", og.f32, (None, 8, 8, 1))
    h = g.relu(g.convolution(digits, g.constant(filters), **WINDOW))
    return g, g.static_reshape(h, shape=[-1, FEATURES], special_zero=False)


def classifier(filters: np.ndarray, weights: np.ndarray) -> og.Graph:
    """A graph that computes the features and a score for each of the ten classes."""
    g, h = features(filters)
    g.output("scores", g.matmul(h, g.constant(weights), dtype="f32"))
    return g


def infer(model, digits):
    """Runs on a worker. Returns the predicted digits, the name of the worker and its number of threads."""
    return model(digits).argmax(1), get_worker().name, model.report().partitions[0].threads


def main() -> None:
    rng = np.random.default_rng(0)
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 8, 8, 1)
    filters = rng.normal(0, 0.5, (3, 3, 1, 16)).astype(np.float32)
    g, h = features(filters)
    g.output("features", h)
    x = g.compile()(images[:1000])
    weights = np.linalg.solve(x.T @ x + np.eye(FEATURES), x.T @ np.eye(10)[labels[:1000]])

    model = classifier(filters, weights.astype(np.float32)).compile(threads=1)  # the option is pickled with the graph
    batches = np.array_split(images[1000:], 16)
    workers = min(4, os.cpu_count() or 1)
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as c:
        start = perf_counter()
        there = c.scatter(model, broadcast=True)  # sent once to each worker, for any number of batches
        results = c.gather(c.map(infer, [there] * len(batches), batches, pure=False))
        seconds = perf_counter() - start
    found = np.concatenate([seen for seen, _, _ in results])
    print(f"{len(found)} digits in {len(batches)} batches on {workers} workers: {seconds:.2f} s")
    print(f"right: {(found == labels[1000:]).mean():.1%}")
    print(f"the same as in one process: {np.array_equal(found, model(images[1000:]).argmax(1))}")
    for worker in sorted({worker for _, worker, _ in results}):
        threads = [used for _, name, used in results if name == worker]
        print(f"worker {worker}: {len(threads)} batches, {max(threads)} thread each")


if __name__ == "__main__":  # every worker imports this file
    main()
