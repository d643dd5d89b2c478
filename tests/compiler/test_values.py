"""Where values lie in memory, and what is known of them, by hand and beside numpy."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import onegraph as og
from onegraph._util.interpreter_tricks import written_function
from onegraph._util.open_sizes import present
from onegraph._util.size_symbols import OpenSizes
from onegraph.compiler.arithmetic import flops
from onegraph.compiler.codings import PLAIN, Coding, numbers_of
from onegraph.compiler.integer_bounds import IntegerBounds
from onegraph.compiler.ir.value import Value, Values, dense_of
from onegraph.compiler.rounded_rows import AXES, BY_KIND, rounded_count
from onegraph.compiler.view_places import _reshaped
from onegraph.runtime.placement import span
from onegraph.runtime.placing import _lies_inside


def value(shape, strides=None, offset=0, dtype=og.f32, number=0):
    return Value(number, dtype, shape, dense_of(shape) if strides is None else strides, 0, "v", None, offset)


def viewed_without_copy(array, shape):
    """The array in another shape as a view; None where numpy would copy it."""
    found = array.view()
    try:
        found.shape = shape
    except AttributeError:
        return None
    return found


def test_reshapes_are_views_where_numpy_copies_nothing():
    memory = np.arange(4096)
    shapes = [(24,), (2, 12), (4, 6), (2, 3, 4), (3, 2, 4), (1, 24, 1), (2, 1, 12), (8, 3), (6, 2, 2)]
    tried = 0
    for dims in ((2, 3, 4), (4, 6), (2, 1, 12), (24,)):
        for strides in itertools.product((1, 2, 4, 12, 24, 100), repeat=len(dims)):
            source, array = value(dims, strides), as_strided(memory, dims, [8 * step for step in strides])
            for shape in shapes[tried % 3 :: 3]:
                place, wanted = _reshaped(source, shape), viewed_without_copy(array, shape)
                assert (place is None) == (wanted is None), (dims, strides, shape)
                if place is not None:
                    found = as_strided(memory[place.offset :], shape, [8 * step for step in place.strides])
                    np.testing.assert_array_equal(found, wanted)
            tried += 1
    assert _reshaped(value((2, 0), (5, 3)), (0, 7)).strides == (7, 1)


@pytest.mark.parametrize(
    ("view", "sizes", "is_inside"),
    [
        (value((2,), (2,), 1), {}, True),
        (value((2,), (2,), 2), {}, False),
        (value((2,), (2,), 2), {0: 20}, True),
        (value((2,), (2,), 2), {0: 19}, False),
        (value((2,), (2,), 1), {0: 4}, True),  # the memory has at least the elements of its value
        (value((4,), (-1,), 3), {}, True),
        (value((4,), (-1,), 2), {}, False),
        (value((2, 2), (-1, 1)), {}, False),
        (value((0,), (1,), 99), {}, True),
        (value((1,), (1,), 99), {}, False),
        (value((3, 2), (0, 3)), {}, True),
        (value((4,), (2,), 0, og.bf16), {}, True),
        (value((5,), (2,), 0, og.bf16), {}, False),
    ],
)
def test_views_lie_inside_four_floats(view, sizes, is_inside):
    assert _lies_inside(view, value((4,)), sizes) is is_inside


@pytest.mark.parametrize(
    ("one", "size", "is_dense", "is_irregular"),
    [
        (value((2, 3)), 24, True, False),
        (value((2, 3), (4, 1)), 28, False, False),
        (value((2, 3), (1, 2), 5, og.bf16), 12, False, False),
        (value((0, 3)), 0, True, False),
        (value(()), 4, True, False),
        (value((2, 3), (0, 1)), 12, False, True),
        (value((1, 3), (0, 1)), 12, False, False),
        (value((2,), (-1,)), 0, False, True),
    ],
)
def test_size_and_layout_of_a_value(one, size, is_dense, is_irregular):
    assert (span(one), one.dense, one.irregular) == (size, is_dense, is_irregular)
    assert one.shift == one.offset * one.dtype.numpy.itemsize


def test_new_values_have_own_ids_and_memory():
    values = Values()
    first = values.new(og.f32, (2, 3), "x")
    view = values.part(values[first], "row", (3,), (1,), 3)
    like = values.like(view, "copy")
    turned = values.like(first, "turned", (3, 2), (1, 3))
    assert [first, view, like, turned] == [*values] == [0, 1, 2, 3]
    assert [one.storage for one in values.values()] == [0, 0, 2, 3]
    assert [one.name for one in values.values()] == ["x", "x (row)", "x (row) (copy)", "x (turned)"]
    assert (values[view].offset, values[like].offset, values[like].shape) == (3, 0, (3,))
    assert (values[turned].shape, values[turned].strides) == ((3, 2), (1, 3))


ROWS = {1: 1, 4: 4, 5: 8, 31: 32, 33: 36, 63: 64, 64: 64, 65: 72, 100: 104, 128: 128, 129: 144, 1000: 1024, 1025: 1152}


def test_rows_are_rounded_by_an_eighth_at_most():
    assert {rows: rounded_count(rows) for rows in ROWS} == ROWS
    opened = OpenSizes([100])
    found = rounded_count(opened.symbols[0])
    assert present(found) == 104
    compute = written_function(["s"], repr(found))
    assert [compute([rows]) for rows in ROWS if rows > 4] == [count for rows, count in ROWS.items() if rows > 4]


def test_integers_are_bounded_by_their_operands():
    graph, bounds = og.Graph(), IntegerBounds()
    x, unknown = graph.input("x", og.f32, (2, 5)), graph.input("n", og.s32, (5,))
    index = graph.op("GenIndex", [x], {"axis": -1}, edition="onednn-3.13")
    total = graph.op("Add", [index, graph.constant(np.int32([-7, 3, 0, 1, 2]))], edition="host")
    graph.op("Subtract", [total, index], edition="host")
    graph.op("Add", [total, unknown], edition="host")
    graph.op("Add", [x, x])
    assert [bounds.of(op, op.kind) for op in graph.ops] == [(), (5, 7), (12, 5), (12, None), ()]


def test_kernels_of_codes_take_these_numbers():
    """Zero and scale of two inputs, 1 / scale, zero and limits of the result."""
    assert numbers_of([Coding(0.5, 3)]).tolist() == [3, 0.5, 0, 1, 1, 0, 0, 0]
    both = [Coding(0.5, 3), Coding(0.25, -1)]
    assert numbers_of(both, Coding(0.25, 7), og.u8).tolist() == [3, 0.5, -1, 0.25, 4, 7, 0, 255]
    assert numbers_of(both, Coding(0.25, 7), og.u8, positive=True).tolist()[-2:] == [7, 255]
    assert numbers_of(both, Coding(2, -7), og.s8).tolist()[4:] == [0.5, -7, -128, 127]
    assert numbers_of([PLAIN], Coding(1, -7), og.s8, positive=True).tolist()[-2:] == [-7, 127]


WINDOW = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
# 9 places of the image, 9 elements of the window, 3 channels by 8: multiply-adds count twice.
TIMES = 2 * 9 * 9 * 3 * 8


@pytest.mark.parametrize(
    ("kind", "shapes", "attrs", "count"),
    [
        ("MatMul", [(2, 3), (3, 4)], {}, 2 * 2 * 3 * 4),
        ("MatMul", [(3, 2), (3, 4)], {"transpose_a": True}, 2 * 2 * 3 * 4),
        ("MatMul", [(5, 2, 3), (3, 4)], {}, 5 * 2 * 2 * 3 * 4),
        ("MatMul", [(3,), (3, 4)], {"transpose_a": True}, 2 * 3 * 4),
        ("MatMul", [(None, 3), (3, 4)], {}, None),
        ("ReLU", [(2, 3)], {}, None),
        ("Convolution", [(1, 5, 5, 3), (3, 3, 3, 8)], WINDOW, TIMES),
        ("Convolution", [(1, 3, 5, 5), (8, 3, 3, 3)], WINDOW | {"data_format": "NCX", "weights_format": "OIX"}, TIMES),
        ("ConvolutionBackwardData", [(1, 3, 3, 8), (3, 3, 3, 8)], WINDOW | {"dst_shape": [1, 5, 5, 3]}, TIMES),
        ("ConvolutionBackwardWeights", [(1, 5, 5, 3), (1, 3, 3, 8)], WINDOW | {"weights_shape": [3, 3, 3, 8]}, TIMES),
        ("ConvTranspose", [(1, 3, 3, 8), (3, 3, 3, 8)], WINDOW, TIMES),
    ],
)
def test_operations_of_products_are_counted(kind, shapes, attrs, count):
    graph = og.Graph()
    graph.op(kind, [graph.input(f"x{n}", og.f32, shape) for n, shape in enumerate(shapes)], attrs)
    assert flops(graph.ops[0]) == count


CONSTANT = np.ones(3, np.float32)


def end(shape, *, is_constant=False):
    return value(shape)._replace(constant=CONSTANT if is_constant else None)


X, W, ROW = end((8, 3)), end((3, 4), is_constant=True), end((3,), is_constant=True)
FIXED = end((8, 3), is_constant=True)


@pytest.mark.parametrize(
    ("kind", "ends", "attrs", "is_by_row"),
    [
        ("MatMul", (X, W), {}, True),
        ("MatMul", (X, W, ROW), {}, True),
        ("MatMul", (X, W, end((4,))), {}, False),
        ("MatMul", (X, end((3, 4))), {}, False),
        ("MatMul", (X, end((2, 3, 4), is_constant=True)), {}, False),
        ("MatMul", (X, W), {"transpose_a": True}, False),
        ("MatMul", (X, W), {"transpose_b": True}, True),
        ("BiasAdd", (X, ROW), {}, True),
        ("BiasAdd", (X, end((3,))), {}, False),
        ("BiasAdd", (X, ROW), {"data_format": "NCX"}, False),
        ("Add", (X, X), {}, True),
        ("Add", (X, ROW), {}, True),
        ("Add", (X, FIXED), {}, False),
        ("Add", (X, end((1, 3), is_constant=True)), {}, True),
        ("Quantize", (X,), {}, True),
        ("Quantize", (X,), {"qtype": "per_channel"}, False),
        ("Dequantize", (X, ROW), {}, False),
        ("ReLU", (X,), {}, True),
        ("TypeCast", (X,), {}, True),
    ],
)
def test_rows_follow_from_the_same_rows(kind, ends, attrs, is_by_row):
    step = SimpleNamespace(attrs=attrs, inputs=tuple(range(len(ends))), outputs=(7,))
    assert bool(BY_KIND[kind](step, ends)) is is_by_row


@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kind", ["SoftMax", "LogSoftmax", "LayerNorm"])
def test_axes_of_rows_are_the_last_ones(kind, count, axis):
    call = SimpleNamespace(s64=lambda name: axis if name == AXES[kind] else None)
    step = SimpleNamespace(attrs={}, outputs=(7, 8)[:count], kind=kind, part=SimpleNamespace(call=call))
    assert BY_KIND[kind](step, (X, ROW)) is (axis != 0 and count == 1)
    if kind == "LayerNorm":
        assert not BY_KIND[kind](step, (X, end((3,))))
