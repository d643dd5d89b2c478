"""Which ops take tensors that are not dense row-major. A condition that holds costs a dense copy."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset.editions.registry import BASE
from ..opset.shapes import has_gaps
from .fault import UNSAFE, Fault, Faults, Release
from .ops.windows import AVERAGE
from .use import BINARY, ELEMENTWISE, PRODUCTS, WILD_RANK, Dims

EVERY = frozenset(BASE)
COPY = "a dense copy of the tensor"


@dataclass(frozen=True)
class Laid:
    """A tensor that is not dense row-major, as an op meets it.

    Attributes:
        kind: the op.
        rank: of its first result.
        shape, strides: of the tensor.
        is_read: whether the op itself reads the tensor, and not another op of the partition.
        inside: the ops of the partition.
        attrs: attributes of the op.
    """

    kind: str
    rank: int
    shape: Dims
    strides: Dims
    is_read: bool = True
    inside: frozenset[str] = frozenset()
    attrs: Mapping[str, object] = field(default_factory=dict)


# Of whole partitions -------------------------------------------------------------------------------------------------

PARTITIONS = Faults[Laid]()


def _loses_batches(laid: Laid) -> str:
    found = laid.inside >= {"MatMul", "SoftMax"} and has_gaps(laid.shape, laid.strides)
    return "attention does not honour such strides" if found else ""


FLAT_BATCHES = PARTITIONS.add(
    "attention_of_batches_apart",
    "SoftMax",
    "strides",
    UNSAFE,
    _loses_batches,
    {(3, 2): "right", (3, 6): "wrong", (3, 13): "right"},
    "Attention looks for a tensor without its gaps, where the batches lie further apart than each of them is long, or "
    "within each other",
    COPY,
)


@FLAT_BATCHES.example(policy="fusion")
def attention_of_queries_that_lie_apart(g: DataGraph) -> LogicalTensor:
    q = g.input("q", "f32", (2, 2, 16, 8), strides=(512, 128, 8, 1))
    k, v = (g.input(name, "f32", (2, 2, 16, 8)) for name in "kv")
    scores = g.divide(g.matmul(q, k, transpose_b=True), g.constant(np.array([2], np.float32)))
    return g.matmul(g.op("SoftMax", [scores], {"axis": -1}, outputs=["dst"], dtype="f32"), v)


def _loses_sums(laid: Laid) -> str:
    if not laid.inside >= {"Add", "Interpolate"}:
        return ""
    wide = [axis for axis, dim in enumerate(laid.shape) if dim > 1]
    found = sorted(wide, key=lambda axis: -laid.strides[axis])
    is_odd = found not in (wide, sorted(wide, key=lambda axis: axis == 1))
    return "Interpolate + Add does not honour such strides" if is_odd else ""


RESIZED_SUMS = PARTITIONS.add(
    "sum_behind_interpolate_of_turned_axes",
    "Interpolate",
    "strides",
    UNSAFE,
    _loses_sums,
    {(3, 2): "wrong", (3, 6): "right"},
    "For an Interpolate of axes that lie neither row-major nor channels last there is a reference kernel alone, which "
    "takes single bytes for what it adds to",
    COPY,
    mended=(3, 2, 1),
)


@RESIZED_SUMS.example(policy="fusion")
def interpolate_of_columns_before_rows_and_a_sum(g: DataGraph) -> LogicalTensor:
    x = g.input("x", "f32", (1, 2, 3, 4), strides=(24, 12, 1, 3))
    resized = g.op("Interpolate", [x], {"mode": "nearest", "sizes": [5, 4], "data_format": "NCX"})
    return g.add(resized, g.input("y", "f32", (1, 2, 5, 4)))


# Of single ops -------------------------------------------------------------------------------------------------------

LAYOUTS = Faults[Laid]()
STRIDED_EMPTY = LAYOUTS.add(
    "strided_empty",
    EVERY,
    "strides",
    UNSAFE,
    lambda laid: 0 in laid.shape,
    {(3, 2): "SIGFPE", (3, 6): "right"},
    "Elementwise kernels divide by the number of elements of an empty tensor that is not dense",
    COPY,
    mended=(99, 0),
)


@STRIDED_EMPTY.example()
def exp_of_nothing_into_padded_rows(g: DataGraph) -> LogicalTensor:
    return g.output("out", g.exp(g.input("x", "f32", (0, 3))), strides=(5, 1))


@STRIDED_EMPTY.example()
def reorder_of_nothing_into_padded_rows(g: DataGraph) -> LogicalTensor:
    return g.output("out", g.reorder(g.input("x", "f32", (0, 3))), strides=(5, 1))


@STRIDED_EMPTY.example()
def relu_gradient_of_nothing_into_padded_rows(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (0, 3)), g.input("d", "f32", (0, 3))
    return g.output("out", g.op("ReLUBackward", ends), strides=(5, 1))


def is_scattered(shape: Dims, strides: Dims) -> bool:
    """Whether the elements lie in one row, a multiple of 4 places apart, such as one channel of four."""
    step = min((step for dim, step in zip(shape, strides, strict=True) if dim > 1), default=1)
    return step % 4 == 0 and prod(shape) % 16 != 0 and not has_gaps(shape, strides, step)


SCATTERED = LAYOUTS.add(
    "scattered_elements",
    EVERY,
    "strides",
    UNSAFE,
    lambda laid: not laid.is_read and is_scattered(laid.shape, laid.strides),
    {(3, 2): "wrong"},
    "A Reorder of a dense row of more bytes than three quarters of the L1 data cache into elements that lie a multiple "
    "of 4 places apart writes the first elements only, unless 16 divides their number: it moves the one axis of its "
    "loop behind the axes that there are",
    COPY,
)


# Longer than three quarters of an L1 data cache of 96 KiB: a cache of 32 KiB needs 6,144 elements, of 48 KiB 9,216.
@SCATTERED.example()
def reorder_into_every_fourth_element(g: DataGraph) -> LogicalTensor:
    return g.output("out", g.reorder(g.input("x", "f32", (300, 63))), strides=(252, 4))


@SCATTERED.example()
def relu_into_every_fourth_element(g: DataGraph) -> LogicalTensor:
    return g.output("out", g.relu(g.input("x", "f32", (300, 63))), strides=(252, 4))


DENSE_ONLY = LAYOUTS.add(
    "dense_only",
    "LayerNorm LayerNormBackward SoftMaxBackward LogSoftmax LogSoftmaxBackward PReLU PReLUBackward DynamicQuantize "
    "DynamicDequantize",
    "strides",
    UNSAFE,
    lambda laid: True,
    {(3, 2): "wrong | overrun"},
    "These ops read and write dense row-major tensors, whatever strides they are told",
    COPY,
)


@DENSE_ONLY.example({(3, 2): "wrong | overrun", (3, 6): "right"})
def layer_norm_of_padded_rows(g: DataGraph) -> LogicalTensor:
    x = g.input("x", "f32", (2, 4), strides=(6, 1))
    return g.op("LayerNorm", [x], {"use_affine": False, "keep_stats": False})


@DENSE_ONLY.example({(3, 2): "wrong | overrun", (3, 6): "right"})
def layer_norm_into_padded_rows(g: DataGraph) -> LogicalTensor:
    normal = g.op("LayerNorm", [g.input("x", "f32", (3, 4))], {"use_affine": False, "keep_stats": False})
    return g.output("out", normal, strides=(6, 1))


@DENSE_ONLY.example()
def softmax_gradient_into_padded_rows(g: DataGraph) -> LogicalTensor:
    ends = g.input("d", "f32", (3, 4)), g.input("y", "f32", (3, 4))
    return g.output("out", g.op("SoftMaxBackward", ends, {"axis": -1}), strides=(6, 1))


MANY_AXES = LAYOUTS.add(
    "strided_elementwise_of_many_axes",
    ELEMENTWISE,
    "strides",
    UNSAFE,
    lambda laid: len(laid.shape) >= WILD_RANK,
    {(3, 2): "wrong | overrun | right | SIGSEGV"},
    "From rank 6 on, the kernel of an elementwise op counts on dense tensors",
    COPY,
)


@MANY_AXES.example()
def relu_of_padded_rows_of_six_axes(g: DataGraph) -> LogicalTensor:
    return g.relu(g.input("x", "f32", (2, 3, 2, 2, 3, 2), strides=(108, 36, 18, 9, 3, 1)))


STATISTICS = LAYOUTS.add(
    "strided_statistics",
    "BatchNormForwardTraining BatchNormInference BatchNormTrainingBackward GroupNorm",
    "strides",
    UNSAFE,
    lambda laid: len(laid.shape) < laid.rank,
    {(3, 2): "wrong"},
    "Vectors along the channels, and statistics, are taken for dense",
    COPY,
)


@STATISTICS.example()
def variance_with_gaps(g: DataGraph) -> LogicalTensor:
    vectors = [g.input(name, "f32", (64,)) for name in ("gamma", "beta", "mean")]
    variance = g.input("var", "f32", (64,), strides=(16,))
    return g.op("BatchNormInference", [g.input("x", "f32", (2, 64)), *vectors, variance], {"epsilon": 8.0})


RMS_GAMMA = LAYOUTS.add(
    "strided_gamma",
    "RMSNorm",
    "strides",
    UNSAFE,
    lambda laid: set(laid.shape[:-1]) <= {1},
    {(3, 2): "absent", (3, 13): "wrong"},
    "The gamma of an RMSNorm is taken for dense",
    COPY,
    since=(3, 2),
)


@RMS_GAMMA.example()
def gamma_with_gaps(g: DataGraph) -> LogicalTensor:
    return g.op("RMSNorm", [g.input("x", "f32", (2, 3, 4)), g.input("gamma", "f32", (4,), strides=(2,))])


def loses_zero_points(inside: Container[str], attrs: Mapping[str, object]) -> bool:
    """Whether an op with these attributes, among ops of these kinds, loses zero points where axes are permuted."""
    zero_points = attrs.get("zps")
    return isinstance(zero_points, tuple) and any(zero_points) and not any(kind in inside for kind in PRODUCTS)


LOST_ZERO_POINTS = LAYOUTS.add(
    "lost_zero_points",
    "Quantize Dequantize",
    "strides",
    UNSAFE,
    lambda laid: loses_zero_points(laid.inside, laid.attrs),
    {(3, 2): "wrong | right"},  # with large tensors only
    "Zero points are lost where the axes of large tensors are permuted",
    COPY,
)


@LOST_ZERO_POINTS.example()
def dequantize_of_permuted_axes(g: DataGraph) -> LogicalTensor:
    x = g.input("x", "u8", (1, 32, 32, 1), strides=(1024, 1, 32, 1))
    return g.dequantize(x, scales=[1.0], zps=[7])


GAPLESS = LAYOUTS.add(
    "gaps_between_rows",
    "AvgPoolBackward BatchNormForwardTraining Dequantize Interpolate MaxPoolBackward Quantize",
    "strides",
    UNSAFE,
    lambda laid: has_gaps(laid.shape, laid.strides),
    {(3, 2): "wrong | overrun"},
    "These ops take the axes in any order, but no gaps between the rows: pools and quantizations leave the end of the "
    "result unwritten, an operand behind an Interpolate is read elsewhere, and what a BatchNormForwardTraining notes "
    "for a ReLU behind it lies beyond its memory",
    COPY,
)


@GAPLESS.example({(3, 2): "wrong | overrun", (3, 6): "right"})
def quantize_into_padded_rows(g: DataGraph) -> LogicalTensor:
    found = g.quantize(g.input("x", "f32", (3, 4)), scales=[0.5], zps=[3], dtype="u8")
    return g.output("out", found, strides=(6, 1))


@GAPLESS.example({(3, 2): "wrong | overrun | SIGSEGV"})
def gradient_of_a_pool_into_padded_rows(g: DataGraph) -> LogicalTensor:
    attrs = {**AVERAGE, "src_shape": [1, 2, 4, 4], "data_format": "NCX"}
    found = g.op("AvgPoolBackward", [g.input("d", "f32", (1, 2, 2, 2))], attrs)
    return g.output("out", found, strides=(40, 20, 5, 1))


TURNED_RESIZE = LAYOUTS.add(
    "strided_interpolate_of_single_axes",
    "Interpolate",
    "strides",
    UNSAFE,
    lambda laid: 1 in laid.shape[1:],
    {(3, 2): "right", (3, 6): "wrong"},
    "The order of the axes of a tensor with axes of size 1 is taken for another one",
    COPY,
    since=(3, 2),
)


@TURNED_RESIZE.example({(3, 2): "right", (3, 6): "right"})
def interpolate_of_one_column_of_turned_axes(g: DataGraph) -> LogicalTensor:
    x = g.input("x", "f32", (1, 3, 2, 1), strides=(6, 1, 3, 3))
    return g.op("Interpolate", [x], {"mode": "nearest", "sizes": [4, 2], "data_format": "NCX"})


SINGLE_SOFTMAX = LAYOUTS.add(
    "strided_softmax_of_single_axes",
    "SoftMax",
    "strides",
    UNSAFE,
    lambda laid: 1 in laid.shape,
    {(3, 2): "wrong | overrun", (3, 6): "right"},
    "Axes of size 1 that have other strides in the source than in the result are read and written elsewhere",
    COPY,
    mended=(99, 0),
)


@SINGLE_SOFTMAX.example({(3, 2): "wrong | overrun | right", (3, 6): "right"})
def softmax_of_single_axes_into_padded_rows(g: DataGraph) -> LogicalTensor:
    shares = g.op("SoftMax", [g.input("x", "f32", (3, 1, 4))], {"axis": 0}, outputs=["dst"], dtype="f32")
    return g.output("out", shares, strides=(8, 8, 1))


STRIDED_OPERAND = LAYOUTS.add(
    "strided_operand",
    BINARY,
    "strides",
    UNSAFE,
    lambda laid: 1 in laid.shape or (laid.is_read and len(laid.shape) < laid.rank),
    {(3, 2): "wrong | right"},
    "Gaps or permuted axes together with an axis of size 1 are read wrong, and behind another op those of an operand "
    "of lower rank, whose strides are lost where it is given leading axes",
    COPY,
)


@STRIDED_OPERAND.example()
def axis_of_size_1(g: DataGraph) -> LogicalTensor:
    x = g.input("x", "f32", (3, 1, 4), strides=(4, 2, 1))
    return g.add(x, g.input("y", "f32", (3, 1, 4), strides=(8, 8, 2)))


def wrong_layout(laid: Laid, version: Release) -> str:
    """What does not honour the strides of a tensor, in words; empty where a library of ``version`` does."""
    if told := PARTITIONS.reason(laid.inside, laid, version):
        return told
    return f"{laid.kind} does not honour strides" if layout_faults(laid, version) else ""


def layout_faults(laid: Laid, version: Release) -> list[Fault[Laid]]:
    """The faults of a single op that reads or writes a tensor with these strides."""
    return LAYOUTS.of(frozenset([laid.kind]), laid, version)
