"""Passes and patterns treat every op of a trait alike: an op that one of them once left out does not stand apart."""

import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph.builder.graph import DataGraph
from onegraph.lowering.emitter import Emitter
from onegraph.lowering.movement import transpose
from onegraph.lowering.patterns import REWRITES
from onegraph.opset import kinds
from onegraph.opset.editions.registry import BASE

RNG = np.random.default_rng(0)
FORMULAS = {
    "Add": np.add,
    "Divide": np.divide,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Multiply": np.multiply,
    "SquaredDifference": lambda first, second: (first - second) ** 2,
    "Subtract": np.subtract,
}


def emitted():
    graph = DataGraph()
    return graph, Emitter(graph, REWRITES)


def count(graph, kind):
    return sum(op.kind == kind for op in graph._ops)


@pytest.mark.parametrize("kind", sorted(kinds.ARITHMETIC))
def test_transposes_cancel_around_arithmetic(kind):
    graph, emit = emitted()
    x, y = (graph.input(name, "f32", (2, 5, 6, 3)) for name in "xy")
    turned = [transpose(emit, one, (0, 3, 1, 2)) for one in (emit.op("ReLU", [x]), emit.op("ReLU", [y]))]
    back = transpose(emit, emit.op(kind, turned), (0, 2, 3, 1))
    graph.output("z", emit.op("ReLU", [back]))
    arrays = {name: RNG.uniform(0.5, 2, (2, 5, 6, 3)).astype(np.float32) for name in "xy"}
    (found,) = reference.run(graph, arrays).values()
    np.testing.assert_allclose(found, np.maximum(FORMULAS[kind](arrays["x"], arrays["y"]), 0), rtol=1e-6)
    last = graph._ops[-1]
    assert last.kind == "ReLU"
    assert [op.kind for op in graph._ops if last.inputs[0] in op.outputs] == [kind]


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_gradient_of_resizing_runs_with_channels_last(mode):
    graph, emit = emitted()
    x, d = graph.input("x", "f32", (2, 3, 4, 5)), graph.input("d", "f32", (2, 3, 8, 10))
    attrs = {"mode": "bilinear" if mode == "linear" else mode, "scales": [2.0, 2.0], "data_format": "NCX"}
    attrs["coordinate_transformation_mode"] = "half_pixel"
    graph.output("z", emit.op("InterpolateBackward", [x, d], attrs))
    (op,) = [op for op in graph._ops if op.kind == "InterpolateBackward"]
    assert op.attrs["data_format"] == "NXC"
    plain = DataGraph()
    ends = plain.input("x", "f32", (2, 3, 4, 5)), plain.input("d", "f32", (2, 3, 8, 10))
    plain.output("z", plain.op("InterpolateBackward", ends, attrs))
    arrays = {end.name: RNG.normal(size=end.shape).astype(np.float32) for end in ends}
    (found,), (wanted,) = (reference.run(one, arrays).values() for one in (graph, plain))
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_images_are_the_leading_inputs():
    for kind in kinds.with_attribute("data_format"):
        images = [port.name in ("src", "diff_dst") for port in BASE[kind].inputs]
        assert images == sorted(images, reverse=True) or kind in ("PReLUBackward", "BatchNormTrainingBackward"), kind


@pytest.mark.library
@pytest.mark.parametrize("shape", [(6, 4, 3), (4, 3), (1, 4, 1), (6, 1, 1)], ids=str)
def test_slopes_of_rows_stay_with_their_rows(shape):
    g = og.Graph()
    x, slope = g.input("x", "f32", (6, 4, 3)), g.input("slope", "f32", shape)
    g.output("y", g.prelu(g.relu(g.multiply(x, x)), slope, data_format="NCX", per_channel_broadcast=False))
    g.output("z", g.prelu(x, slope, data_format="NCX", per_channel_broadcast=False))
    a, b = RNG.normal(size=(6, 4, 3)).astype(np.float32), RNG.normal(size=shape).astype(np.float32)
    first, second = g.compile(reproducible=True)(x=a, slope=b)
    np.testing.assert_allclose(first, a * a, rtol=1e-6)
    np.testing.assert_allclose(second, np.where(a > 0, a, a * b), rtol=1e-6)


@pytest.mark.library
@pytest.mark.parametrize("kind", sorted(kinds.ARITHMETIC))
def test_arithmetic_on_codes_is_one_table(kind):
    g = og.Graph()
    x = g.dequantize(g.input("x", "u8", (3, 256)), scales=[0.0625], zps=[9])
    g.output("z", g.quantize(g.op(kind, [x, g.constant(np.float32(1.5))]), scales=[0.125], zps=[3], dtype="u8"))
    model, codes = g.compile(), np.tile(np.arange(256, dtype=np.uint8), (3, 1))
    numbers = FORMULAS[kind]((codes - 9.0) * 0.0625, 1.5)
    wanted = np.clip(np.rint(numbers / 0.125) + 3, 0, 255).astype(np.int64)
    assert abs(model(x=codes).astype(np.int64) - wanted).max() <= 1
    assert [part.executor for part in model.report().partitions] == ["kernel"]
