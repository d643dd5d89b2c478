"""Reducing failing graphs, and the worker that tells how a graph fails."""

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.command_line import onegraph
from helpers.specification import graph_errors
from hypothesis import given, settings
from hypothesis import strategies as st

import onegraph as og
from onegraph.cli import cli
from onegraph.testing.random_graph import random_graph
from onegraph.tools.failure_probe import Failure, Prober
from onegraph.tools.python_code import load_python
from onegraph.tools.reduce import _simple, reduce, size
from onegraph.transform.rebuild import Change, rebuild


def elements(graph):
    return sum(int(np.prod([2 if dim is None else dim for dim in tensor.shape or ()])) for tensor in graph._tensors)


@given(st.integers(0, 10**6), st.data())
@settings(max_examples=40, deadline=None)
def test_leaves_only_the_planted_op(seed, data):
    graph = random_graph(seed, 14)
    kind = data.draw(st.sampled_from([op.kind for op in graph.ops if op.outputs]))
    tested = []

    def fails(candidate):
        assert graph_errors(candidate) == []
        tested.append(candidate)
        return any(op.kind == kind for op in candidate.ops)

    found = reduce(graph, fails)
    assert [op.kind for op in found.ops] == [kind]
    assert size(found) <= size(graph)
    assert elements(found) <= elements(graph)
    assert len(found.outputs) == 1
    assert len(tested) < 60
    # dims shrink unless an attribute ties them together
    tied = {"shape", "src_shape", "dst_shape", "weights_shape", "scales", "sizes"}
    if not tied.intersection(found.ops[0].attrs) and found.ops[0].attrs.get("groups", 1) == 1:
        assert elements(found) <= 20


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_keeps_two_ops_that_fail_together(seed):
    rng = np.random.default_rng(seed)
    g = og.Graph()
    x = g.input("x", og.bf16, (4, 6))
    values = [x]
    for _ in range(12):
        kind = rng.choice(["ReLU", "Exp", "Abs", "Square"])
        values.append(g.op(str(kind), [values[rng.integers(len(values))]]))
    tanh = g.tanh(values[-1])
    values += [g.relu(tanh), g.exp(tanh)]
    g.output("y", g.sigmoid(g.add(values[-1], values[-2]), name="last"))

    def fails(graph):
        kinds = [op.kind for op in graph.ops]
        return "Tanh" in kinds and "Sigmoid" in kinds

    found = reduce(g, fails)
    assert sorted(op.kind for op in found.ops) == ["Sigmoid", "Tanh"]
    assert {tensor.dtype for tensor in found._tensors} == {og.f32}
    assert {tensor.shape for tensor in found._tensors} == {(1, 1)}


def test_keeps_a_chain_that_matters():
    g = og.Graph()
    y = g.input("x", og.f32, (8, 8))
    for number in range(6):
        y = g.relu(g.matmul(y, g.constant(np.ones((8, 8), np.float32)), name=f"m{number}"))
    g.output("y", y)

    def fails(graph):
        made = {tensor.id: op.kind for op in graph.ops for tensor in op.outputs}
        feeds = [(made.get(tensor.id), op.kind) for op in graph.ops for tensor in op.inputs]
        return ("MatMul", "ReLU") in feeds and ("ReLU", "MatMul") in feeds

    found = reduce(g, fails)
    assert len(found.ops) == 3
    assert not any(tensor.constant for tensor in found._tensors)
    assert elements(found) == 5 if found.ops[0].kind == "ReLU" else 6


def test_shrinks_attributes():
    g = og.Graph()
    x, w = g.input("x", og.f32, (2, 9, 9, 4)), g.input("w", og.f32, (3, 3, 2, 6))
    window = {"strides": [2, 2], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [2, 1]}
    g.output("y", g.convolution(x, w, g.input("b", og.f32, (6,)), **window, groups=2, auto_pad="none"))
    found = reduce(g, lambda graph: graph.ops[0].attrs["dilations"][0] == 2)
    attrs = dict(found.ops[0].attrs)
    assert attrs.pop("dilations") == (2, 1)
    assert attrs == {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0)}
    assert found.ops[0].inputs[0].shape[0] == 1


