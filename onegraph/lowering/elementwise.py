"""Lowers ops that work element by element."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np

from .._util.open_sizes import is_open
from ..opset.shapes import broadcast, known
from .emitter import Array, Emitter, Value, dtype_of, is_known, shape_of
from .movement import NATIVE, scalar


def unary(emit: Emitter, kind: str, src: Value, attrs: Mapping[str, object] | None = None) -> Value:
    """An op on one tensor."""
    return emit.op(kind, [src], attrs)


def binary(emit: Emitter, kind: str, first: Value, second: Value) -> Value:
    """An op on two tensors of one data type, with broadcasting."""
    return emit.op(kind, [_narrowed(first, second), _narrowed(second, first)])


def _narrowed(value: Value, reference: Value) -> Value:
    """A known array that is one number everywhere as this number, if broadcasting with a tensor gives its shape."""
    if (
        isinstance(value, np.ndarray)
        and not is_known(reference)
        and _is_one_number(value)
        and _widens(value, reference)
    ):
        return np.array(value.flat[0])
    return value


def filled(value: float, like: Value) -> Value:
    """A number in the data type of a value."""
    return scalar(value, dtype_of(like))


def add(emit: Emitter, first: Value, second: Value) -> Value:
    """The sum; adding a known 0 changes nothing."""
    for summand, operand in ((first, second), (second, first)):
        if isinstance(summand, np.ndarray) and summand.ndim == 0 and not summand.any():
            return operand
    return binary(emit, "Add", first, second)


def multiply(emit: Emitter, first: Value, second: Value) -> Value:
    """The product; multiplying with a known 1 changes nothing."""
    for factor, operand in ((first, second), (second, first)):
        if isinstance(factor, np.ndarray) and _is_one_number(factor) and _widens(factor, operand):
            return (
                operand
                if factor.flat[0] == 1
                else binary(emit, "Multiply", operand, factor[(0,) * factor.ndim + (...,)])
            )
    return binary(emit, "Multiply", first, second)


def _is_one_number(array: Array) -> bool:
    """Whether an array is a scalar, or the broadcast view of one."""
    return array.ndim == 0 or (array.size > 0 and not any(array.strides))


def _widens(array: Array, operand: Value) -> bool:
    """Whether the shape of a value is not changed by broadcasting with an array."""
    shape = shape_of(operand)
    return array.ndim == 0 or (known(shape) and np.broadcast_shapes(array.shape, shape) == shape)


def clamp(emit: Emitter, src: Value, low: Value | None, high: Value | None) -> Value:
    """src between two numbers, either of which may be missing."""
    if dtype_of(src) in NATIVE and not is_known(src) and all(bound is None or is_known(bound) for bound in (low, high)):
        least, most = (None if bound is None else float(np.asarray(bound).ravel()[0]) for bound in (low, high))
        if least == 0 and most is None:
            return unary(emit, "ReLU", src)
        limits = {"min": -math.inf if least is None else least, "max": math.inf if most is None else most}
        if limits["min"] <= limits["max"]:
            return unary(emit, "Clamp", src, limits)
    if low is not None:
        src = binary(emit, "Maximum", src, low)
    return src if high is None else binary(emit, "Minimum", src, high)


def select(emit: Emitter, condition: Value, first: Value, second: Value) -> Value:
    """The elements of the first where the condition is True, else of the second."""
    if dtype_of(first) in NATIVE and not all(map(is_known, (condition, first, second))):
        shapes = [shape_of(operand) for operand in (first, second, condition)]
        # Select takes its shape from the two sources; a known one is widened to that of the condition.
        if all(shape is not None and None not in shape for shape in shapes):
            common: Any = reduce(broadcast, shapes)
            if broadcast(*shapes[:2]) != common and not is_open(common):
                first, second = (
                    np.broadcast_to(operand, common).copy() if isinstance(operand, np.ndarray) and turn else operand
                    for turn, operand in ((True, first), (not is_known(first), second))
                )
            if broadcast(first.shape, second.shape) == common:
                return emit.op("Select", [condition, first, second])
    return emit.op("Where", [condition, first, second])


def negative(emit: Emitter, src: Value) -> Value:
    """-src."""
    if dtype_of(src) in NATIVE and not is_known(src):
        return binary(emit, "Multiply", src, filled(-1, src))
    return unary(emit, "Negative", src)


def prelu(emit: Emitter, src: Value, slope: Value) -> Value:
    """src where it is above 0, else slope * src; the slope broadcasts to src.

    A convolution takes in a LeakyReLU.
    """
    if isinstance(slope, np.ndarray) and slope.size and np.isfinite(slope).all() and (slope == slope.flat[0]).all():
        return unary(emit, "LeakyReLU", src, {"alpha": float(slope.flat[0])})
    return emit.op("PReLU", [src, slope], {"data_format": "NXC", "per_channel_broadcast": False})


def swish(emit: Emitter, src: Value, alpha: float = 1.0) -> Value:
    """src * sigmoid(alpha * src); the library fuses it with alpha 1."""
    inner = src if alpha == 1 else multiply(emit, src, filled(alpha, src))
    return binary(emit, "Multiply", src, unary(emit, "Sigmoid", inner))


def selu(emit: Emitter, src: Value, alpha: float, gamma: float) -> Value:
    """gamma * elu(src)."""
    return multiply(emit, unary(emit, "Elu", src, {"alpha": alpha}), filled(gamma, src))


def celu(emit: Emitter, src: Value, alpha: float) -> Value:
    """alpha * elu(src / alpha), which is continuously differentiable."""
    inner = multiply(emit, src, filled(1 / alpha, src))
    return multiply(emit, unary(emit, "Elu", inner, {"alpha": 1.0}), filled(alpha, src))


def softsign(emit: Emitter, src: Value) -> Value:
    """src / (1 + |src|)."""
    return binary(emit, "Divide", src, add(emit, unary(emit, "Abs", src), filled(1, src)))


def thresholded_relu(emit: Emitter, src: Value, alpha: float) -> Value:
    """src where it is larger than alpha, else 0."""
    return select(emit, binary(emit, "Greater", src, filled(alpha, src)), src, filled(0, src))


def shrink(emit: Emitter, src: Value, lambd: float, bias: float) -> Value:
    """src moved towards 0 by bias where it is farther than lambd from 0, else 0."""
    above = select(
        emit, binary(emit, "Greater", src, filled(lambd, src)), add(emit, src, filled(-bias, src)), filled(0, src)
    )
    below = binary(emit, "Less", src, filled(-lambd, src))
    return select(emit, below, add(emit, src, filled(bias, src)), above)
