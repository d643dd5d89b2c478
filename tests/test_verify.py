"""Results held against the reference, with the tolerance that rounding needs."""

import ml_dtypes
import numpy as np
import pytest
from helpers.graphs import network

import onegraph as og
from onegraph.testing.random_inputs import random_inputs
from onegraph.testing.tolerance import compare, disturbed, inexact
from onegraph.tools import verify as module
from onegraph.tools.bench import Variant, bench
from onegraph.tools.verify import beginning, verify


def int8_network():
    g = og.Graph()
    x = g.dequantize(g.input("x", og.u8, (8, 64)), scales=[0.1], zps=[3], name="dequantize_x")
    w = g.dequantize(g.input("w", og.s8, (64, 32)), scales=[0.05], zps=[0], name="dequantize_w")
    product = g.matmul(x, w, dtype=og.f32, name="matmul")
    g.output("y", g.quantize(g.relu(product), dtype=og.u8, scales=[0.7], zps=[5]))
    return g


@pytest.mark.parametrize("fpmath_mode", [None, "strict", "bf16"])
@pytest.mark.parametrize("policy", ["fusion", "debug"])
@pytest.mark.parametrize("make", [network, lambda: network(og.bf16), int8_network])
def test_right_results_agree(make, policy, fpmath_mode):
    g = make()
    found = verify(g, random_inputs(g), policy=policy, fpmath_mode=fpmath_mode)
    assert found.agrees
    assert found.first is None
    assert found.report.policy == policy
    assert list(found.results) == ["y"]


def wrong_reference(monkeypatch, wrong):
    """Let the reference of one op be off; then the library differs from there on."""
    run_op = module.run_op

    def run(op, inputs):
        results = run_op(op, inputs)
        return tuple(wrong(value.copy()) for value in results) if op.name == wrong.op else results

    monkeypatch.setattr(module, "run_op", run)


class Off:
    def __init__(self, op, by, index=()):
        self.op, self.by, self.index = op, by, index

    def __call__(self, values):
        values[self.index or ...] += values.dtype.type(self.by)
        return values


@pytest.mark.parametrize("op", ["conv_0", "relu_0", "sigmoid_0", "conv_1", "relu_1", "sigmoid_1", "conv_2", "relu_2"])
def test_bisection_names_the_op_that_is_wrong(monkeypatch, op):
    g = network()
    wrong_reference(monkeypatch, Off(op, 0.5))
    found = verify(g, random_inputs(g))
    assert not found.agrees
    assert found.first.op.endswith(f" {op!r}")
    assert found.first.comparison.max_error >= 0.4
    assert found.first.executor == "oneDNN"
    assert found.first.op in found.first.partition
    assert found.first.alone is False  # wrong without fusion too: here the reference is


def test_a_single_wrong_element_is_found_and_shown(monkeypatch):
    g = network()
    wrong_reference(monkeypatch, Off("sigmoid_2", 0.01, (1, 2, 3, 0)))
    found = verify(g, random_inputs(g))
    one = found.first.comparison
    assert (one.where, one.wrong) == ((1, 2, 3, 0), 1)
    assert one.expected - one.got == pytest.approx(0.01, abs=1e-4)


def test_int8_may_be_off_by_one_and_not_by_five(monkeypatch):
    g = int8_network()
    name = g.ops[-1].name
    got, expected = g.compile()(**random_inputs(g)), og.reference.run(g, random_inputs(g))["y"]
    alike = np.nonzero((got == expected) & (expected < 255))
    assert len(alike[0]) > 200
    wrong_reference(monkeypatch, Off(name, 1, alike))
    assert verify(g, random_inputs(g)).agrees
    wrong_reference(monkeypatch, Off(name, 5))
    assert not verify(g, random_inputs(g)).agrees


def test_integers_that_nothing_rounds_are_exact(monkeypatch):
    g = og.Graph()
    x = g.input("x", og.f32, (3, 4))
    g.output("y", g.greater_equal(x, g.input("z", og.f32, (3, 4)), name="compare"))
    g.output("n", g.gen_index(x, axis=1, name="index"))
    assert verify(g, random_inputs(g)).agrees
    lower = {"x": np.full((3, 4), -1, np.float32), "z": np.ones((3, 4), np.float32)}
    wrong_reference(monkeypatch, Off("compare", True, (0, 0)))
    assert not verify(g, lower).outputs[0].agrees
    monkeypatch.undo()
    wrong_reference(monkeypatch, Off("index", 1))
    found = verify(g, random_inputs(g))
    assert not found.outputs[1].agrees
    assert found.first.op == "GenIndex 'index'"


def test_progress_is_told():
    g, told = network(), []
    verify(g, random_inputs(g), progress=lambda *state: told.append(state))
    assert told[0] == ("reference", 0, 9)
    assert told[-1] == ("reference", 9, 9)


