"""Runs a graph on samples and records the ranges of tensors inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .._util.counted import counted
from .._util.exact_types import elements, entries
from ..arrays.ndarrays import is_numpy
from ..builder.chosen_outputs import returning
from ..errors import ArgumentError, shown
from ..graph import Graph
from ..ir.op import Array, LogicalTensor

BINS = 2048  # of a histogram


class NumberRange:
    """The numbers of a tensor over all samples.

    Attributes:
        low, high: the smallest and the largest number.
        square: the sum of the squares.
        count: of the numbers.
    """

    def __init__(self) -> None:
        self.low, self.high, self.square, self.count = np.inf, -np.inf, 0.0, 0
        self._bins: Array | None = None

    def widen(self, numbers: Array) -> None:
        """Take numbers into the range."""
        if numbers.size:
            self.low, self.high = min(self.low, float(numbers.min())), max(self.high, float(numbers.max()))
            self.square += float(np.square(numbers, dtype=np.float64).sum())
            self.count += numbers.size

    def fill(self, numbers: Array) -> None:
        """Take numbers, which lie in the range, into the histogram."""
        bins, _ = np.histogram(numbers, BINS, (self.low, max(self.high, self.low + 1e-30)))
        self._bins = bins if self._bins is None else self._bins + bins

    def inner(self, percentile: float) -> tuple[float, float]:
        """The range without the outermost numbers: those above the percentile at each end that is not 0."""
        if self._bins is None:
            return self.low, self.high
        share = np.cumsum(self._bins) / self._bins.sum()
        edges = np.linspace(self.low, self.high, BINS + 1)
        beyond = 1 - percentile / 100
        low = edges[np.searchsorted(share, beyond, side="right")] if self.low < 0 else self.low
        high = edges[min(int(np.searchsorted(share, 1 - beyond)) + 1, BINS)] if self.high > 0 else self.high
        return float(low), float(high)


def ranges(
    graph: Graph, tensors: Sequence[LogicalTensor], samples: Iterable[object], *, histograms: bool
) -> dict[int, NumberRange]:
    """The ranges of tensors over samples, by the id of the tensor.

    Args:
        graph: the graph.
        tensors: what to observe: inputs and results of ops.
        samples: the inputs of calls: dictionaries by name, tuples, or single arrays.
        histograms: whether the samples are run twice, the second time for histograms.

    Raises:
        ArgumentError: there is no sample, one does not fit, or a number of a tensor is NaN or infinite; or a tensor has
            no elements.
    """
    feeds = [_feed(graph, f"samples[{index}]", sample) for index, sample in enumerate(_listed(samples))]
    inside = [tensor for tensor in tensors if all(tensor is not own for own in graph.inputs.values())]
    ranges_by_id = {tensor.id: NumberRange() for tensor in tensors}
    model = Graph.compile(returning(graph, inside)) if inside else None
    for step in (NumberRange.widen, NumberRange.fill) if histograms else (NumberRange.widen,):
        for index, feed in enumerate(feeds):
            results: Any = () if model is None else model(**feed)
            arrays = [results] if is_numpy(results) else [*results]
            for tensor, array in (*zip(inside, arrays, strict=True), *_given(graph, tensors, feed)):
                numbers = np.asarray(array, np.float32)
                if not np.isfinite(numbers).all():
                    raise ArgumentError(
                        f"samples[{index}]: {tensor.name!r} has NaN or infinities; expected samples with finite numbers"
                    )
                step(ranges_by_id[tensor.id], numbers)
        if empty := [tensor.name for tensor in tensors if not ranges_by_id[tensor.id].count]:
            raise ArgumentError(f"samples: {empty[0]!r} has no elements in any of them; expected some")
    return ranges_by_id


def _given(
    graph: Graph, tensors: Sequence[LogicalTensor], feed: Mapping[str, Array]
) -> list[tuple[LogicalTensor, Array]]:
    """The observed inputs with their arrays."""
    wanted = {tensor.id for tensor in tensors}
    return [(tensor, feed[name]) for name, tensor in graph.inputs.items() if tensor.id in wanted]


def _listed(samples: object) -> list[object]:
    """The samples; ArgumentError if there are none."""
    expected = "expected a list of the inputs of calls, such as [x1, x2]"
    if is_numpy(samples) or entries(samples) is not None:
        raise ArgumentError(f"samples: {shown(samples)}; {expected}")
    try:
        listed = [*samples]  # type: ignore[misc]
    except TypeError:
        raise ArgumentError(f"samples: {shown(samples)}; {expected}") from None
    if not listed:
        raise ArgumentError("samples: none; expected the inputs of one call at least")
    return listed


def _feed(graph: Graph, where: str, sample: object) -> dict[str, Array]:
    """The arrays of a sample by name of the input."""
    names = [*graph.inputs]
    named = entries(sample)
    if named is None:
        several = None if is_numpy(sample) else elements(sample)
        arrays = [sample] if several is None else several
        if len(arrays) != len(names):
            raise ArgumentError(
                f"{where}: {counted(len(arrays), 'array')}; expected one for each of {', '.join(names)}"
            )
        named = dict(zip(names, arrays, strict=True))
    if missing := [name for name in names if name not in named]:
        raise ArgumentError(f"{where}: no array for {', '.join(missing)}; expected one for each of {', '.join(names)}")
    return {name: named[name] for name in names}
