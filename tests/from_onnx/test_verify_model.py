"""verify judges the file of a model of ONNX by ONNX Runtime, and notices what an import or a call gets wrong."""

import json
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from onegraph.cli import cli

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import onegraph.onnx  # noqa: E402
from onegraph.tools import onnx_inputs, onnx_runtime, verify_model  # noqa: E402

pytestmark = pytest.mark.library
WEIGHTS = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32) / 4
OPEN = [("x", TensorProto.FLOAT, ["n", 16])]


def made(nodes, ports=OPEN, known=None, opset=21, outputs=("y",)):
    """A model whose node lists are written as ``(kind, inputs, outputs, attributes)``."""
    listed = [helper.make_node(kind, ins, outs, **attrs) for kind, ins, outs, attrs in nodes]
    constants = [numpy_helper.from_array(array, name) for name, array in (known or {}).items()]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(listed, "g", [helper.make_tensor_value_info(*port) for port in ports], ends, constants)
    if ports and ports[0][1] != TensorProto.FLOAT:
        for end in graph.output:
            end.type.tensor_type.elem_type = ports[0][1]
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def one(kind, known=None, ports=OPEN, opset=21, **attrs):
    return made([(kind, ["x", *(known or {})], ["y"], attrs)], ports, known, opset)


IMAGE = [("x", TensorProto.FLOAT, ["n", 2, "h", "w"])]
HALF = [("x", TensorProto.FLOAT16, ["n", 64])]
SCALE = {"s": np.ones(16, np.float32)}
HALF_SCALE = {"s": np.ones(64, np.float16)}
POOL = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
DROPPED = made([("IsNaN", ["x"], ["n"], {}), ("Where", ["n", "zero", "x"], ["y"], {})], known={"zero": np.float32(0)})
# A fault: the model, another model that is imported in its place, and the problem that is found.
WRONG_IMPORTS = {
    "NaN dropped": (one("Identity"), DROPPED, "NaN is lost"),
    "other epsilon": (
        one("LayerNormalization", SCALE, epsilon=1e-12),
        one("LayerNormalization", SCALE, epsilon=2e-12),
        "numbers",
    ),
    "other divisor": (
        one("AveragePool", ports=IMAGE, **POOL),
        one("AveragePool", ports=IMAGE, count_include_pad=1, **POOL),
        "numbers",
    ),
    "a window too many": (
        one("MaxPool", ports=IMAGE, **POOL),
        one("MaxPool", ports=IMAGE, ceil_mode=1, **POOL),
        "shape",
    ),
    "zeros in f16": (one("Softmax", ports=HALF), one("Softmax", ports=HALF, axis=0), "numbers"),
    "f16 norm without scale": (
        one("LayerNormalization", HALF_SCALE, HALF),
        one("LayerNormalization", {"s": HALF_SCALE["s"] * np.float16(1.01)}, HALF),
        "numbers",
    ),
    "one batch only": (one("Relu"), one("Relu", ports=[("x", TensorProto.FLOAT, [2, 16])]), "error"),
    "old weights": (one("MatMul", {"w": WEIGHTS}), one("MatMul", {"w": WEIGHTS + np.float32(0.01)}), "numbers"),
}


@pytest.fixture(scope="module", autouse=True)
def one_process(tmp_path_factory):
    """One process of ONNX Runtime, which takes half a second to start, runs the models of all tests."""
    runner = onnx_runtime.Runtime(tmp_path_factory.mktemp("arrays"))

    @contextmanager
    def shared():
        with TemporaryDirectory() as folder:
            yield runner, Path(folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify_model, "runtime", shared)
        yield
    runner.close()


def save(model, path):
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("name", WRONG_IMPORTS)
def test_a_wrong_import_is_noticed(name, tmp_path, monkeypatch):
    right, wrong, problem = WRONG_IMPORTS[name]
    path, other = save(right, tmp_path / "right.onnx"), save(wrong, tmp_path / "wrong.onnx")
    load = onegraph.onnx.load
    monkeypatch.setattr(onegraph.onnx, "load", lambda *args, **options: load(other))
    found = verify_model.verify_model(path)
    assert problem in {finding.problem for finding in found.findings}
    assert str(found).startswith("wrong: ")


RIGHT = {
    "product": made([("MatMul", ["x", "w"], ["a"], {}), ("Tanh", ["a"], ["y"], {})], known={"w": WEIGHTS}),
    "f16": one("Mul", {"s": np.float16([1.5])}, HALF),
    "bf16": made(
        [("Cast", ["x"], ["a"], {"to": 1}), ("Neg", ["a"], ["b"], {}), ("Cast", ["b"], ["y"], {"to": 16})],
        [("x", TensorProto.BFLOAT16, ["n", 8])],
    ),
    "integers": made(
        [("Gather", ["w", "x"], ["y"], {})], [("x", TensorProto.INT64, ["n"])], {"w": np.arange(32).reshape(8, 4)}
    ),
    "bytes": made(
        [("Cast", ["x"], ["a"], {"to": 6}), ("Cast", ["a"], ["y"], {"to": 2})], [("x", TensorProto.UINT8, ["n", 4])]
    ),
    # Without VNNI, ONNX Runtime adds two products in 16 bits, where it is not told to be precise.
    "products of 8 bits": made(
        [("MatMulInteger", ["x", "w"], ["a"], {}), ("Cast", ["a"], ["y"], {"to": 2})],
        [("x", TensorProto.UINT8, ["n", 64])],
        {"w": np.tile(np.int8([127, 127, -128, -128]), (64, 4))},
    ),
}


