"""A release is refused while a text names another version."""

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from onegraph import __version__
from tests import release

CHANGES, CITATION = "# Changes\n\n## 1.2.0 - 2026-01-02\n\ntext\n\n## 1.1.0 - 2025-01-02\n", "title: onegraph\n"
DATED = CITATION + "version: 1.2.0\ndate-released: 2026-01-02\n"


def folder(tmp_path, changes, citation):
    (tmp_path / "CHANGELOG.md").write_text(changes)
    (tmp_path / "CITATION.cff").write_text(citation)
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "citation", "expected"),
    [
        (CHANGES, DATED, []),
        (CHANGES.replace("1.2.0", "1.2.1"), DATED, ["CHANGELOG.md: '## 1.2.1 - 2026-01-02'; expected '## 1.2.0 - "]),
        ("# Changes\n\n## Unreleased\n", DATED, ["CHANGELOG.md: '## Unreleased'; expected"]),
        ("# Changes\n", DATED, ["CHANGELOG.md: 'no heading'; expected"]),
        (CHANGES, CITATION + "version: 1.2.0\n", ["'date-released: 2026-01-02' is missing"]),
        (CHANGES, DATED.replace("1.2", "1.1"), ["'version: 1.2.0' is missing"]),
    ],
)
def test_texts_name_the_version(tmp_path, changes, citation, expected):
    wrong = release.violations(folder(tmp_path, changes, citation), "1.2.0")
    assert len(wrong) == len(expected)
    assert all(part in line for part, line in zip(expected, wrong, strict=True))


def test_a_release_is_not_to_come(tmp_path):
    tomorrow = str(date.today() + timedelta(days=1))
    root = folder(tmp_path, CHANGES.replace("2026-01-02", tomorrow), DATED.replace("2026-01-02", tomorrow))
    assert "is to come" in release.violations(root, "1.2.0")[0]


def test_the_last_release_has_its_texts():
    headings = [line for line in (release.ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert headings[0] == "## Unreleased" or release.violations(release.ROOT, __version__) == []


def test_rows_of_several_versions_are_named(tmp_path):
    row, other = {"version": ""}, {"version": "1"}
    results = {
        "a": {"environment": {"onegraph": "2"}, "rows": [row, other]},
        "b": {"environment": {"onegraph": "1"}, "rows": [row]},
    }
    Path(tmp_path / "benchmarks").mkdir()
    Path(tmp_path / "benchmarks" / "results.json").write_text(json.dumps(results))
    assert release.measured(tmp_path) == {"2": ["a"], "1": ["a", "b"]}
