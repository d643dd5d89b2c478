"""Convolutions that Winograd's transforms compute: their numbers against plain loops, and which ones they are."""

import numpy as np
import pytest

import onegraph as og
from onegraph.capi.settings import has_vnni
from onegraph.compiler.kernels import winograd

TESTED_KERNELS = ("winograd",)
RNG = np.random.default_rng(0)
# Relative to the largest number. The transforms add up to 16 products before the signs cancel.
TOLERANCE = 4e-6
SAME = {"pads_begin": (1, 1), "pads_end": (1, 1), "data_format": "NXC", "weights_format": "OIX"}


def network(shape, results, *, begin=(1, 1), end=(1, 1), bias=True, slope=None, layout="OIX", window=3, **attrs):
    """A graph of a convolution and an Abs, its weights and its bias."""
    channels = shape[-1] // attrs.get("groups", 1)
    weights = RNG.standard_normal((results, channels, window, window)).astype(np.float32)
    added = RNG.standard_normal(results).astype(np.float32) if bias else np.zeros(results, np.float32)
    g = og.Graph()
    given = weights if layout == "OIX" else np.ascontiguousarray(weights.transpose(2, 3, 1, 0))
    inputs = [g.input("x", "f32", shape), g.constant(given), *([g.constant(added)] if bias else [])]
    pads = {"pads_begin": begin, "pads_end": end, "data_format": "NXC", "weights_format": layout}
    y = g.convolution(*inputs, **pads, **attrs)
    if slope is not None:
        y = g.leaky_relu(y, alpha=slope) if slope else g.relu(y)
    g.output("y", g.abs(y))
    return g, weights, added


def convolved(x, weights, bias, begin, end):
    """The convolution in float64, one place of the window after the other."""
    padded = np.pad(x.astype(np.float64), ((0, 0), *zip(begin, end, strict=True), (0, 0)))
    height, width = padded.shape[1] - 2, padded.shape[2] - 2
    total = np.zeros((*x.shape[:1], height, width, len(weights))) + bias
    for row, column in np.ndindex(3, 3):
        total += padded[:, row : row + height, column : column + width] @ weights[:, :, row, column].T.astype(
            np.float64
        )
    return total


def kinds(model):
    return {kind for part in model.report().partitions for kind in part.kinds}


