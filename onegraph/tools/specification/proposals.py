"""Writes what to change in the records for a difference, as Python code where a record is made or changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ...opset.errata.correction import ATTRIBUTES, INPUTS
from ...opset.schema import Schema
from ...opset.signature import OLDEST, Fill, Version
from .printed import PrintedAttribute, PrintedPage, PrintedPort, PrintedRow

Unit = PrintedAttribute | PrintedPort | None


class Proposing(NamedTuple):
    """Writes proposals for the pages of one edition, of oneDNN version ``version``."""

    edition: str
    version: Version
    enumerators: tuple[str, ...] = ()

    def op(self, page: PrintedPage) -> str:
        """The record of an op that the edition lacks."""
        split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", page.title).lower()
        # The header says where the words of a name such as RMSNorm end.
        name = next((known for known in self.enumerators if known.replace("_", "") == page.title.lower()), split)
        attributes = "".join(f"\n        {_attribute(attribute)}," for attribute in page.attributes)
        table = ", ".join(f'"{line}"' for line in _lines(page))
        variables = " ".join(_variables(page))
        return (
            f"Schema(\n    {page.title!r},\n    {name!r},\n    category,\n    doc,\n"
            f"    ports({_ports(page.inputs, page, 'in')!r}),\n    ports({_ports(page.outputs, page, 'out')!r}),\n"
            f"    rows({variables!r}, {table}),\n    shape_function,\n    ({attributes}\n    ),\n"
            f"    since={self.version},\n)"
        )

    def lost(self, kind: str) -> str:
        """What to do about an op without a page."""
        return f"if {self.edition} dropped {kind}, add until={self.version} to its record; else its page is missing"

    def stale(self, names: Sequence[str]) -> str:
        """What to do about mistakes that the page no longer has."""
        return f"the page is right here: take {self.edition} out of the editions of the correction {', '.join(names)}"

    def unit(self, schema: Schema, section: str, record: Unit, page: Unit) -> str:
        """What to do about an attribute or a port."""
        name = getattr(record, "name", "")
        if page is None:
            return self._either(schema, section, name, "NOWHERE", f"add until={self.version} to {name}", "nothing")
        fact = _attribute(page) if isinstance(page, PrintedAttribute) else _port(page)
        if record is None:
            since = f"{fact[:-1]}, since={self.version})"
            return f"if the page is right, add {since} to {schema.kind}; else a Correction says what is meant"
        former = "" if self.version == OLDEST else f", and in FORMER what it was before {self.version}"
        right = f"{fact} in place of the record of {schema.kind}{former}"
        return self._either(schema, section, name, fact, right, str(page))

    def _either(self, schema: Schema, section: str, name: str, fact: str, right: str, printed: str) -> str:
        constant = {ATTRIBUTES: "ATTRIBUTES", INPUTS: "INPUTS"}.get(section, "OUTPUTS")
        return (
            f"if the page is right, {right}; if it is a mistake, Correction(name, editions=({self.edition!r},), "
            f"ops=({schema.kind!r},), section={constant}, where={name!r}, printed={printed!r}, meant=..., reason=..., "
            f"action=..., fact={fact})"
        )

    def types(self, schema: Schema, more: str, fewer: str) -> str:
        """What to do about rows of data types."""
        added = f"add the rows {more} @{self.version[0]}.{self.version[1]} to {schema.kind}" if more else ""
        version = f"{self.version[0]}.{self.version[1]}"
        removed = f"end the rows {fewer} of {schema.kind} with @SINCE-{version}" if fewer else ""
        return f"if the page is right, {' and '.join(filter(None, (added, removed)))}; else a Correction with fact={{}}"


def _attribute(attribute: PrintedAttribute) -> str:
    parts = [repr(attribute.name), repr(attribute.kind), "doc"]
    if attribute.required:
        parts.append("required=True")
    if attribute.default is not None:
        default = f"Fill({attribute.default.value})" if isinstance(attribute.default, Fill) else repr(attribute.default)
        parts.append(f"default={default}")
    if attribute.values:
        parts.append(f"values={tuple(sorted(attribute.values))!r}")
    return f"Attribute({', '.join(parts)})"


def _port(port: PrintedPort) -> str:
    return f"Port({port.name!r}, type{', optional=True' if port.optional else ''})"


def _columns(page: PrintedPage) -> dict[str, tuple[str, ...]]:
    """The data types of each place, in one order of the rows; places with equal columns share a type variable."""
    places = [f"in{index}" for index in range(len(page.inputs))] + [f"out{index}" for index in range(len(page.outputs))]
    rows = [dict(row) for row in _sorted(page.rows)]
    return {place: tuple(row.get(place, "?") for row in rows) for place in places}


def _sorted(rows: frozenset[PrintedRow]) -> list[PrintedRow]:
    return sorted(rows, key=sorted)


def _variables(page: PrintedPage) -> dict[str, tuple[str, ...]]:
    """The type variables of the op: the different columns of its table."""
    columns = dict.fromkeys(_columns(page).values())
    names = ["T"] if len(columns) == 1 else [f"T{index + 1}" for index in range(len(columns))]
    return dict(zip(names, columns, strict=True))


def _lines(page: PrintedPage) -> list[str]:
    return list(dict.fromkeys(" ".join(row) for row in zip(*_variables(page).values(), strict=True)))


def _ports(ports: Sequence[PrintedPort], page: PrintedPage, side: str) -> str:
    columns = _columns(page)
    variables = {column: name for name, column in _variables(page).items()}
    return " ".join(
        f"{port.name}:{variables[columns[f'{side}{index}']]}" + "*" * port.variadic + "?" * bool(port.optional)
        for index, port in enumerate(ports)
    )
