"""One executable, called from several Python threads at once: the total number of runs per second."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

import onegraph as og
from onegraph.ir.op import Array

from .timing import QUICK, Contender, Effort, Row, alternate


def layer(size: int) -> og.Graph:
    """MatMul + bias + GELU on a batch of 16."""
    rng = np.random.default_rng(0)
    g = og.Graph()
    weights = g.constant(rng.standard_normal((size, size)).astype(np.float32))
    x = g.matmul(g.input("src", og.f32, (16, size)), weights, g.constant(np.ones(size, np.float32)))
    g.output("dst", g.gelu(x))
    return g


def shared(model: og.runtime.executable.Executable, x: Array, n_callers: int, pool: ThreadPoolExecutor) -> Contender:
    """``count`` calls, divided among the callers."""

    def call(count: int) -> None:
        for _ in range(count):
            model(x)

    def contender(count: int) -> None:
        wait([pool.submit(call, count // n_callers + (k < count % n_callers)) for k in range(n_callers)])

    return contender


def rows(quick: bool = False) -> Iterator[Row]:
    effort = QUICK if quick else Effort(rounds=15, turn=0.2)
    for size in (64,) if quick else (256, 1024):
        model = layer(size).compile(threads=1)
        x = np.random.default_rng(1).standard_normal((16, size)).astype(np.float32)
        wanted = model(x)
        with ThreadPoolExecutor(8) as pool:
            assert all(np.array_equal(result, wanted) for result in pool.map(model, [x] * 64))
            contenders = {f"{count} caller{'s' * (count > 1)}": shared(model, x, count, pool) for count in (1, 2, 4, 8)}
            seconds, speed, load = alternate(contenders, effort)
        note = f"one thread of oneDNN each, on {os.cpu_count()} processors"
        yield Row(f"MatMul {size} + bias + GELU, batch 16", seconds, speed, {}, note, load)
