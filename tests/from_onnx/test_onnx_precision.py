"""Models are loaded in bf16; sensitive ops, inputs and outputs stay in f32."""

from __future__ import annotations

import numpy as np
import pytest

import onegraph as og
import onegraph.capi

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper, parser  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from onegraph import onnx as front  # noqa: E402
from onegraph.frontends.onnx import precision  # noqa: E402


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


def text_model(inputs, shape, body):
    """A model in the textual syntax of ONNX, with one result y."""
    head = f'<ir_version: 9, opset_import: ["" : 20]> g ({inputs}) => (float[{shape}] y)'
    return parser.parse_model(f"{head} {{ {body} }}")


ANGLES = {
    "products": "t=Cast<to=1>(p) a=Mul(t,f) c=Cos(a) y=Mul(c,x)",
    "a product of depth 1": "t=Cast<to=1>(p) a=MatMul(t,f) s=Transpose<perm=[0,1]>(a) c=Sin(s) y=Mul(c,x)",
    "joined halves": "t=Cast<to=1>(p) a=Div(t,f) d=Concat<axis=1>(a,a) c=Cos(d) e=Slice(c,z,n,o) y=Mul(e,x)",
}


@pytest.mark.parametrize("name", ANGLES)
def test_angles_are_exact(name):
    places = "z=Constant<value_ints=[0]>() n=Constant<value_ints=[8]>() o=Constant<value_ints=[1]>() "
    model = text_model(
        "int64[6,1] p, float[1,8] f, float[6,8] x", "6,8", places * ("Slice" in ANGLES[name]) + ANGLES[name]
    )
    feeds = {
        "p": np.array([[0], [1], [255], [1001], [3003], [8191]]),
        "f": np.linspace(0.011, 1, 8, dtype=np.float32)[None],
        "x": np.full((6, 8), 0.5, np.float32),
    }
    (wanted,) = ReferenceEvaluator(model).run(None, feeds)
    found = front.load(model, dtype="bf16").compile()(**feeds)
    np.testing.assert_allclose(found, wanted, rtol=0.01, atol=0.002)  # bf16 rounds 1001 to 1000, and 8191 to 8192


def test_places_in_images_are_exact():
    width = 1024
    model = text_model(f"float[1,1,1,{width}] x, float[1,1,{width},2] grid", f"1,1,1,{width}", "y=GridSample(x,grid)")
    image = np.arange(width, dtype=np.float32).reshape(1, 1, 1, width) % 7
    across = (2 * np.arange(width, dtype=np.float32) + 1) / width - 1
    grid = np.stack([across[::-1], np.zeros(width, np.float32)], -1).reshape(1, 1, width, 2)
    found = front.load(model, dtype="bf16").compile()(x=image, grid=grid)
    np.testing.assert_allclose(found, image[..., ::-1], atol=0.05)


def test_what_only_has_a_shape_is_not_exact():
    model = text_model(
        "float[4,8] x, float[8,8] w", "4,8", "a=MatMul(x,w) b=Add(a,a) s=Shape(b) d=Relu(b) y=Reshape(d,s)"
    )
    graph = front.load(model, dtype="bf16")
    assert {op.kind: op.inputs[0].dtype for op in graph.ops if op.kind in ("MatMul", "Add", "ReLU")} == {
        "MatMul": og.bf16,
        "Add": og.bf16,
        "ReLU": og.bf16,
    }


def test_what_moves_numbers_does_not_cast_them():
    body = (
        "s=Constant<value_ints=[2,1,8]>() e=Constant<value_ints=[2,3,8]>() a=MatMul(x,w) r=Reshape(a,s) b=Expand(r,e) "
        "y=MatMul(b,w)"
    )
    graph = front.load(text_model("float[2,8] x, float[8,8] w", "2,3,8", body), dtype="bf16")
    casts = [op for op in graph.ops if op.kind == "TypeCast"]
    assert len(casts) == 3  # of x, w and y
    assert next(op for op in graph.ops if op.kind == "Expand").inputs[0].dtype is og.bf16


