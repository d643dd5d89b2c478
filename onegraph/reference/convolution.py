"""The convolution category in numpy.

Three functions in one canonical form, activations (N, C, X) and weights (O, I / groups, X), compute all six ops: a
Convolution and its two gradients. A ConvTranspose is the gradient by data of the Convolution whose O it calls I.
"""

from __future__ import annotations

from itertools import product
from math import prod
from types import EllipsisType

import numpy as np
from numpy.typing import NDArray

from ..spec.convolution_geometry import Geometry, geometry
from ..spec.schema import Call
from ..spec.window import given_shape, spatial
from .binary import _along_channels

Floats = NDArray[np.float64]
Place = tuple[EllipsisType | slice | int, ...]


def _channels_first(array: Floats, data_format: str) -> Floats:
    return array if data_format == "NCX" else np.moveaxis(array, -1, 1)


def _channels_back(array: Floats, data_format: str) -> Floats:
    return array if data_format == "NCX" else np.moveaxis(array, 1, -1)


def _spatial_last(weights: Floats, weights_format: str) -> Floats:
    """XIO or XOI as (last, last but one, X), the order of OIX and IOX; the others as they are."""
    if not weights_format.startswith("X"):
        return weights
    return np.moveaxis(weights, (-1, -2), (0, 1))


def _spatial_back(weights: Floats, weights_format: str) -> Floats:
    if not weights_format.startswith("X"):
        return weights
    return np.moveaxis(weights, (0, 1), (-1, -2))


def _known(call: Call) -> Geometry:
    found = geometry(call)
    assert found is not None
    return found


def _positions(found: Geometry, kernel: tuple[int, ...], counts: tuple[int, ...]) -> list[Place]:
    """For each kernel element, where it meets the padded wide side, for ``counts`` window positions an axis."""
    steps = list(zip(found.dilations, found.strides, counts, strict=True))
    return [
        (
            ...,
            *(
                slice(k * dilation, k * dilation + stride * (count - 1) + 1, stride)
                for k, (dilation, stride, count) in zip(element, steps, strict=True)
            ),
        )
        for element in product(*map(range, kernel))
    ]


def _at(element: tuple[int, ...]) -> Place:
    return (..., *element)


def _padded(found: Geometry, size: tuple[int, ...], kernel: tuple[int, ...], counts: tuple[int, ...]) -> list[int]:
    """Size of the wide side with its padding, and with what output_padding adds beyond the last window."""
    assert found.pads_begin is not None
    reach = [
        (k - 1) * dilation + 1 + stride * (count - 1)
        for k, dilation, stride, count in zip(kernel, found.dilations, found.strides, counts, strict=True)
    ]
    return [max(n + begin, r) for n, begin, r in zip(size, found.pads_begin, reach, strict=True)]


def _blank(shape: tuple[int, ...], fill: float = 0.0) -> Floats:
    """A padded source that holds ``fill`` everywhere; MemoryError too where numpy has no array of that size at all."""
    if prod(shape) >= 2**60:
        raise MemoryError(f"an array of shape {shape}")
    return np.full(shape, fill) if fill else np.zeros(shape)


def _inner(found: Geometry, size: tuple[int, ...]) -> Place:
    """Where the wide side itself stands in its padded form."""
    return (..., *(slice(begin, begin + n) for begin, n in zip(found.pads_begin or (), size, strict=True)))


def _embed(found: Geometry, wide: Floats, kernel: tuple[int, ...], counts: tuple[int, ...]) -> Floats:
    size = wide.shape[2:]
    padded = _blank((*wide.shape[:2], *_padded(found, size, kernel, counts)))
    padded[_inner(found, size)] = wide
    return padded


