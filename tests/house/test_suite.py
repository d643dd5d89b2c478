"""The helpers of the suite itself: groups of cases, the order of files, shares of branches."""

import os
import re
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import LONGEST, pytest_collection_finish
from helpers.fork_server import waited
from helpers.grouped import grouped

from tests import branches
from tests.branches import marks
from tests.branches.plugin import KEPT_TESTS, Measured
from tests.torch_backend import versions

TESTS = Path(__file__).parents[1]


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
    assert [name for name in LONGEST if not [*TESTS.glob(f"*/{name}.py")]] == []


def test_long_targets_run_tests_that_exist():
    makefile = (TESTS.parent / "Makefile").read_text()
    paths = {*re.findall(r"\btests/[\w/]+(?:\.\w+)?", makefile)}
    modules = {name.replace(".", "/") for name in re.findall(r"-[mp] (tests[.\w]+)", makefile)}
    assert len(paths) > 6
    assert len(modules) > 12
    assert [path for path in sorted(paths) if not (TESTS.parent / path).exists()] == []
    files = [[TESTS.parent / f"{name}.py", TESTS.parent / name / "__main__.py"] for name in sorted(modules)]
    assert [path for path, main in files if not (path.exists() or main.exists())] == []
    assert [*versions.TESTS.glob("test_torch_*.py")]


def test_tests_run_without_hypothesis(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)  # as in the environments of other versions and of clusters
    pytest_collection_finish()


@pytest.mark.parametrize(
    ("event", "phase", "outcome", "is_sent"),
    [
        ("testreport", "setup", "passed", False),
        ("testreport", "setup", "failed", True),
        ("testreport", "setup", "skipped", True),
        ("testreport", "call", "passed", True),
        ("testreport", "call", "failed", True),
        ("testreport", "teardown", "passed", False),
        ("testreport", "teardown", "failed", True),
        ("logstart", "", "", False),
        ("logfinish", "", "", False),
        ("runtest_protocol_complete", "", "", True),
        ("workerfinished", "", "", True),
    ],
)
@pytest.mark.parametrize("options", [{}, {"durations": 5}, {"xmlpath": "results.xml"}])
def test_a_process_of_the_suite_sends_what_the_first_one_needs(event, phase, outcome, is_sent, options):
    spread = pytest.importorskip("tests.spread", reason="pytest-xdist is not installed", exc_type=ImportError)

    class WorkerInteractor:
        config = SimpleNamespace(option=SimpleNamespace(**{"durations": None, "xmlpath": None} | options))

        def __init__(self):
            self.sent = []

        def sendevent(self, name, **given):
            self.sent.append((name, given))

    worker, given = WorkerInteractor(), {"data": {"when": phase, "outcome": outcome}}
    spread.pytest_plugin_registered(worker)
    worker.sendevent(event, **given)
    assert worker.sent == ([(event, given)] if is_sent or options else [])


def test_processes_take_files_in_their_order():
    spread = pytest.importorskip("tests.spread", reason="pytest-xdist is not installed", exc_type=ImportError)
    names = ["b.py::1", "b.py::2", "b.py::3", "a.py::1", "c.py::1", "c.py::2", "c.py::3", "d.py::1"]
    options = SimpleNamespace(tx=["popen", "popen"], dist="loadfile", loadscopereorder=False, maxprocesses=None)
    config = SimpleNamespace(option=options, getvalue=vars(options).get)

    class Process:
        gateway = SimpleNamespace(id="process")

        def __init__(self):
            self.given, self.shutting_down = [], False
            self.send_runtest_some = self.given.extend

        def shutdown(self):
            self.shutting_down = True

    nodes, files = [Process(), Process()], spread.pytest_xdist_make_scheduler(config, None)
    for node in nodes:
        files.add_node(node)
        files.add_node_collection(node, names)
    files.schedule()
    assert [node.given for node in nodes] == [[0, 1, 2], [3, 4, 5, 6]]  # a process gets the next file in advance
    for place in (0, 1):
        files.mark_test_complete(nodes[0], place)
    assert nodes[0].given == [0, 1, 2, 7]
    options.dist = "load"
    assert spread.pytest_xdist_make_scheduler(config, None) is None


