"""The kernels of LogSoftmax and SoftMax along any axis, compared with float64."""

import itertools

import numpy as np
import pytest

import onegraph as og
from onegraph.compiler.kernels.softmax import IN_LESS_TIME, OTHER_AXES
from tests.helpers.kernels import run

pytestmark = pytest.mark.library
TESTED_KERNELS = ("guarded", "log_softmax", "softmax")
RNG = np.random.default_rng(812)
TOLERANCES = {"f32": 2e-6, "bf16": 1.6e-2, "f16": 2e-3}
SHAPES = [(5, 4), (3, 130, 2), (2, 3, 70), (1, 6, 7, 9), (2, 1, 3), (70, 70), (3, 90, 70)]


def graph(kind, dtype, shape, axis):
    g = og.Graph()
    g.output("y", g.op(kind, [g.input("x", dtype, shape)], {"axis": axis}))
    return g


def expected(x, axis, kind):
    """What IEEE 754 says of the formula, in float64."""
    with np.errstate(all="ignore"):
        less = x - x.max(axis, keepdims=True)
        power = np.exp(less)
        total = power.sum(axis, keepdims=True)
        return power / total if kind == "SoftMax" else less - np.log(total)


@pytest.mark.parametrize("finite_math", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_softmax_along_other_axes_is_that_of_float64(dtype, finite_math):
    for shape, threads in itertools.product(SHAPES, (1, 2)):
        x = (RNG.standard_normal(shape) * 4).astype(og.DataType(dtype).numpy)
        x[-1] *= 30
        for axis in range(len(shape) - 1):
            model = graph("SoftMax", dtype, shape, axis).compile(finite_math=finite_math, threads=threads)
            is_last = np.prod(shape[axis + 1 :]) == 1 != shape[axis]
            assert (OTHER_AXES in str(model.report())) != is_last
            wide = x.astype(np.float64)
            np.testing.assert_allclose(
                model(x).astype(np.float64), expected(wide, axis, "SoftMax"), rtol=0, atol=TOLERANCES[dtype]
            )


@pytest.mark.parametrize("kind", ["SoftMax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_special_numbers_stay_in_their_rows(kind, axis):
    for number in (np.nan, np.inf, -np.inf):
        x = RNG.standard_normal((3, 5, 4)).astype(np.float32)
        x[1, 2, 3] = number
        x[(slice(None),) * axis + (0,)] = -np.inf if number == -np.inf else 1
        result = graph(kind, "f32", x.shape, axis).compile()(x)
        np.testing.assert_allclose(result, expected(x.astype(np.float64), axis, kind), rtol=1e-5, atol=1e-6)


def test_a_row_of_minus_infinity_is_nan_along_each_axis():
    x = np.full((2, 3, 2), -np.inf, np.float32)
    for axis in range(3):
        assert np.isnan(graph("SoftMax", "f32", x.shape, axis).compile()(x)).all()


@pytest.mark.parametrize("zero", [False, True])
def test_rows_that_the_library_computes_wrong_are_computed_again(zero):
    """NaN is larger than every number, so that a row of it and of minus infinity is not 0."""
    x = np.full((6, 3), -np.inf, np.float32)
    x[0, 0], x[1, 2], x[2, 1], x[4] = np.nan, np.nan, np.inf, [1, 2, 3]
    x[5, 0] = 4
    found = np.full_like(x, 7)
    run("guarded", x, found, of="softmax", axis=1, zero=zero, windows=())
    wanted = np.full_like(x, np.nan)
    wanted[4], wanted[5] = 7, [1, 0, 0]  # finite rows stay
    wanted[3] = 0 if zero else np.nan
    np.testing.assert_array_equal(found, wanted)


def test_one_element_along_the_axis_is_one_or_nan():
    x = np.float32([[[1e30, -5, np.inf, np.nan]]])
    for axis in (0, 1):
        assert graph("SoftMax", "f32", x.shape, axis).compile()(x).tolist()[0][0][:2] == [1, 1]
        assert np.isnan(graph("SoftMax", "f32", x.shape, axis).compile()(x)[0, 0, 2:]).all()


@pytest.mark.parametrize("width", [1, 7, 16, 17, 63, 64, 65, 130, 300, 1100])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_rows_of_each_width_are_those_of_float64(dtype, width):
    x = (RNG.standard_normal((35, width)) * 4).astype(og.DataType(dtype).numpy)
    x[3, 0], x[20] = np.nan, -np.inf
    x[5] *= 30  # powers that are no normal numbers
    for kind in ("SoftMax", "LogSoftmax"):
        result = graph(kind, dtype, x.shape, 1).compile(threads=2)(x).astype(np.float64)
        tolerance = 2 * TOLERANCES[dtype] if kind == "LogSoftmax" else 0
        np.testing.assert_allclose(
            result, expected(x.astype(np.float64), 1, kind), rtol=tolerance, atol=TOLERANCES[dtype]
        )


def test_log_softmax_of_a_sure_label_keeps_its_digits():
    x = np.float32([[20, 0, 5], [0, 15, 0], [3, 3, 3]])
    result = graph("LogSoftmax", "f32", x.shape, 1).compile()(x)
    np.testing.assert_allclose(result, expected(x.astype(np.float64), 1, "LogSoftmax"), rtol=3e-7)


def test_logarithms_of_whole_numbers_are_rounded_once():
    """The sum of the powers of equal numbers is how many there are."""
    for width in range(2, 3000, 13):
        found = np.empty((1, width), np.float32)
        run("log_softmax", np.zeros((1, width), np.float32), found, axis=1)
        step = np.spacing(found[0, 0])
        assert (found == found[0, 0]).all()
        assert abs((found[0, 0].astype(np.float64) + np.log(width)) / step) < 0.56, width


@pytest.mark.parametrize("kind", ["softmax", "log_softmax"])
@pytest.mark.parametrize("shape", [(1, 2**20), (2**14, 2)], ids=str)
def test_sums_of_many_powers_keep_their_digits(kind, shape):
    """Sums of f32 would lose a digit for each ten elements."""
    axis = int(np.argmax(shape))
    x, found = np.full(shape, -0.3, np.float32), np.empty(shape, np.float32)
    x[0, 0], x[-1, -1] = 0, -0.7
    run(kind, x, found, axis=axis)
    wanted = expected(x.astype(np.float64), axis, "SoftMax" if kind == "softmax" else "LogSoftmax")
    np.testing.assert_allclose(found, wanted, rtol=3e-7)


def test_long_rows_are_by_the_kernel_unless_the_library_reads_their_result():
    assert IN_LESS_TIME in str(graph("SoftMax", "f32", (64, 100), -1).compile().report())
    for shape in ((64, 90), (20, 100)):
        assert IN_LESS_TIME not in str(graph("SoftMax", "f32", shape, -1).compile().report())
    g = og.Graph()
    shares = g.op("SoftMax", [g.input("x", "f32", (2, 64, 100))], {"axis": -1})
    g.output("y", g.op("MatMul", [shares, g.input("w", "f32", (2, 100, 8))]))
    assert IN_LESS_TIME not in str(g.compile().report())


def test_the_library_keeps_the_last_axis_and_other_modes():
    assert OTHER_AXES not in str(graph("SoftMax", "f32", (3, 8), -1).compile().report())
    g = og.Graph()
    g.output("y", g.op("SoftMax", [g.input("x", "f32", (3, 4, 5))], {"axis": 1, "mode": "inf_as_zero"}))
    x = np.full((3, 4, 5), -np.inf, np.float32)
    model = g.compile()
    assert OTHER_AXES not in str(model.report())
    assert not model(x).any()
