"""Operands that a binary op joins to the result of another op, read wrong as one kernel with that op.

The reasons are made for each operand, because its shape is what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.window import channel_axis
from ..fault import UNSAFE, Faults
from ..ops.windows import AVERAGE, IMAGE, NCX, POOL
from ..use import BINARY, CONVOLUTIONS, ELEMENTWISE, NORMS, POOLS, Fused, Operand, Use
from .int8 import dequantized

FAULTS = Faults[Fused]()
Wrong = Callable[[Use, Operand], bool]


def _behind(kinds: frozenset[str], wrong: Wrong) -> Callable[[Fused], str]:
    """The condition that an operand behind one of these ops is read wrong."""

    def when(fused: Fused) -> str:
        for main, operand in fused.operands:
            if main.kind in kinds and wrong(main, operand):
                both, shape = f"{main.kind} + {operand.binary.kind}", list(operand.shape)
                return f"oneDNN computes {both} wrong for an operand of shape {shape}"
        return ""

    return when


def _of_many_axes(fused: Fused) -> str:
    for main, operand in fused.operands:
        if main.kind in ELEMENTWISE:
            return f"oneDNN computes {main.kind} + {operand.binary.kind} of rank {len(operand.result)} wrong"
    return ""


MANY_AXES = FAULTS.add(
    "elementwise_of_many_axes",
    ELEMENTWISE,
    "",
    UNSAFE,
    _of_many_axes,
    {(3, 2): "right | wrong | overrun | SIGSEGV | SIGABRT"},
    "From rank 6 on, the kernel of an elementwise op with a binary op behind it writes past its memory",
    "the ops one by one",
)


@MANY_AXES.example()
def relu_of_six_axes_and_a_sum(g: DataGraph) -> LogicalTensor:
    shape = (2, 3, 2, 2, 3, 2)
    return g.add(g.relu(g.input("x", "f32", shape)), g.input("y", "f32", (2, 1, 2, 1, 3, 1)))


def _along_another_axis(main: Use, operand: Operand) -> bool:
    channels = channel_axis(len(operand.result), main.call.string("data_format"))
    return operand.binary.kind == "BiasAdd" and operand.bias_axis != channels


FOREIGN_BIAS = FAULTS.add(
    "operand_behind_convolution",
    CONVOLUTIONS,
    "",
    UNSAFE,
    _behind(CONVOLUTIONS, _along_another_axis),
    {(3, 2): "wrong"},
    "A BiasAdd along another axis than the channels of the convolution before it is added along the channels",
    "the ops one by one",
)


@FOREIGN_BIAS.example()
def bias_not_along_the_channels(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 2, 3, 3)), g.input("w", "f32", (2, 4, 2, 2))
    wide = g.op("ConvTranspose", ends, {**IMAGE, **NCX, "weights_format": "IOX"})
    return g.bias_add(wide, g.input("y", "f32", (4,)), data_format="NXC")


BARE_CHANNELS = FAULTS.add(
    "operand_along_bare_channels",
    BINARY,
    "",
    UNSAFE,
    _behind(BINARY, lambda _, operand: operand.along_bare_channels),
    {(3, 2): "wrong"},
    "An operand along the channels of a batch with nothing behind the channels is read wrong behind a binary op",
    "the ops one by one",
)


@BARE_CHANNELS.example()
def channels_with_nothing_behind_them(g: DataGraph) -> LogicalTensor:
    total = g.add(g.input("x", "f32", (3, 4, 1, 1)), g.input("w", "f32", (3, 4, 1, 1)))
    return g.multiply(g.relu(total), g.input("y", "f32", (4, 1, 1)))


def _is_wild_vector(main: Use, operand: Operand) -> bool:
    whole = len(operand.result) >= 3 and all(prod(main.shape(index)) == prod(operand.result) for index in (0, 1))
    return whole and operand.along_last and not operand.single


WILD_VECTOR = FAULTS.add(
    "vector_behind_binary",
    BINARY,
    "",
    UNSAFE,
    _behind(BINARY, _is_wild_vector),
    {(3, 2): "right", (3, 6): "right", (3, 13): "SIGSEGV"},
    "A vector along the last axis behind a binary op of tensors that lie channels last is read out of bounds",
    "the ops one by one",
)


@WILD_VECTOR.example()
def vector_behind_a_maximum_of_channels_last(g: DataGraph) -> LogicalTensor:
    x = g.input("x", "f32", (3, 5, 4, 8), strides=(160, 1, 40, 5))
    return g.multiply(g.relu(g.maximum(x, g.input("y", "f32", (3, 5, 4, 8)))), g.input("z", "f32", (8,)))


def _adds_to_any_order(main: Use, operand: Operand) -> bool:
    return operand.binary.kind == "Add" and operand.shape == operand.result and 1 in main.shape(0)[1:]


RESIZED_SUM = FAULTS.add(
    "sum_behind_interpolate",
    "Interpolate",
    "",
    UNSAFE,
    _behind(frozenset(["Interpolate"]), _adds_to_any_order),
    {(3, 2): "wrong", (3, 6): "right"},
    "An Add behind an Interpolate with axes of size 1 reads single bytes: the axes may be taken to lie in any order",
    "the ops one by one",
    mended=(3, 2, 1),
)


@RESIZED_SUM.example()
def interpolate_of_axes_of_size_1_and_a_sum(g: DataGraph) -> LogicalTensor:
    attrs = {"mode": "nearest", "sizes": [1, 2, 3], "data_format": "NCX"}
    resized = g.op("Interpolate", [g.input("x", "f32", (1, 48, 1, 5, 1))], attrs)
    total = g.add(resized, g.input("y", "f32", (1, 48, 1, 2, 3)))
    return g.multiply(total, g.input("z", "f32", (1, 48, 1, 2, 3)))


def _is_one_pixel(main: Use, operand: Operand) -> bool:
    result = operand.result
    return prod(result) == result[channel_axis(len(result), main.call.string("data_format"))]


ONE_PIXEL = FAULTS.add(
    "operand_behind_one_pixel",
    "Interpolate",
    "",
    UNSAFE,
    _behind(frozenset(["Interpolate"]), lambda main, operand: _is_one_pixel(main, operand) and not operand.single),
    {(3, 2): "overrun | wrong"},
    "An operand behind an Interpolate to one pixel is read out of bounds",
    "the ops one by one",
)


def _resized(g: DataGraph, shape: tuple[int, ...], sizes: list[int], data_format: str = "NXC") -> LogicalTensor:
    attrs = {"mode": "nearest", "sizes": sizes, "data_format": data_format}
    return g.op("Interpolate", [g.input("x", "f32", shape)], attrs)


@ONE_PIXEL.example()
def interpolate_to_one_pixel(g: DataGraph) -> LogicalTensor:
    return g.maximum(_resized(g, (1, 33, 2, 2), [1, 1], "NCX"), g.input("y", "f32", (1, 33, 1, 1)))


@ONE_PIXEL.example({(3, 2): "overrun | wrong | right"})  # by what lies in memory
def interpolate_to_one_pixel_channels_last(g: DataGraph) -> LogicalTensor:
    return g.subtract(_resized(g, (1, 2, 32), [1]), g.input("y", "f32", (32,)))


@ONE_PIXEL.example({(3, 2): "wrong"})
def interpolate_of_one_pixel(g: DataGraph) -> LogicalTensor:
    return g.multiply(_resized(g, (1, 33, 1, 1), [1, 1], "NCX"), g.input("y", "f32", (1, 33, 1, 1)))


def _is_resized_channels_last(main: Use, operand: Operand) -> bool:
    if _is_one_pixel(main, operand) or main.call.string("data_format") == "NCX":
        return False
    return not operand.single and not operand.along_last


RESIZED_CHANNELS_LAST = FAULTS.add(
    "operand_behind_interpolate",
    "Interpolate",
    "",
    UNSAFE,
    _behind(frozenset(["Interpolate"]), _is_resized_channels_last),
    {(3, 2): "wrong", (3, 6): "right"},
    "An operand behind an Interpolate of channels last is read wrong unless it is one element or goes along them",
    "the ops one by one",
    mended=(99, 0),
)


@RESIZED_CHANNELS_LAST.example()
def interpolate_and_an_operand_of_its_shape(g: DataGraph) -> LogicalTensor:
    return g.multiply(_resized(g, (2, 6, 5, 3), [4, 3]), g.input("y", "f32", (2, 4, 3, 3)))


@RESIZED_CHANNELS_LAST.example()
def interpolate_and_an_operand_of_one_batch(g: DataGraph) -> LogicalTensor:
    return g.maximum(_resized(g, (1, 6, 5, 2), [4, 3]), g.input("y", "f32", (4, 3, 2)))


def _is_wrong_behind_pool(main: Use, operand: Operand) -> bool:
    along = len(operand.shape) == len(operand.result) and prod(operand.shape) == operand.shape[1]
    return not operand.single and not (along and main.call.string("data_format") == "NCX")


POOLED = FAULTS.add(
    "operand_behind_pool",
    POOLS,
    "",
    UNSAFE,
    _behind(POOLS, _is_wrong_behind_pool),
    {(3, 2): "wrong"},
    "An operand behind a pool is read wrong unless it is one element, or goes along the channels, which lie second",
    "the ops one by one",
)


@POOLED.example(on={"no AVX-512": "right"})
def average_and_an_operand_of_its_shape(g: DataGraph) -> LogicalTensor:
    pooled = g.op("AvgPool", [g.input("x", "f32", (1, 16, 8, 8))], {**AVERAGE, **NCX})
    return g.add(pooled, g.input("y", "f32", (1, 16, 4, 4)))


@POOLED.example()
def maximum_and_a_vector(g: DataGraph) -> LogicalTensor:
    return g.multiply(g.input("y", "f32", (16,)), g.op("MaxPool", [g.input("x", "f32", (1, 8, 8, 16))], POOL))


@POOLED.example()
def average_of_int8_and_a_residual(g: DataGraph) -> LogicalTensor:
    pooled = g.op("AvgPool", [dequantized(g, "x", "u8", (1, 8, 8, 16), scales=[0.5])], AVERAGE)
    total = g.add(pooled, dequantized(g, "y", "u8", (1, 4, 4, 16), scales=[0.5]))
    return g.quantize(total, scales=[0.5], zps=[0], dtype="u8")


NORMALIZED = FAULTS.add(
    "operand_behind_layer_norm",
    "LayerNorm",
    "",
    UNSAFE,
    _behind(frozenset(["LayerNorm"]), lambda _, operand: prod(operand.shape) == prod(operand.result)),
    {(3, 2): "right", (3, 6): "wrong", (3, 13): "right"},
    "An operand of the shape of the result is read wrong behind a LayerNorm",
    "the ops one by one",
    since=(3, 2),  # 3.2 does not fuse a LayerNorm
)


@NORMALIZED.example()
def layer_norm_and_a_residual(g: DataGraph) -> LogicalTensor:
    attrs = {"use_affine": False, "epsilon": 0.1, "keep_stats": False}
    normal = g.op("LayerNorm", [g.input("x", "f32", (2, 4, 6))], attrs)
    return g.add(normal, g.input("y", "f32", (2, 4, 6)))


def _is_wrong_behind_softmax(_: Use, operand: Operand) -> bool:
    same_rank = len(operand.shape) == len(operand.result) and operand.binary.kind != "BiasAdd"
    return not (same_rank and (operand.shape == operand.result or operand.along_last))


SHARES = FAULTS.add(
    "operand_behind_softmax",
    "SoftMax",
    "",
    UNSAFE,
    _behind(frozenset(["SoftMax"]), _is_wrong_behind_softmax),
    {(3, 2): "SIGSEGV", (3, 6): "right"},
    "An operand behind a SoftMax is read wrong unless it has all axes and varies along all of them or the last one",
    "the ops one by one",
    mended=(99, 0),
)


def _softmax(g: DataGraph) -> LogicalTensor:
    return g.op("SoftMax", [g.input("x", "f32", (2, 16, 64))], {"axis": -1}, outputs=["dst"], dtype="f32")


@SHARES.example()
def softmax_and_an_operand_along_rows(g: DataGraph) -> LogicalTensor:
    return g.multiply(_softmax(g), g.input("y", "f32", (1, 16, 1)))


@SHARES.example({(3, 2): "throws could not create a primitive descriptor for a binary", (3, 6): "right"})
def softmax_and_a_vector(g: DataGraph) -> LogicalTensor:
    return g.add(_softmax(g), g.input("y", "f32", (64,)))


def _is_beside_a_vector(main: Use, operand: Operand) -> bool:
    """A vector has an axis more in the kernel than in the result."""
    first, second = len(main.shape(0)), len(main.shape(1))
    return 1 in (first, second) and not operand.single and not (second > 1 and operand.along_last)


BESIDE_A_VECTOR = FAULTS.add(
    "operand_behind_a_product_with_a_vector",
    "MatMul",
    "",
    UNSAFE,
    _behind(frozenset(["MatMul"]), _is_beside_a_vector),
    {(3, 2): "wrong", (3, 13): "right"},
    "An operand behind a product with a vector is read along other axes, as the vector has one axis more in the kernel",
    "the ops one by one",
    mended=(99, 0),
)


@BESIDE_A_VECTOR.example()
def matrix_by_vector(g: DataGraph) -> LogicalTensor:
    return g.add(g.matmul(g.input("x", "f32", (5, 3)), g.input("w", "f32", (3,))), g.input("y", "f32", (5,)))


@BESIDE_A_VECTOR.example()
def vector_by_matrices(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (3,)), g.input("w", "f32", (2, 3, 4)))
    return g.multiply(product, g.input("y", "f32", (2, 1)))


def _is_wrong_behind_matmul(main: Use, operand: Operand) -> bool:
    first, second = len(main.shape(0)), len(main.shape(1))
    if 1 in (first, second) or operand.along_last or operand.shape == operand.result:
        return False
    return (first >= 3 and second == 2) or operand.binary.kind == "BiasAdd" or operand.in_columns


MULTIPLIED = FAULTS.add(
    "operand_behind_matmul",
    "MatMul",
    "",
    UNSAFE,
    _behind(frozenset(["MatMul"]), _is_wrong_behind_matmul),
    {(3, 2): "wrong"},
    "An operand that varies along some axes, but not only the last one, is read wrong behind a batch of matrices that "
    "meet one matrix, as a bias, or where the result has one column",
    "the ops one by one",
)


@MULTIPLIED.example()
def product_and_an_operand_of_rows(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (2, 3, 16, 64)), g.input("w", "f32", (64, 32)))
    return g.add(product, g.input("y", "f32", (16, 32)))


@MULTIPLIED.example()
def product_and_an_operand_for_each_batch(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (3, 16, 64)), g.input("w", "f32", (64, 32)))
    return g.multiply(g.relu(product), g.input("y", "f32", (3, 1, 1)))


@MULTIPLIED.example()
def bias_not_along_the_last_axis(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (3, 5, 6, 4)), g.input("w", "f32", (3, 5, 4, 5)))
    return g.bias_add(product, g.input("y", "f32", (5,)), data_format="NCX")


def _behind_what_is_computed(fused: Fused) -> str:
    """The layout of the first operand is chosen by the op before it, and unknown here: axes may be permuted."""
    for main, operand in fused.operands:
        if operand.is_partial and any(main is use for use in fused.computed):
            where = f"behind {main.kind} of what the same kernel computed"
            return f"oneDNN reads an operand of shape {list(operand.shape)} wrong {where}"
    return ""


BEHIND_COMPUTED = FAULTS.add(
    "operand_behind_computed",
    BINARY,
    "",
    UNSAFE,
    _behind_what_is_computed,
    {(3, 2): "SIGSEGV"},
    "An operand behind a binary op whose inputs the same kernel computes is read wrong where their axes are permuted",
    "the ops one by one",
)


@BEHIND_COMPUTED.example()
def transposed_convolution_and_itself(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (2, 4, 5, 4)), g.input("w", "f32", (1, 3, 4, 4))
    wide = g.op("ConvTranspose", ends, {**IMAGE, "pads_begin": [1, 1], "pads_end": [1, 1]})
    return g.add(g.add(wide, wide), g.input("y", "f32", (1, 2, 1, 1)))


@BEHIND_COMPUTED.example({(3, 2): "wrong", (3, 6): "right"})
def difference_and_itself(g: DataGraph) -> LogicalTensor:
    difference = g.subtract(g.input("x", "f32", (1, 1, 6)), g.input("w", "f32", (1, 17, 1)))
    return g.multiply(g.add(difference, difference), g.input("y", "f32", (1, 17, 1)))


def _rounds(main: Use, operand: Operand) -> bool:
    """Whether what a binary op joins to a norm is neither whole nor goes along the channels, which lie last."""
    if main.kind not in NORMS or operand.single or operand.shape == operand.result:
        return False
    channels_last = main.kind == "LayerNorm" or main.call.string("data_format") == "NXC"
    return not (channels_last and operand.along_last)


def _is_rounded(fused: Fused) -> str:
    for main, operand in fused.operands if fused.has("Quantize") else ():
        if _rounds(main, operand):
            what = f"{main.kind} + {operand.binary.kind} + Quantize"
            return f"oneDNN rounds {what} before the scale for an operand of shape {list(operand.shape)}"
    return ""


ROUNDED_OPERAND = FAULTS.add(
    "rounded_operand",
    NORMS,
    "",
    UNSAFE,
    _is_rounded,
    {(3, 2): "right", (3, 6): "right", (3, 13): "wrong"},
    "What a norm is joined to becomes an integer before the scale of a Quantize",
    "the ops one by one",
)


@ROUNDED_OPERAND.example()
def layer_norm_an_operand_and_a_quantize(g: DataGraph) -> LogicalTensor:
    vectors = [g.input(name, "f32", (6,)) for name in ("gamma", "beta")]
    normal = g.op("LayerNorm", [g.input("x", "f32", (4, 3, 2, 6)), *vectors], {"keep_stats": False})
    return g.quantize(g.add(normal, g.input("operand", "f32", (4, 3, 1, 1))), scales=[0.08], zps=[0], dtype="s8")
