"""Every benchmark runs in its quick form without peers, and gives rows of the same columns. No test checks times."""

import json
import subprocess
import sys
from dataclasses import asdict
from importlib import import_module
from math import isfinite
from pathlib import Path

import pytest

from benchmarks import peers
from benchmarks.__main__ import NAMES
from benchmarks.results import table
from benchmarks.timing import Effort, Row, alternate, calls
from onegraph.capi import get_num_threads

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", NAMES)
def test_quick_form_gives_rows(name, monkeypatch):
    if name == "overhead" and get_num_threads() is None:
        pytest.skip("it sets the number of OpenMP's threads, and the library runs its own")
    monkeypatch.setattr(peers, "installed", lambda package: False)
    rows = list(import_module(f"benchmarks.{name}").rows(quick=True))
    assert rows
    assert len({row.case for row in rows}) == len(rows)
    for row in rows:
        assert all(isfinite(seconds) and seconds > 0 for seconds in row.seconds.values())
        assert set(row.speed) <= set(list(row.seconds)[1:])
        assert all(isfinite(number) for number in row.numbers.values())
        assert json.loads(json.dumps(asdict(row))) == asdict(row)


def test_contenders_take_turns():
    turns = []
    contenders = {name: calls(lambda name=name: turns.append(name)) for name in "ab"}
    seconds, speed = alternate(contenders, Effort(rounds=3, turn=0.0))
    changes = [name for index, name in enumerate(turns) if index == 0 or turns[index - 1] != name]
    assert "".join(changes) == "ab" * 4  # one call to find the repetitions of a turn, then three rounds
    assert list(seconds) == ["a", "b"]
    assert list(speed) == ["b"]


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


def test_command_line_writes_json(tmp_path):
    file = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks", "fusion", "--quick", "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())["fusion"]
    assert {"cpu", "isa", "threads", "library", "GOMP_SPINCOUNT"} <= set(found["environment"])
    assert [set(row) for row in found["rows"]] == [{"case", "seconds", "speed", "numbers", "note"}] * 7
    assert all("kernels: " in row["note"] for row in found["rows"])
    assert "onednn_verbose" not in done.stdout


def test_command_line_lists_the_benchmarks():
    done = subprocess.run([sys.executable, "-m", "benchmarks", "fussion"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "'fussion' is no benchmark; they are overhead, callers, build, fusion" in done.stderr
