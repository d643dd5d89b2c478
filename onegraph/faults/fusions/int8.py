"""Fused ops of int8: pools, reorders, and sums that overflow."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ..fault import LIBRARY, NEVER, UNSAFE, Faults
from ..ops.windows import AVERAGE, NCX, POOL
from ..use import DEQUANTIZATIONS, POOLS, PRODUCTS, Fused, Use
from .quantized_uses import dequantized, scaled, shifted

FAULTS = Faults[Fused](severity=UNSAFE, instead="the ops one by one")
SUMS_IN_16_BITS = "oneDNN adds products of int8 in 16 bits"


def overflows(uses: Sequence[Use]) -> bool:
    """Whether 8 bits may become 2**31 or more by the scales."""
    source_scales, wanted = (
        [scale for use in uses if use.kind == kind for scale in use.call.f32s("scales")]
        for kind in ("Dequantize", "Quantize")
    )
    return bool(source_scales and wanted) and 2**8 * max(source_scales) >= 2**31 * min(wanted)


PADDING_AS_ZERO_POINT = FAULTS.add(
    "padding_as_zero_point",
    ops="AvgPool",
    when=lambda fused: any(not use.call.flag("exclude_pad") for use in fused.of("AvgPool")) and shifted(fused.uses),
    seen={(3, 2): "wrong"},
    reason="oneDNN takes the padding of an int8 AvgPool for the zero point",
)


@PADDING_AS_ZERO_POINT.example()
def average_with_padding(g: DataGraph) -> LogicalTensor:
    x = dequantized(g, "x", "u8", (1, 6, 6, 16), zps=[100])
    pooled = g.op("AvgPool", [x], {**POOL, "pads_begin": [1, 1], "pads_end": [1, 1], "exclude_pad": False})
    return g.quantize(pooled, scales=[1.0], zps=[100], dtype="u8")


OVERFLOWING_POOL = FAULTS.add(
    "overflowing_pool",
    ops="AvgPool",
    when=lambda fused: overflows(fused.uses),
    seen={(3, 2): "wrong | right"},
    reason="oneDNN lets an int8 AvgPool overflow where its scales are far apart",
)


@OVERFLOWING_POOL.example()
def pool_of_large_numbers(g: DataGraph) -> LogicalTensor:
    pooled = g.op("AvgPool", [dequantized(g, "x", "u8", (1, 8, 8, 16), scales=[2.0**30])], AVERAGE)
    return g.quantize(pooled, scales=[1.0], zps=[0], dtype="u8")


BLOCK = 64  # codes along the sums that one row of a tile of AMX holds
LEAST_COLUMNS = 33  # of which the last ones are wrong


def _leaves_part_of_a_tile(use: Use) -> bool:
    """Whether the sums of a product are no whole tiles, and its columns more than one block."""
    source, weights = use.shape(0), use.shape(1)
    if len(source) < 2 or len(weights) < 2:
        return False
    terms = source[-2 if use.call.flag("transpose_a") else -1]
    columns = weights[-2 if use.call.flag("transpose_b") else -1]
    return terms > BLOCK and terms % BLOCK != 0 and columns >= LEAST_COLUMNS


PART_OF_A_TILE = FAULTS.add(
    "part_of_a_tile",
    ops="MatMul",
    when=lambda fused: (
        fused.amx and fused.some(DEQUANTIZATIONS) and any(map(_leaves_part_of_a_tile, fused.of("MatMul")))
    ),
    seen={(3, 2): "right", (3, 9): "right", (3, 11): "wrong | right", (3, 13): "wrong | right"},
    reason="oneDNN multiplies by what lies in memory in an int8 MatMul with AMX whose sums are no multiple of 64",
)


# Without VNNI, sums of two products are cut to 16 bits.
@PART_OF_A_TILE.example(on={"no AMX": "right", "no VNNI": "wrong | right"})
def product_of_516_terms(g: DataGraph) -> LogicalTensor:
    """Columns from 33 on are wrong where the library gets memory that another product has left."""
    return g.matmul(dequantized(g, "x", "u8", (64, 516)), dequantized(g, "w", "s8", (516, 40)))


POOL_AND_RELU = FAULTS.add(
    "int8_pool_and_relu",
    ops=POOLS,
    when=lambda fused: fused.has("Dequantize", "ReLU"),
    seen={(3, 2): "right", (3, 6): "wrong", (3, 13): "wrong"},
    reason="oneDNN rounds to integers between an int8 pool and a ReLU",
)


@POOL_AND_RELU.example()
def average_of_int8_and_a_relu(g: DataGraph) -> LogicalTensor:
    window = {"strides": [1, 1], "kernel": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "exclude_pad": True}
    pooled = g.op("AvgPool", [dequantized(g, "x", "u8", (2, 5, 5, 8), scales=[0.03125])], window)
    return g.quantize(g.relu(pooled), scales=[0.03125], zps=[0], dtype="u8")


REGISTER = 32  # codes in a register of AVX2


def _reads_beside_the_source(fused: Fused) -> bool:
    """Whether a pool of few channels has a source or a result that is shorter than the two registers at its ends."""
    pools = fused.of(*POOLS) if fused.avx2 and not fused.avx512 and fused.has("Dequantize", "Quantize") else []
    return any(
        pool.shape(0)[-1] < REGISTER and min(prod(pool.shape(0)), prod(pool.result)) < 2 * REGISTER for pool in pools
    )


SMALL_POOL = FAULTS.add(
    "small_int8_pool",
    ops=POOLS,
    when=_reads_beside_the_source,
    seen={(3, 2): "SIGSEGV"},
    reason="without AVX-512, oneDNN reads before the start of a small source of an int8 pool of few channels",
)


@SMALL_POOL.example({(3, 2): "right"}, on={"no AVX-512": "right | SIGSEGV"})
def pool_of_36_codes(g: DataGraph) -> LogicalTensor:
    """The library ends the process only where no memory lies before the source."""
    window = {"strides": [1, 1], "kernel": [5, 5], "pads_begin": [2, 2], "pads_end": [2, 2]}
    pooled = g.op("MaxPool", [dequantized(g, "x", "u8", (1, 6, 6, 1))], window)
    return g.quantize(pooled, scales=[1.0], zps=[0], dtype="u8")


POOL_TO_ANOTHER_TYPE = FAULTS.add(
    "int8_pool_to_another_type",
    ops=POOLS,
    severity=LIBRARY,
    when=lambda fused: False,  # the library refuses it by itself when it compiles
    seen={(3, 2): "refuses partition_compile: unimplemented"},
    reason="oneDNN refuses an int8 pool whose result is of another type than its source",
)


@POOL_TO_ANOTHER_TYPE.example()
def max_pool_of_u8_to_s8(g: DataGraph) -> LogicalTensor:
    pooled = g.op("MaxPool", [dequantized(g, "x", "u8", (1, 16, 8, 8), scales=[0.5])], {**POOL, **NCX})
    return g.quantize(pooled, scales=[1.0], zps=[0], dtype="s8")


QUANTIZED_REORDER = FAULTS.add(
    "quantized_reorder",
    ops="Reorder",
    when=lambda fused: fused.has("Dequantize", "Quantize") and shifted(fused.uses),
    seen={(3, 2): "throws could not execute a primitive", (3, 6): "right"},
    reason="oneDNN fails to execute Dequantize + Reorder + Quantize with zero points",
    mended=NEVER,
)


@QUANTIZED_REORDER.example()
def reorder_with_zero_points(g: DataGraph) -> LogicalTensor:
    x = g.reorder(dequantized(g, "x", "u8", (4, 8), scales=[0.05], zps=[3]))
    return g.quantize(x, scales=[0.05], zps=[3], dtype="u8")


QUANTIZED_REORDER_AND_SUM = FAULTS.add(
    "quantized_reorder_and_sum",
    ops="Reorder",
    when=lambda fused: fused.kinds == {"Dequantize", "Reorder", "Add", "Quantize"} and scaled(fused.uses),
    seen={(3, 2): "throws could not create a primitive descriptor for a reorder", (3, 6): "right"},
    reason="oneDNN fails on Dequantize + Reorder + Add + Quantize with a scale other than 1",
)


@QUANTIZED_REORDER_AND_SUM.example()
def reorder_and_a_sum(g: DataGraph) -> LogicalTensor:
    x, y = (dequantized(g, name, "u8", (4, 8), scales=[0.5]) for name in "xy")
    total = g.add(g.reorder(x), y, auto_broadcast="none")
    return g.quantize(total, scales=[0.25], zps=[0], dtype="u8")


# Asked last, as it says least of the ops -----------------------------------------------------------------------------

LAST = Faults[Fused]()

WITHOUT_VNNI = LAST.add(
    "sums_in_16_bits",
    ops=PRODUCTS,
    where="",
    severity=UNSAFE,
    when=lambda fused: not fused.vnni and len(fused.of(*DEQUANTIZATIONS)) > 1,
    seen={(3, 2): "wrong | right"},
    reason=f"{SUMS_IN_16_BITS} on a CPU without VNNI, where they overflow",
    instead="the ops one by one",
)


@WITHOUT_VNNI.example({(3, 2): "right"}, on={"no VNNI": "wrong | right"})
def product_of_int8(g: DataGraph) -> LogicalTensor:
    x, w = dequantized(g, "x", "u8", (8, 64), scales=[0.5]), dequantized(g, "w", "s8", (64, 32), scales=[0.5])
    return g.matmul(x, w)
