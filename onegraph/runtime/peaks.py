"""Measures once for each machine how fast its processors multiply and its memory moves, and keeps it on disk.

What is measured beside other work, which takes processor time from it, is used in this process alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter, process_time
from typing import Any

import numpy as np

from .._util.folder_index import RecordLog
from .._util.interpreter_tricks import blake2b
from .._util.records import record
from ..builder.graph import DataGraph
from ..capi.machine import machine
from ..capi.threads import threads_now
from ..opset.dtypes import DataType

LOG = RecordLog("peaks")
SIZE = 1024  # rows and columns of the matrices
ELEMENTS = 1 << 24  # f32 numbers, 64 MiB, more than caches hold
SECONDS = 0.15  # of each measurement
IDLE = 0.85  # of the processor time of all threads, which a measurement gets on an idle machine
MEMORY = "memory"
Make = Callable[..., Any]  # the executable of a graph, with the options of compile
_known: dict[str, float] = {}
_disturbed: set[tuple[str, int]] = set()  # kinds and numbers of threads


@record(frozen=True)
class Peaks:
    """What the machine does at most, as measured.

    Attributes:
        threads: number of threads.
        bandwidth: bytes per second of a ReLU of 64 MiB, read and written.
        rates: floating-point operations per second of a product of two matrices of 1,024 rows and columns, by the data
            types that are multiplied; a multiply-add counts as two. A partition of the program that is faster raises
            the rate.
        disturbed: whether other work ran beside a measurement, so that the machine may do more.
    """

    threads: int
    bandwidth: float
    rates: dict[str, float]
    disturbed: bool = False

    def to_dict(self) -> dict[str, object]:
        """The peaks as a plain dictionary."""
        rates = dict(self.rates)
        return {"threads": self.threads, "bandwidth": self.bandwidth, "rates": rates, "disturbed": self.disturbed}


def peaks_of(make: Make, arithmetic: Iterable[str]) -> Peaks:
    """The peaks of this machine, for products of these data types; those that it cannot multiply are left out."""
    threads = threads_now()
    rates = {kind: _kept(make, kind, threads) for kind in sorted({*arithmetic}) if kind in PRODUCTS}
    bandwidth = _kept(make, MEMORY, threads)
    return Peaks(threads, bandwidth, rates, not _disturbed.isdisjoint([(kind, threads) for kind in (MEMORY, *rates)]))


def _kept(make: Make, kind: str, threads: int) -> float:
    """A rate, from the file of an earlier process if it has it."""
    key = blake2b(repr((machine(), threads, kind)).encode(), digest_size=16).hexdigest()
    if key not in _known:
        text = LOG.find(key)
        try:
            _known[key] = float(text or "")
        except ValueError:
            _known[key], share = _bandwidth(make) if kind == MEMORY else _rate(make, kind)
            if share > IDLE * threads:
                LOG.keep(key, repr(_known[key]))
            else:
                _disturbed.add((kind, threads))
    return _known[key]


def _bandwidth(make: Make) -> tuple[float, float]:
    """Bytes per second, and the processor time per second."""
    graph = DataGraph()
    graph.output("y", graph.relu(graph.input("x", DataType.f32, (ELEMENTS,))))
    x = np.zeros(ELEMENTS, np.float32)
    seconds, share = _shortest(make(graph, finite_math=True).bind(x).run)
    return 2 * x.nbytes / seconds, share


def _rate(make: Make, kind: str) -> tuple[float, float]:
    """Floating-point operations per second, and the processor time per second."""
    graph = DataGraph()
    source, weights = PRODUCTS[kind]
    x = graph.input("x", source, (SIZE, SIZE))
    w: Any = graph.constant(np.ones((SIZE, SIZE), weights.numpy))
    activations: Any = x
    if source not in FLOATING:
        activations, w = (graph.dequantize(one, scales=[1.0], zps=[0]) for one in (x, w))
    graph.output("y", graph.matmul(activations, w))
    array = np.ones((SIZE, SIZE), source.numpy)
    seconds, share = _shortest(make(graph, finite_math=True).bind(array).run)
    return 2.0 * SIZE**3 / seconds, share


def _shortest(run: Callable[[], object]) -> tuple[float, float]:
    """The shortest of several runs, in seconds, and the processor time of all threads per second."""
    run()
    begin, used, shortest = perf_counter(), process_time(), float("inf")
    while True:
        start = perf_counter()
        run()
        now = perf_counter()
        shortest = min(shortest, now - start)
        if now > begin + SECONDS:
            return shortest, (process_time() - used) / (now - begin)


FLOATING = (DataType.f32, DataType.bf16, DataType.f16)
# What is multiplied, as reports call it, and the data types of the operands.
PRODUCTS = {
    "f32": (DataType.f32, DataType.f32),
    "bf16": (DataType.bf16, DataType.bf16),
    "f16": (DataType.f16, DataType.f16),
    "u8 x s8": (DataType.u8, DataType.s8),
    "s8": (DataType.s8, DataType.s8),
}