def test_beginnings_have_the_outputs_that_the_rest_reads():
    g = network()
    part = beginning(g, 4)
    assert [op.name for op in part.ops] == ["conv_0", "relu_0", "sigmoid_0", "conv_1"]
    assert list(part.outputs) == ["conv_1.dst"]
    assert list(beginning(g, 9).outputs) == ["y"]
    assert len(g.ops) == 9


# Tolerance ------------------------------------------------------------------------------------------------------------


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


def test_a_bias_that_hides_below_the_greatest_noise_is_found():
    expected = np.zeros(1000, np.float32)
    near = expected.copy()
    near[0] = 1  # one element on an edge
    assert compared(near, expected, near).agrees
    assert not compared(expected + np.float32(0.9), expected, near).agrees


@pytest.mark.parametrize(("got", "rounded", "agrees"), [(6, False, False), (6, True, True), (7, True, False)])
def test_comparison_wide_integers(got, rounded, agrees):
    found = compared(np.int8([got, 3]), np.int8([5, 3]), rounded=rounded)
    assert found.agrees is agrees
    assert (found.where, found.got, found.expected) == ((0,), got, 5)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_disturbance_is_about_one_rounding(dtype):
    rng = np.random.default_rng(0)
    values = rng.normal(0, 1, 10_000).astype(dtype)
    error = disturbed(values, og.DataType.of(dtype), rng, rounded=False).astype(np.float64) - values.astype(np.float64)
    epsilon = float(ml_dtypes.finfo(dtype).eps)
    assert 0.05 * epsilon < np.abs(error).mean() < 8 * epsilon
    assert abs(error.mean()) < 0.1 * np.abs(error).mean()


def test_no_disturbance_is_next_to_nothing_and_those_of_long_sums_are_larger():
    rng, values = np.random.default_rng(0), np.full(10_000, 2, np.float32)
    errors = {n: np.abs(disturbed(values, og.f32, rng, rounded=False, terms=n) - values) for n in (1, 256, 4096)}
    assert errors[1].min() > 0.3 * errors[1].max()
    assert 0.9 < errors[256].mean() / errors[1].mean() < 1.1
    assert 3.6 < errors[4096].mean() / errors[1].mean() < 4.4
    assert disturbed(values[:1], og.f32, rng, rounded=False) != 2


@pytest.mark.parametrize("seed", range(3))
def test_errors_of_long_sums_are_allowed_behind_a_clamp(seed):
    g = og.Graph()
    product = g.matmul(g.input("a", og.f32, (96, 4096)), g.input("b", og.f32, (4096, 256)))
    g.output("y", g.clamp(product, min=-1, max=1))
    assert verify(g, random_inputs(g, seed)).agrees


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
def test_errors_of_functions_next_to_nothing_are_allowed(op, attrs, low, high):
    """Every element is in a tail, so that none of them says how small the others are."""
    g = og.Graph()
    g.output("y", g.abs(getattr(g, op)(g.input("x", og.f32, (64,)), **attrs)))
    x = np.linspace(low, high, 64, dtype=np.float32)
    found = verify(g, {"x": x})
    assert found.agrees
    assert found.outputs[0].limit < 1e-4


def test_errors_of_functions_are_millionths():
    exact = np.zeros(10_000, np.float32)
    error = np.abs(inexact(exact, 1.0, np.random.default_rng(0)))
    assert 5e-7 < error.min() < error.max() < 2e-6
    assert inexact(exact, 4.0, np.random.default_rng(0)).max() > 2 * error.max()


def test_the_squares_of_large_numbers_do_not_hide_errors():
    values = np.array([1e30, -2e30, 3e25, 1], np.float32)
    near = disturbed(values, og.f32, np.random.default_rng(0), rounded=False)
    np.testing.assert_allclose(near[:2], values[:2], rtol=1e-5)
    assert compare("x", values, values, near, og.f32, rounded=False).agrees
    assert not compare("x", 2 * values, values, near, og.f32, rounded=False).agrees


def test_a_number_too_small_for_its_type_may_be_nothing():
    assert compared(np.float32([0, 1e-39]), np.float32([1e-39, 0])).agrees
    assert not compared(np.float32([0, 1e-36]), np.float32([1e-36, 0])).agrees


def test_disturbance_wide_integers_stays_within_the_type():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 256, 10_000).astype(np.uint8)
    moved = disturbed(values, og.u8, rng, rounded=True).astype(int) - values
    assert set(np.unique(moved)) == {-1, 0, 1}
    assert 0.02 < np.abs(moved).mean() < 0.05
    assert disturbed(values, og.u8, rng, rounded=False) is values


@pytest.mark.parametrize("measure", [verify, lambda g, inputs: bench(g, inputs, [Variant()], seconds=0.0)])
def test_inputs_that_there_are_not(measure):
    g = network(depth=1)
    with pytest.raises(og.ArgumentError, match="'w9' is no input; the inputs are x, w0"):
        measure(g, {**random_inputs(g), "w9": np.zeros(1, np.float32)})


def test_the_order_of_arrays_means_nothing():
    g = network(depth=1)
    inputs = random_inputs(g)
    assert verify(g, dict(reversed(inputs.items()))).agrees
