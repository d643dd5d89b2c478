"""What is asked of nodes: their places, what they read, whether they draw, their functions, types and runners."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

import onegraph.onnx  # noqa: E402
from onegraph.frontends.onnx import functions  # noqa: E402
from onegraph.frontends.onnx.deferred import _draws, _has_ceil  # noqa: E402
from onegraph.frontends.onnx.foreign import _sequence_type, defaults_of, expanded, stated_types  # noqa: E402
from onegraph.frontends.onnx.node import TensorList  # noqa: E402
from onegraph.frontends.onnx.order import captured, graphs_of, in_order, place_of, read_by  # noqa: E402
from onegraph.frontends.onnx.ways import Fallbacks, Found, UnloweredError  # noqa: E402

pytestmark = pytest.mark.library
F, D, I64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64


def node(kind, inputs=("x",), outputs=("y",), name="", **attributes):
    return helper.make_node(kind, [*inputs], [*outputs], name, **attributes)


def graph(nodes, inputs=(), outputs=("r",), initializers=()):
    ends = ([helper.make_tensor_value_info(name, F, None) for name in names] for names in (inputs, outputs))
    return helper.make_graph(nodes, "g", *ends, [helper.make_tensor(name, F, (), [1.0]) for name in initializers])


INNER = graph([node("Add", ["a", "i"], ["v"]), node("Mul", ["v", "w"], ["r"])], ["i"], ["r", "o"], ["w"])
OUTER = graph([node("If", ["c"], ["p"], then_branch=INNER, else_branch=graph([node("Neg", ["a"], ["r"])]))], ["c"])


def test_nodes_read_what_their_graphs_read_from_outside():
    one = node("Loop", ["m", ""], body=INNER)
    assert [part.name for part in graphs_of(one)] == ["g"]
    assert len(graphs_of(node("Kind", bodies=[INNER, OUTER], body=INNER, axis=1))) == 3
    assert captured(one) == ["a", "o"]
    assert read_by(one) == ["m", "a", "o"]
    assert captured(node("Scan", body=OUTER)) == ["a", "a", "o", "r"]
    assert (captured(node("Neg")), read_by(node("Neg", ["x", ""]))) == ([], ["x"])
    assert [place_of(one, 3, "in f: ") for one in (node("Neg"), node("Neg", name="n"))] == [
        "in f: node 3 (Neg)",
        "in f: node 'n' (Neg)",
    ]


CHAIN = [node("Neg", ["b"], ["c"]), node("Abs", ["a"], ["b"]), node("Exp", ["x"], ["d", ""]), node("Log", ["c"], ["e"])]


def test_nodes_stand_behind_those_that_they_read():
    assert [one.op_type for one in in_order(CHAIN, ["x", "a"], "")] == ["Abs", "Exp", "Neg", "Log"]
    ordered = [CHAIN[1], CHAIN[0], CHAIN[3], CHAIN[2]]
    assert in_order(ordered, ["x", "a"], "") is ordered


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([node("Neg"), node("Abs", name="n")], "f: node 'n' (Abs): output 'y', as of f: node 0 (Neg); expected a name"),
        ([node("Neg", ["y"], ["x"])], "f: node 0 (Neg): output 'x', as of an input; expected a name for each value"),
        ([node("Neg", ["y"])], "f: node 0 (Neg): reads a result of f: node 0 (Neg); expected nodes without a cycle"),
        (
            [node("Neg", ["z"]), node("Abs", ["y"], ["z"])],
            "reads results of each other: f: node 1 (Abs), f: node 0 (Neg); expected nodes without a cycle",
        ),
        (
            [node("Neg", ["z"]), node("If", [], ["z"], then_branch=graph([node("Abs", ["y"], ["r"])]))],
            "reads results of each other: f: node 1 (If), f: node 0 (Neg); expected nodes without a cycle",
        ),
    ],
)
def test_names_and_circles_are_refused(nodes, text):
    with pytest.raises(og.FormatError) as error:
        in_order(nodes, ["x"], "f: ")
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("one", "draws", "has_ceil"),
    [
        (node("Neg"), False, False),
        (node("Bernoulli"), True, False),
        (node("Dropout"), True, False),
        (node("MaxPool", ceil_mode=1), False, True),
        (node("MaxPool", ceil_mode=0, kernel_shape=[1]), False, False),
        (node("If", then_branch=graph([node("Neg"), node("RandomNormalLike")])), True, False),
        (node("If", then_branch=graph([node("AveragePool", ceil_mode=1), node("Neg")])), False, True),
        (
            node("Loop", body=graph([node("If", body=graph([node("Multinomial"), node("MaxPool", ceil_mode=1)]))])),
            True,
            True,
        ),
    ],
)
def test_draws_and_rounded_pools_are_found_at_any_depth(one, draws, has_ceil):
    assert (_draws(one), _has_ceil(one)) == (draws, has_ceil)


class Importing(SimpleNamespace):
    """A node as the importer reads it."""

    def value(self, place):
        return self.inputs[place]


def reading(proto, *inputs, opset=21):
    return Importing(proto=proto, opset=opset, inputs=[*inputs], importer=None)


ROW = np.float32([[1, 2, 3]])


def casts(function):
    """The data types that a function casts to."""
    found = [one.i for inner in function.node if inner.op_type == "Cast" for one in inner.attribute if one.name == "to"]
    return set(found)


@pytest.mark.parametrize(
    ("dtype", "outputs", "types"), [(np.float32, 1, {F}), (np.float64, 1, {D}), (np.float64, 2, {F, D})]
)
def test_statistics_of_float64_are_computed_in_float64(dtype, outputs, types):
    proto = node("LayerNormalization", ["x", "s"], ["y", "m"][:outputs])
    made = expanded(reading(proto, ROW.astype(dtype), ROW[0].astype(dtype), opset=17))
    assert casts(made) == types


def test_functions_are_those_of_the_meaning():
    assert expanded(reading(node("Unknown"), ROW)) is None
    assert expanded(reading(node("Conv"), ROW)) is None
    plain = expanded(reading(node("HardSwish"), ROW, opset=14))
    assert [one.op_type for one in plain.node] == ["HardSigmoid", "Mul"]
    body = graph([node("Neg", ["i"], ["r"])], ["i"])
    mapped = expanded(reading(node("SequenceMap", body=body), TensorList([ROW]), opset=17))
    assert {one.domain: one.version for one in mapped.opset_import} == {"": 17}
    clipped = expanded(reading(node("Clip", ["x", "", "m"]), ROW, None, np.float32(2), opset=13))
    assert "Where" in [one.op_type for one in clipped.node] or "Min" in [one.op_type for one in clipped.node]
    assert {one.name for one in defaults_of(reading(node("HardSigmoid")))} == {"alpha", "beta"}
    assert defaults_of(reading(node("Neg"))) == []


@pytest.mark.parametrize(
    ("proto", "inputs", "types"),
    [
        (node("Add", ["x", "z"]), [ROW, ROW], {"y": F}),
        (node("NonZero"), [ROW], {"y": I64}),
        (node("TopK", ["x", "k"], ["y", "at"]), [np.float64([1]), np.int64([1])], {"y": D}),
        (node("Unknown", ["x"], ["y", "z"]), [np.float64([1])], {"y": D, "z": D}),
        (node("SequenceAt", ["s", "i"]), [TensorList([ROW]), np.int64(0)], {}),
        (node("Equal", ["x", "z"]), [ROW, ROW], {}),
        (node("Split", ["x", ""], ["y"]), [ROW, None], {"y": F}),
    ],
)
def test_results_have_the_types_of_their_variables(proto, inputs, types):
    found = stated_types(reading(proto, *inputs))
    assert {name: one.tensor_type.elem_type for name, one in found.items()} == types
    assert not any(one.tensor_type.HasField("shape") for one in found.values())


def test_types_of_sequences_have_those_of_their_tensors():
    plain = _sequence_type(ROW)
    assert [dim.dim_value for dim in plain.tensor_type.shape.dim] == [1, 3]
    listed = _sequence_type(TensorList([ROW, ROW[0]]))
    assert listed.sequence_type.elem_type == plain
    assert not _sequence_type(TensorList([])).sequence_type.elem_type.HasField("tensor_type")
    assert _sequence_type(None).WhichOneof("value") is None


def found(kind, domain="", where="here"):
    return Found(where, domain, kind, 20, node(kind))


def test_nodes_that_the_package_runs_are_told_once():
    fallbacks, text = Fallbacks(strict=False), "nodes that the package onnx runs in numpy, slowly: "
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fallbacks.note([])
        fallbacks.tell()
    assert fallbacks.mark() == 0
    fallbacks.note([found("A"), found("B", where="there")])
    fallbacks.note([found("A")])
    assert fallbacks.mark() == 3
    with pytest.warns(UserWarning, match="slowly") as told:
        fallbacks.tell()
    assert [str(one.message) for one in told] == [f"{text}A (here), B (there); strict=True refuses them"]
    assert told[0].filename == __file__
    fallbacks.forget(1)
    assert fallbacks.mark() == 1
    with pytest.warns(UserWarning, match=r"slowly: A \(here\); strict"):
        fallbacks.tell()


def test_nodes_that_the_package_runs_may_be_refused():
    strict = Fallbacks(strict=True)
    strict.note([])
    text = "here: A of ai.onnx, op set 20, runs in numpy by the package onnx, which strict=True refuses"
    with pytest.raises(UnloweredError) as error:
        strict.note([found("A"), found("B", "d", "there"), found("C")])
    more = "; there: B of d, op set 20; here: C of ai.onnx, op set 20; expected strict=False, or nodes that onegraph"
    assert str(error.value).startswith(text + more)
    with pytest.raises(UnloweredError) as error:
        strict.note([found("A")])
    assert str(error.value).startswith(f"{text}; expected strict=False, or nodes that onegraph lowers")


def test_all_nodes_that_run_nowhere_are_named():
    own = helper.make_function(
        "d", "Own", ["x"], ["y"], [node("Odd", domain="e")], [helper.make_opsetid("", 21), helper.make_opsetid("e", 3)]
    )
    nodes = [
        node("First", ["x"], ["a"], domain="d"),
        node("Neg", ["a"], ["b"]),
        node("Own", ["b"], ["c"], domain="d"),
        node("If", ["f"], ["e"], "if", then_branch=graph([node("Second", ["x"], ["r"], domain="d")])),
        node("First", ["c"], ["g"], domain="d"),
    ]
    nodes[3].attribute.add(name="else_branch", type=5).g.CopyFrom(graph([node("Neg", ["x"], ["r"])]))
    made = helper.make_graph(
        nodes,
        "m",
        [helper.make_tensor_value_info("x", F, (2,)), helper.make_tensor_value_info("f", TensorProto.BOOL, ())],
        [helper.make_tensor_value_info("g", F, (2,))],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("d", 1)]
    model = helper.make_model(made, opset_imports=imports, functions=[own])
    with pytest.raises(UnloweredError) as error:
        onegraph.onnx.load(model)
    told = str(error.value)
    assert told.startswith("node 0 (First): First of d, op set 1, runs nowhere: ")
    rest = told.partition("; nor do ")[2].partition("; expected ")[0].split("; ")
    assert rest == [
        "node 2 (Own): node 0 (Odd): Odd of e, op set 3",
        "node 'if' (If): graph 'g': node 0 (Second): Second of d, op set 1",
        "node 4 (First): First of d, op set 1",
    ]


def calling(*nodes):
    return helper.make_function("d", "F", ["x"], ["y"], [*nodes], [helper.make_opsetid("", 21)])


@pytest.mark.parametrize(("most", "is_refused"), [(8, True), (9, False)])
def test_nodes_of_functions_are_counted_at_any_depth(most, is_refused, monkeypatch):
    monkeypatch.setattr(functions, "MAX_NODES", most)
    three = calling(node("Neg"), node("Abs"), node("Exp"))
    body = graph([node("Abs"), node("B", domain="d")])
    known = {("d", "A"): calling(node("Neg"), node("If", then_branch=body)), ("d", "B"): three}
    nodes = [node("A", domain="d"), node("Neg", domain="ai.onnx")]  # 1 + (1 + 1 + 1 + 1 + 3) + 1
    if not is_refused:
        functions.refuse_recursion(known, nodes)
        return
    with pytest.raises(og.FormatError, match="functions: more than 8 nodes in all; expected fewer nodes"):
        functions.refuse_recursion(known, nodes)


def test_functions_do_not_call_themselves():
    known = {
        ("d", "A"): calling(node("Loop", body=graph([node("B", domain="d")]))),
        ("d", "B"): calling(node("A", domain="d")),
    }
    functions.refuse_recursion({("d", "B"): known["d", "B"]}, [node("A", domain="d")])
    with pytest.raises(og.FormatError, match=r"function '[AB]' of 'd': a call of itself; expected no recursion"):
        functions.refuse_recursion(known, [])


def referring(name, other):
    """A node with an attribute of a call, and with a number of its own."""
    one = node("Inner", axis=3)
    one.attribute.add(name=name, ref_attr_name=other, type=2)
    return one


def test_attributes_of_a_call_come_into_the_nodes_of_its_function():
    given = {"outer": helper.make_attribute("outer", 7)}
    two = graph([referring("a", "outer"), referring("b", "none")])
    proto = node("If", then_branch=two, others=[two, two])
    made = functions.with_attributes(proto, given)
    wanted = graph([node("Inner", axis=3), node("Inner", axis=3)])
    wanted.node[0].attribute.add(name="a", type=2, i=7)
    assert made == node("If", then_branch=wanted, others=[wanted, wanted])
    assert proto == node("If", then_branch=two, others=[two, two])
    assert functions.with_attributes(referring("x", "outer"), given) == node("Inner", axis=3, x=7)
