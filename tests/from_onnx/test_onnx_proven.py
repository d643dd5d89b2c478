"""The nodes that the package onnx may run, what is said about them, and those that nothing runs."""

import io
import warnings

import numpy as np
import pytest

import onegraph as og
import onegraph.capi

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
from helpers.onnx_compare import outcome  # noqa: E402
from helpers.onnx_ml_nodes import ML  # noqa: E402
from helpers.onnx_nodes import Case, model_of  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import onegraph.onnx  # noqa: E402
from onegraph.frontends.onnx import evaluate  # noqa: E402
from onegraph.frontends.onnx.node import LOWERINGS  # noqa: E402
from onegraph.frontends.onnx.proven import PROVEN, Proof  # noqa: E402

F = TensorProto.FLOAT
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def model(nodes, inputs, outputs, opsets=(("", 21),), known=(), functions=()):
    ports = [
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in some] for some in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "g", *ports, known)
    imports = [helper.make_opsetid(*one) for one in opsets]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions)


def counting(name="b", result="y"):
    """Nodes of which the package onnx runs the second one: it counts 1 and 3 in the rows of x."""
    attrs = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": [0]}
    attrs |= {"ngram_indexes": [0, 1], "pool_int64s": [1, 3]}
    cast = helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64)
    return cast, helper.make_node("TfIdfVectorizer", ["i"], [result], name=name, **attrs)


@pytest.fixture
def by_package(monkeypatch):
    """The package onnx runs a TfIdfVectorizer, as if no table had it."""
    monkeypatch.delitem(LOWERINGS, "TfIdfVectorizer")
    monkeypatch.setitem(PROVEN, ("", "TfIdfVectorizer"), Proof((9,)))
    return monkeypatch


def simple(*nodes, **more):
    return model(nodes, [("x", F, [2, 3])], [("y", F, None)], [("", 21), (ML, 1), ("mine", 1)], **more)


# The table -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["RGB", "BGR", "Grayscale"])
def test_an_image_is_decoded(form):
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 1 if form == "Grayscale" else 3)).astype(np.uint8)
    stream = io.BytesIO()
    given = {"RGB": pixels, "BGR": pixels[..., ::-1], "Grayscale": pixels[..., 0]}[form]
    image.fromarray(np.ascontiguousarray(given)).save(stream, "png")
    data = np.frombuffer(stream.getvalue(), np.uint8)
    proto, feeds = model_of(Case("ImageDecoder", {"encoded_stream": data}, {"pixel_format": form}), 20)
    assert outcome(proto, feeds, [pixels]) == ""


def test_an_entry_is_for_some_attributes_alone(by_package):
    only = {"mode": ("IDF",)}
    by_package.setitem(PROVEN, ("", "TfIdfVectorizer"), Proof((9,), only))
    with pytest.raises(og.FormatError, match=r"TfIdfVectorizer.*runs nowhere"):
        onegraph.onnx.load(simple(*counting()))
    by_package.setitem(PROVEN, ("", "TfIdfVectorizer"), Proof((9,), {"mode": ("TF",)}))
    with pytest.warns(UserWarning, match="TfIdfVectorizer"):
        onegraph.onnx.load(simple(*counting()))


def test_every_entry_has_a_test():
    assert {kind for _, kind in PROVEN} == {"ImageDecoder"}


def test_another_op_set_is_refused():
    node = helper.make_node("LabelEncoder", ["x"], ["y"], name="old", domain=ML, classes_strings=["a"])
    with pytest.raises(og.FormatError, match=r"node 'old' .*LabelEncoder of ai.onnx.ml, op set 1.*strings"):
        onegraph.onnx.load(model([node], [("x", TensorProto.INT64, [2])], [("y", F, None)], [("", 21), (ML, 1)]))


# What is said --------------------------------------------------------------------------------------------------------


def test_a_model_warns_once_and_the_report_names_the_node(by_package):
    proto = simple(*counting("a", "h"), helper.make_node("Relu", ["h"], ["y"]))
    with pytest.warns(UserWarning, match=r"TfIdfVectorizer \(node 'a' \(TfIdfVectorizer\)\)") as found:
        graph = onegraph.onnx.load(proto)
    assert len(found) == 1
    executable = graph.compile()
    np.testing.assert_array_equal(executable(x=X), [[0, 0], [1, 1]])
    assert "OnnxNode TfIdfVectorizer" in [kind for part in executable.report().partitions for kind in part.kinds]
    assert "OnnxNode TfIdfVectorizer 'a'" in str(executable.report())


def test_a_node_of_the_package_is_not_read_in_each_run(by_package):
    with pytest.warns(UserWarning, match="TfIdfVectorizer"):
        executable = onegraph.onnx.load(simple(*counting(result="y"))).compile()
    by_package.setattr(evaluate, "evaluated", lambda *_: pytest.fail("the node is read once more"))
    np.testing.assert_array_equal(executable(x=X), [[0, 0], [1, 1]])


