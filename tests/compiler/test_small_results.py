"""Results near 0 have as many right digits as others; the library's logarithm has an absolute error."""

import numpy as np
import pytest

import onegraph as og
from onegraph.compiler.kernels.elementwise import KERNELS
from onegraph.compiler.kernels.kernel import DIGITS

pytestmark = pytest.mark.library
TESTED_KERNELS = ("elu", "log", "log_softmax", "mish", "softplus")
ROUNDINGS = {"f32": 2.0**-22, "f16": 2.0**-10, "bf16": 2.0**-8}
LEAST = {"f32": 2.0**-125, "f16": 2.0**-14, "bf16": 2.0**-125}  # below it, numbers have fewer digits
NUMBERS = np.concatenate([np.geomspace(1e-30, 80, 700), 1 + np.linspace(-1e-3, 1e-3, 301), [88.5, 1e-39, 3e38, np.inf]])


def softplus(x, beta):
    return (np.maximum(beta * x, 0) + np.log1p(np.exp(-np.abs(beta * x)))) / beta


def mish(x):
    e = np.exp(np.minimum(x, 300))
    return x * np.where(x > 300, 1, e * (e + 2) / (e * (e + 2) + 2))


# Each op with its attributes, its definition in float64, and the numbers that it takes.
OPS = {
    "Log": ({}, np.log, NUMBERS),
    "SoftPlus": ({"beta": 2.0}, lambda x: softplus(x, 2.0), np.concatenate([NUMBERS, -NUMBERS])),
    "Mish": ({}, mish, np.concatenate([NUMBERS, -NUMBERS[:-1]])),
    "Elu": ({"alpha": 0.5}, lambda x: np.where(x > 0, x, 0.5 * np.expm1(np.minimum(x, 0))), -NUMBERS),
}


def test_every_op_of_this_kind_has_a_case():
    assert {kind for kernel in KERNELS for kind in kernel.kinds if kernel.reason is DIGITS} == OPS.keys()


def expect_digits(found, wanted, dtype):
    kept = np.isfinite(wanted) & (np.abs(wanted) >= LEAST[dtype])
    np.testing.assert_allclose(found[kept].astype(np.float64), wanted[kept], rtol=ROUNDINGS[dtype], atol=0)
    np.testing.assert_array_equal(found[~np.isfinite(wanted)].astype(np.float64), wanted[~np.isfinite(wanted)])


@pytest.mark.parametrize("dtype", ROUNDINGS)
@pytest.mark.parametrize("kind", OPS)
def test_elementwise_results_near_zero_have_right_digits(kind, dtype):
    attrs, define, numbers = OPS[kind]
    g = og.Graph()
    x = g.input("x", dtype, numbers.shape)
    g.output("y", g.op(kind, [x], attrs))
    with np.errstate(all="ignore"):
        given = numbers.astype(np.float32).astype(x.dtype.numpy)
        wanted = define(given.astype(np.float64))
    expect_digits(g.compile()(given), wanted, dtype)


def log_softmax(x, axis):
    top = x.max(axis, keepdims=True)
    return x - top - np.log(np.exp(x - top).sum(axis, keepdims=True))


@pytest.mark.parametrize("dtype", ROUNDINGS)
@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 5), 1), ((4, 1100), -1), ((2, 7, 70), 1), ((90, 3, 2), 0), ((1, 1), 0)]
)
def test_log_softmax_of_a_likely_class_has_right_digits(shape, axis, dtype):
    """Of the most likely class, the logarithm of the probability is near 0; rows of NaN and infinities keep them."""
    rng = np.random.default_rng(0)
    g = og.Graph()
    x = g.input("x", dtype, shape)
    g.output("y", g.op("LogSoftmax", [x], {"axis": axis}))
    given = rng.standard_normal(shape).astype(np.float32)
    lines = np.moveaxis(given, axis, 0)
    lines[0] += 11
    lines[-1].flat[::3], lines[0].flat[1::3] = -np.inf, [np.nan, np.inf][len(shape) % 2]
    given = given.astype(x.dtype.numpy)
    with np.errstate(all="ignore"):
        wanted = log_softmax(given.astype(np.float64), axis)
    found = g.compile()(given).astype(np.float64)
    kept = np.isfinite(wanted)
    np.testing.assert_array_equal(found[~kept], wanted[~kept])
    np.testing.assert_allclose(found[kept], wanted[kept], rtol=ROUNDINGS[dtype], atol=2.0**-21)
