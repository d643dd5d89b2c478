"""Fused ops that oneDNN computes right with a reference kernel: 1.5 to 2,000 times as long as in parts."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import NamedTuple

from ..builder.graph import DataGraph
from ..ir.op import LogicalTensor
from ..opset import kinds
from ..opset.dtypes import DataType
from ..opset.ops.movement import transposition
from ..opset.traits import Trait
from . import slow_images, slow_operands, slow_spreads
from .fault import SLOW, Faults, Release
from .operands import is_fast, rows_together, varying
from .post_ops import dtype_of, is_int8, post_ops, written_types
from .slow_operands import APART
from .use import BINARY, DEQUANTIZATIONS, ELEMENTWISE, Fused, Use

FAULTS = Faults[Fused](slow_operands.FAULTS, slow_images.FAULTS, slow_spreads.FAULTS, where="", severity=SLOW)

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
    ops=BINARY,
    when=_joins_itself,
    seen={(3, 2): "slow"},
    reason="A binary op of which both inputs come from one tensor takes a reference kernel, unless it is a swish",
    instead=APART,
)


@SLOW_PAIR.example({(3, 2): "right"})
def product_of_a_tensor_and_its_tanh(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (4, 5)), g.input("w", "f32", (5, 6)))
    return g.multiply(product, g.tanh(product))


def _starts_slow(fused: Fused) -> str:
    """The first op of a partition that joins an operand for which it is fast on fewer axes only, if it is alone."""
    made = {number for use in fused.uses for number in use.outputs}
    for main in fused.uses if len(fused.uses) > 1 else ():
        if main.kind in kinds.ARITHMETIC and made.isdisjoint(main.inputs):
            for shape in (main.shape(0), main.shape(1)):
                slow = not is_fast(varying(main.result, shape)) or rows_together(main.result, shape) > 1
                if shape != main.result and slow:
                    return f"oneDNN has a reference kernel only for {main.kind} with an operand of shape {list(shape)}"
    return ""


SLOW_START = FAULTS.add(
    "slow_start",
    ops=BINARY,
    when=_starts_slow,
    seen={(3, 2): "slow"},
    reason="A binary op with a slow operand and an op behind it take a reference kernel",
    instead="the binary op alone, on fewer axes",
)


@SLOW_START.example({(3, 2): "right"})
def exponential_of_a_difference_from_a_number_for_each_row(g: DataGraph) -> LogicalTensor:
    return g.exp(g.subtract(g.input("x", "f32", (2, 3, 4, 6)), g.input("y", "f32", (2, 3, 4, 1))))


# Other ops ------------------------------------------------------------------------------------------------------------


def _turns_columns(fused: Fused) -> bool:
    return any(
        (order := transposition(use.call)) is not None and order[-1] != len(order) - 1
        for use in fused.of("StaticTranspose")
        if use.inputs[0] in {number for main in fused.of("MatMul") for number in main.outputs}
    )


SLOW_TRANSPOSE = FAULTS.add(
    "slow_transpose",
    ops="MatMul",
    when=_turns_columns,
    seen={(3, 2): "slow"},
    reason="A MatMul that writes its columns along another axis than the last takes a reference kernel",
    instead="the MatMul, then a view or copy",
)


@SLOW_TRANSPOSE.example({(3, 2): "right"})
def product_with_columns_first(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (2, 4, 5, 6)), g.input("w", "f32", (2, 4, 6, 7)))
    turned = g.static_transpose(product, order=(0, 3, 1, 2))
    return g.static_reshape(turned, shape=(2, 140), special_zero=False)


def _adds_late(fused: Fused) -> bool:
    """Whether a MatMul adds a residual behind another op without AVX-512."""
    return not fused.avx512 and any(
        post.main.kind == "MatMul" and post.adds and post.place > 0 for post in post_ops(fused)
    )


SLOW_LATE_SUM = FAULTS.add(
    "slow_late_sum",
    ops="MatMul",
    when=_adds_late,
    seen={(3, 2): "slow"},
    reason="Without AVX-512, a MatMul that adds a residual behind another op takes a reference kernel",
    instead=APART,
    mended=(3, 5),  # which has another kernel for AVX2
)


@SLOW_LATE_SUM.example({(3, 2): "right"})
def product_and_a_row_and_a_residual(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (2, 4, 5)), g.input("w", "f32", (5, 6)))
    return g.add(g.add(product, g.input("b", "f32", (6,))), g.input("y", "f32", (2, 4, 6)))


def _packs_slowly(fused: Fused) -> bool:
    """Whether a MatMul in int8 of few rows packs a transposed second matrix, whose sums it needs, in each run."""
    makers = {number: use for use in fused.uses for number in use.outputs}

    def origin(number: int) -> Use | None:
        """The Dequantize that makes a value, perhaps in front of a TypeCast."""
        while number in makers and makers[number].kind not in DEQUANTIZATIONS:
            number = makers[number].inputs[0]
        return makers.get(number)

    for main in fused.of("MatMul"):
        src, weights = (origin(number) for number in main.inputs[:2])
        if src is None or weights is None or weights.inputs[0] in fused.constants:
            continue
        is_shifted = len(src.inputs) > 2 or (src.kind == "Dequantize" and any(src.call.s64s("zps") or ()))
        needs_sums = is_shifted or dtype_of(src, 0) is DataType.s8
        rank, rows = len(main.shape(1)), prod(main.result[:-1]) // prod(main.shape(1)[:-2])
        if main.call.flag("transpose_b") and rank in (2, 3) and needs_sums and rows <= FEW_ROWS:
            return True
    return False


FEW_ROWS = 64  # for more, the product in int8 saves more time than the packing takes
SLOW_PACKING = FAULTS.add(
    "slow_packing_of_int8",
    ops="MatMul",
    when=_packs_slowly,
    seen={(3, 2): "slow", (3, 6): "slow", (3, 13): "right"},
    reason="A MatMul in int8 packs a transposed variable in each run, with plain C++ if the other tensor is s8 or "
    "shifted",
    instead="the MatMul in floats",
)


@SLOW_PACKING.example({(3, 2): "right"}, on={"no VNNI": "wrong | right"})
def product_of_a_row_and_transposed_variables_of_int8(g: DataGraph) -> LogicalTensor:
    src = g.dequantize(g.input("x", "s8", (2, 1, 6)), scales=[0.5], zps=[0])
    weights = g.dequantize(g.input("w", "s8", (2, 8, 6)), scales=[0.5], zps=[0])
    return g.matmul(src, weights, transpose_b=True)


def _reads_a_column(fused: Fused) -> bool:
    """Whether a MatMul of int8 with bf16 between transposes columns in batches of batches."""
    return any(
        main.call.flag("transpose_a") and len(main.shape(0)) > 3 and main.shape(0)[-1] == 1 and is_int8(main, fused)
        for main in fused.of("MatMul")
        if main.dtype is DataType.bf16
    )


SLOW_COLUMN = FAULTS.add(
    "slow_transposed_column",
    ops="MatMul",
    when=_reads_a_column,
    seen={(3, 2): "slow"},
    reason="A MatMul of int8 with bf16 between takes a reference kernel for transposed columns in batches of batches",
    instead="the MatMul in bf16",
)


@SLOW_COLUMN.example(
    {(3, 2): "right", (3, 6): "right | wrong"},
    on={"no AVX-512": "right | unsupported", "no VNNI": "wrong | right | unsupported"},
)
def product_of_transposed_columns_of_int8(g: DataGraph) -> LogicalTensor:
    src = g.dequantize(g.input("x", "u8", (2, 2, 6, 1)), scales=[0.5], zps=[0])
    weights = g.dequantize(g.input("w", "s8", (6, 8)), scales=[0.5], zps=[0])
    ends = [g.type_cast(tensor, dtype="bf16") for tensor in (src, weights)]
    return g.matmul(*ends, transpose_a=True, dtype="bf16")


def _narrows(fused: Fused) -> bool:
    """Whether a MatMul of f32 writes a smaller float type, because a TypeCast is fused."""
    written = written_types(tuple(fused.uses)) if fused.has("MatMul", "TypeCast") else {}
    products = [main for main in fused.of("MatMul") if main.dtype is DataType.f32 and not is_int8(main, fused)]
    return any(written.get(main.outputs[0]) in (DataType.bf16, DataType.f16) for main in products)


SLOW_NARROWING = FAULTS.add(
    "slow_narrowing",
    ops="MatMul",
    when=_narrows,
    seen={(3, 2): "right", (3, 6): "right", (3, 13): "slow"},
    reason="A MatMul of f32 that writes a smaller type takes a reference kernel",
    instead="the MatMul, then the cast",
)


@SLOW_NARROWING.example({(3, 2): "right"}, on={"no AVX-512": "right | unsupported"})
def product_of_f32_in_bf16(g: DataGraph) -> LogicalTensor:
    product = g.matmul(g.input("x", "f32", (4, 5)), g.input("w", "f32", (5, 6)))
    return g.type_cast(product, dtype="bf16")


# Elementwise ops that plain C++ computes as fast as memory gives the elements.
CHEAP = kinds.base_kinds(Trait.POLYNOMIAL) - {"HardSigmoid", "HardSwish"}
LONG = 256  # elements that a reduction sums; beyond, its results are so few that the ops behind them take no time


def _follows_reduction(fused: Fused) -> bool:
    return any(
        post.main.kind in kinds.REDUCTIONS
        and post.use.kind in ELEMENTWISE - CHEAP
        and prod(post.main.shape(0)) < LONG * prod(post.main.result)
        for post in post_ops(fused)
    )


SLOW_REDUCTION = FAULTS.add(
    "slow_reduction",
    ops=kinds.REDUCTIONS,
    when=_follows_reduction,
    seen={(3, 2): "slow"},
    reason="oneDNN runs the ops behind a reduction element by element",
    instead=APART,
)


@SLOW_REDUCTION.example({(3, 2): "right"})
def sum_of_short_rows_and_gelu(g: DataGraph) -> LogicalTensor:
    return g.gelu(g.reduce_sum(g.input("x", "f32", (8, 6, 4)), axes=[2], keep_dims=True))


KEPT = 2**28  # bytes of scratch that a thread keeps between runs: kept_bytes in native/csrc/allocator.cpp


def _keeps_all_scores(fused: Fused) -> bool:
    """Whether attention has so many scores that the scratch for them is new memory in each run.

    With OpenMP and more than two heads for each thread, oneDNN keeps the scores of one head for each thread, which is
    faster than the ops in parts. The number of threads is unknown here, so that nothing is cut with OpenMP.
    """
    if fused.openmp:
        return False
    read = {number for main in fused.of("MatMul") for number in main.inputs}
    return any(
        not read.isdisjoint(shares.outputs) and prod(shares.result) * shares.dtype.numpy.itemsize >= KEPT
        for shares in fused.of("SoftMax")
    )


LARGE_ATTENTION = FAULTS.add(
    "slow_large_attention",
    ops="SoftMax",
    when=_keeps_all_scores,
    seen={(3, 2): "right", (3, 6): "slow", (3, 13): "slow"},
    reason="oneDNN takes new memory for all scores of attention in each run, if its threads are not OpenMP's",
    instead="the scores, then the MatMul behind the SoftMax",
)


@LARGE_ATTENTION.example({(3, 2): "right"}, runs=False)
def attention_of_16_heads_and_2048_tokens(g: DataGraph) -> LogicalTensor:
    q, k, v = (g.input(name, "f32", (1, 16, 2048, 64)) for name in "qkv")
    shares = g.op("SoftMax", [g.matmul(q, k, transpose_b=True)], {"axis": -1}, outputs=["dst"], dtype="f32")
    return g.matmul(shares, v)


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
