"""Conditions of faults of single ops on uses that lie beside no example, with verdicts written out apart."""

from __future__ import annotations

import pytest

from onegraph.faults.constant_inputs import SPREAD_CONSTANT, Constants, End, WiredOp, added, computed, spread, variables
from onegraph.faults.cpus import NO_ARITHMETIC, OnCpu
from onegraph.faults.ops import spanned_source
from onegraph.faults.ops.interpolation import ONE_COLUMN
from onegraph.faults.ops.matmul import over_one
from onegraph.faults.strided_ops import STRIDED_OPERAND
from onegraph.faults.use import Laid
from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE
from onegraph.opset.schema import Call, TensorType


def use_of(kind, attrs, *shapes, dtype="f32"):
    return Call(BASE[kind], attrs, [TensorType(DataType[dtype], shape) for shape in shapes], 1, [DataType[dtype]])


@pytest.mark.parametrize(
    ("src", "weights", "turned", "is_over_one"),
    [
        ((5, 1), (2, 2, 1, 3), False, True),
        ((1, 5), (2, 2, 1, 3), True, True),
        ((5, 1), (2, 2, 5, 3), True, False),
        ((5, 1), (2, 1, 3), False, False),
        ((2, 5, 1), (2, 1, 3), False, False),
        ((2, 2, 5, 1), (1, 3), False, True),
        ((2, 2, 5, 1), (1,), False, True),
        ((1,), (2, 2, 1, 3), False, False),
        (None, (2, 2, 1, 3), False, False),
        ((2, 2, 5, 1), None, False, False),
    ],
)
def test_sums_over_one_element_are_those_of_four_axes(src, weights, turned, is_over_one):
    assert over_one(use_of("MatMul", {"transpose_a": turned}, src, weights)) is is_over_one


@pytest.mark.parametrize("kind", ["Interpolate", "InterpolateBackward"])
@pytest.mark.parametrize(
    ("src", "form", "is_pixel"),
    [
        ((2, 2, 1, 1), "NCX", True),
        ((2, 1, 1, 1), "NCX", False),
        ((2, None, 1, 1), "NCX", False),
        ((2, 2, 2, 1), "NCX", False),
        ((2, 1, 1, 2), "NXC", False),
        ((2, 2, 1, 1), "NXC", False),
        (None, "NCX", False),
    ],
)
def test_pixels_of_channels_that_come_first_are_certainly_wrong(kind, src, form, is_pixel):
    attrs = {"mode": "nearest", "sizes": (3, 3), "data_format": form}
    result = None if src is None else (*src[:2], 3, 3) if form == "NCX" else (src[0], 3, 3, src[-1])
    given = (src, result) if kind.endswith("Backward") else (src,)
    assert ONE_COLUMN.certain(use_of(kind, attrs, *given)) is (is_pixel and kind == "Interpolate")


@pytest.mark.parametrize(
    ("src", "weights", "stride", "is_in_no_window"),
    [
        ((1, 4, 4, 3), (2, 2, 3, 3), 2, False),
        ((1, 4, 4, 3), (2, 2, 3, 3), 3, True),
        ((1, 4, 4, 3), (2, 1, 3, 3), 2, True),
        ((1, 4, 4, 3), (1, 2, 3, 3), 2, True),
        ((1, None, 4, 3), (2, 2, 3, 3), 2, True),
        ((1, 4, None, 3), (2, 2, 3, 3), 2, True),
        ((1, 4, 4, 3), (2, None, 3, 3), 2, True),
        (None, (2, 2, 3, 3), 2, True),
        ((1, 4, 4, 3), None, 2, True),
        (None, None, 2, True),
    ],
)
@pytest.mark.parametrize("padding", ["none", "same_upper"])
def test_sizes_that_are_unknown_may_leave_elements_in_no_window(src, weights, stride, is_in_no_window, padding):
    attrs = {"strides": (stride,) * 2, "pads_begin": (0, 0), "pads_end": (0, 0), "dilations": (1, 1)}
    attrs |= {"data_format": "NXC", "weights_format": "XOI", "auto_pad": padding}
    call = use_of("ConvTranspose", attrs, src, weights, (3,), dtype="bf16")
    assert spanned_source.in_no_window(call) is is_in_no_window
    assert spanned_source.biased_gaps(call) is is_in_no_window
    assert not spanned_source.biased_gaps(use_of("ConvTranspose", attrs, src, weights, dtype="bf16"))
    assert not spanned_source.biased_gaps(use_of("ConvTranspose", attrs, src, weights, (3,)))


