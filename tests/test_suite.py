"""The helpers of the suite itself: groups of cases, the order of files, shares of branches."""

from pathlib import Path

import pytest
from conftest import LONGEST
from helpers.grouped import grouped

from tests import branches


def test_a_group_runs_every_case_and_names_failures():
    tried = []

    @grouped("case, limit", [("a", 1), ("b", 1), ("a", 3)], key=lambda case: case[0])
    def checked(case, limit):
        tried.append((case, limit))
        assert limit > 1
        if limit == 3:
            pytest.skip("hides the others")

    (mark,) = checked.pytestmark
    assert mark.kwargs["ids"] == ["a", "b"]
    with pytest.raises(
        AssertionError, match=r"2 of 2 cases:\n\('a', 1\): AssertionError.*\n(.*\n)*\('a', 3\): Skipped"
    ):
        checked(group_of_cases=next(iter(mark.args[1])))
    assert tried == [("a", 1), ("a", 3)]


def test_longest_files_exist():
    assert [name for name in LONGEST if not Path(__file__).with_name(f"{name}.py").exists()] == []


def test_a_fallen_share_of_branches_is_named(capsys):
    counts = {"one": (50, 100, 9, 10), "two": (99, 100, 9, 10)}
    found, fallen = branches.report(counts, {"one": 50.0 + 2 * branches.MARGIN, "two": 99.0 + branches.MARGIN / 2})
    assert found == {"one": 50.0, "two": 99.0, "all": 74.5}
    assert [text.split(":")[0] for text in fallen] == ["one"]
    assert "74.50" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("graph.py", "."),
        ("checker/ops.py", "checker"),
        ("compiler/lower.py", "compiler"),
        ("compiler/passes/codes.py", "compiler/passes"),
        ("frontends/torch/tables/moves.py", "frontends/torch"),
    ],
)
def test_rooms_of_branches(file, name):
    assert branches.room(str(branches.ROOT / "onegraph" / file)) == name
