"""Compares what pages print with the records of an edition, with the known mistakes of the pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...opset.editions.registry import Edition
from ...opset.errata.correction import ATTRIBUTES, INPUTS, OUTPUTS, TYPES, Correction
from ...opset.schema import Schema
from ...opset.signature import Version
from .expected import expected_page, places_of
from .printed import WHOLE, PrintedAttribute, PrintedPage, PrintedPort, PrintedRow
from .proposals import Proposing

OP, UNREAD = "op", "unread"
NOTHING = "nothing"


class PageDifference(NamedTuple):
    """A place where a page and the records say different things.

    Attributes:
        op: the op, as its page is titled.
        section: a section of :data:`onegraph.opset.errata.correction.SECTIONS`; ``op`` for a whole page, ``unread``
            for a text that the reader does not understand.
        where: the attribute or port; empty for the op.
        record: what the records say, in the words of the page; with the known mistakes of the page.
        page: what the page says.
        proposal: what to change in the records, as Python code or a sentence.
    """

    op: str
    section: str
    where: str
    record: str
    page: str
    proposal: str

    def __str__(self) -> str:
        place = f"{self.section}, {self.where}" if self.where else self.section
        return f"{self.op} ({place}): the record says {self.record}; the page says {self.page}"


def compare(
    pages: Iterable[PrintedPage], edition: Edition, version: Version, enumerators: Iterable[str] = ()
) -> list[PageDifference]:
    """The differences between pages and an edition.

    Args:
        pages: every page of a document.
        edition: the edition whose records the pages are held against.
        version: the oneDNN version of the pages, for the proposals.
        enumerators: the names of ops in the C header, without their prefix.
    """
    differences: list[PageDifference] = []
    seen = set()
    proposing = Proposing(edition.name, version, tuple(enumerators))
    for page in pages:
        schema = edition.schema(page.title)
        if schema is None:
            differences.append(PageDifference(page.title, OP, "", "no such op", page.file, proposing.op(page)))
        else:
            seen.add(schema.kind)
            differences += _of_page(page, schema, edition.corrections(schema), proposing)
    for kind in edition.schemas:
        if kind not in seen:
            differences.append(PageDifference(kind, OP, "", "an op", "no page", proposing.lost(kind)))
    return differences


def _of_page(
    page: PrintedPage, schema: Schema, corrections: Sequence[Correction], proposing: Proposing
) -> Iterator[PageDifference]:
    said, meant = expected_page(schema, corrections), expected_page(schema)
    for text in page.unread:
        yield PageDifference(page.title, UNREAD, "", "-", text, "read the page, and teach the reader its words")
    unread = {text.split(":")[0] for text in page.unread}
    if WHOLE in unread:
        return
    for section in (ATTRIBUTES, INPUTS, OUTPUTS):
        if section not in unread:
            printed, ours, right = (_units(side, section) for side in (page, said, meant))
            for key in dict.fromkeys((*ours, *printed)):
                mine, theirs = ours.get(key), printed.get(key)
                if not _agree(mine, theirs):
                    meant_name = getattr(right.get(key), "name", None)
                    stale = [
                        correction.name
                        for correction in corrections
                        if correction.section == section and correction.where == meant_name
                    ]
                    is_stale = stale and _agree(right.get(key), theirs)
                    yield PageDifference(
                        page.title,
                        section,
                        getattr(mine or theirs, "name", ""),
                        str(mine or NOTHING),
                        str(theirs or NOTHING),
                        proposing.stale(stale) if is_stale else proposing.unit(schema, section, mine, theirs),
                    )
    if TYPES not in unread and not {INPUTS, OUTPUTS} & unread and page.rows != said.rows:
        stale_names = [
            correction.name for correction in corrections if page.rows == meant.rows and correction.printed_types
        ]
        names_of = {place: name for name, place in places_of(schema).items()}
        more, fewer = (_rows(rows, names_of) for rows in (page.rows - said.rows, said.rows - page.rows))
        proposal = proposing.stale(stale_names) if stale_names else proposing.types(schema, more, fewer)
        yield PageDifference(
            page.title, TYPES, "", fewer or "none of these rows", more or "none of these rows", proposal
        )


Unit = PrintedAttribute | PrintedPort


def _units(page: PrintedPage, section: str) -> dict[str, Unit]:
    """The attributes of a page by name, or its ports by index."""
    if section == ATTRIBUTES:
        return {attribute.name: attribute for attribute in page.attributes}
    return {str(index): port for index, port in enumerate(page.inputs if section == INPUTS else page.outputs)}


def _agree(record: Unit | None, page: Unit | None) -> bool:
    """Whether both say the same; a page that does not say a name, or whether it is required, contradicts nothing."""
    if record is None or page is None or type(record) is not type(page):
        return record == page
    if isinstance(record, PrintedAttribute) and isinstance(page, PrintedAttribute) and record.default != page.default:
        return False
    return all(said in (None, "") or said == meant for meant, said in zip(record, page, strict=True))


def _rows(rows: Iterable[PrintedRow], names: Mapping[str, str]) -> str:
    """Rows of data types in words, in alphabetical order: ``src=f32 dst=s8; src=f32 dst=u8``."""
    order = [*names, "?"]

    def text(row: PrintedRow) -> str:
        ordered = sorted(row, key=lambda pair: (order.index(pair[0]) if pair[0] in order else len(order), pair[1]))
        return " ".join(f"{names.get(place, place)}={dtype}" for place, dtype in ordered)

    return "; ".join(sorted(map(text, rows)))
