"""Small decisions of the compiler, with numbers worked out by hand: what is lifted, coded, packed, padded or copied."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph.compiler import (
    arithmetic,
    codings,
    lifting,
    memory_planner,
    numpy_steps,
    packed_weights,
    pads,
    to_capi,
    transformed_weights,
)
from onegraph.compiler.array_kernels import detection, indexing, matrices, nodes
from onegraph.compiler.ir.step import Step
from onegraph.compiler.ir.value import Value, Values, dense_of
from onegraph.compiler.kernels import registry
from onegraph.compiler.kernels.cast import _has_types
from onegraph.compiler.kernels.softmax import MANY, _is_for_other_axes
from onegraph.errors import ArgumentError
from onegraph.opset.editions.registry import BASE, HOST, base_of, edition
from onegraph.opset.schema import Call, TensorType

F32, S64 = np.float32, np.int64


def value(number, shape=(2, 3), strides=None, constant=None, dtype=og.f32):
    strides = dense_of(shape) if strides is None else strides
    return Value(number, dtype, shape, strides, number, f"v{number}", constant)


def step(kind, inputs, outputs, executor="library", **attrs):
    op = SimpleNamespace(kind=kind, inputs=(), outputs=(), edition="", attrs=attrs)
    return Step(0, executor, kind, tuple(inputs), tuple(outputs), op, attrs)


# Axes in front of a product -------------------------------------------------------------------------------------------


# By name: the shapes of both operands and the result, the attributes, more steps, and the number of axes that get more.
LIFTED = {
    "few rows": ((4, 64), (64, 32), {}, (), 2),
    "many rows": ((257, 64), (64, 32), {}, (), 0),
    "few rows of a turned matrix": ((512, 64), (32, 64), {"transpose_b": True}, (), 2),
    "many rows of a turned matrix": ((513, 64), (32, 64), {"transpose_b": True}, (), 0),
    "few rows that are turned": ((64, 4), (64, 32), {"transpose_a": True}, (), 0),
    "batches": ((3, 4, 64), (3, 64, 32), {}, (), 3),
    "a sum": ((4, 64), (64, 32), {}, ("Add",), 2),
    "a sum and a function": ((4, 64), (64, 32), {}, ("Add", "ReLU", "TypeCast"), 2),
    "a softmax": ((4, 64), (64, 32), {}, ("Add", "SoftMax"), 0),
    "another op": ((4, 64), (64, 32), {"kind": "Add"}, (), 0),
}


@pytest.mark.parametrize("name", LIFTED)
@pytest.mark.parametrize("avx512", [False, True])
def test_products_that_get_axes_in_front(name, avx512, monkeypatch):
    first, second, attrs, behind, rank = LIFTED[name]
    monkeypatch.setattr(lifting, "VERSION", (3, 2))
    monkeypatch.setattr(lifting, "has_avx512", lambda: avx512)
    attrs = dict(attrs)
    steps = [step(attrs.pop("kind", "MatMul"), [1, 2, 3], [3], **attrs)]
    steps += [step(kind, [3], [3]) for kind in behind]
    values = {1: value(1, first), 2: value(2, second), 3: value(3, (*first[:-1], 32))}
    wanted = rank if avx512 or "transpose_b" in attrs else 0
    assert lifting.lifted_rank(steps, values) == wanted
    values[2] = value(2, second, constant=np.ones(second, F32))
    assert lifting.lifted_rank(steps, values) == (wanted if len(second) == 3 else 0)


@pytest.mark.parametrize(
    ("columns", "dtype", "attrs", "rank"),
    [
        (256, og.f32, {}, 3),
        (257, og.f32, {}, 0),
        (256, og.bf16, {}, 0),
        (256, og.f32, {"transpose_b": True}, 0),
    ],
)
def test_constant_batches_of_short_rows_are_read_where_they_lie(columns, dtype, attrs, rank, monkeypatch):
    monkeypatch.setattr(lifting, "VERSION", (3, 2))
    monkeypatch.setattr(lifting, "has_avx512", lambda: True)
    shape = (3, 64, columns)
    values = {1: value(1, (3, 4, 64)), 2: value(2, shape, constant=0, dtype=dtype), 3: value(3, (3, 4, columns))}
    assert lifting.lifted_rank([step("MatMul", [1, 2], [3], **attrs)], values) == rank


@pytest.mark.parametrize("kind", ["StaticReshape", "StaticTranspose"])
@pytest.mark.parametrize(("before", "behind"), [((2, 3), (6,)), ((6,), (2, 3)), ((6,), (6,)), ((2, 3), (3, 2))])
def test_moves_behind_a_product_have_other_ranks(kind, before, behind):
    values = {1: value(1, before), 2: value(2, behind)}
    rank = len(behind if kind == "StaticReshape" else before)
    assert lifting._is_behind(step(kind, [1], [2]), values, 2) is (rank != 2)


def test_lifted_values_have_four_axes():
    one = value(1, (2, 3))
    assert lifting.lifted(one, 3) is one
    assert lifting.lifted(one, 2) == one._replace(shape=(1, 1, 2, 3), strides=(6, 6, 3, 1))
    turned = value(1, (2, 3), (1, 2))
    assert lifting.lifted(turned, 2) == turned._replace(shape=(1, 1, 2, 3), strides=(2, 2, 1, 2))
    rows = value(1, (2, 3, 4), (20, 5, 1))
    assert lifting.lifted(rows, 3) == rows._replace(shape=(1, 2, 3, 4), strides=(40, 20, 5, 1))


# Operations and codes -------------------------------------------------------------------------------------------------


def op_of(kind, shapes, outputs=1, **attrs):
    g = og.Graph()
    ends = [g.input(f"x{place}", "f32", shape) for place, shape in enumerate(shapes)]
    g.op(kind, ends, attrs)
    return g.ops[-1]


WINDOW = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}


@pytest.mark.parametrize(
    ("kind", "shapes", "attrs", "count"),
    [
        ("MatMul", [(2, 3), (3, 5)], {}, 2 * 2 * 3 * 5),
        ("MatMul", [(3, 2), (3, 5)], {"transpose_a": True}, 2 * 2 * 3 * 5),
        ("MatMul", [(3,), (3, 5)], {"transpose_a": True}, 2 * 3 * 5),
        ("MatMul", [(7, 3, 2), (7, 3, 5)], {"transpose_a": True}, 7 * 2 * 2 * 3 * 5),
        ("MatMul", [(None, 3), (3, 5)], {}, None),
        ("Convolution", [(2, 6, 6, 3), (3, 3, 3, 8)], WINDOW, 2 * (2 * 4 * 4 * 8) * 9 * 3),
        (
            "Convolution",
            [(2, 3, 6, 6), (8, 3, 3, 3)],
            {**WINDOW, "data_format": "NCX", "weights_format": "OIX"},
            2 * (2 * 4 * 4 * 8) * 9 * 3,
        ),
        ("Convolution", [(0, 6, 6, 3), (3, 3, 3, 8)], WINDOW, 0),
        ("ConvTranspose", [(2, 4, 4, 3), (3, 3, 8, 3)], WINDOW, 2 * (2 * 4 * 4 * 3) * 9 * 8),
        ("ReLU", [(2, 3)], {}, None),
        ("Add", [(2, 3), (2, 3)], {}, None),
    ],
)
def test_operations_of_products(kind, shapes, attrs, count):
    assert arithmetic.flops(op_of(kind, shapes, **attrs)) == count


def test_operations_as_many_of_f32():
    product, other = op_of("MatMul", [(2, 3), (3, 5)]), op_of("ReLU", [(2, 3)])
    one = step("MatMul", [1, 2], [3])._replace(op=product)
    behind = step("ReLU", [3], [4])._replace(op=other)
    for dtype, count in ((og.f32, 60), (og.bf16, 30), (og.s8, 15), (og.s64, 120)):
        assert arithmetic.f32_flops([one, behind], [value(1), value(2, dtype=dtype)]) == min(count, 60)
        assert arithmetic.f32_flops([one, one], [value(2, dtype=dtype)]) == 2 * count
    assert arithmetic.f32_flops([behind], [value(1)]) == 0
    assert arithmetic.f32_flops([], []) == 0


def quantize(executor="library", **attrs):
    return step("Quantize", [1], [2], executor, **attrs)


@pytest.mark.parametrize(
    ("one", "found"),
    [
        (quantize(scales=(0.5,), zps=(3,)), (0.5, 3)),
        (quantize(scales=(0.5,)), (0.5, 0)),
        (quantize(scales=(0.5,), zps=()), (0.5, 0)),
        (quantize(scales=(0.5,), zps=(3,), qtype="per_tensor"), (0.5, 3)),
        (quantize(scales=(0.5,), zps=(3,), qtype="per_channel"), None),
        (quantize("kernel", scales=(0.5,), zps=(3,)), None),
        (quantize(scales=(0.5, 0.5), zps=(3, 3)), None),
        (quantize(zps=(3,)), None),
        (quantize(scales=(0.0,), zps=(3,)), None),
        (quantize(scales=(1e-46,), zps=(3,)), None),
        (quantize(scales=(float("nan"),), zps=(3,)), None),
        (quantize(scales=(float("inf"),)), (float("inf"), 0)),
        (quantize(scales=(1.0,), zps=(1 << 15,)), (1, 1 << 15)),
        (quantize(scales=(1.0,), zps=((1 << 15) + 1,)), None),
        (quantize(scales=(1.0,), zps=(-(1 << 15),)), (1, -(1 << 15))),
        (quantize(scales=(1.0,), zps=(-(1 << 15) - 1,)), None),
        (quantize(scales=(0.1,)), (float(F32(0.1)), 0)),
    ],
)
def test_codings_that_kernels_take(one, found):
    assert codings.coding(one) == found


def test_numbers_of_kernels_for_codes():
    first, second = codings.Coding(0.5, 3), codings.Coding(0.25, 4)
    one = codings.numbers_of([first])
    assert (one.tolist(), one.dtype) == ([3, 0.5, 0, 1, 1, 0, 0, 0], F32)
    assert codings.numbers_of([first, second], codings.Coding(4, 7), og.u8).tolist() == [
        3,
        0.5,
        4,
        0.25,
        0.25,
        7,
        0,
        255,
    ]
    assert codings.numbers_of([first], codings.Coding(4, -7), og.s8).tolist()[5:] == [-7, -128, 127]
    assert codings.numbers_of([first], codings.Coding(4, -7), og.s8, positive=True).tolist()[5:] == [-7, -7, 127]
    assert codings.numbers_of([first], codings.Coding(4, 7), og.u8, positive=True).tolist()[5:] == [7, 7, 255]


# Weights --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("avx2", "avx512", "shape", "dtype", "skew"),
    [
        (True, False, (16, 512), F32, 16),
        (True, True, (16, 512), F32, 0),
        (False, False, (16, 512), F32, 0),
        (True, False, (16, 511), F32, 0),
        (True, False, (512,), F32, 0),
        (True, False, (2, 512, 512), F32, 0),
        (True, False, (16, 512), np.int32, 0),
    ],
)
def test_variables_that_start_beside_a_line_of_the_cache(avx2, avx512, shape, dtype, skew, monkeypatch):
    monkeypatch.setattr(transformed_weights, "has_avx2", lambda: avx2)
    monkeypatch.setattr(transformed_weights, "has_avx512", lambda: avx512)
    monkeypatch.setattr(transformed_weights, "VERSION", (3, 2))
    assert transformed_weights.skew_of_variable(np.empty(shape, dtype)) == skew


@pytest.mark.parametrize(
    ("layout", "shape", "is_taken"),
    [
        ("OIX", (16, 2, 3, 3), True),
        ("OIX", (32, 1, 3, 3), True),
        ("OIX", (15, 2, 3, 3), False),
        ("OIX", (16, 2, 3, 2), False),
        ("OIX", (3, 3, 2, 16), False),
        ("OIX", (16, 2, 3), False),
        ("OIX", (16, 2, 3, 3, 1), False),
        ("XIO", (3, 3, 2, 16), True),
        ("XIO", (3, 3, 16, 2), False),
        ("XIO", (16, 2, 3, 3), False),
        ("XIO", (3, 3, 2, 2, 16), False),
    ],
)
def test_weights_that_are_transformed(layout, shape, is_taken):
    weights = np.arange(np.prod(shape), dtype=F32).reshape(shape)
    if not is_taken:
        with pytest.raises(ValueError, match=r"have no transform|values to unpack"):
            transformed_weights.transformed_weights(weights, layout)
        return
    made = transformed_weights.weights_in(layout, weights)
    rows = weights.transpose(2, 3, 1, 0) if layout == "OIX" else weights
    g = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
    wanted = np.einsum("ab,bcio,dc->adio", g, rows, g).reshape(16, *rows.shape[2:])
    np.testing.assert_allclose(made, wanted, rtol=1e-5)
    assert not made.flags.writeable


@pytest.mark.parametrize(("form", "strides"), [("rows", (24, 12, 4)), ("columns", (24, 4, 8))])
def test_weights_that_start_beside_a_multiple_of_32_bytes(form, strides):
    weights = np.arange(24, dtype=F32).reshape(4, 2, 3)
    made = transformed_weights.weights_in(form, weights)
    np.testing.assert_array_equal(made, weights)
    assert (made.strides, made.ctypes.data % 32, made.flags.writeable) == (strides, 16, False)
    with pytest.raises(ValueError, match=r"^no form 'turned' of weights$"):
        transformed_weights.weights_in("turned", weights)


def test_groups_of_scales_in_front_of_a_kernel():
    assert packed_weights.groups_of(0, 64, "s4") == (0, 0, 1)
    assert packed_weights.groups_of(64, 64, "s4") == (0, 0, 1)
    assert packed_weights.groups_of(32, 64, "s8") is not None
    many = packed_weights.Groups(96, 32, 5)
    assert (many.repeats, packed_weights.Groups(0, 0, 1).repeats) == (3, 1)
    assert packed_weights._repeated(lambda: np.array([[1, 2], [3, 4]]), many).tolist() == [
        [1, 1, 1, 2, 2],
        [3, 3, 3, 4, 4],
    ]
    whole = packed_weights.aligned_empty((2, 2), np.dtype(F32))
    assert packed_weights._repeated(lambda: whole, packed_weights.Groups(32, 32, 2)) is whole
    assert packed_weights._repeated(lambda: whole, packed_weights.Groups(32, 32, 1)).shape == (2, 1)
    assert packed_weights._repeated(lambda: whole.T, packed_weights.Groups(32, 32, 2)).flags.c_contiguous
    memory = np.empty(65, np.int8)
    crooked = memory[1 if memory.ctypes.data % 2 == 0 else 0 :][:16].view(F32).reshape(2, 2)
    assert packed_weights._repeated(lambda: crooked, packed_weights.Groups(32, 32, 2)) is not crooked


def test_zero_points_have_the_smallest_type():
    for numbers, dtype in (
        ([-128, 127], np.int8),
        ([0, 128], np.uint8),
        ([0, 255], np.uint8),
        ([-1, 128], F32),
        ([0, 256], F32),
        ([0.5, 1], F32),
        ([np.nan, 1], F32),
    ):
        small = packed_weights._small(np.array(numbers))
        assert small.dtype == dtype
        np.testing.assert_array_equal(small, np.array(numbers))


@pytest.mark.parametrize(
    ("shape", "is_matrix"),
    [((2, 3), True), ((3,), False), ((), False), ((1, 2, 3), True), ((2, 2, 3), False), ((1, 1, 2, 3), True)],
)
def test_weights_that_are_one_matrix(shape, is_matrix):
    assert packed_weights.is_matrix(shape) is is_matrix


# Pads -----------------------------------------------------------------------------------------------------------------


class Scheduled:
    """A schedule that copies between arrays at once."""

    def __init__(self, *values):
        self.values, self.notes, self.copies = Values({one.id: one for one in values}), [], 0

    def note(self, *given):
        self.notes.append((given[0], *given[2:]))
        return len(self.notes) - 1

    def part(self, whole, shape, strides, offset):
        return self.values.part(whole, "part", shape, strides, offset)

    def cast(self, inputs, outputs, note):
        self.copies += 1


@pytest.mark.parametrize(
    ("shape", "mode", "ends", "number", "is_open", "copies"),
    [
        ((4, 5), "constant", [1, 1, 1, 1], None, False, 5),
        ((4, 5), None, [1, 1, 1, 1], None, False, 5),
        ((4, 5), "constant", [1, 0, 1, 0], None, False, 3),
        ((4, 5), "constant", [0, 0, 0, 0], None, False, 1),
        ((4, 5), "constant", [1, 1, 1, 1], 2.0, False, 5),
        ((4, 5), "constant", [1, 1, 1, 1], 2.0, True, 0),
        ((4, 5), "edge", [1, 1, 1, 1], None, False, 5),
        ((4, 5), "edge", [1, 1, 1, 1], 2.0, True, 5),
        ((4, 5), "reflect", [3, 4, 3, 4], None, False, 15),
        ((4, 5), "reflect", [4, 4, 3, 4], None, False, 0),
        ((4, 5), "reflect", [3, 4, 3, 5], None, False, 0),
        ((4, 5), "wrap", [4, 5, 4, 5], None, False, 5),
        ((4, 5), "wrap", [5, 5, 4, 5], None, False, 0),
        ((4, 5), "wrap", [4, 5, 4, 6], None, False, 0),
        ((4, 5), "other", [1, 1, 1, 1], None, False, 0),
        ((20,), "reflect", [16, 16], None, False, 33),
        ((20,), "reflect", [16, 17], None, False, 0),
        ((0, 5), "constant", [1, 1, 1, 1], None, False, 0),
        ((4, 5), "constant", [-1, 1, -1, 1], None, False, 3),
        ((4, 5), "constant", [-4, 1, 0, 1], None, False, 0),
        ((4, 5), "constant", [-1, 1, 2, -3], None, False, 3),
        ((4, 5), "constant", [], None, False, 0),
        ((4, 5), "constant", None, None, False, 0),
    ],
)
def test_pads_that_are_copies(shape, mode, ends, number, is_open, copies):
    known = ends or [0] * len(shape) * 2
    rank = len(shape)
    target = tuple(
        [max(dim + before + behind, 0) for dim, before, behind in zip(shape, known[:rank], known[rank:], strict=True)]
    )
    ports = [SimpleNamespace(value=None), SimpleNamespace(value=None if ends is None else np.array(ends, S64))]
    if number is not None:
        ports.append(SimpleNamespace(value=None if is_open else np.array(number, F32)))
    attrs = {} if mode is None else {"mode": mode}
    op = SimpleNamespace(kind="Pad", inputs=tuple(ports), attrs=attrs)
    one = Step(0, "reference", "Pad", (1,), (2,), op, {}, "noted")
    schedule = Scheduled(value(1, shape), value(2, target))
    assert pads.add_pad(schedule, one) is bool(copies)
    assert schedule.copies == copies
    assert schedule.notes == ([("copy", "with the elements around it, by all threads", "noted")] if copies else [])
    if number is not None and copies and mode == "constant":
        assert [each.constant.tolist() for each in schedule.values.values() if each.constant is not None] == [
            [[2.0]]
        ] * 4
    assert pads.add_pad(schedule, one._replace(op=SimpleNamespace(kind="Tile"))) is False


@pytest.mark.parametrize("axes", [6, 7])
def test_tiles_of_few_axes_are_copies(axes):
    shape = (2,) * axes
    ports = (SimpleNamespace(value=None), SimpleNamespace(value=np.array([3] * axes)))
    op = SimpleNamespace(kind="Tile", inputs=ports, attrs={})
    one = Step(0, "reference", "Tile", (1,), (2,), op, {}, "noted")
    schedule = Scheduled(value(1, shape), value(2, (6,) * axes))
    assert pads.add_tile(schedule, one) is (axes == 6)
    assert schedule.notes == ([("copy", "which reads the source again and again", "noted")] if axes == 6 else [])
    assert pads.add_tile(schedule, one._replace(op=SimpleNamespace(kind="Pad"))) is False
    ports[1].value = None
    assert pads.add_tile(schedule, one) is False


# Kernels --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "attrs", "is_taken"),
    [
        ((2, 3), {"axis": 0}, True),
        ((3, 2), {"axis": -2}, True),
        ((2, 3), {"axis": 1}, False),
        ((2, 3), {"axis": -1}, False),
        ((2, 3, 1), {"axis": 1}, False),
        ((MANY, 1), {"axis": 1}, True),
        ((MANY - 1, 1), {"axis": 1}, False),
        ((MANY // 2, 1, 2), {"axis": 1}, True),
        ((MANY // 2, 2), {"axis": 1}, False),
        ((2, 3), {"axis": 0, "mode": "inf_as_zero"}, False),
        ((2, None), {"axis": 0}, False),
        (None, {"axis": 0}, False),
    ],
)
def test_softmaxes_along_other_axes(shape, attrs, is_taken):
    call = Call(BASE["SoftMax"], attrs, [TensorType(og.f32, shape)], 1, [og.f32])
    assert _is_for_other_axes(call) is is_taken
    two = Call(BASE["SoftMax"], attrs, [TensorType(og.f32, shape)], 2, [og.f32, og.f32])
    assert _is_for_other_axes(two) is False


@pytest.mark.parametrize(
    ("first", "last", "has_types"),
    [
        ("f32", "f32", True),
        ("f32", "bf16", True),
        ("f16", "f32", True),
        ("s8", "s8", True),
        ("s32", "s32", True),
        ("boolean", "boolean", True),
        ("s8", "u8", False),
        ("s8", "f32", False),
        ("s64", "s64", False),
        ("s64", "f32", False),
    ],
)
def test_types_that_the_cast_takes(first, last, has_types):
    ends = [value(1, dtype=og.DataType(first)), value(2, dtype=og.DataType(last))]
    assert _has_types(ends) is has_types


def kernel(executor, when=None):
    return SimpleNamespace(executor=executor, when=when, kinds=("ReLU",))


@pytest.mark.parametrize(
    ("executors", "dtype", "shape", "found"),
    [
        (["exact"], og.f32, (2, 3), 0),
        (["exact"], og.s8, (2, 3), None),
        (["exact"], og.f32, (0, 3), None),
        (["exact"], og.f32, None, 0),
        (["guarded"], og.s8, (2, 3), 0),
        (["guarded"], og.f32, (0, 3), 0),
        ([""], og.f32, (2, 3), None),
        (["", "guarded"], og.f32, (2, 3), 1),
        (["exact", "guarded"], og.s8, (2, 3), 1),
        (["exact", "guarded"], og.f32, (2, 3), 0),
    ],
)
def test_kernels_in_the_place_of_the_library(executors, dtype, shape, found, monkeypatch):
    records = [kernel(one) for one in executors]
    monkeypatch.setattr(registry, "_of_kind", lambda kind: records if kind == "ReLU" else [])
    call = Call(BASE["ReLU"], {}, [TensorType(dtype, shape)], 1, [dtype])
    wanted = None if found is None else records[found]
    assert registry.special_kernel(call) is wanted
    is_exact = wanted is not None and wanted.executor == "exact"
    assert registry.exact_kernel(call) is (wanted if is_exact else None)
    for record in records:
        record.when = lambda _: False
    assert registry.special_kernel(call) is None
    for record in records:
        record.when = lambda given: given is call
    assert registry.special_kernel(call) is wanted


@pytest.mark.parametrize(
    ("size", "shape", "dtype", "is_taken"),
    [
        (1, (1,), F32, True),
        (nodes.FEW, (nodes.FEW,), F32, True),
        (nodes.FEW + 1, (nodes.FEW + 1,), F32, False),
        (0, (0,), F32, False),
        (6, (2, 3), F32, False),
        (6, (6,), np.float16, False),
    ],
)
def test_arrays_whose_elements_a_kernel_counts(size, shape, dtype, is_taken):
    found = nodes.distinct(np.zeros(shape, dtype))
    assert (found is not None) is is_taken
    if is_taken:
        assert [one.tolist() for one in found] == [[0], [0], [0] * size, [size]]


@pytest.mark.parametrize(
    ("shape", "dtype", "is_taken"),
    [
        ((nodes.SMALL, nodes.SMALL), F32, True),
        ((nodes.SMALL + 1, nodes.SMALL + 1), F32, False),
        ((2, 3, 3), np.float64, True),
        ((2, 3), F32, False),
        ((3,), F32, False),
        ((0, 3, 3), F32, False),
        ((3, 3), np.int32, False),
        ((3, 3), np.float16, False),
    ],
)
def test_matrices_whose_determinant_a_kernel_computes(shape, dtype, is_taken):
    src = np.zeros(shape, dtype)
    if is_taken:
        src[...] = np.eye(shape[-1])
        src[..., 0, 0] = 3
    found = nodes.determinants(src)
    assert (found is not None) is is_taken
    if is_taken:
        assert (found.shape, found.dtype) == (shape[:-2], dtype)
        assert (found == 3).all()


def call_of(kind, arrays, **attrs):
    types = [None if one is None else TensorType(og.f32, one.shape) for one in arrays]
    return Call(base_of(edition(HOST).schemas[kind]), attrs, types, 1)


def indexed(kind, *arrays, **attrs):
    return indexing.FUNCTIONS[kind](call_of(kind, arrays, **attrs), arrays, [])


def test_few_elements_are_gathered_by_numpy():
    src, places = np.arange(F32(2 * indexing.SMALL)), np.arange(indexing.SMALL)
    assert indexed("Gather", src, places, axis=0)[0].tolist() == places.tolist()
    assert indexed("Gather", src, places[:-1], axis=0) is None
    assert indexed("Gather", src[::2], places, axis=0) is None
    assert indexed("GatherElements", src[::2], places[:3], axis=0)[0].tolist() == [0, 2, 4]
    for kind in ("Gather", "GatherElements"):
        assert indexed(kind, src[:0], places, axis=0) is None
        assert indexed(kind, src, places[:0], axis=0) is None
    crooked = np.zeros(4 * len(src) + 1, np.int8)[1:].view(F32)
    assert indexed("GatherElements", crooked, places, axis=0) is None
    pairs = np.zeros((2, 3, 1), S64)
    assert indexed("GatherND", np.ones((2, 4), F32), pairs, batch_dims=1)[0].shape == (2, 3)
    assert indexed("GatherND", np.ones((3, 4), F32), pairs, batch_dims=1) is None


def test_long_slices_are_compressed_by_numpy():
    yes = np.array([True, False, True])
    assert indexed("Compress", np.ones((3, 16), F32), yes, axis=0) is None
    assert indexed("Compress", np.ones((3, 15), F32), yes, axis=0)[0].shape == (2, 15)
    assert indexed("Compress", np.ones((16, 3), F32), yes, axis=1)[0].shape == (16, 2)
    assert indexed("Compress", np.ones((16, 3), F32), yes, axis=-1)[0].shape == (16, 2)
    assert indexed("Compress", np.ones((0, 3), F32), yes, axis=1) is None
    (found,) = indexed("Compress", np.ones((3, 15), F32), np.zeros(3, bool), axis=0)
    assert (found.shape, found.dtype) == ((0, 15), F32)


def test_few_elements_other_than_0_are_found_by_numpy():
    many = np.zeros(indexing.SMALL + 1, F32)
    many[[3, 4096]] = 1
    assert indexed("NonZero", many)[0].tolist() == [[3, 4096]]
    assert indexed("NonZero", many[:-1])[0].tolist() == [[3]]
    assert indexed("NonZero", many[:-2]) is None
    assert indexed("NonZero", (many != 0))[0].tolist() == [[3, 4096]]
    assert indexed("NonZero", np.repeat(many != 0, 2)[::2]) is None
    assert indexed("NonZero", many.astype(np.float16)) is None


@pytest.mark.parametrize(
    ("kind", "dtype", "reduction", "is_taken"),
    [
        ("ScatterElements", F32, "none", True),
        ("ScatterElements", F32, "add", True),
        ("ScatterElements", np.float16, "none", True),
        ("ScatterElements", np.float16, "add", False),
        ("ScatterElements", np.uint16, "max", False),
    ],
)
def test_types_that_are_reduced_at_indices(kind, dtype, reduction, is_taken):
    src, places, updates = np.ones(3, dtype), np.array([1]), np.full(1, 2, dtype)
    found = indexed(kind, src, places, updates, axis=0, reduction=reduction)
    assert (found is not None) is is_taken
    assert indexed(kind, src[:0], places, updates, axis=0, reduction=reduction) is None
    assert indexed(kind, src, places[:0], updates[:0], axis=0, reduction=reduction) is None


@pytest.mark.parametrize(
    ("dtype", "src", "weights", "shape"),
    [
        (np.float64, (2, 3), (3, 4), (2, 4)),
        (np.float64, (3,), (3, 4), (4,)),
        (np.float64, (2, 3), (3,), (2,)),
        (np.float64, (3,), (3,), ()),
        (np.int32, (5, 2, 3), (3, 4), (5, 2, 4)),
        (np.uint64, (1, 2, 3), (5, 3, 4), (5, 2, 4)),
        (F32, (2, 3), (3, 4), None),
        (np.float64, (0, 3), (3, 4), None),
        (np.float64, (2, 3), (3, 0), None),
    ],
)
def test_products_that_a_kernel_computes(dtype, src, weights, shape):
    arrays = np.ones(src, dtype), np.ones(weights, dtype), np.full(1, 7, dtype)
    for count in (2, 3) if shape != () else (2,):
        found = matrices.mat_mul(call_of("MatMul", arrays[:count]), arrays[:count], [])
        assert (found is None) is (shape is None)
        if shape is not None:
            assert found[0].tolist() == np.full(shape, 3 + 7 * (count - 2)).tolist()


@pytest.mark.parametrize(
    ("limit", "shape", "found"),
    [
        (0, (1, 1, 3), []),
        (-1, (1, 1, 3), []),
        (1, (1, 1, 3), [[0, 0, 2]]),
        (2, (1, 1, 3), [[0, 0, 2], [0, 0, 1]]),
        (9, (1, 1, 3), [[0, 0, 2], [0, 0, 1], [0, 0, 0]]),
        (1, (1, 2, 3), [[0, 0, 2], [0, 1, 2]]),
        (2, (2, 1, 3), [[0, 0, 2], [0, 0, 1], [1, 0, 2], [1, 0, 1]]),
        (1, (2, 2, 3), [[0, 0, 2], [0, 1, 2], [1, 0, 2], [1, 1, 2]]),
        (1, (0, 1, 3), []),
        (1, (1, 0, 3), []),
    ],
)
def test_boxes_that_stay(limit, shape, found, monkeypatch):
    """Boxes far apart, of which later ones have larger scores."""
    boxes = np.array([[[k * 10, 0, k * 10 + 1, 1] for k in range(3)]] * shape[0], F32).reshape(shape[0], 3, 4)
    scores = np.broadcast_to(np.arange(1, 4, dtype=F32), shape).copy()
    kept = detection.kept_boxes(boxes, scores, limit, (0.5, 0.0, False))
    assert (kept.tolist(), kept.shape, kept.dtype) == (found, (len(found), 3), S64)
    monkeypatch.setattr(detection, "MOST_ELEMENTS", 2)
    assert (detection.kept_boxes(boxes, scores, limit, (0.5, 0.0, False)) is None) is bool(found)


# The C API, memory and numpy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "shape", "strides"),
    [
        (value(1), (2, 3), None),
        (value(1, (2, 3), (1, 2)), (2, 3), (1, 2)),
        (value(1, (2, 3), (7, 1)), (2, 3), (7, 1)),
    ],
)
@pytest.mark.parametrize("kind", ["variable", "constant"])
def test_values_as_logical_tensors(one, shape, strides, kind):
    made = to_capi.capi_tensor(7, one, kind)
    assert (made.id, made.dtype, made.shape, made.property) == (7, og.f32, shape, kind)
    assert made.strides == (strides or dense_of(shape))
    opened = to_capi.open_tensor(7, value(1, (0, 1, 2, 3)), kind)
    assert (opened.id, opened.shape, opened.property) == (7, (0, 1, None, None), kind)


@pytest.mark.parametrize("strides", [(-3, 1), (1 << 60, 1)])
def test_values_that_the_library_takes_not_are_checked(strides):
    with pytest.raises(ArgumentError):
        to_capi.capi_tensor(7, value(1, (2, 3), strides), "variable")


def test_memory_is_planned_in_multiples_of_the_alignment():
    size = memory_planner.ALIGNMENT
    assert [memory_planner.aligned(one) for one in (0, 1, size, size + 1)] == [size, size, size, 2 * size]
    lives = memory_planner.Lifetimes({5: 0, 6: 1, 7: 2}, {5: 1, 6: 2, 7: 3}, 4)
    assert lives.numbers == [5, 6, 7]
    assert lives.sources({6: 5, 7: 9}).tolist() == [-1, 0, -1]
    none = lives.sources({})
    offsets, block, rooms = lives.planned([0, size, size + 1], none)
    assert offsets.tolist() == [0, size, 2 * size]
    assert (block, rooms.shape) == (4 * size, (4, 2))
    assert [one.flags.writeable for one in (offsets, rooms)] == [False, False]
    assert lives.planned([1, 1, 2 * size], none)[0] is offsets
    assert lives.planned([1, size + 1, 1], none)[0] is not offsets
    assert lives.planned([1, 1, 1], lives.sources({6: 5}))[0].tolist()[:2] == [0, 0]


def test_results_of_numpy_are_copied_to_their_places():
    op = SimpleNamespace(kind="Exp", name="e", outputs=("x: f32 (2, 3)",))
    target = np.zeros((2, 3), F32)
    numpy_steps.copied_to(op, [target], [np.full((2, 3), 1.5)])
    assert target.tolist() == [[1.5] * 3] * 2
    with pytest.raises(ArgumentError, match=r"^Exp 'e': shape \(3,\); expected x: f32 \(2, 3\)$"):
        numpy_steps.copied_to(op, [target], [np.ones(3)])
    numpy_steps.copied_to(op, [target], [target[::-1]])
    assert target.tolist() == [[1.5] * 3] * 2
    turned = np.arange(4, dtype=F32).reshape(2, 2)
    numpy_steps.copied_to(op, [turned], [turned.T.copy()])
    assert turned.tolist() == [[0, 2], [1, 3]]
    base = np.zeros((2, 2), F32)
    assert numpy_steps._is_same_memory(base[:], base)
    assert not numpy_steps._is_same_memory(base.T, base)
    assert not numpy_steps._is_same_memory(base[::-1][:], base)
    assert not numpy_steps._is_same_memory(base.copy(), base)
