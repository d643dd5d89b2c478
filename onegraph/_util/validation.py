"""Checks of single arguments: each returns what it was given, or says what was expected instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ArgumentError, shown
from .exact_types import isinstance, listed, text, whole


def choice(name: str, value: object, allowed: Sequence[str]) -> str:
    """``value``, which must be one of ``allowed``.

    Raises:
        ArgumentError: it is not.
    """
    word = text(value)
    if word is None or word not in allowed:
        raise ArgumentError(f"{name}: {shown(value)}; expected one of {', '.join(map(repr, allowed))}")
    return word


def flag(name: str, value: object) -> bool:
    """``value``, which must be True or False.

    Raises:
        ArgumentError: it is something else.
    """
    if not isinstance(value, bool):
        raise ArgumentError(f"{name}: {shown(value)}; expected True or False")
    return value


def expect(name: str, value: object, kind: type) -> None:
    """Raise ArgumentError unless ``value`` is a ``kind``."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIO" else "a"
        raise ArgumentError(f"{name}: {shown(value)}; expected {article} {kind.__name__}")


def function(name: str, value: object) -> None:
    """Raise ArgumentError unless ``value`` can be called."""
    if not callable(value):
        raise ArgumentError(f"{name}: {shown(value)}; expected a function")


def as_list(name: str, value: object, kind: type) -> list[Any]:
    """``value`` as a list of ``kind``.

    Raises:
        ArgumentError: it is no list or tuple, or holds something else.
    """
    if not isinstance(value, (list, tuple)):
        raise ArgumentError(f"{name}: {shown(value)}; expected a list of {kind.__name__} objects")
    elements = listed(value)
    for index, element in enumerate(elements):
        expect(f"{name}[{index}]", element, kind)
    return elements


def integer(name: str, value: object, low: int, high: int, expected: str = "") -> int:
    """``value`` as an integer from ``low`` to ``high``; ``expected`` says this in other words.

    Raises:
        ArgumentError: it is none, or out of range.
    """
    number = whole(value)
    if number is None or not low <= number <= high:
        raise ArgumentError(f"{name}: {shown(value)}; expected {expected or f'an integer, {low} to {high}'}")
    return number


def identifier(name: str, value: object) -> int:
    """``value`` as an id: an integer of 64 bits without sign, and not the largest of them.

    Raises:
        ArgumentError: it is none.
    """
    return integer(name, value, 0, 2**64 - 2, "an integer, 0 to 2**64 - 2")
