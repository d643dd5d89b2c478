"""Defines what a page of the specification prints about one op, in one form for every kind of page."""

from __future__ import annotations

from typing import NamedTuple

from ...opset.signature import AttrValue, Fill

# One row of a type table: pairs of a place and a data type. A place is ``in0`` or ``out1``, or ``?`` for a column that
# names no port.
PrintedRow = frozenset[tuple[str, str]]
UNPLACED = "?"
WHOLE = "page"  # what a text in PrintedPage.unread starts with if nothing of the page is read


class PrintedAttribute(NamedTuple):
    """An attribute as its page prints it; ``required`` is None if the page does not say."""

    name: str
    kind: str
    required: bool | None
    default: AttrValue | Fill | None
    values: frozenset[str]

    def __str__(self) -> str:
        parts = [self.kind, {True: "required", False: "optional", None: "not said whether required"}[self.required]]
        if self.values:
            parts.append(f"values {', '.join(sorted(self.values))}")
        if self.default is not None:
            parts.append(f"default {shown(self.default)}")
        return ", ".join(parts)


class PrintedPort(NamedTuple):
    """A port as its page prints it; ``optional`` is None if the page does not say."""

    name: str
    optional: bool | None
    variadic: bool = False

    def __str__(self) -> str:
        said = {True: ", optional", False: ", required", None: ""}[self.optional]
        return f"{self.name}{said}{', any number' if self.variadic else ''}"


class PrintedPage(NamedTuple):
    """One page: the op, its attributes and ports in the order of the page, and its table of data types.

    ``unread`` are the places that no rule of the reader understands, each with its text; a page with such a place is
    not compared there.
    """

    title: str
    file: str
    attributes: tuple[PrintedAttribute, ...] = ()
    inputs: tuple[PrintedPort, ...] = ()
    outputs: tuple[PrintedPort, ...] = ()
    rows: frozenset[PrintedRow] = frozenset()
    unread: tuple[str, ...] = ()


def shown(default: AttrValue | Fill | None) -> str:
    """A default in words."""
    if isinstance(default, Fill):
        return f"all {default.value}"
    return str(list(default)) if isinstance(default, tuple) else str(default)
