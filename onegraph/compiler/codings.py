"""How 8-bit codes stand for numbers, and what the kernels for them take."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import NamedTuple

import numpy as np

from ..ir.op import Array
from ..opset.dtypes import DataType
from .ir.step import Step

LIMITS = {DataType.s8: (-128, 127), DataType.u8: (0, 255)}
CODES = frozenset(LIMITS)
# A zero point beyond this one is not exact in the arithmetic of the kernels.
LARGEST_ZERO = 1 << 15


class Coding(NamedTuple):
    """How 8-bit codes stand for numbers: (code - zero) * scale."""

    scale: float
    zero: int


PLAIN = Coding(1, 0)  # of numbers that stand for themselves


def coding(step: Step) -> Coding | None:
    """The scale and zero point of a Quantize or Dequantize with one of each that the kernels take; None for others."""
    if step.executor != "library" or step.attrs.get("qtype", "per_tensor") != "per_tensor":
        return None
    scales, zeros = _listed(step.attrs.get("scales")), _listed(step.attrs.get("zps")) or [0]
    if len(scales) != 1:
        return None
    scale = float(np.float32(scales[0]))
    if scale == 0 or isnan(scale) or abs(zeros[0]) > LARGEST_ZERO:
        return None
    return Coding(scale, int(zeros[0]))


def _listed(value: object) -> list[float]:
    return [float(number) for number in value] if isinstance(value, tuple) else []


def numbers_of(
    sources: Sequence[Coding], result: Coding = PLAIN, dtype: DataType = DataType.f32, *, positive: bool = False
) -> Array:
    """The numbers that the kernels for 8-bit codes take: see ``onegraph_scaling`` in ``include/onegraph.h``.

    Args:
        sources: of one input or two.
        result: of the result.
        dtype: data type of the result.
        positive: whether numbers below 0 become 0.
    """
    pairs = [*sources, PLAIN][:2]
    low, high = LIMITS.get(dtype, (0, 0))
    low = max(low, result.zero) if positive else low
    inputs = [number for pair in pairs for number in (pair.zero, pair.scale)]
    factor = np.float32(1) / np.float32(result.scale)
    return np.array([*inputs, factor, result.zero, low, high], np.float32)
