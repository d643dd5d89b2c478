"""Reads a checkout of any version, compares it with the records, and writes what to change."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ...opset.editions.registry import RELEASED, edition
from ...opset.signature import Version
from .checkout import edition_of, read_checkout
from .differences import PageDifference, compare
from .headers import compare_headers, op_names


class Import(NamedTuple):
    """A checkout compared with an edition: where its pages were, how many there are, and each difference."""

    edition: str
    note: str
    folder: str
    pages: int
    differences: tuple[PageDifference, ...]

    def to_dict(self) -> dict[str, object]:
        """The import as plain values for JSON."""
        return {**self._asdict(), "differences": [difference._asdict() for difference in self.differences]}

    def to_text(self) -> str:
        """The import as text: each difference, and below it what to change."""
        lines = [f"{self.pages} pages in {self.folder}, compared with {self.edition}"]
        lines += [self.note] if self.note else []
        for difference in self.differences:
            lines += ["", str(difference), *(f"    {line}" for line in difference.proposal.splitlines())]
        lines += ["", _count(len(self.differences))]
        return "\n".join(lines)


def import_specification(checkout: Path, tag: str | None = None, against: str | None = None) -> Import:
    """Compare the op pages and headers of a checkout with the records of an edition, as its pages print them.

    Args:
        checkout: a checkout of oneDNN or of the oneAPI specification, or a bare git directory.
        tag: a tag, branch or commit; by default the files of the checkout.
        against: the edition; by default that of the tag or of the checkout, else the newest.

    Raises:
        ArgumentError: the tag or the edition is unknown, or no folder has op pages.
    """
    sources = read_checkout(checkout, tag)
    name, note = (against, "") if against is not None else edition_of(tag, sources)
    chosen = edition(name)
    version: Version = sources.version or RELEASED
    pages = sources.pages.values()
    differences = compare(pages, chosen, version, op_names(sources.headers)) + compare_headers(sources.headers, chosen)
    return Import(name, note, sources.folder, len(sources.pages), tuple(differences))


def _count(number: int) -> str:
    return "no difference" if not number else f"{number} difference{'s' if number > 1 else ''}"
