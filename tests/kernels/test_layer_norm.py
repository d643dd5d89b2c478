"""LayerNorm of rows in one pass by the package's kernel, against float64."""

import ml_dtypes
import numpy as np
import pytest

import onegraph as og
from onegraph.capi.settings import is_native
from onegraph.compiler.kernels.kernel import COMPILED_ANEW
from onegraph.compiler.kernels.native import compiled, packed
from tests.helpers.kernels import run, run_compiled, values_of

TESTED_KERNELS = ("layer_norm",)
LIMITS = {np.float32: 2e-6, ml_dtypes.bfloat16: 8e-3, np.float16: 1e-3}


def drawn(*shape, dtype=np.float32):
    return (np.random.default_rng(shape).standard_normal(shape) * 3 + 1).astype(dtype)


def exact(src, gamma=None, beta=None, epsilon=1e-3):
    wide = src.astype(np.float64)
    wide = wide - wide.mean(-1, keepdims=True)
    wide = wide / np.sqrt(np.square(wide).mean(-1, keepdims=True) + epsilon)
    wide = wide if gamma is None else wide * gamma.astype(np.float64)
    return wide if beta is None else wide + beta.astype(np.float64)


def test_mean_and_variance():
    src = drawn(6, 40)
    arrays = [src, np.empty_like(src), np.full(6, np.nan, np.float32), np.full(6, np.nan, np.float32)]
    values = values_of(arrays)
    code = packed("layer_norm", {"width": 40, "epsilon": 1e-3})
    run_compiled(compiled("layer_norm", values[:1], values[1:], code), *arrays)
    np.testing.assert_allclose(arrays[1], exact(src), atol=2e-6)
    np.testing.assert_allclose(arrays[2], src.astype(np.float64).mean(-1), atol=1e-6)
    np.testing.assert_allclose(arrays[3], src.astype(np.float64).var(-1), rtol=1e-6)


def normalized(src, *vectors, level=4, threads=1):
    out = np.empty_like(src)
    run("layer_norm", src, *vectors, out, threads=threads, width=src.shape[-1], epsilon=1e-3, level=level)
    return out


@pytest.mark.parametrize("dtype", LIMITS, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("level", [0, 1, 2])
def test_agrees_with_float64(level, dtype):
    for width in (1, 15, 17, 64, 100, 768):
        src, vectors = drawn(5, width, dtype=dtype), (drawn(width), drawn(width + 1, dtype=dtype)[1:])
        for given in ((), vectors[:1], vectors):
            found, wanted = normalized(src, *given, level=level).astype(np.float64), exact(src, *given)
            assert np.abs(found - wanted).max() <= LIMITS[dtype] * max(np.abs(wanted).max(), 1), (width, len(given))


def test_rows_keep_their_bits_and_their_special_numbers():
    src, gamma, beta = drawn(400, 64), drawn(64), drawn(65)[1:]
    whole = normalized(src, gamma, beta)
    np.testing.assert_array_equal(normalized(src, gamma, beta, threads=3), whole)
    np.testing.assert_array_equal(normalized(src[7:9], gamma, beta), whole[7:9])
    src[3, 5], src[6, 1] = np.nan, np.inf
    found = normalized(src, gamma, beta)
    assert np.isnan(found[[3, 6]]).all()
    others = np.delete(np.arange(400), [3, 6])
    np.testing.assert_array_equal(found[others], whole[others])


@pytest.mark.library
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("has_vectors", [False, True])
def test_norms_of_open_sizes_take_the_kernel(has_vectors, keeps, dtype):
    g = og.Graph()
    x = g.input("x", dtype, (None, None, 24))
    vectors = [g.constant(drawn(24)), g.constant(drawn(25)[1:])] if has_vectors else []
    attrs = {"keep_stats": keeps, "use_affine": has_vectors, "epsilon": 1e-3}
    ends = g.op("LayerNorm", [x, *vectors], attrs)
    g.output("y", ends[0] if keeps else ends)
    if keeps:
        g.output("mean", ends[1])
    model = g.compile()
    for size in (3, 7, 12):
        src = drawn(size, size + 2, 24, dtype=np.float32 if dtype == "f32" else ml_dtypes.bfloat16)
        wanted = exact(src, *((drawn(24), drawn(25)[1:]) if has_vectors else ()))
        found = model(src)
        limit = 2e-5 if dtype == "f32" else 0.05
        np.testing.assert_allclose((found[0] if keeps else found).astype(np.float64), wanted, atol=limit)
        if keeps:
            np.testing.assert_allclose(found[1], src.astype(np.float64).mean(-1), atol=limit)
    assert (COMPILED_ANEW in str(model.report())) == (dtype == "f32" or not is_native(og.bf16))
