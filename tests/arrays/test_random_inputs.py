"""Random inputs in the domain of the ops that read them."""

import json

import numpy as np
import pytest

import onegraph as og
from onegraph.testing.calibrated_inputs import calibrated_inputs
from onegraph.testing.random_inputs import Domain, random_inputs


def graph(shape=(4, 8), dtype=og.f32):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", dtype, shape)))
    return g


@pytest.mark.parametrize(
    ("add", "holds"),
    [
        (lambda g, x: g.sqrt(x), lambda x: x.min() > 0),
        (lambda g, x: g.log(x), lambda x: x.min() > 0),
        (lambda g, x: g.reciprocal(x), lambda x: abs(x).min() >= 0.5),
        (lambda g, x: g.pow(x, beta=-1), lambda x: abs(x).min() >= 0.5),
        (lambda g, x: g.pow(x, beta=0.5), lambda x: x.min() > 0),
        (lambda g, x: g.pow(x, beta=2), lambda x: x.min() < 0),
        (lambda g, x: g.sqrt(g.static_reshape(x, shape=[-1], special_zero=False)), lambda x: x.min() > 0),
        (lambda g, x: g.divide(x, x), lambda x: abs(x).min() >= 0.5),
        (lambda g, x: g.exp(x), lambda x: x.min() < 0 < x.max() <= 2),
        (lambda g, x: g.reduce_prod(x, axes=[0]), lambda x: abs(x).min() >= 0.9),
        (lambda g, x: g.elu_backward(x, x, alpha=0.5), lambda x: -0.5 < x.min() < 0),
        (lambda g, x: g.elu_backward(x, x, alpha=float("inf")), lambda x: -2 <= x.min() < x.max() <= 2),
        (lambda g, x: g.sigmoid_backward(x, x), lambda x: 0 < x.min() < x.max() < 1),
        (lambda g, x: g.add(g.sqrt(x), g.sigmoid_backward(x, x)), lambda x: 0.25 <= x.min() < x.max() < 1),
    ],
)
def test_consumers_choose_the_domain(add, holds):
    g = og.Graph()
    g.output("y", add(g, g.input("x", og.f32, (50, 40))))
    assert holds(random_inputs(g)["x"])


def test_results_that_stay_infinite_are_given_up():
    g = og.Graph()
    y = g.input("x", og.f32, (8,))
    for _ in range(4):
        y = g.multiply(y, np.float32(1e38))
    g.output("y", y)
    assert np.isfinite(calibrated_inputs(g)["x"]).all()


def test_batch_norm_has_a_positive_variance():
    g = og.Graph()
    sizes = {"src": (2, 8, 8, 3), "gamma": (3,), "beta": (3,), "mean": (3,), "variance": (3,)}
    g.output("y", g.batch_norm_inference(*(g.input(name, og.f32, dims) for name, dims in sizes.items()), epsilon=0.001))
    inputs = random_inputs(g)
    assert inputs["variance"].min() > 0
    assert np.isfinite(og.reference.run(g, inputs)["y"]).all()


@pytest.mark.parametrize(
    ("edition", "kind", "shape"),
    [("onednn-3.13", "ReduceSum", (2,)), ("legacy-1", "DynamicTranspose", (4,)), ("legacy-1", "Index", (7,))],
)
def test_shape_tensors_fit_the_graph(edition, kind, shape):
    g = og.Graph(edition)
    g.output("y", g.op(kind, [g.input("x", og.f32, (2, 3, 4, 5)), g.input("contents", og.s32, shape)]))
    assert np.isfinite(og.reference.run(g, random_inputs(g))["y"]).all()


def test_asks_for_unknown_sizes():
    g = og.Graph()
    x, sizes = g.input("x", og.f32, (2, 3, 4, 5)), g.input("sizes", og.s32, (2,))
    g.output("y", g.interpolate(x, sizes, mode="nearest"))
    message = (
        r"input 'sizes': sizes of Interpolate 'interpolate_0' follows from nothing .*; give its contents \(--inputs\)"
    )
    with pytest.raises(og.ArgumentError, match=message):
        random_inputs(g)


