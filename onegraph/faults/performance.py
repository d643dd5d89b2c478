"""Single ops that oneDNN computes right with a reference kernel: 20 to 2,000 times as long as the way around."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset.dtypes import DataType
from ..opset.ops.binary import slope_target
from ..opset.schema import Call
from ..opset.shapes import known_dims
from .fault import SLOW, Faults, Release
from .operands import is_fast, rows_together, varying
from .ops.convolution import in_low_precision
from .ops.windows import IMAGE, POOL
from .use import BINARY, Dims

# Broadcast operands of single binary ops -----------------------------------------------------------------------------

BROADCASTS = Faults[tuple[Dims, Dims]]()
SLOW_BROADCAST = BROADCASTS.add(
    "slow_broadcast",
    ops=BINARY,
    where="src_1",
    severity=SLOW,
    when=lambda shapes: not is_fast(varying(*shapes)),
    seen={(3, 2): "slow"},
    reason="A binary op has a reference kernel only for an operand that is broadcast along some axes between others",
    instead="the same op on fewer axes, where neighbours are one axis",
)


@SLOW_BROADCAST.example({(3, 2): "right"})
def operand_along_every_other_axis(g: DataGraph) -> LogicalTensor:
    return g.add(g.input("x", "f32", (2, 3, 4, 5)), g.input("y", "f32", (2, 1, 4, 1)))


@SLOW_BROADCAST.example({(3, 2): "right"})
def operand_along_every_other_group_of_axes(g: DataGraph) -> LogicalTensor:
    return g.add(g.input("x", "f32", (2, 3, 4, 5, 6)), g.input("y", "f32", (1, 3, 1, 5, 6)))


SHORT_ROWS = BROADCASTS.add(
    "slow_short_rows",
    ops=BINARY,
    where="src_1",
    severity=SLOW,
    when=lambda shapes: rows_together(*shapes) > 1,
    seen={(3, 2): "slow"},
    reason="A binary op starts anew with each row for a short vector along the last axis",
    instead="the same op on longer rows, with copies of the vector side by side",
)


@SHORT_ROWS.example({(3, 2): "right"})
def one_number_for_each_colour(g: DataGraph) -> LogicalTensor:
    return g.add(g.input("x", "f32", (1, 96, 96, 3)), g.input("y", "f32", (3,)))


# Weights of a MatMul -------------------------------------------------------------------------------------------------


class MatMulUse(NamedTuple):
    """A MatMul whose first operand is not transposed.

    Attributes:
        first, second: the shapes of its operands.
        transposed: whether the second one is transposed.
        constant: whether the second one is a constant.
        avx512: whether the library may use AVX-512, for which alone its kernel reads rows as they lie.
    """

    first: Dims
    second: Dims
    transposed: bool
    constant: bool
    avx512: bool = True


# With more rows, the reorder takes little of the time, and rows that lie far apart are slower to read.
FEW_TURNED_ROWS, FEW_ROWS = 512, {2: 256, 3: 512}  # the latter by the number of axes
LONG_ROW = 1 << 14  # elements; the library does not reorder a matrix of longer rows for a handful of vectors
HANDFUL = 16


def _reorders_weights(product: MatMulUse) -> bool:
    """Whether the reorder of weights takes long beside the product."""
    few = FEW_ROWS.get(len(product.first), 0)
    if product.constant or not few or len(product.second) != len(product.first):
        return False
    rows, columns = product.first[-2], product.second[-1]
    if product.transposed:
        return 0 < rows <= FEW_TURNED_ROWS
    return product.avx512 and 0 < rows <= few and (rows >= HANDFUL or columns <= LONG_ROW)


WEIGHTS = Faults[MatMulUse]()
SLOW_WEIGHTS = WEIGHTS.add(
    "slow_weights",
    ops="MatMul",
    where="",
    severity=SLOW,
    when=_reorders_weights,
    seen={(3, 2): "slow", (3, 6): "right", (3, 13): "right"},
    reason="A MatMul of few rows copies a matrix that is no constant into its own layout in every run",
    instead="the same op on four axes, where it reads the matrix as it lies in memory",
)


@SLOW_WEIGHTS.example({(3, 2): "right"})
def row_times_transposed_matrix(g: DataGraph) -> LogicalTensor:
    return g.matmul(g.input("x", "f32", (1, 64)), g.input("w", "f32", (32, 64)), transpose_b=True)


@SLOW_WEIGHTS.example({(3, 2): "right"})
def row_times_matrix(g: DataGraph) -> LogicalTensor:
    return g.matmul(g.input("x", "f32", (1, 64)), g.input("w", "f32", (64, 32)))


@SLOW_WEIGHTS.example({(3, 2): "right"})
def rows_times_matrices(g: DataGraph) -> LogicalTensor:
    return g.matmul(g.input("x", "f32", (4, 8, 64)), g.input("w", "f32", (4, 64, 32)))


# Biases --------------------------------------------------------------------------------------------------------------


def _is_no_row(call: Call) -> bool:
    """Whether the bias of a MatMul is anything but one row."""
    weights, bias = call.shape("weights"), call.shape("bias")
    if weights is None or bias is None or len(weights) < 2:
        return False
    columns = known_dims(weights)[-2 if call.flag("transpose_b") else -1]
    return known_dims(bias)[-1:] != (columns,) or math.prod(known_dims(bias)) != columns


BIASES = Faults[Call]()
SLOW_BIAS = BIASES.add(
    "slow_bias",
    ops="MatMul",
    where="bias",
    severity=SLOW,
    when=_is_no_row,
    seen={(3, 2): "slow"},
    reason="a bias that is no row takes a reference kernel, some 200 times slower",
    instead="a MatMul and an Add",
)


@SLOW_BIAS.example({(3, 2): "right"})
def product_and_a_column(g: DataGraph) -> LogicalTensor:
    return g.matmul(g.input("x", "f32", (40, 30)), g.input("w", "f32", (30, 20)), g.input("b", "f32", (40, 1)))


@SLOW_BIAS.example({(3, 2): "right"})
def products_and_one_number(g: DataGraph) -> LogicalTensor:
    return g.matmul(g.input("x", "f32", (2, 4, 30)), g.input("w", "f32", (2, 30, 20)), g.input("b", "f32", (1, 1)))


SLOW_TRANSPOSED_BIAS = BIASES.add(
    "slow_conv_transpose_bias",
    ops="ConvTranspose",
    where="bias",
    severity=SLOW,
    when=lambda call: call.input("bias") is not None and not in_low_precision(call),
    seen={(3, 2): "slow"},
    reason="oneDNN adds the bias of a ConvTranspose in f32 element by element; in bf16 and f16, where a BiasAdd would "
    "add to "
    "rounded sums, it does so too, but mostly takes less time",
    instead="a ConvTranspose and a BiasAdd",
)


@SLOW_TRANSPOSED_BIAS.example({(3, 2): "right"})
def conv_transpose_with_a_bias(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 5, 5, 4)), g.input("w", "f32", (3, 3, 6, 4)), g.input("b", "f32", (6,))
    return g.op("ConvTranspose", ends, IMAGE)


# Slopes --------------------------------------------------------------------------------------------------------------


def _is_one_or_of_channels(call: Call) -> bool:
    """Whether a PReLU has one slope, or slopes of channels that come before other axes."""
    shape, count = known_dims(call.shape("src")), math.prod(known_dims(call.shape("slope")))
    target = known_dims(slope_target(call, call.shape("slope"), shape))
    return count == 1 or (len(shape) > 2 and count == target[1])


SLOPES = Faults[Call]()
SLOW_SLOPE = SLOPES.add(
    "slow_prelu",
    ops="PReLU",
    where="slope",
    severity=SLOW,
    when=_is_one_or_of_channels,
    seen={(3, 2): "slow"},
    reason="PReLU has a reference kernel for one slope, and for images whose channels come first and lie last in "
    "memory",
    instead="max(x, 0) + slope * min(x, 0)",
)


@SLOW_SLOPE.example({(3, 2): "right"})
def one_slope_for_all_channels(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 8, 8, 4)), g.input("slope", "f32", (1, 1, 1, 1))
    return g.op("PReLU", ends, {"per_channel_broadcast": False})


@SLOW_SLOPE.example({(3, 2): "right"})
def slopes_of_channels(g: DataGraph) -> LogicalTensor:
    return g.op("PReLU", [g.input("x", "f32", (1, 4, 8, 8)), g.input("slope", "f32", (4,))], {"data_format": "NCX"})


# Ops that run faster outside of the library ---------------------------------------------------------------------------

LEAST = 2**14  # elements; fewer take no time
FEW = 2**8  # elements of f16, each of which takes 12 ns
NUMPY = Faults[Call](severity=SLOW)
SLOW_PRODUCT = NUMPY.add(
    "slow_reduce_prod",
    ops="ReduceProd",
    where="",
    when=lambda call: math.prod(known_dims(call.shape("src"))) >= LEAST,
    seen={(3, 2): "slow"},
    reason="ReduceProd has a reference kernel only, which is slower than numpy",
    instead="a kernel of the package",
)


@SLOW_PRODUCT.example({(3, 2): "right"})
def product_of_many_rows(g: DataGraph) -> LogicalTensor:
    return g.op("ReduceProd", g.clamp(g.input("x", "f32", (4, 4096)), min=0.5, max=2.0), {"axes": [0]})


SLOW_CONCAT = NUMPY.add(
    "slow_concat_of_f16",
    ops="Concat",
    where="",
    when=lambda call: call.output_type(0) is DataType.f16 and math.prod(known_dims(call.shapes[0])) >= FEW,
    seen={(3, 2): "slow"},
    reason="Concat of f16 has a reference kernel only, which is slower than numpy",
    instead="a kernel of the package",
)


@SLOW_CONCAT.example({(3, 2): "right"}, on={"no FP16": "right | unsupported"})
def long_rows_of_f16_side_by_side(g: DataGraph) -> LogicalTensor:
    return g.concat(g.input("x", "f16", (4, 4096)), g.input("y", "f16", (4, 4096)), axis=1)


SLOW_SELECT = NUMPY.add(
    "slow_select",
    ops="Select",
    where="src_1",
    when=lambda call: len({None if tensor is None else tensor.shape for tensor in call.inputs}) > 1,
    seen={(3, 2): "absent", (3, 13): "slow"},
    reason="a Select has a reference kernel only for tensors of several shapes",
    instead="onegraph's own kernel",
)


@SLOW_SELECT.example({(3, 2): "unsupported", (3, 6): "right", (3, 13): "right"})
def select_by_a_mask_of_rows(g: DataGraph) -> LogicalTensor:
    ends = g.input("c", "boolean", (2, 1, 8)), g.input("x", "f32", (2, 4, 8)), g.input("y", "f32", (1, 1, 1))
    return g.op("Select", ends)


def slow_alone(call: Call, version: Release) -> str:
    """Why numpy, or a kernel of onegraph, runs an op faster than a library of ``version``; empty where none does."""
    return NUMPY.reason(frozenset([call.schema.kind]), call, version)


# Ops without another way ---------------------------------------------------------------------------------------------

REFERENCE = Faults[Call](severity=SLOW, instead="the same op; the report says so")
DILATED_POOL = REFERENCE.add(
    "slow_dilated_pool",
    ops="MaxPool MaxPoolBackward",
    where="dilations",
    when=lambda call: max(call.s64s("dilations", 1), default=1) > 1,
    seen={(3, 2): "slow"},
    reason="MaxPool with dilations",
)


@DILATED_POOL.example({(3, 2): "right"})
def largest_of_every_other_element(g: DataGraph) -> LogicalTensor:
    return g.op("MaxPool", g.input("x", "f32", (1, 8, 8, 4)), {**POOL, "dilations": [2, 2]})


INTERPOLATE_BACKWARD = REFERENCE.add(
    "slow_interpolate_backward",
    ops="InterpolateBackward",
    where="",
    when=lambda call: call.string("data_format") == "NCX",
    seen={(3, 2): "slow"},
    reason="InterpolateBackward with channels first",
)


@INTERPOLATE_BACKWARD.example({(3, 2): "right"})
def gradient_of_an_image_of_twice_the_size(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 4, 3, 3)), g.input("dy", "f32", (1, 4, 6, 6))
    return g.op("InterpolateBackward", ends, {"mode": "nearest", "sizes": [6, 6], "data_format": "NCX"})


ONE_SLOPE = REFERENCE.add(
    "slow_prelu_backward",
    ops="PReLUBackward",
    where="slope",
    when=lambda call: math.prod(known_dims(call.shape("slope"))) == 1,
    seen={(3, 2): "slow"},
    reason="PReLUBackward with one slope",
)


@ONE_SLOPE.example({(3, 2): "right"})
def gradient_with_one_slope(g: DataGraph) -> LogicalTensor:
    ends = [g.input(name, "f32", (1, 8, 8, 4)) for name in ("x", "dy")]
    return g.op("PReLUBackward", [ends[0], g.input("slope", "f32", (1, 1, 1, 1)), ends[1]])[0]


def reference_kernel(call: Call, version: Release) -> str:
    """What of an op has a reference kernel only with a library of ``version``, and no faster way; empty for others."""
    return REFERENCE.reason(frozenset([call.schema.kind]), call, version)
