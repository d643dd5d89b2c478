"""Quantized ONNX models in the QDQ form: 16-bit activations and u8 weights, against f32 arithmetic in numpy."""

import numpy as np
import pytest

import onegraph as og
import onegraph.onnx
from onegraph.capi.settings import has_vnni

onnx = pytest.importorskip("onnx")
from onnx import numpy_helper, parser  # noqa: E402

pytestmark = pytest.mark.library
RNG = np.random.default_rng(0)


def model_of(body, shape, constants, inputs="float"):
    dims = ",".join(map(str, shape))
    text = f'<ir_version: 10, opset_import: ["" : 21]> g ({inputs}[{dims}] x) => (float y) {{ {body} }}'
    model = parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items())
    return og.onnx.load(model)


def kinds(model):
    return [kind for part in model.report().partitions for kind in part.kinds]


def products(model):
    return [part.kinds for part in model.report().partitions if "Convolution" in part.kinds]


def rounded(src, scale, zero, dtype):
    """The numbers that the codes of src stand for."""
    limits = np.iinfo(dtype)
    middle = np.asarray(zero, np.float64)
    codes = np.clip(np.rint(src / scale) + middle, limits.min, limits.max)
    return ((codes - middle) * scale).astype(np.float32)


CHAIN = "a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z) c = Erf(b) d = QuantizeLinear(c, s, z) "


@pytest.mark.parametrize("dtype", [np.uint16, np.int16])
def test_codes_of_16_bits_are_one_step(dtype):
    scale, zero = np.float32(3e-4), np.array(40000 if dtype is np.uint16 else 5, dtype)
    model = model_of(CHAIN + "y = DequantizeLinear(d, s, z)", (5, 40), {"s": scale, "z": zero}).compile()
    x = (RNG.standard_normal((5, 40)) * 4).astype(np.float32)
    wanted = rounded(np.vectorize(__import__("math").erf)(rounded(x, scale, zero, dtype)), scale, zero, dtype)
    np.testing.assert_allclose(model(x=x), wanted, atol=1.01 * scale)
    assert (np.abs(model(x=x) - wanted) < 1e-6).mean() > 0.99
    found = model.report().partitions
    assert [part.executor for part in found] == ["kernel"] * 3
    assert np.isnan(model(x=np.full((5, 40), np.nan, np.float32))).all()


def test_codes_of_16_bits_that_a_model_returns_stay():
    scale, zero = np.float32(0.01), np.uint16(300)
    body = "a = QuantizeLinear(x, s, z) b = Transpose(a) y = DequantizeLinear(b, s, z)"
    model = model_of(body, (3, 4), {"s": scale, "z": zero}).compile()
    x = (RNG.standard_normal((3, 4)) * 4).astype(np.float32)
    np.testing.assert_allclose(model(x=x), rounded(x, scale, zero, np.uint16).T, atol=1e-5)
    body = "a = QuantizeLinear(x, s, z) y = DequantizeLinear(a, t, z)"
    model = model_of(body, (3, 4), {"s": scale, "z": zero, "t": np.float32(0.02)}).compile()
    np.testing.assert_allclose(model(x=x), 2 * rounded(x, scale, zero, np.uint16), atol=1e-5)


def test_numbers_that_only_moved_are_not_rounded_again():
    body = CHAIN + "e = DequantizeLinear(d, s, z) f = Transpose <perm = [1, 0]> (e) g = Reshape(f, r) "
    body += "h = QuantizeLinear(g, s, z) y = DequantizeLinear(h, s, z)"
    constants = {"s": np.float32(0.01), "z": np.uint16(300), "r": np.array([2, 6])}
    model = model_of(body, (3, 4), constants).compile()
    assert kinds(model).count("FakeQuantize") == 2


