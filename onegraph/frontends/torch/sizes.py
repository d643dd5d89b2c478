"""Keeps what is compiled for the sizes of inputs, and lets PyTorch answer meanwhile."""

from __future__ import annotations

import os
import threading
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from torch._dynamo.convert_frame import compile_lock

from ...capi.threads import ThreadCount

Function = Callable[..., Any]
MANY = (
    "onegraph: the inputs of a compiled model had {count} combinations of sizes, and the graphs of the last {capacity} "
    "are kept. A call with any other combination compiles again. Compile with options={{'cache_capacity': {more}}} to "
    "keep more of them, or pad the inputs to fewer sizes; onegraph.torch.stats() counts the compilations."
)

NAME = "onegraph: new sizes"


def is_background() -> bool:
    """Whether the calling thread compiles while PyTorch answers."""
    return threading.current_thread().name == NAME


class Work:
    """What was compiled for a captured graph.

    Attributes:
        compilations: number of compiled graphs: one for each part and combination of sizes.
        dropped: number of compiled graphs that were dropped, because there were more sizes than are kept.
        reused: number of combinations of sizes that have the steps for another one.
        answered: number of calls that PyTorch answered because their sizes were new.
        reason: why the last compilation cannot serve other sizes; empty if it can.
        counts: the compilations for marked sizes, by the shapes of the inputs, as text.
    """

    def __init__(self) -> None:
        self.compilations = self.dropped = self.reused = self.answered = 0
        self.reason = ""
        self.counts = Counter[str]()

    def add(self, arguments: Sequence[Any]) -> None:
        """Count a compilation for the sizes of these inputs."""
        self.counts[", ".join([str(tuple(one.shape)) if hasattr(one, "shape") else str(one) for one in arguments])] += 1

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
        eager: answers calls of new sizes while a thread compiles; None lets them wait.
    """

    def __init__(
        self,
        compiled: Callable[[Sequence[Any]], Function],
        capacity: int,
        work: Work,
        eager: Function | None = None,
    ) -> None:
        self.compiled, self.capacity, self.work, self.eager = compiled, capacity, work, eager
        self._kept: OrderedDict[tuple[Any, ...], Function] = OrderedDict()
        self._lock = threading.Lock()
        self._busy = 0  # the process in which a thread compiles
        self._failed: set[tuple[Any, ...]] = set()  # keys for which a thread could not compile

    def run(self, *arguments: Any) -> Any:
        """Run for these inputs."""
        key = tuple([one if type(one) in (int, float, bool) else (one.shape, one.stride()) for one in arguments])
        return (self._found(key) or self._meanwhile(key, arguments) or self._made(key, arguments))(*arguments)

    def _meanwhile(self, key: tuple[Any, ...], arguments: Sequence[Any]) -> Function | None:
        """PyTorch's answer, while a thread compiles for this key or another one; None if calls of the key wait."""
        if self.eager is None:
            return None
        with self._lock:
            if key in self._failed:
                return None
            self.work.answered += 1
            if self._busy != os.getpid():  # a fork leaves the thread behind
                self._busy, count = os.getpid(), ThreadCount().before
                threading.Thread(target=self._make, args=(key, arguments, count), name=NAME).start()
        return self.eager

    def _make(self, key: tuple[Any, ...], arguments: Sequence[Any], count: int) -> None:
        """Compile with so many threads of the library. After an error, the next call with these sizes raises it."""
        try:
            ThreadCount().use(count)
            self._made(key, arguments)
        except Exception:
            self._failed.add(key)
        finally:
            self._busy = 0

    def _found(self, key: tuple[Any, ...]) -> Function | None:
        with self._lock:
            function = self._kept.get(key)
            if function is not None:
                self._kept.move_to_end(key)
            return function

    def _made(self, key: tuple[Any, ...], arguments: Sequence[Any]) -> Function:
        with compile_lock:  # tracing changes settings of all threads
            made = self._found(key)
            if made is not None:
                return made
            made = self.compiled(arguments)
            self.work.add(arguments)
            with self._lock:
                self._kept[key] = made
                dropped = [self._kept.popitem(last=False) for _ in range(len(self._kept) - self.capacity)]
        if dropped:
            self.work.drop(len(dropped), self.capacity)
        return made


__all__ = ["BySizes", "Work", "is_background"]
