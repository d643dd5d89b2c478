"""Computes the host ops that work element by element, and the reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ...opset.ops.reduction import reduced_axes
from ...opset.schema import Call
from . import special

Array = NDArray[Any]
# Types that numpy computes in through another one.
WIDE = {np.dtype(ml_dtypes.bfloat16): np.dtype(np.float32), np.dtype(np.float16): np.dtype(np.float32)}


def _unary(compute: Callable[[Array], Array]) -> Callable[[Call, Array], Array]:
    """An op on one array, in f32 for the 16-bit floats. Its attribute ``compute`` is what computes wider numbers."""

    def function(call: Call, src: Array) -> Array:
        return np.asarray(compute(src.astype(WIDE.get(src.dtype, src.dtype), copy=False))).astype(src.dtype, copy=False)

    function.compute = compute  # type: ignore[attr-defined]
    return function


def _binary(compute: Callable[[Array, Array], Array]) -> Callable[[Call, Array, Array], Array]:
    """An op on two arrays, in f32 for the 16-bit floats."""

    def function(call: Call, first: Array, second: Array) -> Array:
        wide = WIDE.get(first.dtype, first.dtype)
        result = compute(first.astype(wide, copy=False), second.astype(wide, copy=False))
        return np.asarray(result).astype(first.dtype, copy=False)

    return function


def _comparison(compute: Callable[[Array, Array], Array]) -> Callable[[Call, Array, Array], Array]:
    def function(call: Call, first: Array, second: Array) -> Array:
        return compute(first, second)

    return function


def _sigmoid(src: Array) -> Array:
    small = np.exp(-np.abs(src))
    return (np.where(src >= 0, 1, small) / (1 + small)).astype(src.dtype, copy=False)


def _quotient(first: Array, second: Array) -> Array:
    if first.dtype.kind in "iu":
        # numpy rounds down; the quotient of integers is rounded towards 0.
        safe = np.where(second == 0, np.ones_like(second), second)
        quotient, cut = first // safe, ((first < 0) != (safe < 0)) & (np.remainder(first, safe) != 0)
        return (quotient + cut).astype(first.dtype)
    return np.true_divide(first, second)


abs_ = _unary(np.abs)
negative = _unary(np.negative)
sign = _unary(np.sign)
acos = _unary(np.arccos)
acosh = _unary(np.arccosh)
asin = _unary(np.arcsin)
asinh = _unary(np.arcsinh)
atan = _unary(np.arctan)
atanh = _unary(np.arctanh)
ceil = _unary(np.ceil)
cos = _unary(np.cos)
cosh = _unary(np.cosh)
erf = _unary(special.erf)
exp = _unary(np.exp)
floor = _unary(np.floor)
log = _unary(np.log)
round_ = _unary(np.rint)
sigmoid = _unary(_sigmoid)
sin = _unary(np.sin)
sinh = _unary(np.sinh)
sqrt = _unary(np.sqrt)
tan = _unary(np.tan)
tanh = _unary(np.tanh)
bitwise_not = _unary(np.invert)
not_ = _unary(np.logical_not)

add = _binary(np.add)
subtract = _binary(np.subtract)
multiply = _binary(np.multiply)
divide = _binary(_quotient)
maximum = _binary(np.maximum)
minimum = _binary(np.minimum)
bitwise_and = _binary(np.bitwise_and)
bitwise_or = _binary(np.bitwise_or)
bitwise_xor = _binary(np.bitwise_xor)
shift_left = _binary(np.left_shift)
shift_right = _binary(np.right_shift)
and_ = _binary(np.logical_and)
or_ = _binary(np.logical_or)
xor = _binary(np.logical_xor)

equal = _comparison(np.equal)
greater = _comparison(np.greater)
greater_equal = _comparison(np.greater_equal)
less = _comparison(np.less)
less_equal = _comparison(np.less_equal)


def mod(call: Call, first: Array, second: Array) -> Array:
    """The remainder of a division."""
    return _binary(np.fmod if call.flag("truncate") else np.mod)(call, first, second)


def pow_(call: Call, first: Array, second: Array) -> Array:
    """The power, in the data type of the base."""
    wide = np.float64 if first.dtype.kind in "iu" and second.dtype.kind not in "iu" else first.dtype
    wide = WIDE.get(np.dtype(wide), np.dtype(wide))
    exponent = second if second.dtype.kind in "iu" else second.astype(WIDE.get(second.dtype, second.dtype))
    if first.dtype.kind in "iu" and second.dtype.kind == "i" and (second < 0).any():
        wide = np.dtype(np.float64)
    return np.asarray(np.power(first.astype(wide), exponent)).astype(first.dtype)


def is_nan(call: Call, src: Array) -> Array:
    """Whether an element is not a number."""
    return np.isnan(src)


def replace_nan(call: Call, src: Array, value: Array) -> Array:
    """src with the value in the place of elements that are not numbers."""
    return np.where(np.isnan(src), value, src).astype(src.dtype)


def is_inf(call: Call, src: Array) -> Array:
    """Whether an element is infinite."""
    infinite = np.isinf(src)
    negative_, positive = call.flag("detect_negative"), call.flag("detect_positive")
    return infinite & ((negative_ & (src < 0)) | (positive & (src > 0)))


def where(call: Call, condition: Array, first: Array, second: Array) -> Array:
    """The elements of the first array where the condition is True, else of the second."""
    return np.where(condition, first, second)


def cast(call: Call, src: Array) -> Array:
    """The array in the data type of the output."""
    wanted = call.output_type(0)
    assert wanted is not None
    dtype = wanted.numpy
    if src.dtype == dtype:
        return src
    if wanted.value.startswith(("f8", "float8")) and call.flag("saturate"):
        most = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
        wide = src.astype(np.float32)
        # An infinity is clipped too, but NaN stays.
        return np.clip(wide, -most, most).astype(dtype)
    if src.dtype.kind not in "iufb" and dtype.kind in "iub":
        return src.astype(np.float32).astype(dtype)
    return src.astype(dtype)


def _reduction(compute: Callable[..., Any]) -> Callable[..., Array]:
    def function(call: Call, src: Array, axes: Array | None = None) -> Array:
        along, keep = reduced_axes(call), call.flag("keep_dims")
        wide = src.astype(WIDE.get(src.dtype, src.dtype), copy=False)
        return np.asarray(compute(wide, axis=along, keepdims=keep)).astype(src.dtype, copy=False)

    return function


def _extreme(of: np.ufunc, lowest: bool) -> Callable[..., Any]:
    """The largest or smallest element; of none, the number that every other one exceeds."""

    def function(src: Array, axis: tuple[int, ...], keepdims: bool) -> Any:
        kind = src.dtype.kind
        limits = np.iinfo(src.dtype) if kind in "iu" else None
        start = (limits.min if lowest else limits.max) if limits else (-np.inf if lowest else np.inf)
        start = not lowest if kind == "b" else start
        return of.reduce(src, axis=axis, keepdims=keepdims, initial=start)

    return function


reduce_sum = _reduction(np.sum)
reduce_mean = _reduction(np.mean)
reduce_prod = _reduction(np.prod)
reduce_max = _reduction(_extreme(np.maximum, lowest=True))
reduce_min = _reduction(_extreme(np.minimum, lowest=False))


def mat_mul(call: Call, src: Array, weights: Array, bias: Array | None = None) -> Array:
    """The matrix product."""
    wide = WIDE.get(src.dtype, src.dtype)
    first, second = src.astype(wide, copy=False), weights.astype(wide, copy=False)
    if call.flag("transpose_a") and first.ndim > 1:
        first = first.swapaxes(-1, -2)
    if call.flag("transpose_b") and second.ndim > 1:
        second = second.swapaxes(-1, -2)
    product = np.matmul(first, second)
    return np.asarray(product if bias is None else product + bias.astype(wide)).astype(src.dtype)
