"""Computes the weights and the bias of a convolution that takes in the normalization of its result."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from ..arrays.ndarrays import aligned_empty
from ..ir.op import Array
from ..opset.dtypes import DataType
from .rewrites.precision import rounded


def normalized(constants: Sequence[Array], axis: int, epsilon: float, dtype: DataType) -> list[Array]:
    """The weights and the bias of a convolution with a normalization; nothing if a number is out of range.

    Args:
        constants: the weights, the bias if there is one, and the vectors of the normalization.
        axis: that of the output channels in the weights.
        epsilon: attribute of the normalization.
        dtype: data type of the weights and the bias.
    """
    weights, *rest = (np.asarray(array, np.float32) for array in constants)
    with np.errstate(all="ignore"):
        bias = rest[0] if len(rest) > 4 else np.zeros_like(rest[-1])
        gamma, beta, mean, variance = (array.astype(np.float64) for array in rest[-4:])
        factor = gamma / np.sqrt(variance + epsilon)
        shift = rounded(beta + (bias - mean) * factor, dtype)
        changed = scaled(weights, factor, axis, dtype)
    return [] if changed is None or not np.isfinite(shift).all() else [changed, shift]


def scaled(weights: Array, factor: Array, axis: int, dtype: DataType) -> Array | None:
    """The f32 weights times one factor for each output channel; None if ``dtype`` has not the range of the products.

    The products are rounded once. Weights of a channel that are all smaller than normal numbers would lose their bits.
    """
    others = tuple([other for other in range(weights.ndim) if other != axis])
    largest = np.maximum(weights.max(others), -weights.min(others)) * np.abs(factor)
    limits = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    if not np.all((largest <= float(limits.max)) & ((largest == 0) | (largest >= float(limits.smallest_normal)))):
        return None
    products = aligned_empty(weights.shape, dtype.numpy)
    shape = [1] * weights.ndim
    shape[axis] = -1
    # numpy casts small pieces, so that large weights have no copy in f64.
    np.multiply(weights, factor.reshape(shape), out=products, dtype=np.float64, casting="unsafe")
    return products
