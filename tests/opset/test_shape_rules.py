"""Findings of rules of shapes by hand: calls with unknown ranks, at the bounds of ranks, and with shapes as tensors."""

import numpy as np
import pytest

from onegraph.opset.dtypes import DataType
from onegraph.opset.editions.registry import BASE
from onegraph.opset.schema import Call, TensorType
from onegraph.opset.window import shape_length, shape_source, spatial_list_length, spatial_rank

UNKNOWN = TensorType(DataType.f32, None)
AXES = "3, 4 or 5 elements: two of channels or batch, and 1 to 3 spatial axes"
RANKS = "rank 3, 4 or 5: batch, channels and 1 to 3 spatial axes"


def typed(rank):
    """A tensor of unknown dims."""
    return TensorType(DataType.f32, (None,) * rank)


def shape_tensor(*shape, value=None):
    """A tensor that gives a shape."""
    return TensorType(DataType.s32, shape, None if value is None else np.array(value, np.int32))


def findings(rule, kind, attrs, inputs):
    return [f"{one.where}: {one.given}; {one.expected}" for one in rule(Call(BASE[kind], attrs, inputs))]


@pytest.mark.parametrize(
    ("attrs", "inputs", "expected"),
    [
        ({"src_shape": (1, 5, 5, 2)}, [UNKNOWN], []),
        ({"src_shape": (1, 5, 5, 2)}, [typed(4)], []),
        ({"src_shape": (1, 5, 2)}, [typed(3)], []),
        ({"src_shape": (1, 5, 5, 5, 2)}, [typed(5)], []),
        ({"src_shape": (1, 5, 5, 2)}, [typed(3)], ["src_shape: [1, 5, 5, 2]; 3 elements, one for each axis"]),
        ({"src_shape": (1, 5, 5, 2)}, [typed(5)], ["src_shape: [1, 5, 5, 2]; 5 elements, one for each axis"]),
        ({"src_shape": (1, 5, 5, 2)}, [typed(2)], []),
        ({"src_shape": (1, 5, 5, 2)}, [typed(6)], []),
        ({"src_shape": (1, 5)}, [typed(2)], [f"src_shape: [1, 5]; {AXES}"]),
        ({"src_shape": (1,) * 6}, [typed(6)], [f"src_shape: [1, 1, 1, 1, 1, 1]; {AXES}"]),
        ({"src_shape": (1, 5)}, [UNKNOWN], [f"src_shape: [1, 5]; {AXES}"]),
        ({"src_shape": (1, 0, 2)}, [UNKNOWN], ["src_shape: [1, 0, 2]; positive elements"]),
        ({"src_shape": (1, 1, 1)}, [UNKNOWN], []),
        ({"src_shape": (1, -1, 2)}, [UNKNOWN], ["src_shape: [1, -1, 2]; positive elements"]),
        ({}, [UNKNOWN, shape_tensor(2, 2)], ["src_shape: rank 2; a tensor of rank 1"]),
        ({}, [UNKNOWN, TensorType(DataType.s32, ())], ["src_shape: rank 0; a tensor of rank 1"]),
        ({}, [UNKNOWN, TensorType(DataType.s32, None)], []),
        ({}, [UNKNOWN, shape_tensor(None)], []),
        ({}, [UNKNOWN], []),
        ({}, [UNKNOWN, shape_tensor(4)], []),
        ({}, [typed(4), shape_tensor(4)], []),
        ({}, [typed(4), shape_tensor(3)], ["src_shape: [?, ?, ?]; 4 elements, one for each axis"]),
        ({}, [typed(4), shape_tensor(12)], [f"src_shape: [{', '.join('?' * 12)}]; 4 elements, one for each axis"]),
        ({}, [typed(4), shape_tensor(20)], ["src_shape: 20 elements; 4 elements, one for each axis"]),
        ({}, [UNKNOWN, shape_tensor(20)], [f"src_shape: 20 elements; {AXES}"]),
        ({}, [UNKNOWN, shape_tensor(3, value=[1, 0, 5])], ["src_shape: [1, 0, 5]; positive elements"]),
        ({}, [UNKNOWN, shape_tensor(3, value=[1, 4, 5])], []),
        # The input overrides the attribute.
        ({"src_shape": (1, 0)}, [UNKNOWN, shape_tensor(4)], []),
    ],
)
def test_given_shapes_have_an_element_for_each_axis(attrs, inputs, expected):
    assert findings(shape_length, "AvgPoolBackward", attrs, inputs) == expected


def test_a_rank_between_those_of_images_is_taken():
    inputs = [typed(2), typed(4)]
    told = findings(shape_length, "ConvolutionBackwardData", {"dst_shape": (1, 5, 5)}, inputs)
    assert told == ["dst_shape: [1, 5, 5]; 4 elements, one for each axis"]
    told = findings(shape_length, "ConvolutionBackwardData", {"dst_shape": (1, 5, 5)}, [UNKNOWN, typed(6)])
    assert told == []


