"""Nodes mean what their op set says: every kind in every op set, compared with ONNX Runtime or with numpy."""

from collections import defaultdict

import numpy as np
import pytest
from conftest import draws
from helpers.grouped import grouped

import onegraph.capi  # noqa: F401 - its graphs run in the library

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
from helpers.onnx_compare import by_runtime, difference, outcome  # noqa: E402
from helpers.onnx_nodes import CASES, Case, Draw, model_of  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402

from onegraph.frontends.onnx.meanings import CHANGES  # noqa: E402
from onegraph.frontends.onnx.meanings.changes import READ_AS_THEY_ARE  # noqa: E402

OLDEST, NEWEST = 7, 24  # of the op sets that ONNX Runtime has
# Kinds without a case, and where they are tested.
ELSEWHERE = {
    **dict.fromkeys(["If", "Loop", "Scan"], "test_onnx_bodies.py"),
    **dict.fromkeys(["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"], "test_onnx_bodies.py"),
    **dict.fromkeys(["RandomUniform", "RandomUniformLike"], "test_onnx_bodies.py"),
    "ImageDecoder": "test_onnx_proven.py",
    "TfIdfVectorizer": "test_onnx_learned.py",
    **dict.fromkeys(["ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty"], "test_onnx_load.py"),
    **dict.fromkeys(["SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap"], "tests/onnx_backend"),
    **dict.fromkeys(["SplitToSequence", "Optional", "OptionalGetElement", "OptionalHasElement"], "tests/onnx_backend"),
    **dict.fromkeys(["RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"], "refused: strings"),
    **dict.fromkeys(
        ["BitCast", "CausalConvWithState", "LinearAttention", "SwiGLU"], "newer than the op sets of the runtime"
    ),
}
# Kinds that ONNX Runtime lacks; the definition in numpy.
BY_NUMPY = {
    "CumProd": lambda case: _cumulated(case, np.cumprod),
}


def versions():
    """The op sets that brought a meaning of each kind."""
    found = defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and not schema.deprecated:
            found[schema.name].add(schema.since_version)
    return {kind: sorted(numbers) for kind, numbers in found.items()}


VERSIONS = versions()
CHOSEN = [
    (kind, version)
    for kind in sorted(CASES)
    for version in sorted({max(one, OLDEST) for one in VERSIONS[kind]} - {0})
    if version <= NEWEST or kind in BY_NUMPY
]


def _cumulated(case, function):
    src, axis = case.inputs["x"], int(case.inputs["axis"])
    back = np.flip(src, axis) if case.attrs.get("reverse") else src
    if case.attrs.get("exclusive"):
        back = np.concatenate([np.ones_like(back.take([0], axis)), back.take(range(back.shape[axis] - 1), axis)], axis)
    found = function(back, axis, dtype=src.dtype)
    return [np.flip(found, axis) if case.attrs.get("reverse") else found]


# The table -----------------------------------------------------------------------------------------------------------


def default_of(schema, name):
    attribute = schema.attributes[name]
    value = attribute.default_value
    return "required" if attribute.required else helper.get_attribute_value(value) if value.type else None


def is_additive(old, new):
    """Whether a node of the old op set means the same in the new one, as far as names and defaults tell."""
    for name in old.attributes:
        if name not in new.attributes or old.attributes[name].type != new.attributes[name].type:
            return False
        if default_of(old, name) != default_of(new, name) and "required" not in (default_of(old, name),):
            return False
    inputs = [one.name for one in old.inputs], [one.name for one in new.inputs]
    return len(inputs[0]) <= len(inputs[1]) and len(old.outputs) <= len(new.outputs)


@grouped("kind", sorted(VERSIONS), key=lambda kind: kind[0])
def test_each_change_of_a_signature_has_an_entry(kind):
    entries = {change.since for change in CHANGES.get(kind, ())} | {
        since for name, since in READ_AS_THEY_ARE if name == kind
    }
    for old, new in zip(VERSIONS[kind], VERSIONS[kind][1:], strict=False):
        schemas = [onnx.defs.get_schema(kind, version) for version in (old, new)]
        assert is_additive(*schemas) or new in entries, f"{kind}: {old} to {new}"


