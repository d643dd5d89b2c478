"""Commands take models of ONNX as they take graphs in JSON."""

import json
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.grouped import grouped
from helpers.host_cases import cases, graph_of

import onegraph as og
import onegraph.capi
from onegraph.cli import cli
from onegraph.reference import run

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4) / 8


@pytest.fixture
def model(tmp_path):
    """A product, a ReLU, and a TopK, which the specification lacks; the batch is unknown."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], name="product"),
        helper.make_node("Relu", ["product"], ["positive"], name="positive"),
        helper.make_node("TopK", ["positive", "two"], ["y", "places"], name="best"),
    ]
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2]),
        helper.make_tensor_value_info("places", TensorProto.INT64, ["batch", 2]),
    ]
    known = [numpy_helper.from_array(WEIGHTS, "w"), numpy_helper.from_array(np.array([2]), "two")]
    graph = helper.make_graph(nodes, "small", ports[:1], ports[1:], known)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path / "small.onnx"
    onnx.save(made, path)
    return path


def output_of(*arguments, code=0, stdin=None):
    result = CliRunner().invoke(cli, [str(one) for one in arguments], input=stdin)
    assert result.exit_code == code, result.output
    return result.output


SHAPE = ("--in-shapes", "x:5x3")


def test_check_reads_a_model(model):
    found = json.loads(output_of("check", model, "--json"))
    assert {(one["op"], one["rule"]) for one in found} <= {("TopK 'best'", "no_library_op")}


@pytest.mark.library
@pytest.mark.parametrize("command", ["show", "verify", "run", "bench"])
def test_commands_read_a_model(model, command, monkeypatch):
    monkeypatch.setattr("onegraph.tools.onnx_runtime.find_spec", lambda name: None)  # test_verify_model.py has one
    more = ("--seconds", "0.01") if command == "bench" else ()
    assert json.loads(output_of(command, model, *SHAPE, *more, "--json"))


def test_a_model_is_drawn(model, tmp_path):
    output_of("view", model, *SHAPE, "-o", tmp_path / "small.html")
    assert "TopK" in (tmp_path / "small.html").read_text()


@pytest.mark.library
def test_run_writes_the_results_of_the_model(model, tmp_path):
    x = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
    np.savez(tmp_path / "in.npz", x=x)
    output_of("run", model, *SHAPE, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_allclose(found["y"], -np.sort(-np.maximum(x @ WEIGHTS, 0))[:, :2], rtol=1e-6)


def test_standard_input_may_be_a_model(model):
    assert "best" in output_of("show", "-", *SHAPE, stdin=model.read_bytes())


def test_convert_writes_json_and_models(model, tmp_path):
    x = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
    output_of("convert", model, "-o", tmp_path / "small.json")
    output_of("convert", tmp_path / "small.json", "-o", tmp_path / "again.onnx")
    graph = og.Graph.load(tmp_path / "small.json")
    assert [op.name for op in graph.ops] == ["product", "positive", "best"]
    onnx.checker.check_model(str(tmp_path / "again.onnx"), full_check=True)
    again = og.onnx.load(tmp_path / "again.onnx")
    for name, wanted in run(graph, {"x": x}).items():
        np.testing.assert_array_equal(run(again, {"x": x})[name], wanted)


def test_convert_refuses_a_version_of_json_for_a_model(model, tmp_path):
    text = output_of("convert", model, "--for", "3.2", "-o", tmp_path / "m.onnx", code=2)
    assert "expected an output that ends in .json" in text


def test_random_graphs_are_written_as_models(tmp_path):
    output_of("random", "--seed", 3, "-o", tmp_path / "r.onnx")
    assert json.loads(output_of("show", tmp_path / "r.onnx", "--json", "--no-compile"))


def test_a_missing_package_is_named(model):
    code = "import sys; sys.modules['onnx'] = None; from onegraph.cli import main; main()"
    found = subprocess.run([sys.executable, "-c", code, "show", model], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert f"{model}: a model of ONNX; expected JSON, or the package onnx: pip install onegraph[onnx]" in found.stderr


@grouped("case", cases())
def test_files_keep_host_ops(case, tmp_path):
    graph, arrays = graph_of(case)
    graph.save(tmp_path / "graph.json")
    again = og.Graph.load(tmp_path / "graph.json")
    assert [(op.kind, dict(op.attrs), op.edition) for op in again.ops] == [
        (op.kind, dict(op.attrs), op.edition) for op in graph.ops
    ]
    for found, wanted in zip(run(again, arrays).values(), case.results, strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)
