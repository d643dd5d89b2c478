"""What oneDNN gets wrong of fused ops, although each of the ops alone is right.

The executor runs such ops one by one, and the one-to-one objects refuse them.
"""

from __future__ import annotations

from ...native.load import TRIED
from ..fault import Faults, Release
from ..use import DEQUANTIZATIONS, Fused
from . import (
    attention,
    convolution,
    image_operands,
    int8,
    int8_convolutions,
    matmul,
    operands,
    residuals,
    scales,
    strided,
    views,
    zero_points,
)

FUSIONS = Faults[Fused](
    operands.FAULTS,
    image_operands.FAULTS,
    attention.FAULTS,
    views.FAULTS,
    int8.FAULTS,
    int8_convolutions.FAULTS,
    zero_points.FAULTS,
    scales.FAULTS,
    residuals.FAULTS,
    convolution.FAULTS,
    matmul.FAULTS,
    int8.LAST,
)


def wrong_fusion(fused: Fused, version: Release) -> str:
    """Why a library of ``version`` must not run these ops as one kernel, whatever their strides; empty where it may."""
    if version[:2] not in TRIED and fused.some(DEQUANTIZATIONS):
        return f"oneDNN {version[0]}.{version[1]} was never tried, and int8 is where versions differ most"
    return FUSIONS.reason(fused.kinds, fused, version)


def wrong_strides(fused: Fused, version: Release) -> str:
    """Why a library of ``version`` must not run these ops as one kernel on values that are not dense."""
    return strided.FAULTS.reason(fused.kinds, fused, version)
