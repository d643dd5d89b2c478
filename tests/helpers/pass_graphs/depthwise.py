"""Convolutions of each channel."""

from __future__ import annotations

import numpy as np

import onegraph as og
import onegraph.onnx
from onegraph.faults.depthwise import MOST_PADS

C = 24


def drawn(*shape):
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def weights_of(layout, *window):
    return (C, 1, *window) if layout[0] in "OI" else (*window, 1, C)


def row(kind, layout, data_format, shape, behind=(), is_constant=True, bias=False, **attrs):
    """A graph with one convolution of rows, or a gradient of it."""
    g = og.Graph()
    how = {"strides": [1], "pads_begin": [1], "pads_end": [1], "dilations": [1], "groups": C}
    how |= {"weights_format": layout, "data_format": data_format, **attrs}
    data = (shape[0], shape[1], C) if data_format == "NXC" else (shape[0], C, shape[1])
    cells = weights_of(layout, 3)
    src = g.input("x", "f32", data)
    if kind == "ConvolutionBackwardWeights":
        other = og.Graph()
        forward = other.op("Convolution", [other.input("x", "f32", data), other.input("w", "f32", cells)], how)
        return g, g.op(kind, [src, g.input("dy", "f32", forward.shape)], {**how, "weights_shape": list(cells)})
    weights = g.constant(drawn(*cells)) if is_constant else g.input("w", "f32", cells)
    ends = [src, weights, *([g.constant(drawn(C))] if bias else [])]
    if kind == "ConvolutionBackwardData":
        how["dst_shape"] = list(data)
    return g, g.op(kind, ends, how)


def image(dilations, pads, data_format="NXC", size=(20, 22), behind=False):
    g = og.Graph()
    how = {"strides": [1, 1], "pads_begin": pads[0], "pads_end": pads[1], "dilations": dilations, "groups": C}
    shape = (2, *size, C) if data_format == "NXC" else (2, C, *size)
    ends = [g.input("x", "f32", shape), g.constant(drawn(C, 1, 3, 3)), g.constant(drawn(C))]
    y = g.op("Convolution", ends, {**how, "weights_format": "OIX", "data_format": data_format})
    g.output("out", g.relu(y) if behind else y)
    return g


FAR = MOST_PADS + 1
