"""Moves ops to where their tensors are smaller: before a Concat, or before an image is enlarged."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir.op import Op
from ...opset.dtypes import DataType
from ...opset.shapes import known_dims
from ..emitter import Array, Emitter, Value, integers
from .table import again, contents, made, operand_of, rewrites

F32 = DataType.f32
# A Concat takes longer than another sum if it has so many times as many channels as the sum.
SMALLER = 3


@rewrites("MaxPool")
def pool_of_parts(emit: Emitter, op: Op) -> Value | None:
    """Pool the tensors of a Concat of channels, because the Concat of the results is smaller."""
    concat, strides = made(emit, op.inputs[0], "Concat"), integers(op, "strides")
    if concat is None or op.attrs.get("data_format", "NXC") != "NXC" or prod(strides) == 1 or len(concat.inputs) > 2:
        return None
    if int(str(concat.attrs["axis"])) % (len(strides) + 2) != len(strides) + 1:
        return None
    return again(emit, concat, [again(emit, op, [part]) for part in concat.inputs])


def _pointwise_weights(op: Op) -> Array | None:
    """The f32 weights of a Convolution of channels-last data that are known and look at one place; else None."""
    weights = contents(op.inputs[1])
    if weights is None or operand_of(op).dtype is not F32:
        return None
    around = weights.ndim - 2
    if (
        op.attrs.get("weights_format") != "OIX"
        or op.attrs.get("data_format", "NXC") != "NXC"
        or prod(weights.shape[2:]) != 1
    ):
        return None
    plain = {"strides": 1, "pads_begin": 0, "pads_end": 0}
    if op.attrs.get("groups", 1) != 1 or any(
        integers(op, name) != (default,) * around for name, default in plain.items()
    ):
        return None
    return weights


@rewrites("Convolution")
def sum_over_parts(emit: Emitter, op: Op) -> Value | None:
    """A convolution of two tensors side by side as the sum of two, if its result is much smaller than a Concat."""
    concat, weights = made(emit, op.inputs[0], "Concat"), _pointwise_weights(op)
    if concat is None or weights is None or len(concat.inputs) != 2:
        return None
    first, second = concat.inputs
    last, channels, count = weights.ndim - 1, weights.shape[1], sum(known_dims(operand_of(concat).shape)[-1:])
    if int(str(concat.attrs["axis"])) % (last + 1) != last or SMALLER * weights.shape[0] > channels or not count:
        return None
    left, right = (np.ascontiguousarray(part) for part in (weights[:, :count], weights[:, count:]))
    first_product, second_product = again(emit, op, [first, left]), again(emit, op, [second, right, *op.inputs[2:]])
    return emit.op("Add", [second_product, first_product])


@rewrites("Convolution")
def before_upsampling(emit: Emitter, op: Op) -> Value | None:
    """Compute a Convolution that looks at one place before its src is enlarged by repeating elements."""
    enlarged = made(emit, op.inputs[0], "Interpolate")
    if enlarged is None or _pointwise_weights(op) is None:
        return None
    src, large, dst = (known_dims(one.shape) for one in (operand_of(enlarged), enlarged.outputs[0], op.outputs[0]))
    if (
        enlarged.attrs.get("mode") != "nearest"
        or enlarged.attrs.get("data_format", "NXC") != "NXC"
        or len(enlarged.inputs) > 1
    ):
        return None
    if not 0 < prod(src[1:-1]) < prod(large[1:-1]) or dst[-1] > sum(src[-1:]):
        return None
    return again(emit, enlarged, [again(emit, op, [enlarged.inputs[0], *op.inputs[1:]])])
