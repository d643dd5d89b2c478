"""Conditions of faults of single ops on uses that lie beside no example, with verdicts written out apart."""

from __future__ import annotations

import pytest

from onegraph.faults.ops import spanned_source
from onegraph.faults.ops.interpolation import ONE_COLUMN
from onegraph.faults.ops.matmul import over_one
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
