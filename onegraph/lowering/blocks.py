"""Lowers what takes images apart into blocks, one for each place of a window, and what adds blocks up to images."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from ..opset.shapes import known_dims
from .elementwise import add
from .emitter import Emitter, NotLowered, Value, dtype_of, numbers, shape_of
from .movement import concat, padded, part, reshape, transpose
from .windows import Window

MOST_PLACES = 64  # in a block; more ops than these take longer than PyTorch or ONNX


def _places(kernel: Sequence[int]) -> list[tuple[int, ...]]:
    if prod(kernel) > MOST_PLACES:
        raise NotLowered(f"blocks of {prod(kernel)} elements in each channel")
    return [*product(*map(range, kernel))]


def _counts(image: Sequence[int], kernel: Sequence[int], window: Window) -> list[int]:
    """The number of blocks along each axis."""
    return [
        (size + window.begin[axis] + window.end[axis] - window.dilations[axis] * (kernel[axis] - 1) - 1)
        // window.strides[axis]
        + 1
        for axis, size in enumerate(image)
    ]


def to_blocks(emit: Emitter, src: Value, kernel: Sequence[int], window: Window) -> Value:
    """The blocks (N, C * kernel, blocks) of src (N, C, X), whose shape is known."""
    batch, channels, *image = known_dims(shape_of(src))
    counts, first = _counts(image, kernel, window), [0, 0]
    src = padded(emit, src, [*first, *window.begin], [*first, *window.end])
    pieces: list[Value] = []
    for place in _places(kernel):
        piece = src
        for axis, at in enumerate(place):
            start, step = at * window.dilations[axis], window.strides[axis]
            piece = part(emit, piece, axis + 2, start, start + step * (counts[axis] - 1) + 1, step)
        pieces.append(reshape(emit, piece, numbers(batch, channels, 1, *counts)))
    return reshape(emit, concat(emit, pieces, 2), numbers(batch, channels * len(pieces), prod(counts)))


def from_blocks(emit: Emitter, src: Value, image: Sequence[int], kernel: Sequence[int], window: Window) -> Value:
    """The images (N, C, X) whose elements are the sums of those of the blocks (N, C * kernel, blocks) at their place.

    Elements whose places have the same remainder by the strides make a smaller image, which is a sum of parts of src
    that lie together in memory. The images of all remainders are then one image.
    """
    batch, rows, _ = known_dims(shape_of(src))
    axes, strides, counts = range(len(image)), window.strides, _counts(image, kernel, window)
    grid = [-(-(image[axis] + window.begin[axis] + window.end[axis]) // strides[axis]) for axis in axes]
    places = _places(kernel)
    channels = rows // len(places)
    src = reshape(emit, src, numbers(batch, channels, len(places), *counts))
    sums: dict[tuple[int, ...], Value] = {}
    for number, place in enumerate(places):
        at = [divmod(place[axis] * window.dilations[axis], strides[axis]) for axis in axes]
        piece = reshape(emit, part(emit, src, 2, number, number + 1), numbers(batch, channels, *counts))
        before = [0, 0, *(pad for pad, _ in at)]
        after = [0, 0, *(grid[axis] - at[axis][0] - counts[axis] for axis in axes)]
        piece, inner = padded(emit, piece, before, after), tuple(begin for _, begin in at)
        sums[inner] = add(emit, sums[inner], piece) if inner in sums else piece
    zeros = np.zeros((batch, channels, *grid), dtype_of(src).numpy)
    parts = [sums.get(inner, zeros) for inner in product(*map(range, strides))]
    return _interleaved(emit, parts, image, window)


def _interleaved(emit: Emitter, parts: Sequence[Value], image: Sequence[int], window: Window) -> Value:
    """The image of which each part has one element of every few along each axis, without the padding."""
    batch, channels, *grid = known_dims(shape_of(parts[0]))
    strides, count = window.strides, len(image)
    apart = [reshape(emit, tensor, numbers(batch, channels, 1, *grid)) for tensor in parts]
    interleaved = reshape(emit, concat(emit, apart, 2), numbers(batch, channels, *strides, *grid))
    order = [0, 1, *(place for axis in range(count) for place in (2 + count + axis, 2 + axis))]
    extent = [size * step for size, step in zip(grid, strides, strict=True)]
    interleaved = reshape(emit, transpose(emit, interleaved, order), numbers(batch, channels, *extent))
    for axis, size in enumerate(image):
        interleaved = part(emit, interleaved, axis + 2, window.begin[axis], window.begin[axis] + size)
    return interleaved
