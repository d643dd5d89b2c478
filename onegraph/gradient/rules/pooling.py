"""Gradients of the pooling category."""

from __future__ import annotations

from ...lowering.emitter import Emitter, Value
from ...opset.ops.pooling import pool_geometry
from ..use import Use, shape_for
from .table import gradient_of, refused

refused("MaxPoolBackward", "no op reads the elements at the maxima, which its own gradient needs")


def _window(use: Use, kind: str) -> dict[str, object]:
    """The attributes of the windows for another op, padded explicitly so that both have the same number of windows."""
    attrs: dict[str, object] = {**use.shared(kind, without=("src_shape", "rounding_type"))}
    found = pool_geometry(use.call)
    covering = [] if found is None else [found.covering(axis) for axis in range(len(found.windows))]
    if covering and None not in covering:
        begins, ends = zip(*((one.begin, one.end) for one in covering if one is not None), strict=True)
        attrs.update(auto_pad="none", pads_begin=[*begins], pads_end=[*ends])
    return attrs


@gradient_of("MaxPool", "src")
def max_pool(emit: Emitter, use: Use, diff: Value) -> Value:
    found: Value = emit.op("MaxPoolBackward", [use["src"], diff], _window(use, "MaxPoolBackward"))
    return found


@gradient_of("AvgPool", "src")
def avg_pool(emit: Emitter, use: Use, diff: Value) -> Value:
    shape, operand = shape_for(emit, "src_shape", use["src"])
    found: Value = emit.op("AvgPoolBackward", [diff, *operand], {**_window(use, "AvgPoolBackward"), **shape})
    return found


@gradient_of("AvgPoolBackward", "diff_dst")
def avg_pool_backward(emit: Emitter, use: Use, diff: Value) -> Value:
    found: Value = emit.op("AvgPool", [diff], _window(use, "AvgPool"))
    return found
