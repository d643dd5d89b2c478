"""Agreement is a proof: verify notices every op that is changed, and says where it would not."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import draws

import onegraph as og
from onegraph import training
from onegraph.cli import cli
from onegraph.reference.run import narrow, run_op
from onegraph.testing.calibrated_inputs import calibrated_inputs
from onegraph.testing.mutations import CLASSES, moved, mutation
from onegraph.testing.random_graph import random_graph
from onegraph.testing.random_inputs import random_inputs
from onegraph.testing.tolerance import compare
from onegraph.tools import changed_ops, expected_results
from onegraph.tools import verify as module
from onegraph.tools.verify import verify

KINDS = (
    *("Add", "Subtract", "Multiply", "Divide", "Maximum", "MatMul", "Convolution", "ConvTranspose", "BiasAdd", "PReLU"),
    *("ReLU", "LeakyReLU", "Tanh", "Sigmoid", "GELU", "Elu", "Clamp", "Square", "SoftMax", "LayerNorm", "MaxPool"),
    *("AvgPool", "ReduceSum", "ReduceMax", "Concat", "StaticReshape", "StaticTranspose", "Quantize", "Dequantize"),
)


def falsify(monkeypatch, name, results):
    """Give the reference other results for one op, so that the results of the library are wrong."""

    def run(op, inputs, **options):
        return results if op.name == name else run_op(op, inputs, **options)

    for user in (expected_results, changed_ops):
        monkeypatch.setattr(user, "run_op", run)


def reads(graph, inputs):
    """The arrays that each op reads, and its results before the last rounding."""
    values = {tensor.id: inputs[name] for name, tensor in graph.inputs.items()}
    for op in graph.ops:
        values.update({tensor.id: tensor.value for tensor in op.inputs if tensor is not None and tensor.constant})
        given = [None if tensor is None else values[tensor.id] for tensor in op.inputs]
        yield op, given, run_op(op, given, rounded=False)
        values.update(zip([tensor.id for tensor in op.outputs], run_op(op, given), strict=False))


@pytest.fixture(autouse=True)
def enough_time(monkeypatch):
    monkeypatch.setattr(module, "MUTATION_SECONDS", 60.0)


@pytest.mark.parametrize("dtypes", [["f32"], ["f32", "bf16"], ["f32", "s8", "u8"]], ids="-".join)
@pytest.mark.parametrize("seed", range(draws(2, 6)))
def test_every_changed_op_is_noticed(seed, dtypes, monkeypatch):
    graph = random_graph(seed, 6, kinds=KINDS, dtypes=dtypes)
    inputs = calibrated_inputs(graph, seed)
    right = verify(graph, inputs)
    assert right.agrees
    named = {one.op for one in right.unnoticed}
    tried = Counter()
    for op, given, results in reads(graph, inputs):
        label = f"{op.kind} {op.name!r}"
        if label in named:
            continue  # verify says itself that it proves nothing about this op
        changes = [change for kind in CLASSES if (change := mutation(kind, op, given, results)) is not None]
        noticed = []
        for change in changes or [moved(results)]:
            with monkeypatch.context() as patch:
                falsify(patch, op.name, change.results)
                wrong = verify(graph, inputs)
            noticed.append(not wrong.agrees)
            same = all(
                np.array_equal(one, right.results[name]) for name, one in outputs_with(graph, inputs, op, change)
            )
            assert noticed[-1] or same, (label, change.text)
            tried[change.text.split()[0]] += 1
        assert any(noticed), label
    assert right.changed == right.provable == len(graph.ops)
    assert sum(tried.values()) + len(named) >= len(graph.ops)


def outputs_with(graph, inputs, changed, change):
    """The outputs of a graph, by name, with a changed op."""
    values = {tensor.id: inputs[name] for name, tensor in graph.inputs.items()}
    for op in graph.ops:
        values.update({tensor.id: tensor.value for tensor in op.inputs if tensor is not None and tensor.constant})
        given = [None if tensor is None else values[tensor.id] for tensor in op.inputs]
        found = change.results if op is changed else run_op(op, given, rounded=False)
        rounded = [narrow(one, t.dtype) for one, t in zip(found, op.outputs, strict=False)]
        values.update(zip([tensor.id for tensor in op.outputs], rounded, strict=False))
    return [(name, values[tensor.id]) for name, tensor in graph.outputs.items()]


@pytest.mark.parametrize(
    ("kind", "attrs", "other", "shapes"),
    [
        ("MatMul", {}, {"transpose_b": True}, [(8, 16), (16, 16)]),
        ("SoftMax", {"axis": 1}, {"axis": 0}, [(8, 8)]),
        ("LeakyReLU", {"alpha": 0.5}, {"alpha": 0.55}, [(8, 8)]),
        ("StaticTranspose", {"order": [1, 0]}, {"order": [0, 1]}, [(8, 8)]),
        ("ReduceSum", {"axes": [0]}, {"axes": [1]}, [(8, 8)]),
        ("Clamp", {"min": -1.0, "max": 1.0}, {"min": -1.0, "max": 1.1}, [(8, 8)]),
    ],
)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_changed_attributes_differ(kind, attrs, other, shapes, dtype, monkeypatch):
    g, changed = og.Graph(), og.Graph()
    for graph, values in ((g, attrs), (changed, other)):
        inputs = [graph.input(f"x{n}", dtype, shape) for n, shape in enumerate(shapes)]
        graph.output("y", graph.op(kind, inputs, values, dtype=dtype, outputs=["dst"]))
    inputs = calibrated_inputs(g)
    assert verify(g, inputs).proven
    falsify(monkeypatch, g.ops[0].name, run_op(changed.ops[0], [*inputs.values()], rounded=False))
    assert not verify(g, inputs).agrees


def test_exchanged_inputs_of_a_sum_are_no_change():
    g = og.Graph()
    g.output("y", g.add(*(g.input(name, og.f32, (4, 4)) for name in "ab")))
    inputs = [*calibrated_inputs(g).values()]
    results = run_op(g.ops[0], inputs, rounded=False)
    assert mutation("order", g.ops[0], inputs, results) is None
    assert mutation("operand", g.ops[0], inputs, results).text == "src_0 larger by 10 %"


# What is not proven ---------------------------------------------------------------------------------------------------


def saved(graph, inputs):
    graph.save("g.json")
    np.savez("x.npz", **inputs)
    return CliRunner().invoke(cli, ["verify", "g.json", "--inputs", "x.npz"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_results_of_nan_prove_nothing(folder):
    g = og.Graph()
    g.output("y", g.log(g.input("x", og.f32, (4, 4))))
    done = saved(g, {"x": np.full((4, 4), -1, np.float32)})
    assert done.exit_code == 3
    assert "0 %" in done.stdout
    assert "not proven: too few elements are finite numbers" in done.stdout


def test_overflow_proves_nothing():
    big, infinite = np.full(8, 1e6), np.full(8, np.inf)
    over = compare("y", infinite.astype(np.float16), big, big, og.f16, rounded=False)
    assert (over.agrees, over.compared, over.is_proof) == (True, 0, False)
    masked = compare("y", -infinite.astype(np.float16), -infinite, -infinite, og.f16, rounded=False)
    assert (masked.agrees, masked.compared, masked.is_proof) == (True, 8, True)


def test_equal_results_prove_nothing(folder):
    g = og.Graph()
    g.output("y", g.relu(g.input("x", og.f32, (4, 4)), name="act"))
    done = saved(g, {"x": np.zeros((4, 4), np.float32)})
    assert done.exit_code == 3
    assert "ReLU 'act': all its results are equal, so that no change has an effect" in done.stdout
    found = json.loads(CliRunner().invoke(cli, ["verify", "g.json", "--inputs", "x.npz", "--json"]).stdout)
    assert (found["agrees"], found["proven"], found["unnoticed"][0]["op"]) == (True, False, "ReLU 'act'")
    done = CliRunner().invoke(cli, ["verify", "g.json"])
    assert done.exit_code == 0
    assert "a change of any op would be noticed: tried with 1 op" in done.stdout


def test_saturated_results_prove_nothing_about_earlier_ops():
    g = og.Graph()
    product = g.multiply(g.input("x", og.f32, (4, 16)), g.input("w", og.f32, (4, 16)), name="product")
    g.output("y", g.clamp(product, min=0, max=1, name="cut"))
    inputs = {"x": np.linspace(50, 90, 64, dtype=np.float32).reshape(4, 16), "w": np.full((4, 16), 7, np.float32)}
    found = verify(g, inputs)
    assert found.agrees
    assert not found.proven
    assert "Multiply 'product'" in {one.op for one in found.unnoticed}
    assert verify(g, calibrated_inputs(g)).proven


def test_large_graphs_sample_their_ops(monkeypatch, folder):
    g = og.Graph()
    x = g.input("x", og.f32, (4, 4))
    for _ in range(5):
        x = g.tanh(x)
    g.output("y", x)
    monkeypatch.setattr(module, "MUTATION_SECONDS", 1.0)
    times = iter(range(1000))
    for user in (module, changed_ops):
        monkeypatch.setattr(user, "perf_counter", lambda: float(next(times)))
    found = verify(g, calibrated_inputs(g))
    assert (found.changed, found.provable) == (1, 5)
    g.save("g.json")
    assert "tried with 1 op of 5, chosen at random" in CliRunner().invoke(cli, ["verify", "g.json"]).stdout
    assert Path("g.json").exists()


# The allowance --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "f8_e4m3", "f8_e5m2", "s8", "u8"])
def test_allowance_is_far_below_ten_percent(dtype):
    exact = np.random.default_rng(0).uniform(8, 100, 1000)
    stored = og.DataType.of(dtype)

    right = compare("y", narrow(exact, stored), exact, exact, stored, rounded=True)
    assert (right.agrees, right.max_error) == (True, 0)
    assert right.limit <= 0.1
    assert not compare("y", narrow(exact * 1.1, stored), exact, exact, stored, rounded=True).agrees
    assert not compare("y", narrow(exact * 0.97, stored), exact, exact, stored, rounded=True).agrees


def test_ties_may_be_rounded_up_or_down():
    exact = np.array([0.5, 1.5, 2.5, -3.5])
    for got in ([0, 1, 2, -3], [1, 2, 3, -4]):
        assert compare("y", np.int8(got), exact, exact, og.s8, rounded=True).agrees
    assert not compare("y", np.int8([0, 1, 2, -2]), exact, exact, og.s8, rounded=True).agrees


# Calibrated inputs ----------------------------------------------------------------------------------------------------


def gated_mlp(dtype, size, weights):
    """Two projections, one of them with a Swish, their product, and a third projection."""
    g = og.Graph()
    x = g.input("x", dtype, (2, size))
    gate, up, down = (weights(g, name, size) for name in ("gate", "up", "down"))
    left = g.matmul(x, gate, dtype=dtype)
    both = g.multiply(g.multiply(left, g.sigmoid(left)), g.matmul(x, up, dtype=dtype))
    g.output("y", g.matmul(both, down, dtype=dtype))
    return g


def int4_weights(g, name, size):
    groups = (size // 32, size)
    codes = g.input(name, og.u4, (size, size))
    scales, zps = g.input(f"{name}_scales", og.f16, groups), g.input(f"{name}_zps", og.u4, groups)
    options = {"qtype": "per_group", "group_shape": [32, 1]}
    return g.dynamic_dequantize(codes, scales, zps, dtype=og.f16, **options)


@pytest.mark.parametrize("weights", [lambda g, name, size: g.input(name, og.f16, (size, size)), int4_weights])
def test_calibrated_gated_mlp_stays_finite(weights):
    g = gated_mlp(og.f16, 1024, weights)
    plain = og.reference.run(g, random_inputs(g))["y"]
    assert not np.isfinite(plain).all()
    found = og.reference.run(g, calibrated_inputs(g))["y"]
    assert np.isfinite(found).all()
    assert 0.01 < found.astype(float).std() < 100


def test_calibrated_roots_and_quotients_are_numbers():
    g = og.Graph()
    product = g.matmul(g.input("a", og.f32, (8, 16)), g.input("b", og.f32, (16, 8)))
    g.output("y", g.log(g.sqrt(product)))
    assert np.isnan(og.reference.run(g, random_inputs(g))["y"]).any()
    assert np.isfinite(og.reference.run(g, calibrated_inputs(g))["y"]).all()


def test_calibrated_integers_do_not_saturate():
    g = og.Graph()
    a, b = (g.dequantize(g.input(name, og.s8, (256, 256)), scales=[1.0], zps=[0]) for name in "ab")
    g.output("y", g.quantize(g.matmul(a, b), scales=[1.0], zps=[0], dtype=og.s8))
    saturated = [
        abs(og.reference.run(g, make(g))["y"].astype(int)) >= 127 for make in (random_inputs, calibrated_inputs)
    ]
    assert saturated[0].mean() > 0.5
    assert saturated[1].mean() < 0.05
    assert verify(g, calibrated_inputs(g)).proven


def test_calibration_keeps_the_seed():
    g = gated_mlp(og.f32, 32, lambda g, name, size: g.input(name, og.f32, (size, size)))
    first, again, other = (calibrated_inputs(g, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["gate"], other["gate"])


def test_calibrated_integers_stay_around_the_zero_point():
    g = og.Graph()
    ends = [g.dequantize(g.input(name, "u8", (64, 64)), scales=[0.07], zps=[134]) for name in "ab"]
    g.output("y", g.softmax(g.matmul(*ends), axis=-1))
    inputs = calibrated_inputs(g)
    for values in inputs.values():
        assert values.min() < 134 < values.max()
    shares = og.reference.run(g, inputs)["y"]
    assert shares.max(axis=-1).min() > 2 / 64
    assert np.median(shares.max(axis=-1)) < 0.9


def training_step(optimizer):
    """A step of a network with a hidden layer, a zero bias, and labels of ten classes."""
    g, rng = og.Graph(), np.random.default_rng(0)
    x, labels = g.input("x", og.f32, (16, 32)), g.input("labels", og.s32, (16,))
    shapes = {"w": (32, 64), "v": (64, 10)}
    w, v = (g.variable(name, rng.standard_normal(shape).astype(np.float32) / 5) for name, shape in shapes.items())
    b = g.variable("b", np.zeros(64, np.float32))
    loss = training.cross_entropy(g, g.matmul(g.relu(g.matmul(x, w, b)), v), labels)
    optimizer.minimize(g, loss, [w, b, v])
    g.output("loss", loss)
    return g


OPTIMIZERS = {
    "SGD": training.SGD(0.1, momentum=0.9),
    "Adam": training.Adam(1e-3),
    "AdamW": training.AdamW(1e-3),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("inputs", [random_inputs, calibrated_inputs])
def test_training_steps_are_proven(name, inputs):
    g = training_step(OPTIMIZERS[name])
    given = inputs(g)
    assert 0 <= given["labels"].min() <= given["labels"].max() < 10
    found = verify(g, given)
    assert found.unnoticed == ()
    assert found.proven


def test_a_saved_training_step_is_proven(folder):
    training_step(OPTIMIZERS["AdamW"]).save("step.json")
    done = CliRunner().invoke(cli, ["verify", "step.json"])
    assert done.exit_code == 0, done.output


def test_a_wrong_op_of_a_training_step_is_found(monkeypatch):
    g = training_step(OPTIMIZERS["AdamW"])
    inputs = random_inputs(g)
    op = next(op for op in g.ops if op.kind == "Sqrt")
    falsify(monkeypatch, op.name, (np.full(op.outputs[0].shape, 0.5, np.float32),))
    assert not verify(g, inputs).proven


@pytest.mark.parametrize("dtype", [og.s32, og.s64])
def test_random_indices_are_those_of_elements(dtype):
    g = og.Graph()
    table, rows = g.input("table", og.f32, (7, 3)), g.input("rows", dtype, (50,))
    g.output("y", g.op("Gather", [table, rows], {"axis": 0}, edition="host"))
    found = random_inputs(g)["rows"]
    assert {*found.tolist()} == {*range(7)}
