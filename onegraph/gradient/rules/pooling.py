"""Gradients of the pooling category."""

from __future__ import annotations

from ...lowering.emitter import Emitter, Value
from ...opset.ops.pooling import pool_geometry
from ..use import Use, shape_for
from .table import gradient_of, refused

refused("MaxPoolBackward", "no op reads the elements at the maxima, which its own gradient needs")


@gradient_of("MaxPool", "src")
def max_pool(emit: Emitter, use: Use, diff: Value) -> Value:
    found: Value = emit.op("MaxPoolBackward", [use["src"], diff], use.shared("MaxPoolBackward"))
    return found


@gradient_of("AvgPool", "src")
def avg_pool(emit: Emitter, use: Use, diff: Value) -> Value:
    shape, operand = shape_for(emit, "src_shape", use["src"])
    found: Value = emit.op("AvgPoolBackward", [diff, *operand], {**use.shared("AvgPoolBackward"), **shape})
    return found


@gradient_of("AvgPoolBackward", "diff_dst")
def avg_pool_backward(emit: Emitter, use: Use, diff: Value) -> Value:
    """AvgPool with the same windows; diff_dst tells whether a last partial step counts."""
    geometry = pool_geometry(use.call)
    uses = () if geometry is None else zip(geometry.windows, geometry.sizes, geometry.counts, strict=True)
    floor = all(one is None or size is None or one.forward(size) == count for one, size, count in uses)
    rounding = "floor" if floor else "ceil"
    found: Value = emit.op("AvgPool", [diff], {**use.shared("AvgPool"), "rounding_type": rounding})
    return found