def test_a_fallen_share_of_branches_is_named():
    counts = {"one": (50, 100, 9, 10), "two": (98, 100, 9, 10), "three": (500, 1000, 9, 10)}
    before = {"one": 50.0 + branches.FEW + 1, "two": 98.0 + branches.FEW - 1, "three": 50.0 + branches.MARGIN + 0.1}
    lines, shares, fallen = branches.report(counts, before, "functions")
    assert shares == {"one": 50.0, "two": 98.0, "three": 50.0, "all": 54.0}
    assert [text.split(":")[0] for text in fallen] == ["one", "three"]
    assert "54.00" in lines[-1]


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
    assert branches.room(file) == name


MARKED = '''
def chosen(value):
    """Which way a value goes."""
    for part in value:
        if part == "end":
            break
        while part:
            part = part[1:]
    try:
        match len(value):
            case 0 | 1:
                return "short"
            case 2:
                raise ValueError
    except ValueError:
        return "two"
    return "long"
'''


@pytest.mark.parametrize(
    ("value", "result", "missed"),
    [
        (["a"], "short", ["5 true", "15 except", "13 case", "10 no case"]),
        (["a", "end"], "two", ["4 end", "11 case", "10 no case"]),
        (["a", "b", "c"], "long", ["5 true", "11 case", "13 case", "15 except"]),
        (["end"], "short", ["5 false", "7 true", "7 false", "4 end", "13 case", "10 no case", "15 except"]),
    ],
)
def test_marks_note_each_way_that_ran(value, result, missed):
    tree, ways = marks.marked(MARKED)
    ran, names = marks.Ran([0] * len(ways)), {}
    exec(marks.storing_into(compile(tree, "marked.py", "exec"), ran), names)
    assert names["chosen"](value) == result
    assert names["chosen"].__doc__ == "Which way a value goes."
    assert sorted(way for way, state in zip(ways, ran, strict=True) if not state) == sorted(missed)


def test_few_tests_of_each_function_and_file_are_kept(monkeypatch):
    monkeypatch.setattr(marks, "RAN", {"m.py": [0, 0], "n.py": [0]})
    monkeypatch.setattr(marks, "WAYS", {"m.py": ["1 function f", "2 true"], "n.py": ["1 function g"]})
    here, other = Measured(), Measured()
    marks.RAN["m.py"][1] = 1  # by an import
    tests = [f"{file}.py::test_{name}[{case}]" for file in "ab" for name in range(5) for case in range(4)]
    here.begin(tests[0])
    for test in [*tests[1:], ""]:
        marks.RAN["m.py"][0] = 1
        here.begin(test)
    cases, of_file = KEPT_TESTS
    first = [number for name in range(of_file // cases) for number in range(4 * name, 4 * name + cases)]
    assert here.by_way() == {"m.py": {"1 function f": [*first, *(number + 20 for number in first)]}}
    assert here.ran == {"m.py": [1, 1]}
    other.begin("c.py::test")
    marks.RAN["n.py"][0] = marks.RAN["m.py"][1] = 1
    other.begin("")
    here.add(*other.sent())
    here.begin("")  # the first process runs no test itself
    assert here.tests == [*tests, "c.py::test"]
    assert len(here.seconds) == 41
    assert here.by_way()["m.py"]["2 true"] == here.by_way()["n.py"]["1 function g"] == [40]
    assert here.ran == {"m.py": [1, 1], "n.py": [1]}


def test_a_forked_process_is_killed_after_its_time():
    if not (child := os.fork()):
        signal.pause()
    assert waited(child, 1) == -signal.SIGKILL
    if not (child := os.fork()):
        os._exit(3)
    assert waited(child, 60) == 3
