"""What oneDNN gets wrong of elementwise and binary ops."""

from __future__ import annotations

from math import inf, isinf

import numpy as np

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset import kinds
from ...opset.dtypes import DataType
from ...opset.ops.binary import slope_target
from ...opset.schema import Call
from ...opset.window import channel_axis
from ..fault import LIBRARY, UNSAFE, Faults, never

FAULTS = Faults[Call](severity=UNSAFE)
EXACT = 2**24  # up to which f32 holds every integer
WILD_RANK = 6  # from which on a Select ends in a signal
# Ops that may be of integers.
INTEGRAL = kinds.with_type(DataType.s32) & kinds.in_category("binary")

INFINITE_SLOPE = FAULTS.add(
    "infinite_slope",
    ops="HardSigmoid HardSigmoidBackward LeakyReLU",
    where="alpha",
    when=lambda call: isinf(call.f32("alpha")),
    seen={(3, 2): "wrong"},
    reason="an infinite alpha is multiplied by 0 for elements that do not need alpha, which gives NaN; where the "
    "formula "
    "gives NaN, the result may be a number",
    instead="numpy",
)


@INFINITE_SLOPE.example()
def leaky_relu_of_infinite_alpha(g: DataGraph) -> LogicalTensor:
    return g.op("LeakyReLU", [g.relu(g.input("x", "f32", (8,)))], {"alpha": inf})


SELECT_PRODUCTS = FAULTS.add(
    "select_products",
    ops="Select",
    where="cond",
    when=lambda call: True,
    seen={(3, 2): "unsupported", (3, 6): "wrong", (3, 13): "right"},
    reason="what is not selected is multiplied by 0, which infinities survive; from rank 6 on it is a signal",
    instead="onegraph's own kernel",
    since=(3, 3),
    certain=lambda call: len(call.shapes[0] or ()) >= WILD_RANK,
    of_nan=True,
)


@SELECT_PRODUCTS.example({(3, 2): "unsupported", (3, 6): "right", (3, 13): "right"})
def select(g: DataGraph) -> LogicalTensor:
    return g.op("Select", [g.input("c", "boolean", (4,)), g.input("x", "f32", (4,)), g.input("y", "f32", (4,))])


@SELECT_PRODUCTS.example()
def select_infinity(g: DataGraph) -> LogicalTensor:
    ends = g.input("c", "boolean", (8,)), g.input("x", "f32", (8,)), g.constant(np.array([-inf], np.float32))
    return g.op("Select", ends)


@SELECT_PRODUCTS.example({(3, 2): "unsupported", (3, 6): "wrong | SIGABRT", (3, 13): "right"})
def select_of_six_axes(g: DataGraph) -> LogicalTensor:
    shape = (2, 9, 4, 1, 9, 3)
    return g.op("Select", [g.input("c", "boolean", shape), g.input("x", "f32", shape), g.input("y", "f32", shape)])


def wide_integers(call: Call) -> bool:
    """Whether integers come in that f32 may not hold, nor what becomes of them."""
    tensors = [tensor for tensor in call.inputs if tensor is not None and tensor.dtype is DataType.s32]
    bounds = [tensor.bound for tensor in tensors if tensor.bound is not None]
    return len(bounds) < len(tensors) or sum(bounds) > EXACT


WIDE_INTEGERS = FAULTS.add(
    "wide_integers",
    ops=INTEGRAL,
    where="src_0",
    when=wide_integers,
    seen={(3, 2): "absent", (3, 13): "wrong"},
    reason="s32 is computed in f32, which does not hold every integer above 2**24",
    instead="numpy, unless the integers are known to be small",
    since=(3, 7),
    certain=never,  # with large integers alone
)


@WIDE_INTEGERS.example({(3, 2): "absent", (3, 13): "right"})
def sum_of_integers(g: DataGraph) -> LogicalTensor:
    wide = g.constant(np.array([2**24 + 1, 2**24, -(2**24) - 1, 2**29], np.int32))
    return g.op("Add", [g.input("x", "s32", (4,)), wide])


