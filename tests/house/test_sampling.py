"""Images sampled at the places of a grid."""

import itertools

import numpy as np
import onnx
import pytest
from helpers.onnx_session import session_of
from onnx import helper
from onnx.reference import ReferenceEvaluator

import onegraph as og
from onegraph.lowering.emitter import Emitter, Unsettled
from onegraph.lowering.sampling import composed_grid_sample, grid_sample

pytestmark = pytest.mark.library

RNG = np.random.default_rng(0)
SHAPES = [((2, 3, 5, 4), (2, 3, 2, 2)), ((1, 2, 3, 4, 2), (1, 2, 3, 2, 3))]
CASES = [
    (*case, shapes)
    for case in itertools.product(
        ("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (False, True), SHAPES
    )
    if not (case[0] == "cubic" and len(case[3][0]) == 5)
    for shapes in [case[3]]
]


def sampled(src, grid, mode, padding, align_corners):
    g = og.Graph()
    ends = [g.input(name, "f32", one.shape) for name, one in (("x", src), ("grid", grid))]
    g.output("y", grid_sample(Emitter(g), *ends, mode, padding, align_corners=align_corners))
    return g.compile()(x=src, grid=grid)


@pytest.mark.parametrize(("mode", "padding", "align_corners", "shapes"), [case[:4] for case in CASES], ids=str)
def test_agrees_with_the_definition_of_onnx(mode, padding, align_corners, shapes):
    src = RNG.standard_normal(shapes[0]).astype(np.float32)
    grid = RNG.uniform(-1.7, 1.7, shapes[1]).astype(np.float32)
    grid.flat[:3] = -1, 1, 0.0
    attrs = {"mode": mode, "padding_mode": padding, "align_corners": int(align_corners)}
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], **attrs)
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("x", "grid", "y")]
    model = helper.make_model(
        helper.make_graph([node], "g", ends[:2], ends[2:]), opset_imports=[helper.make_opsetid("", 20)]
    )
    if (mode, padding) == ("cubic", "border"):  # the package onnx takes zeros beyond the border, others its elements
        (wanted,) = session_of(model).run(None, {"x": src, "grid": grid})
    else:
        (wanted,) = ReferenceEvaluator(model).run(None, {"x": src, "grid": grid})
    np.testing.assert_allclose(sampled(src, grid, mode, padding, align_corners), wanted, rtol=1e-4, atol=1e-4)


def test_places_between_elements_as_by_hand():
    src = np.array([[1, 2], [3, 5]], np.float32).reshape(1, 1, 2, 2)
    grid = np.array([[0, 0], [-1, -1], [1, 0], [3, 0]], np.float32).reshape(1, 1, 4, 2)
    found = sampled(src, grid, "linear", "zeros", align_corners=True)
    np.testing.assert_allclose(found.ravel(), [2.75, 1, 3.5, 0])
    found = sampled(src, grid, "linear", "zeros", align_corners=False)
    np.testing.assert_allclose(found.ravel(), [2.75, 0.25, 1.75, 0])


@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_places_far_away(padding):
    src = RNG.standard_normal((1, 2, 3, 3)).astype(np.float32)
    grid = np.full((1, 1, 2, 2), 1e30, np.float32) * [[1], [-1]]
    found = sampled(src, grid.astype(np.float32), "linear", padding, align_corners=False)
    corners = src[0, :, [2, 0], [2, 0]].T if padding == "border" else np.zeros((2, 2))
    np.testing.assert_array_equal(found[0, :, 0], corners)


@pytest.mark.parametrize(
    ("mode", "opset"),
    [("bilinear", 16), ("bicubic", 16), ("nearest", 16), ("linear", 20), ("cubic", 20), ("nearest", 20)],
)
def test_names_of_old_and_new_op_sets(mode, opset):
    src = RNG.standard_normal((1, 2, 4, 4)).astype(np.float32)
    grid = RNG.uniform(-1, 1, (1, 3, 3, 2)).astype(np.float32)
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode)
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", src.shape), ("grid", grid.shape), ("y", None))
    ]
    model = helper.make_model(
        helper.make_graph([node], "g", ends[:2], ends[2:]), opset_imports=[helper.make_opsetid("", opset)]
    )
    found = og.onnx.load(model.SerializeToString()).compile()(x=src, grid=grid)
    plain = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    np.testing.assert_array_equal(found, sampled(src, grid, plain, "zeros", align_corners=False))


def test_gathers_need_known_shapes_and_the_op_does_not():
    g = og.Graph()
    ends = g.input("x", "f32", (1, 2, None, 3)), g.input("grid", "f32", (1, 2, 2, 2))
    with pytest.raises(Unsettled, match="known shape"):
        composed_grid_sample(Emitter(g), *ends, "linear", "zeros", align_corners=True)
    g.output("y", grid_sample(Emitter(g), *ends, "linear", "zeros", align_corners=True))
    model, grid = g.compile(), np.array([[-1, -1], [1, 1], [0, 0], [1, -1]], np.float32).reshape(1, 2, 2, 2)
    for rows in (3, 5):
        src = RNG.standard_normal((1, 2, rows, 3)).astype(np.float32)
        corners = src[0, :, [0, -1, rows // 2, 0], [0, -1, 1, -1]].T
        np.testing.assert_array_equal(model(x=src, grid=grid).reshape(2, 4), corners)
