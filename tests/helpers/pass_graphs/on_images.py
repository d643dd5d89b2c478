"""Graphs on images of open sizes: one for each op whose steps a kernel of the package takes where sizes are open."""

import numpy as np

import onegraph as og
from onegraph.compiler.passes.open_steps import ELEMENTWISE


def drawn(*shape):
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def on_images(build, **attrs):
    """A graph on images of any size."""
    g = og.Graph()
    x = g.input("x", "f32", (None, 6, None, None))
    g.output("y", build(g, g.relu(x), **attrs))
    return g


ATTRS = {"LeakyReLU": {"alpha": 0.1}}


def shifted(g, x):
    return g.subtract(x, np.float32(1))


OPS = {
    "AvgPool": lambda g, x: g.avg_pool(
        x, kernel=(2, 3), strides=(1, 2), pads_begin=(0, 1), pads_end=(1, 0), exclude_pad=True, data_format="NCX"
    ),
    "Interpolate": lambda g, x: g.interpolate(x, mode="bilinear", scales=(2.0, 2.0), data_format="NCX"),
    "LayerNorm": lambda g, x: g.group_norm(
        x, drawn(6), drawn(6)[::-1].copy(), groups=2, data_format="NCX", keep_stats=False
    ),
    "SoftMax": lambda g, x: g.softmax(x, axis=-1),
    "BatchNormInference": lambda g, x: g.batch_norm_inference(
        x, drawn(6), drawn(6, 1)[:, 0], drawn(6), drawn(6) ** 2, epsilon=1e-5, data_format="NCX"
    ),
    "BatchNormTrainingBackward": lambda g, x: g.op(
        "BatchNormTrainingBackward",
        [x, shifted(g, x), drawn(6), drawn(6) ** 2 + 1],
        {"epsilon": 1e-5, "data_format": "NCX"},
        outputs=["diff_src"],
    ),
    "LayerNormBackward": lambda g, x: g.op(
        "LayerNormBackward",
        [x, shifted(g, x), g.reduce_mean(x, axes=(3,)), g.reduce_mean(g.exp(x), axes=(3,))],
        {"use_affine": False},
    ),
    "MatMul": lambda g, x: g.matmul(x, g.subtract(x, np.float32(1)), transpose_b=True),
    "ReduceL1": lambda g, x: g.reduce_l1(x, axes=(1, 3), keep_dims=True),
    "ReduceL2": lambda g, x: g.reduce_l2(x, axes=(2,), keep_dims=False),
    "ReduceMean": lambda g, x: g.reduce_mean(x, axes=(2, 3), keep_dims=True),
    "ReduceProd": lambda g, x: g.reduce_prod(x, axes=(1,), keep_dims=True),
    "ReduceSum": lambda g, x: g.reduce_sum(x, axes=(0, 3), keep_dims=False),
    **{kind: lambda g, x, kind=kind: g.op(kind, [shifted(g, x)], ATTRS.get(kind, {})) for kind in ELEMENTWISE},
}
