"""Tricks that use how CPython works. Every trick of the package is here, each with the reason for it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import fields, make_dataclass
from typing import Any, TypeVar

Record = TypeVar("Record")


def record_maker(frozen: type[Record]) -> Callable[..., Record]:
    """A function that makes frozen records from the values of all their fields; ``__post_init__`` is not called.

    Why: frozen dataclasses fill their fields by ``object.__setattr__``, which takes longer than all else in building a
    graph. How: the fields are filled while the record is of a class of the same layout that is not frozen, and the
    record gets its real class last.
    """
    names = [field.name for field in fields(frozen)]  # type: ignore[arg-type]
    thawed = make_dataclass(frozen.__name__, names, bases=frozen.__bases__, eq=False, slots=True)

    def make(*values: object) -> Record:
        record: Record = thawed(*values)
        record.__class__ = frozen
        return record

    return make


def read_slot_through(record: type[Record], name: str, read: Callable[[Any], Any]) -> Callable[[Record], Any]:
    """Let readers of a slot get what ``read`` makes of the stored value; returns what reads the stored value itself.

    Why: a dataclass with slots has no place for a property of the name of one of its fields. How: the property is put
    in the place of the slot after the class is made.
    """
    slot = vars(record)[name]
    stored: Callable[[Record], Any] = slot.__get__
    setattr(record, name, property(lambda self: read(stored(self)), slot.__set__))
    return stored


class Counter:
    """A number that threads and signal handlers count up, none of them waiting for another.

    Why: ``count += 1`` is several steps of the interpreter, between which another thread may count, and a lock may be
    held by the code that a signal handler has interrupted. How: ``itertools.count`` counts in one step. The number is
    read from its ``repr``, which is the only way to read it without counting.
    """

    __slots__ = ("_count", "tick")

    def __init__(self) -> None:
        self._count = itertools.count()
        self.tick: Callable[[], int] = self._count.__next__

    def read(self) -> int:
        """How often ``tick`` was called."""
        return int(repr(self._count).removeprefix("count(").removesuffix(")"))


def is_held(lock: threading.RLock) -> bool:
    """Whether any thread holds the lock, the calling thread included.

    Why: ``RLock.locked`` came with Python 3.14. How: the ``repr`` of a lock begins with its state in every version.
    """
    return repr(lock).startswith("<locked")


def written_function(parameters: Sequence[str], result: str) -> Callable[..., Any]:
    """A function of these parameters that returns the value of an expression. Never pass text that a user gave.

    Why: the key of a call with unknown shapes is made in every call; an expression with a name for each input takes
    half the time of a loop over the inputs. How: the source is written out and evaluated once.
    """
    function: Callable[..., Any] = eval(f"lambda {', '.join(parameters)}: {result}")  # the text is ours
    return function
