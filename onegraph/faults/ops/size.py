"""Tensors that are empty or huge, of which oneDNN gets many ops wrong."""

from __future__ import annotations

from math import factorial, gcd, prod

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.editions.registry import BASE
from ...opset.schema import Call
from ...opset.shapes import known_dims, normalize_axis
from ..fault import UNSAFE, Faults
from .reduction import REDUCTIONS
from .windows import AVERAGE, CONVOLUTIONS, IMAGE, NCX, POOL, ROW

FAULTS = Faults[Call](where="shape", severity=UNSAFE, instead="numpy")
EXACT = 2**24  # up to which f32 holds every integer
SMALL_FACTORS = factorial(1000)  # every prime factor up to 1000

# Huge ----------------------------------------------------------------------------------------------------------------


def has_long_side(call: Call) -> bool:
    """Whether there are 2**31 - 1 or more rows, columns or places of an image, in whatever order the axes are."""
    for tensor in call.inputs:
        dims = known_dims(None if tensor is None else tensor.shape)
        sides = (dims[:-1], dims[-1:], dims[1:-1], dims[2:])
        if any(prod(side) >= (1 << 31) - 1 for side in sides):
            return True
    return False


HUGE_PRODUCT = FAULTS.add(
    "huge_product",
    ops=f"MatMul {CONVOLUTIONS}",
    when=has_long_side,
    seen={(3, 2): "SIGFPE"},
    reason="2**31 - 1 or more rows, columns or places of an image divide by zero at compile",
)


@HUGE_PRODUCT.example(runs=False)
def product_of_many_rows(g: DataGraph) -> LogicalTensor:
    return g.op("MatMul", [g.input("x", "f32", (2**32, 16)), g.input("w", "f32", (16, 16))])


@HUGE_PRODUCT.example(runs=False)
def product_over_a_long_axis(g: DataGraph) -> LogicalTensor:
    return g.op("MatMul", [g.input("x", "f32", (1, 2**32)), g.input("w", "f32", (2**32, 1))])


@HUGE_PRODUCT.example(runs=False)
def convolution_of_a_large_image(g: DataGraph) -> LogicalTensor:
    x, w = g.input("x", "f32", (1, 1, 2**16, 2**16)), g.input("w", "f32", (4, 1, 1, 1))
    return g.op("Convolution", [x, w], {**IMAGE, **NCX, "weights_format": "OIX"})


def has_large_factor(call: Call) -> bool:
    """Whether the size of an axis has a prime factor of 2**31 - 1 or more."""
    sizes = [dim or 0 for tensor in call.inputs if tensor is not None for dim in tensor.shape or ()]
    return any(_without_small_factors(size) >= (1 << 31) - 1 for size in sizes if size >= (1 << 31) - 1)


def _without_small_factors(size: int) -> int:
    """What is left of a number that is divided by what it has in common with all numbers up to 1000."""
    while (common := gcd(size, SMALL_FACTORS)) > 1:
        size //= common
    return size


LARGE_FACTOR = FAULTS.add(
    "large_factor",
    ops=frozenset(BASE) - {"End", "Wildcard"},  # as any of them may read or write another layout than its kernel's
    when=has_large_factor,
    seen={(3, 2): "hang"},
    reason="where elements are moved, compiling looks for a divisor of an axis among all numbers: a prime factor of "
    "2**31 - 1 "
    "or more takes minutes, or for ever",
)


@LARGE_FACTOR.example(runs=False)
def axis_of_a_large_prime(g: DataGraph) -> LogicalTensor:
    return g.op("Abs", [g.input("x", "f32", (2**40 - 87, 2))])


@LARGE_FACTOR.example(runs=False)
def axis_of_twice_a_large_prime(g: DataGraph) -> LogicalTensor:
    return g.op("Reorder", [g.input("x", "f32", (2, 2 * (2**31 - 1)))])


def has_long_rows(call: Call) -> bool:
    """Whether the last axis of the source is longer than 2**24."""
    shape = call.shape("src")
    return shape is not None and len(shape) > 0 and (shape[-1] or 0) > 1 << 24


LONG_ROWS = FAULTS.add(
    "long_rows",
    ops="LayerNorm",
    when=has_long_rows,
    seen={(3, 2): "hang"},
    reason="code is made for each element of the last axis: more than 2**24 take minutes and gigabytes to compile",
)


