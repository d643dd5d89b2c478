"""Takes back what a call has added to a graph if the call fails, so that a call that fails changes nothing.

The primitives that add to a graph tell :func:`adds` before they add. A transaction of the same thread and graph keeps
these entries, and removes them in reverse order if its block raises an error or is interrupted. What other threads add
to the graph meanwhile stays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from .tensors import GraphTensors

Function = TypeVar("Function", bound=Callable[..., Any])
# A dictionary with a key and its value; the ops with an op and None; or the numbers of ops with a number and None.
Entry = tuple[Any, Any, Any]
_open: dict[tuple[int, int], list[Entry]] = {}  # by thread and graph


class OpNumbers:
    """The numbers of ops: each once, those that a transaction gave back first."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._next = 0

    def __next__(self) -> int:
        return self._free.pop(0) if self._free else self._count()

    def _count(self) -> int:
        self._next += 1
        return self._next - 1

    def give_back(self, numbers: list[int]) -> None:
        """Give numbers out again."""
        self._free = sorted({*self._free, *numbers})

    def copy(self) -> OpNumbers:
        """Numbers that go on in the same way."""
        other = OpNumbers()
        other._free, other._next = [*self._free], self._next
        return other


def adds(graph: GraphTensors, container: Any, key: object, value: object = None) -> None:
    """Tell the open transaction what is added next: a key of a dictionary, an op, or the number of one."""
    if _open and (entries := _open.get((threading.get_ident(), id(graph)))) is not None:
        entries.append((container, key, value))


class Transaction:
    """A block that changes a graph as a whole or not at all; blocks of one thread may be nested."""

    __slots__ = ("_entries", "_graph", "_is_outer", "_key", "_mark")

    def __init__(self, graph: GraphTensors) -> None:
        self._graph, self._key = graph, (threading.get_ident(), id(graph))

    def __enter__(self) -> None:
        entries = _open.get(self._key)
        self._is_outer = entries is None
        self._entries = _open.setdefault(self._key, []) if entries is None else entries
        self._mark = len(self._entries)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is not None:
                self._take_back()
        finally:
            if self._is_outer:
                _open.pop(self._key, None)

    def _take_back(self) -> None:
        numbers = []
        while len(self._entries) > self._mark:
            container, key, value = self._entries.pop()
            if type(key) is int and value is None:
                numbers.append(key)
            elif value is None:
                container = self._graph._ops  # its ops may have been put in another order since
                place = next((at for at in range(len(container) - 1, -1, -1) if container[at] is key), None)
                if place is not None:
                    del container[place]
            elif key in container and (container[key] is value or container[key] == value):
                del container[key]
        if numbers:
            self._graph._op_ids.give_back(numbers)


def atomic(function: Function) -> Function:
    """A decorator for a function that adds to a graph, its argument ``graph`` or its first one: all of it or nothing."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    place = names.index("graph") if "graph" in names else 0

    @wraps(function)
    def whole(*args: Any, **kwargs: Any) -> Any:
        graph = args[place] if len(args) > place else kwargs.get(names[place])
        with Transaction(graph):
            return function(*args, **kwargs)

    return cast("Function", whole)