def test_every_kind_has_a_case_or_a_test_elsewhere():
    assert {*CASES} & {*ELSEWHERE} == set()
    assert {*VERSIONS} == {*CASES} | {*ELSEWHERE}


# Numbers -------------------------------------------------------------------------------------------------------------


@grouped("kind, version", CHOSEN, key=lambda case: case[0])
def test_a_node_means_what_its_op_set_says(kind, version):
    compared = 0
    for seed in range(16):
        case = CASES[kind](Draw(np.random.default_rng([seed, version]), kind, version))
        model, feeds = model_of(case, version)
        wanted = BY_NUMPY[kind](case) if kind in BY_NUMPY else by_runtime(model, feeds)
        if wanted is None:
            continue
        assert outcome(model, feeds, wanted, loose=case.loose, scale=case.scale) == ""
        compared += 1
        if compared == draws(1, 2):
            return
    assert compared or version in LACKING.get(kind, ()), "ONNX Runtime ran no case"


# Op sets whose kernels ONNX Runtime lacks. Their nodes are those of an older op set with more data types.
LACKING = {
    "DeformConv": (22,), "Det": (22,), "MaxRoiPool": (22,), "MaxUnpool": (22,), "RoiAlign": (22,),
    "NegativeLogLikelihoodLoss": (22,), "GlobalLpPool": (22,), "LpNormalization": (22,), "LpPool": (22,),
}  # fmt: skip


def simple(kind, arrays, attrs=(), known=(), outputs=1):
    return Case(kind, arrays, dict(attrs), known=known, outputs=outputs)


X, C = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 9, np.float32([1, 2, 3])
WORDS = {"to": "INT32"}
NORM = [np.float32(one) for one in ([1, 2], [0, 1], [1, 2], [4, 9])]
SLOPES = np.where(X < 0, X * C[:, None], X)
GROWN = np.repeat(np.repeat(np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2), 2, 2), 3, 3)
IMAGE = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
NORMED = (X[:, :2] - NORM[2][:, None]) / np.sqrt(NORM[3])[:, None] * NORM[0][:, None] + NORM[1][:, None]
STATISTICS = {"X": X[:, :2], **dict(zip(("scale", "B", "mean", "var"), NORM, strict=True))}
TILES = {"input": X, "tiles": np.float32(2), "axis": np.float32(1)}
LARGEST = np.float32([3.4028235e38])
SHAPED = {"data": X, "shape": np.array([4, 6])}


def twice(kind, first, second, **attrs):
    return simple(kind, {"A": first, "B": second}, {"broadcast": 1, **attrs})


