"""Gradients of the interpolation category."""

from __future__ import annotations

from ...lowering.emitter import Emitter, Value
from ..use import GradientUse
from .table import gradient_of


def _sizes(use: GradientUse) -> list[Value]:
    return [use["sizes"]] if use.has("sizes") else []


@gradient_of("Interpolate", "src")
def interpolate(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    kind = "InterpolateBackward"
    return emit.op(kind, [use["src"], diff, *_sizes(use)], use.shared(kind))


@gradient_of("InterpolateBackward", "src diff_dst")
def interpolate_backward(emit: Emitter, use: GradientUse, diff: Value) -> tuple[None, Value]:
    """The op reads the shape of src alone."""
    resized = emit.op("Interpolate", [diff, *_sizes(use)], use.shared("Interpolate"))
    return None, resized
