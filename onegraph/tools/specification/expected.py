"""Writes the record of an op in the form in which its page is read, with the known mistakes of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from ...opset.errata.correction import UNNAMED, Correction, as_printed, printed_types
from ...opset.schema import Schema
from ...opset.signature import Attribute, Port
from .printed import PrintedAttribute, PrintedPage, PrintedPort, PrintedRow

WITHOUT_TABLE = {"Wildcard"}  # the page says in a sentence that any data types are allowed


def expected_page(schema: Schema, corrections: Sequence[Correction] = ()) -> PrintedPage:
    """The page that the record of an op would be read from, if it had the mistakes in ``corrections`` alone."""
    printed = as_printed(schema, corrections)
    return PrintedPage(
        schema.kind,
        schema.page or schema.kind,
        tuple(map(_attribute, printed.attributes)),
        tuple(map(_port, printed.inputs)),
        tuple(map(_port, printed.outputs)),
        frozenset() if schema.kind in WITHOUT_TABLE else _rows(schema, printed_types(corrections)),
    )


def _attribute(attribute: Attribute) -> PrintedAttribute:
    values = frozenset(attribute.values)
    return PrintedAttribute(attribute.name, attribute.kind, attribute.required, attribute.default, values)


def _port(port: Port) -> PrintedPort:
    return PrintedPort(port.name, port.optional, port.variadic)


def places_of(schema: Schema) -> dict[str, str]:
    """The place of each port: ``in0`` for the first input."""
    inputs = {port.name: f"in{index}" for index, port in enumerate(schema.inputs)}
    return inputs | {port.name: f"out{index}" for index, port in enumerate(schema.outputs)}


def _rows(schema: Schema, printed: Mapping[str, str]) -> frozenset[PrintedRow]:
    types = {port.name: port.type for port in (*schema.inputs, *schema.outputs)}
    places = places_of(schema)
    rows = set()
    for row in schema.types:
        for choice in product(*row.types.values()):
            bound = dict(zip(row.types, map(str, choice), strict=True))
            here = {name: (place, bound.get(types[name], types[name])) for name, place in places.items()}
            rows.add(frozenset(_as_said(here, bound, printed).values()))
    return frozenset(rows)


def _as_said(
    row: Mapping[str, tuple[str, str]], bound: Mapping[str, str], printed: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """A row with what a correction says that the page prints; see :attr:`Correction.fact`."""
    here = dict(row)
    first = next(iter(row.values()))[1]
    for key, said in printed.items():
        port, _, only = key.partition("@")
        place, dtype = here.get(port, (UNNAMED, bound.get(said, said)))
        if not said:
            del here[port]
        elif only in ("", first):
            here[port] = (UNNAMED, dtype) if said == UNNAMED or said in bound else (place, said)
    return here
