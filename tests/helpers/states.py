"""Lines that say what an object of the package knows, and all objects that it refers to: their attributes by name."""

from __future__ import annotations

import types
import weakref
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import partial
from itertools import count
from pathlib import PurePath
from typing import Any

import numpy as np

from onegraph._util.open_sizes import OpenSize

PLAIN = (bool, complex, str, type(None), range, slice)
LONGEST = 1 << 22  # no program lies below; larger numbers may be addresses, which differ from process to process
# What time and the machine decide.
OTHERS = {"times", "used", "share", "threads", "_busy", "clock", "number"}
# What has records of its own: the specification, and the graph that was compiled.
KNOWN = ("onegraph.opset", "onegraph.builder", "onegraph.ir", "onegraph.errors")


class States:
    """Writes objects, each with a number of its own. Arrays are written without their contents."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._waiting: list[Any] = []
        self._count = count()

    def lines(self, whole: object) -> Iterator[str]:
        """A line for each attribute of an object, and of all objects of the package behind it."""
        self.text(whole)
        while self._waiting:
            one = self._waiting.pop()
            for name in sorted(names_of(one) - OTHERS):
                try:
                    value = getattr(one, name)
                except AttributeError:
                    continue
                yield f"{self._numbers[id(one)]} {type(one).__name__}.{name} = {self.text(value)}"

    def text(self, value: Any) -> str:
        """A text that says what a value is; an object of the package by its number."""
        match value:
            case Enum():
                return f"{type(value).__name__}.{value.name}"
            case _ if type(value) in PLAIN:
                return repr(value)
            case bytes():  # a digest, which may have a secret of the process in it
                return f"{len(value)} bytes"
            case OpenSize():
                return f"size {value!r}"
            case int() if abs(value) < LONGEST:
                return str(int(value))
            case np.ndarray():
                return f"array {value.dtype} {value.shape} {value.strides} {value.flags.writeable}"
            case tuple() | list():
                return f"{type(value).__name__}({', '.join(map(self.text, value))})"
            case set() | frozenset():
                return f"{type(value).__name__}({', '.join(sorted(map(self.text, value)))})"
            case Mapping():
                return f"{{{', '.join(f'{self.text(key)}: {self.text(one)}' for key, one in value.items())}}}"
            case partial():
                return f"partial{self.text((value.func, value.args, value.keywords))}"
            case types.MethodType():
                return f"method {value.__func__.__qualname__} of {self.text(value.__self__)}"
            case types.FunctionType():
                return f"function {value.__name__}({', '.join(map(self._content, value.__closure__ or ()))})"
            case weakref.ref():
                return f"reference to {self.text(value())}"
            case count():
                return repr(value)
        return self._of_object(value)

    def _of_object(self, value: Any) -> str:
        kind = type(value)
        if kind.__module__.startswith("_cffi"):
            return "C"
        if isinstance(value, (type, PurePath)) or not kind.__module__.startswith("onegraph.") or callable_of_c(kind):
            return kind.__name__
        if kind.__module__.startswith(KNOWN):
            return f"{kind.__name__} {getattr(value, 'name', '')}"
        if id(value) not in self._numbers:
            self._numbers[id(value)] = next(self._count)
            self._waiting.append(value)
        return f"{kind.__name__} {self._numbers[id(value)]}"

    def _content(self, cell: Any) -> str:
        try:
            return self.text(cell.cell_contents)
        except ValueError:  # of a function that is not made yet
            return ""


def callable_of_c(kind: type) -> bool:
    """Whether a class has no attributes in Python."""
    return not names_of_class(kind) and not hasattr(kind, "__dict__")


def names_of_class(kind: type) -> set[str]:
    """The names in the slots of a class and of those above."""
    slots = (getattr(one, "__slots__", ()) for one in kind.__mro__)
    return {name for each in slots for name in ([each] if isinstance(each, str) else each)}


def names_of(value: object) -> set[str]:
    """The names of the attributes of an object."""
    return {*getattr(value, "__dict__", ()), *names_of_class(type(value))} - {"__weakref__", "__dict__"}
