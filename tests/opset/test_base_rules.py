"""Findings and shapes of ops by hand: unknown ranks and dims, and what lies at both sides of each bound."""

import pytest
from helpers.rule_calls import call_of, told

from onegraph.opset.editions.registry import BASE
from onegraph.opset.unsettled import UnsettledCall, UnsettledError

POOL = {"kernel": (3, 3), "strides": (2, 2), "pads_begin": (0, 0), "pads_end": (0, 0), "data_format": "NCX"}
MEAN = {**POOL, "exclude_pad": True}
CONV = {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "dilations": (1, 1), "data_format": "NCX"}
CONV["weights_format"] = "OIX"
SPREAD = {**CONV, "weights_format": "IOX"}
LINEAR = {"mode": "linear", "data_format": "NCX"}
REACH = "the reach of the dilated kernel without the padding"


def call(kind, attrs, given):
    return call_of(BASE[kind], attrs, given)


CASES = [
    ("MaxPool", POOL, {"src": (1, 2, 3, 3)}, []),
    ("MaxPool", POOL, {"src": (1, 2, None, 3)}, []),
    ("MaxPool", POOL, {"src": "unknown"}, []),
    ("MaxPool", POOL, {"src": (1, 2, 3, 2)}, [f"src: 2 elements along spatial axis 1; at least 3, {REACH}"]),
    (
        "MaxPool",
        {**POOL, "pads_begin": (1, 0), "pads_end": (1, 0), "dilations": (2, 1)},
        {"src": (1, 2, 2, 3)},
        [f"src: 2 elements along spatial axis 0; at least 3, {REACH}"],
    ),
    ("MaxPool", {**POOL, "pads_begin": (3, 0), "pads_end": (1, 0)}, {"src": (1, 2, 0, 3)}, []),
    (
        "MaxPool",
        {**POOL, "pads_begin": (1, 0), "pads_end": (1, 0)},
        {"src": (1, 2, 0, 3)},
        [f"src: 0 elements along spatial axis 0; at least 1, {REACH}"],
    ),
    ("MaxPoolBackward", POOL, {"src": (1, 2, 7, 7), "diff_dst": (1, 2, 3, 3)}, []),
    ("MaxPoolBackward", POOL, {"src": (1, 2, 8, 7), "diff_dst": (1, 2, 3, 3)}, []),
    ("MaxPoolBackward", POOL, {"src": (1, 2, 8, 7), "diff_dst": (1, 2, 4, 3)}, []),
    ("MaxPoolBackward", POOL, {"src": (1, 2, 8, 7), "diff_dst": (1, 2, None, 3)}, []),
    (
        "MaxPoolBackward",
        POOL,
        {"src": (1, 2, 8, 7), "diff_dst": (1, 2, 5, 3)},
        ["diff_dst: 5 elements along spatial axis 0; 3 or 4, the window positions on 8 elements"],
    ),
    (
        "MaxPoolBackward",
        POOL,
        {"src": (1, 2, 8, 7), "diff_dst": (1, 2, 2, 3)},
        ["diff_dst: 2 elements along spatial axis 0; 3 or 4, the window positions on 8 elements"],
    ),
    (
        "MaxPoolBackward",
        POOL,
        {"src": (1, 2, 7, 7), "diff_dst": (1, 2, 3, 4)},
        ["diff_dst: 4 elements along spatial axis 1; 3, the window positions on 7 elements"],
    ),
    (
        "MaxPoolBackward",
        POOL,
        {"src": (1, 2, 1, 7), "diff_dst": (1, 2, 1, 3)},
        ["src: 1 element along spatial axis 0; a source that the window fits in"],
    ),
    ("MaxPoolBackward", POOL, {"src": (1, 2, 2, 7), "diff_dst": (1, 2, 1, 3)}, []),
    (
        "MaxPoolBackward",
        POOL,
        {"src": (1, 2, 2, 7), "diff_dst": (1, 2, 0, 3)},
        ["diff_dst: 0 elements along spatial axis 0; 1, the window positions on 2 elements"],
    ),
    ("MaxPoolBackward", {**POOL, "auto_pad": "same_upper"}, {"src": (1, 2, 7, 8), "diff_dst": (1, 2, 4, 4)}, []),
    (
        "MaxPoolBackward",
        {**POOL, "auto_pad": "same_upper"},
        {"src": (1, 2, 7, 8), "diff_dst": (1, 2, 4, 3)},
        ["diff_dst: 3 elements along spatial axis 1; 4, the window positions on 8 elements"],
    ),
    (
        "MaxPoolBackward",
        POOL,
        {"src": (1, 2, 7, 7), "diff_dst": (1, 3, 3, 3)},
        ["diff_dst: channels 3; channels 2, as src has"],
    ),
    (
        "MaxPoolBackward",
        POOL,
        {"src": (1, 2, 7, 7), "diff_dst": (2, 2, 3, 3)},
        ["diff_dst: batch 2; batch 1, as src has"],
    ),
    ("MaxPoolBackward", POOL, {"src": (1, 2, 7, 7), "diff_dst": (1, 2, 3)}, ["diff_dst: rank 3; rank 4, as src has"]),
    ("MaxPoolBackward", POOL, {"src": (None, None, 7, 7), "diff_dst": (2, 9, 3, 3)}, []),
    ("MaxPoolBackward", POOL, {"src": "unknown", "diff_dst": (2, 9, 3, 3)}, []),
    ("MaxPoolBackward", POOL, {"src": (1, 2, 7, 7), "diff_dst": "unknown"}, []),
    ("AvgPool", {**MEAN, "pads_begin": (2, 2)}, {"src": (1, 2, 7, 7)}, []),
    (
        "AvgPool",
        {**MEAN, "pads_begin": (2, 3)},
        {"src": (1, 2, 7, 7)},
        ["pads_begin: 3 along spatial axis 1; less than the kernel, 3"],
    ),
    ("AvgPool", {**MEAN, "pads_begin": (2, 3), "exclude_pad": False}, {"src": (1, 2, 7, 7)}, []),
    ("AvgPool", {**MEAN, "pads_end": (2, 2)}, {"src": (1, 2, 7, 7)}, []),
    ("AvgPool", {**MEAN, "pads_end": (3, 2)}, {"src": (1, 2, 7, 7)}, []),
    (
        "AvgPool",
        {**MEAN, "pads_end": (4, 2)},
        {"src": (1, 2, 7, 7)},
        [
            "pads_end: 4 along spatial axis 0, where window 4 starts behind the source; "
            "padding with which every window has an element of the source"
        ],
    ),
    ("Convolution", CONV, {"src": (1, 4, 5, 5), "weights": (6, 4, 3, 3), "bias": (6,)}, []),
    ("Convolution", CONV, {"src": (1, 4, 3, 5), "weights": (6, 4, 3, 3)}, []),
    ("Convolution", CONV, {"src": "unknown", "weights": (6, 4, 3, 3), "bias": (6,)}, []),
    ("Convolution", CONV, {"src": (1, None, 5, 5), "weights": (6, 4, 3, 3)}, []),
    (
        "Convolution",
        CONV,
        {"src": (1, 4, 2, 5), "weights": (6, 4, 3, 3)},
        [f"src: 2 elements along spatial axis 0; at least 3, {REACH}"],
    ),
    (
        "Convolution",
        CONV,
        {"src": (1, 3, 5, 5), "weights": (6, 4, 3, 3)},
        ["weights: 4 input channels; 3, as src has"],
    ),
    ("Convolution", {**CONV, "groups": 2}, {"src": (1, 4, 5, 5), "weights": (6, 2, 3, 3)}, []),
    (
        "Convolution",
        {**CONV, "groups": 2},
        {"src": (1, 4, 5, 5), "weights": (6, 4, 3, 3)},
        ["weights: 4 input channels for each of 2 groups; 2 for each of 2 groups, as src has"],
    ),
    (
        "Convolution",
        {**CONV, "groups": 3},
        {"src": (1, 4, 5, 5), "weights": (6, 2, 3, 3)},
        ["groups: 3; a divisor of the 4 channels of src"],
    ),
    (
        "Convolution",
        {**CONV, "groups": 4},
        {"src": (1, 4, 5, 5), "weights": (6, 1, 3, 3)},
        ["groups: 4; a divisor of the 6 channels"],
    ),
    (
        "Convolution",
        CONV,
        {"src": (1, 4, 5, 5), "weights": (6, 4, 3, 3), "bias": (4,)},
        ["bias: shape [4]; shape [6], one element for each output channel"],
    ),
    ("ConvTranspose", SPREAD, {"src": (1, 4, 5, 5), "weights": (4, 6, 3, 3), "bias": (6,)}, []),
    (
        "ConvTranspose",
        SPREAD,
        {"src": (1, 4, 5, 5), "weights": (3, 6, 3, 3)},
        ["weights: 3 input channels; 4, as src has"],
    ),
    (
        "ConvTranspose",
        {**SPREAD, "pads_begin": (3, 3), "pads_end": (3, 3)},
        {"src": (1, 4, 4, 5), "weights": (4, 6, 3, 3)},
        [
            "pads_begin: 3 + 3 along spatial axis 0; less than 6 together with pads_end, as the result has "
            "stride * (size - 1) + reach elements without padding"
        ],
    ),
    (
        "ConvTranspose",
        {**SPREAD, "pads_begin": (3, 3), "pads_end": (3, 3), "output_padding": (1, 0)},
        {"src": (1, 4, 4, 5), "weights": (4, 6, 3, 3)},
        [],
    ),
    (
        "ConvolutionBackwardData",
        {**CONV, "dst_shape": (1, 4, 5, 5)},
        {"diff_dst": (1, 6, 3, 3), "weights": (6, 4, 3, 3)},
        [],
    ),
    (
        "ConvolutionBackwardData",
        {**CONV, "dst_shape": (1, 4, 5, 6)},
        {"diff_dst": (1, 6, 3, 3), "weights": (6, 4, 3, 3)},
        ["dst_shape: 6 elements along spatial axis 1; 5, which this window maps to 3"],
    ),
    (
        "ConvolutionBackwardData",
        {**CONV, "strides": (2, 2), "dst_shape": (1, 4, 9, 7)},
        {"diff_dst": (1, 6, 3, 3), "weights": (6, 4, 3, 3)},
        ["dst_shape: 9 elements along spatial axis 0; 7 to 8, which this window maps to 3"],
    ),
    (
        "ConvolutionBackwardData",
        {**CONV, "strides": (2, 2), "dst_shape": (1, 4, 8, 6)},
        {"diff_dst": (1, 6, 3, 3), "weights": (6, 4, 3, 3)},
        ["dst_shape: 6 elements along spatial axis 1; 7 to 8, which this window maps to 3"],
    ),
    (
        "ConvolutionBackwardData",
        {**CONV, "dst_shape": (2, 4, 5, 5)},
        {"diff_dst": (1, 6, 3, 3), "weights": (6, 4, 3, 3)},
        ["dst_shape: batch 2; batch 1, as diff_dst has"],
    ),
    (
        "ConvolutionBackwardWeights",
        {**CONV, "weights_shape": (6, 4, 3, 3)},
        {"src": (1, 4, 5, 5), "diff_dst": (2, 6, 3, 3)},
        ["src: batch 1; batch 2, as diff_dst has"],
    ),
    ("Interpolate", {**LINEAR, "sizes": (4, 6)}, {"src": (1, 2, 3, 3)}, []),
    ("Interpolate", {**LINEAR, "scales": (2.0, 1.0)}, {"src": (1, 2, 3, None)}, []),
    ("Interpolate", LINEAR, {"src": (1, 2, 3, 3)}, ["sizes: neither sizes nor scales; one of the two"]),
    (
        "Interpolate",
        {**LINEAR, "sizes": ()},
        {"src": (1, 2, 3, 3)},
        ["sizes: neither sizes nor scales; one of the two"],
    ),
    ("Interpolate", LINEAR, {"src": (1, 2, 3, 3), "sizes": [4, 6]}, []),
    ("Interpolate", LINEAR, {"src": (1, 2, 3, 3), "sizes": [4, 0]}, ["sizes: [4, 0]; positive sizes"]),
    ("Interpolate", LINEAR, {"src": (1, 2, 3, 3), "sizes": [4, 1]}, []),
    ("Interpolate", LINEAR, {"src": (1, 2, 3, 3), "sizes": (2, 1)}, ["sizes: rank 2; a tensor of rank 1"]),
    (
        "Interpolate",
        LINEAR,
        {"src": (1, 2, 3, 3), "sizes": (3,)},
        ["sizes: 3 elements; 2, one for each spatial axis of a rank 4 src"],
    ),
    ("Interpolate", LINEAR, {"src": "unknown", "sizes": (3,)}, []),
    ("Interpolate", LINEAR, {"src": (1, 2, 3, 3), "sizes": (None,)}, []),
    (
        "Interpolate",
        {**LINEAR, "sizes": (4,)},
        {"src": (1, 2, 3, 3)},
        ["sizes: 1 element; 2, one for each spatial axis of a rank 4 src"],
    ),
    (
        "Interpolate",
        {**LINEAR, "scales": (1e30, 1.0)},
        {"src": (1, 2, 3, 3)},
        ["scales: [1e+30, 1.0]; sizes that fit 64 bits"],
    ),
    ("Interpolate", {**LINEAR, "mode": "bilinear", "sizes": (4, 6)}, {"src": (1, 2, 3, 3)}, []),
    (
        "Interpolate",
        {**LINEAR, "mode": "trilinear", "sizes": (4, 6)},
        {"src": (1, 2, 3, 3)},
        ["mode: trilinear; bilinear, linear or nearest, as src has rank 4"],
    ),
    (
        "Interpolate",
        {**LINEAR, "mode": "bilinear", "sizes": (4, 6, 7)},
        {"src": (1, 2, 3, 3, 3)},
        ["mode: bilinear; trilinear, linear or nearest, as src has rank 5"],
    ),
    (
        "Interpolate",
        {**LINEAR, "mode": "bilinear", "sizes": (4,)},
        {"src": (1, 2, 3)},
        ["mode: bilinear; linear or nearest, as src has rank 3"],
    ),
    (
        "Interpolate",
        {**LINEAR, "sizes": (4, 6)},
        {"src": (1, 2, 0, 3)},
        ["src: shape [1, 2, 0, 3]; spatial axes with elements"],
    ),
    ("Interpolate", {**LINEAR, "scales": (2.0, 2.0)}, {"src": (1, 2, 0, 3)}, []),
    ("Concat", {"axis": 1}, {"src_i": (2, 3)}, []),
    ("Concat", {"axis": 2}, {"src_i": (2, 3)}, ["axis: 2; an axis of a rank 2 tensor, -2 to 1"]),
    ("StaticReshape", {"shape": (3, -1), "special_zero": False}, {"src": (2, 6)}, []),
    ("StaticReshape", {"shape": (3, -1), "special_zero": False}, {"src": (None, 6)}, []),
    ("StaticReshape", {"shape": (-1, -1), "special_zero": False}, {"src": (2, 6)}, ["shape: [-1, -1]; at most one -1"]),
    (
        "StaticReshape",
        {"shape": (5,), "special_zero": False},
        {"src": (2, 6)},
        ["shape: [5]; a shape of 12 elements, as src has"],
    ),
    ("StaticReshape", {"shape": (5,), "special_zero": False}, {"src": "unknown"}, []),
    ("StaticReshape", {"shape": (0, 6), "special_zero": True}, {"src": (2, 6)}, []),
    ("StaticReshape", {"shape": (0, 6), "special_zero": True}, {"src": (None, 6)}, []),
    (
        "StaticReshape",
        {"shape": (0, 6), "special_zero": False},
        {"src": (2, 6)},
        ["shape: [0, 6]; a shape of 12 elements, as src has"],
    ),
    ("StaticReshape", {"shape": (0, -1), "special_zero": True}, {"src": (2, 6)}, []),
    (
        "StaticReshape",
        {"shape": (0, -1), "special_zero": False},
        {"src": (2, 6)},
        ["shape: [0, -1]; no -1 beside a dim of 0, which leaves it open"],
    ),
    (
        "StaticReshape",
        {"shape": (5, -1), "special_zero": False},
        {"src": (2, 6)},
        ["shape: [5, -1]; a shape that [2, 6] of src can be divided into"],
    ),
    (
        "StaticReshape",
        {"shape": (2, 6, 0), "special_zero": True},
        {"src": (2, 6)},
        ["shape: [2, 6, 0]; zeros at the first 2 places only, as src has that rank"],
    ),
    ("StaticReshape", {"shape": (2, 0), "special_zero": True}, {"src": (2, 6)}, []),
    ("StaticReshape", {"shape": (2, 6, 0), "special_zero": True}, {"src": "unknown"}, []),
    ("MatMul", {}, {"src": (2, 3), "weights": (3, 4)}, []),
    ("MatMul", {}, {"src": (3,), "weights": (3,)}, []),
    ("MatMul", {"transpose_a": True}, {"src": (3, 2), "weights": (3, 4)}, []),
    ("MatMul", {"transpose_b": True}, {"src": (5, 2, 3), "weights": (4, 3), "bias": (5, 1, 4)}, []),
    ("MatMul", {}, {"src": (2, None), "weights": (3, 4)}, []),
    ("MatMul", {}, {"src": "unknown", "weights": (3, 4), "bias": (9, 9)}, []),
    ("MatMul", {}, {"src": (), "weights": (3, 4)}, ["src: a scalar; at least one axis"]),
    ("MatMul", {}, {"src": (3,), "weights": ()}, ["weights: a scalar; at least one axis"]),
    (
        "MatMul",
        {},
        {"src": (2, 3), "weights": (4,)},
        ["weights: 4 rows (shape [4]); 3, the columns of src (shape [2, 3])"],
    ),
    (
        "MatMul",
        {},
        {"src": (2, 3), "weights": (1, 3)},
        ["weights: 1 row (shape [1, 3]); 3, the columns of src (shape [2, 3])"],
    ),
    (
        "MatMul",
        {},
        {"src": (2, 2, 3), "weights": (3, 3, 4)},
        ["weights: batch [3]; a batch that broadcasts with [2] of src"],
    ),
    (
        "MatMul",
        {},
        {"src": (2, 3), "weights": (3, 4), "bias": (3,)},
        ["bias: shape [3]; a shape that broadcasts to [2, 4] of dst"],
    ),
    (
        "MatMul",
        {},
        {"src": (2, 3), "weights": (3, 4), "bias": (1, 1, 4)},
        ["bias: shape [1, 1, 4]; a shape that broadcasts to [2, 4] of dst"],
    ),
]


