"""Splits a page in Markdown or reStructuredText into sections, and reads the tables of both languages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

UNDERLINE = re.compile(r"([=#*^~\-])\1{2,}\s*")
HASHES = re.compile(r"#{1,6}\s+(.+)")
BOLD = re.compile(r"\*\*([A-Z][\w ]+)\*\*[:\uff1a]?")  # legacy pages: "**Types**:" alone on a line
PIPE_RULE = re.compile(r"[\s|:\-]*-[\s|:\-]*")
GRID = re.compile(r"\+[-=+]+\+\s*")
BORDER = re.compile(r"=+( +=+)*\s*")


class Section(NamedTuple):
    """A heading without markup and in lower case, and the lines up to the next heading."""

    heading: str
    lines: list[str]


class PageTable(NamedTuple):
    """The titles of the columns, and the rows; every row has as many cells as there are columns."""

    titles: list[str]
    rows: list[list[str]]


def sections(text: str) -> list[Section]:
    """The sections of a page; the first has the title of the page as its heading."""
    parts = [Section("", [])]
    lines = text.splitlines()
    for index, line in enumerate(lines):
        heading = _heading(lines, index)
        if heading is not None:
            parts.append(Section(_bare(heading), []))
        elif not (UNDERLINE.fullmatch(line) and index and _heading(lines, index - 1) is not None):
            parts[-1].lines.append(line)
    return parts


def _heading(lines: Sequence[str], index: int) -> str | None:
    line = lines[index].strip()
    for form in (HASHES, BOLD):
        match = form.fullmatch(line)
        if match:
            return match[1]
    below = lines[index + 1].rstrip() if index + 1 < len(lines) else ""
    above = lines[index - 1].rstrip() if index else ""
    is_title = bool(line) and "|" not in line and not UNDERLINE.fullmatch(line) and not line.startswith(("*", "-", "+"))
    # A border above and below is a table with one column.
    if is_title and UNDERLINE.fullmatch(below) and above != below and lines[index][:1].strip():
        return line
    return None


def _bare(heading: str) -> str:
    words = re.sub(r"\{#.*?\}|[*:\uff1a]", "", heading).strip().lower()
    return {"input": "inputs", "output": "outputs"}.get(words, words)


def tables(lines: Sequence[str]) -> list[PageTable]:
    """Every table in the lines: of pipes in Markdown; grids and simple tables in reStructuredText."""
    listed: list[PageTable] = []
    index = 0
    while index < len(lines):
        for read in (_grid, _simple, _pipes):
            table, after = read(lines, index)
            if table is not None:
                listed.append(table)
                index = after
                break
        else:
            index += 1
    return listed


def _pipes(lines: Sequence[str], start: int) -> tuple[PageTable | None, int]:
    rule = start + 1
    if "|" not in lines[start] or rule >= len(lines) or not PIPE_RULE.fullmatch(lines[rule]) or "|" not in lines[rule]:
        return None, start
    titles, rows, index = _cells(lines[start]), [], rule + 1
    while index < len(lines) and "|" in lines[index]:
        cells = _cells(lines[index])[: len(titles)]
        rows.append(cells + [""] * (len(titles) - len(cells)))
        index += 1
    return PageTable(titles, rows), index


def _cells(line: str) -> list[str]:
    text = line.strip()
    text = text.removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", text)]


def _grid(lines: Sequence[str], start: int) -> tuple[PageTable | None, int]:
    if not GRID.fullmatch(lines[start].strip()):
        return None, start
    end = start
    while end < len(lines) and lines[end].strip()[:1] in ("+", "|") and lines[end].strip():
        end += 1
    edges = [place for place, character in enumerate(lines[start]) if character == "+"]
    rows = list(_grid_rows(lines[start + 1 : end], edges))
    return (PageTable(rows[0], rows[1:]) if rows else None), end


def _grid_rows(lines: Sequence[str], edges: Sequence[int]) -> Iterator[list[str]]:
    cells: list[list[str]] = [[] for _ in edges[1:]]
    for line in lines:
        if GRID.fullmatch(line.strip()):
            yield [_joined(cell) for cell in cells]
            cells = [[] for _ in edges[1:]]
        else:
            for cell, left, right in zip(cells, edges, edges[1:], strict=False):
                cell.append(line[left + 1 : right].strip())


def _joined(parts: Sequence[str]) -> str:
    """The text of a cell of several lines; a word that was broken inside |...| or quotes is one word again."""
    return " ".join(filter(None, parts))


def _simple(lines: Sequence[str], start: int) -> tuple[PageTable | None, int]:
    border = lines[start].rstrip()
    if not BORDER.fullmatch(border) or start + 3 >= len(lines):
        return None, start
    ends = [index for index in range(start + 1, len(lines)) if lines[index].rstrip() == border]
    if len(ends) < 2:
        return None, start
    spans = [match.span() for match in re.finditer("=+", border)]
    # The last column takes the rest of the line.
    spans[-1] = (spans[-1][0], 10**6)
    rows = [[line[left:right].strip() for left, right in spans] for line in lines[start + 1 : ends[1]]]
    head = ends[0] - start - 1
    titles = [_joined([row[place] for row in rows[:head]]) for place in range(len(spans))]
    return PageTable(titles, [row for row in rows[head + 1 :] if any(row)]), ends[1] + 1
