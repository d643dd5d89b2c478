"""Operands that a binary op joins to the result of an Interpolate or of a pool, read wrong as one kernel with it."""

from __future__ import annotations

from math import prod

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ...opset.window import channel_axis
from ..fault import NEVER, UNSAFE, Faults
from ..ops.windows import AVERAGE, NCX, POOL
from ..use import POOLS, Fused, Operand, Use
from .operands import operand_behind
from .quantized_uses import dequantized

FAULTS = Faults[Fused](severity=UNSAFE, instead="the ops one by one")


def _adds_to_any_order(main: Use, operand: Operand) -> bool:
    return operand.binary.kind == "Add" and operand.shape == operand.result and 1 in main.shape(0)[1:]


RESIZED_SUM = FAULTS.add(
    "sum_behind_interpolate",
    ops="Interpolate",
    when=operand_behind(frozenset(["Interpolate"]), _adds_to_any_order),
    seen={(3, 2): "wrong", (3, 6): "right"},
    reason="An Add behind an Interpolate with axes of size 1 reads single bytes: the axes may be taken to lie in any "
    "order",
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
    ops="Interpolate",
    when=operand_behind(
        frozenset(["Interpolate"]), lambda main, operand: _is_one_pixel(main, operand) and not operand.single
    ),
    seen={(3, 2): "overrun | wrong"},
    reason="An operand behind an Interpolate to one pixel is read out of bounds",
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
    ops="Interpolate",
    when=operand_behind(frozenset(["Interpolate"]), _is_resized_channels_last),
    seen={(3, 2): "wrong", (3, 6): "right"},
    reason="An operand behind an Interpolate of channels last is read wrong unless it is one element or goes along "
    "them",
    mended=NEVER,
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
    ops=POOLS,
    when=operand_behind(POOLS, _is_wrong_behind_pool),
    seen={(3, 2): "wrong"},
    reason="An operand behind a pool is read wrong unless it is one element, or goes along the channels, which lie "
    "second",
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
