"""Writes the pages of ops for the documentation site: one of each op in all editions, and an index of each edition."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .._util.counted import counted
from ..opset.editions.registry import DEFAULT, EDITIONS, HOST, Edition, base_of, edition
from ..opset.schema import Schema
from .op_pages import IMPORTS, Example, by_category, escaped_text, markdown_body, method, sentence, to_dict

# Editions in a row, the newest first.
NEWEST_FIRST = (HOST, *reversed(EDITIONS))


def page_name(schema: Schema) -> str:
    """The name of the page that describes an op in all its editions."""
    return base_of(schema).kind.lower().replace(" ", "-")


def op_pages(example: Example) -> dict[str, str]:
    """The page of each op in Markdown, by name: a tab for the editions that describe it alike, the newest first."""
    titles: dict[str, str] = {}
    tabs: dict[str, dict[str, tuple[list[str], Schema]]] = {}
    for name in NEWEST_FIRST:
        for schema in edition(name).schemas.values():
            page = page_name(schema)
            titles.setdefault(page, schema.kind)
            alike = tabs.setdefault(page, {}).setdefault(_description(edition(name), schema), ([], schema))
            alike[0].append(name)
    return {page: _page(titles[page], [*alike.values()], example) for page, alike in tabs.items()}


def _description(chosen: Edition, schema: Schema) -> str:
    """What a page says about an op, without the edition."""
    record = {key: value for key, value in to_dict(chosen, schema).items() if key not in ("edition", "page", "link")}
    return json.dumps(record, sort_keys=True)


def _page(title: str, tabs: Sequence[tuple[list[str], Schema]], example: Example) -> str:
    lines = ["---", "orphan: true", "---", f"# {title}", ""]
    other_kinds = dict.fromkeys(schema.kind for _, schema in tabs if schema.kind != title)
    if other_kinds:
        lines += [f"In other editions: {', '.join(f'`{kind}`' for kind in other_kinds)}.", ""]
    lines += ["`?` marks an optional tensor, `*` any number of tensors.", ""]
    if HOST not in tabs[0][0]:
        lines += ["The example starts with these lines:", "", "```py", *IMPORTS, "```", ""]
    if len(tabs) == 1:
        return "\n".join(
            [*lines, f"Editions: {_span(tabs[0][0])}.", "", markdown_body(*_described_in(tabs[0]), example)]
        )
    lines += ["`````{tab-set}"]
    for names, schema in tabs:
        label = _span(names) if schema.kind == title else f"{_span(names)}: {schema.kind}"
        lines += [f"````{{tab-item}} {label}", markdown_body(*_described_in((names, schema)), example).rstrip(), "````"]
    return "\n".join([*lines, "`````", ""])


def _described_in(tab: tuple[list[str], Schema]) -> tuple[Edition, Schema]:
    """The edition of a tab that its text is of: the default one, else the newest; and its record of the op."""
    chosen = edition(DEFAULT if DEFAULT in tab[0] else tab[0][0])
    return chosen, chosen.schemas[tab[1].kind]


def _span(names: Sequence[str]) -> str:
    """The editions in words: rows of editions by their ends."""
    rows: list[list[str]] = []
    for name in names:
        place = NEWEST_FIRST.index(name)
        if rows and NEWEST_FIRST.index(rows[-1][-1]) == place - 1:
            rows[-1].append(name)
        else:
            rows.append([name])
    return ", ".join(row[0] if len(row) == 1 else f"{row[-1]} to {row[0]}" for row in rows)


def markdown_index(chosen: Edition) -> str:
    """The index of an edition: its ops by category, with links to their pages."""
    lines = [f"# {chosen.name}", "", f"{chosen.title}: {counted(len(chosen.schemas), 'op')}."]
    for category, schemas in by_category(chosen):
        links = (f"[{schema.kind}]({page_name(schema)}.md)" for schema in schemas)
        lines += ["", f"## {category.capitalize()}", "", ", ".join(links)]
    return "\n".join(lines) + "\n"


def markdown_methods() -> str:
    """The index of the op methods for the site: signature, meaning, and a link to the page of the op."""
    chosen = edition(DEFAULT)
    lines = [
        "# Op methods",
        "",
        f"Each op of {DEFAULT} is a method of `Graph`.",
    ]
    lines += ["Pass tensors by position or by name, and attributes by name."]
    lines += ["Every method also takes the options `name`, `dtype` and `outputs` of `Graph.op`."]
    for category, schemas in by_category(chosen):
        lines += ["", f"## {category.capitalize()}"]
        for schema in schemas:
            call = method(chosen, schema).removeprefix("g.")
            link = f"[{schema.kind}]({page_name(schema)}.md)"
            meaning = escaped_text(sentence(schema.doc))
            lines += ["", f"```{{py:method}} Graph.{call}", ":module: onegraph", "", f"{link}: {meaning}", "```"]
    return "\n".join(lines) + "\n"
