"""The values of a model are found by their names in its file."""

import copy
import pickle

import numpy as np
import pytest
from helpers.onnx_session import session_of
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onegraph as og
import onegraph.onnx

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 8, 8)).astype(np.float32)
NODES = [
    helper.make_node("Conv", ["x", "kernel"], ["windows"], pads=[1, 1, 1, 1]),  # a node without a name
    helper.make_node("Relu", ["windows"], ["positive"], name="windows/2"),
    helper.make_node("Conv", ["positive", "kernel2"], ["second"], name="c2"),
    helper.make_node("GlobalAveragePool", ["second"], ["means"], name="mean"),
    helper.make_node("Flatten", ["means"], ["flat"], name="flatten"),
    helper.make_node("Mul", ["two", "two"], ["four"], name="four_node"),
    helper.make_node("Mul", ["flat", "four"], ["scaled"], name="scale"),
    helper.make_node("Identity", ["scaled"], ["same"], name="identity"),
    helper.make_node("TopK", ["same", "k"], ["best", "places"]),
    helper.make_node("Tanh", ["best"], ["y"], name="last"),
]
KNOWN = {
    "kernel": RNG.standard_normal((4, 3, 3, 3)).astype(np.float32),
    "kernel2": RNG.standard_normal((6, 4, 3, 3)).astype(np.float32),
    "two": np.array([2], np.float32),
    "k": np.array([2]),
}
INSIDE = ["windows", "positive", "second", "means", "flat", "scaled", "same", "best", "places"]


@pytest.fixture(scope="module")
def proto():
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "y")]
    ends[0].type.tensor_type.shape.CopyFrom(helper.make_tensor_type_proto(1, ["n", 3, 8, 8]).tensor_type.shape)
    known = [numpy_helper.from_array(array, name) for name, array in KNOWN.items()]
    graph = helper.make_graph(NODES, "m", ends[:1], ends[1:], known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.fixture(scope="module")
def expected(proto):
    every = ModelProto()
    every.CopyFrom(proto)
    for name in INSIDE:
        dtype = TensorProto.INT64 if name == "places" else TensorProto.FLOAT
        every.graph.output.append(helper.make_tensor_value_info(name, dtype, None))
    session = session_of(every)
    return dict(zip(["y", *INSIDE], session.run(None, {"x": X}), strict=True))


@pytest.fixture
def graph(proto):
    return og.onnx.load(proto)


@pytest.mark.library
@pytest.mark.parametrize("changed", [lambda g: g, copy.copy, lambda g: pickle.loads(pickle.dumps(g))])
def test_values_are_compiled_as_the_model_has_them(graph, expected, changed):
    results = changed(graph).compile(outputs=INSIDE)(X)
    for name, result in zip(INSIDE, results, strict=True):
        np.testing.assert_allclose(result, expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.library
@pytest.mark.parametrize(
    "changed",
    [
        lambda g: g.with_variables(["kernel2"]),
        lambda g: g.with_variables().for_inference(),
        lambda g: g.specialise({"x": X.shape}),
    ],
)
def test_values_keep_their_names_in_other_graphs(graph, expected, changed):
    result = changed(graph).compile(outputs=["second"])(X)
    np.testing.assert_allclose(result, expected["second"], rtol=1e-5, atol=1e-5)


@pytest.mark.library
def test_a_value_precedes_the_op_of_its_name(graph):
    """The node without a name is called as its result, and its first op is the transposition before it."""
    assert [op.kind for op in graph.ops if op.name == "windows"] == ["StaticTranspose"]
    with pytest.raises(og.ArgumentError, match=r"'windows': the graph has this value of the model as 'windows/1\.dst'"):
        graph.tensor("windows")
    with pytest.raises(og.ArgumentError, match=r"replace: 'windows': the graph has this value"):
        graph.replace("windows", 0)


@pytest.mark.library
def test_a_value_is_replaced_by_its_name(graph):
    graph.replace("scaled", graph.tanh(graph.tensor("scaled"), name="bent"))
    assert [op.name for op in graph.consumers(graph.tensor("bent"))] == ["best"]
    graph.replace("best", [graph.tensor("best"), graph.tensor("places")])  # the op, with both of its results
    assert graph.tensor("best").name.endswith(".values")


@pytest.mark.library
def test_values_that_the_graph_lacks_are_said_to_be_gone(graph):
    graph.replace("flat", np.ones((2, 6), np.float32))
    with pytest.raises(og.ArgumentError, match=r"'means'.*became part of another op, or was left out or replaced"):
        graph.tensor("means")
    with pytest.raises(og.ArgumentError, match=r"did you mean 'scaled'"):
        graph.tensor("scaldd")


@pytest.mark.library
def test_constants_of_nodes_have_the_names_of_values(graph):
    np.testing.assert_array_equal(graph.tensor("four").value, [4])


@pytest.mark.library
def test_values_and_dims_keep_their_names_in_bf16(proto, expected):
    graph = og.onnx.load(proto, dtype="bf16")
    result = np.asarray(graph.compile(outputs=["second"])(X), np.float32)
    np.testing.assert_allclose(result, expected["second"], atol=0.5)
    assert graph._dims["x"][0] == "n"
