"""Computes the ops of the convolution category in numpy.

Three functions compute all six ops: a Convolution and its two gradients, with activations (N, C, X) and weights
(O, I / groups, X). A ConvTranspose is the gradient, with respect to the data, of a Convolution whose O axis is the I
axis of the ConvTranspose.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from types import EllipsisType

import numpy as np
from numpy.typing import NDArray

from ..opset.convolution_geometry import ConvolutionGeometry, convolution_geometry
from ..opset.schema import Call
from ..opset.shapes import known_dims
from ..opset.window import given_shape, spatial
from .binary import _along_channels
from .windows import meetings

Floats = NDArray[np.float64]
Place = tuple[EllipsisType | slice | int, ...]


def _channels_first(array: Floats, data_format: str) -> Floats:
    return array if data_format == "NCX" else np.moveaxis(array, -1, 1)


def _channels_back(array: Floats, data_format: str) -> Floats:
    return array if data_format == "NCX" else np.moveaxis(array, 1, -1)


def _spatial_last(weights: Floats, weights_format: str) -> Floats:
    """Weights with the spatial axes last: XIO becomes OIX, and XOI becomes IOX; other formats stay as they are."""
    if not weights_format.startswith("X"):
        return weights
    return np.moveaxis(weights, (-1, -2), (0, 1))


def _spatial_back(weights: Floats, weights_format: str) -> Floats:
    if not weights_format.startswith("X"):
        return weights
    return np.moveaxis(weights, (0, 1), (-1, -2))


def _known(call: Call) -> ConvolutionGeometry:
    found = convolution_geometry(call)
    assert found is not None
    return found


def _meetings(
    found: ConvolutionGeometry, size: tuple[int, ...], kernel: tuple[int, ...], counts: tuple[int, ...]
) -> Iterator[tuple[Place, Place, Place]]:
    """For each kernel element that overlaps the wide tensor: its index, the windows, and the positions in the tensor.

    The three results index the spatial axes of the weights, of the narrow tensor and of the wide tensor.
    """
    assert found.pads_begin is not None
    axes = zip(kernel, found.dilations, counts, found.strides, found.pads_begin, size, strict=True)
    for taps in product(*(meetings(*axis) for axis in axes)):
        element, windows, met = zip(*taps, strict=True)
        yield (..., *element), (..., *windows), (..., *met)


def _grouped(array: Floats, groups: int, axis: int) -> Floats:
    return array.reshape(*array.shape[:axis], groups, array.shape[axis] // groups, *array.shape[axis + 1 :])


def forward(found: ConvolutionGeometry, wide: Floats, weights: Floats, counts: tuple[int, ...]) -> Floats:
    """The narrow tensor (N, O, X) with ``counts`` window positions along each axis."""
    source, filters = _grouped(wide, found.groups, 1), _grouped(weights, found.groups, 0)
    result = np.zeros((wide.shape[0], found.groups, weights.shape[0] // found.groups, *counts))
    for element, windows, met in _meetings(found, wide.shape[2:], weights.shape[2:], counts):
        result[windows] += np.einsum("ngi...,goi->ngo...", source[met], filters[element], optimize=True)
    return result.reshape(wide.shape[0], weights.shape[0], *counts)


def backward_data(found: ConvolutionGeometry, narrow: Floats, weights: Floats, size: tuple[int, ...]) -> Floats:
    """The gradient with respect to the wide tensor (N, I, X), with ``size`` elements along each axis."""
    gradient, filters = _grouped(narrow, found.groups, 1), _grouped(weights, found.groups, 0)
    result = np.zeros((narrow.shape[0], found.groups, weights.shape[1], *size))
    for element, windows, met in _meetings(found, size, weights.shape[2:], narrow.shape[2:]):
        result[met] += np.einsum("ngo...,goi->ngi...", gradient[windows], filters[element], optimize=True)
    return result.reshape(narrow.shape[0], found.groups * weights.shape[1], *size)


def backward_weights(found: ConvolutionGeometry, wide: Floats, narrow: Floats, kernel: tuple[int, ...]) -> Floats:
    """The gradient with respect to the weights (O, I / groups, X)."""
    source, gradient = _grouped(wide, found.groups, 1), _grouped(narrow, found.groups, 1)
    result = np.zeros((found.groups, gradient.shape[2], source.shape[2], *kernel))
    for element, windows, met in _meetings(found, wide.shape[2:], kernel, narrow.shape[2:]):
        rows, columns = (
            part.reshape(*part.shape[:3], prod(part.shape[3:])) for part in (source[met], gradient[windows])
        )
        result[element] = np.einsum("ngip,ngop->goi", rows, columns, optimize=True)
    return result.reshape(narrow.shape[1], source.shape[2], *kernel)


def _sizes(dims: tuple[int | None, ...]) -> tuple[int, ...]:
    assert all(dim is not None for dim in dims)
    return known_dims(dims)


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
