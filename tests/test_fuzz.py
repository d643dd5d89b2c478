"""A bounded, seeded slice of the fuzzers in tests/fuzz, which ``make fuzz`` runs for as long as one likes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from onegraph.compiler.memory_planner import ALIGNMENT, Lifetime, aligned, plan_memory
from tests.fuzz import attributes, compare
from tests.fuzz.differ import WAYS, check
from tests.fuzz.recipe import build, reproducer

ROOT = Path(__file__).resolve().parents[1]
CORPUS = sorted((ROOT / "tests" / "corpus").glob("*.json"))


def test_random_graphs():
    """In a process of its own: a signal must not end the tests, and must name its seed."""
    command = [sys.executable, "-m", "tests.fuzz.child", "graphs", "1", "40"]
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    lines = done.stdout.splitlines()
    last = next((line for line in reversed(lines) if line.startswith("@")), "no case")
    assert last == "@done", f"ended by {done.returncode} at {last}\n{done.stderr[-3000:]}"
    assert not [line for line in lines if line.startswith("FAIL")]


@pytest.mark.parametrize("path", CORPUS, ids=[path.stem for path in CORPUS])
def test_found_cases(path):
    steps = json.loads(path.read_text())
    ways = [{"policy": policy, "threads": 1, "way": way} for policy in ("fusion", "debug") for way in WAYS]
    assert list(check(steps, ways)) == []


def test_corpus_is_there():
    assert CORPUS


def test_reproducer_is_a_script():
    names = {}
    source = reproducer(json.loads(CORPUS[0].read_text()), {"policy": "debug", "threads": 1})
    exec(source.replace("print(", "result = ("), names)
    assert len(names["result"]) == 3


def test_a_wrong_result_is_seen():
    graph, arrays = build(json.loads((ROOT / "tests/corpus/strided_vector_operand.json").read_text()))
    right = {"y5": arrays["x0"] @ arrays["x1"] + arrays["x3"]}
    assert compare.differences(graph, arrays, right, right) == {}
    near = {"y5": right["y5"] * np.float32(1 + 2**-22)}
    assert compare.differences(graph, arrays, right, near) == {}
    wrong = {"y5": right["y5"].copy()}
    wrong["y5"][2, 3] += 1e-3
    assert "1 of 30 wrong, at [2, 3]" in compare.differences(graph, arrays, right, wrong)["y5"]


@seed(20)
@settings(max_examples=400, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(attributes.uses())
def test_any_attributes(use):
    attributes.examine(use)


LIFETIMES = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 30), st.integers(0, 12)), max_size=40)


@seed(3)
@settings(max_examples=500, deadline=None, database=None)
@given(LIFETIMES, st.data())
def test_pieces_that_are_alive_together_do_not_overlap(drawn, data):
    pieces = [Lifetime(n, aligned(size), start, start + length) for n, (size, start, length) in enumerate(drawn)]
    numbers = st.integers(0, max(len(pieces) - 1, 0))
    wishes = data.draw(st.dictionaries(numbers, numbers, max_size=10))
    offsets, end = plan_memory(pieces, wishes)
    assert set(offsets) == {piece.number for piece in pieces}
    for piece in pieces:
        assert offsets[piece.number] % ALIGNMENT == 0
        assert 0 <= offsets[piece.number] <= end - aligned(piece.size)
    for one in pieces:
        for two in pieces[: one.number]:
            apart = one.end < two.start or two.end < one.start
            first, last = offsets[one.number], offsets[two.number]
            clear = first + aligned(one.size) <= last or last + aligned(two.size) <= first
            handed_on = (
                first == last
                and aligned(one.size) == aligned(two.size)
                and (
                    (wishes.get(one.number) == two.number and two.end == one.start)
                    or (wishes.get(two.number) == one.number and one.end == two.start)
                )
            )
            assert apart or clear or handed_on
    alive = [sum(aligned(p.size) for p in pieces if p.start <= step <= p.end) for step in range(45)]
    assert end <= sum(aligned(piece.size) for piece in pieces)
    if not wishes:
        assert end >= max(alive, default=0)


@seed(4)
@settings(max_examples=200, deadline=None, database=None)
@given(st.integers(1, 4000), st.integers(1, 60))
def test_a_chain_needs_two_places(size, length):
    """In a chain of equal pieces, each read by the next step only, two places are as few as can be."""
    chain = [Lifetime(number, aligned(size), number, number + 1) for number in range(length)]
    assert plan_memory(chain, {})[1] == min(length, 2) * aligned(size)
    in_place = {number: number - 1 for number in range(1, length)}
    assert plan_memory(chain, in_place)[1] == aligned(size)
