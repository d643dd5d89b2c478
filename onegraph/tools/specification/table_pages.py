"""Reads the pages that have tables: oneDNN's developer guides, and the oneAPI specification since 1.2."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple, TypeVar

from .printed import UNPLACED, PrintedAttribute, PrintedPage, PrintedPort, PrintedRow
from .sections import PageTable, Section, tables
from .values import UnreadError, default_in, dtypes_in, is_required, kind_of, name_of, quoted, words_in

Result = TypeVar("Result")
ANY_NUMBER = re.compile(r"arbitrary number of (inputs)?( or (outputs))?")
SAME_TYPE = re.compile(r"data types of `?(\w+)`? and `?(\w+)`? should be the same")
LAST_COLUMN = "required or optional"
NO_ENTRY = re.compile(r"does not support|arbitrary data type")


class ColumnPlaces(NamedTuple):
    """Where the columns of a type table belong: a name of a port -> ``in0`` or ``out1``."""

    by_name: Mapping[str, str]

    def of(self, column: str) -> list[str]:
        """The places of a column such as ``Src / Dst``, ``Source0/1`` or ``Gamma``."""
        text = re.sub(r"\bsource", "src", column.lower().replace("destination", "dst"))
        numbered = re.fullmatch(r"src_?(\d)/(\d)", text.strip())
        names = [f"src_{digit}" for digit in numbered.groups()] if numbered else text.split("/")
        return [self._place(name.strip(" `\\")) for name in names]

    def _place(self, name: str) -> str:
        """A destination is the first result, whatever its name; src also means src_i."""
        aliases = {"src": "src_i", "dst": "first result"}
        return self.by_name.get(name) or self.by_name.get(aliases.get(name, name), UNPLACED)


def read(title: str, file: str, parts: Sequence[Section], replacements: Mapping[str, str]) -> PrintedPage:
    """The page with these sections."""
    unread: list[str] = []
    attributes = _read_each(_rows(parts, "attributes", unread), "attributes", unread, partial(_attribute, replacements))
    text = " ".join(line for part in parts for line in part.lines)
    sides, by_name = [], dict[str, str]()
    for side, place in (("inputs", "in"), ("outputs", "out")):
        ports = _read_each(_rows(parts, side, unread), side, unread, partial(_port, side, text))
        sides.append(tuple([port for port, _ in ports]))
        for index, (port, names) in enumerate(ports):
            for name in names or [port.name]:
                by_name.setdefault(name.lower(), f"{place}{index}")
        if ports and side == "outputs":
            by_name["first result"] = "out0"
    places = ColumnPlaces(by_name)
    combinations = frozenset(row for part in _named(parts, "data types") for row in _section_rows(part, places, unread))
    return PrintedPage(title, file, tuple(attributes), sides[0], sides[1], combinations, tuple(unread))


def _read_each(
    rows: Sequence[Mapping[str, str]], where: str, unread: list[str], read_row: Callable[[Mapping[str, str]], Result]
) -> list[Result]:
    rows_read = []
    for row in rows:
        try:
            rows_read.append(read_row(row))
        except UnreadError as error:
            unread.append(f"{where}: {error}")
    return rows_read


def _section_rows(part: Section, places: ColumnPlaces, unread: list[str]) -> set[PrintedRow]:
    """The rows of every table of a section about data types."""
    rows: set[PrintedRow] = set()
    for table in tables(part.lines):
        try:
            rows |= _combinations(table, places)
        except UnreadError as error:
            unread.append(f"data types: {error}")
    for pair in SAME_TYPE.findall(" ".join(part.lines)):
        first, second = (places.of(name)[0] for name in pair)
        rows = {row for row in rows if dict(row).get(first) == dict(row).get(second)}
    return rows


def _named(parts: Sequence[Section], ending: str) -> list[Section]:
    return [part for part in parts if part.heading.endswith(ending)]


class TableRow(dict[str, str]):
    """The cells of a row by the titles of their columns."""

    def __missing__(self, title: str) -> str:
        raise UnreadError(f"no column {title!r}")


def _rows(parts: Sequence[Section], ending: str, unread: list[str]) -> list[TableRow]:
    """The rows of the tables of a section, by the titles of the columns in lower case."""
    rows = []
    for part in _named(parts, ending):
        inside = [table for table in tables(part.lines) if _titles(table)[-1:] == [LAST_COLUMN]]
        if not inside and not NO_ENTRY.search(" ".join(part.lines)):
            unread.append(f"{ending}: neither a table nor a sentence that there is none")
        for table in inside:
            rows += [TableRow(zip(_titles(table), row, strict=True)) for row in table.rows if any(row)]
    return rows


def _titles(table: PageTable) -> list[str]:
    return [re.sub(r"[\s\-]*$", "", title).lower() for title in table.titles]


def _attribute(replacements: Mapping[str, str], row: Mapping[str, str]) -> PrintedAttribute:
    name = name_of(row["attribute name"], replacements)
    supported = row.get("supported values", "")
    try:
        kind = kind_of(row["value type"], supported)
        default = default_in(supported, kind)
        values = words_in(supported) if kind == "str" else frozenset()
        return PrintedAttribute(name, kind, is_required(row["required or optional"]), default, values)
    except UnreadError as error:
        raise UnreadError(f"{name}: {error}") from None


def _port(side: str, text: str, row: Mapping[str, str]) -> tuple[PrintedPort, list[str]]:
    """A port, and the names that its cell quotes."""
    cell = row["argument name"]
    name = name_of(cell, {})
    match = ANY_NUMBER.search(text)
    counted = match is not None and (side == "inputs" or match[3] is not None)
    port = PrintedPort(name, not is_required(row["required or optional"]), counted or name.endswith("_i"))
    return port, re.findall(r"`+([A-Za-z_]\w*)`+", cell)


def _combinations(table: PageTable, places: ColumnPlaces) -> set[PrintedRow]:
    columns = [places.of(title) for title in table.titles]
    combinations = set()
    for row in table.rows:
        cells = [dtypes_in(quoted(cell)) for cell in row]
        filled = [(names, cell) for names, cell in zip(columns, cells, strict=True) if cell]
        for choice in product(*(cell for _, cell in filled)):
            pairs = zip(filled, choice, strict=True)
            combinations.add(frozenset((place, dtype) for (names, _), dtype in pairs for place in names))
    return combinations
