"""A graph timed in several ways of compiling it, side by side."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, median
from time import perf_counter_ns

from .._util.validation import as_list, flag, function, integer, number
from ..errors import ArgumentError
from ..graph import Graph
from ..ir.op import Array
from ..opset.shapes import counted
from ..runtime.bound_run import sample
from ..runtime.executable import Executable
from ..serialize import with_known

ROUNDS = 10
PROFILED = 20  # runs that the times of partitions are taken from
MAX_SECONDS = 10**6

Sampler = Callable[[int, int], list[int]]  # the nanoseconds of runs, from how many are enough and how many runs are


@dataclass(frozen=True)
class Variant:
    """One way of compiling; see :meth:`onegraph.Graph.compile`."""

    policy: str = "fusion"
    fpmath_mode: str | None = None
    threads: int | None = None
    fallback: bool = True

    def __str__(self) -> str:
        threads = "" if self.threads is None else counted(self.threads, "thread")
        mode = "" if self.fpmath_mode is None else f"fpmath {self.fpmath_mode}"
        return ", ".join(text for text in (self.policy, mode, threads) if text)


@dataclass(frozen=True)
class Measurement:
    """What was measured of one variant.

    Attributes:
        variant: how it was compiled.
        model: the executable.
        samples: seconds of every run, in their order.
        compile_seconds: seconds that the compilation took.
    """

    variant: Variant
    model: Executable
    samples: Sequence[float]
    compile_seconds: float

    @property
    def min(self) -> float:
        """The shortest run, in seconds."""
        return min(self.samples)

    @property
    def median(self) -> float:
        """The run in the middle, in seconds."""
        return median(self.samples)

    @property
    def mean(self) -> float:
        """The average run, in seconds."""
        return fmean(self.samples)


def bench(
    graph: Graph,
    inputs: Mapping[str, Array],
    variants: Sequence[Variant],
    *,
    seconds: float = 3.0,
    runs: int = 10_000,
    in_place: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Measurement]:
    """Time a graph: every variant in turn, round by round, so that a busy machine is unfair to none.

    A run is that of arrays that are bound before, timed in C as in benchdnn; calling ``BoundRun.run`` takes 0.1 to 0.2
    us more. Where numpy has a part in it the call is timed in Python, and where a shape hangs on data, so that nothing
    can be bound, it is a call of the executable.

    Inputs that the file of the graph calls constant are constants here, as they are in benchdnn: the library prepares
    weights once, and the executables do not take them.

    Args:
        graph: the graph.
        inputs: an array for each input, by name.
        variants: how to compile it; the first is what others are compared with.
        seconds: how long to measure, all variants together.
        runs: number of runs of a variant at most.
        in_place: let results lie upon inputs where the library offers that, as benchdnn does: it spares memory, and
            changes the numbers from run to run.
        progress: told how many rounds are done, and how many there are.

    Raises:
        ArgumentError: an array does not fit its input, or is read-only where a result is to lie upon it, or an option
            is wrong.
        UnsupportedError: with ``fallback=False``: the library does not run all of the graph.
    """
    variants = as_list("variants", variants, Variant)
    if not variants:
        raise ArgumentError("variants: []; expected one or more")
    length = number("seconds", seconds, 0, MAX_SECONDS)
    runs = integer("runs", runs, 1, 2**31 - 1)
    flag("in_place", in_place)
    function("progress", progress)
    graph, inputs = with_known(graph, inputs)
    compiled: list[tuple[Executable, Sampler, float]] = []
    for variant in variants:
        start = perf_counter_ns()
        model = graph.compile(
            policy=variant.policy,
            fpmath_mode=variant.fpmath_mode,
            threads=variant.threads,
            fallback=variant.fallback,
        )
        took = (perf_counter_ns() - start) * 1e-9
        sampler = _sampler(model, inputs, in_place)
        sampler(0, 1)
        compiled.append((model, sampler, took))
    samples = [array("q") for _ in variants]
    share, most = int(length * 1e9 / (ROUNDS * len(variants))), -(-runs // ROUNDS)
    for done in range(ROUNDS):
        progress(done, ROUNDS)
        for (_, sampler, _), taken in zip(compiled, samples, strict=True):
            taken.extend(sampler(share, min(most, runs - len(taken))))
    progress(ROUNDS, ROUNDS)
    return [
        Measurement(variant, model, [nanoseconds * 1e-9 for nanoseconds in taken], took)
        for variant, (model, _, took), taken in zip(variants, compiled, samples, strict=True)
    ]


def _sampler(model: Executable, inputs: Mapping[str, Array], in_place: bool) -> Sampler:
    try:
        bound = model.bind(**inputs)
    except ArgumentError:
        arrays = tuple(inputs.values())
        return partial(sample, lambda: model(*arrays))
    if in_place:
        bound._lay_upon_inputs()
    return bound._sample
