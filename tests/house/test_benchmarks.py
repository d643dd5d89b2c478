"""Every benchmark runs in its quick form without peers, and gives rows of the same columns. No test checks times.

``make test-long`` runs those that take seconds.
"""

import json
import subprocess
import sys
from dataclasses import asdict, fields
from importlib import import_module
from math import isfinite
from pathlib import Path

import pytest
from conftest import LONG

from benchmarks import child, machine, peers, training
from benchmarks.__main__ import BY_ROW, MODULES, NAMES, all_cases, main
from benchmarks.blocks import NUMPY, ONE_BY_ONE, TORCH, random_cases
from benchmarks.known_blocks import KNOWN, known
from benchmarks.random_blocks import FAMILIES
from benchmarks.results import environment, table
from benchmarks.timing import Effort, Row, alternate, calls, every
from onegraph import reference
from onegraph.capi import get_num_threads

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def any_load(monkeypatch):
    monkeypatch.setattr(machine, "attempts", 1)


SLOW = ("blocks", "build", "busy", "libraries", "onnx", "training")  # which start processes, or take seconds


@pytest.mark.parametrize("name", [name for name in NAMES if LONG or name not in SLOW])
def test_quick_form_gives_rows(name, monkeypatch):
    if name == "overhead" and get_num_threads() is None:
        pytest.skip("it sets the number of OpenMP's threads, and the library runs its own")
    if name in MODULES:  # a benchmark of the front end of this package
        pytest.importorskip(name, exc_type=ImportError)
    monkeypatch.setattr(peers, "installed", lambda package: False)
    rows = list(import_module(f"benchmarks.{MODULES.get(name, name)}").rows(quick=True))
    assert rows
    assert len({row.case for row in rows}) == len(rows)
    for row in rows:
        assert all(isfinite(seconds) and seconds > 0 for seconds in row.seconds.values())
        assert set(row.speed) <= set(list(row.seconds)[1:])
        assert all(isfinite(number) for number in row.numbers.values())
        assert json.loads(json.dumps(asdict(row))) == asdict(row)


@pytest.mark.parametrize("family", FAMILIES)
def test_torch_computes_the_same_blocks(family):
    torch_ops = pytest.importorskip("benchmarks.torch_ops", reason="PyTorch is not installed", exc_type=ImportError)
    for name, graph, given in random_cases(family, range(8), 0):
        try:
            (other,) = torch_ops.torch_run(graph, given)()
        except torch_ops.UntranslatableError:
            continue
        assert torch_ops.difference(next(iter(reference.run(graph, given).values())), other) == "", name


def test_known_blocks_stand_in_the_docs():
    page = (ROOT / "docs" / "performance.md").read_text().splitlines()
    assert [line for line in page if line in {one.row for one in KNOWN}] == [one.row for one in KNOWN]
    assert {one.rival for one in KNOWN} <= {ONE_BY_ONE, NUMPY, TORCH}


@pytest.mark.parametrize(
    ("text", "rival", "expected"),
    [
        (
            "Add(f16[2, 3], f16[3])",
            TORCH,
            "the library computes them in f32, between two casts that read and write memory",
        ),
        ("Add(bf16[2, 3], bf16[3])", TORCH, ""),
        ("Concat(f32[2, 3], f32[2, 3])", ONE_BY_ONE, ""),
        ("Convolution(f32[1, 8, 8, 8, 16], f32[16, 1, 3, 3, 3])", TORCH, "oneDNN has no kernel for them"),
        ("Convolution(f32[1, 8, 8, 8, 16], f32[16, 16, 3, 3, 3])", TORCH, ""),
    ],
)
def test_known_blocks_are_recognised(text, rival, expected):
    assert known(text, rival) == expected


