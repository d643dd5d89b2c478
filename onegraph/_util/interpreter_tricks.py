"""Collects every trick of the package that relies on how CPython works, each with its reason."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import fields, make_dataclass
from typing import Any, TypeVar

try:
    # Why: hashlib loads OpenSSL, which takes 3 ms and 3 MB. How: blake2b is code of CPython, in a module of its own.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

__all__ = ["Counter", "blake2b", "is_held", "is_only_view", "read_slot_through", "record_maker", "written_function"]

Record = TypeVar("Record")


def record_maker(frozen: type[Record]) -> Callable[..., Record]:
    """A function that creates records of a frozen dataclass from all field values, without ``__post_init__``.

    Why: a frozen dataclass sets its fields with ``object.__setattr__``, which is the slowest part of building a graph.
    How: the fields are set on an object of an unfrozen class with the same layout; then its ``__class__`` is changed to
    the frozen class.
    """
    names = [field.name for field in fields(frozen)]  # type: ignore[arg-type]
    thawed = make_dataclass(frozen.__name__, names, bases=frozen.__bases__, repr=False, eq=False, slots=True)

    def make(*values: object) -> Record:
        record: Record = thawed(*values)
        record.__class__ = frozen
        return record

    return make


def read_slot_through(record: type[Record], name: str, read: Callable[[Any], Any]) -> Callable[[Record], Any]:
    """Make reads of slot ``name`` return ``read(stored value)``; returns a function that reads the stored value.

    Why: a dataclass with slots cannot have a property with the name of a field. How: the property replaces the slot
    descriptor after the class is created.
    """
    slot = vars(record)[name]
    stored: Callable[[Record], Any] = slot.__get__
    setattr(record, name, property(lambda self: read(stored(self)), slot.__set__))
    return stored


class Counter:
    """A counter that threads and signal handlers can increment without a lock.

    Why: ``count += 1`` is several interpreter steps, so another thread may increment in between; and a signal handler
    may have interrupted the code that holds the lock. How: ``itertools.count`` increments in one step. The number is
    read from its ``repr``, the only way to read it without incrementing.
    """

    __slots__ = ("_count", "tick")

    def __init__(self) -> None:
        self._count = itertools.count()
        self.tick: Callable[[], int] = self._count.__next__

    def read(self) -> int:
        """Number of calls of ``tick`` so far."""
        return int(repr(self._count).removeprefix("count(").removesuffix(")"))


def is_held(lock: threading.RLock) -> bool:
    """Whether any thread holds the lock, the calling thread included.

    Why: ``RLock.locked`` needs Python 3.14. How: the ``repr`` of a lock starts with its state in every version.
    """
    return repr(lock).startswith("<locked")


def written_function(parameters: Sequence[str], result: str) -> Callable[..., Any]:
    """Compile a function of ``parameters`` that returns the expression ``result``. Never pass text from a user.

    Why: every call of a graph with unknown shapes computes a cache key; an expression with one name for each input
    takes half the time of a loop over the inputs. How: the source of a lambda is evaluated once.
    """
    function: Callable[..., Any] = eval(f"lambda {', '.join(parameters)}: {result}")  # only called with our own text
    return function


def is_only_view(view: Any, more: int = 0) -> bool:
    """Whether the ``base`` of an object has no other reference than this one, and so many more that the caller knows.

    Why: memory that other arrays refer to must not change. How: CPython counts references. What the question itself
    adds is counted once, for an object that is known to have no other reference.
    """
    return sys.getrefcount(view.base) == _ALONE + more


class _View:
    def __init__(self) -> None:
        self.base = object()


_ALONE = 0
_ALONE = next(count for count in range(1, 9) if is_only_view(_View(), count))