def test_shrinks_scales_with_their_axis():
    g = og.Graph()
    x = g.input("x", og.f32, (4, 6))
    q = g.quantize(x, qtype="per_channel", axis=1, scales=[1, 2, 3, 4, 5, 6], zps=[1] * 6, dtype=og.s8)
    g.output("y", q)
    found = reduce(g, lambda graph: graph.ops[0].attrs.get("qtype") == "per_channel" and graph.inputs)
    assert found.ops[0].inputs[0].shape == (1, 1)
    assert len(found.ops[0].attrs["scales"]) == 1


def test_returns_a_minimal_graph_unchanged():
    g = og.Graph()
    g.output("out_0", g.relu(g.input("in_0", og.f32, (1,)), name="relu_0"))
    assert reduce(g, lambda graph: True) is g
    with pytest.raises(og.ArgumentError, match="does not fail"):
        reduce(g, lambda graph: False)
    for wrong in (0, -1, True, "9"):
        with pytest.raises(og.ArgumentError, match="max_tests"):
            reduce(g, lambda graph: True, max_tests=wrong)
    with pytest.raises(ZeroDivisionError):
        reduce(g, lambda graph: 1 / 0)


def test_respects_the_number_of_tests():
    graph, told = random_graph(5, 16), []
    reduce(graph, lambda candidate: True, max_tests=3, progress=lambda tests, best: told.append((tests, len(best.ops))))
    assert [tests for tests, _ in told] == [1, 2, 3]
    counts = [count for _, count in told]
    assert counts == sorted(counts, reverse=True)


def test_reduces_graphs_that_the_builder_refuses():
    g = og.Graph()
    x = g.input("x", og.f32, (1, 6, 6, 2))
    pooled = g.max_pool(g.relu(x), strides=[1, 1], kernel=[2, 2], pads_begin=[0, 0], pads_end=[0, 0])
    g.output("y", g.exp(pooled))
    form = json.loads(g.to_json())
    form["graph"][1]["attrs"]["pads_end"]["value"] = [-1, -1]
    unknown = {"shape": [-(2**63)], "stride": [-(2**63)], "layout_type": "undef"}
    for op in form["graph"][1:]:
        for use in op["outputs"] + (op["inputs"] if op["kind"] == "Exp" else []):
            use.update(unknown)
    graph = og.Graph.from_json(json.dumps(form))
    assert graph_errors(graph)
    found = reduce(graph, lambda candidate: any(op.kind == "MaxPool" for op in candidate.ops))
    assert [op.kind for op in found.ops] == ["MaxPool"]
    assert found.ops[0].attrs["pads_end"] == (-1, -1)


# Changes --------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.data())
@settings(max_examples=40, deadline=None)
def test_any_subset_of_ops_is_valid(seed, data):
    graph = random_graph(seed, 8)
    places = data.draw(st.sets(st.integers(0, 7), min_size=1))
    found = rebuild(graph, Change(ops=places))
    assert graph_errors(found) == []
    assert [op.kind for op in found.ops] == [graph.ops[place].kind for place in sorted(places)]
    read = {tensor.id for op in found.ops for tensor in op.inputs}
    shown = {tensor.id for tensor in found.outputs.values()}
    assert all(tensor.id in read | shown for op in found.ops for tensor in op.outputs)
    for place, op in zip(sorted(places), found.ops, strict=True):
        assert [t.shape for t in op.outputs] == [t.shape for t in graph.ops[place].outputs]