@pytest.mark.parametrize("effort", [Effort(rounds=3, turn=0.0), Effort(rounds=9, turn=0.0, limit=0.0)])
def test_contenders_take_turns(effort):
    turns = []
    contenders = {name: calls(lambda name=name: turns.append(name)) for name in "ab"}
    seconds, speed, load = alternate(contenders, effort)
    changes = [name for index, name in enumerate(turns) if index == 0 or turns[index - 1] != name]
    assert "".join(changes) == "ab" * 4  # one call to find the repetitions of a turn, then three rounds
    assert list(seconds) == ["a", "b"]
    assert list(speed) == ["b"]
    assert load["all"] >= 0


def test_table_compares_with_the_first_contender():
    row = Row("case", {"C loop": 2e-6, "bound run": 1e-3}, {"bound run": 0.002}, {"partitions": 3}, "a note")
    lines = [line.split() for line in table(row).splitlines()]
    assert lines == [
        ["case"],
        ["C", "loop", "2.00", "us"],
        ["bound", "run", "1.00", "ms", "0.00", "x"],
        ["partitions", "3.00"],
        ["a", "note"],
    ]


def test_table_marks_a_disturbed_row():
    assert "DISTURBED" not in table(Row("case", load={"all": 4.9, "sshd": 4.9}))
    lines = table(Row("case", load={"all": 48.0, "python3": 40.5})).splitlines()
    assert lines == ["case", "  DISTURBED: something else used 48 % of one processor (python3 40.5 %)"]


def test_disturbed_measurement_is_taken_again(monkeypatch):
    monkeypatch.setattr(machine, "attempts", 3)
    for shares, count in (([0.0], 1), ([90.0, 3.0], 2), ([90.0, 80.0, 70.0], 3)):
        rest, taken = iter(shares), []
        monkeypatch.setattr(machine, "load", lambda *_, rest=rest: {"all": next(rest)})
        assert machine.undisturbed(lambda taken=taken: taken.append(0)) == (None, {"all": shares[-1]})
        assert len(taken) == count


def test_command_line_stops_on_a_busy_machine(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(machine, "load_at_rest", lambda: {"all": 97.5, "cc1plus": 97.5})
    monkeypatch.setattr(sys, "argv", ["benchmarks", "fusion"])
    with pytest.raises(SystemExit, match=r"not idle: something else uses 97\.5 % of one processor \(cc1plus 97\.5 %\)"):
        main()
    assert capsys.readouterr().out == ""
    monkeypatch.setattr("benchmarks.fusion.rows", lambda quick: [Row("case")])
    monkeypatch.setattr(sys, "argv", ["benchmarks", "fusion", "--busy-ok", "--json", str(tmp_path / "results.json")])
    assert main() == 0
    assert "other load 97.5 % of one processor" in capsys.readouterr().out


def test_results_before_a_stop_are_kept(monkeypatch, tmp_path):
    def in_process(name, given):
        if name == "build":
            raise subprocess.CalledProcessError(1, "python -m benchmarks build")
        measured.append(name)

    measured = []
    monkeypatch.setattr("benchmarks.__main__.measure_in_process", in_process)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "fusion", "build", "peak"])
    assert main() == 1
    assert measured == ["fusion"]


def rows_of(cases, chosen=every):
    return (Row(case, note="new") for case in cases if chosen(case))


def notes_after(monkeypatch, file, *arguments):
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments, "--busy-ok", "--json", str(file)])
    assert main() == 0
    return {place: [row["note"] for row in one["rows"]] for place, one in json.loads(file.read_text()).items()}


def test_results_of_other_benchmarks_are_kept(monkeypatch, tmp_path):
    file = tmp_path / "results.json"
    old = {"environment": {}, "rows": [asdict(Row("case", note="old"))]}
    file.write_text(json.dumps({"peak": old, "fusion": old, "overhead": old}))
    monkeypatch.setattr("benchmarks.fusion.rows", lambda quick: rows_of("ab"))
    found = notes_after(monkeypatch, file, "fusion")
    assert list(found.items()) == [("overhead", ["old"]), ("fusion", ["new", "new"]), ("peak", ["old"])]


