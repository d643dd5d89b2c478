"""The border: values of users become plain values here, by their real type. Mocks and subclasses may lie about theirs.

Only modules that take values straight from users import this one. All others are given plain values and trust them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from itertools import islice
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

__all__ = ["elements", "entries", "has_type", "listed", "plain", "real", "text", "whole"]
MAX_LENGTH = 2**20
FLOAT_BYTES = 8  # of a Python float, which holds every float of numpy that is no longer
PLAIN = frozenset([bool, int, float, str])
NOT_PLAIN = object()  # what ``plain`` makes of all that is no value of an attribute
Element = TypeVar("Element")

if TYPE_CHECKING:
    from builtins import isinstance as has_type
else:

    def has_type(value: object, kinds: Any) -> bool:
        """Whether the type of ``value`` is one of ``kinds`` or derived from one; its ``__class__`` is not asked."""
        kind = type(value)
        return kind is kinds or issubclass(kind, kinds)


def whole(value: object) -> int | None:
    """The number that an int or an integer of numpy is; None for all else, so for bools and spans of time."""
    if type(value) is int:
        return value
    if has_type(value, (int, np.integer)) and not has_type(value, (bool, np.timedelta64)):
        return operator.index(value)
    return None


def real(value: object) -> float | None:
    """The float that a number is, infinite where it is too large; None for all else, bools and spans of time."""
    if not has_type(value, Real) or has_type(value, (bool, np.timedelta64)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def text(value: object) -> str | None:
    """The characters of a string without its class, which may compare in its own way; None for all else."""
    if type(value) is str:
        return value
    return str.__str__(value) if has_type(value, str) else None


def listed(value: Iterable[Element]) -> list[Element]:
    """The elements of a list, asked for once; of one that has no end, or says so, some more than anybody takes."""
    if type(value) in (list, tuple):
        return [*value]
    return [*islice(value, MAX_LENGTH + 1)]


def elements(value: object) -> list[Any] | None:
    """The elements of a list or tuple, asked for once; None for all else."""
    return listed(value) if has_type(value, (list, tuple)) else None


def entries(value: object) -> dict[Any, Any] | None:
    """The entries of a mapping, asked for once, with plain strings for keys that are strings; None for all else."""
    if type(value) is dict:
        pairs = [*value.items()]
    elif has_type(value, Mapping):
        pairs = listed(value.items())
    else:
        return None
    try:
        return {key if (word := text(key)) is None else word: element for key, element in pairs}
    except TypeError:  # keys that no dictionary can have
        return None


def plain(value: object) -> object:
    """A number, a string, or a flat sequence of them as Python's own: int, float, bool, str or list.

    Integers and floats of numpy and ml_dtypes are numbers, bytes are strings, and a range, a tuple or an array of one
    axis is a list. An array of more axes stays an array, and a float longer than Python's stays one of numpy. All else
    is ``NOT_PLAIN``. Of an endless list ``MAX_LENGTH + 1`` elements are taken.
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
    if has_type(value, np.ndarray) and value.ndim == 0:
        value = np.asarray(value)[()]
    if has_type(value, np.generic) and value.dtype.kind == "V" and value.dtype.names is None:
        value = value.item()  # a scalar of ml_dtypes, which numpy does not count among its numbers
    if has_type(value, (bool, np.bool_)):
        return bool(value)
    if has_type(value, (bytes, np.bytes_)):
        return bytes(value).decode("ascii", "replace")
    if (number := whole(value)) is not None:
        return number
    if has_type(value, float) or (has_type(value, np.floating) and value.itemsize <= FLOAT_BYTES):
        return float(value)
    if has_type(value, np.floating):
        return value
    word = text(value)
    return NOT_PLAIN if word is None else word
