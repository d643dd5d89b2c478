"""Moves ops to where their tensors are smaller: before a Concat, or before an image is enlarged."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir.op import Op
from ...opset.dtypes import DataType
from ..emitter import Array, Emitter, Value, integers
from .table import again, rewrites

F32 = DataType.f32
# A Concat takes longer than another sum if it has so many times as many channels as the sum.
SMALLER = 3


@rewrites("MaxPool")
def pool_of_parts(emit: Emitter, op: Op) -> Value | None:
    """Pool the tensors of a Concat of channels, because the Concat of the results is smaller."""
    concat = emit.maker(op.inputs[0])
    src = op.inputs[0]
    if concat is None or concat.kind != "Concat" or src is None or src.shape is None or len(op.outputs) > 1:
        return None
    if op.attrs.get("data_format") != "NXC" or int(str(concat.attrs["axis"])) % len(src.shape) != len(src.shape) - 1:
        return None
    if prod(integers(op, "strides")) == 1 or len(concat.inputs) > 2:
        return None
    return again(emit, concat, [again(emit, op, [part]) for part in concat.inputs])


def _pointwise_weights(op: Op) -> Array | None:
    """The f32 weights of a Convolution of channels-last data that are known and look at one place; else None."""
    src, weights = op.inputs[0], op.inputs[1]
    if src is None or weights is None or src.dtype is not F32 or weights.value is None or src.shape is None:
        return None
    around = len(src.shape) - 2
    if (
        op.attrs.get("weights_format") != "OIX"
        or op.attrs.get("data_format") != "NXC"
        or prod(weights.value.shape[2:]) != 1
    ):
        return None
    plain = {"strides": 1, "pads_begin": 0, "pads_end": 0}
    if op.attrs.get("groups", 1) != 1 or any(
        integers(op, name) != (default,) * around for name, default in plain.items()
    ):
        return None
    return weights.value


@rewrites("Convolution")
def sum_over_parts(emit: Emitter, op: Op) -> Value | None:
    """A convolution of two tensors side by side as the sum of two, if its result is much smaller than a Concat."""
    concat, weights = emit.maker(op.inputs[0]), _pointwise_weights(op)
    if concat is None or weights is None or concat.kind != "Concat" or len(concat.inputs) != 2:
        return None
    first, second = concat.inputs
    if first is None or second is None or first.shape is None or first.shape[-1] is None:
        return None
    last, count, channels = len(first.shape) - 1, first.shape[-1], weights.shape[1]
    if int(str(concat.attrs["axis"])) % (last + 1) != last or SMALLER * weights.shape[0] > channels:
        return None
    left, right = (np.ascontiguousarray(part) for part in (weights[:, :count], weights[:, count:]))
    first_product, second_product = again(emit, op, [first, left]), again(emit, op, [second, right, *op.inputs[2:]])
    return emit.op("Add", [second_product, first_product])


@rewrites("Convolution")
def before_upsampling(emit: Emitter, op: Op) -> Value | None:
    """Compute a Convolution that looks at one place before its src is enlarged by repeating elements."""
    enlarged, dst = emit.maker(op.inputs[0]), op.outputs[0]
    if enlarged is None or enlarged.kind != "Interpolate" or _pointwise_weights(op) is None:
        return None
    src, large = enlarged.inputs[0], enlarged.outputs[0]
    if src is None or src.shape is None or large.shape is None or dst.shape is None:
        return None
    if (
        enlarged.attrs.get("mode") != "nearest"
        or enlarged.attrs.get("data_format") != "NXC"
        or len(enlarged.inputs) > 1
    ):
        return None
    counts = [prod(dim or 0 for dim in shape[1:-1]) for shape in (src.shape, large.shape)]
    if counts[0] >= counts[1] or None in dst.shape or (dst.shape[-1] or 0) > (src.shape[-1] or 0):
        return None
    return again(emit, enlarged, [again(emit, op, [src, *op.inputs[1:]])])
