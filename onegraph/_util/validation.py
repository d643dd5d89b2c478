"""Checks single arguments: each function returns the value, or raises ArgumentError that names the allowed values.

``name`` is always the argument's name in the message. ``expected``, where a function takes it, replaces the standard
description of the allowed values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec

from ..errors import ArgumentError, shown
from .exact_types import elements, entries, has_type, real, text, whole

Given = ParamSpec("Given")


def choice(name: str, value: object, allowed: Sequence[str]) -> str:
    """``value``, which must be one of the strings in ``allowed``.

    Raises:
        ArgumentError: ``value`` is not one of them.
    """
    word = text(value)
    chosen = [one for one in allowed if one == word]
    if not chosen:
        raise ArgumentError(f"{name}: {shown(value)}; expected one of {', '.join(map(repr, allowed))}")
    return chosen[0]


def string(name: str, value: object, expected: str = "a string") -> str:
    """``value`` as a plain ``str``.

    Raises:
        ArgumentError: ``value`` is not a string.
    """
    word = text(value)
    if word is None:
        raise ArgumentError(f"{name}: {shown(value)}; expected {expected}")
    return word


def flag(name: str, value: object) -> bool:
    """``value``, which must be True or False.

    Raises:
        ArgumentError: ``value`` is not a bool.
    """
    if not has_type(value, bool):
        raise ArgumentError(f"{name}: {shown(value)}; expected True or False")
    return value


def expect(name: str, value: object, kind: type, expected: str = "") -> None:
    """Raise ArgumentError unless ``value`` is a ``kind``."""
    if not has_type(value, kind):
        article = "an" if kind.__name__[0] in "AEIO" else "a"
        raise ArgumentError(f"{name}: {shown(value)}; expected {expected or f'{article} {kind.__name__}'}")


def function(name: str, value: object) -> None:
    """Raise ArgumentError unless ``value`` can be called."""
    if not callable(value):
        raise ArgumentError(f"{name}: {shown(value)}; expected a function")


def callback(name: str, value: Callable[Given, None] | None) -> Callable[Given, None]:
    """``value``, or a function that does nothing in place of None.

    Raises:
        ArgumentError: ``value`` cannot be called.
    """
    if value is None:
        return _nothing
    function(name, value)
    return value


def _nothing(*_args: object, **_named: object) -> None:
    pass


def as_list(name: str, value: object, kind: type, expected: str = "") -> list[Any]:
    """``value`` as a list of ``kind``.

    Raises:
        ArgumentError: ``value`` is not a list or tuple, or an element is not a ``kind``.
    """
    listed = elements(value)
    if listed is None:
        raise ArgumentError(f"{name}: {shown(value)}; expected {expected or f'a list of {kind.__name__} objects'}")
    for index, element in enumerate(listed):
        expect(f"{name}[{index}]", element, kind)
    return listed


def as_dict(name: str, value: object, expected: str) -> Mapping[Any, Any]:
    """``value`` as a dictionary, with string keys as plain ``str``.

    Raises:
        ArgumentError: ``value`` is not a mapping.
    """
    by_key = entries(value)
    if by_key is None:
        raise ArgumentError(f"{name}: {shown(value)}; expected {expected}")
    return by_key


def integer(name: str, value: object, low: float, high: float, expected: str = "") -> int:
    """``value`` as an integer from ``low`` to ``high``, both included.

    Raises:
        ArgumentError: ``value`` is not an integer, or is out of range.
    """
    whole_number = whole(value)
    if whole_number is None or not low <= whole_number <= high:
        raise ArgumentError(f"{name}: {shown(value)}; expected {expected or f'an integer, {low} to {high}'}")
    return whole_number


def number(name: str, value: object, low: float, high: float) -> float:
    """``value`` as a float from ``low`` to ``high``, both included.

    Raises:
        ArgumentError: ``value`` is not a number, or is out of range.
    """
    real_number = real(value)
    if real_number is None or not low <= real_number <= high:
        raise ArgumentError(f"{name}: {shown(value)}; expected a number, {low} to {high}")
    return real_number


def identifier(name: str, value: object) -> int:
    """``value`` as an id of the library: an unsigned 64-bit integer below ``2**64 - 1``.

    Raises:
        ArgumentError: ``value`` is not such an integer.
    """
    return integer(name, value, 0, 2**64 - 2, "an integer, 0 to 2**64 - 2")
