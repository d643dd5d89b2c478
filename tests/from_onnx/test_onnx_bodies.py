"""Branches, loops and scans whose course is known in a run alone, and random numbers."""

import numpy as np
import pytest

import onegraph.capi

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
from helpers.onnx_compare import by_runtime, outcome  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import onegraph.onnx  # noqa: E402
from tests.fuzz import onnx_nodes  # noqa: E402

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
node = helper.make_node


def ports(*given):
    return [helper.make_tensor_value_info(*one) for one in given]


def model(nodes, inputs, outputs, known=None, opset=17):
    arrays = [numpy_helper.from_array(np.asarray(array), name) for name, array in (known or {}).items()]
    graph = helper.make_graph(nodes, "g", ports(*inputs), ports(*outputs), arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def agrees(proto, **feeds):
    arrays = {name: np.asarray(one) for name, one in feeds.items()}
    wanted = by_runtime(proto, arrays)
    assert wanted is not None
    assert outcome(proto, arrays, wanted) == ""


ADDS = [node("Add", ["a", "x"], ["a2"]), node("Identity", ["ci"], ["co"]), node("Neg", ["a2"], ["s"])]
STATE = [("i", INT, []), ("ci", BOOL, []), ("a", FLOAT, None)]


@pytest.mark.parametrize("trips", [0, 1, 3])
@pytest.mark.parametrize("condition", ["", "t", "f"])
@pytest.mark.parametrize("scans", [0, 1])
def test_a_loop_runs_as_often_as_it_says(condition, trips, scans):
    ends = [("co", BOOL, []), ("a2", FLOAT, None), ("s", FLOAT, [2])][: 2 + scans]
    body = helper.make_graph(ADDS, "body", ports(*STATE), ports(*ends))
    outputs = ["y", "ys"][: 1 + scans]
    loop = node("Loop", ["M", condition, "x"], outputs, body=body)
    known = {"t": np.array(True), "f": np.array(False)}
    proto = model([loop], [("x", FLOAT, [2]), ("M", INT, [])], [(name, FLOAT, None) for name in outputs], known)
    agrees(proto, x=np.float32([1, 2]), M=trips)


def test_a_loop_ends_when_its_condition_fails():
    nodes = [
        node("Add", ["a", "a"], ["a2"]),
        node("ReduceSum", ["a2"], ["t"], keepdims=0),
        node("Less", ["t", "limit"], ["co"]),
    ]
    body = helper.make_graph(nodes, "body", ports(*STATE), ports(("co", BOOL, []), ("a2", FLOAT, [2])))
    loop = node("Loop", ["", "c", "x"], ["y"], body=body)
    proto = model([loop], [("x", FLOAT, [2]), ("c", BOOL, []), ("limit", FLOAT, [])], [("y", FLOAT, None)])
    for start in (True, False):
        agrees(proto, x=np.float32([1, 2]), c=start, limit=np.float32(50))


def test_a_loop_may_be_long():
    body = helper.make_graph(ADDS[:2], "body", ports(*STATE), ports(("co", BOOL, []), ("a2", FLOAT, [2])))
    proto = model(
        [node("Loop", ["M", "", "x"], ["y"], body=body)], [("x", FLOAT, [2]), ("M", INT, [])], [("y", FLOAT, [2])]
    )
    agrees(proto, x=np.float32([1, 2]), M=2500)


def test_a_scan_of_unknown_length_sums():
    nodes = [node("Add", ["s", "p"], ["s2"]), node("Mul", ["s2", "p"], ["o"])]
    body = helper.make_graph(
        nodes, "body", ports(("s", FLOAT, [2]), ("p", FLOAT, [2])), ports(("s2", FLOAT, [2]), ("o", FLOAT, [2]))
    )
    for attrs in ({}, {"scan_input_axes": [1], "scan_input_directions": [1], "scan_output_axes": [1]}):
        scan = node("Scan", ["s0", "x"], ["y", "ys"], body=body, num_scan_inputs=1, **attrs)
        proto = model([scan], [("s0", FLOAT, [2]), ("x", FLOAT, ["n", "m"])], [("y", FLOAT, None), ("ys", FLOAT, None)])
        src = np.arange(8, dtype=np.float32).reshape((2, 4) if attrs else (4, 2))
        agrees(proto, s0=np.float32([1, -1]), x=src)


def fork(inner, *others):
    """An If with these nodes in one branch and Relu in the other one."""
    one = helper.make_graph([*others, inner], "one", [], ports((inner.output[0], FLOAT, None)))
    other = helper.make_graph([node("Relu", ["x"], ["r"])], "other", [], ports(("r", FLOAT, None)))
    return node("If", ["c"], ["y"], then_branch=one, else_branch=other)


INNER = {
    "softmax of an old op set": (11, node("Softmax", ["x"], ["q"], axis=1)),
    "hardmax of an old op set": (11, node("Hardmax", ["x"], ["q"], axis=1)),
    "log of softmax of an old op set": (9, node("LogSoftmax", ["x"], ["q"])),
    "neighbouring channels": (13, node("LRN", ["x4"], ["q"], size=3, alpha=0.5)),
    "a transposed convolution": (
        13,
        node("ConvTranspose", ["x4", "w"], ["q"], strides=[2, 1], pads=[1, 0, 0, 1], group=3),
    ),
    "axes as an attribute": (11, node("ReduceSum", ["x"], ["q"], axes=[1])),
    "clip with attributes": (9, node("Clip", ["x"], ["q"], min=-0.5)),
}
NEEDS = {"x4": node("Unsqueeze", ["x"], ["x4"], axes=[3])}


@pytest.mark.parametrize(("opset", "inner"), INNER.values(), ids=INNER)
def test_nodes_in_branches_mean_what_their_op_set_says(opset, inner):
    others = [
        node("Unsqueeze", ["x", "axes"] if opset >= 13 else ["x"], ["x4"], **({} if opset >= 13 else {"axes": [3]}))
    ]
    known = {"w": X[0, :3].reshape(3, 1, 2, 2), "scales": np.float32([1, 1, 2, 1]), "axes": np.array([3])}
    known = {name: one for name, one in known.items() if name in inner.input or (name == "axes" and opset >= 13)}
    proto = model(
        [fork(inner, *others[: "x4" in inner.input])],
        [("x", FLOAT, [2, 3, 4]), ("c", BOOL, [])],
        [("y", FLOAT, None)],
        known,
        opset,
    )
    for choice in (True, False):
        agrees(proto, x=X, c=choice)


def test_quantized_nodes_run_in_branches():
    pair = [node("QuantizeLinear", ["x", "s", "z"], ["a"]), node("DequantizeLinear", ["a", "s", "z"], ["q"])]
    known = {"s": np.float32(0.02), "z": np.uint8(128)}
    proto = model([fork(pair[1], pair[0])], [("x", FLOAT, [2, 3, 4]), ("c", BOOL, [])], [("y", FLOAT, None)], known)
    agrees(proto, x=X, c=True)


def test_branches_in_loops_see_the_values_around_them():
    branches = {
        name: helper.make_graph([node(kind, ["a", "x"], ["b"])], name, [], ports(("b", FLOAT, [2])))
        for name, kind in (("then_branch", "Add"), ("else_branch", "Mul"))
    }
    nodes = [
        node("Mod", ["i", "two"], ["odd"]),
        node("Cast", ["odd"], ["is_odd"], to=BOOL),
        node("If", ["is_odd"], ["a2"], **branches),
        node("Identity", ["ci"], ["co"]),
    ]
    body = helper.make_graph(nodes, "body", ports(*STATE), ports(("co", BOOL, []), ("a2", FLOAT, [2])))
    loop = node("Loop", ["M", "", "x"], ["y"], body=body)
    proto = model([loop], [("x", FLOAT, [2]), ("M", INT, [])], [("y", FLOAT, [2])], {"two": np.array(2)})
    agrees(proto, x=np.float32([1, 3]), M=4)


# Random numbers ------------------------------------------------------------------------------------------------------

SHAPE = (200, 300)
DRAWS = {
    "normal": (node("RandomNormal", [], ["y"], shape=SHAPE, mean=1.0, scale=2.0), 1.0, 2.0),
    "uniform": (node("RandomUniform", [], ["y"], shape=SHAPE, low=-1.0, high=3.0), 1.0, 4 / 12**0.5),
    "normal like a tensor": (node("RandomNormalLike", ["x"], ["y"], mean=-1.0, scale=0.5, dtype=FLOAT), -1.0, 0.5),
    "uniform like a tensor": (node("RandomUniformLike", ["x"], ["y"], dtype=FLOAT), 0.5, 1 / 12**0.5),
    "bernoulli": (node("Bernoulli", ["x"], ["y"], dtype=FLOAT), 0.25, (0.25 * 0.75) ** 0.5),
    "multinomial": (node("Multinomial", ["logits"], ["y"], sample_size=20000), 0.75, (0.75 * 0.25) ** 0.5),
    "dropout": (node("Dropout", ["x", "ratio", "training"], ["y"]), 0.25, 0.25),
}


@pytest.mark.parametrize(("draw", "mean", "deviation"), DRAWS.values(), ids=DRAWS)
def test_drawn_numbers_have_their_distribution(draw, mean, deviation):
    known = {"logits": np.log(np.float32([[1, 3]] * 3)), "ratio": np.float32(0.5), "training": np.array(True)}
    inputs = [("x", FLOAT, SHAPE)] if "x" in draw.input else []
    known = {name: one for name, one in known.items() if name in draw.input}
    kind = TensorProto.INT32 if draw.op_type == "Multinomial" else FLOAT
    executable = onegraph.onnx.load(model([draw], inputs, [("y", kind, None)], known)).compile()
    feeds = {"x": np.full(SHAPE, 0.25, np.float32)} if inputs else {}
    first, second = executable(**feeds), executable(**feeds)
    assert (first != second).any()
    error = deviation / first.size**0.5  # the standard error of the mean; chance passes five of them once in a million
    assert abs(first.mean() - mean) < 5 * error
    assert abs(first.std() - deviation) < 5 * error


def test_a_seed_makes_runs_alike():
    draw = node("RandomUniform", [], ["y"], shape=[9], seed=3.0)
    executable = onegraph.onnx.load(model([draw], [], [("y", FLOAT, [9])])).compile()
    np.testing.assert_array_equal(executable(), executable())


# The generator -------------------------------------------------------------------------------------------------------


def test_random_nodes_agree_with_onnx_runtime():
    """A short form of the search of ``make fuzz``."""
    *found, (_, counts) = onnx_nodes.search(1, 60)
    assert found == []
    assert "right: 4" in counts or "right: 5" in counts
