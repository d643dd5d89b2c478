"""Numbers in messages agree with their nouns: ``1 finding``, ``2 findings``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from onegraph._util.counted import PLURALS, counted, some_of

PLURAL = re.compile(r" (?!is\b|was\b|has\b|as\b|bytes\b)[a-z]+s\b")
# A length, and behind it a plural, maybe in another piece of the text.
WRITTEN = re.compile(r"""\{len\(.*\}(?:["']\s*f?["'])?""" + PLURAL.pattern)
ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "onegraph").rglob("*.py"))


def numbers_with_plurals(tree: ast.AST) -> Iterator[str]:
    """The texts that write a length in front of a plural, unless a condition chooses the text."""
    chosen = {id(node) for one in ast.walk(tree) if isinstance(one, ast.IfExp) for node in ast.walk(one)}
    for text in ast.walk(tree):
        if not isinstance(text, ast.JoinedStr) or id(text) in chosen:
            continue
        for value, behind in zip(text.values, text.values[1:], strict=False):
            is_length = isinstance(value, ast.FormattedValue) and ast.unparse(value.value).startswith("len(")
            if is_length and isinstance(behind, ast.Constant) and PLURAL.match(str(behind.value)):
                yield f"{text.lineno}: {ast.unparse(text)}"


@pytest.mark.sources
def test_lengths_are_written_by_counted():
    sources = {path: path.read_text() for path in SOURCES}
    trees = {path: ast.parse(text) for path, text in sources.items() if WRITTEN.search(text)}
    assert trees
    found = [f"{path}:{text}" for path, tree in trees.items() for text in numbers_with_plurals(tree)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", ['f"{len(a)} ops now"', 'f"in {len(a):,} ops"', '(f"{len(a)}"\n f" ops now")'])
def test_a_length_before_a_plural_is_found(text):
    assert WRITTEN.search(text)
    assert len([*numbers_with_plurals(ast.parse(text))]) == 1


@pytest.mark.parametrize("noun", ["element", *PLURALS])
def test_one_has_the_singular(noun):
    assert counted(1, noun) == f"1 {noun}"
    assert counted(0, noun) == f"0 {PLURALS.get(noun, noun + 's')}"


@pytest.mark.parametrize(
    ("count", "most", "text"),
    [
        (0, 12, "none"),
        (1, 12, "0"),
        (2, 2, "0, 1"),
        (3, 2, "0, 1, ..."),
        (9, 2, "0, 1, ..."),
        (12, None, "11"),
        (13, None, "..."),
    ],
)
def test_the_first_of_many_names_are_listed(count, most, text):
    listed = some_of(map(str, range(count)), *() if most is None else (most,))
    assert listed == text if most else listed.rpartition(", ")[2] == text