def test_strict_refuses_what_the_package_runs(by_package):
    graphs = {
        branch: helper.make_graph(counting(name), branch, [], [helper.make_tensor_value_info("y", F, None)])
        for branch, name in (("then_branch", "b"), ("else_branch", "c"))
    }
    fork = helper.make_node("If", ["c"], ["z"], **graphs)
    proto = model([fork], [("x", F, [2, 3]), ("c", TensorProto.BOOL, [])], [("z", F, None)], [("", 21), (ML, 1)])
    with pytest.raises(og.FormatError, match=r"graph 'then_branch': node 'b' .*strict=True refuses"):
        onegraph.onnx.load(proto, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = onegraph.onnx.load(
            simple(helper.make_node("Det", ["x"], ["y"]), functions=()), shapes={"x": (3, 3)}, strict=True
        )
    assert graph.compile()(x=np.diag(np.float32([1, 2, 3]))) == 6
    with pytest.raises(og.ArgumentError, match="strict"):
        onegraph.onnx.load(simple(*counting()), strict="yes")


def test_all_nodes_that_nothing_runs_are_in_one_error():
    inner = helper.make_node("Third", ["x"], ["z"], name="third", domain="mine")
    branch = helper.make_graph([inner], "t", [], [helper.make_tensor_value_info("z", F, None)])
    nodes = [
        helper.make_node("First", ["x"], ["a"], name="first", domain="mine"),
        helper.make_node("Second", ["a"], ["b"], name="second", domain="mine"),
        helper.make_node("If", ["c"], ["d"], then_branch=branch, else_branch=branch, name="fork"),
        helper.make_node("Add", ["b", "d"], ["y"]),
    ]
    proto = model(nodes, [("x", F, [2]), ("c", TensorProto.BOOL, [])], [("y", F, None)], [("", 21), ("mine", 3)])
    with pytest.raises(og.FormatError) as found:
        onegraph.onnx.load(proto)
    text = str(found.value)
    for part in (
        "node 'first' (First)",
        "First of mine, op set 3",
        "node 'second'",
        "node 'third'",
        "register",
        "no lowering",
    ):
        assert part in text
    assert "Add" not in text


# Lowerings of users --------------------------------------------------------------------------------------------------


@pytest.fixture
def twice():
    def lowering(node):
        number = node.graph.constant(np.float32(node.attrs.get("by", 2)))
        return node.graph.multiply(node.inputs[0], number)

    onegraph.onnx.register("Twice", lowering, domain="mine")
    yield
    onegraph.onnx.register("Twice", None, domain="mine")


def test_a_registered_function_lowers_its_nodes(twice):
    node = helper.make_node("Twice", ["x"], ["y"], domain="mine", by=3)
    graph = onegraph.onnx.load(simple(node))
    assert [op.kind for op in graph.ops] == ["Multiply"]
    np.testing.assert_array_equal(graph.compile()(x=X), 3 * X)


def test_a_registered_function_runs_in_a_branch(twice):
    node = helper.make_node("Twice", ["x"], ["z"], domain="mine")
    graphs = {
        name: helper.make_graph([one], name, [], [helper.make_tensor_value_info("z", F, None)])
        for name, one in (("then_branch", node), ("else_branch", helper.make_node("Neg", ["x"], ["z"])))
    }
    fork = helper.make_node("If", ["c"], ["y"], **graphs)
    proto = model([fork], [("x", F, [2, 3]), ("c", TensorProto.BOOL, [])], [("y", F, None)], [("", 21), ("mine", 1)])
    executable = onegraph.onnx.load(proto).compile()
    np.testing.assert_array_equal(executable(x=X, c=np.array(True)), 2 * X)
    np.testing.assert_array_equal(executable(x=X, c=np.array(False)), -X)


def test_a_registered_function_is_not_among_the_nodes_that_nothing_runs(twice):
    nodes = [
        helper.make_node(kind, [source], [end], domain="mine")
        for kind, source, end in zip(["Twice", "Lost"], "xa", "ay", strict=True)
    ]
    with pytest.raises(og.FormatError, match="Lost of mine, op set 1, runs nowhere") as found:
        onegraph.onnx.load(simple(*nodes))
    assert "Twice" not in str(found.value)


def test_a_removed_function_lowers_nothing(twice):
    onegraph.onnx.register("Twice", None, domain="mine")
    with pytest.raises(og.FormatError, match=r"Twice of mine, op set 1, runs nowhere"):
        onegraph.onnx.load(simple(helper.make_node("Twice", ["x"], ["y"], domain="mine")))


@pytest.mark.parametrize(
    ("arguments", "domain"),
    [(("Twice", print), ""), (("Twice", print), "ai.onnx"), ((3, print), "mine"), (("Twice", 3), "mine")],
)
def test_other_arguments_of_register_are_refused(arguments, domain):
    with pytest.raises(og.ArgumentError):
        onegraph.onnx.register(*arguments, domain=domain)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda node: node.inputs[5], "its registered function raised IndexError: list index out of range; expected a"),
        (lambda node: node.graph.softmax(node.inputs[0], axis=9), "its registered function raised SoftMax: axis: 9"),
    ],
)
def test_what_a_function_raises_is_told_as_its_own(function, told):
    onegraph.onnx.register("Bad", function, domain="mine")
    try:
        with pytest.raises(og.FormatError, match=rf"^node 'n' \(Bad\): {told}"):
            onegraph.onnx.load(simple(helper.make_node("Bad", ["x"], ["y"], name="n", domain="mine")))
    finally:
        onegraph.onnx.register("Bad", None, domain="mine")


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (None, "result 0 of its registered function is None"),
        (3, "result 0 of its registered function is 3"),
        ([1, 2], "2 results of its registered function"),
        (og.Graph().input("z", og.f32, (2,)), "result 0 of its registered function is tensor 'z' of another graph"),
    ],
)
def test_a_function_that_returns_no_tensor_is_refused(result, told):
    onegraph.onnx.register("Bad", lambda _: result, domain="mine")
    try:
        with pytest.raises(og.FormatError, match=rf"node 'n' \(Bad\): {told}; expected a tensor of the graph"):
            onegraph.onnx.load(simple(helper.make_node("Bad", ["x"], ["y"], name="n", domain="mine")))
    finally:
        onegraph.onnx.register("Bad", None, domain="mine")


