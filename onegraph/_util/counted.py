"""Writes a number with its noun, and many items as the first one and a number."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Item = TypeVar("Item")

PLURALS = {"axis": "axes", "class": "classes", "index": "indices", "leaf": "leaves", "miss": "misses"}


def counted(number: object, noun: str) -> str:
    """A number with its noun in the singular or plural: ``"1 element"``, ``"2 elements"``."""
    return f"{number} {noun}" if number == 1 else f"{number} {PLURALS.get(noun, f'{noun}s')}"


def alike(items: Iterable[Item], key: Callable[[Item], Hashable]) -> list[list[Item]]:
    """The items with one key together, in the order of the first ones."""
    found: dict[Hashable, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return [*found.values()]


def first_of(items: Iterable[object]) -> str:
    """The first of some texts, and how many others there are: ``"3"``, ``"3 and 2 others"``."""
    first, *more = dict.fromkeys(map(str, items))
    return first + (f" and {counted(len(more), 'other')}" if more else "")


def some_of(names: Iterable[str], most: int = 12) -> str:
    """The first of some names as a text, with dots if there are more of them; ``"none"`` if there is no name."""
    every = [*names]
    return ", ".join([*every[:most], *["..."][: len(every[most:])]]) or "none"
