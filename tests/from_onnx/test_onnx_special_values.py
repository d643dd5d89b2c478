"""Every kind of ONNX node passes NaN and infinities on as ONNX Runtime does, or as the reference of ONNX does."""

from __future__ import annotations

import sys
import warnings
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
sys.path.insert(0, str(Path(__file__).parents[1]))
from helpers.onnx_compare import by_runtime  # noqa: E402
from helpers.onnx_nodes import CASES, Draw, model_of  # noqa: E402

import onegraph.onnx  # noqa: E402

pytestmark = [pytest.mark.library, pytest.mark.filterwarnings("ignore")]
NEWEST, SEEDS = 21, 1  # the op set that ONNX Runtime has all kernels of
SPECIAL = {"nan": [nan], "inf": [inf], "minus inf": [-inf], "mixture": [nan, inf, -inf, 0.0]}
LOST = "ONNX Runtime and the reference lose NaN, PyTorch and onegraph keep it: tests/kernels/test_max_pool.py"
STATE = "ONNX Runtime limits what enters a gate, which loses NaN; the reference lacks directions and layers"
CODES = "an integer for NaN or for 0 * inf is not defined"
# Kinds of which neither oracle decides.
UNDECIDED = {
    **dict.fromkeys(["GlobalMaxPool", "MaxPool", "MaxRoiPool", "RoiAlign"], LOST),
    **dict.fromkeys(["GRU", "LSTM", "RNN"], STATE),
    **dict.fromkeys(["DynamicQuantizeLinear", "QLinearMatMul", "QLinearConv", "QuantizeLinear"], CODES),
    "AffineGrid": "three orders of sums of infinities",
    "Conv": "NaN in weights times padding: PyTorch reads no padding",
    "DFT": "three orders of sums of infinities",
    "DeformConv": "a place that is NaN is refused",
    "GridSample": "a place that is NaN",
    "Hardmax": "the largest of NaN and numbers",
    "LRN": "in ONNX Runtime, NaN reaches all channels that follow: see below",
    "LogSoftmax": "NaN for the whole row, as in PyTorch",
    "NonMaxSuppression": "the order of scores that are NaN",
    "Range": "refused",
    "Scatter": "deprecated since op set 11: see ScatterElements",
    "Upsample": "deprecated since op set 10: see Resize",
    "Unique": "whether two rows with NaN are the same",
}


def with_special(array, numbers):
    flat = array.copy().reshape(-1)
    for place, number in enumerate(numbers):
        flat[3 * place % flat.size] = number
    return flat.reshape(array.shape)


def by_reference(model, feeds):
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            return ReferenceEvaluator(model).run(None, feeds)
    except Exception:  # errors of many classes
        return None


def agrees(found, wanted):
    if wanted is None:
        return False
    for got, want in zip(found, wanted, strict=True):
        want = np.asarray(want)
        if got.shape != want.shape:
            return False
        if want.dtype.kind not in "fiub":
            continue
        if not np.allclose(got.astype(np.float64), want.astype(np.float64), rtol=0.01, atol=0.02, equal_nan=True):
            return False
    return True


def models(kind):
    """Models of one node, and the arrays of its inputs."""
    schemas = onnx.defs.get_all_schemas_with_history()
    versions = [one.since_version for one in schemas if (one.name, one.domain) == (kind, "")]
    opset = max([7, *[version for version in versions if version <= NEWEST]])
    for seed in range(SEEDS):
        try:
            yield model_of(CASES[kind](Draw(np.random.default_rng(seed), kind, opset)), opset)
        except onnx.defs.SchemaError:  # a kind that is younger
            return


@pytest.mark.parametrize("kind", sorted(CASES.keys() - UNDECIDED))
def test_a_node_keeps_special_numbers(kind):
    for model, feeds in models(kind):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = onegraph.onnx.load(model)
        program = graph.compile()
        for name, array in feeds.items():
            for label, numbers in SPECIAL.items() if array.dtype.kind == "f" and array.size else ():
                given = {**feeds, name: with_special(array, numbers)}
                wanted = by_runtime(model, given)
                if wanted is None:
                    continue
                found = program(**{one: given[one] for one in graph.inputs})
                found = found if isinstance(found, tuple) else (found,)
                assert agrees(found, wanted) or agrees(found, by_reference(model, given)), (
                    f"{label} in {name}: {found}, expected {wanted}"
                )


def test_every_reason_is_of_a_kind_with_a_case():
    assert UNDECIDED.keys() <= CASES.keys()


def model_of_nodes(nodes, shape, *constants):
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
    graph = onnx.helper.make_graph(
        nodes,
        "model",
        [value],
        [onnx.ValueInfoProto(name="y")],
        [onnx.numpy_helper.from_array(*one) for one in constants],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)


def test_sums_of_exponentials_may_be_infinite():
    node = onnx.helper.make_node("ReduceLogSumExp", ["x", "axes"], ["y"], keepdims=0)
    x = np.float32([[inf, 1], [-inf, -inf], [nan, inf], [-inf, 2], [1, 1]])
    model = model_of_nodes([node], x.shape, (np.int64([1]), "axes"))
    np.testing.assert_allclose(onegraph.onnx.load(model).compile()(x), [inf, -inf, nan, 2, 1 + np.log(2)], rtol=1e-6)


@pytest.mark.parametrize("number", [nan, inf])
def test_a_response_reaches_the_channels_beside_it(number):
    x = np.linspace(-1, 1, 18, dtype=np.float32).reshape(1, 6, 3)[..., None]
    x[0, 2, 1] = number
    node = onnx.helper.make_node("LRN", ["x"], ["y"], size=3, alpha=0.5)
    sums = [np.square(x[:, max(at - 1, 0) : at + 2]).sum(1, keepdims=True) for at in range(6)]
    wanted = x / (1 + 0.5 / 3 * np.concatenate(sums, 1)) ** 0.75
    np.testing.assert_allclose(onegraph.onnx.load(model_of_nodes([node], x.shape)).compile()(x), wanted, rtol=1e-6)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_an_element_outside_an_image_is_zero_beside_nan(mode):
    """The border has NaN, which counts for places inside alone; a place that is NaN is no error."""
    grid = np.float32([[[[-3, -3], [0, 0], [3, 0], [nan, 0]]]])
    node = onnx.helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode)
    x = np.full((1, 1, 3, 3), nan, np.float32)
    x[0, 0, 1, 1] = 7
    found = onegraph.onnx.load(model_of_nodes([node], x.shape, (grid, "grid"))).compile()(x).reshape(-1)
    assert found[0] == found[2] == 0
    assert found[1] == 7 or mode == "linear"


def test_numbers_become_codes_at_the_ends_of_the_range():
    node = onnx.helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])
    x = np.float32([inf, -inf, 1, 3e38, -3e38])
    model = model_of_nodes([node], x.shape, (np.float32(0.5), "scale"), (np.int8(3), "zero"))
    np.testing.assert_array_equal(onegraph.onnx.load(model).compile()(x), [127, -128, 5, 127, -128])
