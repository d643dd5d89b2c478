"""Computes the ops of the elementwise category in numpy."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..opset.schema import Call

Floats = NDArray[np.float64]

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _sigmoid(x: Floats) -> Floats:
    # The exponent is never positive, so that exp does not overflow.
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def _softplus(x: Floats) -> Floats:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


# Tiny results are computed directly, not as the difference of 1 and a number near 1, which would lose all digits.


def _phi(x: Floats) -> Floats:
    return 0.5 * _erfc(-x / math.sqrt(2)) if x.size else x


def _phi_by_tanh(x: Floats) -> Floats:
    return _sigmoid(2 * _tanh_inner(x))


def _tanh_slope(x: Floats) -> Floats:
    return 4 * _sigmoid(2 * x) * _sigmoid(-2 * x)


def _tanh_inner(x: Floats) -> Floats:
    return math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)


def abs(call: Call, src: Floats) -> Floats:
    return np.abs(src)


def clamp(call: Call, src: Floats) -> Floats:
    return np.minimum(np.maximum(src, np.float32(call.f32("min"))), np.float32(call.f32("max")))


def elu(call: Call, src: Floats) -> Floats:
    return np.where(src > 0, src, call.f32("alpha") * np.expm1(np.minimum(src, 0)))


def exp(call: Call, src: Floats) -> Floats:
    return np.exp(src)


def gelu(call: Call, src: Floats) -> Floats:
    if call.string("mode") == "gelu_tanh":
        return src * _phi_by_tanh(src)
    return src * _phi(src)


def hard_sigmoid(call: Call, src: Floats) -> Floats:
    return np.clip(call.f32("alpha") * src + call.f32("beta"), 0, 1)


def hard_swish(call: Call, src: Floats) -> Floats:
    return src * np.clip(src + 3, 0, 6) / 6


def leaky_relu(call: Call, src: Floats) -> Floats:
    return np.where(src >= 0, src, call.f32("alpha") * src)


def log(call: Call, src: Floats) -> Floats:
    return np.log(src)


def mish(call: Call, src: Floats) -> Floats:
    return src * np.tanh(_softplus(src))


def pow(call: Call, src: Floats) -> Floats:
    return np.power(src, call.f32("beta"))


def relu(call: Call, src: Floats) -> Floats:
    return np.maximum(src, 0)


def reciprocal(call: Call, src: Floats) -> Floats:
    return 1 / src


def round(call: Call, src: Floats) -> Floats:
    return np.rint(src)


def sigmoid(call: Call, src: Floats) -> Floats:
    return _sigmoid(src)


def softplus(call: Call, src: Floats) -> Floats:
    beta = call.f32("beta")
    return _softplus(beta * src) / beta


def sqrt(call: Call, src: Floats) -> Floats:
    return np.sqrt(src)


def square(call: Call, src: Floats) -> Floats:
    return src * src


def tanh(call: Call, src: Floats) -> Floats:
    return np.tanh(src)


def abs_backward(call: Call, src: Floats, diff_dst: Floats) -> Floats:
    return diff_dst * np.sign(src)


def clamp_backward(call: Call, src: Floats, diff_dst: Floats) -> Floats:
    inside = (src > np.float32(call.f32("min"))) & (src < np.float32(call.f32("max")))
    return np.where(inside, diff_dst, 0)


def elu_backward(call: Call, src: Floats, diff_dst: Floats) -> Floats:
    alpha = call.f32("alpha")
    negative = src + alpha if call.flag("use_dst") else alpha * np.exp(np.minimum(src, 0))
    return diff_dst * np.where(src > 0, 1, negative)


def gelu_backward(call: Call, src: Floats, diff_dst: Floats) -> Floats:
    if call.string("mode") == "gelu_tanh":
        slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * src**2)
        return diff_dst * (_phi_by_tanh(src) + 0.5 * src * _tanh_slope(_tanh_inner(src)) * slope)
    density = np.exp(-0.5 * src * src) / math.sqrt(2 * math.pi)
    return diff_dst * (_phi(src) + src * density)


def hard_sigmoid_backward(call: Call, src: Floats, diff_dst: Floats) -> Floats:
    line = call.f32("alpha") * src + call.f32("beta")
    return np.where((line > 0) & (line < 1), call.f32("alpha") * diff_dst, 0)


def hard_swish_backward(call: Call, src: Floats, diff_dst: Floats) -> Floats:
    slope = np.where(src >= 3, 1, np.where(src <= -3, 0, (2 * src + 3) / 6))
    return diff_dst * slope


def mish_backward(call: Call, src: Floats, diff_dst: Floats) -> Floats:
    t = np.tanh(_softplus(src))
    return diff_dst * (t + src * (1 - t * t) * _sigmoid(src))


def relu_backward(call: Call, src: Floats, diff_dst: Floats) -> Floats:
    return np.where(src <= 0, 0, diff_dst)  # the formula says nothing of NaN, for which ReLU passes src on


def sigmoid_backward(call: Call, src: Floats, diff_dst: Floats) -> Floats:
    return diff_dst * (src * (1 - src) if call.flag("use_dst") else _sigmoid(src) * _sigmoid(-src))


def softplus_backward(call: Call, src: Floats, diff_dst: Floats) -> Floats:
    return diff_dst * _sigmoid(call.f32("beta") * src)


def sqrt_backward(call: Call, src: Floats, diff_dst: Floats) -> Floats:
    dst = src if call.flag("use_dst") else np.sqrt(src)
    return diff_dst / (2 * dst)


def tanh_backward(call: Call, src: Floats, diff_dst: Floats) -> Floats:
    return diff_dst * (1 - src * src if call.flag("use_dst") else _tanh_slope(src))
