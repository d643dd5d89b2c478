"""Fused ops of int8: scales, zero points and sums that overflow."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.dtypes import DataType
from ..fault import LIBRARY, UNSAFE, Faults
from ..operands import varying
from ..ops.convolution import misses_source
from ..ops.windows import AVERAGE, IMAGE, NCX, POOL, ROW, VOLUME
from ..use import BINARY, CONVOLUTIONS, DEQUANTIZATIONS, MOVES, POOLS, PRODUCTS, Fused, Use

FAULTS = Faults[Fused]()
SUMS_IN_16_BITS = "oneDNN adds products of int8 in 16 bits"


def dequantized(g: DataGraph, name: str, dtype: str, shape: tuple[int, ...], **attrs: object) -> LogicalTensor:
    """An input of int8, dequantized; by a scale of 1 without a zero point if nothing else is said."""
    return g.op("Dequantize", [g.input(name, dtype, shape)], {"scales": [1.0], "zps": [0], **attrs})


# Pools and reorders --------------------------------------------------------------------------------------------------


def shifted(uses: Sequence[Use]) -> bool:
    """Whether one of the ops has a zero point other than 0."""
    return any(any(_zero_points(use)) for use in uses)


def scaled(uses: Sequence[Use]) -> bool:
    """Whether a Quantize has a scale other than 1."""
    return any(scale != 1 for use in uses if use.kind == "Quantize" for scale in use.call.f32s("scales"))


def overflows(uses: Sequence[Use]) -> bool:
    """Whether 8 bits may become 2**31 or more by the scales."""
    given, wanted = (
        [scale for use in uses if use.kind == kind for scale in use.call.f32s("scales")]
        for kind in ("Dequantize", "Quantize")
    )
    return bool(given and wanted) and 2**8 * max(given) >= 2**31 * min(wanted)


def _zero_points(use: Use) -> tuple[int, ...]:
    quantizes = use.kind in ("Quantize", "Dequantize")
    return use.call.s64s("zps") if quantizes and use.call.has("zps") else ()


PADDING_AS_ZERO_POINT = FAULTS.add(
    "padding_as_zero_point",
    "AvgPool",
    "",
    UNSAFE,
    lambda fused: any(not use.call.flag("exclude_pad") for use in fused.of("AvgPool")) and shifted(fused.uses),
    {(3, 2): "wrong"},
    "oneDNN takes the padding of an int8 AvgPool for the zero point",
    "the ops one by one",
)


@PADDING_AS_ZERO_POINT.example()
def average_with_padding(g: DataGraph) -> LogicalTensor:
    x = dequantized(g, "x", "u8", (1, 6, 6, 16), zps=[100])
    pooled = g.op("AvgPool", [x], {**POOL, "pads_begin": [1, 1], "pads_end": [1, 1], "exclude_pad": False})
    return g.quantize(pooled, scales=[1.0], zps=[100], dtype="u8")


OVERFLOWING_POOL = FAULTS.add(
    "overflowing_pool",
    "AvgPool",
    "",
    UNSAFE,
    lambda fused: overflows(fused.uses),
    {(3, 2): "wrong | right"},
    "oneDNN lets an int8 AvgPool overflow where its scales are far apart",
    "the ops one by one",
)


@OVERFLOWING_POOL.example()
def pool_of_large_numbers(g: DataGraph) -> LogicalTensor:
    pooled = g.op("AvgPool", [dequantized(g, "x", "u8", (1, 8, 8, 16), scales=[2.0**30])], AVERAGE)
    return g.quantize(pooled, scales=[1.0], zps=[0], dtype="u8")


POOL_AND_RELU = FAULTS.add(
    "int8_pool_and_relu",
    POOLS,
    "",
    UNSAFE,
    lambda fused: fused.has("Dequantize", "ReLU"),
    {(3, 2): "right", (3, 6): "wrong", (3, 13): "wrong"},
    "oneDNN rounds to integers between an int8 pool and a ReLU",
    "the ops one by one",
)


@POOL_AND_RELU.example()
def average_of_int8_and_a_relu(g: DataGraph) -> LogicalTensor:
    window = {"strides": [1, 1], "kernel": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "exclude_pad": True}
    pooled = g.op("AvgPool", [dequantized(g, "x", "u8", (2, 5, 5, 8), scales=[0.03125])], window)
    return g.quantize(g.relu(pooled), scales=[0.03125], zps=[0], dtype="u8")


POOL_TO_ANOTHER_TYPE = FAULTS.add(
    "int8_pool_to_another_type",
    POOLS,
    "",
    LIBRARY,
    lambda fused: False,  # the library refuses it by itself when it compiles
    {(3, 2): "refuses partition_compile: unimplemented"},
    "oneDNN refuses an int8 pool whose result is of another type than its source",
    "the ops one by one",
)


@POOL_TO_ANOTHER_TYPE.example()
def max_pool_of_u8_to_s8(g: DataGraph) -> LogicalTensor:
    pooled = g.op("MaxPool", [dequantized(g, "x", "u8", (1, 16, 8, 8), scales=[0.5])], {**POOL, **NCX})
    return g.quantize(pooled, scales=[1.0], zps=[0], dtype="s8")


QUANTIZED_REORDER = FAULTS.add(
    "quantized_reorder",
    "Reorder",
    "",
    UNSAFE,
    lambda fused: fused.has("Dequantize", "Quantize") and shifted(fused.uses),
    {(3, 2): "throws could not execute a primitive", (3, 6): "right"},
    "oneDNN fails to execute Dequantize + Reorder + Quantize with zero points",
    "the ops one by one",
    mended=(99, 0),
)


@QUANTIZED_REORDER.example()
def reorder_with_zero_points(g: DataGraph) -> LogicalTensor:
    x = g.reorder(dequantized(g, "x", "u8", (4, 8), scales=[0.05], zps=[3]))
    return g.quantize(x, scales=[0.05], zps=[3], dtype="u8")


QUANTIZED_REORDER_AND_SUM = FAULTS.add(
    "quantized_reorder_and_sum",
    "Reorder",
    "",
    UNSAFE,
    lambda fused: fused.kinds == {"Dequantize", "Reorder", "Add", "Quantize"} and scaled(fused.uses),
    {(3, 2): "throws could not create a primitive descriptor for a reorder", (3, 6): "right"},
    "oneDNN fails on Dequantize + Reorder + Add + Quantize with a scale other than 1",
    "the ops one by one",
)


@QUANTIZED_REORDER_AND_SUM.example()
def reorder_and_a_sum(g: DataGraph) -> LogicalTensor:
    x, y = (dequantized(g, name, "u8", (4, 8), scales=[0.5]) for name in "xy")
    total = g.add(g.reorder(x), y, auto_broadcast="none")
    return g.quantize(total, scales=[0.25], zps=[0], dtype="u8")


# Gaps and zero points ------------------------------------------------------------------------------------------------


def has_gaps(use: Use, uses: Sequence[Use]) -> bool:
    """Whether a dequantized ConvTranspose moves its window further than it is wide; of s8, or by more than two."""
    source = next((other.call.inputs[0] for other in uses if use.inputs[0] in other.outputs), None)
    if source is None:
        return False
    most = 2 if source.dtype is DataType.s8 else max(use.call.s64s("strides"))
    weights, strides = use.shape(1), use.call.s64s("strides")
    sizes = weights[2:] if use.call.string("weights_format") == "IOX" else weights[:-2]
    extents = [1 + (size - 1) * step for size, step in zip(sizes, use.call.s64s("dilations"), strict=True)]
    return any(step > min(most, extent) for step, extent in zip(strides, extents, strict=True))


GAPS = FAULTS.add(
    "int8_gaps",
    "ConvTranspose",
    "",
    UNSAFE,
    lambda fused: any(has_gaps(use, fused.uses) for use in fused.of("ConvTranspose")),
    {(3, 2): "wrong | right"},  # by what lies in the memory of the result
    "oneDNN computes an int8 ConvTranspose wrong where its strides leave gaps",
    "the ops one by one",
)


@GAPS.example()
def gaps_of_s8(g: DataGraph) -> LogicalTensor:
    x, w = dequantized(g, "x", "s8", (1, 4, 3, 2)), dequantized(g, "w", "s8", (1, 1, 1, 2))
    return g.op("ConvTranspose", [x, w], {**IMAGE, "strides": [3, 1]})


@GAPS.example()
def gaps_of_s8_and_a_residual(g: DataGraph) -> LogicalTensor:
    x = dequantized(g, "x", "s8", (1, 3, 1, 2))
    w = g.dequantize(g.constant(np.ones((1, 1, 1, 2), np.int8)), scales=[1.0], zps=[0])
    spread = g.op("ConvTranspose", [x, w], {**IMAGE, "strides": [2, 1]})
    return g.quantize(
        g.add(spread, dequantized(g, "y", "s8", (1, 5, 1, 1), zps=[10])), scales=[1.0], zps=[0], dtype="s8"
    )


@GAPS.example()
def gaps_of_u8(g: DataGraph) -> LogicalTensor:
    x = dequantized(g, "x", "u8", (1, 4, 2, 1, 16), scales=[0.5], zps=[7])
    w = dequantized(g, "w", "s8", (1, 2, 3, 18, 16), scales=[0.5])
    window = {**VOLUME, "strides": [3, 3, 1], "pads_begin": [0, 0, 1], "pads_end": [0, 0, 1]}
    return g.relu(g.op("ConvTranspose", [x, w], window))


def shifted_source(use: Use, uses: Sequence[Use]) -> bool:
    """Whether what a product reads first was dequantized with a zero point."""
    return _is_shifted(use.inputs[0], uses)


def shifted_weights(use: Use, uses: Sequence[Use]) -> bool:
    """Whether the weights of a product were dequantized with a zero point."""
    return _is_shifted(use.inputs[1], uses)


def _is_shifted(number: int, uses: Sequence[Use]) -> bool:
    producers = {number: other for other in uses for number in other.outputs}
    producer = producers.get(number)
    while producer is not None and producer.kind in MOVES:
        producer = producers.get(producer.inputs[0])
    return producer is not None and any(_zero_points(producer))


def _pads_what_is_shifted(fused: Fused) -> bool:
    """Whether a window of a convolution lies in padding, and what it slides over has a zero point."""
    return any(
        (use.kind == "ConvTranspose" or misses_source(use.call)) and shifted_source(use, fused.uses)
        for use in fused.of(*CONVOLUTIONS)
    )


PADDED_ZERO_POINT = FAULTS.add(
    "padded_zero_point",
    CONVOLUTIONS,
    "",
    UNSAFE,
    _pads_what_is_shifted,
    {(3, 2): "right", (3, 6): "right", (3, 13): "wrong"},
    "oneDNN computes an int8 convolution wrong where windows lie in padding and the zero point is not 0",
    "the ops one by one",
)


@PADDED_ZERO_POINT.example()
def windows_in_padding(g: DataGraph) -> LogicalTensor:
    """The elements of a window are before and behind the source."""
    x = dequantized(g, "x", "u8", (2, 17, 2, 5, 1), scales=[0.5], zps=[14])
    w = dequantized(g, "w", "s8", (7, 17, 2, 2, 2), scales=[0.5])
    window = {"strides": [1, 2, 1], "dilations": [1, 2, 2], "pads_begin": [1, 1, 1], "pads_end": [1, 0, 1]}
    product = g.op("Convolution", [x, w], {**window, **NCX, "weights_format": "OIX"})
    return g.quantize(product, scales=[4.0], zps=[3], dtype="s8")


@PADDED_ZERO_POINT.example()
def spread_with_a_zero_point(g: DataGraph) -> LogicalTensor:
    x, w = (
        dequantized(g, "x", "u8", (1, 5, 5), scales=[0.5], zps=[7]),
        dequantized(g, "w", "s8", (3, 19, 5), scales=[0.5]),
    )
    window = {**ROW, **NCX, "weights_format": "XOI", "strides": [3], "pads_begin": [1], "pads_end": [1]}
    product = g.bias_add(g.op("ConvTranspose", [x, w], window), g.input("b", "f32", (19,)), data_format="NCX")
    return g.quantize(product, scales=[4.0], zps=[0], dtype="s8")


ZERO_POINT_OF_WEIGHTS = FAULTS.add(
    "zero_point_of_weights",
    CONVOLUTIONS,
    "",
    UNSAFE,
    lambda fused: any(shifted_weights(use, fused.uses) for use in fused.of(*CONVOLUTIONS)),
    {(3, 2): "wrong | refuses | throws"},
    "oneDNN takes the zero point of the weights of an int8 convolution for 0, or refuses it",
    "the ops one by one",
)


@ZERO_POINT_OF_WEIGHTS.example()
def single_channels_of_weights_with_a_zero_point(g: DataGraph) -> LogicalTensor:
    ends = (
        dequantized(g, "x", "u8", (1, 5, 5, 4), scales=[0.5]),
        dequantized(g, "w", "s8", (3, 2, 1, 4), scales=[0.5], zps=[5]),
    )
    return g.op("Convolution", ends, {**IMAGE, "pads_begin": [1, 0], "groups": 4})


def forgets_zero_point(uses: Sequence[Use]) -> bool:
    """Whether a zero point without a scale is that of channels that lie first, behind a convolution and a binary op.

    A binary op that goes along the places of an image is a kernel by itself, and so is the Quantize behind it, which
    brings channels from the end to the front: a transposition that by 8 times 8 elements looks at scales alone.
    """
    return (
        any(use.kind == "Quantize" and any(_zero_points(use)) and not scaled([use]) for use in uses)
        and any(_has_channels_first(use) for use in uses if use.kind in CONVOLUTIONS)
        and any(_goes_along_places(use) for use in uses if use.kind in BINARY - {"BiasAdd"})
    )


def _has_channels_first(use: Use) -> bool:
    """Whether the channels of a convolution lie first, and they and the places may be taken by eights."""
    shape = use.result
    return use.call.string("data_format") == "NCX" and shape[1] % 8 == 0 and prod(shape[2:]) % 8 == 0


def _goes_along_places(use: Use) -> bool:
    """Whether an operand is smaller than the result, and varies along a spatial axis."""
    shapes = [use.shape(index) for index in range(len(use.inputs))]
    return any(shape != use.result and any(varying(use.result, shape)[2:]) for shape in shapes)


FORGOTTEN_ZERO_POINT = FAULTS.add(
    "forgotten_zero_point",
    CONVOLUTIONS,
    "",
    UNSAFE,
    lambda fused: forgets_zero_point(fused.uses),
    {(3, 2): "wrong | right"},
    "oneDNN may forget the zero point of a Quantize by a scale of 1 behind an operand that goes along the places",
    "the ops one by one",
)


@FORGOTTEN_ZERO_POINT.example(on={"no AVX2": "right"})
def eight_channels_by_eight_places(g: DataGraph) -> LogicalTensor:
    """The channels lie first in the result and last in the kernel."""
    ends = ("x", "s8", (1, 8, 2, 4)), ("w", "s8", (1, 1, 8, 8))
    product = g.op("Convolution", [dequantized(g, *end, scales=[2.0**-6]) for end in ends], {**IMAGE, **NCX})
    return g.quantize(g.multiply(product, g.input("y", "f32", (1, 1, 1, 4))), scales=[1.0], zps=[99], dtype="u8")


# Asked last, as it says least of the ops -----------------------------------------------------------------------------

LAST = Faults[Fused]()

WITHOUT_VNNI = LAST.add(
    "sums_in_16_bits",
    PRODUCTS,
    "",
    UNSAFE,
    lambda fused: not fused.vnni and len(fused.of(*DEQUANTIZATIONS)) > 1,
    {(3, 2): "wrong | right"},
    f"{SUMS_IN_16_BITS} on a CPU without VNNI, where they overflow",
    "the ops one by one",
)


@WITHOUT_VNNI.example({(3, 2): "right"}, on={"no VNNI": "wrong | right"})
def product_of_int8(g: DataGraph) -> LogicalTensor:
    x, w = dequantized(g, "x", "u8", (8, 64), scales=[0.5]), dequantized(g, "w", "s8", (64, 32), scales=[0.5])
    return g.matmul(x, w)
