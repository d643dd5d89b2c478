"""Defines the records of which the signature of an op is made: attributes, ports, and tables of data types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import NamedTuple

from .._util.init_once import made_once
from .._util.records import record
from .dtypes import NEVER, DataType

Shape = tuple[int | None, ...] | None
Version = tuple[int, int]
AttrValue = float | int | bool | str | tuple[float, ...] | tuple[int, ...]
OLDEST: Version = (3, 0)
# A record is of the editions from ``since`` on, up to the one before ``until``.


class Range(NamedTuple):
    """A named set of numbers. The value of an attribute, or each element of a list, must be in it."""

    name: str
    holds: Callable[[float], bool]


POSITIVE = Range("positive", lambda number: number > 0)
NON_NEGATIVE = Range("non-negative", lambda number: number >= 0)
UNIT = Range("between 0 and 1", lambda number: 0 <= number <= 1)


@made_once
@record(frozen=True)
class Fill:
    """The default of a list with one element for each spatial axis: every element is ``value``."""

    value: int


@made_once
@record(frozen=True)
class Attribute:
    """One attribute of an op: required, optional with a default, or optional without a default.

    ``kind`` is f32, f32[], s64, s64[], bool or str. ``values`` are the allowed strings and ``aliases`` maps other
    accepted spellings to them. ``disputed`` aliases are accepted with a note, because one page of the specification
    prints them and another one contradicts it. ``implied`` is the value of a required attribute that the op's method
    writes if the caller leaves it out, and if ``implied_if`` of the given attributes holds. ``spatial`` lists have one
    element for each spatial axis; the method takes one number for all of them.
    ``none_is_default`` says that the page prints none as the default. ``ignored_beside`` is another attribute; if it is
    given, this one has no effect.
    """

    name: str
    kind: str
    doc: str
    required: bool = False
    default: AttrValue | Fill | None = None
    values: tuple[str, ...] = ()
    range: Range | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    disputed: frozenset[str] = frozenset()
    implied: AttrValue | Fill | None = None
    implied_if: Callable[[Mapping[str, object]], bool] | None = None
    spatial: bool = False
    since: Version = OLDEST
    until: Version = NEVER
    none_is_default: bool = False
    ignored_beside: str = ""


@made_once
@record(frozen=True)
class Port:
    """One input or output. ``type`` is a type variable of the op's type table, or the name of a data type.

    ``decides`` marks an input of a host op whose contents decide the output shapes.
    """

    name: str
    type: str
    optional: bool = False
    variadic: bool = False
    since: Version = OLDEST
    until: Version = NEVER
    decides: bool = False

    @property
    def gives_shape(self) -> bool:
        """Whether the output shapes depend on the contents of the input, not only on its shape."""
        return self.decides or (self.type == "s32" and self.name.endswith(("shape", "axes", "sizes", "order")))

    @property
    def is_read(self) -> bool:
        """Whether a rule or a shape function reads the contents of the input if they are known."""
        return self.gives_shape or self.name in ("indices", "probability")


def ports(text: str) -> tuple[Port, ...]:
    """Parse ports such as ``"src:T bias:T? stats:f32?@3.9"``.

    ``?`` is optional, ``*`` variadic, ``!`` decides the output shapes, ``@3.9`` is the first version, and ``@3.4-3.9``
    also the first one without the port.
    """
    ports_found = []
    for word in text.split():
        word, since, until = _lifetime(word)
        name, _, type_ = word.partition(":")
        ports_found.append(Port(name, type_.rstrip("?*!"), "?" in type_, "*" in type_, since, until, "!" in type_))
    return tuple(ports_found)


def _lifetime(word: str) -> tuple[str, Version, Version]:
    """A word without its versions, the first version, and the first one that has it no more."""
    text, _, versions = word.partition("@")
    first, _, last = versions.partition("-")
    return text, _version(first) if first else OLDEST, _version(last) if last else NEVER


def _version(word: str) -> Version:
    major, minor = word.split(".")
    return int(major), int(minor)


@made_once
@record(frozen=True)
class Row:
    """One line of a type table: the data types that each type variable may have in this combination."""

    types: Mapping[str, frozenset[DataType]]
    since: Version = OLDEST
    until: Version = NEVER

    def __str__(self) -> str:
        return ", ".join(f"{names}={'|'.join(sorted(map(str, types)))}" for names, types in self.cells())

    def cells(self) -> list[tuple[str, frozenset[DataType]]]:
        """The data types of each variable; variables that have the same choice of several types are told together."""
        names: dict[object, list[str]] = {}
        for name, types in self.types.items():
            names.setdefault(types if len(types) > 1 else name, []).append(name)
        return [(_listed(group, [*self.types]), self.types[group[0]]) for group in names.values()]


def _listed(names: list[str], order: list[str]) -> str:
    """Names in words; of many that follow each other, the first and the last."""
    first = order.index(names[0])
    follow = len(names) > 3 and order[first : first + len(names)] == names
    return f"{names[0]} to {names[-1]}" if follow else " and ".join(names)


def rows(variables: str, *lines: str) -> tuple[Row, ...]:
    """Parse a type table, written as in the specification: ``rows("T1 T2", "f32 f32", "bf16 f32|bf16 @3.8")``.

    ``|`` separates alternatives; ``@3.8`` is the first version that has the row, and ``@3.4-3.8`` also the first one
    that has it no more.
    """
    table = []
    for line in lines:
        line, since, until = _lifetime(line)
        cells = [frozenset(DataType[name] for name in cell.split("|")) for cell in line.split()]
        table.append(Row(dict(zip(variables.split(), cells, strict=True)), since, until))
    return tuple(table)


FLOATS = rows("T", "f32", "bf16", "f16")
