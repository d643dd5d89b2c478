"""A bounded, seeded slice of the fuzzers in tests/fuzz; ``make fuzz`` runs them for any time."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import draws
from hypothesis import HealthCheck, given, seed, settings

from tests.fuzz import attributes, compare, corpus, grow, onnx_open_dims
from tests.fuzz.differ import WAYS, check
from tests.fuzz.recipe import build, reproducer

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "tests" / "corpus" / "graphs"
FOUND_ONCE = sorted(RECIPES.glob("*_*.json"))  # graphs that were wrong once; the names of the others are digests


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
@pytest.mark.parametrize("path", FOUND_ONCE, ids=[path.stem for path in FOUND_ONCE])
def test_graph_that_was_wrong_once_agrees(path):
    steps = json.loads(path.read_text())
    ways = [{"policy": policy, "threads": 1, "way": way} for policy in ("fusion", "debug") for way in WAYS]
    assert list(check(steps, ways)) == []


@pytest.mark.library
@pytest.mark.parametrize("kind", corpus.KINDS)
def test_inputs_that_reached_new_branches_are_replayed(kind):
    if needs := corpus.KINDS[kind].needs:
        pytest.importorskip(needs, reason=f"{needs} is not installed")
    for path in [path for path in corpus.inputs(kind, corpus.CORPUS) if path not in FOUND_ONCE]:
        assert not grow.error_of(kind, path.read_bytes()), path


def test_the_corpus_is_small_and_has_each_kind():
    kept = {kind: corpus.inputs(kind, corpus.CORPUS) for kind in corpus.KINDS}
    assert all(len(paths) > 9 for paths in kept.values())
    assert sum(path.stat().st_size for paths in kept.values() for path in paths) < 200_000
    assert {*corpus.CORPUS.rglob("*.*")} <= {path for paths in kept.values() for path in paths}


def test_the_fewest_inputs_reach_all_branches():
    reached = {b"ab": {1, 2}, b"a": {1}, b"abc" * 100: {1, 2, 3}, b"d": {4}, b"none": set(), b"known": {9}}
    assert corpus.fewest(reached, {9}, 1000) == [b"ab", b"d", b"abc" * 100]
    assert corpus.fewest(reached, {9}, 100) == [b"ab", b"d"]


@pytest.mark.parametrize("kind", corpus.KINDS)
def test_changed_inputs_depend_on_their_seed_alone(kind):
    if needs := corpus.KINDS[kind].needs:
        pytest.importorskip(needs, reason=f"{needs} is not installed")
    population = [path.read_bytes() for path in corpus.inputs(kind, corpus.CORPUS)]
    made = [corpus.KINDS[kind].functions.changed(population, seed) for seed in (1, 2, 1)]
    assert made[0] == made[2] != made[1]


GROWN = """
import sys
from pathlib import Path
from tests.fuzz import corpus, grow
corpus.FOUND = Path(sys.argv[1])
grow.main("files", 1, 40, True, corpus.FOUND)
"""


@pytest.mark.library
def test_an_input_that_reaches_new_branches_is_kept(tmp_path):
    command = [sys.executable, "-c", GROWN, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    kept = corpus.inputs("files", tmp_path)
    assert kept
    assert f"{len(kept)} kept" in done.stdout.splitlines()[-1]


def test_fuzzers_find_the_helpers_without_the_folder_of_tests():
    """``make fuzz`` starts in the folder of the project, where no package is called helpers."""
    texts, seen = [path.read_text() for path in (ROOT / "tests" / "fuzz").glob("*.py")], set()
    while texts:
        text = texts.pop()
        assert not re.search(r"^ *(from|import) helpers\b", text, re.MULTILINE), text[:200]
        names = {*re.findall(r"from \.\.?(?:helpers\.)?(\w+) import", text)} - seen
        seen |= names
        texts += [path.read_text() for name in names if (path := ROOT / "tests" / "helpers" / f"{name}.py").exists()]
    assert {"onnx_compare", "onnx_session", "onnx_nodes"} <= seen


@pytest.mark.library
def test_reproducer_is_a_script():
    names = {}
    source = reproducer(
        json.loads((RECIPES / "bias_and_its_source.json").read_text()), {"policy": "debug", "threads": 1}
    )
    exec(source.replace("print(", "result = ("), names)
    assert len(names["result"]) == 3


def test_detects_a_wrong_result():
    graph, arrays = build(json.loads((RECIPES / "strided_vector_operand.json").read_text()))
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
