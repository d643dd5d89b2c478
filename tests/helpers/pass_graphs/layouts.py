"""Convolutions by weights that are cast."""

from __future__ import annotations

import onegraph as og

IMAGE, WINDOW = (2, 6, 6, 8), {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}


def graph(kind, attrs, shape, also=()):
    """An op on bf16 images and on weights that are cast to bf16; ``also`` names further readers of the weights."""
    g = og.Graph()
    x = g.type_cast(g.input("x", "f32", IMAGE), dtype="bf16")
    weights = g.type_cast(g.input("w", "f32", shape), dtype="bf16")
    g.output("y", g.op(kind, [x, weights], {**WINDOW, "data_format": "NXC", **attrs}))
    if "output" in also:
        g.output("cast", weights)
    if "relu" in also:
        g.output("other", g.relu(weights))
    return g


CASES = [
    ("Convolution", {"weights_format": "OIX"}, (5, 8, 3, 3)),
    ("Convolution", {"weights_format": "OIX"}, (48, 8, 3, 5)),
    ("ConvolutionBackwardData", {"weights_format": "OIX", "dst_shape": [2, 6, 6, 4]}, (8, 4, 3, 3)),
    ("ConvTranspose", {"weights_format": "IOX"}, (8, 7, 3, 3)),
    ("ConvTransposeBackwardData", {"weights_format": "IOX"}, (7, 8, 3, 3)),
]
