"""Products and convolutions of 8-bit codes by constant ones."""

import numpy as np

import onegraph as og


def drawn(dtype, *shape):
    info = np.iinfo(dtype)
    return np.random.default_rng(shape).integers(info.min, info.max + 1, shape).astype(dtype)


def quantized(g, src, scale, zero):
    return g.dequantize(g.quantize(src, scales=[scale], zps=[zero], dtype="u8"), scales=[scale], zps=[zero])


def of_codes(g, rng, codes, axis):
    scales = rng.uniform(0.001, 0.01, codes.shape[axis]).tolist()
    return g.dequantize(g.constant(codes), scales=scales, zps=[0] * len(scales), qtype="per_channel", axis=axis)


def a_product(shape):
    g, rng = og.Graph(), np.random.default_rng(1)
    x = g.input("x", "f32", shape)
    codes = g.constant(drawn(np.int8, 48, 40))
    weights = g.dequantize(
        codes, scales=rng.uniform(0.001, 0.01, 40).tolist(), zps=[0] * 40, qtype="per_channel", axis=1
    )
    y = g.matmul(quantized(g, x, 0.02, 120), weights, g.constant(rng.standard_normal(40).astype(np.float32)))
    g.output("y", quantized(g, g.relu(y), 0.03, 7))
    return g


def a_convolution(shape):
    g, rng = og.Graph(), np.random.default_rng(1)
    x = g.input("x", "f32", shape)
    codes = g.constant(drawn(np.int8, 24, 48, 3, 3))
    weights = g.dequantize(
        codes, scales=rng.uniform(0.001, 0.01, 24).tolist(), zps=[0] * 24, qtype="per_channel", axis=0
    )
    bias = g.constant(rng.standard_normal(24).astype(np.float32))
    given = {"strides": [2, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    y = g.convolution(quantized(g, x, 0.02, 120), weights, bias, **given, data_format="NXC", weights_format="OIX")
    g.output("y", quantized(g, g.relu(y), 0.03, 7))
    return g


def a_sum_of_products(shape):
    g, rng = og.Graph(), np.random.default_rng(1)
    x = quantized(g, g.input("x", "f32", shape), 0.02, 120)
    parts = [g.matmul(x, of_codes(g, rng, drawn(np.int8, 48, 40), 1)) for _ in range(2)]
    g.output("y", g.multiply(g.add(*parts), g.constant(rng.standard_normal(40).astype(np.float32))))
    return g


def a_product_of_results(shape):
    g = og.Graph()
    x = g.input("x", "f32", shape)
    first, second = quantized(g, x, 0.02, 120), quantized(g, x, 0.03, 128)
    g.output("y", quantized(g, g.matmul(first, second, transpose_b=True), 1.5, 90))
    return g
