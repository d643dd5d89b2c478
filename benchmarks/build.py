"""The cost of building and compiling a graph of 1 to 10,000 ops: time in Python, time in the library, and memory.

Every size is measured in two processes: the first measures the total time, the second times each call of the C API and
measures memory. Python's share is the time of a run minus the time of its calls. Timing the calls counts as Python.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from statistics import median
from typing import TypeVar

import numpy as np

import onegraph as og
from onegraph.native import library as native

from .machine import undisturbed
from .timing import Row

SIZES = (1, 100, 1000, 10_000)
QUICK_SIZES = (1, 8)
Result = TypeVar("Result")


def graph(count: int) -> og.Graph:
    """``count`` ops: a chain of layers MatMul + bias + ReLU + residual, each with its own weights."""
    rng = np.random.default_rng(0)
    g = og.Graph()
    x = residual = g.input("src", og.f32, (8, 32))
    weights = rng.standard_normal((32, 32)).astype(np.float32) / 8
    bias = g.constant(np.zeros((1, 32), np.float32))
    for number in range(count):
        match number % 4:
            case 0:
                x = g.matmul(x, g.constant(weights, copy=False))
            case 1:
                x = g.add(x, bias)
            case 2:
                x = g.relu(x)
            case 3:
                x = residual = g.add(x, residual)
    g.output("dst", x)
    return g


class LibraryTime:
    """Counts the seconds inside the C API by function: in ``native.call``, and in the destructors of handles."""

    def __init__(self) -> None:
        self.seconds: defaultdict[object, float] = defaultdict(float)
        call, make = native.call, native.Handle.__init__
        for module in list(sys.modules.values()):
            if module.__name__.split(".")[0] == "onegraph" and vars(module).get("call") is call:
                setattr(module, "call", self._timed(call))  # noqa: B010

        release = self._timed(_called)

        def made(handle: native.Handle, pointer: object, destroy: Callable[[object], int], *parents: object) -> None:
            make(handle, pointer, partial(release, destroy), *parents)

        native.Handle.__init__ = made  # type: ignore[method-assign]

    def _timed(self, own: Callable[..., None]) -> Callable[..., None]:
        def timed(function: Callable[..., int], *arguments: object) -> None:
            begin = time.perf_counter()
            try:
                own(function, *arguments)
            finally:
                self.seconds[function] += time.perf_counter() - begin

        return timed


def _name(function: object) -> str:
    return getattr(function, "__name__", "destroy").removeprefix("dnnl_graph_")


def _called(function: Callable[..., int], *arguments: object) -> None:
    function(*arguments)


def phases(count: int, policy: str) -> tuple[dict[str, float], object]:
    """The seconds of the build and of the compilation, and the executable."""
    begin = time.perf_counter()
    g = graph(count)
    built = time.perf_counter()
    model = g.compile(policy=policy)
    return {"build": built - begin, "compile": time.perf_counter() - built}, model


def timed(count: int, policy: str, repeats: int) -> dict[str, float]:
    """The medians of the phases."""
    phases(1, policy)  # the library creates its engine and its tables of patterns once
    runs = []
    for _ in range(repeats):
        gc.collect()
        runs.append(phases(count, policy)[0])
    return {name: median(run[name] for run in runs) for name in runs[0]}


def counted(count: int, policy: str, repeats: int) -> tuple[float, dict[str, float], float, float]:
    """The seconds of a run in Python, and in the library by function; the peak bytes of the process and of Python."""
    phases(1, policy)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    library = LibraryTime()
    runs, own = [], []
    for _ in range(repeats):
        library.seconds.clear()
        whole, kept = phases(count, policy)
        runs.append({_name(function): taken for function, taken in library.seconds.items()})  # before any is freed
        own.append(sum(whole.values()) - sum(library.seconds.values()))
        del kept
    mean = {name: sum(run.get(name, 0.0) for run in runs) / repeats for name in runs[-1]}
    seconds = dict(sorted(mean.items(), key=lambda item: -item[1]))
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    tracemalloc.start()
    phases(count, policy)
    return median(own), seconds, float(peak), float(tracemalloc.get_traced_memory()[1])


def rows(quick: bool = False) -> Iterator[Row]:
    for policy in ("fusion",) if quick else ("fusion", "debug"):
        for count in QUICK_SIZES if quick else SIZES:
            repeats = 1 if quick else max(3, min(100, 10_000 // count))
            (total, (own, functions, peak, peak_of_python)), load = undisturbed(partial(both, count, policy, repeats))
            library = sum(functions.values())
            numbers = {
                "in Python, us an op": own / count * 1e6,
                "in the library, us an op": library / count * 1e6,
                "peak of Python, KB an op": peak_of_python / count / 1024,
                "peak beyond that of 1 op, MB": peak / 2**20,
            }
            shares = ", ".join(f"{name} {taken / library:.0%}" for name, taken in list(functions.items())[:4])
            yield Row(
                f"{count:,} op{'s' * (count > 1)}, policy {policy}",
                total,
                {},
                numbers,
                f"in the library: {shares}",
                load,
            )


def both(*arguments: object) -> tuple[dict[str, float], tuple[float, dict[str, float], float, float]]:
    """What :func:`timed` and :func:`counted` return, each from a process of its own."""
    return in_process(timed, *arguments), in_process(counted, *arguments)


def in_process(function: Callable[..., Result], *arguments: object) -> Result:
    """Call in a new interpreter, because the memory of an earlier size would hide the peak of a later size."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()
