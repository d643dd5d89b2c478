"""Show which ops the library fuses, in which data types, and what it does not support."""

import numpy as np

import onegraph as og


def attention(dtype: og.DataType) -> og.Graph:
    """softmax(Q K' / sqrt(d) + mask) V, the core of a transformer, for 2 batches, 4 heads, 16 tokens of 8."""
    g = og.Graph(edition="onednn-3.2")
    q, k, v = (g.input(name, dtype, (2, 4, 16, 8)) for name in "qkv")
    mask = g.input("mask", dtype, (2, 1, 1, 16))
    scale = g.constant(np.full((1,), 8**0.5, dtype.numpy))
    scores = g.add(g.divide(g.op("MatMul", [q, k], {"transpose_b": True}), scale), mask)
    weights = g.op("SoftMax", [scores], {"axis": -1})
    heads = g.static_transpose(g.op("MatMul", [weights, v]), order=[0, 2, 1, 3])
    g.output("dst", g.static_reshape(heads, shape=[2, 16, 32], special_zero=False))
    return g


rng = np.random.default_rng(0)
for dtype in (og.f32, og.bf16):
    graph = attention(dtype)
    print(f"--- {dtype}, as the library partitions it")
    for partition in graph.partitions(policy="fusion"):
        print(f"  {partition}")
    model = graph.compile()
    print(model.report())
    inputs = {port.name: rng.standard_normal(port.shape).astype(dtype.numpy) for port in model.inputs}
    result, exact = model(**inputs), og.reference.run(graph, inputs)["dst"]
    print(f"largest difference from numpy: {np.abs(result.astype('f8') - exact.astype('f8')).max():.1e}\n")

try:
    graph = og.Graph()
    graph.output("dst", graph.pow(graph.input("src", og.f32, (16,)), beta=1.7))
    graph.compile(fallback=False)
except og.UnsupportedError as error:
    print(error)
