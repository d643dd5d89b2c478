"""Graphs whose products read compressed weights."""

import ml_dtypes
import numpy as np
import pytest
from helpers.onnx_session import session_of

import onegraph as og
import onegraph.onnx
from onegraph import reference
from onegraph.compiler.passes.packed_products import NOTE

RNG = np.random.default_rng(0)
# The largest relative error of normal numbers: half a step of each group, whose size its largest number gives.
ERRORS = {("int4", 32): 0.12, ("int4", 0): 0.2, ("int8", 32): 0.008, ("int8", 0): 0.012}


def weights_of(*shape, dtype="f32"):
    return RNG.standard_normal(shape).astype(og.DataType[dtype].numpy)


def graph_of(weights, *, is_turned=False, bias=False, dtype="f32", rows=2):
    g = og.Graph()
    depth, columns = weights.shape[::-1] if is_turned else weights.shape
    ends = [g.input("x", dtype, (rows, depth)), g.constant(weights)]
    if bias:
        ends.append(g.constant(weights_of(columns, dtype=dtype)))
    g.output("y", g.op("MatMul", ends, {"transpose_b": is_turned}))
    return g


def distance(found, wanted):
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


@pytest.mark.library
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize(("kind", "group"), ERRORS, ids=str)
def test_products_read_codes(kind, group, is_turned, dtype):
    g = graph_of(weights_of(96, 100, dtype=dtype), is_turned=is_turned, bias=True, dtype=dtype)
    small = og.compress_weights(g, kind, group=group)
    x = weights_of(*next(iter(g.inputs.values())).shape, dtype=dtype)
    model, exact = small.compile(), reference.run(small, {"x": x})["y"]
    assert distance(model(x), exact) < (1e-6 if dtype == "f32" else 1e-2)
    assert distance(exact, reference.run(g, {"x": x})["y"]) < ERRORS[kind, group] * 1.5
    assert any(NOTE in part.reason for part in model.report().partitions)


@pytest.mark.parametrize(("kind", "group"), ERRORS, ids=str)
def test_the_error_is_told(kind, group):
    weights = weights_of(96, 100)
    (told,) = og.compress_weights(graph_of(weights), kind, group=group).compression
    assert 0 < told.error < ERRORS[kind, group]
    assert told.bytes_before == weights.nbytes
    assert told.bytes < weights.nbytes / (2 if kind == "int8" else 4)
    assert "relative error" in str(told)


def test_the_error_is_that_of_the_products_weights():
    g = graph_of(weights_of(64, 64), rows=64)
    small = og.compress_weights(g, "int4")
    found, wanted = (reference.run(each, {"x": np.eye(64, dtype=np.float32)})["y"] for each in (small, g))
    assert distance(found, wanted) == pytest.approx(small.compression[0].error, rel=1e-4)


def test_multiples_of_a_step_are_kept_exactly():
    steps = RNG.integers(-7, 8, (64, 64)).astype(np.float32)
    steps[::16] = -8
    (told,) = og.compress_weights(graph_of(steps * 0.25), "int4", group=16).compression
    assert told.error == 0


@pytest.mark.parametrize("kind", ["int4", "int8"])
def test_zeros_stay_zeros(kind):
    g = og.compress_weights(graph_of(np.zeros((64, 64), np.float32)), kind)
    np.testing.assert_array_equal(reference.run(g, {"x": weights_of(2, 64)})["y"], 0)


def test_other_products_stay():
    g = og.Graph()
    x = g.input("x", "f32", (64, 64))
    g.output("small", g.matmul(x, g.constant(weights_of(64, 8))))
    g.output("inputs", g.matmul(x, x))
    g.output("turned", g.matmul(x, g.constant(weights_of(64, 64)), transpose_a=True))
    g.output("batches", g.matmul(x, g.constant(weights_of(3, 64, 64))))
    kept = g.variable("v", weights_of(64, 64))
    g.output("variable", g.matmul(x, kept))
    with pytest.warns(UserWarning, match="no product were compressed: those of matmul_0 have fewer than 4,096 numbers"):
        small = og.compress_weights(g, "int8")
    assert [op.kind for op in small.ops] == [op.kind for op in g.ops]
    assert small.compression == ()
    assert [*small.variables] == ["v"]


def test_the_graph_stays_as_it_is():
    g = graph_of(weights_of(64, 64))
    og.compress_weights(g, "int8")
    assert [op.kind for op in g.ops] == ["MatMul"]
    assert g.compression == ()


@pytest.mark.parametrize(
    ("kind", "group", "text"),
    [
        ("int3", 32, "int3"),
        (4, 32, "kind: 4"),
        ("int4", 8, "group: 8"),
        ("int4", 48, "group: 48"),
        ("int4", None, "None"),
    ],
    ids=str,
)
def test_other_kinds_and_groups_are_refused(kind, group, text):
    with pytest.raises(og.ArgumentError, match=text):
        og.compress_weights(graph_of(weights_of(64, 64)), kind, group=group)


def test_weights_that_are_not_finite_are_refused():
    weights = weights_of(64, 64)
    weights[3, 4] = np.nan
    with pytest.raises(og.ArgumentError, match="NaN"):
        og.compress_weights(graph_of(weights), "int4")


@pytest.mark.library
@pytest.mark.parametrize("kind", ["int4", "int8"])
def test_saved_models_run_elsewhere_and_load_again(kind, tmp_path):
    small, x = og.compress_weights(graph_of(weights_of(96, 64)), kind), weights_of(2, 96)
    onegraph.onnx.save(small, tmp_path / "small.onnx")
    session = session_of(tmp_path / "small.onnx")
    exact = reference.run(small, {"x": x})["y"]
    again = onegraph.onnx.load(tmp_path / "small.onnx")
    assert [op.kind for op in again.ops] == ["PackedMatMul"]
    assert distance(again.compile()(x), exact) < 1e-6
    assert distance(session.run(None, {"x": x})[0], exact) < 1e-5


def test_halves_are_compressed():
    g = graph_of(weights_of(64, 64, dtype="bf16"), dtype="bf16")
    (told,) = og.compress_weights(g, "int8").compression
    assert told.error < 0.01
    assert g.constants
    assert ml_dtypes.bfloat16 == next(iter(g.constants.values())).dtype


def test_transposed_weights_are_compressed():
    g = og.Graph()
    x, weights = g.input("x", "f32", (2, 96)), weights_of(64, 96)
    g.output("y", g.matmul(x, g.static_transpose(g.constant(weights), order=[1, 0])))
    g.output("z", g.matmul(x, g.static_transpose(g.constant(weights_of(2, 96, 64)), order=[0, 1, 2])))
    small, wanted = og.compress_weights(g, "int8"), og.compress_weights(graph_of(weights, is_turned=True), "int8")
    assert [told.shape for told in small.compression] == [told.shape for told in wanted.compression] == [(64, 96)]
    given = {"x": weights_of(2, 96)}
    np.testing.assert_array_equal(reference.run(small, given)["y"], reference.run(wanted, given)["y"])
