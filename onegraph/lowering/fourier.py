"""Lowers Fourier transforms to products with known matrices, which have gradients like all products.

A complex tensor is a real one with one more axis, the last, for the real and the imaginary part. Short transforms are
one product. A longer one is two shorter transforms along the axes of a matrix, with factors between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .elementwise import binary
from .emitter import Array, Emitter, NotLowered, Value, dtype_of, shape_of
from .layers import matmul
from .layout import inverse
from .movement import concat, part, reshape, transpose

MOST_DIRECT = 512  # the longest transform that is one product, where its length has two factors
MOST_PRIME = 2048  # the longest one without factors; its matrix takes 32 MB


def transformed(emit: Emitter, src: Value, axis: int, sign: int, scale: float, *, is_real: bool, half: bool) -> Value:
    """The Fourier transform along an axis, times a number: of complex numbers, or of real ones without a last axis.

    Args:
        src: the numbers.
        axis: counted from the start.
        sign: -1 for the transform, 1 for its inverse.
        scale: the number.
        is_real: whether src is real.
        half: whether only the first half of the result is wanted, of whose conjugates the rest consists.
    """
    dims = _dims(src)
    length, rank = dims[axis], len(dims) - (not is_real)
    if factors := _factors(length):
        spectrum = _in_two_axes(emit, src, axis, factors, sign, scale, is_real)
        return part(emit, spectrum, axis, 0, length // 2 + 1) if half else spectrum
    count = length // 2 + 1 if half else length
    waves = _waves(length, sign)[np.outer(np.arange(length), np.arange(count)) % length] * scale
    rows = [_parts(waves)] if is_real else [_parts(waves), _parts(1j * waves)]
    return _multiplied(emit, src, axis, np.stack(rows, 1).reshape(-1, count * 2), rank, [count, 2])


def real_of_half(emit: Emitter, src: Value, axis: int, length: int, scale: float) -> Value:
    """The real numbers, times a number, of whose inverse transform the first half is given."""
    dims = _dims(src)
    rank, count = len(dims) - 1, length // 2 + 1
    if dims[axis] != count:
        raise NotLowered(f"{dims[axis]} frequencies of {length} numbers")
    if not _factors(length):
        waves = _waves(length, 1)[np.outer(np.arange(count), np.arange(length)) % length] * scale
        waves *= np.where((2 * np.arange(count)) % length == 0, 1, 2)[:, None]  # the rest are conjugates
        return _multiplied(emit, src, axis, np.stack([waves.real, -waves.imag], 1).reshape(-1, length), rank, [length])
    order = np.arange(length - count, 0, -1)
    signs = np.array([1, -1], dtype_of(src).numpy)
    rest = binary(emit, "Multiply", emit.op("Gather", [src, order], {"axis": axis}), signs)
    whole = concat(emit, [src, rest], axis)
    spectrum = transformed(emit, whole, axis, 1, scale, is_real=False, half=False)
    return reshape(emit, part(emit, spectrum, rank, 0, 1), [*dims[:axis], length, *dims[axis + 1 : -1]])


def _in_two_axes(
    emit: Emitter, src: Value, axis: int, factors: tuple[int, int], sign: int, scale: float, is_real: bool
) -> Value:
    """The transform of rows that are the matrices of their elements: along the columns, and then along the rows."""
    dims, (first, second) = _dims(src), factors
    length = dims[axis]
    matrices = reshape(emit, src, [*dims[:axis], first, second, *dims[axis + 1 :]])
    columns = transformed(emit, matrices, axis, sign, scale, is_real=is_real, half=False)
    between = np.outer(np.arange(first), np.arange(second)) % length
    turns = _parts(_waves(length, sign)[between]).astype(dtype_of(src).numpy)
    rank = len(_dims(columns))
    turned = product(emit, columns, turns.reshape([first, second, *[1] * (rank - axis - 3), 2]))
    spectrum = transformed(emit, turned, axis + 1, sign, 1, is_real=False, half=False)
    order = [*range(rank)]
    order[axis], order[axis + 1] = axis + 1, axis
    return reshape(emit, transpose(emit, spectrum, order), [*dims[:axis], length, *_dims(spectrum)[axis + 2 :]])


def product(emit: Emitter, first: Value, second: Value) -> Value:
    """The products of complex numbers, with broadcasting."""
    (a, b), (c, d) = parts(emit, first), parts(emit, second)
    real = binary(emit, "Subtract", binary(emit, "Multiply", a, c), binary(emit, "Multiply", b, d))
    imaginary = binary(emit, "Add", binary(emit, "Multiply", a, d), binary(emit, "Multiply", b, c))
    return concat(emit, [real, imaginary], len(_dims(real)) - 1)


def parts(emit: Emitter, value: Value) -> tuple[Value, Value]:
    """The real and the imaginary parts of complex numbers, with a last axis of size 1."""
    last = len(_dims(value)) - 1
    return part(emit, value, last, 0, 1), part(emit, value, last, 1, 2)


def _multiplied(emit: Emitter, src: Value, axis: int, matrix: Array, rank: int, ends: Sequence[int]) -> Value:
    """The rows along an axis times a matrix, in the shape of ``ends`` in the place of the axis, or also at the end."""
    dims = _dims(src)
    order = [*[other for other in range(rank) if other != axis], axis]
    rows = transpose(emit, src, [*order, *range(rank, len(dims))])
    outer = [dims[other] for other in order[:-1]]
    product = matmul(emit, reshape(emit, rows, [*outer, len(matrix)]), matrix.astype(dtype_of(src).numpy))
    product = reshape(emit, product, [*outer, *ends])
    return transpose(emit, product, [*inverse(order), *range(rank, rank + len(ends) - 1)])


def _dims(value: Value) -> list[int]:
    """The shape, which is known."""
    shape = shape_of(value)
    if shape is None or None in shape:
        raise NotLowered("a transform of numbers whose count depends on contents")
    return [*shape]  # type: ignore[list-item]


def _factors(length: int) -> tuple[int, int] | None:
    """Two factors of a length for which one product would take long; None for others.

    Raises:
        NotLowered: the matrix would be too large.
    """
    if length <= MOST_DIRECT:
        return None
    factor = next(one for one in range(math.isqrt(length), 0, -1) if length % one == 0)
    if factor == 1 and length > MOST_PRIME:
        raise NotLowered(f"a transform of {length} numbers, which is a prime number above {MOST_PRIME}")
    return None if factor == 1 else (factor, length // factor)


def _waves(length: int, sign: int) -> Array:
    """The roots of one, exact at quarters."""
    angles = 2 * np.pi * np.arange(length) / length
    waves: Array = np.cos(angles) + 1j * sign * np.sin(angles)
    quarters = (4 * np.arange(length)) % length == 0
    return np.where(quarters, np.round(waves), waves)


def _parts(numbers: Array) -> Array:
    return np.stack([numbers.real, numbers.imag], -1)
