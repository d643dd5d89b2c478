"""Models of scikit-learn and of boosted trees, compared with ONNX Runtime and with walks in plain loops."""

import math
import warnings
from itertools import chain

import numpy as np
import pytest

import onegraph as og
import onegraph.capi

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
from helpers.onnx_compare import by_runtime, outcome  # noqa: E402
from helpers.onnx_ml_nodes import CASES, ML, tree  # noqa: E402
from helpers.onnx_nodes import Draw, model_of  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

import onegraph.onnx  # noqa: E402
from onegraph.arrays.trees import LEAF, Trees, ordered, table_of  # noqa: E402
from onegraph.frontends.onnx import tables  # noqa: E402, F401
from onegraph.frontends.onnx.node import LOWERINGS  # noqa: E402
from onegraph.opset.dtypes import OF_NUMPY  # noqa: E402
from onegraph.reference import run_op  # noqa: E402

TESTED_KERNELS = ("trees", "classify", "find_keys", "count_tuples")
F = TensorProto.FLOAT
KINDS = sorted(kind for kind in CASES if f"{ML}::{kind}" in LOWERINGS)
OP_SETS = {"LabelEncoder": (2, 4), "TreeEnsemble": (5,), "TreeEnsembleRegressor": (1, 3)}


def model(nodes, inputs, outputs, version=3):
    ports = [
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in some] for some in (inputs, outputs)
    ]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, version)]
    return helper.make_model(helper.make_graph(nodes, "g", *ports), opset_imports=opsets, ir_version=9)


def node(kind, inputs, outputs, **attrs):
    return helper.make_node(kind, inputs, outputs, name="n", domain=ML, **attrs)


# Every node ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "version"), [(kind, one) for kind in KINDS for one in OP_SETS.get(kind, (1,))])
def test_a_node_agrees_with_onnx_runtime(kind, version):
    compared = 0
    for seed in range(6):
        case = CASES[kind](Draw(np.random.default_rng([seed, version]), kind, version, ML))
        proto, feeds = model_of(case, version)
        wanted = by_runtime(proto, feeds)
        if wanted is None:
            continue
        assert outcome(proto, feeds, wanted) == ""
        graph = onegraph.onnx.load(proto, strict=True)
        assert "OnnxNode" not in [op.kind for op in graph.ops]
        compared += 1
    assert compared > 2


def test_tuples_are_counted_as_in_onnx_runtime():
    compared = 0
    for seed in range(40):
        proto, feeds = model_of(
            CASES["TfIdfVectorizer"](Draw(np.random.default_rng(seed), "TfIdfVectorizer", 9, "")), 9
        )
        wanted = by_runtime(proto, feeds)
        if wanted is not None:
            assert outcome(proto, feeds, wanted) == "", seed
            compared += 1
    assert compared > 35


@pytest.mark.parametrize("dtype", [og.s32, og.s64])
@pytest.mark.parametrize("skips", [0, 1, 3])
def test_tuples_are_counted_in_many_rows(skips, dtype):
    """Of rows that threads share, and of tuples that begin alike."""
    far = [-(2**31), 2**31 - 1] if dtype is og.s32 else [2**33 + 1, -(2**33) - 1]
    tuples = [(0,), (0, 1), (1, 1, 0), (0, 1, 1, 0), (far[0],), (far[1], far[0]), (0, 1), (1,)]
    columns = [4, 2, 0, 1, 6, 5, 3, 3]
    rows = np.random.default_rng(skips).choice([0, 1, *far], (400, 60)).astype(dtype.numpy)
    wanted = np.zeros((400, 7), np.float32)
    for each, column in zip(tuples, columns, strict=True):
        for step in range(1, skips + 2 if len(each) > 1 else 2):
            last = 60 - step * (len(each) - 1)
            parts = [rows[:, place * step : place * step + last] == number for place, number in enumerate(each)]
            wanted[:, column] += np.logical_and.reduce(parts).sum(1)
    attrs = {"tuples": [*chain(*tuples)], "sizes": [*map(len, tuples)], "columns": columns, "skips": skips, "width": 7}
    g = og.Graph()
    g.output("y", g.op("CountTuples", [g.input("x", dtype, rows.shape)], attrs, edition="host"))
    np.testing.assert_array_equal(g.compile(threads=3)(rows), wanted)