def test_empty_change_keeps_the_graph():
    for seed in range(10):
        graph = random_graph(seed, 6)
        found = rebuild(graph, Change())
        assert [(op.kind, op.attrs, op.name) for op in found.ops] == [(op.kind, op.attrs, op.name) for op in graph.ops]
        for one, two in ((graph.inputs, found.inputs), (graph.outputs, found.outputs)):
            assert {n: (t.dtype, t.shape) for n, t in one.items()} == {n: (t.dtype, t.shape) for n, t in two.items()}


# Failures -------------------------------------------------------------------------------------------------------------


@pytest.mark.library
def test_worker_reports_the_failure():
    good = random_graph(1, 3, kinds=["ReLU", "MatMul"], dtypes=["f32"])
    bad = og.Graph()
    x = bad.input("x", og.f32, (2, 2))
    bad.output("y", bad.op("Wildcard", [bad.relu(x)], dtype=og.f32, name="what"))
    with Prober() as prober:
        assert prober.failure(good) is None
        failure = prober.failure(bad)
        assert failure.kind == "exception"
        assert "'what' is a Wildcard" in failure.detail
        bad.output("z", bad.op("Wildcard", [x], dtype=og.f32, name="other"))
        assert prober.failure(bad) == failure
        assert prober.failure(good) is None
        found = reduce(bad, lambda candidate: prober.failure(candidate) == failure)
    assert [op.kind for op in found.ops] == ["Wildcard"]


def program(folder, text):
    path = folder / "program.py"
    path.write_text(
        f"#!{sys.executable}\nimport json, os, signal, sys, time\nform = json.load(open(sys.argv[1]))\n{text}"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


KINDS = "kinds = [op['kind'] for op in form['graph']]\n"


def test_command_decides_whether_a_graph_fails(tmp_path):
    graph = random_graph(2, 12, kinds=["ReLU", "Exp", "Tanh", "MatMul"])
    assert "MatMul" in [op.kind for op in graph.ops]
    command = program(tmp_path, KINDS + "sys.exit(3 if 'MatMul' in kinds else 0)")
    with Prober(command=f"{command} {{}}") as prober:
        failure = prober.failure(graph)
        assert failure == Failure("status", "3", "3")
        found = reduce(graph, lambda candidate: prober.failure(candidate) == failure)
        assert [op.kind for op in found.ops] == ["MatMul"]
    assert not os.path.exists(prober._folder.name)


def test_detects_crashes_and_hangs(tmp_path):
    graph = random_graph(2, 2, kinds=["ReLU"])
    crash = program(tmp_path, "os.kill(os.getpid(), signal.SIGABRT)")
    with Prober(command=f"{crash} {{}}") as prober:
        assert prober.failure(graph) == Failure("crash", "SIGABRT", "SIGABRT")
        assert str(prober.failure(graph)) == "crash: SIGABRT"
    crash = program(tmp_path, "os.kill(os.getpid(), signal.SIGRTMIN + 6)")
    with Prober(command=f"{crash} {{}}") as prober:
        assert str(prober.failure(graph)) == "crash: signal 40"
    hang = program(tmp_path, "time.sleep(600)")
    with Prober(command=f"{hang} {{}}", time_limit=0.5) as prober:
        assert prober.failure(graph).kind == "hang"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "empty"),
        ("'a", "quotation"),
        ("/does/not/exist {}", "expected a program"),
        ("true", "'true' has no {}; expected it where the path of the graph is to stand"),
    ],
)
def test_rejects_commands_that_cannot_run(command, message):
    with pytest.raises(og.ArgumentError, match=message), Prober(command=command) as prober:
        prober.failure(random_graph(1, 1))


