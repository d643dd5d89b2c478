"""Computes the host ops that rearrange elements. Those of ``VIEWS`` return a view if numpy can make one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...opset.host.movement_shapes import reshape_shape as shape_of
from ...opset.host.movement_shapes import slices
from ...opset.ops.movement import transposition
from ...opset.schema import Call
from ...opset.shapes import known_dims

Array = NDArray[Any]


def reshape(call: Call, src: Array, shape: Array) -> Array:
    """The elements in another shape."""
    return src.reshape(known_dims(shape_of(call)[0]))


def squeeze(call: Call, src: Array) -> Array:
    """src without some axes of size 1."""
    return np.squeeze(src, call.s64s("axes"))


def unsqueeze(call: Call, src: Array) -> Array:
    """src with further axes of size 1."""
    return np.expand_dims(src, call.s64s("axes"))


def transpose(call: Call, src: Array) -> Array:
    """src with its axes in another order."""
    return src.transpose(transposition(call))


def slice_(call: Call, src: Array, *ends: Array) -> Array:
    """Part of src."""
    cut = slices(call)
    assert cut is not None
    return src[cut]


def expand(call: Call, src: Array, shape: Array) -> Array:
    """src broadcast with a shape."""
    return np.broadcast_to(src, np.broadcast_shapes(src.shape, tuple(shape.tolist())))


def sum_to(call: Call, src: Array, shape: Array) -> Array:
    """src summed over the axes along which a tensor of a shape was broadcast."""
    dims = tuple(shape.tolist())
    added = src.ndim - len(dims)
    axes = (*range(added), *(added + axis for axis, dim in enumerate(dims) if dim == 1 != src.shape[added + axis]))
    total: Array = src.sum(axes, dtype=src.dtype, keepdims=True).reshape(dims) if axes else src
    return total


def concat(call: Call, *sources: Array) -> Array:
    """The sources along one axis."""
    return np.concatenate(sources, axis=call.s64("axis"))


def tile(call: Call, src: Array, repeats: Array) -> Array:
    """src repeated along each axis."""
    return np.tile(src, repeats.tolist())


def pad(call: Call, src: Array, pads: Array, value: Array | None = None) -> Array:
    """src with elements around it; negative padding cuts."""
    rank = src.ndim
    before, after = pads[:rank].tolist(), pads[rank:].tolist()
    cut = src[tuple(slice(max(-a, 0), n - max(-b, 0)) for a, b, n in zip(before, after, src.shape, strict=True))]
    widths = [(max(a, 0), max(b, 0)) for a, b in zip(before, after, strict=True)]
    mode = call.string("mode")
    if mode == "constant":
        number = np.zeros((), src.dtype) if value is None else value.reshape(())
        padded = np.full([n + a + b for n, (a, b) in zip(cut.shape, widths, strict=True)], number, src.dtype)
        padded[tuple(slice(a, a + n) for n, (a, _) in zip(cut.shape, widths, strict=True))] = cut
        return padded
    return np.pad(cut, widths, mode=mode)  # type: ignore[call-overload]


def triangle(call: Call, src: Array) -> Array:
    """One triangle of each matrix, and zeros."""
    keep = np.triu if call.flag("upper") else np.tril
    mask = keep(np.ones(src.shape[-2:], bool), call.s64("offset"))
    return np.where(mask, src, np.zeros((), src.dtype))
