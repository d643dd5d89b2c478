"""RMSNorm in one pass by the package's kernel, against float64."""

import ml_dtypes
import numpy as np
import pytest
from helpers.grouped import grouped

import onegraph as og
from onegraph.compiler.rewrites.norms import WIDEST_ROW
from onegraph.native.library import VERSION

TESTED_KERNELS = ("rms_norm",)


pytestmark = pytest.mark.skipif(VERSION >= (3, 11), reason="the library has RMSNorm since 3.11")
RNG = np.random.default_rng(0)
NUMPY = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
LIMITS = {"f32": 3e-7, "bf16": 4e-3, "f16": 6e-4}


def normalized(src, gamma, axis, epsilon):
    wide = src.astype(np.float64)
    axes = tuple(range(axis % src.ndim, src.ndim))
    root = np.sqrt(np.square(wide).mean(axes, keepdims=True) + epsilon)
    return wide / root * (1 if gamma is None else gamma.astype(np.float64))


def compiled(dtype, shape, axis, gamma=None, epsilon=1e-3, **options):
    g = og.Graph()
    ends = [g.input("x", dtype, shape)]
    if gamma is not None:
        ends.append(g.input("gamma", *gamma))
    g.output("y", g.op("RMSNorm", ends, {"begin_norm_axis": axis, "epsilon": epsilon}))
    return g.compile(**options)


def executors(model):
    return [part.executor for part in model.report().partitions]


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("gamma", [None, "f32", "own"])
@grouped(
    "shape, axis",
    [((1, 768), -1), ((2, 3, 4, 5), 2), ((7, 1), -1), ((3, 17), 1), ((300, 100), -1), ((5, 64), 0), ((2, 130), -1)],
    key=lambda _: "shapes",
)
def test_agrees_with_float64(shape, axis, gamma, dtype):
    src = (RNG.standard_normal(shape) * 3).astype(NUMPY[dtype])
    kind = dtype if gamma == "own" else gamma
    factors = None if gamma is None else RNG.standard_normal(shape[axis % len(shape) :]).astype(NUMPY[kind])
    model = compiled(dtype, shape, axis, None if gamma is None else (kind, factors.shape))
    assert executors(model) == ["kernel"]
    found = model(x=src) if factors is None else model(x=src, gamma=factors)
    wanted = normalized(src, factors, axis, 1e-3)
    assert found.dtype == NUMPY[dtype]
    assert np.abs(found.astype(np.float64) - wanted).max() <= LIMITS[dtype] * np.abs(wanted).max()


def test_numbers_by_hand():
    model = compiled("f32", (2, 2), -1, epsilon=1.0)
    # The roots of (9 + 16) / 2 + 1 and of 0 + 1.
    np.testing.assert_allclose(
        model(x=np.array([[3, -4], [0, 0]], np.float32)), [[3 / 13.5**0.5, -4 / 13.5**0.5], [0, 0]]
    )


def test_not_numbers_and_infinities_stay_in_their_rows():
    src = RNG.standard_normal((4, 40)).astype(np.float32)
    src[1, 3], src[2, 5] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        wanted = normalized(src, None, -1, 1e-3)
    np.testing.assert_allclose(compiled("f32", src.shape, -1)(x=src), wanted, rtol=1e-5, atol=1e-6)
    assert np.isnan(wanted[1]).all()
    assert np.isnan(wanted[2]).sum() == 1


def test_tensors_with_strides_are_copied():
    src = RNG.standard_normal((40, 6)).astype(np.float32).T
    g = og.Graph()
    g.output("y", g.op("RMSNorm", [g.input("x", "f32", (6, 40), strides=(1, 6))], {}), strides=(80, 1))
    np.testing.assert_allclose(g.compile()(x=src), normalized(src, None, -1, 1e-5), rtol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_the_same_for_any_number_of_threads_and_rows(threads):
    src = RNG.standard_normal((512, 96)).astype(np.float32)
    one = compiled("f32", (1, 96), -1)
    found = compiled("f32", src.shape, -1, threads=threads)(x=src)
    np.testing.assert_array_equal(found, np.concatenate([one(x=row[None]) for row in src]))


@pytest.mark.parametrize("case", ["a broadcast gamma", "a very long row"])
def test_others_are_made_of_other_ops(case):
    shape = (2, 4, 5) if case == "a broadcast gamma" else (2, WIDEST_ROW + 1)
    gamma = ("f32", (5,)) if len(shape) == 3 else None
    model = compiled("f32", shape, 1, gamma)
    src, factors = RNG.standard_normal(shape).astype(np.float32), RNG.standard_normal(5).astype(np.float32)
    found = model(x=src, gamma=factors) if gamma else model(x=src)
    np.testing.assert_allclose(found, normalized(src, factors if gamma else None, 1, 1e-3), rtol=1e-3, atol=1e-5)
    assert "kernel" not in executors(model)


@pytest.mark.parametrize(("shape", "gamma"), [((3, 0), None), ((0, 5), (5,)), ((0, 4), (1,))], ids=str)
def test_empty_tensors(shape, gamma):
    model = compiled("f32", shape, 1, None if gamma is None else ("f32", gamma))
    given = {"x": np.zeros(shape, np.float32)} | ({} if gamma is None else {"gamma": np.ones(gamma, np.float32)})
    assert model(**given).shape == shape