@pytest.mark.library
def test_rejects_graphs_without_random_inputs(tmp_path):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (None, 3))))
    with Prober() as prober, pytest.raises(og.ArgumentError, match="expected known dims for random data"):
        prober.failure(g)
    g.save(tmp_path / "g.json")
    done = onegraph("reduce", "g.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "input 'x': shape [?, 3]; expected known dims for random data" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["g.json"]


@pytest.mark.library
def test_restarts_a_crashed_worker():
    graph = random_graph(1, 3, kinds=["ReLU"], dtypes=["f32"])
    with Prober() as prober:
        assert prober.failure(graph) is None
        prober._worker._process.kill()
        prober._worker._process.wait()
        assert prober.failure(graph) is None


# The command ----------------------------------------------------------------------------------------------------------


@pytest.mark.library
def test_command_line(tmp_path):
    random_graph(2, 12, kinds=["ReLU", "Exp", "Tanh", "MatMul"]).save(tmp_path / "g.json")
    command = program(tmp_path, KINDS + "sys.exit('MatMul' in kinds)")
    done = onegraph("reduce", "g.json", "--command", f"{command} {{}}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "12 ops before, 1 now, in g.reduced.json" in done.stdout
    assert "benchdnn --mode=C --graph --case=g.reduced.json" in done.stdout
    assert "g.matmul(" in done.stdout
    assert [op.kind for op in og.Graph.load(tmp_path / "g.reduced.json").ops] == ["MatMul"]
    assert [op.kind for op in load_python(tmp_path / "g.reduced.py").ops] == ["MatMul"]
    done = onegraph("reduce", "g.json", "--command", f"{command} {{}}", "--fpmath-mode", "bf16", cwd=tmp_path)
    assert "benchdnn --mode=C --graph --attr-fpmath=bf16 --case=g.reduced.json" in done.stdout, done.stderr
    fine = onegraph("reduce", "g.json", cwd=tmp_path)
    assert (fine.returncode, fine.stdout) == (1, "the graph does not fail\n")


@pytest.mark.library
def test_prints_code_that_fails(tmp_path):
    g = og.Graph()
    x = g.input("x", og.f32, (2, 2))
    g.output("y", g.op("Rsqrt", [g.relu(g.exp(x))], edition="legacy-1"))
    g.save(tmp_path / "g.json")
    done = onegraph("reduce", "g.json", "--no-fallback", "-o", "small.json", "--json", cwd=tmp_path)
    facts = json.loads(done.stdout)
    assert (facts["kind"], facts["before"], facts["ops"], facts["json"]) == ("exception", 3, 1, "small.json")
    (tmp_path / "again.py").write_text(facts["python"])
    again = subprocess.run([sys.executable, "again.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "UnsupportedError" in again.stderr


@pytest.mark.library
def test_writes_code_atomically(tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    g = og.Graph()
    g.output("y", g.op("Rsqrt", [g.input("x", og.f32, (2, 2))], edition="legacy-1"))
    g.save(tmp_path / "g.json")
    monkeypatch.setattr(Path, "write_text", full)  # write_text starts by emptying the file
    options = ["--no-fallback", "--json", "-o", str(tmp_path / "small.json")]
    done = CliRunner().invoke(cli, ["reduce", str(tmp_path / "g.json"), *options])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "small.py").read_text() == json.loads(done.output)["python"]


def test_an_op_between_two_that_stay_is_removed():
    graph = og.Graph()
    graph.output("y", graph.tanh(graph.exp(graph.abs(graph.input("x", og.f32, (2,))))))
    small = reduce(graph, lambda one: {"Abs", "Tanh"} <= {op.kind for op in one.ops})
    assert [op.kind for op in small.ops] == ["Abs", "Tanh"]


@pytest.mark.parametrize(
    ("value", "simpler"),
    [
        ((2, 3), [(0, 0), (1, 1), (0, 3), (1, 3), (2, 0), (2, 1)]),
        ((0.0, 1.0), [(0.0, 0.0), (1.0, 1.0), (1.0, 1.0), (0.0, 0.0)]),
        ((), [(), ()]),
    ],
)
def test_lists_get_zeros_and_ones(value, simpler):
    found = [*_simple(value)]
    assert found == simpler
    assert [*map(type, found[0])] == [*map(type, value)]
