"""Graphs with an open dim, whose programs are compared with those of known dims."""

import numpy as np

import onegraph as og
from onegraph.capi.settings import has_avx512
from onegraph.compiler.kernels.kernel import COMPILED_ANEW
from onegraph.compiler.kernels.panel_product import FOR_SIZES


def assert_same(found, known, model):
    """The bits are equal where the same kernels run.

    Without AVX-512 a product of more rows sums in another order, and so do the kernels for any number of elements.
    """
    if has_avx512() and not any(reason in str(model.report()) for reason in (FOR_SIZES, COMPILED_ANEW)):
        np.testing.assert_array_equal(found, known)
    else:
        np.testing.assert_allclose(found, known, rtol=1e-5, atol=1e-5)


def drawn(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def product(g, x):
    y = g.matmul(x, g.constant(drawn(16, 24)))
    return g.gelu(g.add(y, g.constant(drawn(24))))


def two_products(g, x):
    return g.matmul(g.relu(g.matmul(x, g.constant(drawn(16, 24)))), g.constant(drawn(24, 8)))


def layers(g, x):
    for seed in range(4):
        x = g.tanh(g.matmul(x, g.constant(drawn(16, 16, seed=seed))))
    return x


def normalized(g, x):
    y = g.layer_norm(x, g.constant(drawn(16)), g.constant(drawn(16)), keep_stats=False)
    return g.softmax(g.add(x, y), axis=-1)


def gated(g, x):
    return g.multiply(x, g.sigmoid(g.matmul(x, g.constant(drawn(16, 16)))))


def attended(g, x):
    q = g.matmul(x, g.constant(drawn(16, 16)))
    scores = g.softmax(g.multiply(g.matmul(q, x, transpose_b=True), g.constant(drawn(1))), axis=-1)
    return g.matmul(scores, x)


def summed(g, x):
    return g.divide(x, g.reduce_sum(g.exp(x), axes=(-1,), keep_dims=True))


def joined(g, x):
    return g.concat(x, g.tanh(x), axis=1)


def swapped(g, x):
    turned = g.static_transpose(x, order=(1, 0))
    return g.static_transpose(g.matmul(g.constant(drawn(4, 16)), turned), order=(1, 0))


OF_MATRICES = [joined, swapped]  # whose attributes name the axes of a matrix
MATRICES = [product, two_products, layers, normalized, gated, attended, summed, *OF_MATRICES]
WINDOW = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1)}


def convolved(g, x):
    y = g.convolution(x, g.constant(drawn(8, 4, 3, 3)), g.constant(drawn(8)), **WINDOW, **CHANNELS_FIRST)
    return g.max_pool(g.relu(y), kernel=(2, 2), strides=(2, 2), pads_begin=(0, 0), pads_end=(0, 0), data_format="NCX")


def residual(g, x):
    y = g.convolution(x, g.constant(drawn(4, 4, 3, 3)), **WINDOW, **CHANNELS_FIRST)
    window = {"kernel": (2, 2), "strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0)}
    return g.avg_pool(g.add(x, y), **window, exclude_pad=True, data_format="NCX")


def quantized(g, x):
    codes = g.quantize(x, scales=(0.05,), zps=(3,), dtype="u8")
    weights = g.constant(np.random.default_rng(0).integers(-128, 127, (8, 4, 3, 3)).astype(np.int8))
    scales = tuple(np.linspace(0.01, 0.02, 8).tolist())
    w = g.dequantize(weights, scales=scales, zps=(0,) * 8, qtype="per_channel", axis=0)
    y = g.relu(g.convolution(g.dequantize(codes, scales=(0.05,), zps=(3,)), w, **WINDOW, **CHANNELS_FIRST))
    return g.dequantize(g.quantize(y, scales=(0.1,), zps=(0,), dtype="u8"), scales=(0.1,), zps=(0,))


CHANNELS_FIRST = {"data_format": "NCX", "weights_format": "OIX"}
IMAGES = [convolved, residual, quantized]


def opened(build, shape):
    g = og.Graph()
    g.output("y", build(g, g.input("x", og.f32, shape)))
    return g
