"""Asks about scales and zero points of fused ops, and makes inputs of int8 for examples."""

from __future__ import annotations

from collections.abc import Sequence

from ...builder.graph import DataGraph
from ...ir.op import LogicalTensor
from ..use import Use


def dequantized(g: DataGraph, name: str, dtype: str, shape: tuple[int, ...], **attrs: object) -> LogicalTensor:
    """An input of int8, dequantized; by a scale of 1 without a zero point if nothing else is said."""
    return g.op("Dequantize", [g.input(name, dtype, shape)], {"scales": [1.0], "zps": [0], **attrs})


def shifted(uses: Sequence[Use]) -> bool:
    """Whether one of the ops has a zero point other than 0."""
    return any(any(zero_points(use)) for use in uses)


def scaled(uses: Sequence[Use]) -> bool:
    """Whether a Quantize has a scale other than 1."""
    return any(scale != 1 for use in uses if use.kind == "Quantize" for scale in use.call.f32s("scales"))


def zero_points(use: Use) -> tuple[int, ...]:
    """The zero points of a Quantize or Dequantize; none for other ops."""
    quantizes = use.kind in ("Quantize", "Dequantize")
    return use.call.s64s("zps") if quantizes and use.call.has("zps") else ()
