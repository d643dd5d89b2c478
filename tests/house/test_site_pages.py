"""The pages of ops and faults that the documentation site is made of.

The record fault_pages.json has digests of the pages of faults: the words of each fault, and the tables of what was
seen. ``python tests/house/test_site_pages.py`` writes it anew.
"""

import re
from functools import cache
from pathlib import Path

import pytest
from helpers.recorded import digest, keep, kept

from onegraph.builder.op_site import NEWEST_FIRST, markdown_index, op_pages, page_name
from onegraph.faults.api import API
from onegraph.faults.catalogue import CATALOGUE
from onegraph.faults.page import markdown_faults
from onegraph.opset.editions.registry import edition
from onegraph.opset.errata.catalogue import CORRECTIONS
from onegraph.opset.errata.page import errata_pages
from onegraph.tools.op_examples import example

KEPT = Path(__file__).parents[1] / "recorded" / "fault_pages.json"
LONGEST = 60_000  # characters of a page, some ten screens
fault_pages = cache(markdown_faults)


@pytest.fixture(scope="module")
def pages():
    return op_pages(example)


def test_each_op_of_each_edition_is_in_one_tab(pages):
    for name in NEWEST_FIRST:
        index = markdown_index(edition(name))
        for schema in edition(name).schemas.values():
            assert f"[{schema.kind}]({page_name(schema)}.md)" in index
            page = pages[page_name(schema)]
            heads = re.findall(r"^(?:Editions: |````\{tab-item\} )(.*?)\.?$", page, flags=re.MULTILINE)
            assert sum(name in _named(head) for head in heads) == 1, (name, schema.kind, heads)


def _named(head):
    """The editions that a heading such as ``onednn-3.2 to onednn-3.14, oneapi-1.2: Kind`` means."""
    found = []
    for row in head.partition(": ")[0].split(", "):
        first, _, last = row.partition(" to ")
        found += NEWEST_FIRST[NEWEST_FIRST.index(last or first) : NEWEST_FIRST.index(first) + 1]
    return found


def test_an_op_of_several_editions_has_tabs(pages):
    page = pages["convtransposebackwardweights"]
    assert "In other editions: `ConvTransposeBackpropFilters`." in page
    assert "````{tab-item} legacy-1: ConvTransposeBackpropFilters" in page
    heads = re.findall(r"\{tab-item\} ([^\s:]+)", page)
    assert [NEWEST_FIRST.index(head) for head in heads] == sorted(NEWEST_FIRST.index(head) for head in heads)


def recorded():
    return {name: digest([text]) for name, text in fault_pages().items()}


def test_pages_of_faults_are_the_recorded_ones():
    assert recorded() == kept(KEPT)


def test_each_fault_is_on_the_page_of_its_family():
    made = fault_pages()
    assert len(made) == len(CATALOGUE) + 1
    for title, faults in CATALOGUE.items():
        (page,) = [text for text in made.values() if f"\n# {title}\n" in text]
        assert [f"## {fault.name}" in page for fault in faults] == [True] * len(faults)
        assert f"[{title}](" in made["faults"]


def test_each_erratum_is_on_the_page_of_its_section():
    made = errata_pages()
    for one in CORRECTIONS:
        (page,) = [text for text in made.values() if f"\n### {one.name}\n" in text]
        assert page.splitlines()[3] == f"# Mistakes in the texts: {one.section}"
        assert one.name in made["errata"]


def test_pages_are_short(pages):
    every = {**pages, **fault_pages(), **errata_pages()}
    assert {name: len(text) for name, text in every.items() if len(text) > LONGEST} == {}


def test_tables_of_faults_take_few_screens():
    lengths = [len(table.splitlines()) - 2 for table in re.findall(r"(?m)^(?:\|.*\n)+", fault_pages()["faults"])]
    assert sum(lengths) == len(CATALOGUE) + len(API)
    assert max(lengths) <= 14  # at a width of 390 pixels, a row takes up to 180, and three screens 2,532


def test_fences_and_tables_of_pages_are_whole(pages):
    """Fences are closed in their order, tabs stand in a set of tabs, and a row has the columns of its head."""
    for name, text in {**pages, **fault_pages(), **errata_pages()}.items():
        opened, columns = [], None
        for line in text.splitlines():
            fence = re.match(r"(`{3,})(.*)", line)
            if fence and (opened and opened[-1][0] == fence[1] and not fence[2]):
                opened.pop()
            elif fence:
                outer = opened[-1] if opened else ("", "")
                assert not outer[0] or len(fence[1]) < len(outer[0]), (name, line)
                assert fence[2].startswith("{tab-item}") == outer[1].startswith("{tab-set}"), (name, line)
                opened.append((fence[1], fence[2]))
            is_row = line.startswith("|") and not (opened and opened[-1][1] == "py")
            if is_row and columns is not None:
                assert len(re.findall(r"(?<!\\)\|", line)) == columns, (name, line)
            columns = (columns or len(re.findall(r"(?<!\\)\|", line))) if is_row else None
        assert opened == [], name


if __name__ == "__main__":
    keep(KEPT, recorded())
