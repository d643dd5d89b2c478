"""The host ops Pad and Tile as copies, in every mode, and the forms that are left to numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onegraph as og
from onegraph.compiler import pads as copies

pytestmark = pytest.mark.library


def built(shape, pads, mode, dtype="f32", value=None, strides=None):
    g = og.Graph()
    inputs = [g.input("x", dtype, shape), g.constant(np.array(pads, np.int64), dtype=og.s64)]
    if value is not None:
        inputs.append(g.constant(np.array(value, og.DataType(dtype).numpy), dtype=dtype))
    result = g.op("Pad", inputs, {"mode": mode}, edition="host")
    g.output("y", result, **({} if strides is None else {"strides": strides}))
    return g.compile()


def executors(model):
    return [part.executor for part in model.report().partitions]


def expected(x, pads, mode, value=0.0):
    rank = x.ndim
    more = {"constant_values": np.array(value, x.dtype)} if mode == "constant" else {}
    return np.pad(x, [*zip(pads[:rank], pads[rank:], strict=True)], mode=mode, **more)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_pad_is_that_of_numpy(data):
    rank = data.draw(st.integers(1, 5))
    shape = tuple(data.draw(st.integers(1, 7)) for _ in range(rank))
    mode = data.draw(st.sampled_from(["constant", "edge", "reflect", "wrap"]))
    most = [{"reflect": dim - 1, "wrap": dim}.get(mode, 3) for dim in shape]
    pads = [data.draw(st.integers(0, min(3, one))) for one in (*most, *most)]
    dtype = data.draw(st.sampled_from(["f32", "bf16", "f16", "s32", "u8", "s64", "boolean"]))
    is_float = dtype in ("f32", "bf16", "f16")
    values = [None, *((-1.5, float("inf")) if is_float else (1,))]
    value = data.draw(st.sampled_from(values)) if mode == "constant" else None
    x = np.arange(np.prod(shape)).reshape(shape).astype(og.DataType(dtype).numpy)
    model = built(shape, pads, mode, dtype, value)
    count = sum(pads) if mode == "reflect" else 2 * rank
    assert executors(model) == ["copy" if count <= copies.MOST_COPIES else "host"]
    np.testing.assert_array_equal(model(x), expected(x, pads, mode, value or 0.0))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_negative_numbers_cut_before_the_rest_is_added(mode):
    x = np.arange(42, dtype=np.float32).reshape(6, 7)
    for pads in ([-1, 2, 0, -3], [-2, -1, 3, 0], [0, 0, -1, -2]):
        model = built(x.shape, pads, mode)
        assert executors(model) == ["copy"]
        cut = x[max(-pads[0], 0) : 6 + min(pads[2], 0), max(-pads[1], 0) : 7 + min(pads[3], 0)]
        np.testing.assert_array_equal(model(x), expected(cut, [max(one, 0) for one in pads], mode))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_tile_is_that_of_numpy(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=5)))
    counts = [data.draw(st.integers(1, 3)) for _ in shape]
    dtype = data.draw(st.sampled_from(["f32", "f16", "s64", "boolean"]))
    g = og.Graph()
    x = g.input("x", dtype, shape)
    source = g.op("Transpose", [x], {"order": [*range(len(shape))][::-1]}, edition="host")
    g.output("y", g.tile(source, np.int64(counts)))
    model = g.compile()
    assert {part.executor for part in model.report().partitions} <= {"view", "copy"}
    array = (np.arange(np.prod(shape)) % 3).reshape(shape).astype(og.DataType(dtype).numpy)
    np.testing.assert_array_equal(model(array), np.tile(array.T, counts))


def test_a_tile_of_many_axes_or_of_nothing_is_left_to_numpy():
    for shape, counts in (((2,) * 7, [2] * 7), ((2, 3), [1, 0])):
        g = og.Graph()
        g.output("y", g.tile(g.input("x", "f32", shape), np.int64(counts)))
        model = g.compile()
        assert executors(model) == ["host"]
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        np.testing.assert_array_equal(model(x), np.tile(x, counts))


@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_the_result_may_have_strides_and_the_source_may_be_turned(mode):
    pads = [0, 1, 2, 1, 0, 2]
    g = og.Graph()
    turned = g.op("Transpose", [g.input("x", "f32", (5, 4, 3))], {"order": [2, 1, 0]}, edition="host")
    result = g.op("Pad", [turned, g.constant(np.array(pads), dtype=og.s64)], {"mode": mode}, edition="host")
    g.output("y", result, strides=(1, 4, 20))
    x = np.arange(60, dtype=np.float32).reshape(5, 4, 3)
    np.testing.assert_array_equal(g.compile()(x), expected(x.T, pads, mode))


@pytest.mark.parametrize(
    ("shape", "pads", "mode"),
    [
        ((3, 4), [4, 0, 0, 0], "wrap"),
        ((3, 4), [3, 0, 0, 0], "reflect"),  # each element is seen several times
        ((0, 4), [1, 0, 1, 0], "constant"),
        ((50,), [40, 40], "reflect"),  # too many copies
    ],
)
def test_other_forms_are_left_to_numpy(shape, pads, mode):
    model = built(shape, pads, mode)
    assert executors(model) == ["host"]
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(model(x), expected(x, pads, mode))


def test_a_value_that_is_not_known_is_left_to_numpy():
    g = og.Graph()
    inputs = [g.input("x", "f32", (3,)), g.constant(np.array([1, 2]), dtype=og.s64), g.input("value", "f32", ())]
    g.output("y", g.op("Pad", inputs, {"mode": "constant"}, edition="host"))
    model = g.compile()
    assert executors(model) == ["host"]
    assert model(np.ones(3, np.float32), np.float32(7)).tolist() == [7, 1, 1, 1, 7, 7]
