"""Blocks of images, and slices that an assignment replaces."""

import itertools

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import onegraph as og
import onegraph.onnx
from onegraph.lowering.blocks import MOST_PLACES, from_blocks, to_blocks
from onegraph.lowering.emitter import Emitter, NotLowered
from onegraph.lowering.windows import Window

pytestmark = pytest.mark.library

RNG = np.random.default_rng(0)
IMAGES = (6, 9), (7, 5)
KERNELS = (3, 3), (1, 4)
STEPS = (1, 1), (2, 3), (4, 1)
WINDOWS = [
    (image, kernel, Window(strides, begin, end, dilations))
    for image, kernel, strides in itertools.product(IMAGES, KERNELS, STEPS)
    for begin, end, dilations in (((0, 0), (0, 0), (1, 1)), ((1, 2), (0, 1), (2, 1)))
]


def by_loops(image, kernel, window, visit):
    """Call ``visit`` for each element of each block: the number of the element, that of the block, and its place."""
    counts = [
        (image[i] + window.begin[i] + window.end[i] - window.dilations[i] * (kernel[i] - 1) - 1) // window.strides[i]
        + 1
        for i in (0, 1)
    ]
    for block, start in enumerate(itertools.product(*map(range, counts))):
        for number, at in enumerate(itertools.product(*map(range, kernel))):
            place = [start[i] * window.strides[i] + at[i] * window.dilations[i] - window.begin[i] for i in (0, 1)]
            if all(0 <= place[i] < image[i] for i in (0, 1)):
                visit(number, block, tuple(place))
    return counts[0] * counts[1], kernel[0] * kernel[1]


def lowered(function, shape, *given):
    g = og.Graph()
    g.output("y", function(Emitter(g), g.input("x", "f32", shape), *given))
    return g.compile()


@pytest.mark.parametrize(("image", "kernel", "window"), WINDOWS, ids=str)
def test_blocks_are_those_of_loops(image, kernel, window):
    src = RNG.integers(-9, 9, (2, 3, *image)).astype(np.float32)
    blocks, places = by_loops(image, kernel, window, lambda *_: None)
    wanted = np.zeros((2, 3, places, blocks), np.float32)

    def take(number, block, place):
        wanted[:, :, number, block] = src[(slice(None), slice(None), *place)]

    by_loops(image, kernel, window, take)
    found = lowered(to_blocks, src.shape, kernel, window)(x=src)
    np.testing.assert_array_equal(found, wanted.reshape(2, 3 * places, blocks))


@pytest.mark.parametrize(("image", "kernel", "window"), WINDOWS, ids=str)
def test_images_are_sums_of_blocks(image, kernel, window):
    blocks, places = by_loops(image, kernel, window, lambda *_: None)
    src = RNG.integers(-9, 9, (2, 3 * places, blocks)).astype(np.float32)
    wanted, apart = np.zeros((2, 3, *image), np.float32), src.reshape(2, 3, places, blocks)

    def put(number, block, place):
        wanted[(slice(None), slice(None), *place)] += apart[:, :, number, block]

    by_loops(image, kernel, window, put)
    np.testing.assert_array_equal(lowered(from_blocks, src.shape, image, kernel, window)(x=src), wanted)


def test_large_blocks_are_left_to_others():
    g = og.Graph()
    src = g.input("x", "f32", (1, 1, 20, 20))
    with pytest.raises(NotLowered, match="81 elements"):
        to_blocks(Emitter(g), src, (9, 9), Window((1, 1), (0, 0), (0, 0), (1, 1)))
    assert MOST_PLACES < 81


