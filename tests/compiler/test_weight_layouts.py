"""Weights of convolutions that a cast lays out as the library's kernels copy them fastest."""

import numpy as np
import pytest
from helpers.pass_graphs.layouts import CASES, IMAGE, WINDOW, graph

import onegraph as og
from onegraph import reference
from onegraph.capi.settings import is_native
from onegraph.compiler.passes.weight_layouts import NOTE, channels_inside

RNG = np.random.default_rng(0)
needs_bf16 = pytest.mark.skipif(not is_native(og.bf16), reason="the library computes bf16 as f32 on this CPU")


def compare(g):
    """Compare a run with the reference, and return the notes of the casts of weights."""
    given = {name: RNG.standard_normal(one.shape).astype(np.float32) for name, one in g.inputs.items()}
    model = g.compile()
    found, wanted = model(**given), reference.run(g, given)
    for one, other in zip(found if isinstance(found, tuple) else (found,), wanted.values(), strict=True):
        np.testing.assert_allclose(one.astype(np.float32), np.asarray(other, np.float32), rtol=2e-2, atol=0.15)
    parts = [part for part in model.report().partitions if part.executor == "copy"]
    return [part for part in parts if NOTE in part.reasons]


@needs_bf16
@pytest.mark.parametrize(("kind", "attrs", "shape"), CASES)
def test_cast_weights_lie_with_their_channels_inside(kind, attrs, shape):
    assert len(compare(graph(kind, attrs, shape))) == 1


OTHERS = [
    ("Convolution", {"weights_format": "OIX", "groups": 2}, (6, 4, 3, 3), ()),
    ("Convolution", {"weights_format": "XIO"}, (3, 3, 8, 5), ()),
    ("Convolution", {"weights_format": "OIX", "pads_begin": [0, 0], "pads_end": [0, 0]}, (5, 8, 1, 1), ()),
    ("Convolution", {"weights_format": "OIX"}, (5, 8, 3, 3), ("output",)),
    ("Convolution", {"weights_format": "OIX"}, (5, 8, 3, 3), ("relu",)),
]


@needs_bf16
@pytest.mark.parametrize(("kind", "attrs", "shape", "also"), OTHERS)
def test_other_casts_stay_dense(kind, attrs, shape, also):
    assert not compare(graph(kind, attrs, shape, also))


@needs_bf16
def test_cast_behind_a_dequantize_stays_in_its_fusion():
    g, codes = og.Graph(), {"scales": [0.5], "zps": [0]}
    wide = g.dequantize(g.input("w", "s8", (5, 8, 3, 3)), **codes)
    weights = g.type_cast(wide, dtype="bf16")
    image = g.type_cast(g.dequantize(g.input("x", "s8", IMAGE), **codes), dtype="bf16")
    g.output("y", g.convolution(image, weights, weights_format="OIX", data_format="NXC", **WINDOW))
    notes = [reason for part in g.compile().report().partitions for reason in part.reasons]
    assert NOTE not in notes


def test_strides_of_channels_inside():
    turned = np.empty((3, 4, 7, 5), np.uint8).transpose(2, 3, 0, 1)  # (O, I, height, width), stored with O and I last
    assert channels_inside(turned.shape) == turned.strides


@needs_bf16
def test_results_keep_their_layout_beside_such_weights():
    """The library would choose an order of axes for the images that BatchNorm has a reference kernel for."""
    g = og.Graph()
    x = g.type_cast(g.input("x", "f32", (2, 1, 1, 100)), dtype="bf16")
    weights = g.type_cast(g.input("w", "f32", (100, 32, 4, 4)), dtype="bf16")
    inside = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    y = g.conv_transpose(x, weights, weights_format="IOX", data_format="NXC", **inside)
    vectors = [g.constant(np.ones(32, np.float32)) for _ in range(4)]
    g.output("y", g.batch_norm_forward_training(y, *vectors, epsilon=1e-5, momentum=0.9).dst)
    parts = [part for part in g.compile().report().partitions if "ConvTranspose" in part.kinds]
    assert [value.dense for part in parts for value in part.results] == [True]
