"""Writes a number with its noun."""

from __future__ import annotations

PLURALS = {"axis": "axes", "class": "classes", "leaf": "leaves", "miss": "misses"}


def counted(number: object, noun: str) -> str:
    """A number with its noun in the singular or plural: ``"1 element"``, ``"2 elements"``."""
    return f"{number} {noun}" if number == 1 else f"{number} {PLURALS.get(noun, f'{noun}s')}"
