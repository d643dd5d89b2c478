"""Which known weights become s8 without zero points, and where sums would leave the range of f32, by hand."""

import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph._util.size_symbols import OpenSizes
from onegraph.lowering.emitter import Emitter
from onegraph.lowering.integer_products import (
    IntegerWeights,
    Product,
    _exact_parts,
    _inside,
    _is_one_part,
    _most,
    _signed,
    integer_convolution,
    integer_matmul,
)
from onegraph.lowering.quantization import Scale, symmetric
from onegraph.lowering.windows import Window
from onegraph.opset.dtypes import DataType

MATMUL = Product((-1, -2), -1, None, None, None, None)
CONVOLUTION = Product((1, 1), 0, None, None, None, None)


@pytest.mark.parametrize(
    ("weights", "zero", "codes", "zeros"),
    [
        (np.uint8([[0, 127]]), None, [[0, 127]], None),
        (np.uint8([[0, 128]]), None, [[-128, 0]], [-128]),
        (np.uint8([[100, 200]]), np.uint8([100, 90]), [[0, 110]], None),
        (np.uint8([[0, 255]]), np.uint8([127, 128]), [[-127, 127]], None),
        (np.uint8([[0, 255]]), np.uint8([129, 127]), [[-128, 127]], [1, -1]),
        (np.int8([[-128, 127]]), None, [[-128, 127]], None),
        (np.int8([[-128, 127]]), np.int8(1), [[-128, 127]], [1]),
        (np.int8([[-128, 127]]), np.int8(-1), [[-128, 127]], [-1]),
        (np.zeros((1, 0), np.uint8), None, [[]], None),
    ],
)
def test_known_weights_become_signed(weights, zero, codes, zeros):
    found = _signed(weights, zero, -1)
    assert (found.codes.dtype, found.codes.tolist()) == (np.int8, codes)
    assert (None if found.zeros is None else found.zeros.tolist()) == zeros
    exact = weights.astype(np.int64) - (0 if zero is None else zero.astype(np.int64))
    np.testing.assert_array_equal(found.numbers(-1), exact)


def column(numbers, zeros=None):
    """Weights of one column."""
    return IntegerWeights(np.int8(numbers)[:, None], zeros)


@pytest.mark.parametrize(
    ("weights", "product", "expected"),
    [
        # 516 * 127 * 256 is below 2**24, and 517 * 127 * 256 is above it.
        (column([127] * 516), MATMUL, [(0, 516)]),
        (column([127] * 517), MATMUL, [(0, 516), (516, 517)]),
        (column([-128] * 511), MATMUL, [(0, 511)]),
        (column([-128] * 512), MATMUL, [(0, 511), (511, 512)]),  # 512 * 128 * 256 is 2**24
        (column([127] * 1033), MATMUL, [(0, 516), (516, 1032), (1032, 1033)]),
        (column([127, -127] * 516), MATMUL, [(0, 1032)]),  # the sums of one sign count
        (column([-127] * 517), MATMUL, [(0, 516), (516, 517)]),
        (IntegerWeights(np.int8([[0, 127]] * 517), None), MATMUL, [(0, 516), (516, 517)]),
        (column([127] * 258, np.array([-128])), MATMUL, [(0, 257), (257, 258)]),  # 257 * 255 * 256 is below 2**24
        (column([0] * 400, np.array([200])), MATMUL, [(0, 327), (327, 400)]),  # 327 * 200 * 256 is below it
        (column([]), MATMUL, []),
        (IntegerWeights(np.full((2, 57, 3, 3), 127, np.int8), None), CONVOLUTION, [(0, 57)]),  # 57 * 9 * 127 * 256 is
        (IntegerWeights(np.full((2, 58, 3, 3), 127, np.int8), None), CONVOLUTION, [(0, 57), (57, 58)]),
    ],
)
def test_sums_are_cut_where_f32_ends(weights, product, expected):
    assert _exact_parts(weights, product) == expected


@pytest.mark.parametrize(("channels", "is_one"), [(258, True), (259, False)])  # 258 * 255 * 255 is below 2**24
def test_exact_sums_of_unknown_weights_are_one_part(channels, is_one):
    graph = og.Graph()
    weights = graph.input("w", "u8", (4, channels, 1, 1))
    assert _is_one_part(weights, None, CONVOLUTION) is is_one
    assert _is_one_part(np.full((4, channels, 1, 1), 100, np.uint8), None, CONVOLUTION)
    assert not _is_one_part(np.full((4, 517, 1, 1), 127, np.uint8), None, CONVOLUTION)


@pytest.mark.parametrize(
    ("dtype", "has_zero", "most"), [("s8", 0, 128), ("u8", 0, 255), ("s8", 1, 255), ("u8", 1, 255)]
)
def test_largest_code_depends_on_the_zero_point(dtype, has_zero, most):
    codes = og.Graph().input("x", dtype, (2,))
    assert _most(codes, codes if has_zero else None) == most


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window([1], [1], [1], [1]), [6, 7, 7, 3]),
        (Window([2], [1], [0], [1]), [6, 7]),
        (Window([1], [2], [2], [2]), [6, 6, 3, 3]),
        (Window([1], [0], [0], [1]), [7, 7]),
        (Window([3], [0], [2], [1]), [7, 1]),
    ],
)
def test_taps_inside_an_image_are_summed(window, expected):
    """The window of the taps 1, 2 and 4 over an image of four elements."""
    assert _inside(np.array([[1, 2, 4]]), [4], window).tolist() == [expected]