GEOMETRIES = {
    "plain": ({}, (6, 3, 3, 3)),
    "groups": ({"group": 3}, (6, 1, 3, 3)),
    "strides": ({"strides": [2, 1], "pads": [1, 0, 1, 2]}, (6, 3, 3, 3)),
}


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("zero", [128, 120, "channels"])
def test_convolutions_with_u8_weights_run_in_int8(zero, geometry):
    attrs, shape = GEOMETRIES[geometry]
    codes = RNG.integers(0, 256, shape).astype(np.uint8)
    codes.flat[:2] = 0, 255  # no zero point but 128 takes both to s8
    zeros = RNG.integers(110, 140, 6).astype(np.uint8) if zero == "channels" else np.uint8(zero)
    scales = RNG.uniform(0.01, 0.02, 6).astype(np.float32) if zero == "channels" else np.float32(0.01)
    words = ", ".join(f"{name} = {value}" for name, value in {"pads": [1] * 4, **attrs}.items())
    body = (
        "a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z) w = DequantizeLinear <axis = 0> (q, t, p) "
        f"y = Conv <{words}> (b, w, c)"
    )
    bias = RNG.standard_normal(6).astype(np.float32)
    constants = {"s": np.float32(0.05), "z": np.uint8(7), "q": codes, "t": scales, "p": zeros, "c": bias}
    model = model_of(body, (2, 3, 9, 8), constants).compile()
    x = (RNG.integers(-8, 250, (2, 3, 9, 8)) * 0.05).astype(np.float32)
    weights = (codes.astype(np.float32) - zeros.reshape(-1, 1, 1, 1)) * scales.reshape(-1, 1, 1, 1)
    plain = model_of(f"y = Conv <{words}> (x, w, c)", x.shape, {"w": weights, "c": bias}).compile()
    wanted = plain(x=rounded(x, np.float32(0.05), 7, np.uint8))
    np.testing.assert_allclose(model(x=x), wanted, atol=2e-5 * np.abs(wanted).max())
    if has_vnni():
        assert all(found[:2] == ("Dequantize", "Dequantize") for found in products(model))
        assert len(products(model)) == (1 if zero == 128 else 2)


# Scales of the channels of activations --------------------------------------------------------------------------------