@pytest.mark.parametrize("first", range(0, len(CASES), 20))
def test_ops_find_mistakes_of_shapes(first):
    for kind, attrs, given, expected in CASES[first : first + 20]:
        assert told(call(kind, attrs, given)) == expected, (kind, attrs, given)


SHAPES = [
    ("MaxPool", POOL, {"src": (1, 2, 8, None)}, (1, 2, 3, None)),
    ("MaxPool", {**POOL, "rounding_type": "ceil"}, {"src": (1, 2, 8, 7)}, (1, 2, 4, 3)),
    ("MaxPool", {**POOL, "auto_pad": "same_lower"}, {"src": (1, 2, 8, 7)}, (1, 2, 4, 4)),
    ("MaxPool", {**POOL, "auto_pad": "valid", "pads_begin": (1,)}, {"src": (1, 2, 8, 7)}, (1, 2, 3, 3)),
    ("MaxPool", {**POOL, "dilations": (2, 1)}, {"src": (1, 2, 8, 7)}, (1, 2, 2, 3)),
    ("MaxPool", {**POOL, "data_format": "NXC"}, {"src": (1, 8, 7, 2)}, (1, 3, 3, 2)),
    ("MaxPool", POOL, {"src": "unknown"}, None),
    ("AvgPoolBackward", {**MEAN, "src_shape": (1, 2, 8, 8)}, {"diff_dst": (1, 2, 3, 3)}, (1, 2, 8, 8)),
    ("AvgPoolBackward", MEAN, {"diff_dst": (1, 2, 3, 3), "src_shape": (4,)}, (1, 2, None, None)),
    ("AvgPoolBackward", MEAN, {"diff_dst": (1, 2, 3, 3)}, (1, 2, None, None)),
    ("AvgPoolBackward", {**MEAN, "src_shape": (1, 2, 8, 8)}, {"diff_dst": "unknown"}, (1, 2, 8, 8)),
    ("Convolution", CONV, {"src": (1, 4, 5, None), "weights": (6, 4, 3, 3)}, (1, 6, 3, None)),
    ("Convolution", CONV, {"src": "unknown", "weights": (6, 4, 3, 3)}, (None, 6, None, None)),
    ("Convolution", CONV, {"src": (1, 4, 5, 5), "weights": "unknown"}, (1, None, None, None)),
    (
        "Convolution",
        {**CONV, "auto_pad": "same_upper", "strides": (2, 2)},
        {"src": (1, 4, 5, 6), "weights": (6, 4, 3, 3)},
        (1, 6, 3, 3),
    ),
    (
        "Convolution",
        {**CONV, "auto_pad": "valid", "pads_begin": (1, 1)},
        {"src": (1, 4, 5, 6), "weights": (6, 4, 3, 3)},
        (1, 6, 3, 4),
    ),
    ("ConvTranspose", {**SPREAD, "strides": (2, 2)}, {"src": (1, 4, 5, 5), "weights": (4, 6, 3, 2)}, (1, 6, 11, 10)),
    (
        "ConvTranspose",
        {**SPREAD, "groups": 2, "output_padding": (1, 0)},
        {"src": (1, 4, 5, 5), "weights": (4, 6, 3, 3)},
        (1, 12, 8, 7),
    ),
    (
        "ConvTranspose",
        {**SPREAD, "auto_pad": "same_upper", "strides": (2, 2)},
        {"src": (1, 4, 5, 5), "weights": (4, 6, 3, 3)},
        (1, 6, 10, 10),
    ),
    (
        "ConvTransposeBackwardData",
        {**SPREAD, "strides": (2, 2)},
        {"diff_dst": (1, 6, 11, 10), "weights": (4, 6, 3, 2)},
        (1, 4, 5, 5),
    ),
    ("Interpolate", {**LINEAR, "sizes": (4, 6)}, {"src": (1, 2, 3, 3)}, (1, 2, 4, 6)),
    ("Interpolate", {**LINEAR, "scales": (2.5, 0.5)}, {"src": (1, 2, 3, 3)}, (1, 2, 7, 1)),
    ("Interpolate", {**LINEAR, "scales": (2.5, 0.5)}, {"src": (1, 2, None, 3)}, (1, 2, None, 1)),
    ("Interpolate", {**LINEAR, "sizes": (4, 6), "scales": (2.5, 0.5)}, {"src": (1, 2, 3, 3)}, (1, 2, 4, 6)),
    ("Interpolate", LINEAR, {"src": (1, 2, 3, 3), "sizes": [7, 8]}, (1, 2, 7, 8)),
    ("Interpolate", LINEAR, {"src": "unknown", "sizes": (2,)}, (None, None, None, None)),
    ("Interpolate", LINEAR, {"src": (1, 2, 3, 3), "sizes": (None,)}, (1, 2, None, None)),
    ("Concat", {"axis": -1}, {"src_i": (2, 3)}, (2, 3)),
    ("StaticReshape", {"shape": (3, -1), "special_zero": False}, {"src": (2, 6)}, (3, 4)),
    ("StaticReshape", {"shape": (0, -1, 2), "special_zero": True}, {"src": (2, 6)}, (2, 3, 2)),
    ("StaticReshape", {"shape": (0, 6), "special_zero": False}, {"src": (2, 0)}, (0, 6)),
    ("MatMul", {"transpose_a": True, "transpose_b": True}, {"src": (3, 2), "weights": (4, 3)}, (2, 4)),
    ("MatMul", {"transpose_a": True}, {"src": (3,), "weights": (5, 3, 4)}, (5, 4)),
    ("MatMul", {}, {"src": (2, 3), "weights": (3,)}, (2,)),
    ("MatMul", {}, {"src": (3,), "weights": (3,)}, ()),
    ("MatMul", {}, {"src": (5, 1, 2, 3), "weights": (6, 3, 4)}, (5, 6, 2, 4)),
]