def vectorizer(**attrs):
    given = {"mode": "TFIDF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0}
    given |= {"ngram_counts": [0, 2], "ngram_indexes": [0, 1, 0], "pool_int64s": [1, 3, 1, 3], **attrs}
    count = helper.make_node("TfIdfVectorizer", ["x"], ["y"], name="n", **given)
    return model([count], [("x", TensorProto.INT64, [4])], [("y", F, None)])


@pytest.mark.parametrize(
    ("attrs", "told"),
    [
        ({"weights": [1.0, 2.0, 3.0]}, "tuples with other weights in one column"),
        ({"weights": [1.0, 2.0]}, "mode TFIDF with 2 weights"),
        ({"ngram_counts": [0, 1]}, "3 elements of tuples of 2"),
        ({"ngram_counts": [1, 2]}, r"ngram_counts \[1, 2\]"),
        ({"ngram_counts": [0, 5]}, r"ngram_counts \[0, 5\]"),
        ({"ngram_indexes": [0, 1]}, "2 columns in ngram_indexes"),
        ({"ngram_indexes": [0, 1, -1]}, "ngram_indexes"),
        ({"mode": "DF"}, "mode DF"),
        ({"pool_strings": ["a"]}, "strings"),
    ],
)
def test_a_vectorizer_with_other_attributes_is_refused(attrs, told):
    with pytest.raises(og.FormatError, match=told):
        onegraph.onnx.load(vectorizer(**attrs))


def test_tuples_of_one_column_are_counted_together():
    executable = onegraph.onnx.load(vectorizer(weights=[2.0, 1.0, 2.0])).compile()
    np.testing.assert_array_equal(executable(np.int64([1, 3, 1, 3])), [8, 2])


@pytest.mark.parametrize(
    ("attrs", "told"),
    [
        ({"tuples": [1, 1], "sizes": [1, 1], "columns": [0, 1], "width": 2}, "equal tuples"),
        ({"tuples": [], "sizes": [], "columns": [], "width": 1}, "equal tuples, or none"),
        ({"tuples": [1, 2], "sizes": [2], "columns": [0], "width": 2}, "columns without a tuple"),
    ],
)
def test_tuples_that_no_node_counts_are_not_written(attrs, told, tmp_path):
    g = og.Graph()
    g.output("y", g.op("CountTuples", [g.input("x", og.s64, (4,))], attrs, edition="host"))
    assert g.compile()(np.int64([1, 2, 1, 2])).tolist() == [2] * len(attrs["columns"]) + [0] * (
        attrs["width"] - len(attrs["columns"])
    )
    with pytest.raises(og.UnsupportedError, match=told):
        onegraph.onnx.save(g, tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("attrs", "told"),
    [
        ({"tuples": [1, 2], "sizes": [1], "columns": [0], "width": 1}, "sizes: "),
        ({"tuples": [1], "sizes": [1, 0], "columns": [0, 0], "width": 1}, "sizes: "),
        ({"tuples": [1], "sizes": [1], "columns": [1], "width": 1}, "columns: "),
        ({"tuples": [1], "sizes": [1], "columns": [], "width": 1}, "columns: "),
    ],
)
def test_tuples_without_a_size_or_column_are_refused(attrs, told):
    g = og.Graph()
    with pytest.raises(og.SpecError, match=told):
        g.op("CountTuples", [g.input("x", og.s64, (4,))], attrs, edition="host")


def test_every_lowered_node_has_a_case():
    assert {name.removeprefix(f"{ML}::") for name in LOWERINGS if name.startswith(ML)} == {*KINDS, "ZipMap"}


# Trees ---------------------------------------------------------------------------------------------------------------

HOLDS = {1: "<=", 2: "<", 3: ">=", 4: ">", 5: "==", 6: "!="}


def random_trees(rng, count, depth, features, dtype, kinds):
    """Trees whose branches end early here and there."""
    rows = []

    def grow(left):
        place = len(rows)
        rows.append([int(rng.integers(features)), round(float(rng.normal()), 1), LEAF, False, 0, 0])
        if left and rng.random() < 0.95:
            rows[place][2:4] = int(rng.choice(kinds)), bool(len(kinds) > 1 and rng.random() < 0.3)
            rows[place][4:] = grow(left - 1), grow(left - 1)
        return place

    roots = [grow(depth) for _ in range(count)]
    columns = zip(*rows, strict=True)
    types = (np.int64, dtype, np.int64, np.bool_, np.int64, np.int64)
    return Trees(*(np.array(column, kind) for column, kind in zip(columns, types, strict=True)), np.array(roots))


def walked(trees, row, root):
    """The leaf at the end of a walk in plain Python."""
    place = root
    while trees.comparison[place] != LEAF:
        x, limit = float(row[trees.feature[place]]), float(trees.threshold[place])
        holds = {"<=": x <= limit, "<": x < limit, ">=": x >= limit, ">": x > limit, "==": x == limit, "!=": x != limit}
        goes = holds[HOLDS[int(trees.comparison[place])]] or (math.isnan(x) and trees.missing[place])
        place = int(trees.holds[place] if goes else trees.fails[place])
    return place


def scores(trees, sums, src, n_targets, aggregate):
    found = np.zeros((len(src), n_targets))
    for number, row in enumerate(src):
        given = [[] for _ in range(n_targets)]
        for root in trees.roots:
            for target, weight in sums[walked(trees, row, root)]:
                given[target].append(float(weight))
        combine = {"minimum": min, "maximum": max}.get(aggregate, sum)
        found[number] = [combine(one) if one else 0 for one in given]
    return found / len(trees.roots) if aggregate == "average" else found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kinds", [(1,), (2,), (1, 9), (2, 10), (1, 2, 3, 4, 5, 6)], ids=str)
@pytest.mark.parametrize(
    ("rows", "aggregate"), [(1, "sum"), (7, "average"), (9, "minimum"), (8, "maximum"), (150, "sum")]
)
def test_trees_are_walked_as_in_a_loop(dtype, kinds, rows, aggregate, tmp_path):
    rng = np.random.default_rng([rows, len(kinds), kinds[0]])
    plain = sorted({kind & 7 for kind in kinds})
    trees = random_trees(rng, 11, 5, 4, dtype, plain if len(kinds) < 3 else kinds)
    if kinds[-1] > 8:
        trees = trees._replace(missing=rng.random(len(trees.feature)) < 0.5)
    order = ordered(trees)
    ends = [int(place) for place in order if trees.comparison[place] == LEAF]
    sums = {place: [(int(rng.integers(3)), rng.normal()) for _ in range(rng.integers(0, 3))] for place in ends}
    if has_all := aggregate == "average":  # a leaf has a weight for each target
        sums = {place: [(target, rng.normal()) for target in rng.permutation(3)] for place in ends}
    leaves = np.zeros(len(trees.feature), np.int64)
    leaves[ends] = np.arange(len(ends))
    table, roots = table_of(trees, order, leaves)
    pairs = [pair for place in ends for pair in sums[place]]
    starts = np.cumsum([0, *[len(sums[place]) for place in ends]]).astype(np.int32)
    src = rng.normal(size=(rows, 4)).round(1).astype(dtype)
    src[rng.random(src.shape) < 0.2] = np.nan
    g = og.Graph()
    kind = OF_NUMPY[np.dtype(dtype)]
    known = [table, roots, np.array([w for _, w in pairs], dtype), np.arange(3, dtype=dtype)]
    known += [np.array([t for t, _ in pairs], np.int32), starts]
    tensors = [g.constant(one, dtype=OF_NUMPY[one.dtype]) for one in known]
    attrs = {"n_targets": 3, "aggregate": aggregate}
    g.output("y", g.op("TreeEnsemble", [g.input("x", kind, src.shape), *tensors], attrs, edition="host"))
    executable = g.compile()
    assert "several walks at once" in str(executable.report())
    wanted = scores(trees, sums, src, 3, aggregate) + known[3]
    np.testing.assert_allclose(executable(src), wanted, rtol=1e-5, atol=1e-5)
    if dtype is np.float32:  # ONNX has no such node for float64
        onegraph.onnx.save(g, tmp_path / "m.onnx")
        written = onnx.load(tmp_path / "m.onnx")
        assert [one.op_type for one in written.graph.node] == ["TreeEnsembleRegressor", *([] if has_all else ["Add"])]
        np.testing.assert_allclose(by_runtime(written, {"x": src})[0], wanted, rtol=1e-5, atol=1e-5)
        again = onegraph.onnx.load(written).compile()
        np.testing.assert_allclose(again(src), wanted, rtol=1e-5, atol=1e-5)


def classic(**changes):
    """A tree of a node and two leaves."""
    attrs = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
        "n_targets": 1,
    }
    made = node("TreeEnsembleRegressor", ["x"], ["y"], **{**attrs, **changes})
    return model([made], [("x", F, ["n", 2])], [("y", F, None)])


