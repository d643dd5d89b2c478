"""Convolutions of few windows and their gradients."""

from __future__ import annotations

import numpy as np

import onegraph as og

RNG = np.random.default_rng(0)


def gradient(source, result, weights, *, dtype="f32", transposed=False, **attrs):
    """A graph with the gradient of a convolution by weights; ``transposed`` exchanges its sides."""
    axes = len(source) - 2
    window = {"strides": [1] * axes, "dilations": [1] * axes, "pads_begin": [0] * axes, "pads_end": [0] * axes}
    g, kind = og.Graph(), "ConvTransposeBackwardWeights" if transposed else "ConvolutionBackwardWeights"
    ends = [g.input("x", dtype, source), g.input("dy", dtype, result)]
    found = {**window, "data_format": "NXC", "weights_format": "OIX", "weights_shape": [*weights], **attrs}
    g.output("dw", g.op(kind, ends[::-1] if transposed else ends, found))
    return g


SPACED = {"strides": [2, 1], "dilations": [1, 2], "pads_begin": [1, 2], "pads_end": [2, 1]}


WIDE = {"pads_begin": [2, 2], "pads_end": [2, 2]}


CASES = {
    "one window": ((1, 4, 4, 40), (1, 1, 1, 64), (64, 40, 4, 4), {}),
    "windows inside": ((2, 5, 6, 30), (2, 3, 4, 70), (70, 30, 3, 3), {}),
    "padding, strides, dilations": ((1, 5, 6, 30), (1, 3, 5, 70), (70, 30, 3, 3), SPACED),
    "weights in another format": ((1, 5, 6, 30), (1, 3, 5, 70), (3, 3, 30, 70), {**SPACED, "weights_format": "XIO"}),
    "padding that reaches the end": ((1, 3, 3, 60), (1, 5, 5, 80), (80, 60, 3, 3), WIDE),
    "windows in the padding alone": ((1, 1, 1, 60), (1, 2, 2, 80), (80, 60, 2, 2), {**WIDE, "pads_end": [0, 0]}),
    "elements behind the last window": ((1, 6, 6, 60), (1, 2, 2, 80), (80, 60, 2, 2), {"strides": [3, 3]}),
    "single elements": ((1, 3, 4, 160), (1, 3, 4, 120), (120, 160, 1, 1), {}),
    "every other element": ((1, 5, 7, 160), (1, 3, 4, 120), (120, 160, 1, 1), {"strides": [2, 2]}),
    "one axis": ((3, 9, 80), (3, 4, 90), (90, 80, 3), {"strides": [2]}),
    "three axes": ((1, 3, 4, 3, 40), (1, 2, 3, 2, 60), (60, 40, 2, 2, 2), {}),
}  # fmt: skip


def single(kind, data, weights, *, dtype="f32", weights_format="OIX", constant=False, then=None):
    """A graph with a convolution of single elements, or its gradient by the data."""
    axes = len(data) - 2
    window = {"strides": [1] * axes, "dilations": [1] * axes, "pads_begin": [0] * axes, "pads_end": [0] * axes}
    g = og.Graph()
    x = g.input("x", dtype, data)
    w = (
        g.constant(np.random.default_rng(weights).standard_normal(weights).astype(np.float32))
        if constant
        else g.input("w", dtype, weights)
    )
    attrs = {**window, "data_format": "NXC", "weights_format": weights_format}
    if kind.endswith("Data"):
        attrs["dst_shape"] = [*data[:-1], weights[1 if weights_format == "OIX" else -2]]
    y = g.op(kind, [x, w], attrs)
    g.output("y", y if then is None else g.op(then, [y]))
    return g


SINGLES = [
    ("Convolution", (2, 7, 5, 96), (200, 96, 1, 1), "OIX"),
    ("Convolution", (2, 7, 5, 96), (1, 1, 96, 200), "XIO"),
    ("ConvolutionBackwardData", (2, 7, 5, 200), (200, 96, 1, 1), "OIX"),
    ("ConvolutionBackwardData", (2, 7, 5, 200), (1, 1, 96, 200), "XIO"),
    ("Convolution", (3, 9, 128), (128, 128, 1), "OIX"),
]
