"""Copies of elements of any data type between layouts, compared with numpy."""

import numpy as np
import pytest
from helpers.grouped import grouped

import onegraph as og
from onegraph import reference
from onegraph.compiler.kernels.native import compiled, packed, value_of
from onegraph.compiler.kernels.strided_copy import backwards, can_copy
from onegraph.opset.dtypes import OF_NUMPY, DataType

pytestmark = pytest.mark.library
TESTED_KERNELS = ("strided_copy",)
BASE = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
LAYOUTS = {
    "dense": lambda a: a,
    "turned": lambda a: a.transpose(3, 1, 0, 2),
    "turned inside": lambda a: a.transpose(0, 2, 1, 3),
    "every second one": lambda a: a[:, :, ::2, 1::2],
    "repeated": lambda a: np.broadcast_to(a[:, :1, :, :1], a.shape),
    "one element": lambda a: a[1:, 2:, 3:, 4:],
    "a row": lambda a: a.reshape(-1)[::3],
    "a number": lambda a: np.asarray(a.reshape(-1)[7]),
}


def placed(array):
    """A value with the strides of an array."""
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return value_of(np.zeros(array.shape, np.int32))._replace(dtype=OF_NUMPY[array.dtype], strides=strides)


@pytest.mark.parametrize("dtype", ["i1", "?", "f2", "u2", "i4", "f8", "u8"])
@grouped("layout", LAYOUTS, key=lambda _: "layouts")
def test_a_copy_has_the_elements_of_its_source(layout, dtype):
    base = BASE.astype(dtype)
    source = LAYOUTS[layout](base)
    for target in (np.zeros(source.shape, dtype), np.zeros(source.shape[::-1], dtype).T):
        forwards, numbers = backwards(placed(source))
        kernel = compiled("strided_copy", [forwards], [placed(target)], packed("strided_copy", numbers))
        kernel.run_once(source, target, threads=2)
        np.testing.assert_array_equal(target, source)


@pytest.mark.parametrize("dtype", ["u1", "f2", "i4", "f8"])
@pytest.mark.parametrize("shape", [(37, 53), (16, 16), (5, 70, 33), (2, 9000, 3), (3, 41, 100), (8194, 3), (8192, 2)])
def test_turned_images_and_matrices_have_the_elements_of_their_sources(shape, dtype):
    base = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    for order in ((0, 2, 1), (2, 0, 1), (1, 2, 0)) if len(shape) == 3 else ((1, 0),):
        source, target = base.transpose(order), np.zeros([shape[axis] for axis in order], dtype)
        numbers = packed("strided_copy", {"size": base.itemsize, "backwards": 0})
        compiled("strided_copy", [placed(source)], [placed(target)], numbers).run_once(source, target, threads=2)
        np.testing.assert_array_equal(target, source)


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8"])
def test_short_rows_are_copied_whole_and_alone(dtype):
    """Rows of up to 64 bytes, and longer ones; what lies beside them stays."""
    source = (np.arange(3 * 90).reshape(3, 90) % 251 + 1).astype(dtype)
    for width in range(1, 80):
        target = np.zeros((3, 90), dtype)
        values = [placed(array[:, 4 : width + 4]) for array in (source, target)]
        numbers = packed("strided_copy", {"size": source.itemsize, "backwards": 0})
        ends = source[:, 4 : width + 4], target[:, 4 : width + 4]
        compiled("strided_copy", values[:1], values[1:], numbers).run_once(*ends)
        np.testing.assert_array_equal(ends[1], ends[0])
        assert not target[:, :4].any()
        assert not target[:, width + 4 :].any()


def test_other_copies_stay_with_numpy():
    dense = placed(np.zeros((2, 3), np.int64))
    assert can_copy(dense, dense._replace(strides=(1, 2)))
    assert can_copy(dense._replace(strides=(-3, 1)), dense)
    assert not can_copy(dense, dense._replace(strides=(-3, 1)))
    assert not can_copy(dense, dense._replace(strides=(0, 1)))
    assert not can_copy(dense, dense._replace(dtype=DataType.s32))


@pytest.mark.parametrize("dtype", ["f32", "f16", "s64", "u8", "boolean"])
@pytest.mark.parametrize("rows", [4, None])
def test_what_runs_backwards_is_copied_by_the_kernel(dtype, rows):
    g = og.Graph()
    x = g.input("x", dtype, (rows, 5, 6))
    numbers = [g.constant(np.int64(ends), dtype=og.s64) for ends in ([-1, -1], [-(2**31)] * 2, [1, 2], [-1, -2])]
    g.output("y", g.op("Slice", [x, *numbers], edition="host"))
    model = g.compile()
    array = (BASE.reshape(4, 5, 6) % 7).astype(og.DataType(dtype).numpy)
    np.testing.assert_array_equal(model(array), array[:, ::-1, ::-2])
    np.testing.assert_array_equal(model(array[:4]), array[:, ::-1, ::-2])
    assert [part.executor for part in model.report().partitions if part.executor != "view"] == ["copy"]


def test_integers_that_a_view_repeats_are_copied_by_the_kernel():
    g = og.Graph()
    x, indices = g.input("x", "f32", (2, 4, 6)), g.input("i", "s64", (2, 4, 1))
    wide = g.op("Expand", [indices, g.constant(np.int64([2, 4, 6]), dtype=og.s64)], edition="host")
    g.output("y", g.op("GatherElements", [x, wide], {"axis": 1}, edition="host"))
    model = g.compile()
    assert {part.executor for part in model.report().partitions} <= {"view", "copy", "kernel"}
    array, places = (
        BASE[..., :3].astype("f4").reshape(2, -1)[:, :24].reshape(2, 4, 6),
        np.int64([[[3], [2], [0], [1]]] * 2),
    )
    np.testing.assert_array_equal(model(array, places), np.take_along_axis(array, places + np.zeros(6, np.int64), 1))


READERS = {
    "Select": lambda g, x: g.select(g.op("IsNaN", [x], edition="host"), g.constant(np.zeros(1, x.dtype.numpy)), x),
    "Erf": lambda g, x: g.op("Erf", [x], edition="host"),
    "ReplaceNaN": lambda g, x: g.op("ReplaceNaN", [x, g.constant(np.zeros(1, x.dtype.numpy))], edition="host"),
    "ArgMax": lambda g, x: g.op("ArgMax", [x], {"axis": 1, "keep_dims": False}, edition="host"),
    "Cast": lambda g, x: g.op("Cast", [x], dtype="s32", edition="host"),
}


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("way", ["repeated", "backwards"])
@pytest.mark.parametrize("kind", READERS)
def test_kernels_read_copies_of_irregular_views(kind, way, dtype):
    """No step is left to numpy."""
    g = og.Graph()
    x = g.input("x", dtype, (1, 9))
    if way == "repeated":
        view = g.op("Expand", [x, g.constant(np.int64([4, 9]), dtype=og.s64)], edition="host")
    else:
        numbers = [g.constant(np.int64([number]), dtype=og.s64) for number in (-1, -(2**31), 1, -1)]
        view = g.op("Slice", [x, *numbers], edition="host")
    g.output("y", READERS[kind](g, view))
    model = g.compile()
    array = (np.arange(9).reshape(1, 9) % 5 - 2).astype(og.DataType(dtype).numpy)
    np.testing.assert_allclose(model(array), reference.run(g, {"x": array})["y"], rtol=1e-3)
    assert not [part for part in model.report().partitions if part.threads is None and part.executor != "view"]
