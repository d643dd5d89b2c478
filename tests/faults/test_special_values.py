"""NaN and infinities pass through every op as the numpy reference says, alone and behind the ops that take it in."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from conftest import draws

import onegraph as og
from onegraph import reference
from onegraph.capi.settings import has_vnni
from onegraph.opset.editions.registry import BASE
from onegraph.testing.cases import CASES

TESTED_KERNELS = (
    "guarded",
    "norm_relu",
    "abs_backward",
    "clamp",
    "clamp_backward",
    "elu_backward_by_dst",
    "elu_backward_by_src",
    "exp",
    "gelu_erf",
    "gelu_tanh",
    "gelu_tanh_backward",
    "greater_equal",
    "hard_sigmoid",
    "hard_sigmoid_backward",
    "hard_swish_backward",
    "keep_nan",
    "maximum",
    "minimum",
    "mish_backward",
    "prelu",
    "prelu_backward_slope",
    "prelu_backward_src",
    "relu",
    "relu_backward",
)


pytestmark = pytest.mark.library
FLOATS = (og.f32, og.bf16, og.f16)
SPECIAL = {"nan": [nan], "inf": [inf], "minus inf": [-inf], "mixture": [nan, inf, -inf, 0.0]}


def has_three_axes(case):
    return case.inputs[0].ndim == 5


# Where the result differs from the reference: the inputs with NaN or an infinity, and a condition. See docs/safety.md.
DIFFERENT = {
    "BatchNormTrainingBackward": ({4}, lambda case: True, "infinities for a variance that is given as infinite"),
    "Interpolate": ({0}, has_three_axes, "multiplies neighbours by 0"),
    "InterpolateBackward": ({1}, has_three_axes, "multiplies neighbours by 0"),
}
# Ops that are not run on floating-point numbers, or not by themselves.
WITHOUT = frozenset(["Dequantize", "DynamicDequantize", "Dropout", "End", "GenIndex", "Wildcard"])
# Ops that compute each element of the result from those at its place.
ELEMENTWISE = sorted(
    kind for kind, schema in BASE.items() if schema.category == "elementwise" and not kind.endswith("Backward")
)


def classes(array):
    """For each element: 0 for a number, 1 and -1 for infinities, 2 for NaN."""
    wide = np.asarray(array).astype(np.float64)
    return np.select([np.isnan(wide), np.isposinf(wide), np.isneginf(wide)], [2, 1, -1], 0)


def chosen():
    """Two cases of each kind and data type of the last input."""
    found: dict[tuple[str, og.DataType], list[object]] = {}
    for case in CASES:
        dtype = og.DataType.of(case.inputs[-1].dtype) if case.inputs and case.kind not in WITHOUT else None
        if dtype in FLOATS and all(array.size for array in case.inputs):
            found.setdefault((case.kind, dtype), []).append(case)
    return {key: cases[:1] + cases[-1:] for key, cases in found.items()}


CHOSEN = chosen()


def graph_of(case):
    g = og.Graph()
    inputs = [g.input(f"x{place}", og.DataType.of(array.dtype), array.shape) for place, array in enumerate(case.inputs)]
    options = {name: value for name, value in (("dtype", case.dtype), ("outputs", case.outputs)) if value}
    found = g.op(case.kind, inputs, case.attrs, **options)
    for place, tensor in enumerate(found if isinstance(found, tuple) else (found,)):
        g.output(f"y{place}", tensor)
    return g


def with_special(array, numbers):
    flat = array.astype(np.float64).reshape(-1)
    for place, number in enumerate(numbers):
        flat[3 * place % flat.size] = number
    return flat.reshape(array.shape).astype(array.dtype)


def expect_classes(g, model, arrays, what):
    got = model(**arrays)
    with np.errstate(all="ignore"):
        expected = reference.run(g, arrays)
    for name, array in zip(expected, got if isinstance(got, tuple) else (got,), strict=True):
        np.testing.assert_array_equal(classes(array), classes(expected[name]), err_msg=f"{what}: {name}")


def test_every_op_has_cases_or_a_reason():
    kinds = {kind for kind, _ in CHOSEN}
    assert kinds | WITHOUT >= BASE.keys()
    assert DIFFERENT.keys() <= BASE.keys()


# f32, and a type of 16 bits in turns.
TYPED = [
    (kind, dtype)
    for place, kind in enumerate(sorted({kind for kind, _ in CHOSEN}))
    for dtype in draws((og.f32, FLOATS[1 + place % 2]), FLOATS)
]


@pytest.mark.parametrize(("kind", "dtype"), TYPED, ids=str)
def test_special_numbers_pass_through_every_op(kind, dtype):
    for case in CHOSEN.get((kind, dtype), ()):
        g = graph_of(case)
        model = g.compile()
        for port, array in enumerate(case.inputs):
            if og.DataType.of(array.dtype) not in FLOATS:
                continue
            ports, holds, _ = DIFFERENT.get(kind, ((), None, ""))
            if port in ports and holds(case):
                continue
            for label, numbers in SPECIAL.items():
                arrays = {f"x{place}": known for place, known in enumerate(case.inputs)}
                arrays[f"x{port}"] = with_special(array, numbers)
                expect_classes(g, model, arrays, f"{case}, {label} in input {port}")


def product(g, x):
    return g.matmul(x, g.constant(np.eye(16, dtype=x.dtype.numpy)))


def convolution(g, x):
    weights = g.constant(np.ones((1, 1, 1, 16), x.dtype.numpy))
    attrs = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1], "groups": 16}
    image = g.static_reshape(x, shape=(1, 4, 8, 16), special_zero=False)
    return g.convolution(image, weights, **attrs)


def total(g, x):
    return g.add(x, g.constant(np.zeros(16, x.dtype.numpy)))


ATTRIBUTES = {
    "Clamp": {"min": 0.0, "max": 6.0},
    "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyReLU": {"alpha": 0.1},
    "Pow": {"beta": 2.0},
}


FUSED = (*ELEMENTWISE, "Maximum", "Minimum", "PReLU", "MaxPool", "ReduceMax", "SoftMax")
BEFORE = (product, convolution, total)


@pytest.mark.parametrize("place", draws((0, 1), (0, 1, 2)))
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("kind", FUSED)
def test_special_numbers_pass_through_ops_that_fuse(kind, before, place):
    # f32, and a type of 16 bits in turns
    turn = draws((FUSED.index(kind) + BEFORE.index(before)) % 2, 0)
    dtype, g = FLOATS[place and place + turn], og.Graph()
    x = g.input("x", dtype, (32, 16))
    y = before(g, x)
    if kind in ("Maximum", "Minimum", "PReLU"):
        found = g.op(kind, [y, g.constant(np.full(16, 0.25, dtype.numpy))])
    elif kind == "MaxPool":
        image = g.static_reshape(y, shape=(1, 4, 8, 16), special_zero=False)
        found = g.max_pool(image, kernel=[2, 2], strides=[2, 2], pads_begin=[0, 0], pads_end=[0, 0])
    elif kind == "ReduceMax":
        found = g.reduce_max(y, axes=[-1], keep_dims=True)
    else:
        found = g.op(kind, [y], {"axis": -1} if kind == "SoftMax" else ATTRIBUTES.get(kind, {}))
    g.output("y", found)
    source = np.linspace(0.1, 3, 512).reshape(32, 16)
    source[1], source[3], source[9] = nan, inf, -inf  # whole rows: a product of NaN is NaN
    array = source.astype(dtype.numpy)
    if before is product:  # inf * 0
        array[array == inf], array[array == -inf] = nan, nan
    expect_classes(g, g.compile(), {"x": array}, f"{kind} behind {before.__name__}")


def test_results_with_finite_math_lose_nan():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (8,))))
    x = np.full(8, nan, np.float32)
    assert np.isnan(g.compile()(x)).all()
    assert not np.isnan(g.compile(finite_math=True)(x)).any()


@pytest.mark.parametrize("dtype", [og.bf16, og.f16], ids=str)
def test_a_cast_of_nan_is_never_infinite(dtype):
    """A NaN whose payload lies in the bits that a cast drops, and numbers at the edge of the range."""
    signs = np.uint32([0, 0x80000000])[:, None]
    payloads = np.uint32([1, 2, 0xFFFF, 0x10000, 0x3FFFFF, 0x400000, 0x7FFFFF])
    nans = (signs | np.uint32(0x7F800000) | payloads).view(np.float32)
    edges = np.float32([inf, -inf, 3.4028235e38, -3.4028235e38, 65519, 65520, 65536, 1e-45])
    x = np.tile(np.concatenate([nans.reshape(-1), edges]), 9)
    g = og.Graph()
    g.output("y", g.type_cast(g.input("x", og.f32, x.shape), dtype=dtype))
    with np.errstate(all="ignore"):
        expected = x.astype(dtype.numpy)
    np.testing.assert_array_equal(g.compile()(x).astype(np.float32), expected.astype(np.float32))
    back = og.Graph()
    back.output("y", back.type_cast(back.input("x", dtype, x.shape), dtype="f32"))
    np.testing.assert_array_equal(back.compile()(expected), expected.astype(np.float32))


@pytest.mark.parametrize("kind", ["Quantize", "DynamicQuantize"])
def test_codes_of_infinities_are_the_ends_of_the_range(kind):
    x = np.float32([inf, -inf, 1, 3e38, -3e38, 0] * 4)
    for dtype, low, high in ((og.s8, -128, 127), (og.u8, 0, 255)):
        g = og.Graph()
        source = g.input("x", og.f32, x.shape)
        if kind == "Quantize":
            y = g.quantize(source, scales=[0.5], zps=[3], dtype=dtype)
        else:
            scale, zero = g.constant(np.float32([0.5])), g.constant(np.int32([3]), dtype=og.s32)
            y = g.op(kind, [source, scale, zero], dtype=dtype)
        g.output("y", y)
        np.testing.assert_array_equal(g.compile()(x), np.tile([high, low, 5, high, low, 3], 4))


@pytest.mark.parametrize("number", [inf, 3e38, 1e12])
@pytest.mark.parametrize("kind", ["MatMul", "Convolution"])
def test_codes_behind_products_of_codes_are_the_ends_of_the_range(kind, number):
    shape = (4, 32) if kind == "MatMul" else (1, 2, 2, 32)
    for dtype, low, high in ((og.s8, -128, 127), (og.u8, 0, 255)):
        g = og.Graph()
        x = g.dequantize(g.input("x", og.u8, shape), scales=[0.5], zps=[0])
        w = g.constant(np.eye(32, dtype=np.int8).reshape((32, 32) if kind == "MatMul" else (1, 1, 32, 32)))
        ends = x, g.dequantize(w, scales=[2.0], zps=[0])
        attrs = {} if kind == "MatMul" else {"strides": 1, "pads_begin": 0, "pads_end": 0, "dilations": 1}
        y = g.matmul(*ends) if kind == "MatMul" else g.convolution(*ends, **attrs)
        g.output("y", g.quantize(g.add(y, g.input("r", og.f32, shape)), scales=[0.5], zps=[3], dtype=dtype))
        r, expected = np.zeros(shape, np.float32), np.full(shape, 5, dtype.numpy)
        r.reshape(-1)[[5, 40]] = number, -number
        expected.reshape(-1)[[5, 40]] = high, low
        np.testing.assert_array_equal(g.compile()(x=np.ones(shape, np.uint8), r=r), expected)


NORM_LAYOUTS = {"NXC": (4, 6, 6, 16), "NCX": (4, 16, 6, 6)}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("data_format", NORM_LAYOUTS)
@pytest.mark.parametrize("ports", [3, 5])
def test_a_normalization_in_training_keeps_nan_in_one_step_with_its_relu(ports, data_format, dtype):
    """The library fuses both; channels whose statistics are not finite are computed again."""
    g, shape = og.Graph(), NORM_LAYOUTS[data_format]
    axis = len(shape) - 1 if data_format == "NXC" else 1
    inputs = [g.input("x", dtype, shape), *[g.input(f"v{place}", og.f32, (16,)) for place in range(1, ports)]]
    attrs = {"epsilon": 1e-5, "momentum": 0.1, "data_format": data_format}
    y, *others = g.op("BatchNormForwardTraining", inputs, attrs)
    g.output("y", g.relu(y))
    for place, tensor in enumerate(others):
        g.output(f"o{place}", tensor)
    model = g.compile()
    if dtype is og.f32:
        assert next(part.kinds for part in model.report().partitions) == ("BatchNormForwardTraining", "ReLU")
    rng = np.random.default_rng(0)
    source = rng.standard_normal(shape).astype(np.float32)
    vectors = {f"v{place}": rng.uniform(0.5, 2, 16).astype(np.float32) for place in range(1, ports)}
    for number, at in ((nan, 2), (inf, 5), (-inf, 9)):
        np.moveaxis(source, axis, 0)[at, 1, 2, 3] = number
    for number, name in ((nan, "v3"), (inf, "v4"), (-inf, "v3")):
        if name in vectors:
            vectors[name][int(10 + 2 * (number == inf) + (number < 0))] = number
    arrays = {"x": source.astype(dtype.numpy), **vectors}
    expect_classes(g, model, arrays, "BatchNormForwardTraining with ReLU")
    with np.errstate(all="ignore"):
        expected = reference.run(g, arrays)["y"].astype(np.float64)
    numbers = np.isfinite(expected)
    np.testing.assert_allclose(model(**arrays)[0].astype(np.float64)[numbers], expected[numbers], rtol=0.02, atol=0.02)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
def test_gradient_of_a_max_pool_reaches_the_last_nan(data_format, dtype):
    x, d = np.random.default_rng(0).permutation(81).reshape(9, 9).astype(np.float64), np.arange(1.0, 26).reshape(5, 5)
    x.reshape(-1)[::5] = nan
    expected = np.zeros((11, 11))
    padded = np.pad(x, 1, constant_values=-inf)
    for row, column in np.ndindex(5, 5):
        window = padded[2 * row : 2 * row + 3, 2 * column : 2 * column + 3].reshape(-1)
        place = np.flatnonzero(np.isnan(window))[-1] if np.isnan(window).any() else window.argmax()
        expected[2 * row + place // 3, 2 * column + place % 3] += d[row, column]
    shape = (lambda n: (1, n, n, 1)) if data_format == "NXC" else (lambda n: (1, 1, n, n))
    g = og.Graph()
    attrs = {"kernel": [3, 3], "strides": [2, 2], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    ends = g.input("x", dtype, shape(9)), g.input("d", dtype, shape(5))
    g.output("y", g.op("MaxPoolBackward", ends, {**attrs, "data_format": data_format}))
    arrays = {"x": x.reshape(shape(9)).astype(dtype.numpy), "d": d.reshape(shape(5)).astype(dtype.numpy)}
    found = g.compile()(**arrays).reshape(9, 9)
    np.testing.assert_array_equal(found.astype(np.float64), expected[1:-1, 1:-1])


def test_report_names_why_a_step_is_apart():
    g = og.Graph()
    g.output("y", g.relu(product(g, g.input("x", og.f32, (32, 16)))))
    kept, fused = (g.compile(finite_math=finite).report().partitions for finite in (False, True))
    assert [part.kinds for part in kept] == [("MatMul",), ("ReLU",)]
    assert "loses NaN" in kept[1].reason
    assert [part.kinds for part in fused] == [("MatMul", "ReLU")]


def test_numbers_from_codes_stay_fused():
    """What int8 codes stand for is finite, so that the ReLU of a quantized product stays in its fusion."""
    g = og.Graph()
    x = g.dequantize(g.input("x", og.u8, (32, 16)), scales=[0.1], zps=[3])
    w = g.dequantize(g.constant(np.ones((16, 16), np.int8)), scales=[0.1], zps=[0])
    g.output("y", g.quantize(g.relu(g.matmul(x, w)), scales=[0.5], zps=[0], dtype="u8"))
    sizes = [len(part.kinds) for part in g.compile().report().partitions]
    assert (sizes == [5]) == has_vnni()  # int8 kernels without VNNI saturate, so the model computes in f32


@pytest.mark.parametrize("layout", ["OIX", "XIO"])
@pytest.mark.parametrize("number", [nan, inf, -inf])
def test_winograd_keeps_special_numbers_to_their_windows(number, layout):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 24, 24, 64), np.float32), rng.standard_normal((3, 3, 64, 64), np.float32)
    x[0, 11, 12, 5] = x[1, 0, 23, 7] = number
    g = og.Graph()
    attrs = {"strides": 1, "pads_begin": 1, "pads_end": 1, "dilations": 1, "weights_format": layout}
    weights = g.constant(w if layout == "XIO" else np.ascontiguousarray(w.transpose(3, 2, 0, 1)))
    g.output("y", g.relu(g.convolution(g.input("x", og.f32, x.shape), weights, **attrs)))
    model = g.compile()
    assert any("Convolution: Transform" in part.kinds for part in model.report().partitions)
    padded = np.pad(x.astype(np.float64), [(0, 0), (1, 1), (1, 1), (0, 0)])
    with np.errstate(invalid="ignore"):
        expected = sum(
            padded[:, i : i + 24, j : j + 24] @ w[i, j].astype(np.float64) for i in range(3) for j in range(3)
        )
    expected = np.where(expected <= 0, 0, expected)
    found = model(x)
    np.testing.assert_array_equal(classes(found), classes(expected))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(found[finite], expected[finite], atol=2e-4)


def test_results_of_a_part_of_a_tensor_take_memory_of_their_own():
    """A part of a tensor has gaps between its rows, which the result has not."""
    g = og.Graph()
    x = g.input("x", og.f32, (2, 12, 5, 7))
    part = g.op(
        "Slice", [x, *[g.constant(np.array([one], np.int64), dtype=og.s64) for one in (8, 12, 1)]], edition="host"
    )
    y = g.relu(part)
    g.output("y", g.concat(g.abs(y), g.square(y), axis=1))
    array = np.random.default_rng(0).standard_normal((2, 12, 5, 7)).astype(np.float32)
    expected = np.maximum(array[:, 8:], 0)
    for _ in range(20):
        np.testing.assert_allclose(g.compile()(array), np.concatenate([expected, expected**2], axis=1), rtol=1e-6)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("kind", ["SoftMax", "LogSoftmax", "ReduceMax", "ReduceMin"])
def test_masks_of_minus_infinity(kind, axis, dtype):
    """A causal mask, left padding, and a row without any number."""
    x = np.random.default_rng(0).standard_normal((3, 40, 40)).astype(np.float32)
    x[0][np.triu_indices(40, 1)] = -inf
    x[1, :, :7] = -inf
    x[2, 5] = x[2, :, 9] = -inf
    x = (-x if kind == "ReduceMin" else x).astype(dtype.numpy)
    g = og.Graph()
    attrs = {"axes": [axis]} if kind.startswith("Reduce") else {"axis": axis}
    g.output("y", g.op(kind, [g.input("x", dtype, x.shape)], attrs, dtype=dtype))
    got = g.compile()(x).astype(np.float64)
    with np.errstate(all="ignore"):
        expected = reference.run(g, {"x": x})["y"].astype(np.float64)
    np.testing.assert_array_equal(classes(got), classes(expected))
    numbers = np.isfinite(expected)
    tolerance = {og.f32: 8e-6, og.f16: 2e-3, og.bf16: 2e-2}[dtype]  # docs/safety.md: LogSoftmax has some millionths
    np.testing.assert_allclose(got[numbers], expected[numbers], rtol=tolerance, atol=tolerance)


LACKING = {
    "GreaterEqual": lambda g, x: g.greater_equal(x, x),
    "GELU": lambda g, x: g.gelu(x, mode="gelu_tanh"),
    "PReLU": lambda g, x: g.prelu(x, g.constant(np.float32([0.5]))),
}


@pytest.mark.parametrize("add", LACKING.values(), ids=LACKING)
def test_finite_math_runs_what_the_library_lacks(add):
    """Without a kernel of the package, the lowering would have to rewrite the op, as oneDNN 3.2 crashes on it."""
    x = np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 3, 4)
    for is_int8 in (False, True):
        g = og.Graph()
        source = g.input("x", og.s8 if is_int8 else og.f32, x.shape)
        g.output("y", add(g, g.dequantize(source, scales=[0.5], zps=[1]) if is_int8 else source))
        given = (x * 4).astype(np.int8) if is_int8 else x
        expected = reference.run(g, {"x": given})["y"]
        for finite_math in (False, True):
            found = g.compile(finite_math=finite_math, fallback=False)(given)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert g.partitions()
