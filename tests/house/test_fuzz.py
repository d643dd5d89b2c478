"""A bounded, seeded slice of the fuzzers in tests/fuzz; ``make fuzz`` runs them for any time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import draws
from hypothesis import HealthCheck, given, seed, settings

from tests.fuzz import attributes, compare, onnx_open_dims
from tests.fuzz.differ import WAYS, check
from tests.fuzz.recipe import build, reproducer

ROOT = Path(__file__).resolve().parents[2]
CORPUS = sorted((ROOT / "tests" / "corpus").glob("*.json"))


@pytest.mark.library
@pytest.mark.parametrize("kind", ["graphs", "host"])
def test_random_graphs_agree(kind):
    """Another process runs the graphs: a signal must not end the tests, and must name its seed."""
    command = [sys.executable, "-m", "tests.fuzz.child", kind, "1", str(draws(12, 40))]
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    lines = done.stdout.splitlines()
    last = next((line for line in reversed(lines) if line.startswith("@")), "no case")
    assert last == "@done", f"ended by {done.returncode} at {last}\n{done.stderr[-3000:]}"
    assert not [line for line in lines if line.startswith("FAIL")]


@pytest.mark.library
def test_random_onnx_nodes_agree_for_any_dims():
    pytest.importorskip("onnx", reason="onnx is not installed")
    assert onnx_open_dims.in_child(1, draws(18, 60)) == []


@pytest.mark.library
@pytest.mark.parametrize("path", CORPUS, ids=[path.stem for path in CORPUS])
def test_corpus_case_agrees(path):
    steps = json.loads(path.read_text())
    ways = [{"policy": policy, "threads": 1, "way": way} for policy in ("fusion", "debug") for way in WAYS]
    assert list(check(steps, ways)) == []


def test_corpus_exists():
    assert CORPUS


@pytest.mark.library
def test_reproducer_is_a_script():
    names = {}
    source = reproducer(json.loads(CORPUS[0].read_text()), {"policy": "debug", "threads": 1})
    exec(source.replace("print(", "result = ("), names)
    assert len(names["result"]) == 3


def test_detects_a_wrong_result():
    graph, arrays = build(json.loads((ROOT / "tests/corpus/strided_vector_operand.json").read_text()))
    right = {"y5": arrays["x0"] @ arrays["x1"] + arrays["x3"]}
    assert compare.differences(graph, arrays, right, right) == {}
    near = {"y5": right["y5"] * np.float32(1 + 2**-22)}
    assert compare.differences(graph, arrays, right, near) == {}
    wrong = {"y5": right["y5"].copy()}
    wrong["y5"][2, 3] += 1e-3
    assert "1 of 30 wrong, at [2, 3]" in compare.differences(graph, arrays, right, wrong)["y5"]


@seed(20)
@settings(max_examples=draws(100, 400), deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(attributes.uses())
def test_any_attributes_agree(use):
    attributes.examine(use)
