"""Binary ops of two operands that are both broadcast, for which the library has a reference kernel only."""

import ml_dtypes
import numpy as np
import pytest

import onegraph as og
from onegraph.compiler.kernels.kernel import SPREADS
from onegraph.compiler.kernels.registry import kernels

TESTED_KERNELS = ("spread_add", "spread_divide", "spread_multiply", "spread_squared_difference", "spread_subtract")
FUNCTIONS = {
    "add": np.add,
    "divide": np.divide,
    "multiply": np.multiply,
    "squared_difference": lambda a, b: (a - b) ** 2,
    "subtract": np.subtract,
}
SHAPES = [
    ((40, 1), (1, 9)),
    ((2, 1, 33), (17, 1)),
    ((1, 3, 1, 16), (5, 1, 8, 1)),
    ((70, 1, 5), (1, 4, 1)),
    ((300, 1), (4,)),
]
DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def model(op, shapes, dtype="f32", **options):
    g = og.Graph()
    ends = [g.input(name, dtype, shape) for name, shape in zip("ab", shapes, strict=True)]
    g.output("y", getattr(g, op)(*ends))
    return g.compile(**options)


def drawn(shapes, dtype):
    rng = np.random.default_rng(len(shapes[0]))
    return [(rng.standard_normal(shape) + np.sign(rng.standard_normal(shape)) * 0.2).astype(dtype) for shape in shapes]


def test_every_kernel_of_this_reason_has_a_case():
    assert {kernel.name for kernel in kernels() if kernel.reason == SPREADS} == {*TESTED_KERNELS}
    assert {*TESTED_KERNELS} == {f"spread_{op}" for op in FUNCTIONS}


@pytest.mark.parametrize("options", [{}, {"threads": 1}, {"finite_math": True}], ids=str)
@pytest.mark.parametrize("op", FUNCTIONS)
def test_both_operands_are_broadcast(op, options):
    for shapes in SHAPES:
        a, b = drawn(shapes, np.float32)
        compiled = model(op, shapes, **options)
        exact = FUNCTIONS[op](a.astype(float), b.astype(float))
        np.testing.assert_allclose(compiled(a, b), exact, rtol=1e-6, atol=1e-7)
        assert SPREADS in str(compiled.report())


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_results_of_16_bits_are_rounded_once(op, dtype):
    a, b = drawn(SHAPES[1], DTYPES[dtype])
    exact = FUNCTIONS[op](a.astype(np.float32), b.astype(np.float32)).astype(DTYPES[dtype])
    np.testing.assert_array_equal(model(op, SHAPES[1], dtype)(a, b).astype(np.float32), exact.astype(np.float32))


@pytest.mark.parametrize("op", FUNCTIONS)
def test_special_numbers_stay_at_their_places(op):
    a, b = drawn(SHAPES[0], np.float32)
    a[3], a[7], b[0, 2], b[0, 5] = np.nan, np.inf, -np.inf, 0
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(model(op, SHAPES[0])(a, b), FUNCTIONS[op](a, b), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shapes", [((40, 9), (1, 9)), ((40, 1), (40, 9)), ((4, 1), (1, 9))], ids=str)
def test_other_operands_are_those_of_the_library(shapes):
    compiled, (a, b) = model("multiply", shapes), drawn(shapes, np.float32)
    assert SPREADS not in str(compiled.report())
    np.testing.assert_array_equal(compiled(a, b), a * b)
