"""What an emitter names, keeps once and computes now."""

import numpy as np
import pytest

import onegraph as og
from onegraph.lowering import emitter
from onegraph.lowering.emitter import Emitter, Rewrites, edition_of
from onegraph.lowering.subgraph import BodyBuilder, Captures

F32 = og.f32


def started(rewrites=None):
    graph = og.Graph(strict=False)
    return graph, Emitter(graph, rewrites), graph.input("x", F32, (2, 3))


def test_ops_of_a_node_have_free_names():
    graph, emit, x = started()
    emit.op("Abs", [x])
    emit.named("a")
    for _ in range(2):
        emit.op("Abs", [x])
    graph.op("Abs", [x], name="a/2")
    emit.op("Abs", [x])
    emit.named("b")
    emit.op("Abs", [x])
    emit.named("a")
    emit.op("Abs", [x])
    again = Emitter(graph)
    again.named("b")
    again.op("Abs", [x])
    assert [op.name for op in graph.ops] == ["abs_0", "a", "a/1", "a/2", "a/3", "b", "a/4", "b/1"]


def test_an_array_becomes_one_constant_with_its_name():
    graph, emit, x = started()
    rows, other = np.ones((2, 3), np.float32), np.zeros(3, np.float32)
    emit.name_arrays({"rows": rows, "again": rows})
    assert emit.constant_of(rows) is None
    ends = [emit.tensor(one) for one in (rows, rows[:], other, other, np.float32([1]))]
    assert [one.name for one in ends] == ["rows", "rows", "constant_2", "constant_2", "constant_3"]
    assert (ends[0] is ends[1], ends[2] is ends[3]) == (True, True)
    assert emit.constant_of(rows[:]) is ends[0]
    assert emit.constant_of(other) is ends[2]
    assert emit.constant_of(np.zeros(3, np.float32)) is None
    assert emit.tensor(x) is x
    assert emit.maker(emit.op("Add", [x, rows])) is graph.ops[0]
    assert (emit.maker(x), emit.maker(rows), emit.maker(None)) == (None, None, None)


@pytest.mark.parametrize(
    ("is_known", "repeatable", "is_computed"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_short_ops_of_known_arrays_are_computed_now(is_known, repeatable, is_computed):
    graph, emit, x = started()
    ends = [np.float32([[1, 2, 3]] * 2) if is_known else x]
    attrs = {"axis": 0, "keep_dims": False, "last": False}
    (found,) = emit.foreign(ends, attrs, [og.s64], repeatable=repeatable, kind="ArgMax")
    assert isinstance(found, np.ndarray) is is_computed
    assert len(graph.ops) == (not is_computed)
    if not is_computed:
        emit.named("n")
        emit.foreign(ends, attrs, [og.s64], repeatable=repeatable, kind="ArgMax")
        named = [(op.name, [end.name for end in op.outputs]) for op in graph.ops]
        assert named == [("ArgMax_0", ["ArgMax_0.0"]), ("n", ["n.0"])]


@pytest.mark.parametrize(
    ("given", "is_replaced"),
    [({}, True), ({"dtype": og.f32}, False), ({"outputs": ["dst"]}, False)],
    ids=["nothing", "a data type", "outputs"],
)
def test_ops_with_stated_results_are_added_first(given, is_replaced):
    graph, emit, x = started(Rewrites({"Abs": [lambda emit, op: op.inputs[0]]}, {}))
    assert (emit.op("Abs", [x], **given) is x) is is_replaced
    assert len(graph.ops) == (not is_replaced)


def test_the_first_pattern_that_fits_replaces_an_op():
    def refuses(emit, op):
        return emit.op("ReLU", [op.inputs[0]], {"unknown": 1})

    patterns = [lambda emit, op: None, lambda emit, op: np.float32(op.attrs.get("axis", 7))]
    graph, emit, x = started(Rewrites({"Abs": patterns}, {}))
    assert emit.op("Abs", [x]) == 7
    assert (emit.op("Abs", [x], {"axis": 3}), len(graph.ops)) == (3, 0)
    for early in (True, False):
        tables = ({"Abs": [refuses, *patterns]}, {})
        graph, emit, x = started(Rewrites(*(tables if early else tables[::-1])))
        made = emit.op("Abs", [x])
        assert made == 7 if not early else emit.maker(made) is graph.ops[0]
        assert len(graph.ops) == 1


def test_ops_of_other_graphs_keep_their_names_or_get_those_of_the_node():
    other, graph = og.Graph(), og.Graph()
    x = graph.input("x", F32, (2, 3))
    other.output("y", other.op("Abs", [other.input("x", F32, (2, 3))], name="own"))
    emit = Emitter(graph)
    emit.repeat(other.ops[0], [x])
    emit.named("node")
    emit.repeat(other.ops[0], [x])
    assert [op.name for op in graph.ops] == ["own", "node"]
    assert Emitter(graph, Rewrites({"Abs": [lambda emit, op: x]}, {})).repeat(other.ops[0], [x]) == (x,)
    assert len(graph.ops) == 2


def test_a_pattern_replaces_the_first_of_several_results():
    graph, emit, x = started(Rewrites({}, {"TopK": [lambda emit, op: op.inputs[0]]}))
    made = emit.ends("TopK", [x, np.array([1])], {"axis": 1})
    again = Emitter(graph, emit.rewrites).repeat(graph.ops[0], graph.ops[0].inputs)
    assert [[one.shape for one in ends] for ends in (made, again)] == [[(2, 3), (2, 1)]] * 2
    assert (made[0] is x, made[1] is graph.ops[0].outputs[1], again[1] is graph.ops[1].outputs[1]) == (True,) * 3


def test_constants_that_are_computed_are_asked_for_their_size(monkeypatch):
    asked = []
    monkeypatch.setattr(emitter, "refuse_large", lambda *ends: asked.append(ends))
    attrs = {"axis": 0, "keep_dims": False, "last": False}
    started()[1].foreign([np.float32([[1, 2, 3]] * 2)], attrs, [og.s64], repeatable=True, kind="ArgMax")
    assert asked == [((3,), og.s64)]


@pytest.mark.parametrize(
    ("kind", "dtypes", "edition"),
    [
        ("Add", [F32, F32], "onednn"),
        ("Add", [og.s32, og.s32], "host"),
        ("Add", [og.s64, og.s64], "host"),
        ("Add", [F32, og.s64], "host"),
        ("ReduceSum", [F32, None], "onednn"),
        ("Concat", [og.s64, og.s64], "host"),
        ("ArgMax", [F32], "host"),
        ("SoftMax", [og.s64], "onednn"),
        ("ReduceSum", [None, None], "onednn"),
    ],
)
def test_base_ops_take_the_data_types_that_they_have(kind, dtypes, edition):
    assert edition_of(kind, dtypes).partition("-")[0] == edition


@pytest.mark.parametrize(("count", "is_part"), [(1, True), (1024, True), (1025, False)])
def test_small_constants_are_parts_of_a_body(count, is_part):
    captures = Captures(started()[1])
    body = BodyBuilder(captures)
    x, numbers = body.input("x", F32, (count,)), np.arange(count, dtype=np.float32)
    first = body.emit.op("Add", [x, numbers])
    graph = body.finish({"y": body.emit.op("Multiply", [first, numbers])})
    assert [*graph.inputs] == ["x", *([] if is_part else ["c0"])]
    assert [one is numbers for one in captures.values] == ([] if is_part else [True])
