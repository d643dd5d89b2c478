"""Computes Fourier transforms and the weights of Mel spectrograms."""

from __future__ import annotations

from math import prod

import numpy as np

from ....lowering.emitter import Array, Value
from ....lowering.fourier import real_of_half, transformed
from ....lowering.movement import reshape
from ..node import Node, Unsettled, computes, in_f32


def _complex(values: Array) -> Array:
    """The numbers whose last axis has the real part, or the real and the imaginary one."""
    wide = values if values.dtype == np.float64 else values.astype(np.float32)
    return wide[..., 0] + 1j * wide[..., 1] if values.shape[-1] == 2 else wide[..., 0]


def _parts(values: Array, dtype: np.dtype[np.generic]) -> Array:
    return np.stack([values.real, values.imag], -1).astype(dtype)


MOST_FEW = 1 << 19  # products of numbers, up to which a product with a matrix takes less time than a transform


def _few_numbers(node: Node) -> Value:
    """The Fourier transform of few numbers: a product with a known matrix."""
    result: Value = in_f32(node, _as_product)
    return result


def _as_product(node: Node) -> Value:
    dims, half = node.whole_shape(), bool(node.attr("onesided", 0))
    length, axis = node.integers(1), (node.integers(2) or [-2])[0]
    if dims[-1] not in (1, 2) or not -len(dims) <= axis < len(dims) or axis % len(dims) == len(dims) - 1:
        raise Unsettled("numpy names the mistake")
    axis %= len(dims)
    is_real, is_inverse, size = dims[-1] == 1, bool(node.attr("inverse", 0)), dims[axis]
    count = 2 * (size - 1) if is_inverse and half else size
    is_other = bool(length and length[0] != count) or (half and is_real == is_inverse)
    if is_other or count < 1 or count * prod(dims) > MOST_FEW:
        raise Unsettled("numpy takes less time for many numbers, and knows all forms")
    if is_inverse and half:
        numbers = real_of_half(node.emit, node.value(0), axis, count, 1 / count)
        return reshape(node.emit, numbers, [*dims[:axis], count, *dims[axis + 1 : -1], 1])
    src = reshape(node.emit, node.value(0), [*dims[:-1]]) if is_real else node.value(0)
    sign, scale = (1, 1 / count) if is_inverse else (-1, 1.0)
    return transformed(node.emit, src, axis, sign, scale, is_real=is_real, half=half)


@computes("DFT", few=_few_numbers, shaped=True)
def dft(node: Node) -> Array:
    """The Fourier transform along an axis, or its inverse."""
    src, length, axis = node.array(0), node.integers(1), (node.integers(2) or [-2])[0]
    if src.shape[-1] not in (1, 2) or not -src.ndim <= axis < src.ndim or axis % src.ndim == src.ndim - 1:
        raise node.invalid(f"axis {axis} of shape {src.shape}", "an axis before the last one, which has 1 or 2 numbers")
    numbers, place = _complex(src), axis % src.ndim
    if node.attr("onesided", 0) and node.attr("inverse", 0):
        size = length[0] if length else 2 * (numbers.shape[place] - 1)
        return np.fft.irfft(numbers, size, place)[..., None].astype(src.dtype)
    size = length[0] if length else numbers.shape[place]
    if node.attr("inverse", 0):
        return _parts(np.fft.ifft(numbers, size, place), src.dtype)
    if node.attr("onesided", 0):
        if src.shape[-1] == 2:
            raise node.invalid("onesided=1 for complex numbers", "real numbers, or onesided=0")
        return _parts(np.fft.rfft(numbers, size, place), src.dtype)
    return _parts(np.fft.fft(numbers, size, place), src.dtype)


@computes("STFT", shaped=True)
def stft(node: Node) -> Array:
    """The Fourier transform of each frame of a signal."""
    src, step, window, length = node.array(0), int(node.array(1).reshape(-1)[0]), node.known(2), node.integers(3)
    size = length[0] if length else None if window is None else window.size
    if size is None or step < 1 or not 1 <= size <= src.shape[1]:
        raise node.invalid(f"frames of {size}, every {step}", "a window or a frame_length, and a frame_step")
    signal = _complex(src if src.ndim == 3 else src[..., None])
    weights = np.ones(size, signal.real.dtype)
    weights = weights if window is None else window.astype(weights.dtype)
    places = np.arange(0, signal.shape[1] - size + 1, step)[:, None] + np.arange(size)
    frames, half = signal[:, places] * weights, bool(node.attr("onesided", 1))
    if half and src.shape[-1] != 2:
        spectrum = np.fft.rfft(frames, size, -1)
    else:
        spectrum = np.fft.fft(frames, size, -1)[..., : size // 2 + 1 if half else size]
    return _parts(spectrum, src.dtype)


@computes("MelWeightMatrix", kept=True)
def mel_weights(node: Node) -> Array:
    """The weights that make a Mel spectrum of a spectrum: triangles over the frequencies."""
    bins, length, rate = (int(node.array(index).reshape(-1)[0]) for index in range(3))
    lower, upper = (float(node.array(index).reshape(-1)[0]) for index in (3, 4))
    low, high = (2595 * np.log10(1 + edge / 700) for edge in (lower, upper))
    mels = np.arange(bins + 2) * ((high - low) / (bins + 2)) + low
    edges = ((length + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate).astype(np.int64)
    rows = length // 2 + 1
    if (edges[1:-1] >= rows).any() or edges[-1] > rows:
        raise node.invalid(f"{upper} as the upper edge", f"frequencies of {rows} rows")
    first, middle, last = edges[:-2], edges[1:-1], edges[2:]
    # A side of no width has 1 in the middle, and 0 beside it.
    rising = (np.arange(rows)[:, None] - first + (first == middle)) / np.maximum(middle - first, 1)
    falling = (last - np.arange(rows)[:, None] + (last == middle)) / np.maximum(last - middle, 1)
    result: Array = np.maximum(np.minimum(rising, falling), 0)
    wanted: np.dtype[np.generic] = node.importer.dtype(node.attr("output_datatype", 1), node.where).numpy
    return result.astype(wanted)


# The coefficients of the cosines of 0, 1 and 2 turns.
WINDOWS = {"HannWindow": (0.5, -0.5), "HammingWindow": (25 / 46, -21 / 46), "BlackmanWindow": (0.42, -0.5, 0.08)}


@computes(*WINDOWS, kept=True)
def window(node: Node) -> Array:
    """The weights of a window, a sum of cosines."""
    size = int(node.array(0).reshape(-1)[0])
    turns = np.arange(size) / (size if node.attr("periodic", 1) else size - 1)
    terms = [share * np.cos(2 * np.pi * turns * count) for count, share in enumerate(WINDOWS[node.proto.op_type])]
    dtype = node.importer.dtype(node.attr("output_datatype", 1), node.where)
    return sum(terms, np.zeros(size)).astype(dtype.numpy)