@pytest.mark.parametrize(
    ("shape", "results", "more"),
    [
        ((1, 32, 32, 64), 64, {}),
        ((1, 31, 29, 64), 80, {"slope": 0}),
        ((1, 31, 29, 64), 80, {"slope": 0.1}),
        ((1, 20, 29, 64), 80, {"slope": -2.5, "bias": False}),
        ((3, 17, 16, 48), 96, {"layout": "XIO"}),
        ((1, 33, 40, 96), 32, {"begin": (0, 1), "end": (1, 0), "bias": False}),
        ((2, 30, 30, 32), 64, {"begin": (2, 0), "end": (0, 2), "slope": 0}),
    ],
)
@pytest.mark.parametrize("strips", ["one strip", "strips of one row"])
def test_transforms_agree_with_plain_sums(monkeypatch, shape, results, more, strips):
    if strips != "one strip":
        monkeypatch.setattr(winograd, "STRIP_BYTES", 1)
    g, weights, bias = network(shape, results, **more)
    x = RNG.standard_normal(shape).astype(np.float32)
    model = g.compile()
    wanted = convolved(x, weights, bias, more.get("begin", (1, 1)), more.get("end", (1, 1)))
    wanted = np.abs(np.where(wanted < 0, more.get("slope", 1) * wanted, wanted))
    np.testing.assert_allclose(model(x), wanted, rtol=0, atol=TOLERANCE * wanted.max())
    assert {"Convolution: Transform", "Convolution: MatMul"} < kinds(model)
    assert not [part for part in model.report().partitions if part.kinds[0] in ("ReLU", "LeakyReLU")]
    rows = shape[0] * -(-wanted.shape[1] // 2)
    products = [part for part in model.report().partitions if "Convolution: MatMul" in part.kinds]
    assert len(products) == (1 if strips == "one strip" else rows)


def test_whole_numbers_are_exact():
    """Sums of small integers have no rounding; the halves of the transformed weights are exact too."""
    weights = RNG.integers(-2, 3, (64, 64, 3, 3)).astype(np.float32)
    g = og.Graph()
    src = g.input("x", "f32", (1, 32, 32, 64))
    g.output("y", g.abs(g.convolution(src, g.constant(weights), **SAME)))
    x = RNG.integers(-4, 5, (1, 32, 32, 64)).astype(np.float32)
    model = g.compile()
    np.testing.assert_array_equal(model(x), np.abs(convolved(x, weights, 0, (1, 1), (1, 1))))
    assert "Convolution: Transform" in kinds(model)


@pytest.mark.parametrize(
    ("shape", "results", "more"),
    [
        ((1, 32, 32, 64), 64, {"window": 5, "begin": (2, 2), "end": (2, 2)}),
        ((1, 64, 64, 64), 64, {"strides": (2, 2)}),
        ((1, 64, 64, 64), 64, {"dilations": (2, 2)}),
        ((1, 64, 64, 128), 128, {"groups": 2}),
        ((1, 128, 128, 16), 64, {}),  # few channels
        ((1, 32, 32, 72), 64, {}),  # channels that fill no vectors
        ((1, 8, 8, 64), 64, {}),  # a small image
        ((1, 7, 7, 512), 512, {}),  # few tiles for large weights
    ],
)
def test_other_convolutions_are_direct(shape, results, more):
    model = network(shape, results, **more)[0].compile()
    assert "Convolution" in kinds(model)


@pytest.mark.parametrize("options", [{"policy": "debug"}, {"fpmath_mode": "bf16"}])
def test_options_keep_convolutions_direct(options):
    assert "Convolution" in kinds(network((1, 32, 32, 64), 64)[0].compile(**options))


def test_bias_and_activation_behind_a_convolution_are_part_of_it():
    g, shape = og.Graph(), (1, 32, 32, 64)
    weights, bias = RNG.standard_normal((64, 64, 3, 3)).astype(np.float32), RNG.standard_normal(64).astype(np.float32)
    y = g.convolution(g.input("x", "f32", shape), g.constant(weights), **SAME)
    g.output("y", g.abs(g.relu(g.bias_add(y, g.constant(bias)))))
    model, x = g.compile(), RNG.standard_normal(shape).astype(np.float32)
    wanted = np.maximum(convolved(x, weights, bias, (1, 1), (1, 1)), 0)
    np.testing.assert_allclose(model(x), wanted, rtol=0, atol=TOLERANCE * wanted.max())
    assert [part.kinds for part in model.report().partitions][3:4] == [("Convolution: Transform", "BiasAdd", "ReLU")]


@pytest.mark.parametrize("strips", ["one strip", "strips of one row"])
def test_results_are_returned_and_seen_in_other_shapes(monkeypatch, strips):
    if strips != "one strip":
        monkeypatch.setattr(winograd, "STRIP_BYTES", 1)
    g, weights = og.Graph(), RNG.standard_normal((64, 64, 3, 3)).astype(np.float32)
    y = g.convolution(g.input("x", "f32", (1, 32, 32, 64)), g.constant(weights), **SAME)
    turned = g.op("StaticTranspose", [y], {"order": (0, 3, 1, 2)})
    for name, one in (("y", y), ("rows", g.op("StaticReshape", [y], {"shape": (1024, 64), "special_zero": False}))):
        g.output(name, one)
    g.output("turned", turned)
    g.output("relu", g.relu(turned))
    model, x = g.compile(), RNG.standard_normal((1, 32, 32, 64)).astype(np.float32)
    assert "Convolution: Transform" in kinds(model)
    wanted = convolved(x, weights, 0, (1, 1), (1, 1))
    results = (
        wanted,
        wanted.reshape(1024, 64),
        wanted.transpose(0, 3, 1, 2),
        np.maximum(wanted, 0).transpose(0, 3, 1, 2),
    )
    for found, exact in zip(model(x), results, strict=True):
        np.testing.assert_allclose(found, exact, rtol=0, atol=TOLERANCE * abs(wanted).max())


VARYING = [
    ((2, 32, 32, 64), 48, (1, 1), (1, 1)),
    ((3, 29, 31, 48), 64, (0, 1), (1, 0)),
    ((2, 30, 30, 32), 64, (2, 0), (0, 2)),
]


@pytest.mark.parametrize(("shape", "results", "begin", "end"), VARYING)
@pytest.mark.parametrize("layout", ["OIX", "XIO"])
def test_weights_that_are_inputs_are_transformed_in_each_run(shape, results, begin, end, layout):
    g, window = og.Graph(), {"pads_begin": begin, "pads_end": end, "data_format": "NXC", "weights_format": layout}
    plain = RNG.standard_normal((results, shape[3], 3, 3)).astype(np.float32)
    weights = plain if layout == "OIX" else np.ascontiguousarray(plain.transpose(2, 3, 1, 0))
    g.output("y", g.convolution(g.input("x", "f32", shape), g.input("w", "f32", weights.shape), **window))
    model, x = g.compile(), RNG.standard_normal(shape).astype(np.float32)
    assert "Convolution: Transform" in kinds(model)
    for factor in (1, 2):
        wanted = convolved(x, factor * plain, 0, begin, end)
        np.testing.assert_allclose(model(x, factor * weights), wanted, rtol=0, atol=TOLERANCE * abs(wanted).max())


@pytest.mark.parametrize(("shape", "results", "begin", "end"), VARYING)
@pytest.mark.parametrize("layout", ["OIX", "XIO"])
def test_gradients_by_src_are_transformed(shape, results, begin, end, layout):
    """They are convolutions with the window turned around, and channels swapped."""
    g, window = og.Graph(), {"pads_begin": begin, "pads_end": end, "data_format": "NXC", "weights_format": layout}
    plain = RNG.standard_normal((results, shape[3], 3, 3)).astype(np.float32)
    weights = plain if layout == "OIX" else np.ascontiguousarray(plain.transpose(2, 3, 1, 0))
    rows, columns = (size + b + e - 2 for size, b, e in zip(shape[1:3], begin, end, strict=True))
    diff = RNG.standard_normal((shape[0], rows, columns, results)).astype(np.float32)
    given = g.input("diff", "f32", diff.shape), g.input("w", "f32", weights.shape)
    g.output("y", g.convolution_backward_data(*given, dst_shape=shape, **window))
    model = g.compile()
    assert "ConvolutionBackwardData: Transform" in kinds(model)
    turned = plain[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    wanted = convolved(diff, turned, 0, [2 - pad for pad in begin], [2 - pad for pad in end])
    np.testing.assert_allclose(model(diff, weights), wanted, rtol=0, atol=TOLERANCE * abs(wanted).max())


def test_variable_weights_of_few_tiles_are_direct():
    g = og.Graph()
    x, weights = g.input("x", "f32", (1, 14, 14, 256)), g.input("w", "f32", (256, 256, 3, 3))
    g.output("y", g.abs(g.convolution(x, weights, **SAME)))
    assert "Convolution" in kinds(g.compile())


def test_chain_of_convolutions_with_residual_sum():
    """The results of transforms are read by other ops, and memory is used again."""
    g, shape = og.Graph(), (1, 30, 34, 64)
    weights = [RNG.standard_normal((64, 64, 3, 3)).astype(np.float32) / 24 for _ in range(3)]
    x = y = g.input("x", "f32", shape)
    for one in weights:
        y = g.add(g.relu(g.convolution(y, g.constant(one), **SAME)), y)
    g.output("y", g.multiply(y, x))
    given = RNG.standard_normal(shape).astype(np.float32)
    wanted = given.astype(np.float64)
    for one in weights:
        wanted = np.maximum(convolved(wanted, one, 0, (1, 1), (1, 1)), 0) + wanted
    model = g.compile()
    for _ in range(2):
        np.testing.assert_allclose(
            model(given), wanted * given, rtol=0, atol=2 * TOLERANCE * np.abs(wanted * given).max()
        )
    assert "Convolution: Transform" in kinds(model)


@pytest.mark.parametrize("coded", ["src and weights", "src"])
def test_products_of_int8_stay_in_int8(coded):
    g = og.Graph()
    codes = RNG.integers(-128, 128, (64, 64, 3, 3)).astype(np.int8)
    weights = codes.astype(np.float32)
    x = g.dequantize(g.input("x", "u8", (1, 56, 56, 64)), scales=[0.5], zps=[0])
    operand = g.dequantize(g.constant(codes), scales=[1.0], zps=[0]) if "weights" in coded else g.constant(weights)
    g.output("y", g.convolution(x, operand, **SAME))
    model = g.compile()
    is_direct = len(model.report().partitions) == 1
    assert is_direct == ("weights" in coded and has_vnni())  # int8 kernels without VNNI saturate
    given = RNG.integers(0, 256, (1, 56, 56, 64)).astype(np.uint8)
    wanted = convolved(0.5 * given, weights, 0, (1, 1), (1, 1))
    np.testing.assert_allclose(model(given), wanted, rtol=0, atol=TOLERANCE * np.abs(wanted).max())


@pytest.mark.parametrize("opens", [False, True])
def test_strips_cover_all_tiles_once(opens):
    for images in (1, 8, 30):
        geometry = winograd.Geometry(images, 28, 28, 64, 64, 1, 1)
        strips = [*geometry.strips(opens)]
        counts = [count for _, count in strips]
        assert [first for first, _ in strips] == [sum(counts[:place]) for place in range(len(strips))]
        assert sum(counts) == geometry.tiles
        assert min(counts) > 0
