"""Reads one page of an op, whatever its language and form."""

from __future__ import annotations

import re
from collections.abc import Mapping

from . import bullet_pages, table_pages
from .printed import WHOLE, PrintedPage
from .sections import sections, tables

REPLACEMENT = re.compile(r"\.\. \|(attr_\w+)\| replace:: .*?([A-Za-z_]\w*)(?:<[^>]*>)?`+\s*$", re.MULTILINE)


def replacements_in(text: str) -> dict[str, str]:
    """The names of attributes that a file of reStructuredText defines, such as ``|attr_axis|``."""
    return dict(REPLACEMENT.findall(text))


def read_page(text: str, file: str, replacements: Mapping[str, str] | None = None) -> PrintedPage | None:
    """What the page of an op prints.

    Args:
        text: the page, in Markdown or reStructuredText.
        file: its name, for messages.
        replacements: names that pages write as ``|attr_axis|``, by the word between the bars.

    Returns:
        The page; None for the index of a folder.
    """
    parts = sections(text)
    headings = [part.heading for part in parts]
    title = _title(text, file)
    if not {"inputs", "outputs"}.intersection(headings):
        is_index = re.search(r"(^|/)(index|readme)\.\w+$", file, re.IGNORECASE)
        return None if is_index else PrintedPage(title, file, unread=(f"{WHOLE}: no section Inputs or Outputs",))
    has_tables = any(tables(part.lines) for part in parts if part.heading in ("inputs", "outputs"))
    if has_tables or any("execution arguments" in heading for heading in headings):
        return table_pages.read(title, file, parts, replacements or {})
    return bullet_pages.read(title, file, parts)


def _title(text: str, file: str) -> str:
    """The name of the op: the versioned name of a legacy page, or the heading; the name of the file if neither."""
    versioned = re.search(r"\*\*Versioned name\*\*:\s*\*?([A-Za-z]\w*)-\d", text)
    heading = re.search(r"^(?:# +)?([A-Z]\w+)[ \t]*(?:\{#[^}]*\})?[ \t]*\n", text, re.MULTILINE)
    match = versioned or heading
    return match[1] if match else re.sub(r".*/|\.\w+$", "", file)