def _grouped(array: Floats, groups: int, axis: int) -> Floats:
    return array.reshape(*array.shape[:axis], groups, array.shape[axis] // groups, *array.shape[axis + 1 :])


def forward(found: Geometry, wide: Floats, weights: Floats, counts: tuple[int, ...]) -> Floats:
    """The narrow side (N, O, X): ``counts`` window positions an axis."""
    kernel = weights.shape[2:]
    source = _grouped(_embed(found, wide, kernel, counts), found.groups, 1)
    filters = _grouped(weights, found.groups, 0)
    result = np.zeros((wide.shape[0], found.groups, weights.shape[0] // found.groups, *counts))
    for element, place in zip(np.ndindex(*kernel), _positions(found, kernel, counts), strict=True):
        result += np.einsum("ngi...,goi->ngo...", source[place], filters[_at(element)], optimize=True)
    return result.reshape(wide.shape[0], weights.shape[0], *counts)


def backward_data(found: Geometry, narrow: Floats, weights: Floats, size: tuple[int, ...]) -> Floats:
    """The gradient by the wide side (N, I, X), ``size`` elements an axis."""
    kernel, counts = weights.shape[2:], narrow.shape[2:]
    filters = _grouped(weights, found.groups, 0)
    gradient = _grouped(narrow, found.groups, 1)
    padded = _blank((narrow.shape[0], found.groups, weights.shape[1], *_padded(found, size, kernel, counts)))
    for element, place in zip(np.ndindex(*kernel), _positions(found, kernel, counts), strict=True):
        padded[place] += np.einsum("ngo...,goi->ngi...", gradient, filters[_at(element)], optimize=True)
    inner = padded[_inner(found, size)]
    return inner.reshape(narrow.shape[0], found.groups * weights.shape[1], *size)


def backward_weights(found: Geometry, wide: Floats, narrow: Floats, kernel: tuple[int, ...]) -> Floats:
    """The gradient by the weights (O, I / groups, X)."""
    counts = narrow.shape[2:]
    source = _grouped(_embed(found, wide, kernel, counts), found.groups, 1)
    gradient = _grouped(narrow, found.groups, 1)
    n, groups, out = gradient.shape[:3]
    columns = gradient.reshape(n, groups, out, prod(counts))
    result = np.zeros((groups, out, source.shape[2], *kernel))
    for element, place in zip(np.ndindex(*kernel), _positions(found, kernel, counts), strict=True):
        window = source[place]
        rows = window.reshape(*window.shape[:3], prod(counts))
        result[_at(element)] = np.einsum("ngip,ngop->goi", rows, columns, optimize=True)
    return result.reshape(groups * out, source.shape[2], *kernel)


def _sizes(dims: tuple[int | None, ...]) -> tuple[int, ...]:
    assert all(dim is not None for dim in dims)
    return tuple(dim or 0 for dim in dims)


def convolution(call: Call, src: Floats, weights: Floats, bias: Floats | None = None) -> Floats:
    found = _known(call)
    source = _channels_first(src, found.data_format)
    dst = forward(found, source, _spatial_last(weights, found.weights_format), _sizes(found.forward()))
    dst = _channels_back(dst, found.data_format)
    return dst if bias is None else dst + _along_channels(call, bias, dst.ndim)


def convolution_backward_data(call: Call, diff_dst: Floats, weights: Floats, dst_shape: object = None) -> Floats:
    found = _known(call)
    size = _sizes(spatial(given_shape(call), found.data_format))
    gradient = _channels_first(diff_dst, found.data_format)
    result = backward_data(found, gradient, _spatial_last(weights, found.weights_format), size)
    return _channels_back(result, found.data_format)


def convolution_backward_weights(call: Call, src: Floats, diff_dst: Floats, weights_shape: object = None) -> Floats:
    found = _known(call)
    source, gradient = (_channels_first(array, found.data_format) for array in (src, diff_dst))
    return _spatial_back(backward_weights(found, source, gradient, _sizes(found.kernel or ())), found.weights_format)


def conv_transpose(call: Call, src: Floats, weights: Floats, bias: Floats | None = None) -> Floats:
    found = _known(call)
    source = _channels_first(src, found.data_format)
    dst = backward_data(found, source, _spatial_last(weights, found.weights_format), _sizes(found.backward()))
    dst = _channels_back(dst, found.data_format)
    return dst if bias is None else dst + _along_channels(call, bias, dst.ndim)


def conv_transpose_backward_data(call: Call, diff_dst: Floats, weights: Floats) -> Floats:
    found = _known(call)
    gradient = _channels_first(diff_dst, found.data_format)
    result = forward(found, gradient, _spatial_last(weights, found.weights_format), _sizes(found.forward()))
    return _channels_back(result, found.data_format)


def conv_transpose_backward_weights(call: Call, src: Floats, diff_dst: Floats, weights_shape: object = None) -> Floats:
    found = _known(call)
    source, gradient = (_channels_first(array, found.data_format) for array in (src, diff_dst))
    return _spatial_back(backward_weights(found, gradient, source, _sizes(found.kernel or ())), found.weights_format)
