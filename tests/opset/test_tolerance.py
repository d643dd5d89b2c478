"""How far results may be off: comparison with the reference, and the noise of rounding."""

import ml_dtypes
import numpy as np
import pytest
from conftest import draws

import onegraph as og
from onegraph.testing.random_inputs import random_inputs
from onegraph.testing.tolerance import compare, disturbed, inexact


def compared(got, expected, near=None, dtype=None, rounded=False):
    got, expected = np.asarray(got), np.asarray(expected)
    dtype = og.DataType.of(got.dtype) if dtype is None else dtype
    return compare("t", got, expected, expected if near is None else np.asarray(near), dtype, rounded=rounded)


NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("got", "expected", "near", "agrees"),
    [
        ([1.0, 2.0], [1.0, 2.0], None, True),
        ([1.0, 2.00003], [1.0, 2.0], None, True),
        ([1.0, 2.0001], [1.0, 2.0], None, False),
        ([1.0, 2.0001], [1.0, 2.0], [1.0, 2.00005], True),
        ([NAN, 2.0], [NAN, 2.0], None, True),
        ([NAN, 2.0], [1.0, 2.0], None, False),
        ([1.0, 2.0], [NAN, 2.0], None, False),
        ([1.0, 2.0], [NAN, 2.0], [1.0, 2.0], True),
        ([INF, 2.0], [INF, 2.0], None, True),
        ([-INF, 2.0], [INF, 2.0], None, False),
        ([3e38, 2.0], [INF, 2.0], None, False),
        ([], [], None, True),
    ],
)
def test_comparison_of_floats(got, expected, near, agrees):
    as_floats = [None if values is None else np.float32(values) for values in (got, expected, near)]
    assert compared(*as_floats).agrees is agrees


def test_finds_a_bias_below_the_greatest_noise():
    expected = np.zeros(1000, np.float32)
    near = expected.copy()
    near[0] = 1  # one element is noisy
    assert compared(near, expected, near).agrees
    assert not compared(expected + np.float32(0.9), expected, near).agrees


@pytest.mark.parametrize(("got", "rounded", "agrees"), [(6, False, False), (6, True, True), (7, True, False)])
def test_comparison_of_integers(got, rounded, agrees):
    found = compared(np.int8([got, 3]), np.int8([5, 3]), rounded=rounded)
    assert found.agrees is agrees
    assert (found.where, found.got, found.expected) == ((0,), got, 5)


def test_floats_may_be_near_whole_numbers():
    assert compared(np.float32([1.0001, 200]), np.int64([1, 200])).agrees


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_disturbance_is_about_one_rounding(dtype):
    rng = np.random.default_rng(0)
    values = rng.normal(0, 1, 10_000).astype(dtype)
    error = disturbed(values, og.DataType.of(dtype), rng, rounded=False).astype(np.float64) - values.astype(np.float64)
    epsilon = float(ml_dtypes.finfo(dtype).eps)
    assert 0.05 * epsilon < np.abs(error).mean() < 8 * epsilon
    assert abs(error.mean()) < 0.1 * np.abs(error).mean()


def test_disturbance_grows_with_the_terms():
    rng, values = np.random.default_rng(0), np.full(10_000, 2, np.float32)
    errors = {n: np.abs(disturbed(values, og.f32, rng, rounded=False, terms=n) - values) for n in (1, 256, 4096)}
    assert errors[1].min() > 0.3 * errors[1].max()
    assert 0.9 < errors[256].mean() / errors[1].mean() < 1.1
    assert 3.6 < errors[4096].mean() / errors[1].mean() < 4.4
    assert disturbed(values[:1], og.f32, rng, rounded=False) != 2


@pytest.mark.library
@pytest.mark.parametrize("seed", range(draws(1, 3)))
def test_allows_errors_of_long_sums_behind_clamp(seed):
    g = og.Graph()
    product = g.matmul(g.input("a", og.f32, (96, 4096)), g.input("b", og.f32, (4096, 256)))
    g.output("y", g.clamp(product, min=-1, max=1))
    from onegraph.tools.verify import verify

    assert verify(g, random_inputs(g, seed)).agrees


@pytest.mark.library
@pytest.mark.parametrize(
    ("op", "attrs", "low", "high"),
    [
        ("gelu", {"mode": "gelu_erf"}, -5.5, -4),
        ("mish", {}, -16, -12),
        ("softplus", {"beta": 1.0}, -12, -8),
        ("softplus", {"beta": 0.25}, -48, -36),
        ("log", {}, 0.99999, 1.00001),
    ],
)
def test_allows_errors_of_functions_near_zero(op, attrs, low, high):
    """Every element is tiny, so no element sets the scale for the others."""
    g = og.Graph()
    g.output("y", g.abs(getattr(g, op)(g.input("x", og.f32, (64,)), **attrs)))
    x = np.linspace(low, high, 64, dtype=np.float32)
    from onegraph.tools.verify import verify

    found = verify(g, {"x": x})
    assert found.agrees
    assert found.outputs[0].limit < 1e-4


def test_errors_of_functions_are_millionths():
    exact = np.zeros(10_000, np.float32)
    error = np.abs(inexact(exact, 1.0, np.random.default_rng(0)))
    assert 5e-7 < error.min() < error.max() < 2e-6
    assert inexact(exact, 4.0, np.random.default_rng(0)).max() > 2 * error.max()


def test_squares_of_large_numbers_hide_no_errors():
    values = np.array([1e30, -2e30, 3e25, 1], np.float32)
    near = disturbed(values, og.f32, np.random.default_rng(0), rounded=False)
    np.testing.assert_allclose(near[:2], values[:2], rtol=1e-5)
    assert compare("x", values, values, near, og.f32, rounded=False).agrees
    assert not compare("x", 2 * values, values, near, og.f32, rounded=False).agrees


def test_subnormal_numbers_may_become_zero():
    assert compared(np.float32([0, 1e-39]), np.float32([1e-39, 0])).agrees
    assert not compared(np.float32([0, 1e-36]), np.float32([1e-36, 0])).agrees


def test_disturbance_of_integers_stays_within_the_type():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 256, 10_000).astype(np.uint8)
    moved = disturbed(values, og.u8, rng, rounded=True).astype(int) - values
    assert set(np.unique(moved)) == {-1, 0, 1}
    assert 0.02 < np.abs(moved).mean() < 0.05
    assert disturbed(values, og.u8, rng, rounded=False) is values
