"""Times a graph compiled with several sets of options."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean, median
from time import perf_counter_ns

from .._util.counted import counted
from .._util.records import record
from .._util.validation import as_list, callback, flag, integer, number
from ..capi.threads import get_num_threads
from ..errors import ArgumentError
from ..graph import Graph
from ..ir.op import Array
from ..runtime.bound_run import BoundRun, sample
from ..runtime.executable import Executable
from ..serialize import with_known

ROUNDS = 10
PROFILED = 20  # runs for the times of partitions
MAX_SECONDS = 10**6

Sampler = Callable[[int, int], list[int]]  # (enough nanoseconds, most runs) -> time of each run in nanoseconds


@record(frozen=True)
class Variant:
    """One set of options of :meth:`onegraph.Graph.compile`."""

    policy: str = "fusion"
    fpmath_mode: str | None = None
    threads: int | None = None
    fallback: bool = True
    reproducible: bool = False
    finite_math: bool = False

    def __str__(self) -> str:
        threads = "" if self.threads is None else counted(self.threads, "thread")
        mode = "" if self.fpmath_mode is None else f"fpmath {self.fpmath_mode}"
        bits = "reproducible" if self.reproducible else ""
        finite = "finite math" if self.finite_math else ""
        return ", ".join(text for text in (self.policy, mode, threads, bits, finite) if text)


@record(frozen=True)
class Measurement:
    """The times of one variant.

    Attributes:
        variant: the options.
        model: the executable.
        samples: time of every run in seconds, in order.
        compile_seconds: time of the compilation in seconds.
    """

    variant: Variant
    model: Executable
    samples: Sequence[float]
    compile_seconds: float

    @property
    def min(self) -> float:
        """The shortest time of a run in seconds."""
        return min(self.samples)

    @property
    def median(self) -> float:
        """The median time of a run in seconds."""
        return median(self.samples)

    @property
    def mean(self) -> float:
        """The mean time of a run in seconds."""
        return fmean(self.samples)

    @property
    def threads(self) -> int:
        """The largest number of threads of a partition."""
        counts = [partition.threads for partition in self.model.report().partitions if partition.threads is not None]
        return max((count or get_num_threads() or 1 for count in counts), default=1)


def bench(
    graph: Graph,
    inputs: Mapping[str, Array],
    variants: Sequence[Variant],
    *,
    seconds: float = 3.0,
    runs: int = 10_000,
    in_place: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[Measurement]:
    """Time every variant of a graph in turn, in rounds, so that other load affects all variants alike.

    A run uses arrays that are bound beforehand, and is timed in C as in benchdnn; calling ``BoundRun.run`` takes 0.1 to
    0.2 us more. If numpy runs a part of the graph, the run is timed in Python. If a shape depends on data, no arrays
    can be bound, and a call of the executable is timed.

    Inputs that the file of the graph marks as constant are constants here, as in benchdnn: the library prepares weights
    once, and the executables do not take them as inputs.

    Args:
        graph: the graph.
        inputs: an array for each input, by name.
        variants: the options to time; the others are compared with the first.
        seconds: time to measure all variants together.
        runs: maximum number of runs of a variant.
        in_place: True writes results over inputs where the library allows it, as benchdnn does. This saves memory, and
            the values change from run to run.
        progress: called with the number of rounds done and their total.

    Raises:
        ArgumentError: an array does not fit its input, an array is read-only but a result would overwrite it, or an
            option is wrong.
        UnsupportedError: ``fallback`` is False, and the library does not run the whole graph.
    """
    variants = as_list("variants", variants, Variant)
    if not variants:
        raise ArgumentError("variants: []; expected one or more")
    length = number("seconds", seconds, 0, MAX_SECONDS)
    runs = integer("runs", runs, 1, 2**31 - 1)
    flag("in_place", in_place)
    tell = callback("progress", progress)
    graph, inputs = with_known(graph, inputs)
    compiled: list[tuple[Executable, Sampler, float]] = []
    for variant in variants:
        start = perf_counter_ns()
        model = graph.compile(
            policy=variant.policy,
            fpmath_mode=variant.fpmath_mode,
            threads=variant.threads,
            fallback=variant.fallback,
            reproducible=variant.reproducible,
            finite_math=variant.finite_math,
        )
        took = (perf_counter_ns() - start) * 1e-9
        sampler = _sampler(model, inputs, in_place)
        sampler(0, 1)
        compiled.append((model, sampler, took))
    samples = [array("q") for _ in variants]
    share, most = int(length * 1e9 / (ROUNDS * len(variants))), -(-runs // ROUNDS)
    for done in range(ROUNDS):
        tell(done, ROUNDS)
        for (_, sampler, _), taken in zip(compiled, samples, strict=True):
            taken.extend(sampler(share, min(most, runs - len(taken))))
    tell(ROUNDS, ROUNDS)
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
    assert isinstance(bound, BoundRun)  # as no input is a Cache
    if in_place:
        bound._lay_upon_inputs()
    return bound._sample
