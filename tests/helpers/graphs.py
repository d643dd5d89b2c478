"""Graphs that several test modules run."""

import onegraph as og
from onegraph.opset.dtypes import OF_NUMPY


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


def graph_of_case(case, results=None):
    """A graph of a case of an op, with all results as outputs, or with the first ones."""
    graph = og.Graph()
    types = [OF_NUMPY[array.dtype] for array in case.inputs]
    ends = [
        graph.constant(array, dtype=dtype) if dtype is og.DataType.s64 else graph.input(f"x{n}", dtype, array.shape)
        for n, (array, dtype) in enumerate(zip(case.inputs, types, strict=True))
    ]
    options = {name: value for name, value in (("dtype", case.dtype), ("outputs", case.outputs)) if value}
    made = graph.op(case.kind, ends, case.attrs, **options) if case.kind not in ("Wildcard", "End") else ()
    for place, tensor in enumerate((made if isinstance(made, tuple) else (made,))[:results]):
        graph.output(f"y{place}", tensor)
    return graph