def test_sessions_of_onnx_runtime_run_the_model_as_it_is(tmp_path):
    options = onnx_runtime._session(onnxruntime, str(save(RIGHT["product"], tmp_path / "m.onnx"))).get_session_options()
    assert options.get_session_config_entry("session.x64quantprecision") == "1"
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


@pytest.mark.parametrize("name", RIGHT)
def test_right_models_are_right(name, tmp_path):
    found = verify_model.verify_model(save(RIGHT[name], tmp_path / "model.onnx"))
    assert found, str(found)
    assert str(found).startswith("right: ")


def test_padding_times_infinite_weights_is_no_finding(tmp_path):
    """ONNX Runtime multiplies the zeros, and gives NaN where the definition has no product."""
    ports = [("x", TensorProto.FLOAT, [1, 2, 5, 5]), ("w", TensorProto.FLOAT, [3, 2, 3, 3])]
    onnx.save(made([("Conv", ["x", "w"], ["y"], {"pads": [1] * 4})], ports), tmp_path / "m.onnx")
    found = verify_model.verify_model(tmp_path / "m.onnx")
    assert found, found
    assert any("multiplies infinite weights by the zeros of the padding" in note for note in found.notes)


def test_state_between_calls_is_noticed(tmp_path, monkeypatch):
    kept, run = {}, verify_model.Executable._run_by_name
    monkeypatch.setattr(
        verify_model.Executable,
        "_run_by_name",
        lambda self, given: kept.setdefault(given["x"].tobytes(), run(self, given)),
    )
    found = verify_model.verify_model(save(RIGHT["product"], tmp_path / "model.onnx"))
    assert {finding.contents for finding in found.findings} >= {verify_model.AGAIN}


def test_a_refused_model_is_a_finding(tmp_path, monkeypatch):
    def refuse(*args, **options):
        raise onegraph.errors.UnsupportedError("node 'a': refused")

    monkeypatch.setattr(onegraph.onnx, "load", refuse)
    found = verify_model.verify_model(save(RIGHT["product"], tmp_path / "model.onnx"))
    assert [(finding.name, finding.problem) for finding in found.findings] == [("load", "error")]
    assert "node 'a': refused" in str(found)


def test_what_the_runtime_lacks_is_said(tmp_path):
    model = one("Relu")
    model.graph.node[0].domain = "nowhere"
    model.opset_import.append(helper.make_opsetid("nowhere", 1))
    found = verify_model.verify_model(save(model, tmp_path / "model.onnx"))
    assert not found
    assert "nowhere" in str(found)


def verify(*arguments, code):
    done = CliRunner().invoke(cli, ["verify", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.stdout


def test_the_command_judges_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr(verify_model, "runtime", onnx_runtime.runtime)
    path = save(RIGHT["product"], tmp_path / "model.onnx")
    assert "model: right: " in verify(path, code=0)
    shown = verify(path, "--mb", 4, code=0)
    assert "n 4" not in shown
    assert "a change of any op would be noticed" in shown
    assert json.loads(verify(path, "--json", code=0))["model"]["right"] is True


def test_the_command_says_where_a_model_is_wrong(tmp_path, monkeypatch):
    path, load = save(one("Identity"), tmp_path / "right.onnx"), onegraph.onnx.load
    other = save(DROPPED, tmp_path / "wrong.onnx")
    monkeypatch.setattr(onegraph.onnx, "load", lambda *args, **options: load(other))
    shown = verify(path, "--mb", 2, code=1)
    assert "y (n 2, some NaN): NaN is lost" in shown
    assert "  agrees" in shown  # with the reference of the wrong graph


def test_the_command_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_runtime, "find_spec", lambda name: None)
    path = save(RIGHT["product"], tmp_path / "model.onnx")
    shown = verify(path, "--mb", 2, code=0)  # the graph is proven
    assert "the model itself was not judged; run: pip install onnxruntime" in shown
    assert "not judged" in verify(path, code=3)


def test_formulas_of_the_specification_tell_of_nan(tmp_path):
    onnx.save(one("Neg"), tmp_path / "m.onnx")
    inputs = {"x": np.zeros((2, 16), np.float32)}
    inputs["x"][1, 3] = np.nan
    judge = SimpleNamespace(path=tmp_path / "m.onnx")
    for where, keeps in (((1, 3), True), ((1, 2), False)):
        assert verify_model._ModelJudge._keeps_nan(judge, inputs, "y", SimpleNamespace(where=where)) is keeps
    judge.path = tmp_path / "missing.onnx"
    assert verify_model._ModelJudge._keeps_nan(judge, inputs, "y", SimpleNamespace(where=(1, 3))) is False


def test_integers_of_inputs_fit_the_ops_that_read_them(tmp_path):
    rows = np.ones((3, 4), np.float32)
    ports = [("x", TensorProto.INT64, ["n"])]
    onnx.save(made([("Gather", ["rows", "x"], ["y"], {})], ports, {"rows": rows}), tmp_path / "m.onnx")
    sizes = onnx_inputs.InputShapes({"x": (40,)}, "n 40")
    fitting = onnx_inputs._calibrated(tmp_path / "m.onnx", sizes, 1)
    assert {*fitting["x"].tolist()} == {0, 1, 2}
    again, other = (onnx_inputs._calibrated(tmp_path / "m.onnx", sizes, seed)["x"] for seed in (1, 2))
    assert again.tolist() == fitting["x"].tolist() != other.tolist()
    assert onnx_inputs._calibrated(tmp_path / "missing.onnx", sizes, 1) == {}
