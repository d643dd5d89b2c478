"""Times an executable for several sizes of its open dims, and says what is compiled for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median
from time import perf_counter_ns

from .._util.records import record
from .._util.validation import as_list, integer, number
from ..errors import ArgumentError
from ..graph import Graph
from ..runtime.bound_run import sample
from ..serialize import with_known
from ..testing.random_inputs import random_inputs
from .bench import MAX_SECONDS, Variant

COMPILED, REUSED, FOUND = "compiled", "reused", "found"


@record(frozen=True)
class SizeMeasurement:
    """The times of one combination of sizes.

    Attributes:
        sizes: of the open dims, by name.
        first: time of the first call in seconds.
        samples: times of the calls after it in seconds.
        made: whether the program was ``compiled`` as a whole, made of the steps for other sizes (``reused``), or
            ``found``, as it had served these sizes before.
        partitions: number of partitions that the library compiled for it.
        reason: why the program cannot serve other sizes; empty if it can.
    """

    sizes: Mapping[str, int]
    first: float
    samples: Sequence[float]
    made: str
    partitions: int
    reason: str

    @property
    def median(self) -> float:
        """The median time of a call after the first one in seconds."""
        return median(self.samples)


def open_dims(graph: Graph) -> dict[str, list[tuple[str, int]]]:
    """The inputs and axes of each unknown dim, by its name: that of an ONNX model, or INPUT:AXIS.

    Raises:
        ArgumentError: the rank of an input is unknown.
    """
    open_axes: dict[str, list[tuple[str, int]]] = {}
    for name, tensor in graph.inputs.items():
        if tensor.shape is None:
            raise ArgumentError(f"input {name!r} has an unknown rank; give it a shape first, as by Graph.specialise")
        names = (graph._dims or {}).get(name) or [""] * len(tensor.shape)
        for axis, (dim, stated) in enumerate(zip(tensor.shape, names, strict=True)):
            if dim is None:
                open_axes.setdefault(stated or f"{name}:{axis}", []).append((name, axis))
    return open_axes


def shapes_at(graph: Graph, sizes: Mapping[str, int]) -> dict[str, tuple[int | None, ...]]:
    """The shapes of all inputs for these sizes of the unknown dims.

    Raises:
        ArgumentError: the graph has no such dim, or a dim has no size.
    """
    places = open_dims(graph)
    expected = f"a size for each unknown dim: {', '.join(map(repr, places)) or 'there is none'}"
    if places.keys() != sizes.keys():
        raise ArgumentError(f"sizes: {dict(sizes)}; expected {expected}")
    shapes = {name: [*(tensor.shape or ())] for name, tensor in graph.inputs.items()}
    for dim, axes_of_dim in places.items():
        for name, axis in axes_of_dim:
            shapes[name][axis] = integer(f"size of {dim!r}", sizes[dim], 0, 2**31 - 1)
    return {name: tuple(shape) for name, shape in shapes.items()}


def bench_sizes(
    graph: Graph,
    sizes: Sequence[Mapping[str, int]],
    variant: Variant | None = None,
    *,
    seconds: float = 3.0,
    runs: int = 10_000,
    seed: int = 0,
) -> list[SizeMeasurement]:
    """Call an executable with random inputs of these sizes, one combination after the other, and time its calls.

    Args:
        graph: a graph with unknown dims.
        sizes: for each combination, the sizes by the names that ``open_dims`` gives.
        variant: the options of the compilation.
        seconds: time to measure the calls after the first ones, of all sizes together.
        runs: maximum number of calls of a size after the first one.
        seed: of the random inputs.

    Raises:
        ArgumentError: a size is missing or wrong, or an option is.
        UnsupportedError: the variant allows no fallback, and the library does not run the whole graph.
    """
    combinations = as_list("sizes", sizes, Mapping)
    if not combinations:
        raise ArgumentError("sizes: []; expected one or more")
    share = int(number("seconds", seconds, 0, MAX_SECONDS) * 1e9 / len(combinations))
    most, chosen = integer("runs", runs, 1, 2**31 - 1), variant or Variant()
    drawn = [random_inputs(graph.specialise(shapes_at(graph, one)), seed) for one in combinations]
    graph, _ = with_known(graph, {name: drawn[0][name] for name in graph.constant_inputs})
    model = graph.compile(**{name: getattr(chosen, name) for name in Variant.__annotations__})
    measurements = []
    for combination, inputs in zip(combinations, drawn, strict=True):
        call = partial(model, *[inputs[name] for name in graph.inputs])
        before, start = model.cache_info(), perf_counter_ns()
        call()
        first, after = (perf_counter_ns() - start) * 1e-9, model.cache_info()
        made = FOUND if after.misses == before.misses else REUSED if after.reused > before.reused else COMPILED
        partitions = after.partitions - before.partitions
        if made == COMPILED:
            partitions = sum(part.executor == "oneDNN" for part in model.report().partitions)
        samples = [nanoseconds * 1e-9 for nanoseconds in sample(call, share, most)]
        measurements.append(
            SizeMeasurement(combination, first, samples, made, partitions, after.reason if made == COMPILED else "")
        )
    return measurements
