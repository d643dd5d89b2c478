"""Numbers stay f32 between the 16-bit ops of a model that run in f32, and are rounded where types matter."""

import ml_dtypes
import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph.capi import settings
from onegraph.opset.dtypes import DataType
from onegraph.transform.widen import FOLLOWERS, ROUNDED, widened

DTYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
STEP = {"f16": 2048.0, "bf16": 256.0}  # the least number whose neighbour is 2 away


def read(build, dtype, roundings=frozenset()):
    """The graph of a function of a builder and its input, as a reader of models leaves it."""
    graph = og.Graph()
    graph.output("y", build(graph, graph.input("x", dtype, (4,))))
    graph._roundings = roundings
    return graph


def run(graph, x):
    (found,) = reference.run(graph, {"x": x}).values()
    return found


def both(graph, dtype, x):
    """The results op by op, and with f32 numbers in between."""
    return run(graph, x), run(widened(graph, [DataType[dtype]]), x)


def filled(graph, number, dtype):
    return graph.constant(np.full(4, number).astype(DTYPES[dtype]))


def up_and_down(graph, x, dtype):
    step = filled(graph, STEP[dtype], dtype)
    return graph.subtract(graph.add(x, step), step)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_keep_what_a_rounding_drops(dtype):
    x = np.array([0.5, 0.25, -0.75, 3.0]).astype(DTYPES[dtype])
    rounded, kept = both(read(lambda g, x: up_and_down(g, x, dtype), dtype), dtype, x)
    assert kept.dtype == DTYPES[dtype]
    np.testing.assert_array_equal(kept, x)
    assert not np.array_equal(rounded, x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_known", [True, False])
def test_chosen_numbers_stay_f32_beside_known_ones(dtype, is_known):
    def build(graph, x):
        step = filled(graph, STEP[dtype], dtype)
        hidden = filled(graph, -7, dtype) if is_known else graph.input("hidden", dtype, (4,))
        shown = graph.constant(np.array([True, True, False, True]), dtype=og.boolean)
        return graph.subtract(graph.op("Where", [shown, graph.add(x, step), hidden], edition="host"), step)

    x = np.array([0.5, 0.25, -0.75, 3.0]).astype(DTYPES[dtype])
    graph, values = read(build, dtype), {"x": x, "hidden": np.full(4, -7).astype(DTYPES[dtype])}
    wide = widened(graph, [DataType[dtype]])
    (found,) = reference.run(wide, {name: values[name] for name in graph.inputs}).values()
    assert np.array_equal(found[[0, 1, 3]], x[[0, 1, 3]]) == is_known
    assert found[2] == np.float32(-7 - STEP[dtype]).astype(DTYPES[dtype])
    assert wide._roundings == frozenset()


@pytest.mark.parametrize("dtype", DTYPES)
def test_moved_numbers_stay_f32(dtype):
    def build(graph, x):
        step = filled(graph, STEP[dtype], dtype)
        square = graph.static_reshape(graph.add(x, step), shape=(2, 2), special_zero=False)
        flat = graph.static_reshape(graph.static_transpose(square, order=(1, 0)), shape=(4,), special_zero=False)
        return graph.subtract(flat, step)

    x = np.array([0.5, 0.25, -0.75, 3.0]).astype(DTYPES[dtype])
    np.testing.assert_array_equal(both(read(build, dtype), dtype, x)[1], x[[0, 2, 1, 3]])


@pytest.mark.parametrize("dtype", DTYPES)
def test_casts_of_a_model_round(dtype):
    def build(graph, x):
        step = graph.constant(np.full(4, STEP[dtype], np.float32))
        narrow = graph.type_cast(graph.add(graph.type_cast(x, dtype="f32"), step), dtype=dtype, name="narrow")
        wide = graph.subtract(graph.type_cast(narrow, dtype="f32"), step)
        return graph.relu(graph.type_cast(wide, dtype=dtype))

    x = np.array([0.5, 0.25, 0.75, 4.0]).astype(DTYPES[dtype])
    rounded, kept = both(read(build, dtype), dtype, x)
    np.testing.assert_array_equal(kept, rounded)
    np.testing.assert_array_equal(rounded.astype(np.float64), [0, 0, 0, 4])
    own = read(build, dtype, frozenset(["narrow"]))  # a cast of the reader of the model
    np.testing.assert_array_equal(both(own, dtype, x)[1], x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_comparisons_and_roundings_read_rounded_numbers(dtype):
    step = STEP[dtype]

    def compared(graph, x):
        limit = filled(graph, step, dtype)
        return graph.op("Equal", [graph.add(x, limit), limit], edition="host")

    def floor(graph, x):
        limit = filled(graph, -step, dtype)
        return graph.op("Floor", [graph.multiply(graph.add(x, limit), limit)], edition="host")

    x = np.array([0.5, 0.25, -0.75, 4.0]).astype(DTYPES[dtype])
    for build in (compared, floor):
        rounded, kept = both(read(build, dtype), dtype, x)
        if build is compared:
            np.testing.assert_array_equal(kept, rounded)
        else:
            np.testing.assert_array_equal(kept, np.floor(kept.astype(np.float64)).astype(kept.dtype))


def test_a_result_that_is_read_on_is_rounded_as_output():
    graph = og.Graph()
    x, step = graph.input("x", "f16", (4,)), filled(graph, 2048, "f16")
    total = graph.add(x, step)
    graph.output("total", total)
    graph.output("again", total)
    graph.output("back", graph.subtract(total, step))
    graph._roundings = frozenset()
    values = np.array([0.5, 1.5, 2.0, 5.0], np.float16)
    found = reference.run(widened(graph, [DataType.f16]), {"x": values})
    assert [*found] == ["total", "again", "back"]
    np.testing.assert_array_equal(found["back"], values)
    for name in ("total", "again"):
        assert found[name].dtype == np.float16
        np.testing.assert_array_equal(found[name], values + np.float16(2048))


@pytest.mark.parametrize("build", [lambda g, x: g.relu(x), lambda g, x: g.relu(g.static_reshape(x, shape=(2, 2)))])
def test_single_ops_keep_their_type(build):
    graph = read(build, "f16")
    assert widened(graph, [DataType.f16]) is graph


def test_graphs_of_a_builder_round_each_op():
    graph = read(lambda g, x: up_and_down(g, x, "f16"), "f16", None)
    assert widened(graph, [DataType.f16]) is graph


def test_ops_are_sorted_once():
    assert not FOLLOWERS & ROUNDED


@pytest.mark.parametrize(
    ("isa", "is_made_for_amx", "slow"),
    [
        ("avx2", False, {"f16", "bf16"}),
        ("avx512_core_bf16", False, {"f16"}),  # of AMD, which multiplies twice as many bf16 as f32
        ("avx512_core_bf16", True, {"f16", "bf16"}),
        ("avx512_core_fp16", True, {"f16", "bf16"}),
        ("avx512_core_amx", True, {"f16"}),
        ("avx512_core_amx_fp16", True, set()),
    ],
)
def test_types_that_are_slower_than_f32(monkeypatch, isa, is_made_for_amx, slow):
    monkeypatch.setattr(settings, "get_cpu_isa", lambda: isa)
    monkeypatch.setattr(settings, "is_native", settings.is_native.__wrapped__)
    monkeypatch.setattr(settings, "_is_made_for_amx", lambda: is_made_for_amx)
    assert {dtype.value for dtype in settings.slow_types.__wrapped__()} == slow