@pytest.mark.parametrize(("rows", "columns"), [((), ()), ((2,), ()), ((), (3,)), ((5, 2), (3,))])
def test_products_with_vectors_have_the_shape_of_numpy(rows, columns):
    graph = og.Graph()
    src = graph.input("x", "u8", (*rows, 4))
    weights = np.int8(np.arange(4 * (columns or (1,))[0]).reshape(4, *columns))
    result = integer_matmul(Emitter(graph), src, weights, None, None)
    assert result.dtype is DataType.s32
    assert result.shape == np.matmul(np.zeros((*rows, 4)), weights).shape


LARGE = np.random.default_rng(0).integers(200, 255, (2, 1400), np.uint8, endpoint=True)


@pytest.mark.parametrize("are_known", [False, True], ids=["unknown", "known"])
@pytest.mark.parametrize("zeros", [None, 3, [3], [1, 2, 3, 4]], ids=str)
@pytest.mark.parametrize("groups", [0, 1, 2])
def test_sums_beyond_f32_are_exact(groups, zeros, are_known):
    """A product, and convolutions of one and of two groups; by weights that are known or come with a run."""
    graph, src = og.Graph(), LARGE if not groups else LARGE[..., None]
    weights = np.random.default_rng(1).integers(0, 255, (4, 1400 // max(groups, 1), 1), np.uint8, endpoint=True)
    zero = None if zeros is None else np.array(zeros, np.uint8)
    wide = weights[..., 0] - (0 if zero is None else zero.astype(np.int64).reshape(-1, 1))
    parts = np.split(LARGE.astype(np.int64), max(groups, 1), 1)
    exact = np.concatenate([one @ rows.T for one, rows in zip(parts, np.split(wide, len(parts)), strict=True)], 1)
    given = weights if groups else np.ascontiguousarray(weights[..., 0].T)
    ends = [graph.input("x", "u8", src.shape), given if are_known else graph.input("w", "u8", given.shape)]
    if groups:
        window = Window([1], [0], [0], [1])
        found = integer_convolution(Emitter(graph), *ends, None, zero, window, groups=groups)
    else:
        found = integer_matmul(Emitter(graph), *ends, None, zero)
    graph.output("y", found)
    arrays = {name: array for name, array in (("x", src), ("w", given)) if name in graph.inputs}
    assert exact.max() > 1 << 24
    np.testing.assert_array_equal(reference.run(graph, arrays)["y"].reshape(exact.shape), exact)


@pytest.mark.parametrize(
    ("window", "is_open", "is_inside"),
    [
        (Window([1], [1], [0], [1]), True, True),
        (Window([1], [0], [1], [1]), True, True),
        (Window([1], [0], [0], [1], auto_pad="SAME_UPPER"), True, True),
        (Window([1], [0], [0], [1]), True, False),
        (Window([1], [1], [0], [1]), False, False),
        (Window([1], [0], [0], [1]), False, False),
    ],
)
def test_zero_points_of_a_run_leave_padded_images_of_open_sizes(window, is_open, is_inside):
    """The sums of weights behind the product are known otherwise."""
    graph, (size,) = og.Graph(strict=False), OpenSizes([5]).symbols if is_open else (5,)
    src, point = graph.input("x", "u8", (1, 2, size)), graph.input("zero", "u8", ())
    integer_convolution(Emitter(graph), src, np.ones((3, 2, 2), np.int8), point, None, window, groups=1)
    assert ("DynamicDequantize" in [op.kind for op in graph.ops]) is is_inside


@pytest.mark.parametrize(
    ("weights", "zero", "axis", "moved"),
    [
        ([[0, 255]], 128, 1, [[-128, 127]]),
        ([[0, 255]], 127, 1, None),
        ([[0, 255]], 129, 1, None),
        ([[0, 255], [9, 9]], [128, 130], 0, [[-128, 127], [-121, -121]]),
        ([[5, 7], [9, 9]], [5, 9], 1, [[0, -2], [4, 0]]),
        ([[5, 7], [9, 9]], [5, 9], -1, [[0, -2], [4, 0]]),
        ([[[5, 7], [9, 9]]], [5, 9], 1, [[[0, 2], [0, 0]]]),
        ([[[5]], [[9]]], [5, 9], 0, [[[0]], [[0]]]),
        ([[5, 7]], [5], 0, [[0, 2]]),
        ([[5, 7]], [[5]], 0, None),
        (np.zeros((0, 2), np.uint8), 3, 1, np.zeros((0, 2)).tolist()),
    ],
)
def test_weights_without_a_zero_point_are_signed(weights, zero, axis, moved):
    codes, scale = np.uint8(weights), Scale(np.float32(1), np.array(zero, np.uint8), axis)
    found, left = symmetric(codes, scale)
    if moved is None:
        assert found is codes
        assert left is scale
    else:
        assert (found.dtype, found.tolist()) == (np.int8, moved)
        assert (left.scale, left.zero, left.axis) == (scale.scale, None, axis)


@pytest.mark.parametrize(
    "scale", [Scale(np.float32(1), np.int8([0, 0])), Scale(np.float32(1), np.array(3, np.int8), block=2)]
)
def test_signed_weights_stay_as_they_are(scale):
    codes = np.int8([[1, 2], [3, 4]])
    found, left = symmetric(codes, scale)
    assert found is codes
    assert left is scale
