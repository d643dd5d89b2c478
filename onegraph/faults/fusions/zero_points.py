"""Fused convolutions of int8: zero points, and strides that leave gaps."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.dtypes import DataType
from ..fault import UNSAFE, Faults
from ..operands import varying
from ..ops.convolution import misses_source
from ..ops.windows import IMAGE, NCX, ROW, VOLUME
from ..use import BINARY, CONVOLUTIONS, MOVES, Fused, Use
from .quantized_uses import dequantized, scaled, zero_points

FAULTS = Faults[Fused](severity=UNSAFE, instead="the ops one by one")


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
    ops="ConvTranspose",
    when=lambda fused: any(has_gaps(use, fused.uses) for use in fused.of("ConvTranspose")),
    seen={(3, 2): "wrong | right"},  # by what lies in the memory of the result
    reason="oneDNN computes an int8 ConvTranspose wrong where its strides leave gaps",
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
    return producer is not None and any(zero_points(producer))


def _pads_what_is_shifted(fused: Fused) -> bool:
    """Whether a window of a convolution lies in padding, and what it slides over has a zero point."""
    return any(
        (use.kind == "ConvTranspose" or misses_source(use.call)) and shifted_source(use, fused.uses)
        for use in fused.of(*CONVOLUTIONS)
    )


PADDED_ZERO_POINT = FAULTS.add(
    "padded_zero_point",
    ops=CONVOLUTIONS,
    when=_pads_what_is_shifted,
    seen={(3, 2): "right", (3, 6): "wrong"},
    reason="oneDNN computes an int8 convolution wrong where windows lie in padding and the zero point is not 0: it "
    "reads sums that were never written",
)


@PADDED_ZERO_POINT.example({(3, 2): "right", (3, 6): "wrong | right"})
def windows_in_padding(g: DataGraph) -> LogicalTensor:
    """The elements of a window are before and behind the source."""
    x = dequantized(g, "x", "u8", (2, 17, 2, 5, 1), scales=[0.5], zps=[14])
    w = dequantized(g, "w", "s8", (7, 17, 2, 2, 2), scales=[0.5])
    window = {"strides": [1, 2, 1], "dilations": [1, 2, 2], "pads_begin": [1, 1, 1], "pads_end": [1, 0, 1]}
    product = g.op("Convolution", [x, w], {**window, **NCX, "weights_format": "OIX"})
    return g.quantize(product, scales=[4.0], zps=[3], dtype="s8")


@PADDED_ZERO_POINT.example({(3, 2): "right", (3, 6): "right", (3, 13): "wrong"}, on={"no AVX-512": "wrong | right"})
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
    ops=CONVOLUTIONS,
    when=lambda fused: any(shifted_weights(use, fused.uses) for use in fused.of(*CONVOLUTIONS)),
    seen={(3, 2): "wrong | refuses | throws"},
    reason="oneDNN takes the zero point of the weights of an int8 convolution for 0, or refuses it",
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
        any(use.kind == "Quantize" and any(zero_points(use)) and not scaled([use]) for use in uses)
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
    ops=CONVOLUTIONS,
    when=lambda fused: forgets_zero_point(fused.uses),
    seen={(3, 2): "wrong | right"},
    reason="oneDNN may forget the zero point of a Quantize by a scale of 1 behind an operand that goes along the "
    "places",
)


@FORGOTTEN_ZERO_POINT.example(on={"no AVX2": "right"})
def eight_channels_by_eight_places(g: DataGraph) -> LogicalTensor:
    """The channels lie first in the result and last in the kernel."""
    ends = ("x", "s8", (1, 8, 2, 4)), ("w", "s8", (1, 1, 8, 8))
    product = g.op("Convolution", [dequantized(g, *end, scales=[2.0**-6]) for end in ends], {**IMAGE, **NCX})
    return g.quantize(g.multiply(product, g.input("y", "f32", (1, 1, 1, 4))), scales=[1.0], zps=[99], dtype="u8")