# The types of a source and of a result, how many results there are, the CPU, and whether it has no kernel.
KERNELS = [
    ("SoftMax", "f32", "bf16", None, "avx2", True),
    ("SoftMax", "f32", "bf16", 1, "avx2", True),
    ("SoftMax", "f32", "bf16", 2, "avx2", False),
    ("SoftMax", "bf16", "bf16", 2, "avx2", True),
    ("SoftMax", "f16", "f16", 1, "avx512_core_bf16", True),
    ("SoftMax", "f16", "f16", 1, "avx512_core_fp16", False),
    ("SoftMax", "bf16", "bf16", 1, "avx2_vnni_2", False),
    ("SoftMax", "bf16", "bf16", 1, "avx2_vnni", True),
    ("SoftMax", "bf16", "bf16", 1, "avx512_core", False),
    ("SoftMax", "f32", "f32", 1, "avx2", False),
    ("Quantize", "bf16", "u8", 1, "avx2", False),
    ("GenIndex", "bf16", "s32", 1, "avx2", False),
]


@pytest.mark.parametrize(("kind", "source", "result", "count", "isa", "is_missing"), KERNELS)
def test_kernels_of_16_bits_are_missing_on_older_cpus(kind, source, result, count, isa, is_missing):
    for ends in ([TensorType(DataType[source], (2, 3))], [None, TensorType(DataType[source], (2, 3))]):
        call = Call(BASE[kind], {}, ends, count, [DataType[result], DataType.f32])
        assert NO_ARITHMETIC.certain(OnCpu(call, isa)) is is_missing


@pytest.mark.parametrize(
    ("shape", "is_read", "is_wrong"),
    [
        ((2, 3), True, True),
        ((2, 3), False, False),
        ((4, 2, 3), True, False),
        ((4, 2, 3), False, False),
        ((4, 1, 3), False, True),
        ((1, 3), False, True),
    ],
)
def test_strided_operands_are_wrong_with_fewer_axes_where_the_op_reads_them(shape, is_read, is_wrong):
    laid = Laid("Add", 3, shape, tuple(range(100, 0, -1))[: len(shape)], is_read)
    assert STRIDED_OPERAND.when(laid) is is_wrong


# The shapes of what a ReLU makes of value 0, and of what an Add makes of that; and the values that are spread.
SPREAD = [
    ((2, 3), (2, 3), set()),
    ((1, 3), (2, 3), set()),
    ((3,), (2, 3), {0, 1}),
    ((1, 2, 3), (2, 3), set()),
    (None, (2, 3), {0, 1}),
    ((2, 3), None, {0, 1}),
]


@pytest.mark.parametrize(("made", "result", "values"), SPREAD)
def test_values_are_spread_where_results_take_on_axes(made, result, values):
    ends = End(0, made), End(1, made), End(2, (2, 3)), End(3, result)
    for kind, source in (("ReLU", values), ("StaticReshape", values & {0})):
        nodes = [WiredOp(kind, ends[:1], ends[1:2]), WiredOp("Add", ends[1:3], ends[3:])]
        assert spread(nodes) == source
        assert spread(nodes[1:]) == set()
        assert computed(nodes, {0}) == ({0} if kind == "ReLU" else set())
        assert computed(nodes, {0, 2}) == {0}
        assert computed(nodes, {2}) == set()
        assert SPREAD_CONSTANT.when(Constants(nodes, {0})) is bool(values)
        assert SPREAD_CONSTANT.when(Constants(nodes, {2})) is False
        assert variables(nodes, {0}) == added(nodes) | source | computed(nodes, {0})
        is_whole = None in (made, result) or made == result
        assert added(nodes) == ({1 if kind == "ReLU" else 0} if is_whole else set()) | (
            {2} if result in (None, (2, 3)) else set()
        )
        assert added(nodes[1:]) == set()