def test_chosen_rows_replace_their_own(monkeypatch, tmp_path):
    file = tmp_path / "results.json"
    here = environment({"all": 0.0})
    old = {"environment": here | {"onegraph": "0.0.1"}, "rows": [asdict(Row(case, note="old")) for case in "cba"]}
    file.write_text(json.dumps({"training": old}))
    monkeypatch.setattr("benchmarks.training.rows", lambda quick, chosen: rows_of("abcd", chosen))
    assert notes_after(monkeypatch, file, "training", "--rows", "[bd]") == {"training": ["old", "new", "old", "new"]}
    rows = json.loads(file.read_text())["training"]["rows"]
    assert [(row["case"], row["version"]) for row in rows] == [
        ("a", "0.0.1"),
        ("b", here["onegraph"]),
        ("c", "0.0.1"),
        ("d", here["onegraph"]),
    ]


def test_rows_of_another_machine_are_not_mixed(monkeypatch, tmp_path):
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"training": {"environment": {"cpu": "abacus"}, "rows": []}}))
    monkeypatch.setattr("benchmarks.training.rows", lambda quick, chosen: rows_of("ab", chosen))
    with pytest.raises(SystemExit, match=r"has rows of cpu abacus, not .*Measure all rows anew\."):
        notes_after(monkeypatch, file, "training", "--rows", "a")


def test_rows_are_chosen_of_models_alone(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "training", "peak", "--rows", "*f32*"])
    with pytest.raises(SystemExit):
        main()
    message = "--rows: 'peak' is measured as a whole; name some of tokens, kinds, training, onnx, torch"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", BY_ROW)
def test_models_are_measured_by_row(name):
    if name in MODULES:
        pytest.importorskip(name, exc_type=ImportError)
    cases = all_cases(import_module(f"benchmarks.{MODULES.get(name, name)}").rows, quick=False)
    assert len(cases) == len({*cases}) > 10
    place = -1 if name in ("onnx", "tokens") else -2
    if name != "kinds":
        assert {case.split(", ")[place] for case in cases} >= {"f32", "bf16"}


def test_losses_agree_with_one_of_the_peers():
    ours, near, far = [[1.0], [0.5]], [[1.0005], [0.5]], [[1.0], [0.6]]
    for others in ({}, {"torch eager": near, "torch compiled": far}, {"torch eager": far, "torch compiled": near}):
        training.compare({"onegraph": ours, **others}, 1e-3, "a case")
    with pytest.raises(AssertionError, match=r"a case: losses differ from PyTorch's in step 2: 0\.5, not 0\.6"):
        training.compare({"onegraph": ours, "torch eager": far}, 1e-3, "a case")


def test_runs_count_while_all_children_run():
    class Fake:
        def __init__(self, ends):
            self.replies = iter([0, ends])

        def send(self, command):
            pass

        def reply(self):
            return next(self.replies)

    children = [Fake([0.0, 1.0, 4.0, 6.0, 20.0]), Fake([0.5, 2.5, 5.5, 7.0])]
    assert child.together(children, 0.0) == [[3.0, 2.0], [2.0, 3.0, 1.5]]


def test_command_line_writes_json(tmp_path):
    file = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks", "fusion", "--quick", "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())["fusion"]
    assert {"onegraph", "cpu", "isa", "threads", "library", "GOMP_SPINCOUNT"} <= set(found["environment"])
    assert [[*row] for row in found["rows"]] == [[field.name for field in fields(Row)]] * 7
    assert all("kernels: " in row["note"] for row in found["rows"])
    assert "onednn_verbose" not in done.stdout


def test_command_line_lists_the_benchmarks():
    done = subprocess.run([sys.executable, "-m", "benchmarks", "fussion"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "'fussion' is no benchmark; they are overhead, callers, build, fusion" in done.stderr
