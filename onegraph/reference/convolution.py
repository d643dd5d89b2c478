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
from ..opset.signature import Shape
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
    geometry = convolution_geometry(call)
    assert geometry is not None
    return geometry


def _meetings(
    geometry: ConvolutionGeometry, size: tuple[int, ...], kernel: tuple[int, ...], counts: tuple[int, ...]
) -> Iterator[tuple[Place, Place, Place]]:
    """For each kernel element that overlaps the wide tensor: its index, the windows, and the positions in the tensor.

    The three results index the spatial axes of the weights, of the narrow tensor and of the wide tensor.
    """
    assert geometry.pads_begin is not None
    axes = zip(kernel, geometry.dilations, counts, geometry.strides, geometry.pads_begin, size, strict=True)
    for taps in product(*(meetings(*axis) for axis in axes)):
        element, windows, met = zip(*taps, strict=True)
        yield (..., *element), (..., *windows), (..., *met)


def _grouped(array: Floats, groups: int, axis: int) -> Floats:
    return array.reshape(*array.shape[:axis], groups, array.shape[axis] // groups, *array.shape[axis + 1 :])


def forward(geometry: ConvolutionGeometry, wide: Floats, weights: Floats, counts: tuple[int, ...]) -> Floats:
    """The narrow tensor (N, O, X) with ``counts`` window positions along each axis."""
    source, filters = _grouped(wide, geometry.groups, 1), _grouped(weights, geometry.groups, 0)
    result = np.zeros((wide.shape[0], geometry.groups, weights.shape[0] // geometry.groups, *counts))
    for element, windows, met in _meetings(geometry, wide.shape[2:], weights.shape[2:], counts):
        result[windows] += np.einsum("ngi...,goi->ngo...", source[met], filters[element], optimize=True)
    return result.reshape(wide.shape[0], weights.shape[0], *counts)


def backward_data(geometry: ConvolutionGeometry, narrow: Floats, weights: Floats, size: tuple[int, ...]) -> Floats:
    """The gradient with respect to the wide tensor (N, I, X), with ``size`` elements along each axis."""
    gradient, filters = _grouped(narrow, geometry.groups, 1), _grouped(weights, geometry.groups, 0)
    result = np.zeros((narrow.shape[0], geometry.groups, weights.shape[1], *size))
    for element, windows, met in _meetings(geometry, size, weights.shape[2:], narrow.shape[2:]):
        result[met] += np.einsum("ngo...,goi->ngi...", gradient[windows], filters[element], optimize=True)
    return result.reshape(narrow.shape[0], geometry.groups * weights.shape[1], *size)


def backward_weights(geometry: ConvolutionGeometry, wide: Floats, narrow: Floats, kernel: tuple[int, ...]) -> Floats:
    """The gradient with respect to the weights (O, I / groups, X)."""
    source, gradient = _grouped(wide, geometry.groups, 1), _grouped(narrow, geometry.groups, 1)
    result = np.zeros((geometry.groups, gradient.shape[2], source.shape[2], *kernel))
    for element, windows, met in _meetings(geometry, wide.shape[2:], kernel, narrow.shape[2:]):
        rows, columns = (
            part.reshape(*part.shape[:3], prod(part.shape[3:])) for part in (source[met], gradient[windows])
        )
        result[element] = np.einsum("ngip,ngop->goi", rows, columns, optimize=True)
    return result.reshape(narrow.shape[1], source.shape[2], *kernel)


def _sizes(dims: Shape) -> tuple[int, ...]:
    assert dims is not None
    assert None not in dims
    return known_dims(dims)


def convolution(call: Call, src: Floats, weights: Floats, bias: Floats | None = None) -> Floats:
    geometry = _known(call)
    source = _channels_first(src, geometry.data_format)
    dst = forward(geometry, source, _spatial_last(weights, geometry.weights_format), _sizes(geometry.forward()))
    dst = _channels_back(dst, geometry.data_format)
    return dst if bias is None else dst + _along_channels(call, bias, dst.ndim)


def convolution_backward_data(call: Call, diff_dst: Floats, weights: Floats, dst_shape: object = None) -> Floats:
    geometry = _known(call)
    size = _sizes(spatial(given_shape(call), geometry.data_format))
    gradient = _channels_first(diff_dst, geometry.data_format)
    result = backward_data(geometry, gradient, _spatial_last(weights, geometry.weights_format), size)
    return _channels_back(result, geometry.data_format)


def convolution_backward_weights(call: Call, src: Floats, diff_dst: Floats, weights_shape: object = None) -> Floats:
    geometry = _known(call)
    source, gradient = (_channels_first(array, geometry.data_format) for array in (src, diff_dst))
    return _spatial_back(backward_weights(geometry, source, gradient, _sizes(geometry.kernel)), geometry.weights_format)


def conv_transpose(call: Call, src: Floats, weights: Floats, bias: Floats | None = None) -> Floats:
    geometry = _known(call)
    source = _channels_first(src, geometry.data_format)
    dst = backward_data(geometry, source, _spatial_last(weights, geometry.weights_format), _sizes(geometry.backward()))
    dst = _channels_back(dst, geometry.data_format)
    return dst if bias is None else dst + _along_channels(call, bias, dst.ndim)


def conv_transpose_backward_data(call: Call, diff_dst: Floats, weights: Floats) -> Floats:
    geometry = _known(call)
    gradient = _channels_first(diff_dst, geometry.data_format)
    result = forward(geometry, gradient, _spatial_last(weights, geometry.weights_format), _sizes(geometry.forward()))
    return _channels_back(result, geometry.data_format)


def conv_transpose_backward_weights(call: Call, src: Floats, diff_dst: Floats, weights_shape: object = None) -> Floats:
    geometry = _known(call)
    source, gradient = (_channels_first(array, geometry.data_format) for array in (src, diff_dst))
    return _spatial_back(backward_weights(geometry, gradient, source, _sizes(geometry.kernel)), geometry.weights_format)