# External data, names and order --------------------------------------------------------------------------------------


def test_external_data_of_a_proto_lie_in_the_folder(tmp_path):
    weights = np.arange(600, dtype=np.float32).reshape(3, 200)
    known = numpy_helper.from_array(weights, "w")
    proto = simple(helper.make_node("MatMul", ["x", "w"], ["y"]), known=[known])
    onnx.save_model(proto, str(tmp_path / "m.onnx"), save_as_external_data=True, location="m.data", size_threshold=0)
    proto = onnx.load(str(tmp_path / "m.onnx"), load_external_data=False)
    for given in (proto, proto.SerializeToString()):
        graph = onegraph.onnx.load(given, folder=tmp_path)
        np.testing.assert_allclose(graph.compile()(x=X), X @ weights, rtol=1e-5)
        with pytest.raises(og.FormatError, match=r"external data.*folder="):
            onegraph.onnx.load(given)
    with pytest.raises(og.ArgumentError, match="folder"):
        onegraph.onnx.load(tmp_path / "m.onnx", folder=tmp_path)


def relu_and_neg(*names):
    first, second = names
    return [helper.make_node("Relu", ["a"], ["y"], name=first), helper.make_node("Neg", ["x"], ["a"], name=second)]


def test_nodes_out_of_order_are_sorted():
    wanted = np.maximum(-X, 0)
    np.testing.assert_array_equal(onegraph.onnx.load(simple(*relu_and_neg("r", "n"))).compile()(x=X), wanted)
    call = helper.make_node("F", ["x"], ["y"], domain="mine")
    function = helper.make_function("mine", "F", ["x"], ["y"], relu_and_neg("r", "n"), [helper.make_opsetid("", 21)])
    np.testing.assert_array_equal(onegraph.onnx.load(simple(call, functions=[function])).compile()(x=X), wanted)
    graphs = dict.fromkeys(
        ("then_branch", "else_branch"),
        helper.make_graph(relu_and_neg("r", "n"), "t", [], [helper.make_tensor_value_info("y", F, None)]),
    )
    fork = helper.make_node("If", ["c"], ["z"], **graphs)
    proto = model([fork], [("x", F, [2, 3]), ("c", TensorProto.BOOL, [])], [("z", F, None)])
    np.testing.assert_array_equal(onegraph.onnx.load(proto).compile()(x=X, c=np.array(True)), wanted)


def test_a_branch_waits_for_what_it_reads():
    branch = helper.make_graph(
        [helper.make_node("Identity", ["late"], ["q"])], "t", [], [helper.make_tensor_value_info("q", F, None)]
    )
    fork = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    nodes = [fork, helper.make_node("Neg", ["x"], ["late"])]
    proto = model(nodes, [("x", F, [2, 3]), ("c", TensorProto.BOOL, [])], [("y", F, None)])
    np.testing.assert_array_equal(onegraph.onnx.load(proto).compile()(x=X, c=np.array(False)), -X)


def unary(kind, src, dst, name="n"):
    return helper.make_node(kind, [src], [dst], name=name)


NAMES = {
    "two nodes": ([unary("Relu", "x", "y", "m"), unary("Neg", "x", "y")], "node 'n' .*output 'y', as of node 'm'"),
    "an input": ([unary("Relu", "x", "x")], "node 'n' .*output 'x', as of an input"),
    "itself": ([unary("Relu", "y", "y")], "node 'n' .*reads a result of node 'n'"),
    "a cycle": ([unary("Relu", "b", "y"), unary("Neg", "y", "b", "m")], "results of each other"),
}


@pytest.mark.parametrize(("nodes", "text"), NAMES.values(), ids=NAMES)
def test_names_of_two_values_and_cycles_are_refused(nodes, text):
    with pytest.raises(og.FormatError, match=text):
        onegraph.onnx.load(simple(*nodes))
