"""Checks of single arguments: each returns what it was given, or says what was expected instead."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, shown


def choice(name: str, value: object, allowed: Sequence[str]) -> str:
    """``value``, which must be one of ``allowed``.

    Raises:
        ArgumentError: it is not.
    """
    # The text itself is compared and returned: a subclass of str may say of itself what it likes.
    text = str.__str__(value) if isinstance(value, str) else None
    if text is None or text not in allowed:
        raise ArgumentError(f"{name}: {shown(value)}; expected one of {', '.join(map(repr, allowed))}")
    return text


def expect(name: str, value: object, kind: type) -> None:
    """Raise ArgumentError unless ``value`` is a ``kind``; a ``weakref.proxy``, which keeps nothing, only says so."""
    if not issubclass(type(value), kind):
        article = "an" if kind.__name__[0] in "AEIO" else "a"
        raise ArgumentError(f"{name}: {shown(value)}; expected {article} {kind.__name__}")


def as_list(name: str, value: object, kind: type) -> list[Any]:
    """``value`` as a list of ``kind``.

    Raises:
        ArgumentError: it is no list or tuple, or holds something else.
    """
    if not isinstance(value, (list, tuple)):
        raise ArgumentError(f"{name}: {shown(value)}; expected a list of {kind.__name__} objects")
    elements = [*value]
    for index, element in enumerate(elements):
        expect(f"{name}[{index}]", element, kind)
    return elements


def integer(name: str, value: object, low: int, high: int, expected: str = "") -> int:
    """``value`` as an integer from ``low`` to ``high``; ``expected`` says this in other words.

    Raises:
        ArgumentError: it is none, or out of range.
    """
    # The number itself is compared: a subclass of int may say of itself what it likes.
    number = None if isinstance(value, bool) or not isinstance(value, (int, np.integer)) else operator.index(value)
    if number is None or not low <= number <= high:
        raise ArgumentError(f"{name}: {shown(value)}; expected {expected or f'an integer, {low} to {high}'}")
    return number


def identifier(name: str, value: object) -> int:
    """``value`` as an id: an integer of 64 bits without sign, and not the largest of them.

    Raises:
        ArgumentError: it is none.
    """
    return integer(name, value, 0, 2**64 - 2, "an integer, 0 to 2**64 - 2")
