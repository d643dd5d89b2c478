"""Converts values from users into plain Python values, by their real type (``type(value)``, not ``__class__``).

Mocks report a false ``__class__``, and subclasses may change how a value compares or prints.

Only modules that receive values directly from users import this one. All other modules receive plain values and trust
them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from itertools import islice
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .open_sizes import OpenSize, is_whole

__all__ = ["elements", "entries", "has_type", "listed", "plain", "real", "text", "whole"]
MAX_LENGTH = 2**20
PLAIN = frozenset([bool, int, float, str, OpenSize])
NOT_PLAIN = object()  # result of ``plain`` for a value that no attribute can take
Element = TypeVar("Element")

if TYPE_CHECKING:
    from builtins import isinstance as has_type
else:

    def has_type(value: object, kinds: Any) -> bool:
        """Whether ``type(value)`` is one of ``kinds`` or a subclass of one; ``__class__`` is ignored."""
        kind = type(value)
        return kind is kinds or issubclass(kind, kinds)


def whole(value: object) -> int | None:
    """An int or numpy integer as an int; None for any other value, also for bool and timedelta64."""
    if is_whole(value):
        return value
    if has_type(value, (int, np.integer)) and not has_type(value, (bool, np.timedelta64)):
        return operator.index(value)
    return None


def real(value: object) -> float | None:
    """A real number as a float, infinite if it is beyond all floats; None for others, also bool and timedelta64."""
    if not has_type(value, Real) or has_type(value, (bool, np.timedelta64)):
        return None
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf


def text(value: object) -> str | None:
    """A string as a plain ``str``, because a subclass may compare differently; None for any other value."""
    if type(value) is str:
        return value
    return str.__str__(value) if has_type(value, str) else None


def listed(value: Iterable[Element]) -> list[Element]:
    """The elements of an iterable, read in one pass; at most ``MAX_LENGTH + 1``, because a subclass may be endless."""
    if type(value) in (list, tuple):
        return [*value]
    return [*islice(value, MAX_LENGTH + 1)]


def elements(value: object) -> list[Any] | None:
    """The elements of a list or tuple, read in one pass; None for any other value."""
    return listed(value) if has_type(value, (list, tuple)) else None


def entries(value: object) -> dict[Any, Any] | None:
    """The entries of a mapping, read in one pass, with string keys as plain ``str``; None for any other value."""
    if type(value) is dict:
        pairs = [*value.items()]
    elif has_type(value, Mapping):
        pairs = listed(value.items())
    else:
        return None
    try:
        return {key if (word := text(key)) is None else word: element for key, element in pairs}
    except TypeError:  # a key is not hashable
        return None


def plain(value: object) -> object:
    """Convert a number, a string, or a flat sequence of them to a plain int, float, bool, str or list.

    Scalars of numpy and ml_dtypes become numbers, bytes become strings, and a range, a tuple or an array of one axis
    becomes a list. An array of more axes stays an array, and a numpy float wider than Python's float stays unchanged.
    Any other value becomes ``NOT_PLAIN``. At most ``MAX_LENGTH + 1`` elements of a list are read.
    """
    if type(value) in PLAIN:
        return value
    if has_type(value, np.ndarray):
        array = np.asarray(value)
        if array.ndim > 1:
            return array
        return [*map(_plain_scalar, array)] if array.ndim else _plain_scalar(array[()])
    if has_type(value, (list, tuple, range)):
        return [element if type(element) in PLAIN else _plain_scalar(element) for element in listed(value)]
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> object:
    if has_type(value, np.ndarray):
        value = np.asarray(value)[()]
    if has_type(value, np.generic) and value.dtype.kind == "V":
        value = value.item()  # a scalar of ml_dtypes, which is not a number class of numpy
    if has_type(value, (bool, np.bool_)):
        return bool(value)
    if has_type(value, (bytes, np.bytes_)):
        return bytes(value).decode("ascii", "replace")
    if (number := whole(value)) is not None:
        return number
    if has_type(value, np.longdouble):  # which has more digits than a Python float
        return value
    if has_type(value, (float, np.floating)):
        return float(value)
    word = text(value)
    return NOT_PLAIN if word is None else word
