"""Takes back what a call has added to a graph if the call fails, so that a call that fails changes nothing.

The primitives that add to a graph tell :func:`adds` before they add, and edits put new containers in the place of old
ones by :func:`exchange`. A function that is :func:`atomic` keeps these entries of its thread and graph, and undoes them
in reverse order if it raises an error or is interrupted. What other threads add to the graph meanwhile stays, unless
the graph is edited: an edit is for one thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from .._util.tracebacks import shorten
from ..errors import OneGraphError

Function = TypeVar("Function", bound=Callable[..., Any])
# A dictionary with a key and its value; the ops with an op and None; the numbers of ops with a number and None; or None
# with the attributes that an edit has exchanged.
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
        twin = OpNumbers()
        twin._free, twin._next = [*self._free], self._next
        return twin


def adds(graph: Any, container: Any, key: object, value: object = None) -> None:
    """Tell the function that is :func:`atomic` what is added next: a key of a dictionary, an op, or its number."""
    if _open and (entries := _open.get((threading.get_ident(), id(graph)))) is not None:
        entries.append((container, key, value))


def exchange(graph: Any, attributes: dict[str, Any]) -> None:
    """Set attributes of a graph in one step; the old ones come back if the function that is :func:`atomic` fails.

    Containers are new objects, so that what was added to the old ones before can still be taken back.
    """
    adds(graph, None, {name: getattr(graph, name) for name in attributes})
    vars(graph).update(attributes)


def atomic(function: Function) -> Function:
    """A decorator for a function that adds to a graph, all of it or nothing.

    The graph is the argument ``graph`` of the function, or its first one. Calls of one thread may be nested. No call of
    a function follows the last step, so that an interrupt cannot fall between it and the end.
    """
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    place = names.index("graph") if "graph" in names else 0

    @wraps(function)
    def whole(*args: Any, **kwargs: Any) -> Any:
        graph = args[place] if len(args) > place else kwargs.get(names[place])
        key = threading.get_ident(), id(graph)
        outer = _open.get(key)
        entries = [] if outer is None else outer
        mark = len(entries)
        try:
            if outer is None:
                _open[key] = entries
            result = function(*args, **kwargs)
            if outer is None:
                del _open[key]
            return result
        except BaseException as error:
            _take_back(graph, entries, mark)
            if outer is None:
                _open.pop(key, None)
                if isinstance(error, OneGraphError):
                    shorten(error)
            raise error

    return cast("Function", whole)


def _take_back(graph: Any, entries: list[Entry], mark: int) -> None:
    """Remove from a graph what the entries behind the first ``mark`` ones have added."""
    numbers = []
    while len(entries) > mark:
        container, key, value = entries.pop()
        if container is None:
            vars(graph).update(key)
        elif type(key) is int and value is None:
            numbers.append(key)
        elif value is None:
            ops = graph._ops  # may be another list since, in another order
            place = next((at for at in range(len(ops) - 1, -1, -1) if ops[at] is key), None)
            if place is not None:
                del ops[place]
        elif container.get(key) is value:
            del container[key]
    if numbers:
        graph._op_ids.give_back(numbers)