@LONG_ROWS.example(runs=False)
def row_of_2_to_the_25_elements(g: DataGraph) -> LogicalTensor:
    return g.op("LayerNorm", [g.input("x", "f32", (1, 2**25))], {"use_affine": False, "keep_stats": False})


def sums_one_by_one(call: Call) -> bool:
    """Whether more than 2**24 numbers make one of the results: a statistic, a row along the axis, a pixel, a weight."""
    shapes = [t.shape for t in call.inputs[:2] if t is not None and t.shape is not None]
    if not shapes or any(dim is None for shape in shapes for dim in shape):
        return False
    sizes, kind = [[dim or 0 for dim in shape] for shape in shapes], call.schema.kind
    first = sizes[0]
    if kind in ("SoftMax", "LogSoftmax"):
        axis = normalize_axis(call.s64("axis"), len(first))
        return axis is not None and first[axis] > EXACT and prod(first[axis + 1 :]) > 1
    if kind == "InterpolateBackward":
        return len(sizes) == 2 and prod(sizes[1]) > prod(first) * EXACT
    if kind == "ConvTransposeBackwardWeights" and call.s64("groups") == 1:
        return False
    channels = first[-1 if call.string("data_format") == "NXC" else 1] if len(first) > 1 else 0
    return prod(first) > channels * EXACT


LONG_SUMS = FAULTS.add(
    "long_sums",
    ops="BatchNormForwardTraining BatchNormTrainingBackward SoftMax LogSoftmax InterpolateBackward "
    "ConvTransposeBackwardWeights",
    where="src",
    when=sums_one_by_one,
    seen={(3, 2): "wrong"},
    reason="more than 2**24 numbers are added up one by one in f32, so that the sum stands still",
    instead="other ops that add up in parts, or numpy",
)


@LONG_SUMS.example(runs=False)
def statistics_of_more_numbers_than_f32_counts(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 5 * 2**22, 1, 2)), g.input("m", "f32", (2,)), g.input("v", "f32", (2,))
    return g.op("BatchNormForwardTraining", ends, {"epsilon": 1.0, "momentum": 0.5})


@LONG_SUMS.example(runs=False)
def gradient_of_statistics_of_large_images(g: DataGraph) -> LogicalTensor:
    images = [g.input(name, "f32", (2, 3, 2**12, 2**12)) for name in "xd"]
    vectors = [g.input(name, "f32", (3,)) for name in "mvg"]
    return g.op("BatchNormTrainingBackward", [*images, *vectors], {"epsilon": 1.0, "data_format": "NCX"})


@LONG_SUMS.example(runs=False)
def softmax_along_long_columns(g: DataGraph) -> LogicalTensor:
    return g.op("LogSoftmax", [g.input("x", "f32", (2**24 + 1, 2))], {"axis": -2}, dtype="f32")


@LONG_SUMS.example(runs=False)
def weight_of_a_long_row_in_groups(g: DataGraph) -> LogicalTensor:
    ends = [g.input(name, "f32", (1, 2, 2**24 + 1)) for name in "xd"]
    attrs = {**ROW, **NCX, "groups": 2, "weights_format": "IOX", "weights_shape": [2, 1, 1]}
    return g.op("ConvTransposeBackwardWeights", ends, attrs)


@LONG_SUMS.example(runs=False)
def gradient_of_one_pixel(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 1, 1, 1)), g.input("d", "f32", (1, 1, 2**12, 2**12 + 1))
    return g.op("InterpolateBackward", ends, {"mode": "nearest", "sizes": [2**12, 2**12 + 1], "data_format": "NCX"})


# Empty ---------------------------------------------------------------------------------------------------------------


def empty(call: Call) -> bool:
    """Whether a tensor that comes in has an axis of size 0."""
    return any(tensor is not None and tensor.shape is not None and 0 in tensor.shape for tensor in call.inputs)