@pytest.mark.parametrize(
    ("attrs", "inputs", "is_missing"),
    [
        ({}, [typed(4)], True),
        ({}, [typed(4), None], True),
        ({"src_shape": (1, 5, 5, 2)}, [typed(4)], False),
        ({}, [typed(4), shape_tensor(4)], False),
        ({"src_shape": (1, 5, 5, 2)}, [typed(4), shape_tensor(4)], False),
    ],
)
def test_shapes_come_from_an_attribute_or_an_input(attrs, inputs, is_missing):
    told = findings(shape_source, "AvgPoolBackward", attrs, inputs)
    assert told == ["src_shape: neither the attribute nor the input; one of the two"] * is_missing


@pytest.mark.parametrize(
    ("kind", "inputs", "expected"),
    [
        ("MaxPool", [typed(3)], []),
        ("MaxPool", [typed(5)], []),
        ("MaxPool", [typed(2)], [f"src: rank 2; {RANKS}"]),
        ("MaxPool", [typed(6)], [f"src: rank 6; {RANKS}"]),
        ("MaxPool", [UNKNOWN], []),
        ("MaxPoolBackward", [typed(3), typed(4)], []),
        ("MaxPoolBackward", [typed(3), typed(2)], [f"diff_dst: rank 2; {RANKS}"]),
        ("AvgPoolBackward", [typed(3), shape_tensor(3)], []),
        ("Convolution", [typed(4), typed(4)], []),
        ("Convolution", [typed(4), UNKNOWN], []),
        ("Convolution", [UNKNOWN, typed(4)], []),
        ("Convolution", [typed(4), typed(3)], ["weights: rank 3; rank 4, as src has"]),
        ("Convolution", [typed(3), typed(4), typed(1)], ["weights: rank 4; rank 3, as src has"]),
        ("Convolution", [typed(5), typed(4)], ["weights: rank 4; rank 5, as src has"]),
        ("Convolution", [typed(2), typed(4)], [f"src: rank 2; {RANKS}"]),
        ("Convolution", [typed(6), typed(4)], [f"src: rank 6; {RANKS}"]),
        ("Convolution", [typed(4), None], []),
    ],
)
def test_windows_move_over_one_to_three_axes(kind, inputs, expected):
    assert findings(spatial_rank, kind, {}, inputs) == expected


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs", "expected"),
    [
        ("MaxPool", {"strides": (1, 1)}, [typed(4)], []),
        ("MaxPool", {"strides": (1,)}, [typed(3)], []),
        ("MaxPool", {"strides": (1, 1)}, [typed(2)], []),
        ("MaxPool", {"strides": (1, 1)}, [typed(6)], []),
        ("MaxPool", {"strides": (1, 1)}, [UNKNOWN], []),
        (
            "MaxPool",
            {"strides": (1, 1), "kernel": (3,)},
            [typed(3)],
            ["strides: [1, 1]; 1 element, one for each spatial axis of a rank 3 tensor"],
        ),
        (
            "MaxPool",
            {"pads_begin": (1,), "pads_end": (1, 1, 1)},
            [typed(4)],
            [
                "pads_begin: [1]; 2 elements, one for each spatial axis of a rank 4 tensor",
                "pads_end: [1, 1, 1]; 2 elements, one for each spatial axis of a rank 4 tensor",
            ],
        ),
        ("MaxPool", {"pads_begin": (1,), "auto_pad": "valid"}, [typed(4)], []),
        (
            "MaxPool",
            {"pads_begin": (1,), "strides": (1,), "auto_pad": "none"},
            [typed(4)],
            [
                "strides: [1]; 2 elements, one for each spatial axis of a rank 4 tensor",
                "pads_begin: [1]; 2 elements, one for each spatial axis of a rank 4 tensor",
            ],
        ),
        (
            "AvgPoolBackward",
            {"strides": (1,)},
            [UNKNOWN, shape_tensor(4)],
            ["strides: [1]; 2 elements, one for each spatial axis of a rank 4 tensor"],
        ),
        (
            "AvgPoolBackward",
            {"strides": (1,), "src_shape": (1, 5, 5, 2)},
            [UNKNOWN],
            ["strides: [1]; 2 elements, one for each spatial axis of a rank 4 tensor"],
        ),
        ("AvgPoolBackward", {"strides": (1,), "src_shape": (1, 5, 5, 2)}, [UNKNOWN, shape_tensor(None)], []),
        ("AvgPoolBackward", {"strides": (1,), "src_shape": (1, 5, 5, 2)}, [typed(3)], []),
        ("AvgPoolBackward", {"strides": (1,)}, [UNKNOWN], []),
    ],
)
def test_lists_have_an_element_for_each_spatial_axis(kind, attrs, inputs, expected):
    assert findings(spatial_list_length, kind, attrs, inputs) == expected
