"""Gradients of the pooling category."""

from __future__ import annotations

import numpy as np

from ...lowering.elementwise import multiply
from ...lowering.emitter import Array, Emitter, Value, dtype_of, known_rank, numbers
from ...lowering.movement import reshape, transpose
from ...opset.ops.pooling import PoolGeometry, pool_geometry
from ...opset.shapes import known_dims
from ..use import GradientUse, shape_for
from .table import gradient_of


@gradient_of("MaxPool", "src")
def max_pool(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return emit.op("MaxPoolBackward", [use["src"], diff], use.shared("MaxPoolBackward"))


@gradient_of("MaxPoolBackward", "src diff_dst")
def max_pool_backward(emit: Emitter, use: GradientUse, diff: Value) -> tuple[None, Value]:
    """The elements at the maxima of src: all elements of each window are gathered, and the first maximum is taken."""
    use.dims("src")
    use.dims("diff_dst")
    geometry = pool_geometry(use.call)
    assert geometry is not None
    rank, (places, inside) = known_rank(diff), window_elements(geometry)
    order = [0, rank - 1, *range(1, rank - 1)] if use.call.string("data_format") == "NXC" else [*range(rank)]
    batch, channels = (use.dims("src")[axis] for axis in order[:2])
    flat = [
        reshape(emit, transpose(emit, tensor, order), numbers(batch, channels, -1)) for tensor in (use["src"], diff)
    ]
    source, slopes = (emit.op("Gather", [tensor, places], {"axis": 2}) for tensor in flat)
    best = emit.op("ArgMax", [source], {"axis": 3, "keep_dims": True})
    picked = emit.op("GatherElements", [slopes, best], {"axis": 3})
    picked = reshape(emit, picked, numbers(batch, channels, -1))
    if not inside.all():
        picked = multiply(emit, picked, inside.astype(dtype_of(diff).numpy))
    picked = reshape(emit, picked, numbers(batch, channels, *known_dims(geometry.counts)))
    return None, transpose(emit, picked, np.argsort(order).tolist())


def window_elements(geometry: PoolGeometry) -> tuple[Array, Array]:
    """The places of the elements of each window in the flat source, and whether it has any.

    A place in the padding is replaced by the first one in the source.
    """
    n = len(geometry.windows)
    places, inside = np.zeros((1,) * 2 * n, np.int64), np.ones((1,) * 2 * n, bool)
    for axis, (window, size, count) in enumerate(zip(geometry.windows, geometry.sizes, geometry.counts, strict=True)):
        assert window is not None
        assert size is not None
        assert count is not None
        starts = np.arange(count)[:, None] * window.stride - window.begin
        along = starts + np.arange(window.kernel) * window.dilation
        shape = [1] * 2 * n
        shape[axis], shape[n + axis] = along.shape
        places = places * size + along.reshape(shape)
        inside = inside & ((along >= 0) & (along < size)).reshape(shape)
    kernel = int(np.prod([window.kernel for window in geometry.windows if window is not None]))
    inside, places = inside.reshape(-1, kernel), places.reshape(-1, kernel)
    first = np.take_along_axis(places, inside.argmax(1)[:, None], 1)
    any_inside: Array = np.any(inside, axis=1)
    return np.where(inside, places, np.where(any_inside[:, None], first, 0)), any_inside


@gradient_of("AvgPool", "src")
def avg_pool(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    shape, operand = shape_for(emit, "src_shape", use["src"])
    return emit.op("AvgPoolBackward", [diff, *operand], {**use.shared("AvgPoolBackward"), **shape})


@gradient_of("AvgPoolBackward", "diff_dst")
def avg_pool_backward(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    """AvgPool with the same windows; diff_dst tells whether a last partial step counts."""
    if any(stride > 1 for stride in use.call.s64s("strides")):
        use.dims("diff_dst")  # raises the error for unknown dims
    geometry = pool_geometry(use.call)
    uses = () if geometry is None else zip(geometry.windows, geometry.sizes, geometry.counts, strict=True)
    floor = all(axis_ is None or size is None or axis_.forward(size) == count for axis_, size, count in uses)
    rounding = "floor" if floor else "ceil"
    return emit.op("AvgPool", [diff], {**use.shared("AvgPool"), "rounding_type": rounding})
