"""What a value really is, whatever its class claims: mocks and proxies name other classes, and subclasses may lie."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from itertools import islice
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

MAX_LENGTH = 2**20
Element = TypeVar("Element")

if TYPE_CHECKING:
    from builtins import isinstance as isinstance
else:

    def isinstance(value: object, kinds: Any) -> bool:
        """Whether the class of ``value`` is one of ``kinds`` or derived from one; its ``__class__`` is not asked."""
        kind = type(value)
        return kind is kinds or issubclass(kind, kinds)


def whole(value: object) -> int | None:
    """The number that an int or an integer of numpy is; None for all else, so for bools and spans of time."""
    if type(value) is int:
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64)):
        return operator.index(value)
    return None


def real(value: object) -> float | None:
    """The float that a number is, infinite where it is too large; None for all else, bools and spans of time."""
    if not isinstance(value, Real) or isinstance(value, (bool, np.timedelta64)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def listed(value: Iterable[Element]) -> list[Element]:
    """The elements of a list, asked for once; of one that has no end, or says so, some more than anybody takes."""
    if type(value) in (list, tuple):
        return [*value]
    return [*islice(value, MAX_LENGTH + 1)]


def text(value: object) -> str | None:
    """The characters of a string without its class, which may compare in its own way; None for all else."""
    if type(value) is str:
        return value
    return str.__str__(value) if isinstance(value, str) else None
