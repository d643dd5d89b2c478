"""Models are loaded in bf16; sensitive ops, inputs and outputs stay in f32."""

from __future__ import annotations

import numpy as np
import pytest

import onegraph as og
import onegraph.capi

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from onegraph import onnx as front  # noqa: E402


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    weights = {"w": (8, 16), "b": (16,), "gamma": (16,), "beta": (16,)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("LayerNormalization", ["s", "gamma", "beta"], ["n"]),
        helper.make_node("Exp", ["n"], ["e"]),
        helper.make_node("ReduceSum", ["e", "axes"], ["y"]),
    ]
    known = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in weights.items()}
    known["axes"] = np.array([1])
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (4, 8))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in known.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def test_products_are_bf16_and_sums_are_f32(model):
    graph = front.load(model, dtype="bf16")
    types = {op.kind: op.inputs[0].dtype for op in graph.ops if op.kind != "TypeCast"}
    assert types == {
        "MatMul": og.bf16,
        "Add": og.bf16,
        "LayerNorm": og.bf16,
        "Exp": og.f32,
        "ReduceSum": og.f32,
    }
    norm = next(op for op in graph.ops if op.kind == "LayerNorm")
    assert [tensor.dtype for tensor in norm.inputs[1:]] == [og.f32, og.f32]


def test_bf16_models_keep_inputs_outputs_and_results(model):
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    graph = front.load(model, dtype="bf16")
    assert (graph.inputs["x"].dtype, graph.outputs["y"].dtype) == (og.f32, og.f32)
    np.testing.assert_allclose(graph.compile()(x), wanted, rtol=0.05)


@pytest.mark.parametrize(("axes", "dtype"), [([2, 3], og.bf16), ([-1, -2], og.bf16), ([1], og.f32), ([1, 2], og.f32)])
def test_mean_of_whole_images_is_bf16(axes, dtype):
    shape, weights = (2, 3, 6, 5), np.random.default_rng(0).standard_normal((8, 3, 1, 1)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("ReduceMean", ["c", "axes"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array(axes), "axes")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    x = np.random.default_rng(1).random(shape, dtype=np.float32)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    loaded = front.load(model, dtype="bf16")
    (mean,) = [op for op in loaded.ops if op.kind == "ReduceMean"]
    assert mean.inputs[0].dtype is dtype
    np.testing.assert_allclose(loaded.compile()(x), wanted, rtol=0.05, atol=0.02)


def test_other_data_types_are_refused(model):
    with pytest.raises(og.ArgumentError, match="dtype: 's8'; expected f32, bf16 or None"):
        front.load(model, dtype="s8")
