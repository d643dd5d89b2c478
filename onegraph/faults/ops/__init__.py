"""What oneDNN gets wrong of single ops, by the kind of the op."""

from __future__ import annotations

from ...opset.schema import Call
from ..fault import Fault, Faults, Release
from . import (
    added,
    auto_padding,
    convolution,
    convolution_gradients,
    copied_sources,
    elementwise,
    interpolation,
    matmul,
    movement,
    normalization,
    pooling,
    quantization,
    reduction,
    size,
    spanned_source,
)

OPS = Faults[Call](
    convolution.FAULTS,
    auto_padding.FAULTS,
    copied_sources.FAULTS,
    spanned_source.FAULTS,
    convolution_gradients.FAULTS,
    pooling.FAULTS,
    reduction.FAULTS,
    size.FAULTS,
    normalization.FAULTS,
    quantization.FAULTS,
    interpolation.FAULTS,
    matmul.FAULTS,
    elementwise.FAULTS,
    movement.FAULTS,
    size.LAST,
    added.FAULTS,
)


def faults_of(call: Call, version: Release) -> list[Fault[Call]]:
    """What a library of ``version`` gets wrong in this call, in base words."""
    return OPS.of(frozenset([call.schema.kind]), call, version)
