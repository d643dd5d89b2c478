"""The shortest paths: one op on arrays, results inside a graph, constants by name, a graph in another edition."""

import ml_dtypes
import numpy as np
import pytest

import onegraph as og

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5


@pytest.fixture
def graph():
    """A graph of three ops with a constant."""
    g = og.Graph()
    x = g.input("x", og.f32, (2, 3))
    y = g.relu(x, name="positive")
    g.output("y", g.square(g.add(y, g.constant(np.ones(3, np.float32), name="one"), name="sum"), name="square"))
    return g


# One op ---------------------------------------------------------------------------------------------------------------


@pytest.mark.library
@pytest.mark.parametrize(
    ("kind", "arrays", "attrs", "options", "expected"),
    [
        ("ReLU", X, None, {}, np.maximum(X, 0)),
        ("Add", [X, X[:1]], {}, {}, X + X[:1]),
        ("MatMul", [X, X], {"transpose_b": True}, {"edition": "onednn-3.2"}, X @ X.T),
        ("Mish", [X], {}, {"edition": "legacy-1"}, X * np.tanh(np.log1p(np.exp(X)))),
        ("ReduceSum", [X, np.array([1], np.int32)], {"keep_dims": False}, {}, X.sum(1)),
        ("TypeCast", X, {}, {"dtype": "bf16"}, X.astype(ml_dtypes.bfloat16)),
        ("Greater", [X, X[:1]], {}, {"edition": "host"}, X[:1] < X),
    ],
)
def test_one_op_runs_on_arrays(kind, arrays, attrs, options, expected):
    result = og.run_op(kind, arrays, attrs, **options)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result.astype(float), expected.astype(float), rtol=1e-6)


@pytest.mark.library
def test_several_outputs_of_one_op_have_names():
    values, mean, variance = og.run_op("LayerNorm", X, {"use_affine": False, "keep_stats": True})
    np.testing.assert_allclose(mean.ravel(), X.mean(1), rtol=1e-6)
    np.testing.assert_allclose(variance.ravel(), X.var(1), rtol=1e-5)
    assert values.shape == X.shape


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("Rely", X), og.SpecError, "did you mean 'ReLU'"),
        (("ReLU", X.astype(np.float64)), og.ArgumentError, "float64"),
        (("ReLU", ["x"]), og.ArgumentError, r"arrays\[0\]"),
        (("Elu", X, {"alpha": -1.0}), og.SpecError, "alpha"),
        (("Add", [X, X[:, :2]]), og.SpecError, "src_1"),
    ],
)
def test_wrong_use_of_one_op_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        og.run_op(*arguments)


# Results inside a graph -----------------------------------------------------------------------------------------------