DEEP = (
    "a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z) w = DequantizeLinear <axis = 0> (q, t, p) "
    "h = Conv(b, w, c) r = {limit} d = QuantizeLinear <axis = 1> (r, cs, cz) "
    "e = DequantizeLinear <axis = 1> (d, cs, cz) v = DequantizeLinear <axis = 0> (q2, t2, p2) "
    "y = Conv <pads = [1, 1, 1, 1], group = 16> (e, v, c)"
)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("src", [np.uint8, np.int8])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_products_by_weights_with_zero_points_of_columns_run_in_int8(dtype, src, turned):
    limits, depth, columns = np.iinfo(dtype), 96, 40
    codes = RNG.integers(limits.min, limits.max + 1, (depth, columns)).astype(dtype)
    zeros = RNG.integers(limits.min, limits.max + 1, columns).astype(dtype)
    scales, bias = RNG.uniform(0.01, 0.02, columns).astype(np.float32), RNG.standard_normal(columns).astype(np.float32)
    known = {"xs": np.float32(0.05), "xz": np.array(7, src), "s": scales, "z": zeros, "b": bias}
    body = "q = QuantizeLinear(x, xs, xz) d = DequantizeLinear(q, xs, xz) "
    if turned:
        body += "v = DequantizeLinear<axis = 0>(w, s, z) y = Gemm<transB = 1>(d, v, b)"
    else:
        body += "v = DequantizeLinear<axis = 1>(w, s, z) p = MatMul(d, v) y = Add(p, b)"
    x = RNG.standard_normal((3, depth)).astype(np.float32)
    model = model_of(body, x.shape, {**known, "w": codes.T.copy() if turned else codes}).compile()
    (product,) = [part.kinds for part in model.report().partitions if "MatMul" in part.kinds]
    assert [*product[:3]] == ["Dequantize", "Dequantize", "MatMul"] or not has_vnni()
    numbers = rounded(x, known["xs"], known["xz"], src).astype(np.float64)
    wanted = numbers @ ((codes.astype(np.float64) - zeros) * scales) + bias
    np.testing.assert_allclose(model(x), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_products_by_other_weights_keep_their_zero_points():
    known = {"xs": np.float32([0.05] * 4), "s": np.float32([0.1] * 5), "z": np.uint8([1, 2, 3, 4, 5])}
    codes = RNG.integers(0, 256, (4, 5)).astype(np.uint8)
    body = "q = QuantizeLinear(x, xs) d = DequantizeLinear(q, xs) v = DequantizeLinear(w, s, z) y = MatMul(d, v)"
    graph = model_of(body, (2, 4), {**known, "w": codes})
    assert [op.attrs["zps"] for op in graph.ops if op.kind == "Dequantize"][-1] == (1, 2, 3, 4, 5)


def deep(limit, zeros, most):
    """A convolution, then a depthwise one on codes with a scale for each channel; and what it computes."""
    scales = RNG.uniform(0.5, 1, 16).astype(np.float32) * np.float32(most / 255)
    own = RNG.uniform(0.001, 0.002, 16).astype(np.float32)
    codes = [RNG.integers(-127, 128, shape).astype(np.int8) for shape in ((16, 16, 1, 1), (16, 1, 3, 3))]
    constants = {
        "s": np.float32(0.02),
        "z": np.uint8(0),
        "cs": scales,
        "cz": zeros,
        "c": np.linspace(-1, 1, 16, dtype="f"),
        "q": codes[0],
        "t": own,
        "p": np.zeros(16, np.int8),
        "lo": np.float32(0),
        "hi": np.float32(6),
        "q2": codes[1],
        "t2": own * 4,
        "p2": np.zeros(16, np.int8),
    }
    model = model_of(DEEP.format(limit=limit), (1, 16, 9, 8), constants).compile()
    x = (RNG.integers(0, 250, (1, 16, 9, 8)) * 0.02).astype(np.float32)
    weights = [one * factor.reshape(-1, 1, 1, 1) for one, factor in zip(codes, (own, own * 4), strict=True)]
    first = model_of(f"h = Conv(x, w, c) y = {limit}", x.shape, {**constants, "w": weights[0]})
    middle = first.compile()(x=x)
    shape = (-1, 1, 1)
    middle = rounded(middle, scales.reshape(shape), zeros.astype(np.float32).reshape(shape), zeros.dtype)
    body = "y = Conv <pads = [1, 1, 1, 1], group = 16> (x, w, c)"
    wanted = model_of(body, x.shape, {"w": weights[1], "c": constants["c"]}).compile()(x=middle)
    step = 127 * 0.008 * most / 255  # of one code that is rounded to the other side
    np.testing.assert_allclose(model(x=x), wanted, atol=1.01 * step)
    assert (np.abs(model(x=x) - wanted) < 1e-4).mean() > 0.99
    return model


@pytest.mark.skipif(not has_vnni(), reason="the library has no int8 kernels")
@pytest.mark.parametrize("limit", ["Clip(h, lo, hi)", "Relu(h)", "Identity(h)"])
def test_weights_take_over_scales_of_channels(limit):
    model = deep(limit, np.zeros(16, np.uint8), 6)
    found = products(model)
    assert [kinds[:2] for kinds in found] == [("Dequantize", "Dequantize")] * 2
    assert "Quantize" in found[0]


@pytest.mark.parametrize("limit", ["Clip(h, lo, hi)", "Relu(h)"])
def test_limits_within_the_codes_stay(limit):
    deep(limit, np.full(16, 40, np.uint8), 9)


def test_zero_points_of_channels_that_differ_stay():
    deep("Identity(h)", np.arange(16).astype(np.uint8), 9)