@pytest.mark.parametrize("first", range(0, len(SHAPES), 20))
def test_ops_have_the_shapes_by_hand(first):
    for kind, attrs, given, expected in SHAPES[first : first + 20]:
        assert call(kind, attrs, given).shapes[0] == expected, (kind, attrs, given)


def test_wrong_attributes_stay_unsettled_with_another_value_of_one():
    attrs = {**CONV, "auto_pad": "x"}
    given = call("Convolution", attrs, {"src": (1, 2, 3, 3), "weights": (4, 2, 3, 3)})
    first = UnsettledCall(given, frozenset(["auto_pad", "groups"]))
    other = first.with_attr("data_format", "NXC")
    assert [one.attr("data_format") for one in (given, first, other)] == ["NCX", "NCX", "NXC"]
    assert (other.schema, other.inputs) == (given.schema, given.inputs)
    assert (other.n_outputs, other.output_types) == (given.n_outputs, given.output_types)
    assert other.attr("weights_format") == "OIX"
    assert UnsettledCall(given, frozenset()).attr("groups") == 1
    assert [other.has(name) for name in ("auto_pad", "strides", "kernel")] == [True, True, False]
    for read in (lambda: other.attr("auto_pad"), lambda: other.attr("groups"), lambda: other.has("groups")):
        with pytest.raises(UnsettledError):
            read()
    with pytest.raises(UnsettledError):
        _ = other.given
