"""Keeps what is compiled for the sizes of inputs."""

from __future__ import annotations

import threading
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from torch._dynamo.convert_frame import compile_lock

Function = Callable[..., Any]
MANY = (
    "onegraph: the inputs of a compiled model had {count} combinations of sizes, and the graphs of the last {capacity} "
    "are kept. A call with any other combination compiles again. Compile with options={{'cache_capacity': {more}}} to "
    "keep more of them, or pad the inputs to fewer sizes; onegraph.torch.stats() counts the compilations."
)


class Work:
    """What was compiled for a captured graph.

    Attributes:
        compilations: number of compiled graphs: one for each part and combination of sizes.
        dropped: number of compiled graphs that were dropped, because there were more sizes than are kept.
        reused: number of combinations of sizes that have the steps for another one.
        reason: why the last compilation cannot serve other sizes; empty if it can.
        counts: the compilations for marked sizes, by the shapes of the inputs, as text.
    """

    def __init__(self) -> None:
        self.compilations = self.dropped = self.reused = 0
        self.reason = ""
        self.counts = Counter[str]()

    def add(self, given: Sequence[Any]) -> None:
        """Count a compilation for the sizes of these inputs."""
        self.counts[", ".join([str(tuple(one.shape)) if hasattr(one, "shape") else str(one) for one in given])] += 1

    def drop(self, count: int, capacity: int) -> None:
        """Count dropped graphs, and warn of the first."""
        is_first, self.dropped = not self.dropped, self.dropped + count
        if is_first:
            text = MANY.format(count=len(self.counts), capacity=capacity, more=4 * capacity)
            warnings.warn(text, stacklevel=4)


class BySizes:
    """A function that is compiled for each combination of sizes.

    Args:
        compiled: compiles for inputs of these sizes.
        capacity: number of functions that are kept.
        work: where compilations are counted.
    """

    def __init__(self, compiled: Callable[[Sequence[Any]], Function], capacity: int, work: Work) -> None:
        self.compiled, self.capacity, self.work = compiled, capacity, work
        self._kept: OrderedDict[tuple[Any, ...], Function] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, *given: Any) -> Any:
        """Run for these inputs."""
        key = tuple([one if type(one) in (int, float, bool) else (one.shape, one.stride()) for one in given])
        return (self._found(key) or self._made(key, given))(*given)

    def _found(self, key: tuple[Any, ...]) -> Function | None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def _made(self, key: tuple[Any, ...], given: Sequence[Any]) -> Function:
        with compile_lock:  # tracing changes settings of all threads
            made = self._found(key)
            if made is not None:
                return made
            made = self.compiled(given)
            self.work.add(given)
            with self._lock:
                self._kept[key] = made
                dropped = [self._kept.popitem(last=False) for _ in range(len(self._kept) - self.capacity)]
        if dropped:
            self.work.drop(len(dropped), self.capacity)
        return made


__all__ = ["BySizes", "Work"]