def test_norms_and_attention_are_bf16():
    body = (
        "e=Constant<value_float=0.00001>() t=Constant<value_float=2.0>() o=Constant<value_ints=[-1]>() p=Pow(x,t) "
        "v=ReduceMean(p,o) s=Add(v,e) r=Sqrt(s) i=Reciprocal(r) n=Mul(x,i) q=Mul(n,g) "
        "k=Transpose<perm=[0,1,3,2]>(x) a=MatMul(q,k) b=Softmax<axis=-1>(a) y=MatMul(b,x)"
    )
    model = text_model("float[1,1,300,8] x, float[8] g", "1,1,300,8", body)
    graph = front.load(model, dtype="bf16")
    types = {op.kind: [one.dtype for one in op.inputs] for op in graph.ops}
    assert types["RMSNorm"] == [og.bf16, og.f32]
    assert types["Attention"] == [og.bf16] * 3
    feeds = {"x": np.random.default_rng(0).random((1, 1, 300, 8), np.float32), "g": np.ones(8, np.float32)}
    (wanted,) = ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_allclose(graph.compile()(**feeds), wanted, rtol=0.03)


SIZES = {
    "the count of a Range": (
        "z=Constant<value_float=0.0>() o=Constant<value_float=1.0>() d=Div(n,o) y=Range(z,d,o)",
        1001.0,
    ),
    "the root of a sum": ("o=Constant<value_float=0.0>() a=Add(n,o) b=Sqrt(a) y=Floor(b)", 104.0**2 + 1),
    "the rest of a division": ("o=Constant<value_float=2.5>() a=Add(n,o) y=Mod<fmod=1>(a,o)", 1001.0),
    "the sine of a power": ("o=Constant<value_float=9.0>() a=Mul(n,o) b=Exp(a) y=Sin(b)", 0.7),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_and_what_they_are_made_of_are_exact(name):
    body, given = SIZES[name]
    model = text_model("float n", "?", body)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    feeds = {"n": np.array(given, np.float32)}
    (wanted,) = ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_allclose(front.load(model, dtype="bf16").compile()(**feeds), wanted, rtol=1e-5, atol=1e-4)


def test_the_least_number_of_f32_stays_finite_where_it_is_moved():
    model = text_model(
        "float[2,3] x, float[1,3] z",
        "2,3",
        "m=Constant<value_float=-3.4028235e38>() s=Constant<value_ints=[1,3]>() e=Expand(m,s) c=Concat<axis=0>(e,z) "
        "b=Add(x,c) y=Softmax(b)",
    )
    feeds = {"x": np.ones((2, 3), np.float32), "z": np.zeros((1, 3), np.float32)}
    np.testing.assert_allclose(front.load(model, dtype="bf16").compile()(**feeds), 1 / 3, rtol=0.01)


def test_large_tables_are_not_copied():
    table = np.ones((1 << 12, 1 << 11), np.float32)
    model = text_model("int64[2] i", "2,2048", "y=Gather(t,i)")
    model.graph.initializer.append(numpy_helper.from_array(table, "t"))
    graph = front.load(model, dtype="bf16")
    (gather,) = [op for op in graph.ops if op.kind == "Gather"]
    plain = front.load(model)
    assert gather.inputs[0].dtype is og.f32
    assert not gather.inputs[0].value.flags.owndata or gather.inputs[0].value is plain.ops[0].inputs[0].value


def test_the_least_number_of_f32_stays_finite():
    model = text_model(
        "float[2,3] x, float[3,3] w",
        "2,3",
        "m=Constant<value_floats=[-3.4028235e38]>() a=MatMul(x,w) b=Add(a,m) y=Softmax(b)",
    )
    feeds = {"x": np.ones((2, 3), np.float32), "w": np.ones((3, 3), np.float32)}
    np.testing.assert_allclose(front.load(model, dtype="bf16").compile()(**feeds), 1 / 3, rtol=0.01)


def test_only_large_masks_of_f32_stay_as_they_are(monkeypatch):
    mask = np.array([-3.4e38, 1, -np.inf], np.float32)
    found = {}
    for most in (2, 3):
        monkeypatch.setattr(precision, "LARGEST_MASK", most)
        found[most] = [precision._constant(mask, dtype) for dtype in (og.f32, og.bf16)]
    assert found[2][0] is mask
    assert found[3][0][0] > mask[0]
    for narrow in (found[2][1], found[3][0], found[3][1]):
        assert np.isfinite(narrow.astype(np.float32)[:2]).all()
        assert narrow[2] == -np.inf
