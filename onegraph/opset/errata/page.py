"""Writes the corrections as plain data, Markdown, or text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from ..editions.registry import EDITIONS, edition
from .catalogue import CORRECTIONS
from .correction import SECTIONS, Correction

LINES = (("Printed", "printed"), ("Meant", "meant"), ("Reason", "reason"), ("onegraph", "action"))


def to_dict(correction: Correction) -> dict[str, object]:
    """A correction as plain values for JSON, with the address of every page that has the mistake."""
    return {
        "name": correction.name,
        "section": correction.section,
        "where": correction.where,
        "printed": correction.printed,
        "meant": correction.meant,
        "reason": correction.reason,
        "action": correction.action,
        "pages": [
            {"edition": name, "op": kind, "link": link} for name, kind, link in _links(correction, correction.editions)
        ],
    }


def _links(correction: Correction, names: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Edition, op and address of each page."""
    for name in names:
        chosen = edition(name)
        for kind in correction.ops:
            schema = chosen.schemas.get(kind)
            if schema is not None:
                yield name, kind, chosen.link(schema)


def spans(names: Sequence[str]) -> str:
    """The names of editions, with those in a row as a span: ``onednn-3.2 to onednn-3.13``."""
    places = sorted(EDITIONS.index(name) for name in names)
    spans_found = []
    for _, group in groupby(enumerate(places), key=lambda pair: (pair[1] - pair[0], EDITIONS[pair[1]].split("-")[0])):
        row = [EDITIONS[place] for _, place in group]
        spans_found += row if len(row) < 3 else [f"{row[0]} to {row[-1]}"]
    return ", ".join(spans_found)


def _place(correction: Correction) -> str:
    return f"{correction.section}, {correction.where}" if correction.where else correction.section


def terminal_errata(corrections: Iterable[Correction]) -> str:
    """The corrections as text for a terminal."""
    texts = []
    for correction in corrections:
        lines = [f"{correction.name}: {', '.join(correction.ops)} ({_place(correction)}; {spans(correction.editions)})"]
        lines += [f"  {word.lower():8}  {getattr(correction, name)}" for word, name in LINES]
        texts.append("\n".join(lines))
    return "\n\n".join(texts)


def markdown_errata(corrections: Sequence[Correction] = CORRECTIONS) -> str:
    """The corrections in Markdown, by the section of the page; links lead to the newest edition with the mistake."""
    lines: list[str] = []
    for section in SECTIONS:
        inside = [correction for correction in corrections if correction.section == section]
        if inside:
            lines += [f"## {section[:1].upper()}{section[1:]}", ""]
        for entry in inside:
            pages = [f"[{kind}]({link})" for _, kind, link in _links(entry, entry.editions[-1:])]
            where = f", `{entry.where}`" if entry.where else ""
            lines += [f"### {entry.name}", "", f"{', '.join(pages or entry.ops)}{where}; {spans(entry.editions)}.", ""]
            lines += [f"- {word}: {escaped(getattr(entry, name))}" for word, name in LINES]
            lines.append("")
    return "\n".join(lines)


def errata_pages() -> dict[str, str]:
    """The pages of the site by name: one for each section of the pages, and ``errata``, which links to them."""
    pages, index = {}, ["| Section | Corrections |", "| --- | --- |"]
    for section in SECTIONS:
        inside = [correction for correction in CORRECTIONS if correction.section == section]
        if inside:
            name, title = f"errata-{'-'.join(section.split())}", f"Mistakes in the texts: {section}"
            head = ["---", "orphan: true", "---", f"# {title}", "", "[All sections](../errata.md).", ""]
            pages[name] = "\n".join([*head, markdown_errata(inside)])
            index.append(f"| [{section}](ops/{name}.md) | {', '.join(one.name for one in inside)} |")
    return {**pages, "errata": "\n".join([*index, ""])}


def escaped(text: str) -> str:
    """The text in Markdown without any markup."""
    return "".join(f"\\{one}" if one in "\\*_<>|[]`$#" else one for one in text)
