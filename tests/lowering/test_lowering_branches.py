"""Known weights take in parallel convolutions and normalizations, and the results stay the same."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from onegraph import onnx as front  # noqa: E402

pytestmark = pytest.mark.library

RNG = np.random.default_rng(0)
SHAPE = (2, 8, 9, 7)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def branch(name, kind, source="x", channels=8, groups=1, has_norm=False, **attrs):
    """The nodes and weights of one branch: a Conv of a kernel of these sizes, or with kind None a normalization."""
    nodes, weights, last = [], {}, source
    if kind is not None:
        weights |= {f"{name}w": normal(channels, 8 // groups, *kind), f"{name}b": normal(channels)}
        inputs = [source, f"{name}w", f"{name}b"]
        nodes.append(helper.make_node("Conv", inputs, [f"{name}c"], group=groups, kernel_shape=kind, **attrs))
        last = f"{name}c"
    if kind is None or has_norm:
        weights |= {f"{name}{letter}": normal(channels) for letter in "gsm"} | {f"{name}v": 1 + normal(channels) ** 2}
        nodes.append(helper.make_node("BatchNormalization", [last, *(f"{name}{one}" for one in "gsmv")], [f"{name}n"]))
        last = f"{name}n"
    return nodes, weights, last


def imported(nodes, weights, shape=SHAPE):
    """The kinds of ops of a model from x to y, once its results are right."""
    image = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    known = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    proto = helper.make_model(
        helper.make_graph(nodes, "g", [image], [result], known), opset_imports=[helper.make_opsetid("", 18)]
    )
    x = normal(*shape)
    with np.errstate(all="ignore"):
        (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x})
    found = front.load(proto)
    np.testing.assert_allclose(found.compile()(x), wanted, rtol=1e-4, atol=1e-4)
    return [op.kind for op in found.ops]


def convolutions(*branches, nodes=()):
    """How many convolutions and normalizations the sum of the branches has."""
    added, weights, total = [*nodes], {}, ""
    for number, (made, known, last) in enumerate(branches):
        added += made
        weights |= known
        if total:
            added.append(helper.make_node("Add", [total, last], [f"sum{number}"]))
        total = f"sum{number}" if total else last
    kinds = imported([*added, helper.make_node("Relu", [total], ["y"])], weights)
    return kinds.count("Convolution") + kinds.count("BatchNormInference")


@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize("strides", [[1, 1], [2, 2]], ids=str)
@pytest.mark.parametrize("has_norm", [False, True], ids=["plain", "normalized"])
def test_windows_within_each_other_are_one(groups, strides, has_norm):
    how = {"groups": groups, "strides": strides, "has_norm": has_norm}
    three, one = branch("a", (3, 3), pads=[1] * 4, **how), branch("b", (1, 1), **how)
    assert convolutions(three, one) == convolutions(one, three) == 1


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_a_normalization_of_the_image_is_a_window_of_one_element(groups):
    three = branch("a", (3, 3), pads=[1] * 4, groups=groups)
    one = branch("b", (1, 1), groups=groups)
    assert convolutions(branch("c", None), one, three) == 1


def test_windows_lie_where_their_pads_say():
    five = branch("a", (5, 3), pads=[3, 1, 1, 1])
    assert convolutions(five, branch("b", (3, 1), pads=[2, 0, 0, 0])) == 1
    assert convolutions(five, branch("b", (1, 1))) == 1


def test_dilated_windows_cover_the_elements_that_they_see():
    dilated = branch("a", (3, 3), pads=[2] * 4, dilations=[2, 2])
    assert convolutions(dilated, branch("b", (1, 1))) == 1
    assert convolutions(dilated, branch("b", (3, 3), pads=[1] * 4)) == 2


def test_windows_across_each_other_stay_apart():
    assert convolutions(branch("a", (1, 3), pads=[0, 1, 0, 1]), branch("b", (3, 1), pads=[1, 0, 1, 0])) == 2


def test_branches_of_other_images_groups_or_strides_stay_apart():
    three = branch("a", (3, 3), pads=[1] * 4)
    relu = [helper.make_node("Relu", ["x"], ["r"])]
    assert convolutions(three, branch("b", (1, 1), source="r"), nodes=relu) == 2
    assert convolutions(three, branch("b", (1, 1), groups=2)) == 2
    wide = branch("a", (3, 3), pads=[1] * 4, strides=[2, 2])
    assert convolutions(wide, branch("b", (3, 3), pads=[0, 0, 2, 2], strides=[2, 2])) == 2


def test_two_normalizations_stay_apart():
    assert convolutions(branch("a", None), branch("b", None)) == 2


def test_sums_beyond_the_range_of_f32_stay_apart():
    one, other = branch("a", (1, 1)), branch("b", (1, 1))
    for known, name in ((one[1], "ab"), (other[1], "bb")):
        known[name][:] = 3e38
    assert convolutions(one, other) == 2


NORM = helper.make_node("BatchNormalization", ["p", "g", "s", "m", "v"], ["y"])


def vectors():
    return {name: normal(6) for name in "gsm"} | {"v": 1 + normal(6) ** 2}


@pytest.mark.parametrize("transposed", [0, 1])
def test_a_layer_takes_in_its_normalization(transposed):
    layer = helper.make_node("Gemm", ["x", "w", "b"], ["p"], transB=transposed)
    weights = {"w": normal(6, 8) if transposed else normal(8, 6), "b": normal(6)}
    assert imported([layer, NORM], weights | vectors(), (5, 8)) == ["MatMul", "Add"]


@pytest.mark.parametrize("biased", [False, True])
def test_a_layer_of_batches_takes_in_its_normalization(biased):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["l" if biased else "q"])]
    nodes += [helper.make_node("Add", ["l", "b"], ["q"])] if biased else []
    nodes += [helper.make_node("Reshape", ["q", "flat"], ["p"]), NORM]
    weights = {"w": normal(8, 6), "b": normal(6), "flat": np.int64([-1, 6])}
    assert imported(nodes, weights | vectors(), (2, 5, 8)) == ["MatMul", "Add", "StaticReshape"]


def test_a_normalization_of_other_columns_stays():
    nodes = [helper.make_node("MatMul", ["x", "w"], ["q"]), helper.make_node("Reshape", ["q", "dims"], ["p"]), NORM]
    weights = {"w": normal(8, 12), "dims": np.int64([-1, 6])}
    assert "BatchNormInference" in imported(nodes, weights | vectors(), (5, 8))


def test_a_normalization_beyond_the_range_of_f32_stays():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("BatchNormalization", ["p", "g", "s", "m", "v"], ["n"]),
        helper.make_node("Clip", ["n", "low", "high"], ["y"]),
    ]
    weights = {"w": np.full((8, 6), 3e37, np.float32), "low": np.float32(-1), "high": np.float32(1), **vectors()}
    weights["g"][:] = 1e3
    assert "BatchNormInference" in imported(nodes, weights, (5, 8))


def test_a_normalization_behind_a_product_of_two_tensors_stays():
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "t"], ["p"]),
        NORM,
    ]
    assert "BatchNormInference" in imported(nodes, vectors(), (6, 8))


# Before a product -----------------------------------------------------------------------------------------------------


def before(*nodes):
    """A normalization of the image x, and nodes that read its result n."""
    return [helper.make_node("BatchNormalization", ["x", "g", "s", "m", "v"], ["n"]), *nodes]


def of_image():
    return {name: normal(8) for name in "gsm"} | {"v": 1 + normal(8) ** 2}


@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize("kind", [(1, 1), (3, 2)], ids=str)
@pytest.mark.parametrize("biased", [False, True])
def test_a_convolution_takes_in_the_normalization_before_it(groups, kind, biased):
    inputs = ["n", "w", "b"][: 2 + biased]
    conv = helper.make_node("Conv", inputs, ["y"], group=groups, kernel_shape=kind, strides=[2, 1])
    weights = {"w": normal(16, 8 // groups, *kind), "b": normal(16)}
    kinds = imported(before(conv), of_image() | weights)
    assert "BatchNormInference" not in kinds
    assert kinds.count("Convolution") == 1


def test_a_convolution_with_zeros_around_the_image_does_not():
    conv = helper.make_node("Conv", ["n", "w"], ["y"], pads=[1, 1, 1, 1])
    assert "BatchNormInference" in imported(before(conv), of_image() | {"w": normal(8, 8, 3, 3)})


def test_an_image_that_others_read_too_is_still_normalized():
    conv = helper.make_node("Conv", ["n", "w"], ["c"])
    nodes = before(conv, helper.make_node("Mul", ["c", "n"], ["y"]))
    assert "BatchNormInference" in imported(nodes, of_image() | {"w": normal(8, 8, 1, 1)})


@pytest.mark.parametrize("transposed", [0, 1])
def test_a_layer_takes_in_the_normalization_before_it(transposed):
    layer = helper.make_node("Gemm", ["n", "w", "b"], ["y"], transB=transposed)
    weights = {"w": normal(6, 8) if transposed else normal(8, 6), "b": normal(6)}
    assert "BatchNormInference" not in imported(before(layer), of_image() | weights, (5, 8))


def test_the_mean_of_an_image_is_normalized_behind_it():
    """So that the layer behind it takes in the normalization."""
    nodes = before(
        helper.make_node("ReduceMean", ["n", "axes"], ["mean"], keepdims=0),
        helper.make_node("MatMul", ["mean", "w"], ["y"]),
    )
    kinds = imported(nodes, of_image() | {"axes": np.int64([2, 3]), "w": normal(8, 6)})
    assert "BatchNormInference" not in kinds
    nodes[-1] = helper.make_node("Relu", ["mean"], ["y"])
    kinds = imported(nodes, of_image() | {"axes": np.int64([2, 3])})
    assert kinds.index("ReduceMean") < kinds.index("BatchNormInference")


def test_a_mean_over_the_channels_too_is_of_the_normalized_image():
    nodes = before(helper.make_node("ReduceMean", ["n", "axes"], ["y"], keepdims=1))
    kinds = imported(nodes, of_image() | {"axes": np.int64([1, 2])})
    assert kinds.index("BatchNormInference") < kinds.index("ReduceMean")
