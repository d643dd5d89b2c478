"""Operands that a binary op joins to the result of another op, read wrong as one kernel with that op.

The reasons are made for each operand, because its shape is what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.window import channel_axis
from ..fault import NEVER, UNSAFE, Faults
from ..ops.windows import IMAGE, NCX
from ..use import BINARY, CONVOLUTIONS, ELEMENTWISE, NORMS, Fused, Operand, Use

FAULTS = Faults[Fused](severity=UNSAFE, instead="the ops one by one")
Wrong = Callable[[Use, Operand], bool]


def operand_behind(kinds: frozenset[str], wrong: Wrong) -> Callable[[Fused], str]:
    """The condition that an operand behind one of these ops is read wrong."""

    def when(fused: Fused) -> str:
        for main, operand in fused.operands:
            if main.kind in kinds and wrong(main, operand):
                pair, shape = f"{main.kind} + {operand.binary.kind}", list(operand.shape)
                return f"oneDNN computes {pair} wrong for an operand of shape {shape}"
        return ""

    return when


def _of_many_axes(fused: Fused) -> str:
    for main, operand in fused.operands:
        if main.kind in ELEMENTWISE:
            return f"oneDNN computes {main.kind} + {operand.binary.kind} of rank {len(operand.result)} wrong"
    return ""


MANY_AXES = FAULTS.add(
    "elementwise_of_many_axes",
    ops=ELEMENTWISE,
    when=_of_many_axes,
    seen={(3, 2): "right | wrong | overrun | SIGSEGV | SIGABRT"},
    reason="From rank 6 on, the kernel of an elementwise op with a binary op behind it writes past its memory",
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
    ops=CONVOLUTIONS,
    when=operand_behind(CONVOLUTIONS, _along_another_axis),
    seen={(3, 2): "wrong"},
    reason="A BiasAdd along another axis than the channels of the convolution before it is added along the channels",
)


@FOREIGN_BIAS.example()
def bias_not_along_the_channels(g: DataGraph) -> LogicalTensor:
    ends = g.input("x", "f32", (1, 2, 3, 3)), g.input("w", "f32", (2, 4, 2, 2))
    wide = g.op("ConvTranspose", ends, {**IMAGE, **NCX, "weights_format": "IOX"})
    return g.bias_add(wide, g.input("y", "f32", (4,)), data_format="NXC")


BARE_CHANNELS = FAULTS.add(
    "operand_along_bare_channels",
    ops=BINARY,
    when=operand_behind(BINARY, lambda _, operand: operand.along_bare_channels),
    seen={(3, 2): "wrong"},
    reason="An operand along the channels of a batch with nothing behind the channels is read wrong behind a binary op",
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
    ops=BINARY,
    when=operand_behind(BINARY, _is_wild_vector),
    seen={(3, 2): "right", (3, 6): "right", (3, 13): "SIGSEGV"},
    reason="A vector along the last axis behind a binary op of tensors that lie channels last is read out of bounds",
)


@WILD_VECTOR.example()
def vector_behind_a_maximum_of_channels_last(g: DataGraph) -> LogicalTensor:
    x = g.input("x", "f32", (3, 5, 4, 8), strides=(160, 1, 40, 5))
    return g.multiply(g.relu(g.maximum(x, g.input("y", "f32", (3, 5, 4, 8)))), g.input("z", "f32", (8,)))


NORMALIZED = FAULTS.add(
    "operand_behind_layer_norm",
    ops="LayerNorm",
    when=operand_behind(frozenset(["LayerNorm"]), lambda _, operand: prod(operand.shape) == prod(operand.result)),
    seen={(3, 2): "right", (3, 6): "wrong", (3, 13): "right"},
    reason="An operand of the shape of the result is read wrong behind a LayerNorm",
    since=(3, 2),  # 3.2 does not fuse a LayerNorm
)


@NORMALIZED.example({(3, 2): "right", (3, 6): "wrong", (3, 13): "throws could not create a primitive"})
def layer_norm_and_a_residual(g: DataGraph) -> LogicalTensor:
    attrs = {"use_affine": False, "epsilon": 0.1, "keep_stats": False}
    normal = g.op("LayerNorm", [g.input("x", "f32", (2, 4, 6))], attrs)
    return g.add(normal, g.input("y", "f32", (2, 4, 6)))


def _is_wrong_behind_softmax(_: Use, operand: Operand) -> bool:
    same_rank = len(operand.shape) == len(operand.result) and operand.binary.kind != "BiasAdd"
    return not (same_rank and (operand.shape == operand.result or operand.along_last))


SHARES = FAULTS.add(
    "operand_behind_softmax",
    ops="SoftMax",
    when=operand_behind(frozenset(["SoftMax"]), _is_wrong_behind_softmax),
    seen={(3, 2): "SIGSEGV", (3, 6): "right"},
    reason="An operand behind a SoftMax is read wrong unless it has all axes and varies along all of them or the last "
    "one",
    mended=NEVER,
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
    ops="MatMul",
    when=operand_behind(frozenset(["MatMul"]), _is_beside_a_vector),
    seen={(3, 2): "wrong", (3, 13): "right"},
    reason="An operand behind a product with a vector is read along other axes, as the vector has one axis more in the "
    "kernel",
    mended=NEVER,
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
    ops="MatMul",
    when=operand_behind(frozenset(["MatMul"]), _is_wrong_behind_matmul),
    seen={(3, 2): "wrong"},
    reason="An operand that varies along some axes, but not only the last one, is read wrong behind a batch of "
    "matrices that "
    "meet one matrix, as a bias, or where the result has one column",
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
    ops=BINARY,
    when=_behind_what_is_computed,
    seen={(3, 2): "SIGSEGV"},
    reason="An operand behind a binary op whose inputs the same kernel computes is read wrong where their axes are "
    "permuted",
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
            kinds = f"{main.kind} + {operand.binary.kind} + Quantize"
            return f"oneDNN rounds {kinds} before the scale for an operand of shape {list(operand.shape)}"
    return ""


ROUNDED_OPERAND = FAULTS.add(
    "rounded_operand",
    ops=NORMS,
    when=_is_rounded,
    seen={(3, 2): "right", (3, 6): "right", (3, 13): "wrong"},
    reason="What a norm is joined to becomes an integer before the scale of a Quantize",
)


@ROUNDED_OPERAND.example()
def layer_norm_an_operand_and_a_quantize(g: DataGraph) -> LogicalTensor:
    vectors = [g.input(name, "f32", (6,)) for name in ("gamma", "beta")]
    normal = g.op("LayerNorm", [g.input("x", "f32", (4, 3, 2, 6)), *vectors], {"keep_stats": False})
    return g.quantize(g.add(normal, g.input("operand", "f32", (4, 3, 1, 1))), scales=[0.08], zps=[0], dtype="s8")
