"""Sizes of unknown dims timed one after the other, with what was compiled for each."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import onegraph as og
from onegraph.cli import cli
from onegraph.tools.bench import Variant
from onegraph.tools.bench_sizes import SizeMeasurement, bench_sizes, open_dims


def graph(rows=None):
    g = og.Graph()
    x = g.input("x", og.f32, (rows, 8))
    g.output("y", g.softmax(g.matmul(x, g.constant(np.ones((8, 4), np.float32))), axis=-1))
    return g


def test_says_what_was_compiled_and_what_was_reused():
    g = graph()
    found = bench_sizes(g, [{"x:0": rows} for rows in (9, 10, 11, 12, 9)], seconds=0.0)
    assert [one.made for one in found] == ["compiled", "compiled", "reused", "reused", "found"]
    assert all(len(one.samples) == 1 and one.first > 0 and one.median > 0 for one in found)
    assert found[0].partitions > 0
    assert found[4].partitions == 0
    assert not any(one.reason for one in found[1:])


def test_names_of_unknown_dims():
    g = og.Graph()
    x, y = g.input("x", og.f32, (None, 3, None)), g.input("y", og.f32, (2, None))
    g.output("z", g.relu(x)), g.output("w", g.relu(y))
    assert open_dims(g) == {"x:0": [("x", 0)], "x:2": [("x", 2)], "y:1": [("y", 1)]}


@pytest.mark.parametrize("sizes", [{}, {"x:0": -1}, {"x:0": 1.5}, {"x:1": 2}, {"x:0": 1, "y:0": 2}], ids=str)
def test_refuses_other_sizes(sizes):
    with pytest.raises(og.ArgumentError, match=r"x:0|sizes"):
        bench_sizes(graph(), [sizes])


def test_refuses_an_unknown_rank():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, None)))
    with pytest.raises(og.ArgumentError, match="unknown rank"):
        bench_sizes(g, [{}])


@pytest.fixture
def invoke(tmp_path):
    path = tmp_path / "model.json"

    def run(*options, rows=None):
        graph(rows).save(path)
        return CliRunner().invoke(cli, ["bench", str(path), "--seconds", "0", *options])

    return run


def test_the_command_prints_a_row_for_each_combination(invoke):
    shown = invoke("--size", "x:0=5,6,7").stdout
    assert [line.split()[0] for line in shown.splitlines()[1:]] == ["5", "6", "7"]
    found = json.loads(invoke("--size", "x:0=5,6", "--json").stdout)
    assert [one["sizes"] for one in found] == [{"x:0": 5}, {"x:0": 6}]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--size", "x:0"], "expected a dim and its sizes"),
        (["--size", "x:0=a"], "expected a dim and its sizes"),
        (["--size", "5"], "expected a dim and its sizes"),
        (["--size", "rows=1"], "a size for each unknown dim: 'x:0'"),
        (["--size", "x:0=1", "--size", "x:0=2"], "a dim is given twice"),
        (["--size", "x:0=1", "--fill", "0"], "--size: --fill; expected each dim once, alone"),
        (["--size", "x:0=1", "--inputs", "i.npz"], "--size: --inputs; expected"),
        (["--size", "x:0=1", "--outputs", "o.npz", "--in-place"], "--size: --outputs, --in-place; expected"),
        (["--size", "x:0=1", "--trace", "t.json"], "--size: --trace; expected"),
        (["--size", "x:0=1", "--policy", "fusion,debug"], "two variants"),
    ],
    ids=str,
)
def test_the_command_refuses_other_options(invoke, options, text):
    done = invoke(*options)
    assert done.exit_code != 0
    assert text in done.output


def test_the_command_hands_its_options_on(invoke, monkeypatch):
    calls = []

    def times(graph, combinations, variant, **options):
        calls.append((combinations, variant, options))
        return [SizeMeasurement({"x:0": 1}, 1e-3, [1e-6], "compiled", 1, "")]

    monkeypatch.setattr("onegraph.tools.bench_sizes.bench_sizes", times)
    options = ("--size", "a=1,2", "--size", "b=3", "--policy", "debug", "--runs", "9", "--seed", "4")
    assert invoke(*options, "--no-fallback").exit_code == 0
    sizes = [{"a": 1, "b": 3}, {"a": 2, "b": 3}]
    assert calls == [(sizes, Variant("debug", fallback=False), {"seconds": 0.0, "runs": 9, "seed": 4})]


def test_sizes_of_a_graph_with_known_dims_are_refused(invoke):
    assert "there is none" in invoke("--size", "x:0=1", rows=3).output


def test_named_dims_of_a_model_have_sizes(tmp_path):
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    ends = [helper.make_tensor_value_info(name, 1, ["batch", 3]) for name in ("x", "y")]
    body = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", ends[:1], ends[1:])
    path = tmp_path / "relu.onnx"
    onnx.save(helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    done = CliRunner().invoke(cli, ["bench", str(path), "--seconds", "0", "--size", "batch=2,3"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("batch")
