"""Shares of elements along an axis, by hand: their matrices, those of the gradient, and the order of the axes."""

import numpy as np
import pytest

import onegraph as og
from onegraph.lowering.emitter import Emitter
from onegraph.lowering.shares import Shares, padded_places, shared, windows

# Three results of four elements; the second result has one element, and the third has one twice.
SHARES = Shares(np.array([[0, 2], [1, -1], [2, 2]]), np.array([[0.25, 0.5], [2, 9], [3, 4]]))
MATRIX = [[0.25, 0, 0.5, 0], [0, 2, 0, 0], [0, 0, 7, 0]]


def test_shares_have_the_matrix_of_their_weights():
    assert SHARES.matrix(4).tolist() == MATRIX


def test_shares_of_the_gradient_have_the_transposed_matrix():
    turned = SHARES.turned(4)
    assert turned.matrix(3).tolist() == np.transpose(MATRIX).tolist()
    assert turned.indices.tolist() == [[0, -1, -1], [1, -1, -1], [0, 2, 2], [-1, -1, -1]]
    assert turned.weights.tolist() == [[0.25, 0, 0], [2, 0, 0], [0.5, 3, 4], [0, 0, 0]]


def test_shares_of_no_elements_have_one_tap():
    turned = Shares(np.array([[-1]]), np.array([[1.0]])).turned(2)
    assert turned.indices.tolist() == [[-1], [-1]]
    assert Shares(np.zeros((0, 1), np.int64), np.zeros((0, 1))).turned(2).indices.tolist() == [[-1], [-1]]


@pytest.mark.parametrize(
    ("begins", "ends", "indices"),
    [
        ([0, 2], [2, 5], [[0, 1, -1], [2, 3, 4]]),
        ([0, 2], [1, 3], [[0], [2]]),
        ([1], [1], [[-1]]),
        ([], [], []),
    ],
)
def test_windows_have_the_elements_between_their_ends(begins, ends, indices):
    weights = np.arange(1, len(begins) + 1) / 2
    found = windows(np.array(begins, np.int64), np.array(ends, np.int64), weights)
    assert found.indices.tolist() == indices
    assert found.weights.tolist() == [[weight] * len(row) for weight, row in zip(weights, indices, strict=True)]


@pytest.mark.parametrize(
    ("before", "after", "mode", "places"),
    [
        (1, 2, "edge", [0, 0, 1, 2, 2, 2]),
        (2, 1, "reflect", [2, 1, 0, 1, 2, 1]),
        (1, 2, "wrap", [2, 0, 1, 2, 0, 1]),
        (-1, 1, "edge", [1, 2, 2]),
        (1, -1, "edge", [0, 0, 1]),
        (-1, -1, "edge", [1]),
        (0, 0, "reflect", [0, 1, 2]),
    ],
)
def test_padded_places_repeat_elements(before, after, mode, places):
    assert padded_places(3, before, after, mode).tolist() == places


@pytest.mark.parametrize(("dims", "axes"), [((4, 4), [0, 1]), ((4, 2), [0, 1]), ((9, 4), [0, 1]), ((2, 4), [1, 0])])
def test_axes_that_shrink_are_summed_first(dims, axes):
    graph = og.Graph()
    src = graph.input("x", "f32", dims)
    shares = {axis: Shares(np.zeros((3, 1), np.int64), np.ones((3, 1))) for axis in (0, 1)}
    graph.output("y", shared(Emitter(graph), src, shares))
    assert [op.attrs["axis"] for op in graph.ops] == axes


@pytest.mark.parametrize(
    ("dtype", "kinds"),
    [
        ("f32", ["WeightedGather"]),
        ("bf16", ["TypeCast", "WeightedGather", "TypeCast"]),
        ("float64", ["WeightedGather"]),
    ],
)
def test_shares_are_summed_in_f32_at_least(dtype, kinds):
    graph = og.Graph()
    src = graph.input("x", "f32" if dtype == "float64" else dtype, (4,))
    emit = Emitter(graph)
    if dtype == "float64":
        src = emit.op("Cast", [src], {"saturate": True}, dtype=og.DataType.float64)
    result = shared(emit, src, {0: SHARES})
    graph.output("y", result)
    assert [op.kind for op in graph.ops if op.kind != "Cast"] == kinds
    assert (str(result.dtype), result.shape) == (dtype, (3,))
    if dtype == "f32":
        numbers = np.float32([1, 2, 4, 8])
        np.testing.assert_allclose(og.reference.run(graph, {"x": numbers})["y"], np.array(MATRIX) @ numbers, rtol=1e-6)
