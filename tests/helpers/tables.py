"""Texts of what stands in the tables of a module: numbers, words, records, and what functions were made with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING
from datetime import timedelta
from enum import Enum
from functools import partial
from pathlib import PurePath
from types import FunctionType
from typing import Any

import numpy as np

from .recorded import numbers_of

PLAIN = (bool, int, float, complex, timedelta, str, bytes, type(None), range, slice)


class Tables:
    """Writes values; one that holds itself is written once.

    A function is written by the numbers it was made with, never by its name or code: what it does has tests of its own.
    """

    def __init__(self) -> None:
        self._around: list[int] = []

    def text(self, value: Any) -> str:
        """A text that says all numbers and words of a value."""
        if isinstance(value, Enum):
            return f"{type(value).__name__}.{value.name}"
        if type(value) in PLAIN:
            return repr(value)
        if isinstance(value, np.ndarray):
            return numbers_of(value)
        if isinstance(value, re.Pattern):
            return repr(value.pattern)
        if isinstance(value, PurePath) or id(value) in self._around:
            return "..."
        self._around.append(id(value))
        try:
            return f"{self._kind(value)}({', '.join(self._parts(value))})"
        finally:
            self._around.pop()

    @staticmethod
    def _kind(value: Any) -> str:
        """The name of a class; all functions are alike, since those of numpy have other types in other versions."""
        if isinstance(value, type):
            return value.__name__
        is_function = callable(value) and not hasattr(value, "__dataclass_fields__")
        return "function" if is_function else type(value).__name__

    def _parts(self, value: Any) -> Iterator[str]:
        match value:
            case tuple() | list():
                yield from map(self.text, value)
            case set() | frozenset():
                yield from sorted(map(self.text, value))
            case Mapping():
                yield from sorted(f"{self.text(key)}: {self.text(one)}" for key, one in value.items())
            case partial():
                yield from map(self.text, (value.args, value.keywords))
            case FunctionType() if str(value.__module__).startswith("onegraph."):
                yield from map(self._content, value.__closure__ or ())
            case _ if not isinstance(value, type):
                for name in getattr(value, "__dataclass_fields__", ()):
                    if not name.startswith("_"):
                        yield f"{name}={self.text(getattr(value, name, MISSING))}"

    def _content(self, cell: Any) -> str:
        try:
            return self.text(cell.cell_contents)
        except ValueError:  # of a function that is not made yet
            return ""
