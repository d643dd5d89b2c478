"""Graphs that several test modules run."""

import onegraph as og


def network(dtype=og.f32, depth=3):
    """Layers of a convolution, a ReLU and a Sigmoid, which fuse."""
    g = og.Graph()
    y = g.input("x", dtype, (2, 8, 8, 4))
    for layer in range(depth):
        weights = g.input(f"w{layer}", dtype, (3, 3, 4, 4))
        attrs = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
        y = g.relu(g.convolution(y, weights, **attrs, name=f"conv_{layer}"), name=f"relu_{layer}")
        y = g.sigmoid(y, name=f"sigmoid_{layer}")
    g.output("y", y)
    return g
