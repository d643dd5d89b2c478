"""Fused ops that oneDNN computes right with a reference kernel: 1.5 to 2,000 times as long as in parts."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import NamedTuple

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset.editions.registry import BASE
from ..opset.ops.movement import transposition
from . import slow_images, slow_operands
from .fault import SLOW, Faults, Release
from .operands import is_fast, rows_together, varying
from .post_ops import is_int8, post_ops
from .slow_operands import APART
from .use import BINARY, ELEMENTWISE, Fused

FAULTS = Faults[Fused](slow_operands.FAULTS, slow_images.FAULTS)

# One tensor --------------------------------------------------------------------------------------------------------


def _joins_itself(fused: Fused) -> str:
    producers = {number: use for use in fused.uses for number in use.outputs}
    for post in post_ops(fused):
        kinds = [producers[number].kind for number in sorted(post.joined)]
        swish = post.use.kind == "Multiply" and "Sigmoid" in kinds
        if len(kinds) > 1 and not post.anew and not swish:
            return f"oneDNN has a reference kernel only for {kinds[-1]} + {post.use.kind} of one tensor"
    return ""


SLOW_PAIR = FAULTS.add(
    "slow_pair",
    BINARY,
    "",
    SLOW,
    _joins_itself,
    {(3, 2): "slow"},
    "A binary op of which both inputs come from one tensor takes a reference kernel, unless it is a swish",
    APART,
)


@SLOW_PAIR.example({(3, 2): "right"})
def product_of_a_tensor_and_its_tanh(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (4, 5)), g.input("w", "f32", (5, 6)))
    return g.multiply(product, g.tanh(product))


def _starts_slow(fused: Fused) -> str:
    """The first op of a partition that joins an operand for which it is fast on fewer axes only, if it is alone."""
    made = {number for use in fused.uses for number in use.outputs}
    for main in fused.uses if len(fused.uses) > 1 else ():
        if main.kind in BINARY - {"BiasAdd", "PReLU", "Select"} and made.isdisjoint(main.inputs):
            for shape in (main.shape(0), main.shape(1)):
                slow = not is_fast(varying(main.result, shape)) or rows_together(main.result, shape) > 1
                if shape != main.result and slow:
                    return f"oneDNN has a reference kernel only for {main.kind} with an operand of shape {list(shape)}"
    return ""


SLOW_START = FAULTS.add(
    "slow_start",
    BINARY,
    "",
    SLOW,
    _starts_slow,
    {(3, 2): "slow"},
    "A binary op with a slow operand and an op behind it take a reference kernel",
    "the binary op alone, on fewer axes",
)


@SLOW_START.example({(3, 2): "right"})
def exponential_of_a_difference_from_a_number_for_each_row(g: DataGraph) -> LogicalTensor:
    return g.exp(g.subtract(g.input("x", "f32", (2, 3, 4, 6)), g.input("y", "f32", (2, 3, 4, 1))))


# Other ops ------------------------------------------------------------------------------------------------------------


def _turns_columns(fused: Fused) -> bool:
    return fused.has("MatMul") and any(
        (order := transposition(use.call)) is not None and order[-1] != len(order) - 1
        for use in fused.of("StaticTranspose")
        if use.inputs[0] in {number for main in fused.of("MatMul") for number in main.outputs}
    )


SLOW_TRANSPOSE = FAULTS.add(
    "slow_transpose",
    "MatMul",
    "",
    SLOW,
    _turns_columns,
    {(3, 2): "slow"},
    "A MatMul that writes its columns along another axis than the last takes a reference kernel",
    "the MatMul, then a view or copy",
)


@SLOW_TRANSPOSE.example({(3, 2): "right"})
def product_with_columns_first(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (2, 4, 5, 6)), g.input("w", "f32", (2, 4, 6, 7)))
    turned = g.static_transpose(product, order=(0, 3, 1, 2))
    return g.static_reshape(turned, shape=(2, 140), special_zero=False)


def _reads_a_column(fused: Fused) -> bool:
    """Whether a MatMul in int8 transposes a first matrix of one column, which could be a row as well."""
    return any(
        main.call.flag("transpose_a") and len(main.shape(0)) > 1 and main.shape(0)[-1] == 1 and is_int8(main, fused)
        for main in fused.of("MatMul")
    )


SLOW_COLUMN = FAULTS.add(
    "slow_transposed_column",
    "MatMul",
    "",
    SLOW,
    lambda fused: fused.has("Dequantize") and _reads_a_column(fused),
    {(3, 2): "slow"},
    "A MatMul in int8 takes a reference kernel for a transposed first matrix of one column",
    "the MatMul in floats",
)


@SLOW_COLUMN.example({(3, 2): "right"})
def product_of_a_transposed_column_of_int8(g: DataGraph) -> LogicalTensor:
    src = g.dequantize(g.input("x", "u8", (2, 3, 6, 1)), scales=[0.5], zps=[0])
    weights = g.dequantize(g.input("w", "s8", (6, 8)), scales=[0.5], zps=[0])
    return g.matmul(src, weights, transpose_a=True)


def _packs_for_a_row(fused: Fused) -> bool:
    """Whether a MatMul in int8 of one row has a second matrix that is no constant."""
    makers = {number: use for use in fused.uses for number in use.outputs}
    for main in fused.of("MatMul"):
        number = main.inputs[1]
        while number in makers:
            number = makers[number].inputs[0]
        rows = main.result[-2:-1] == (1,) and len(main.shape(0)) > 1 and len(main.shape(1)) > 1
        if rows and number not in fused.constants and is_int8(main, fused):
            return True
    return False


SLOW_ROW = FAULTS.add(
    "slow_row_of_int8",
    "MatMul",
    "",
    SLOW,
    lambda fused: fused.has("Dequantize") and _packs_for_a_row(fused),
    {(3, 2): "slow"},
    "A MatMul in int8 packs a second matrix that is no constant in each run, longer than it multiplies a row",
    "the MatMul in floats",
)


@SLOW_ROW.example({(3, 2): "right"})
def product_of_a_row_of_int8(g: DataGraph) -> LogicalTensor:
    src = g.dequantize(g.input("x", "u8", (2, 1, 6)), scales=[0.5], zps=[0])
    return g.matmul(src, g.dequantize(g.input("w", "s8", (2, 6, 8)), scales=[0.5], zps=[0]))


# Elementwise ops that plain C++ computes as fast as memory gives the elements.
CHEAP = frozenset(["Abs", "Clamp", "LeakyReLU", "ReLU", "Round", "Square"])
LONG = 256  # elements that a reduction sums; beyond, its results are so few that the ops behind them take no time


def _follows_reduction(fused: Fused) -> bool:
    return any(
        post.main.call.schema.category == "reduction"
        and post.use.kind in ELEMENTWISE - CHEAP
        and prod(post.main.shape(0)) < LONG * prod(post.main.result)
        for post in post_ops(fused)
    )


SLOW_REDUCTION = FAULTS.add(
    "slow_reduction",
    frozenset(kind for kind, schema in BASE.items() if schema.category == "reduction"),
    "",
    SLOW,
    _follows_reduction,
    {(3, 2): "slow"},
    "oneDNN runs the ops behind a reduction element by element",
    APART,
)


@SLOW_REDUCTION.example({(3, 2): "right"})
def sum_of_short_rows_and_gelu(g: DataGraph) -> LogicalTensor:
    return g.gelu(g.reduce_sum(g.input("x", "f32", (8, 6, 4)), axes=[2], keep_dims=True))


class Cut(NamedTuple):
    """Why a partition is slow, and how many of its first ops are to be one without the others."""

    reason: str
    place: int


def slow_fusion(fused: Fused, version: Release) -> Cut | None:
    """Where a library of ``version`` computes ops faster in two parts; None where it does not."""
    if not FAULTS.reason(fused.kinds, fused, version):
        return None
    for place in range(1, len(fused.uses)):
        first = replace(fused, uses=fused.uses[: place + 1])
        if reason := FAULTS.reason(first.kinds, first, version):
            return Cut(reason, place)
    return None
