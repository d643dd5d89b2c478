"""Writes Interpolate and its gradient."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....opset.dtypes import DataType
from ....opset.ops.interpolation import resized
from ....opset.schema import Call
from ....opset.shapes import known, known_dims
from ....opset.window import channels, spatial
from .body import NodeValue
from .table import channels_back, channels_first, composes, known_dims_of, rank_of, writes


@writes("Interpolate")
def interpolate(call: Call, src: NodeValue, sizes: NodeValue | None = None) -> NodeValue:
    rank, data_format, body = rank_of(call, "src"), call.string("data_format"), src.body
    data, wanted, shape = channels_first(src, data_format, rank), resized(call), call.shape("src")
    assert shape is not None
    assert wanted is not None
    outer = shape[0], channels(shape, data_format)
    whole = *outer, *wanted
    if known(whole):
        target = body.numbers(*known_dims(whole))
    else:
        dims = data.dims()
        if known(wanted):
            inner = body.numbers(*known_dims(wanted))
        elif sizes is not None:
            inner = sizes.cast(DataType.s64)
        else:
            scales = body.constant(np.array(call.f32s("scales"), np.float32), "scales")
            now = dims.op("Gather", body.numbers(*range(2, rank)), axis=0).cast(DataType.f32)
            inner = (now * scales).op("Floor").cast(DataType.s64)
        target = dims.op("Gather", body.numbers(0, 1), axis=0).op("Concat", inner, axis=0)
    nearest = call.string("mode") == "nearest"
    result = data.op(
        "Resize",
        None,
        None,
        target,
        mode="nearest" if nearest else "linear",
        coordinate_transformation_mode=call.string("coordinate_transformation_mode"),
        nearest_mode="round_prefer_ceil",
    )
    return channels_back(result, data_format, rank)


def weights_along(call: Call, old: int, new: int) -> NDArray[np.float32]:
    """The matrix (new, old) of the weights with which each new element is made of old ones, along one axis."""
    places = np.arange(new, dtype=np.float64)
    if call.string("coordinate_transformation_mode") == "align_corners":
        position = places * (old - 1) / max(new - 1, 1)
    else:
        position = (2 * places + 1) * old / (2 * new) - 0.5
    matrix = np.zeros((new, old), np.float32)
    rows = np.arange(new)
    if call.string("mode") == "nearest":
        matrix[rows, np.clip(np.floor(position + 0.5).astype(int), 0, old - 1)] = 1
        return matrix
    inside = np.clip(position, 0, old - 1)
    first = np.floor(inside).astype(int)
    np.add.at(matrix, (rows, first), 1 - (inside - first))
    np.add.at(matrix, (rows, np.minimum(first + 1, old - 1)), inside - first)
    return matrix


@composes("InterpolateBackward")
def interpolate_backward(call: Call, src: NodeValue, diff_dst: NodeValue, sizes: object = None) -> NodeValue:
    rank, data_format, body = rank_of(call, "src"), call.string("data_format"), src.body
    old = known_dims_of(call, spatial(call.shape("src"), data_format), "src")
    gradient = call.shape("diff_dst")
    new = known_dims_of(call, None if gradient is None else spatial(gradient, data_format), "diff_dst")
    result = channels_first(diff_dst, data_format, rank)
    for axis, (before, after) in enumerate(zip(old, new, strict=True), 2):
        # A product with the matrix along the last axis, with which the axis changes places.
        turn = [*range(rank)]
        turn[axis], turn[-1] = turn[-1], turn[axis]
        result = result.transpose(turn).op("MatMul", body.constant(weights_along(call, before, after)))
        result = result.transpose(turn)
    return channels_back(result, data_format, rank)