def model(nodes, inputs, known, shape):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, one.shape) for name, one in inputs.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in known.items()]
    graph = helper.make_graph(nodes, "g", ends, [result], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def compared(proto, inputs, absent):
    """The ops of a model that computes what the package onnx does, and has no op of one kind."""
    (wanted,) = ReferenceEvaluator(proto).run(None, inputs)
    g = og.onnx.load(proto)
    kinds = [op.kind for op in g.ops]
    assert absent not in kinds
    np.testing.assert_array_equal(g.compile()(**inputs), wanted)
    return kinds


def test_col2im_needs_no_package():
    src = RNG.integers(-9, 9, (1, 2 * 6, 12)).astype(np.float32)
    node = helper.make_node("Col2Im", ["x", "image", "block"], ["y"], strides=[2, 1], pads=[1, 0, 0, 1])
    proto = model([node], {"x": src}, {"image": [6, 5], "block": [2, 3]}, (1, 2, 6, 5))
    compared(proto, {"x": src}, "OnnxNode")


BOXES = {
    "rows": (np.arange(1, 4)[:, None], (3, 6, 4)),
    "rows from the end": (np.arange(-2, 0)[:, None], (2, 6, 4)),
    "every other row": (np.arange(1, 8, 2)[:, None], (4, 6, 4)),
    "one row": (np.array([[5]]), (1, 6, 4)),
    "all": (np.arange(8)[:, None], (8, 6, 4)),
    "a part of some rows": (np.stack(np.meshgrid([2, 3], [0, 2, 4], indexing="ij"), -1), (2, 3, 4)),
    "elements": (np.stack(np.meshgrid([0, 4], [3, 4, 5], [1], indexing="ij"), -1), (2, 3, 1)),
}


@pytest.mark.parametrize("name", BOXES)
def test_assignment_to_slices_is_a_concat(name):
    indices, shape = BOXES[name]
    inputs = {"x": RNG.random((8, 6, 4), np.float32), "updates": RNG.random(shape, np.float32)}
    node = helper.make_node("ScatterND", ["x", "indices", "updates"], ["y"])
    proto = model([node], inputs, {"indices": indices.astype(np.int64)}, (8, 6, 4))
    compared(proto, inputs, "ScatterND")


def test_assignment_behind_a_transpose_has_no_transpose():
    inputs = {"x": RNG.random((4, 8, 6), np.float32), "updates": RNG.random((4, 3, 6), np.float32)}
    nodes = [
        helper.make_node("Transpose", ["x"], ["rows"], perm=[1, 0, 2]),
        helper.make_node("Transpose", ["updates"], ["new"], perm=[1, 0, 2]),
        helper.make_node("ScatterND", ["rows", "indices", "new"], ["changed"]),
        helper.make_node("Transpose", ["changed"], ["y"], perm=[1, 0, 2]),
    ]
    kinds = compared(model(nodes, inputs, {"indices": [[2], [3], [4]]}, (4, 8, 6)), inputs, "ScatterND")
    assert "StaticTranspose" not in kinds


OTHERS = {
    "no order": np.array([[2], [1], [3]]),
    "gaps that leave rows": np.array([[0], [2], [4]]),
    "other gaps": np.array([[0], [1], [3]]),
    "no box": np.array([[[0, 0], [1, 1]], [[2, 0], [2, 1]], [[3, 0], [3, 1]]]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_places_stay_a_scatter(name):
    indices = OTHERS[name]
    shape = (*indices.shape[:-1], *(8, 6, 4)[indices.shape[-1] :])
    inputs = {"x": RNG.random((8, 6, 4), np.float32), "updates": RNG.random(shape, np.float32)}
    node = helper.make_node("ScatterND", ["x", "indices", "updates"], ["y"])
    proto = model([node], inputs, {"indices": indices}, (8, 6, 4))
    assert "ScatterND" in compared(proto, inputs, "OnnxNode")


WRONG = {
    "a place outside": ([[3], [4]], (2, 2), "index"),
    "too many updates": ([[0], [1]], (3, 2), "shape"),
    "too few updates": ([[0], [1]], (1, 3), "shape"),
    "places that are no integers": ([[0.0], [1.0]], (2, 2), "s64|int"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_assignments_are_errors(name):
    indices, shape, text = WRONG[name]
    node = helper.make_node("ScatterND", ["x", "indices", "updates"], ["y"])
    inputs = {"x": np.zeros((4, 2), np.float32), "updates": np.zeros(shape, np.float32)}
    proto = model([node], inputs, {"indices": indices}, (4, 2))
    with pytest.raises(og.OneGraphError, match=text):
        og.onnx.load(proto).compile()(**inputs)


@pytest.mark.parametrize(
    "attrs", [{"strides": [0, 1]}, {"strides": [1]}, {"pads": [1]}, {"dilations": [-1, 1]}], ids=str
)
def test_wrong_blocks_are_errors(attrs):
    src = np.zeros((1, 4, 9), np.float32)
    node = helper.make_node("Col2Im", ["x", "image", "block"], ["y"], **attrs)
    proto = model([node], {"x": src}, {"image": [4, 4], "block": [2, 2]}, (1, 1, 4, 4))
    with pytest.raises(og.OneGraphError, match=r"Col2Im|OnnxNode"):
        og.onnx.load(proto).compile()(x=src)
