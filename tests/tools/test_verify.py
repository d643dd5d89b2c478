"""Results compared with the reference, with a tolerance for rounding."""

import numpy as np
import pytest
from helpers.graphs import network

import onegraph as og
from onegraph.testing.random_inputs import random_inputs
from onegraph.tools import changed_ops, expected_results
from onegraph.tools.bench import Variant, bench
from onegraph.tools.first_difference import beginning
from onegraph.tools.verify import verify


def int8_network():
    g = og.Graph()
    x = g.dequantize(g.input("x", og.u8, (8, 64)), scales=[0.1], zps=[3], name="dequantize_x")
    w = g.dequantize(g.input("w", og.s8, (64, 32)), scales=[0.05], zps=[0], name="dequantize_w")
    product = g.matmul(x, w, dtype=og.f32, name="matmul")
    g.output("y", g.quantize(g.relu(product), dtype=og.u8, scales=[0.7], zps=[5]))
    return g


@pytest.mark.parametrize("fpmath_mode", [None, "strict", "bf16"])
@pytest.mark.parametrize("policy", ["fusion", "debug"])
@pytest.mark.parametrize("make", [network, lambda: network(og.bf16), int8_network])
def test_right_results_agree(make, policy, fpmath_mode):
    g = make()
    found = verify(g, random_inputs(g), policy=policy, fpmath_mode=fpmath_mode)
    assert found.agrees
    assert found.first is None
    assert found.report.policy == policy
    assert list(found.results) == ["y"]


def wrong_reference(monkeypatch, wrong):
    """Falsify the reference of one op, so that the library differs from there on."""
    run_op = expected_results.run_op

    def run(op, inputs, **options):
        results = run_op(op, inputs, **options)
        return tuple(wrong(value.copy()) for value in results) if op.name == wrong.op else results

    for user in (expected_results, changed_ops):
        monkeypatch.setattr(user, "run_op", run)


class Off:
    def __init__(self, op, by, index=()):
        self.op, self.by, self.index = op, by, index

    def __call__(self, values):
        values[self.index or ...] += values.dtype.type(self.by)
        return values


@pytest.mark.parametrize("op", ["conv_0", "relu_0", "sigmoid_0", "conv_1", "relu_1", "sigmoid_1", "conv_2", "relu_2"])
def test_bisection_names_the_wrong_op(monkeypatch, op):
    g = network()
    wrong_reference(monkeypatch, Off(op, 0.5))
    found = verify(g, random_inputs(g))
    assert not found.agrees
    assert found.first.op.endswith(f" {op!r}")
    assert found.first.comparison.max_error >= 0.4
    assert found.first.executor == ("kernel" if op.startswith(("relu", "sigmoid")) else "oneDNN")
    fused = verify(g, random_inputs(g), finite_math=True)
    assert (fused.first.op, fused.first.executor) == (found.first.op, "oneDNN")
    assert found.first.op in found.first.partition
    assert found.first.alone is False  # also wrong without fusion, because the reference is false


def test_finds_and_shows_a_single_wrong_element(monkeypatch):
    g = network()
    wrong_reference(monkeypatch, Off("sigmoid_2", 0.01, (1, 2, 3, 0)))
    found = verify(g, random_inputs(g))
    one = found.first.comparison
    assert (one.where, one.wrong) == ((1, 2, 3, 0), 1)
    assert one.expected - one.got == pytest.approx(0.01, abs=1e-4)


def test_int8_is_off_by_one_at_ties_only(monkeypatch):
    g = int8_network()
    name = g.ops[-1].name
    wrong_reference(monkeypatch, Off(name, 0.4999))
    assert not verify(g, random_inputs(g)).agrees
    monkeypatch.undo()
    wrong_reference(monkeypatch, Off(name, 1e-4))
    assert verify(g, random_inputs(g)).agrees


def test_unrounded_integers_must_be_exact(monkeypatch):
    g = og.Graph()
    x = g.input("x", og.f32, (3, 4))
    g.output("y", g.greater_equal(x, g.input("z", og.f32, (3, 4)), name="compare"))
    g.output("n", g.gen_index(x, axis=1, name="index"))
    assert verify(g, random_inputs(g)).agrees
    lower = {"x": np.full((3, 4), -1, np.float32), "z": np.ones((3, 4), np.float32)}
    wrong_reference(monkeypatch, Off("compare", True, (0, 0)))
    assert not verify(g, lower).outputs[0].agrees
    monkeypatch.undo()
    wrong_reference(monkeypatch, Off("index", 1))
    found = verify(g, random_inputs(g))
    assert not found.outputs[1].agrees
    assert found.first.op == "GenIndex 'index'"


def test_reports_progress():
    g, told = network(), []
    verify(g, random_inputs(g), progress=lambda *state: told.append(state))
    assert told[0] == ("reference", 0, 9)
    assert ("reference", 9, 9) in told
    assert told[-1] == ("changed ops", 9, 9)


def test_beginning_outputs_what_the_rest_reads():
    g = network()
    part = beginning(g, 4)
    assert [op.name for op in part.ops] == ["conv_0", "relu_0", "sigmoid_0", "conv_1"]
    assert list(part.outputs) == ["conv_1.dst"]
    assert list(beginning(g, 9).outputs) == ["y"]
    assert len(g.ops) == 9


@pytest.mark.parametrize("measure", [verify, lambda g, inputs: bench(g, inputs, [Variant()], seconds=0.0)])
def test_rejects_unknown_inputs(measure):
    g = network(depth=1)
    with pytest.raises(og.ArgumentError, match="'w9' is no input; the inputs are x, w0"):
        measure(g, {**random_inputs(g), "w9": np.zeros(1, np.float32)})


def test_order_of_arrays_does_not_matter():
    g = network(depth=1)
    inputs = random_inputs(g)
    assert verify(g, dict(reversed(inputs.items()))).agrees


def counting_step():
    g = og.Graph()
    w = g.variable("w", np.full(8, 2, np.float32))
    g.assign(w, g.add(w, g.input("x", og.f32, (8,)), name="update"))
    g.output("y", g.relu(w, name="forward"))
    return g


def test_next_values_of_variables_are_compared():
    g = counting_step()
    found = verify(g, {"x": np.full(8, 3, np.float32)})
    assert found.proven
    assert [one.name for one in found.outputs] == ["y", "w (next)"]
    assert (found.results["w (next)"] == 5).all()
    assert (g.compile().variables["w"] == 2).all()


def test_a_wrong_update_of_a_variable_is_found(monkeypatch):
    wrong_reference(monkeypatch, Off("update", 0.5))
    found = verify(counting_step(), {"x": np.full(8, 3, np.float32)})
    assert [one.agrees for one in found.outputs] == [True, False]
    assert found.first.op == "Add 'update'"
