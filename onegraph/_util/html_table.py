"""Writes tables for notebooks: HTML without scripts and loads, with colours that fit light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

MAX_ROWS = 300
MAX_LINES = 6  # a cell of more lines shows the first one, and the others when it is clicked
LONG = 40  # letters of a sentence
PADDING = "padding:.25em .6em"
RED, AMBER, GREY = "#d1242f", "#bf8700", "#8c959f"


class Cell(NamedTuple):
    """A cell; ``mark`` is a colour that tints it, and ``part`` the length of a bar, as a share of the cell."""

    text: str
    mark: str = ""
    part: float | None = None


def escaped(text: str) -> str:
    """The text with the characters escaped that mean something in HTML."""
    from html import escape  # has a table of thousands of names

    return escape(text)


def html_table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str | Cell]], numbers: Sequence[int] = ()
) -> str:
    """A table; ``numbers`` are the right-aligned columns. Empty columns and rows after ``MAX_ROWS`` are left out."""
    made = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    shown = made[:MAX_ROWS]
    columns = [place for place in range(len(heads)) if any(row[place].text for row in shown)]
    head = "".join(
        f'<th style="text-align:{_side(place, numbers)};{PADDING}">{escaped(heads[place])}</th>' for place in columns
    )
    body = "".join(
        f"<tr>{''.join(_cell(row[place], _side(place, numbers)) for place in columns)}</tr>" for row in shown
    )
    text = escaped(caption)
    if len(made) > MAX_ROWS:
        text += f"\n{len(made) - MAX_ROWS:,} more rows are not shown"
    above = f'<caption style="caption-side:top;text-align:left;white-space:pre-wrap;padding:.4em 0">{text}</caption>'
    table = f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div style="overflow-x:auto">{table}</div>'  # a narrow page scrolls the table alone


def _side(place: int, numbers: Sequence[int]) -> str:
    return "right" if place in numbers else "left"


def _cell(cell: Cell, side: str) -> str:
    style = f"text-align:{side};vertical-align:top;white-space:pre-wrap;{PADDING}"
    if cell.mark:
        style += f";background:{cell.mark}33;box-shadow:inset 3px 0 {cell.mark}"
    if cell.part is not None:
        style += f";background:linear-gradient(90deg,#4a90d988 {cell.part:.2%},transparent {cell.part:.2%})"
    first, *more_lines = cell.text.split("\n")
    if len(first) > LONG:
        style += ";min-width:16em"  # else a narrow page has a word in each line
    if len(more_lines) < MAX_LINES:
        return f'<td style="{style}">{escaped(cell.text)}</td>'
    hidden = escaped("\n".join(more_lines))
    more = f"<summary>{escaped(first)}, and {len(more_lines)} more</summary>"
    return f'<td style="{style}"><details>{more}{hidden}</details></td>'
