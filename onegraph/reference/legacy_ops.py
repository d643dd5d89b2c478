"""Computes in numpy the ops of legacy-1 that later editions lack."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError
from ..opset.editions.legacy_ops import reshaped
from ..opset.schema import Call
from .elementwise import _erf

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Truths = NDArray[np.bool_]


def equal(call: Call, input_1: Floats, input_2: Floats) -> Truths:
    return np.equal(input_1, input_2)


def not_equal(call: Call, input_1: Floats, input_2: Floats) -> Truths:
    return np.not_equal(input_1, input_2)


def greater(call: Call, input_1: Floats, input_2: Floats) -> Truths:
    return np.greater(input_1, input_2)


def less(call: Call, input_1: Floats, input_2: Floats) -> Truths:
    return np.less(input_1, input_2)


def less_equal(call: Call, input_1: Floats, input_2: Floats) -> Truths:
    return np.less_equal(input_1, input_2)


def logical_and(call: Call, input_1: Truths, input_2: Truths) -> Truths:
    return np.logical_and(input_1, input_2)


def logical_or(call: Call, input_1: Truths, input_2: Truths) -> Truths:
    return np.logical_or(input_1, input_2)


def logical_xor(call: Call, input_1: Truths, input_2: Truths) -> Truths:
    return np.logical_xor(input_1, input_2)


def logical_not(call: Call, source: Truths) -> Truths:
    return np.logical_not(source)


def erf(call: Call, source: Floats) -> Floats:
    return _erf(source)


def negative(call: Call, source: Floats) -> Floats:
    return -source


def rsqrt(call: Call, source: Floats) -> Floats:
    return 1 / np.sqrt(source)


def sign(call: Call, source: Floats) -> Floats:
    return np.sign(source)


def legacy_pow(call: Call, source: Floats, exponent: Floats) -> Floats:
    return np.power(source, exponent)


def pow_backprop(call: Call, source: Floats, delta: Floats, exponent: Floats) -> Floats:
    # For exponent 0 the slope is 0; at source 0 the formula would compute 0 * inf.
    slope = np.where(exponent == 0, 0, exponent * np.power(source, exponent - 1))
    return _summed_to(source.shape, delta * slope)


def pow_backprop_exponent(call: Call, source: Floats, delta: Floats, result: Floats, exponent: Floats) -> Floats:
    # At source 0 take the limit of x ** e * ln(x), which is 0; the formula would compute 0 * -inf.
    slope = np.where((source == 0) & (exponent >= 0), 0, result * np.log(source))
    return _summed_to(exponent.shape, delta * slope)


def _summed_to(shape: tuple[int, ...], array: Floats) -> Floats:
    """The sum of ``array`` over the axes along which a tensor of ``shape`` was broadcast."""
    added = array.ndim - len(shape)
    axes = tuple(axis + added for axis, dim in enumerate(shape) if dim == 1)
    return array.sum(axis=(*range(added), *axes)).reshape(shape)


def dynamic_reshape(call: Call, source: Floats, shape: Integers) -> Floats:
    _check_contents(call)
    target = reshaped(call)[0]
    assert target is not None
    return source.reshape([-1 if dim is None else dim for dim in target])


def dynamic_transpose(call: Call, source: Floats, order: Integers) -> Floats:
    _check_contents(call)
    return source.transpose([int(axis) for axis in order] or None)


def index(call: Call, source: Floats, indices: Integers) -> Floats:
    _check_contents(call)
    return source[indices]


def _check_contents(call: Call) -> None:
    """Run the rules of the op again, because the contents of its inputs are known now.

    Raises:
        ArgumentError: the contents do not fit the input.
    """
    for rules in (call.schema.rules, call.schema.shape_rules):
        findings = [finding for rule in rules for finding in rule(call)]
        if findings:
            first = findings[0]
            raise ArgumentError(f"{call.schema.kind}: {first.where}: {first.given}; expected {first.expected}")
