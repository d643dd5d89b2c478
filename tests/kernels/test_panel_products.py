"""Products of any number of rows and constant f32 weights, which lie in panels of columns."""

import numpy as np
import pytest

import onegraph as og
from onegraph.compiler.kernels.panel_product import FOR_SIZES, PANEL
from onegraph.compiler.packed_weights import panels_of
from tests.helpers.kernels import run

TESTED_KERNELS = ("panel_product",)
# No multiple of a panel or a vector; a depth whose rows are copied; less than a panel.
SIZES = [(333, 37), (512, 100), (40, 5), (1, 64)]


def drawn(*shape):
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def product(src, weights, bias=None, *, level=4, threads=1, is_turned=False):
    """The product by the kernel."""
    panels = panels_of(np.ascontiguousarray(weights.T) if is_turned else weights, is_turned)
    out = np.full((*src.shape[:-1], weights.shape[1]), np.nan, np.float32)
    ends = [src, panels, *([] if bias is None else [bias])]
    run("panel_product", *ends, out, threads=threads, bias=bias is not None, level=level)
    return out


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(("depth", "columns"), SIZES, ids=str)
def test_few_and_many_rows(depth, columns, level):
    weights, bias = drawn(depth, columns), drawn(columns)
    for rows in (*range(1, 17), 29, 130, 510):
        src = drawn(rows, depth)
        exact = src.astype(np.float64) @ weights
        for addend in (None, bias):
            found = product(src, weights, addend, level=level)
            np.testing.assert_allclose(found, exact if addend is None else exact + bias, atol=2e-6 * (depth + 10))


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_row_has_the_same_bits_beside_any_others(level):
    weights, src = drawn(512, 70), drawn(33, 512)
    whole = product(src, weights, level=level)
    for rows in (1, 2, 3, 7, 15):
        np.testing.assert_array_equal(product(src[:rows], weights, level=level), whole[:rows])


@pytest.mark.parametrize("columns", [20, 96, 520])
def test_any_number_of_threads_gives_the_same_bits(columns):
    weights, src = drawn(512, columns), drawn(70, 512)
    whole = product(src, weights)
    for threads in (2, 3, 4):
        np.testing.assert_array_equal(product(src, weights, threads=threads), whole)


@pytest.mark.parametrize("columns", [31, 32, 64, 70])
def test_each_matrix_of_rows_meets_its_own_panels(columns):
    weights, bias = drawn(3, 40, columns), drawn(columns)
    panels = np.concatenate([panels_of(each, False) for each in weights])
    for rows, threads in ((1, 1), (5, 1), (140, 3), (140, 4)):
        src, found = drawn(3, rows, 40), np.full((3, rows, columns), np.nan, np.float32)
        run("panel_product", src, panels, bias, found, threads=threads, bias=True, level=4)
        np.testing.assert_allclose(found, src.astype(np.float64) @ weights + bias, atol=1e-4)


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("columns", [1, 31, 32, 70])
def test_panels_have_all_columns(columns, is_turned):
    weights = drawn(9, columns)
    found = panels_of(np.ascontiguousarray(weights.T) if is_turned else weights, is_turned)
    flat = found.transpose(1, 0, 2).reshape(9, -1)
    np.testing.assert_array_equal(flat[:, :columns], weights)
    assert found.shape[2] == PANEL
    assert not flat[:, columns:].any()


def test_special_numbers_reach_their_rows_alone():
    weights, src = drawn(40, 50), drawn(20, 40)
    src[3, 1], src[9, 2], weights[5, 7] = np.nan, np.inf, np.inf
    with np.errstate(all="ignore"):
        exact = src.astype(np.float64) @ weights
    found = product(src, weights)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(exact))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))


@pytest.mark.library
@pytest.mark.parametrize("is_turned", [False, True])
def test_open_rows_meet_weights_in_panels(is_turned):
    weights, bias = drawn(24, 40), drawn(40)
    g = og.Graph()
    x = g.input("x", "f32", (None, 24))
    y = g.matmul(x, g.constant(np.ascontiguousarray(weights.T) if is_turned else weights), transpose_b=is_turned)
    g.output("y", g.add(y, g.constant(bias)))
    model = g.compile()
    for rows in (3, 17, 30, 41):
        src = drawn(rows, 24)
        np.testing.assert_allclose(model(src), src.astype(np.float64) @ weights + bias, atol=1e-4)
    assert FOR_SIZES in str(model.report())
    assert model.cache_info().reused >= 1