def test_shape_tensor_follows_the_declared_output():
    g = og.Graph()
    x = g.input("x", og.f32, (1, 5, 7, 2))
    weights = g.input("weights", og.f32, (3, 3, 4, 2))
    attrs = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    g.output("y", g.convolution_backward_data(x, weights, g.input("dst_shape", og.s32, (4,)), **attrs))
    form = json.loads(g.to_json())
    output = form["graph"][0]["outputs"][0]
    output["shape"], output["stride"] = [1, 7, 9, 4], [252, 36, 4, 1]
    declared = og.Graph.from_json(json.dumps({"graph": form["graph"]}))
    inputs = list(random_inputs(declared).values())
    assert inputs[2].tolist() == [1, 7, 9, 4]


@pytest.mark.parametrize("dtype", [og.f32, og.bf16, og.f16, og.s8, og.u8, og.s32, og.boolean])
def test_every_data_type_gets_small_numbers(dtype):
    g = og.Graph()
    x = g.input("x", dtype, (300,))
    g.output("x_again", x)
    values = random_inputs(g)["x"]
    assert values.dtype == dtype.numpy
    assert len(np.unique(values.astype(np.float32))) > 1
    assert abs(values.astype(np.float32)).max() <= 100


@pytest.mark.parametrize(
    ("dtype", "zero_point", "low", "high"),
    [(og.u8, 0, 0, 64), (og.u8, 134, 102, 166), (og.u8, 250, 191, 255), (og.s8, 0, -32, 32), (og.s8, -3, -35, 29)],
)
def test_integers_lie_around_the_zero_point(dtype, zero_point, low, high):
    g = og.Graph()
    g.output("y", g.dequantize(g.input("x", dtype, (2000,)), scales=[0.5], zps=[zero_point]))
    values = random_inputs(g)["x"]
    assert (values.min(), values.max()) == (low, high)


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (Domain(-2, 2, 0.5), Domain(-1, 5, 0.1), Domain(-1, 2, 0.5)),
        (Domain(-2, 2, 0.1, 3), Domain(-3, 1, 0.5), Domain(-2, 1, 0.5, 3)),
        (Domain(), Domain(zero=4), Domain(zero=4)),
        (Domain(zero=3), Domain(zero=4), Domain(zero=3)),
        (Domain(0, 1, 0.25), Domain(1, 2, 0.5, 4), Domain(0, 1, 0.25)),
        (Domain(3, 4), Domain(1, 2), Domain(3, 4)),
    ],
)
def test_domains_of_two_readers(first, second, both):
    assert first & second == both


def test_seed_and_name_fix_the_numbers():
    g = og.Graph()
    g.output("y", g.add(g.input("a", og.f32, (9,)), g.input("b", og.f32, (9,))))
    first, again, other = random_inputs(g, 1), random_inputs(g, 1), random_inputs(g, 2)
    assert all(np.array_equal(first[name], again[name]) for name in "ab")
    assert not np.array_equal(first["a"], other["a"])
    assert not np.array_equal(first["a"], first["b"])


@pytest.mark.library
def test_keeps_strides_and_aligns_memory():
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (3, 4), strides=(1, 3))))
    values = random_inputs(g)["x"]
    assert values.strides == (4, 12)
    assert values.ctypes.data % 64 == 0
    g.compile().bind(x=values)  # bind accepts the declared layout only


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((None, 4), r"input 'x': shape \[\?, 4\]; expected known dims"),
        ((2**20, 2**20, 2**10), "the tensors of the graph take .* GiB; expected no more than the memory"),
    ],
)
def test_rejects_inputs_that_cannot_be_made(shape, message):
    with pytest.raises(og.ArgumentError, match=message):
        random_inputs(graph(shape))
