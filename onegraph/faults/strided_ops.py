"""Ops that do not honour the strides of a tensor that is not dense row-major."""

from __future__ import annotations

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset.shapes import has_gaps
from .fault import NEVER, UNSAFE, Faults
from .ops.windows import AVERAGE
from .use import BINARY, ELEMENTWISE, PRODUCTS, WILD_RANK, Laid

COPY = "a dense copy of the tensor"
FAULTS = Faults[Laid](where="strides", severity=UNSAFE, instead=COPY)

DENSE_ONLY = FAULTS.add(
    "dense_only",
    ops="LayerNorm LayerNormBackward SoftMaxBackward LogSoftmax LogSoftmaxBackward PReLU PReLUBackward DynamicQuantize "
    "DynamicDequantize",
    when=lambda laid: True,
    seen={(3, 2): "wrong | overrun"},
    reason="These ops read and write dense row-major tensors, whatever strides they are told",
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


MANY_AXES = FAULTS.add(
    "strided_elementwise_of_many_axes",
    ops=ELEMENTWISE,
    when=lambda laid: len(laid.shape) >= WILD_RANK,
    seen={(3, 2): "wrong | overrun | right | SIGSEGV"},
    reason="From rank 6 on, the kernel of an elementwise op counts on dense tensors",
)


@MANY_AXES.example()
def relu_of_padded_rows_of_six_axes(g: DataGraph) -> LogicalTensor:
    return g.relu(g.input("x", "f32", (2, 3, 2, 2, 3, 2), strides=(108, 36, 18, 9, 3, 1)))


STATISTICS = FAULTS.add(
    "strided_statistics",
    ops="BatchNormForwardTraining BatchNormInference BatchNormTrainingBackward GroupNorm",
    when=lambda laid: len(laid.shape) < laid.rank,
    seen={(3, 2): "wrong"},
    reason="Vectors along the channels, and statistics, are taken for dense",
)


@STATISTICS.example()
def variance_with_gaps(g: DataGraph) -> LogicalTensor:
    vectors = [g.input(name, "f32", (64,)) for name in ("gamma", "beta", "mean")]
    variance = g.input("var", "f32", (64,), strides=(16,))
    return g.op("BatchNormInference", [g.input("x", "f32", (2, 64)), *vectors, variance], {"epsilon": 8.0})


RMS_GAMMA = FAULTS.add(
    "strided_gamma",
    ops="RMSNorm",
    when=lambda laid: set(laid.shape[:-1]) <= {1},
    seen={(3, 2): "absent", (3, 13): "wrong"},
    reason="The gamma of an RMSNorm is taken for dense",
    since=(3, 2),
)


@RMS_GAMMA.example()
def gamma_with_gaps(g: DataGraph) -> LogicalTensor:
    return g.op("RMSNorm", [g.input("x", "f32", (2, 3, 4)), g.input("gamma", "f32", (4,), strides=(2,))])


def _loses_zero_points(laid: Laid) -> bool:
    """Whether an op loses its zero points where axes are permuted; products take other kernels."""
    zero_points = laid.attrs.get("zps")
    return isinstance(zero_points, tuple) and any(zero_points) and laid.inside.isdisjoint(PRODUCTS)


LOST_ZERO_POINTS = FAULTS.add(
    "lost_zero_points",
    ops="Quantize Dequantize",
    when=_loses_zero_points,
    seen={(3, 2): "wrong | right"},  # with large tensors only
    reason="Zero points are lost where the axes of large tensors are permuted",
)


@LOST_ZERO_POINTS.example()
def dequantize_of_permuted_axes(g: DataGraph) -> LogicalTensor:
    x = g.input("x", "u8", (1, 32, 32, 1), strides=(1024, 1, 32, 1))
    return g.dequantize(x, scales=[1.0], zps=[7])


GAPLESS = FAULTS.add(
    "gaps_between_rows",
    ops="AvgPoolBackward BatchNormForwardTraining Dequantize Interpolate MaxPoolBackward Quantize",
    when=lambda laid: has_gaps(laid.shape, laid.strides),
    seen={(3, 2): "wrong | overrun"},
    reason="These ops take the axes in any order, but no gaps between the rows: pools and quantizations leave the end "
    "of the "
    "result unwritten, an operand behind an Interpolate is read elsewhere, and what a BatchNormForwardTraining notes "
    "for a ReLU behind it lies beyond its memory",
)


@GAPLESS.example({(3, 2): "wrong | overrun", (3, 6): "right"})
def quantize_into_padded_rows(g: DataGraph) -> LogicalTensor:
    codes = g.quantize(g.input("x", "f32", (3, 4)), scales=[0.5], zps=[3], dtype="u8")
    return g.output("out", codes, strides=(6, 1))


@GAPLESS.example({(3, 2): "wrong | overrun | SIGSEGV"})
def gradient_of_a_pool_into_padded_rows(g: DataGraph) -> LogicalTensor:
    attrs = {**AVERAGE, "src_shape": [1, 2, 4, 4], "data_format": "NCX"}
    gradient = g.op("AvgPoolBackward", [g.input("d", "f32", (1, 2, 2, 2))], attrs)
    return g.output("out", gradient, strides=(40, 20, 5, 1))


TURNED_RESIZE = FAULTS.add(
    "strided_interpolate_of_single_axes",
    ops="Interpolate",
    when=lambda laid: 1 in laid.shape[1:],
    seen={(3, 2): "right", (3, 6): "wrong"},
    reason="The order of the axes of a tensor with axes of size 1 is taken for another one",
    since=(3, 2),
)


@TURNED_RESIZE.example({(3, 2): "right", (3, 6): "right"})
def interpolate_of_one_column_of_turned_axes(g: DataGraph) -> LogicalTensor:
    x = g.input("x", "f32", (1, 3, 2, 1), strides=(6, 1, 3, 3))
    return g.op("Interpolate", [x], {"mode": "nearest", "sizes": [4, 2], "data_format": "NCX"})


SINGLE_SOFTMAX = FAULTS.add(
    "strided_softmax_of_single_axes",
    ops="SoftMax",
    when=lambda laid: 1 in laid.shape,
    seen={(3, 2): "wrong | overrun", (3, 6): "right"},
    reason="Axes of size 1 that have other strides in the source than in the result are read and written elsewhere",
    mended=NEVER,
)


@SINGLE_SOFTMAX.example({(3, 2): "wrong | overrun | right", (3, 6): "right"})
def softmax_of_single_axes_into_padded_rows(g: DataGraph) -> LogicalTensor:
    shares = g.op("SoftMax", [g.input("x", "f32", (3, 1, 4))], {"axis": 0}, outputs=["dst"], dtype="f32")
    return g.output("out", shares, strides=(8, 8, 1))


STRIDED_OPERAND = FAULTS.add(
    "strided_operand",
    ops=BINARY,
    when=lambda laid: 1 in laid.shape or (laid.is_read and len(laid.shape) < laid.rank),
    seen={(3, 2): "wrong | right"},
    reason="Gaps or permuted axes together with an axis of size 1 are read wrong, and behind another op those of an "
    "operand "
    "of lower rank, whose strides are lost where it is given leading axes",
)


@STRIDED_OPERAND.example()
def axis_of_size_1(g: DataGraph) -> LogicalTensor:
    x = g.input("x", "f32", (3, 1, 4), strides=(4, 2, 1))
    return g.add(x, g.input("y", "f32", (3, 1, 4), strides=(8, 8, 2)))