MALFORMED = {
    "a cycle": ({"nodes_modes": ["BRANCH_LEQ"] * 3, "nodes_truenodeids": [1, 0, 0]}, "lead"),
    "a node of its own": ({"nodes_falsenodeids": [0, 0, 0]}, "lead"),
    "no such node": ({"nodes_truenodeids": [7, 0, 0]}, "nodes_truenodeids 7 of tree 0"),
    "a negative node": ({"nodes_truenodeids": [-1, 0, 0]}, "nodes_truenodeids -1"),
    "another tree": ({"nodes_treeids": [0, 0, 1]}, "nodes_falsenodeids 2 of tree 0"),
    "twice the same node": ({"nodes_nodeids": [0, 1, 1]}, "two nodes of one number"),
    "a large number": ({"nodes_nodeids": [0, 1, 2**62]}, "node numbers up to"),
    "a feature behind the input": ({"nodes_featureids": [2, 0, 0]}, "feature 2 of an input with 2"),
    "a negative feature": ({"nodes_featureids": [-1, 0, 0]}, "feature -1"),
    "a target behind the last": ({"target_ids": [0, 1]}, "target 1 of 1"),
    "a weight of no node": ({"target_nodeids": [1, 9]}, "leaf 9 of tree 0"),
    "too few thresholds": ({"nodes_values": [0.5]}, "nodes_values of 1"),
    "an unknown mode": ({"nodes_modes": ["BRANCH_LEQ", "LEAF", "OAK"]}, "OAK"),
    "no targets": ({"n_targets": 0}, "n_targets 0"),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_trees_are_refused(what):
    changes, text = MALFORMED[what]
    with pytest.raises(og.FormatError, match=text):
        onegraph.onnx.load(classic(**changes))


def test_a_whole_tree_is_read():
    executable = onegraph.onnx.load(classic()).compile()
    np.testing.assert_array_equal(executable(np.float32([[0.5, 9], [0.6, 9], [np.nan, 9]])), [[1], [2], [2]])


def test_tables_that_change_are_checked_in_each_run():
    g = og.Graph()
    nodes = g.input("nodes", og.s32, (3, 4))
    known = [g.constant(one) for one in (np.int32([0]), np.float32([1, 2]))]
    g.output("y", g.op("TreeEnsemble", [g.input("x", og.f32, (1, 1)), nodes, *known], {"n_targets": 1}, edition="host"))
    limit = np.float32(0.5).view(np.int32)
    table, x, executable = np.int32([[1, 1, 2, limit], [0, 1, 1, 0], [0, 2, 2, 1]]), np.zeros((1, 1), "f"), g.compile()
    assert executable(nodes=table, x=x) == 1
    for place, value in (((0, 1), 3), ((0, 1), 0), ((0, 0), 17), ((1, 3), 2), ((0, 2), -1)):
        wrong = table.copy()
        wrong[place] = value
        with pytest.raises(og.ArgumentError, match="TreeEnsemble"):
            executable(nodes=wrong, x=x)


def of_members():
    """The attributes of a tree whose nodes ask whether a number is one of several."""

    def tensor(values, kind=F):
        return helper.make_tensor("t", kind, [len(values)], values)

    return {
        "n_targets": 1,
        "tree_roots": [0],
        "nodes_featureids": [0, 0],
        "nodes_modes": tensor([6, 6], TensorProto.UINT8),
        "nodes_splits": tensor([0.0, 0.0]),
        "nodes_truenodeids": [0, 1],
        "nodes_trueleafs": [1, 1],
        "nodes_falsenodeids": [1, 2],
        "nodes_falseleafs": [0, 1],
        "membership_values": tensor([2.0, 5.0, float("nan"), 7.0, float("nan")]),
        "leaf_targetids": [0, 0, 0],
        "leaf_weights": tensor([10.0, 20.0, 30.0]),
    }


@pytest.mark.parametrize("name", ["nodes_modes", "nodes_splits", "leaf_weights"])
def test_lists_of_other_sizes_than_the_tree_are_refused(name):
    attrs, kind = of_members(), TensorProto.UINT8 if name == "nodes_modes" else F
    attrs[name] = helper.make_tensor("t", kind, [4], [6] * 4)
    proto = model([node("TreeEnsemble", ["x"], ["y"], **attrs)], [("x", F, [5, 1])], [("y", F, None)], 5)
    with pytest.raises(og.FormatError, match="of other sizes"):
        onegraph.onnx.load(proto, strict=True)


def test_sets_of_values_are_compared_one_by_one():
    attrs = of_members()
    proto = model([node("TreeEnsemble", ["x"], ["y"], **attrs)], [("x", F, [5, 1])], [("y", F, None)], 5)
    src = np.float32([[2], [5], [7], [1], [np.nan]])
    np.testing.assert_array_equal(onegraph.onnx.load(proto).compile()(src)[:, 0], [10, 10, 20, 30, 30])
    np.testing.assert_array_equal(by_runtime(proto, {"x": src})[0][:, 0], [10, 10, 20, 30, 30])


@pytest.mark.parametrize(("tracks", "wanted"), [([], 30), ([0, 0], 30), ([1, 0], 10), ([0, 1], 20), ([1, 1], 10)])
def test_missing_values_go_where_each_node_says(tracks, wanted):
    attrs = of_members()
    del attrs["membership_values"]
    attrs["nodes_modes"] = helper.make_tensor("t", TensorProto.UINT8, [2], [0, 0])
    if tracks:
        attrs["nodes_missing_value_tracks_true"] = tracks
    proto = model([node("TreeEnsemble", ["x"], ["y"], **attrs)], [("x", F, [3, 1])], [("y", F, None)], 5)
    src = np.float32([[np.nan], [-1], [1]])
    np.testing.assert_array_equal(onegraph.onnx.load(proto, strict=True).compile()(src)[:, 0], [wanted, 10, 30])
    np.testing.assert_array_equal(by_runtime(proto, {"x": src})[0][:, 0], [wanted, 10, 30])
    attrs["nodes_missing_value_tracks_true"] = [1]
    proto = model([node("TreeEnsemble", ["x"], ["y"], **attrs)], [("x", F, [3, 1])], [("y", F, None)], 5)
    with pytest.raises(og.FormatError, match="nodes_missing_value_tracks_true of 1 element; expected 2 or none"):
        onegraph.onnx.load(proto, strict=True)


def test_trees_that_share_nodes_are_written_one_by_one(tmp_path):
    """The trees begin in each other, two leaves have the same weights, and some weights have no leaf."""
    first, second = (int(np.float32(limit).view(np.int32)) for limit in (0.5, -1))
    table = np.int32([[1, 1, 2, first], [1, 2, 3, second], [0, 2, 2, 2], [0, 3, 3, 0], [0, 4, 4, 2]])
    known = [table, np.int32([4, 1, 0]), np.float32([1, 2, 4, 8]), np.float32([100, 200])]
    known += [np.int32([1, 0, 1, 0]), np.int32([0, 1, 2, 4])]
    g = og.Graph()
    tensors = [g.input("x", og.f32, (3, 1)), *(g.constant(one, dtype=OF_NUMPY[one.dtype]) for one in known)]
    g.output("y", g.op("TreeEnsemble", tensors, {"n_targets": 2}, edition="host"))
    src = np.float32([[-2], [0], [1]])
    onegraph.onnx.save(g, tmp_path / "m.onnx")
    written = onnx.load(tmp_path / "m.onnx")
    wanted = [[124, 212], [108, 206], [116, 209]]
    for found in (g.compile()(src), by_runtime(written, {"x": src})[0], onegraph.onnx.load(written).compile()(src)):
        assert found.tolist() == wanted


def test_trees_are_written_as_a_node(tmp_path):
    attrs, ends = tree(Draw(np.random.default_rng(3), "TreeEnsembleRegressor", 1, ML), 3, 4, 1)
    attrs |= {f"target_{name}": value for name, value in ends.items()} | {"n_targets": 1, "base_values": [2.0]}
    made = node("TreeEnsembleRegressor", ["x"], ["y"], **attrs)
    proto = model([made], [("x", F, [50, 3])], [("y", F, None)], 1)
    onegraph.onnx.save(onegraph.onnx.load(proto), tmp_path / "again.onnx")
    again, src = onnx.load(tmp_path / "again.onnx"), np.random.default_rng(0).normal(size=(50, 3)).astype("f")
    wanted = by_runtime(proto, {"x": src})[0]
    np.testing.assert_allclose(by_runtime(again, {"x": src})[0], wanted, rtol=1e-6)
    np.testing.assert_allclose(onegraph.onnx.load(again).compile()(src), wanted, rtol=1e-6)


# Labels --------------------------------------------------------------------------------------------------------------


def classifier(**attrs):
    linear = node("LinearClassifier", ["x"], ["l", "s"], coefficients=[1.0, 0, -1], intercepts=[0.0, 0.5, 0], **attrs)
    keys = {name.replace("_ints", "_int64s"): value for name, value in attrs.items()}
    zip_map = helper.make_node("ZipMap", ["s"], ["p"], domain=ML, **keys)
    kind = TensorProto.INT64 if "classlabels_ints" in attrs else TensorProto.STRING
    kinds = helper.make_map_type_proto(kind, helper.make_tensor_type_proto(F, []))
    outputs = [helper.make_tensor_value_info("l", kind, None)]
    outputs.append(helper.make_value_info("p", helper.make_sequence_type_proto(kinds)))
    graph = helper.make_graph([linear, zip_map], "g", [helper.make_tensor_value_info("x", F, ["n", 1])], outputs)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def test_maps_become_scores_and_labels_of_columns(tmp_path):
    proto, src = classifier(classlabels_ints=[4, 7, 9]), np.float32([[3], [0], [-3]])
    found = onegraph.onnx.load(proto).compile()(src)
    np.testing.assert_array_equal(found.l, [4, 7, 9])
    maps = by_runtime(proto, {"x": src})[1]
    assert onegraph.onnx.class_labels(proto) == {"p": (4, 7, 9)} == {"p": tuple(maps[0])}
    np.testing.assert_array_equal(found.p, [[*one.values()] for one in maps])
    onnx.save(proto, tmp_path / "m.onnx")
    assert onegraph.onnx.class_labels(tmp_path / "m.onnx") == onegraph.onnx.class_labels(proto.SerializeToString())


def test_what_is_no_map_has_no_labels():
    ends = [(["b"], ["a"]), (["a"], ["b"]), ([], ["c"]), (["x"], ["d"])]  # a circle, and others
    ports = [helper.make_tensor_value_info(name, F, [2]) for name in "xabcd"]
    graph = helper.make_graph([helper.make_node("Identity", *one) for one in ends], "g", ports[:1], ports)
    assert onegraph.onnx.class_labels(helper.make_model(graph)) == {}
    with pytest.raises(og.ArgumentError, match="model"):
        onegraph.onnx.class_labels(3)


def test_labels_of_another_type_are_none():
    proto = classifier(classlabels_ints=[4, 7, 9])
    (attribute,) = proto.graph.node[1].attribute
    attribute.type = onnx.AttributeProto.FLOAT
    assert onegraph.onnx.class_labels(proto) == {}
    attribute.name, attribute.type = "classlabels_strings", onnx.AttributeProto.STRINGS
    attribute.strings.extend([b"a", b"\xff"])
    with pytest.raises(og.FormatError, match="expected a label in UTF-8"):
        onegraph.onnx.class_labels(proto)


def test_strings_are_named_as_the_reason():
    proto = classifier(classlabels_strings=["a", "b", "c"])
    with pytest.raises(og.FormatError, match=r"LinearClassifier of ai.onnx.ml, op set 1.*strings"):
        onegraph.onnx.load(proto)
    assert onegraph.onnx.class_labels(proto) == {"p": ("a", "b", "c")}
    encoder = node("LabelEncoder", ["x"], ["y"], keys_int64s=[1], values_strings=["a"])
    with pytest.raises(og.FormatError, match="strings"):
        onegraph.onnx.load(model([encoder], [("x", TensorProto.INT64, [2])], [("y", F, None)]))


def test_an_element_without_a_category_is_an_error():
    encoder = node("OneHotEncoder", ["x"], ["y"], cats_int64s=[3, 1], zeros=0)
    executable = onegraph.onnx.load(model([encoder], [("x", TensorProto.INT64, [2])], [("y", F, None)], 1)).compile()
    np.testing.assert_array_equal(executable(np.int64([1, 3])), [[0, 1], [1, 0]])
    with pytest.raises(og.ArgumentError, match="Gather"):
        executable(np.int64([1, 2]))


def test_keys_in_another_order_are_refused():
    g = og.Graph()
    known = [g.constant(np.int64(one), dtype=og.s64) for one in ([2, 1], [5, 6], 0)]
    g.output("y", g.op("LookUp", [g.input("x", og.s64, (2,)), *known], {}, edition="host"))
    with pytest.raises(og.ArgumentError, match=r"LookUp.*ascending"):
        g.compile()(np.int64([1, 2]))


def by_kernel(kind, arrays, attrs=None, threads=1, known=()):
    """The results of a host op by the kernel, and by numpy."""
    g = og.Graph()
    ends = [
        g.constant(array, dtype=OF_NUMPY[array.dtype])
        if place in known
        else g.input(f"x{place}", OF_NUMPY[array.dtype], array.shape)
        for place, array in enumerate(arrays)
    ]
    results = g.op(kind, ends, attrs or {}, edition="host")
    for place, result in enumerate(results if isinstance(results, tuple) else [results]):
        g.output(f"y{place}", result)
    compiled = g.compile(threads=threads)
    assert [part.executor for part in compiled.report().partitions] == ["kernel"]
    found = compiled(**{f"x{place}": array for place, array in enumerate(arrays) if place not in known})
    with np.errstate(all="ignore"):
        return (*found,) if isinstance(found, tuple) else (found,), run_op(g.ops[-1], arrays)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("transform", ["none", "logistic", "softmax", "softmax_zero"])
def test_classes_are_chosen_as_by_the_definition(transform, dtype):
    """In rows of small and of large scores, of equal ones, of zeros and of NaN."""
    rng = np.random.default_rng(0)
    for columns, count, opposite, absent in (
        (1, 2, "complement", False),
        (1, 2, "mirror", True),
        (1, 2, "zero", False),
        (1, 1, "complement", False),
        (2, 2, "complement", True),
        (5, 5, "complement", False),
        (5, 5, "complement", True),
    ):
        src = np.round(rng.standard_normal((700, columns)), 1) * rng.choice([1, 30], (700, 1))
        src[::7] = np.where(rng.random((100, columns)) < 0.5, np.nan, src[::7])
        src[1::7] *= rng.choice([0, 1e-8], (100, columns))
        attrs = {"transform": transform, "opposite": opposite, "absent": absent, "threshold": 0.5}
        for threads in (1, 3):
            given = [src.astype(dtype), rng.integers(0, 99, count)]
            found, wanted = by_kernel("Classify", given, attrs, threads)
            np.testing.assert_array_equal(found[0], wanted[0])
            np.testing.assert_allclose(found[1], wanted[1], rtol=2e-6, atol=1e-37)


@pytest.mark.parametrize("keys", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("values", [np.float32, np.float64, np.int32, np.int64])
def test_each_key_gives_its_value(keys, values):
    table = np.arange(-20, 21, 2).astype(keys)
    for has_nan in (False, True) if table.dtype.kind == "f" else (False,):
        own = np.append(table, np.nan).astype(keys) if has_nan else table
        src = np.random.default_rng(0).integers(-24, 25, 20_000).astype(keys)
        src[:2] = [-20, 20]
        if own.dtype.kind == "f":
            src[5::50] = np.nan
        given = [src, own, np.arange(len(own)).astype(values), np.array(-1, values)]
        for threads in (1, 3):
            (found,), (wanted,) = by_kernel("LookUp", given, threads=threads, known=(1, 2, 3))
            np.testing.assert_array_equal(found, wanted)


# Converters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["RandomForestClassifier", "GradientBoostingRegressor", "SVC", "IsolationForest"])
def test_converted_models_of_scikit_learn_agree(name):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    from sklearn import ensemble, svm

    rng = np.random.default_rng(0)
    src = rng.normal(size=(80, 4)).astype(np.float32)
    labels = (src[:, 0] + src[:, 1] > 0) + (src[:, 2] > 1)
    trained = svm.SVC() if name == "SVC" else getattr(ensemble, name)(n_estimators=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        proto = skl2onnx.to_onnx(trained.fit(src, labels), src[:1], target_opset={"": 18, ML: 3})
        wanted, found = by_runtime(proto, {"X": src}), onegraph.onnx.load(proto).compile()(src)
    for got, want in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        want = np.array([[*one.values()] for one in want]) if isinstance(want, list) else want
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