@pytest.mark.library
def test_results_inside_a_graph_are_returned(graph):
    y = np.maximum(X, 0)
    found = graph.compile(outputs=["positive", "sum.dst", "y"])(X)
    for got, expected in zip(found, (y, y + 1, (y + 1) ** 2), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    np.testing.assert_array_equal(graph.compile(outputs=[graph.ops[0].outputs[0]])(X), y)
    assert [*graph.outputs] == ["y"]


@pytest.mark.library
def test_variables_are_assigned_whatever_is_returned():
    g = og.Graph()
    total = g.variable("total", np.zeros(3, np.float32))
    new = g.add(total, g.input("x", og.f32, (3,)), name="new")
    g.assign(total, new)
    g.output("twice", g.multiply(new, g.constant(np.float32(2))))
    model = g.compile(outputs=["new"])
    model(np.ones(3, np.float32))
    np.testing.assert_array_equal(model(np.ones(3, np.float32)), np.full(3, 2.0))
    np.testing.assert_array_equal(model.variables["total"], np.full(3, 2.0))


@pytest.mark.parametrize("outputs", [[], "y", ["none"], [3], [og.Graph().input("z", og.f32, ())]])
@pytest.mark.library
def test_unknown_outputs_are_refused(graph, outputs):
    with pytest.raises(og.ArgumentError, match="outputs"):
        graph.compile(outputs=outputs)


def test_constants_are_read_by_name(graph):
    assert [*graph.constants] == ["one"]
    np.testing.assert_array_equal(graph.constants["one"], np.ones(3))
    assert not graph.constants["one"].flags.writeable
    graph.constant(np.zeros(2, np.float32), name="one")
    assert len(graph.constants) == 2
    with pytest.raises(TypeError):
        graph.constants["one"] = np.zeros(3)


def test_a_graph_is_translated_to_another_edition(graph):
    old = og.translate_graph(graph, "legacy-1")
    assert [op.edition for op in old.ops] == ["legacy-1"] * 3
    result = og.reference.run(old, {"x": X})
    np.testing.assert_allclose(result["y"], (np.maximum(X, 0) + 1) ** 2)


def test_embedding_takes_rows_of_a_table():
    g, table = og.Graph(), np.arange(12, dtype=np.float32).reshape(4, 3)
    rows = g.embedding(table, g.input("words", og.s32, (2, None)))
    assert rows.shape == (2, None, 3)
    g.output("rows", rows)
    words = np.array([[3, 0], [-1, 1]], np.int32)
    np.testing.assert_array_equal(og.reference.run(g, {"words": words})["rows"], table[words])


def test_a_graph_is_translated_by_its_method():
    g = og.Graph()
    g.output("y", g.softmax(g.input("x", og.f32, (2, 3))))
    assert g.translate("legacy-1").to_json() == og.translate_graph(g, "legacy-1").to_json()
    with pytest.raises(og.ArgumentError, match="'legacy-9'"):
        g.translate("legacy-9")


def test_a_bias_of_f32_is_cast_beside_an_array():
    g = og.Graph()
    x, bias = g.input("x", og.bf16, (2, 3)), g.input("bias", og.f32, (5,))
    weights = np.ones((3, 5), og.bf16.numpy)
    made = g.matmul(x, weights, bias=bias)
    assert [(op.kind, op.inputs[-1].name) for op in g.ops] == [
        ("TypeCast", "bias"), ("MatMul", g.ops[0].outputs[0].name),
    ]  # fmt: skip
    assert made.dtype is og.bf16
    assert len(g.constants) == 1  # the weights, once
    assert len(g._tensors) == 5
    g.matmul(x, weights, bias=np.ones(5, np.float32))
    assert [op.kind for op in g.ops[2:]] == ["MatMul"]
    assert g.ops[2].inputs[2].dtype is og.bf16  # an array becomes what the op takes
    g.matmul(g.input("wide", og.f32, (2, 3)), np.ones((3, 5), np.float32), bias=bias)
    assert [op.kind for op in g.ops[3:]] == ["MatMul"]


@pytest.mark.parametrize(
    ("dims", "name", "error", "message"),
    [
        (
            (4,),
            "product",
            og.SpecError,
            "MatMul 'product': bias: shape [4]; expected a shape that broadcasts to [2, 5]",
        ),
        ((5,), "taken", og.ArgumentError, "name 'taken' is taken by another op"),
        (
            (),
            "product",
            og.ArgumentError,
            "MatMul: bias: tensor 'b' is of another graph; expected a tensor of this graph",
        ),
    ],
)
def test_a_refused_op_leaves_no_cast_of_its_bias(dims, name, error, message):
    g = og.Graph()
    x = g.input("x", og.bf16, (2, 3))
    g.relu(x, name="taken")
    bias = (g if dims else og.Graph()).input("b", og.f32, dims)
    before = g._tensors
    with pytest.raises(error) as raised:
        g.matmul(x, np.ones((3, 5), og.bf16.numpy), bias=bias, name=name)
    assert str(raised.value).startswith(message)
    assert (len(g.ops), g._tensors) == (1, before)
