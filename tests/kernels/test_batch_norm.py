"""Normalization by given statistics in one pass by the package's kernel, against float64."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from helpers.grouped import grouped
from helpers.kernels import run

import onegraph as og
from onegraph.capi.settings import is_native

TESTED_KERNELS = ("batch_norm", "norm_relu")
RNG = np.random.default_rng(0)
NUMPY = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
LIMITS = {"f32": 4e-7, "bf16": 4e-3, "f16": 5e-4}
NUMBERS = {"channels": 1, "relu": False, "epsilon": 1e-3}
FORMATS = {"NXC": -1, "NCX": 1}


def normalized(src, vectors, axis, epsilon=1e-3):
    shape = [1] * src.ndim
    shape[axis] = -1
    gamma, beta, mean, variance = (vector.astype(np.float64).reshape(shape) for vector in vectors)
    with np.errstate(all="ignore"):
        return (src.astype(np.float64) - mean) * (gamma / np.sqrt(variance + epsilon)) + beta


def statistics(count, dtype=np.float32):
    gamma, beta, mean = RNG.standard_normal((3, count))
    return [vector.astype(dtype) for vector in (gamma, beta, mean, RNG.random(count) + 0.5)]


def near(found, wanted, dtype):
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1)
    np.testing.assert_allclose(found.astype(np.float64), wanted, LIMITS[dtype], LIMITS[dtype] * scale)


LAYOUTS = [
    ("dense", lambda array: array),
    ("parts of rows", lambda array: array[..., 2:-1]),
    ("turned", lambda array: np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)),
]
SHAPES = [(1, 1, 1, 4), (3, 1, 5, 6), (2, 3, 4, 5), (2, 7, 9, 31), (1, 3, 300, 8), (4, 1100, 1, 6), (2, 2, 2, 2, 1500)]
KERNELS = [*itertools.product(SHAPES, LAYOUTS, NUMPY, (1, -1), (False, True))]


@grouped("case", KERNELS, key=lambda case: f"{case[0]} {case[1][0]}", label=lambda case: str(case[2:]))
def test_kernel_agrees_with_float64(case):
    shape, (_, laid), dtype, axis, relu = case
    src = laid((RNG.standard_normal(shape) * 3).astype(NUMPY[dtype]))
    vectors = statistics(src.shape[axis])
    result = np.empty_like(src)
    numbers = {"channels": axis % src.ndim, "relu": relu, "epsilon": 1e-3}
    run("batch_norm", src, *vectors, result, threads=2, **numbers)
    wanted = normalized(src, vectors, axis)
    near(result, np.maximum(wanted, 0) if relu else wanted, dtype)


@pytest.mark.parametrize("given", [(), ("gamma",), ("beta",), ("gamma", "beta")], ids=" and ".join)
@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("dtype", NUMPY)
def test_channels_without_finite_statistics_are_normalized_again(dtype, axis, given):
    """And no others, of any two layouts."""
    shapes = [(3, 6, 5, 8), (2, 6, 70, 60)] if dtype == "f32" else [(3, 6, 5, 8)]
    for shape, ((_, laid), (_, other)) in itertools.product(shapes, itertools.pairwise([*LAYOUTS, LAYOUTS[0]])):
        src = laid((RNG.standard_normal(shape) * 3).astype(NUMPY[dtype]))
        result = other(np.full((*src.shape[:-1], src.shape[-1] + 3 * (other is LAYOUTS[1][1])), 7, src.dtype))
        gamma, beta, mean, variance = statistics(src.shape[axis])
        gamma, beta = gamma if "gamma" in given else gamma * 0 + 1, beta if "beta" in given else beta * 0
        mean[0], variance[2] = np.nan, np.inf
        beta[1], gamma[3] = np.inf if "beta" in given else 0, -np.inf if "gamma" in given else 1
        ends = [mean, variance, *([gamma] if "gamma" in given else []), *([beta] if "beta" in given else [])]
        flags = {name: name in given for name in ("gamma", "beta")}
        run("norm_relu", src, *ends, result, threads=2, channels=axis % 4, epsilon=1e-3, **flags)
        with np.errstate(all="ignore"):
            again = ~np.isfinite(gamma + beta + mean + variance)
        wanted = np.maximum(normalized(src, (gamma, beta, mean, variance), axis), 0)
        near(result, np.where(again.reshape((-1, 1, 1) if axis == 1 else (-1,)), wanted, 7), dtype)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("dtype", NUMPY)
def test_special_values_pass_through(dtype, axis, relu):
    src = np.resize(np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1], np.float32), (2, 6, 5, 6)).astype(NUMPY[dtype])
    vectors = statistics(6)
    for vector, value in zip(vectors, (np.nan, np.inf, -np.inf, np.inf), strict=True):
        vector[RNG.integers(6)] = value
    result = np.empty_like(src)
    run("batch_norm", src, *vectors, result, channels=axis % 4, relu=relu, epsilon=1e-3)
    wanted = normalized(src, vectors, axis)
    near(result, np.maximum(wanted, 0) if relu else wanted, dtype)


def compiled(dtype, shape, form, params="f32", behind=None, **options):
    g, count = og.Graph(), shape[FORMATS[form]]
    ends = [g.input("x", dtype, shape), *[g.input(name, params, (count,)) for name in ("gamma", "beta", "mean", "var")]]
    result = g.batch_norm_inference(*ends, epsilon=1e-3, data_format=form)
    g.output("y", result if behind is None else getattr(g, behind)(result))
    return g.compile(**options)


def executors(model):
    """Of the steps but for casts of the vectors."""
    return [part.executor for part in model.report().partitions if not part.kinds[0].endswith("TypeCast")]


ALONE = [(2, 5, 6, 13), (2, 30, 40, 3), (1, 2, 3, 4, 100), (3, 40, 7), (5, 9)]


@pytest.mark.parametrize(("dtype", "params"), [("f32", "f32"), ("bf16", "f32"), ("bf16", "bf16"), ("f16", "f32")])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("shape", ALONE, ids=str)
def test_norm_alone_runs_in_one_pass(shape, form, dtype, params):
    model = compiled(dtype, shape, form, params)
    src, vectors = RNG.standard_normal(shape).astype(NUMPY[dtype]), statistics(shape[FORMATS[form]], NUMPY[params])
    near(model(src, *vectors), normalized(src, vectors, FORMATS[form]), dtype)
    if is_native(og.DataType.of(NUMPY[dtype])):  # without such arithmetic, ops run between casts
        assert "kernel" in executors(model)
        assert "oneDNN" not in executors(model)


def test_library_normalizes_whole_vectors_of_channels():
    assert executors(compiled("f32", (2, 5, 6, 32), "NXC")) == ["oneDNN"]


@pytest.mark.usefixtures("finite_math")
def test_relu_behind_a_norm_is_part_of_its_pass():
    model = compiled("f32", (2, 5, 6, 13), "NXC", behind="relu")
    assert executors(model) == ["kernel"]
    src, vectors = RNG.standard_normal((2, 5, 6, 13)).astype(np.float32), statistics(13)
    near(model(src, *vectors), np.maximum(normalized(src, vectors, -1), 0), "f32")


@pytest.mark.parametrize("behind", ["BatchNormInference", "BiasAdd"])
@pytest.mark.parametrize("dtype", NUMPY)
def test_convolution_takes_in_what_follows(dtype, behind):
    """Also where a convolution of f16 runs in f32: the cast comes last."""
    g = og.Graph()
    x, weights = g.input("x", dtype, (1, 8, 8, 5)), RNG.standard_normal((1, 1, 5, 13)).repeat(3, 0)
    y = g.convolution(x, g.constant(weights.astype(NUMPY[dtype])), pads_begin=[1, 0], pads_end=[1, 0])
    bias, vectors = RNG.standard_normal(13).astype(NUMPY[dtype]), statistics(13)
    if behind == "BiasAdd":
        g.output("y", g.bias_add(y, g.constant(bias)))
    else:
        g.output("y", g.batch_norm_inference(y, *[g.constant(v) for v in vectors], epsilon=1e-3))
    model = g.compile()
    if is_native(og.DataType.of(NUMPY[dtype])):  # else what follows runs between casts of its own
        assert not [part for part in model.report().partitions if part.kinds[0] == behind]
    src = RNG.standard_normal((1, 8, 8, 5)).astype(NUMPY[dtype])
    padded = np.pad(src.astype(np.float64), [(0, 0), (1, 1), (0, 0), (0, 0)])
    rounded = weights.astype(NUMPY[dtype]).astype(np.float64)
    exact = sum(padded[:, i : i + 8] @ rounded[i, 0] for i in range(3))
    wanted = exact + bias.astype(np.float64) if behind == "BiasAdd" else normalized(exact, vectors, -1)
    near(model(src), wanted, dtype)


def test_a_vector_of_another_length_is_refused():
    with pytest.raises(og.errors.OneGraphError):
        run("batch_norm", np.zeros((2, 3), np.float32), *statistics(4), np.zeros((2, 3), np.float32), **NUMBERS)


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_a_result_in_another_order_than_its_source_needs_a_copy_alone(dtype):
    shape, vectors = (2, 8, 6, 10), RNG.uniform(0.5, 2, (4, 8)).astype(np.float32)
    g = og.Graph()
    last = g.op("StaticTranspose", [g.input("x", dtype, shape)], {"order": [0, 2, 3, 1]})
    norm = g.op("BatchNormInference", [last, *map(g.constant, vectors)], {"epsilon": 1e-3, "data_format": "NXC"})
    for name, begin, end in (("left", 0, 4), ("right", 4, 10)):
        numbers = [g.constant(np.int64([number]), dtype=og.s64) for number in (begin, end, 2)]
        part = g.op("Slice", [norm, *numbers], edition="host")
        g.output(name, g.op("StaticTranspose", [part], {"order": [0, 3, 1, 2]}))
    model = g.compile()
    by = {part.executor for part in model.report().partitions if "BatchNormInference" in part.kinds}
    assert by == {"kernel"}
    array = RNG.standard_normal(shape).astype(NUMPY[dtype])
    expected = normalized(array, vectors, 1)
    result = np.concatenate(model(array), 3).astype(np.float64)
    np.testing.assert_allclose(result, expected, rtol=0, atol=4 * LIMITS[dtype] * np.abs(expected).max())
