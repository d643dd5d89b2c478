"""A Range and a Shape in C: the numbers of each size, and those that numpy computes."""

import numpy as np
import pytest
from helpers.open_graphs import drawn

import onegraph as og
from onegraph.native.library import HASHES_CONSTANTS

TESTED_KERNELS = ("written_sizes",)


def executors(model):
    return {kind: one.executor for one in model.report().partitions for kind in one.kinds}


@pytest.mark.parametrize("dtype", ["s64", "s32"])
@pytest.mark.parametrize(("first", "step"), [(0, 1), (3, 2), (7, -2), (-4, 5)])
def test_range_to_a_number_of_rows(dtype, first, step):
    onnx = pytest.importorskip("onnx.parser", reason="onnx is not installed")
    numpy_helper = pytest.importorskip("onnx.numpy_helper")
    to, kind = (7, "int64") if dtype == "s64" else (6, "int32")
    model = onnx.parse_model(
        f'<ir_version:8,opset_import:["":17]> g(float[n,4] x)=>({kind}[m] y,float[n,4] z){{'
        f"d=Shape<start=0,end=1>(x) e=Mul(d,step) f=Add(e,first) g=Cast<to={to}>(f) l=Squeeze(g,zero) "
        "y=Range(a,l,b) z=Relu(x)}"
    )
    numpy_dtype = np.int64 if dtype == "s64" else np.int32
    arrays = {
        "step": np.array([step]), "first": np.array([first]), "zero": np.array([0]),
        "a": numpy_dtype(first), "b": numpy_dtype(step),
    }  # fmt: skip
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items())
    compiled = pytest.importorskip("onegraph.onnx").load(model).compile()
    for rows in (5, 6, 9, 1, 12, 0):
        found = compiled(drawn(rows, 4)).y
        expected = np.arange(rows, dtype=numpy_dtype) * step + first
        assert found.dtype == numpy_dtype
        np.testing.assert_array_equal(found, expected)
    assert compiled.cache_info().reused >= (2 if not HASHES_CONSTANTS else 0)


def test_range_of_computed_numbers_stays_in_numpy():
    g = og.Graph()
    ends = [g.input(name, og.s64, ()) for name in ("first", "last")]
    g.output("y", g.op("Range", [*ends, g.constant(np.int64(2), dtype=og.s64)], edition="host"))
    model = g.compile()
    for last in (3, 8, 9):
        np.testing.assert_array_equal(model(np.int64(1), np.int64(last)), np.arange(1, last, 2))


@pytest.mark.parametrize("dtype", ["f32", "s64", "u8"])
def test_dims_of_any_tensor(dtype):
    g = og.Graph()
    x = g.input("x", dtype, (None, 3, None))
    g.output("y", g.op("Shape", [x], edition="host"))
    model = g.compile()
    for shape in ((2, 3, 7), (4, 3, 7), (4, 3, 9), (0, 3, 1)):
        np.testing.assert_array_equal(model(np.zeros(shape, og.DataType[dtype].numpy)), shape)


def test_places_of_rows_take_no_step_in_numpy():
    """Of a Range of sizes in the midst of a graph, no program leaves C."""
    g = og.Graph()
    x = g.input("x", og.f32, (None, 4))
    g.output("y", g.relu(x))
    g.output("n", g.op("Shape", [g.tanh(x)], edition="host"))
    model = g.compile()
    for rows in (5, 6, 7):
        np.testing.assert_array_equal(model(drawn(rows, 4)).n, [rows, 4])
    assert executors(model).get("Shape", "kernel") != "host"