PRELU_RANK = FAULTS.add(
    "prelu_rank",
    ops="PReLU PReLUBackward",
    where="src",
    when=lambda call: call.rank("src") in (0, 1),
    seen={(3, 2): "SIGSEGV | SIGABRT | throws | refuses"},
    reason="a src without a channel axis crashes at compile",
    instead="the same op on a src with a channel axis of size 1",
)


@PRELU_RANK.example()
def prelu_of_a_vector(g: DataGraph) -> LogicalTensor:
    return g.op("PReLU", [g.input("x", "f32", (4,)), g.input("s", "f32", (1,))])


def single_slope(call: Call) -> bool:
    """Whether a slope has no axes, or is a vector of one element where the op wants one for each channel."""
    shape, slope = call.shape("src"), call.shape("slope")
    if shape is None or slope is None or len(shape) < 2 or (slope and slope != (1,)):
        return False
    if not slope:
        return True
    several = shape[channel_axis(len(shape), call.string("data_format"))] != 1
    return several and call.schema.kind == "PReLU" and call.flag("per_channel_broadcast")


def slope_of_few_axes(call: Call) -> bool:
    """Whether several slopes have two axes or more, and at least two fewer than channels-first images."""
    rank, slope = call.rank("src"), call.shape("slope")
    if rank is None or slope is None or call.string("data_format") != "NCX" or not call.flag("per_channel_broadcast"):
        return False
    return 2 <= len(slope) <= rank - 2 and set(slope) != {1}


SLOPE_OF_FEW_AXES = FAULTS.add(
    "slope_of_few_axes",
    ops="PReLU",
    where="slope",
    severity=LIBRARY,
    when=slope_of_few_axes,
    seen={(3, 2): "throws could not create a primitive"},
    reason="channels first, slopes of at least two axes fewer than src are refused if per_channel_broadcast is true",
    instead="the same op with per_channel_broadcast false",
)


@SLOPE_OF_FEW_AXES.example()
def slopes_of_rows_and_columns(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (2, 3, 4, 5)), g.input("s", "f32", (4, 5))
    return g.op("PReLU", ends, {"data_format": "NCX"})


def shares_slopes_of_rows(call: Call) -> bool:
    """Whether a gradient has a slope for each channel and row of images, which several columns and images share."""
    shape, slope = call.shape("src"), call.shape("slope")
    if shape is None or slope is None or len(shape) != 4:
        return False
    channels_first = (0, 1, 2, 3) if call.string("data_format") == "NCX" else (0, 3, 1, 2)
    slopes = slope_target(call, slope, shape)
    assert slopes is not None
    _, channels, rows, columns = (shape[axis] for axis in channels_first)
    return [slopes[axis] for axis in channels_first] == [1, channels, rows, 1] and 1 not in (rows, columns)


SHARED_SLOPES = FAULTS.add(
    "gradient_of_shared_slopes",
    ops="PReLUBackward",
    where="slope",
    when=shares_slopes_of_rows,
    seen={(3, 2): "right", (3, 6): "right", (3, 7): "wrong", (3, 13): "wrong"},
    reason="the kernel has no case for a slope of each channel and row, which columns share, and writes no result",
    instead="the same op with a slope for each element",
)


@SHARED_SLOPES.example()
def gradient_of_a_slope_for_each_row(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 2, 2, 1)), g.input("s", "f32", (1, 2, 1, 1)), g.input("d", "f32", (1, 2, 2, 1))
    return g.op("PReLUBackward", ends)[1]


SINGLE_SLOPE = FAULTS.add(
    "single_slope",
    ops="PReLU PReLUBackward",
    where="slope",
    severity=LIBRARY,
    when=single_slope,
    seen={(3, 2): "refuses partition_compile: invalid_shape"},
    reason="a slope without axes is refused, and a vector of one slope for several channels if per_channel_broadcast "
    "is true",
    instead="the same op with a slope of another shape",
)


@SINGLE_SLOPE.example()
def one_slope_for_all(g: DataGraph) -> LogicalTensor:
    return g.op("PReLU", [g.input("x", "f32", (2, 3)), g.input("s", "f32", (1,))])


@SINGLE_SLOPE.example()
def slope_without_axes(g: DataGraph) -> LogicalTensor:
    return g.op("PReLUBackward", [g.input("x", "f32", (2, 3)), g.input("s", "f32", ()), g.input("d", "f32", (2, 3))])[0]