# Nodes of op sets before 7, which no other implementation runs: the op set, the case, and the results.
OLD = {
    "axes of the second operand": (6, twice("Add", X, C, axis=1), X + C[:, None]),
    "axes of a product": (1, twice("Mul", X, X[:, 0, 0], axis=0), X * X[:, :1, :1]),
    "last axes by default": (6, twice("Sub", X, X[0, 0]), X - X[0, 0]),
    "slopes of channels": (6, simple("PRelu", {"X": X, "slope": C}), SLOPES),
    "older defaults of Selu": (1, simple("Selu", {"X": C}), 1.0507 * C),
    "a shape as an attribute": (1, simple("Reshape", SHAPED, known=("shape",)), X.reshape(4, 6)),
    "an axis by default": (1, simple("Concat", {"inputs": [X, X]}), np.concatenate([X, X], 1)),
    "padding of op set 1": (
        1,
        simple("Pad", {"data": X[0]}, {"paddings": [0, 1, 0, 0]}),
        np.pad(X[0], ((0, 0), (1, 0))),
    ),
    "a data type as a word": (5, simple("Cast", {"input": X}, WORDS), X.astype(np.int32)),
    "a power as a float": (1, simple("GlobalLpPool", {"X": X}, {"p": 2.0}), np.sqrt((X**2).sum(2, keepdims=True))),
    "tiles along one axis": (5, simple("Tile", TILES, known=("tiles", "axis")), np.tile(X, (1, 2, 1))),
    "parts of op set 1": (
        1,
        simple("Split", {"input": X}, {"axis": 2, "split": [1, 3]}, outputs=2),
        np.split(X, [1], 2),
    ),
    "a dropout in inference": (6, simple("Dropout", {"data": X}, {"is_test": 1}), X),
    "a norm in inference": (6, simple("BatchNormalization", STATISTICS, {"is_test": 1, "epsilon": 1e-5}), NORMED),
    "scales of op set 1": (1, simple("Upsample", {"X": IMAGE}, {"height_scale": 2.0, "width_scale": 3.0}), GROWN),
    "limits as attributes": (6, simple("Clip", {"input": X}, {"min": -2.0, "max": 5.0}), np.clip(X, -2, 5)),
    "the largest number is a limit": (6, simple("Clip", {"input": LARGEST * np.inf}, {"min": 0.0}), LARGEST),
    "a bias of a product": (
        6,
        simple("Gemm", {"A": X[0], "B": X[0].T.copy(), "C": C}, {"broadcast": 1}),
        X[0] @ X[0].T + C,
    ),
}


@pytest.mark.parametrize(("opset", "case", "wanted"), OLD.values(), ids=OLD)
def test_nodes_before_op_set_7_agree_with_numpy(opset, case, wanted):
    model, feeds = model_of(case, opset)
    assert outcome(model, feeds, wanted if isinstance(wanted, list) else [wanted]) == ""


REFUSED = {
    "training of a Dropout": (6, simple("Dropout", {"data": X}), "is_test=0"),
    "training of a norm": (6, simple("BatchNormalization", STATISTICS, {"is_test": 0}), "is_test=0"),
    "statistics as outputs": (9, simple("BatchNormalization", STATISTICS, outputs=3), "statistics"),
    "no channels": (7, simple("BatchNormalization", STATISTICS, {"spatial": 0}), "spatial=0"),
    "an unknown data type": (5, simple("Cast", {"input": X}, {"to": "COMPLEX7"}), "COMPLEX7"),
}


@pytest.mark.parametrize(("opset", "case", "text"), REFUSED.values(), ids=REFUSED)
def test_forms_without_a_newer_one_are_refused(opset, case, text):
    model, feeds = model_of(case, opset)
    found = outcome(model, feeds, [])
    assert found.startswith(f"refused: node 0 ({case.kind})")
    assert text in found


def test_scales_that_are_unknown_wait_for_a_run():
    src, scales = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4), np.float32([1, 1, 0.6, 2])
    for opset in (9, 10):
        kind = "Upsample" if opset == 9 else "Resize"
        given = np.maximum(scales, 1) if opset == 9 else scales
        model, feeds = model_of(Case(kind, {"X": src, "scales": given}), opset)
        wanted = by_runtime(model, feeds)
        assert outcome(model, feeds, wanted) == ""


def test_differences_are_noticed():
    one = np.float32([1, 2])
    assert difference(one, one) == ""
    for other in (one + 1, one.astype(np.float64), one[:1], np.float32([1, np.nan])):
        assert difference(other, one)


def test_bits_are_read_as_another_type():
    node = helper.make_node("BitCast", ["x"], ["y"], to=onnx.TensorProto.INT32)
    info = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3])
    graph = helper.make_graph([node], "g", [info], [onnx.ValueInfoProto(name="y")])
    if onnx.defs.onnx_opset_version() < 26:
        pytest.skip("the package onnx is older than the op")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=13)
    src = np.float32([1, -2, 0.5])
    assert outcome(model, {"x": src}, [src.view(np.int32)]) == ""
    assert numpy_helper.from_array(src).dims == [3]