LAST = Faults[Call]()  # asked after all other faults, as it says least of the op
EMPTY_TENSOR = LAST.add(
    "empty_tensor",
    ops=f"{CONVOLUTIONS} {REDUCTIONS} MatMul AvgPool AvgPoolBackward MaxPool MaxPoolBackward Quantize Dequantize "
    "DynamicQuantize DynamicDequantize Concat Interpolate InterpolateBackward GroupNorm LayerNorm LayerNormBackward "
    "BatchNormInference BatchNormForwardTraining BatchNormTrainingBackward PReLU PReLUBackward SoftMax "
    "SoftMaxBackward LogSoftmax LogSoftmaxBackward",
    where="inputs",
    severity=UNSAFE,
    when=empty,
    seen={(3, 2): "SIGFPE"},
    reason="an empty tensor divides by zero, or leaves the result unwritten, in some of the kernels",
    instead="nothing where the result is empty too, otherwise numpy",
)
_ACROSS = {"scales": [0.1, 0.2, 0.3], "zps": [0, 0, 0], "qtype": "per_channel", "axis": 1}
_DYNAMIC = {"qtype": "per_channel", "axis": 1}


@EMPTY_TENSOR.example({(3, 2): "throws could not reshape", (3, 6): "accepted | wrong | right"})
def sum_of_nothing(g: DataGraph) -> LogicalTensor:
    return g.op("ReduceSum", [g.input("x", "f32", (0, 4))], {"axes": [1]})


@EMPTY_TENSOR.example({(3, 2): "wrong"})
def maximum_over_nothing(g: DataGraph) -> LogicalTensor:
    return g.op("ReduceMax", [g.input("x", "f32", (3, 0))], {"axes": [1], "keep_dims": True})


@EMPTY_TENSOR.example({(3, 2): "wrong", (3, 13): "refuses partition_compile: invalid_graph_op"})
def product_over_nothing(g: DataGraph) -> LogicalTensor:
    return g.op("MatMul", [g.input("x", "f32", (2, 0)), g.input("w", "f32", (0, 3))])


@EMPTY_TENSOR.example({(3, 2): "wrong", (3, 13): "refuses partition_compile: invalid_graph_op"})
def product_over_nothing_with_a_bias(g: DataGraph) -> LogicalTensor:
    return g.op("MatMul", [g.input("x", "f32", (2, 0)), g.input("w", "f32", (0, 3)), g.input("b", "f32", (3,))])


@EMPTY_TENSOR.example({(3, 2): "SIGFPE | right"})
def max_pool_of_nothing(g: DataGraph) -> LogicalTensor:
    return g.op("MaxPool", [g.input("x", "f32", (0, 4, 6, 6))], {**POOL, **NCX})


@EMPTY_TENSOR.example({(3, 2): "SIGFPE | right"})
def avg_pool_of_nothing(g: DataGraph) -> LogicalTensor:
    return g.op("AvgPool", [g.input("x", "f32", (0, 4, 6, 6))], AVERAGE)


@EMPTY_TENSOR.example({(3, 2): "SIGFPE", (3, 6): "accepted | right"})
def quantize_of_nothing(g: DataGraph) -> LogicalTensor:
    return g.op("Quantize", [g.input("x", "f32", (0, 3))], _ACROSS, dtype="u8")


@EMPTY_TENSOR.example({(3, 2): "SIGFPE", (3, 6): "right"})
def dequantize_of_nothing(g: DataGraph) -> LogicalTensor:
    return g.op("Dequantize", [g.input("x", "u8", (0, 3))], _ACROSS)


@EMPTY_TENSOR.example({(3, 2): "SIGFPE", (3, 6): "right"})
def dynamic_quantize_of_nothing(g: DataGraph) -> LogicalTensor:
    return g.op("DynamicQuantize", [g.input("x", "f32", (0, 3)), g.input("s", "f32", (3,))], _DYNAMIC, dtype="u8")


@EMPTY_TENSOR.example({(3, 2): "SIGFPE", (3, 6): "right"})
def dynamic_dequantize_of_nothing(g: DataGraph) -> LogicalTensor:
    return g.op("DynamicDequantize", [g.input("x", "u8", (0, 3)), g.input("s", "f32", (3,))], _DYNAMIC)


@EMPTY_TENSOR.example({(3, 2): "SIGSEGV", (3, 6): "wrong"})
def group_norm_of_nothing(g: DataGraph) -> LogicalTensor:
    return g.op("GroupNorm", [g.input("x", "f32", (2, 0, 6))], {"groups": 3, "use_affine": False})[1]
