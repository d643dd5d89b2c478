"""Gradients by weights that are computed as a product, because they have few windows."""

import numpy as np
import pytest
from helpers.pass_graphs.windows import CASES, RNG, SINGLES, SPACED, gradient, single

import onegraph as og
from onegraph import reference
from onegraph.capi.settings import is_native
from onegraph.compiler.passes.window_products import NOTE

needs_bf16 = pytest.mark.skipif(not is_native(og.bf16), reason="the library computes bf16 as f32 on this CPU")


def compare(g, tolerance=1e-5):
    """Compare a run with the reference; returns whether a product computes it."""
    given = {name: RNG.standard_normal(one.shape).astype(one.dtype.numpy) for name, one in g.inputs.items()}
    model, (wanted,) = g.compile(), reference.run(g, given).values()
    wanted = np.asarray(wanted, np.float32)
    np.testing.assert_allclose(model(**given).astype(np.float32), wanted, rtol=0, atol=tolerance * np.abs(wanted).max())
    return any(NOTE in reason for part in model.report().partitions for reason in part.reasons)


@pytest.mark.parametrize("transposed", [False, True], ids=["Convolution", "ConvTranspose"])
@pytest.mark.parametrize("name", CASES)
def test_few_windows_are_one_product(name, transposed):
    source, result, weights, attrs = CASES[name]
    formats = {"OIX": "IOX", "XIO": "XOI"} if transposed else {"OIX": "OIX", "XIO": "XIO"}
    attrs = {**attrs, "weights_format": formats[attrs.get("weights_format", "OIX")]}
    assert compare(gradient(source, result, weights, transposed=transposed, **attrs))


@needs_bf16
@pytest.mark.parametrize("name", CASES)
def test_low_precision_products_round_once(name):
    source, result, weights, attrs = CASES[name]
    assert compare(gradient(source, result, weights, dtype="bf16", **attrs), 2**-8)


@needs_bf16
def test_gradient_that_runs_in_f32_otherwise_needs_no_casts():
    g = gradient((1, 5, 6, 30), (1, 3, 5, 70), (70, 30, 3, 3), dtype="bf16", **SPACED)
    assert not any("TypeCast" in part.kinds for part in g.compile().report().partitions)


def test_gradient_of_a_convolution_by_hand():
    """Every window sees ones, so that each weight gets the number of windows whose element is inside."""
    g = gradient((1, 2, 2, 64), (1, 2, 2, 64), (64, 64, 3, 3), pads_begin=[1, 1], pads_end=[1, 1])
    model, ones = g.compile(), np.ones((1, 2, 2, 64), np.float32)
    found = model(x=ones, dy=ones)
    assert (found == np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]], np.float32)).all()


@pytest.mark.parametrize(("kind", "data", "weights", "weights_format"), SINGLES)
def test_convolution_of_single_elements_is_one_product(kind, data, weights, weights_format):
    assert compare(single(kind, data, weights, weights_format=weights_format))


@needs_bf16
@pytest.mark.parametrize(("kind", "data", "weights", "weights_format"), SINGLES)
def test_low_precision_convolution_of_single_elements(kind, data, weights, weights_format):
    assert compare(single(kind, data, weights, dtype="bf16", weights_format=weights_format), 2**-8)


def test_convolution_that_the_library_fuses_stays():
    assert not compare(single("Convolution", (2, 7, 5, 96), (200, 96, 1, 1), then="ReLU"))


def test_convolution_with_constant_weights_stays():
    assert not compare(single("Convolution", (2, 7, 5, 96), (200, 96, 1, 1), constant=True))


def test_convolution_of_many_elements_stays():
    assert not compare(single("Convolution", (1, 32, 32, 96), (200, 96, 1, 1)))


OTHERS = {
    "many windows": ((1, 10, 10, 64), (1, 8, 8, 64), (64, 64, 3, 3), {}),
    "groups": ((1, 4, 4, 64), (1, 2, 2, 64), (64, 32, 3, 3), {"groups": 2}),
    "channels first": ((1, 64, 4, 4), (1, 64, 2, 2), (64, 64, 3, 3), {"data_format": "NCX"}),
    "few weights": ((1, 4, 4, 8), (1, 2, 2, 16), (16, 8, 3, 3), {}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_gradients_stay_the_library_s(name):
    source, result, weights, attrs = OTHERS[name]
    assert not compare(gradient(source, result, weights, **attrs))


def test_source_that_other_ops_read_stays_whole():
    """The gradient of a part of an image, whose other reader gets it unchanged."""
    g, window = og.Graph(), {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    x, dy = g.relu(g.input("x", "f32", (1, 3, 3, 64))), g.input("dy", "f32", (1, 3, 3, 64))
    attrs = {**window, "data_format": "NXC", "weights_format": "OIX", "weights_shape": [64, 64, 3, 3]}
    g.output("dw", g.op("ConvolutionBackwardWeights", [x, dy], attrs))
    g.output("y", g.multiply(x, dy))
    given = {name: RNG.standard_normal(one.shape).astype(np.float32) for name, one in g.inputs.items()}
    found, wanted = g.compile()(**given), reference.run(g, given)
    np.testing.assert_allclose(found.dw, wanted["dw"], rtol=0, atol=1e-4)
    np.testing.assert_array_equal(found.y, np.maximum(given["x"], 0) * given["dy"])
