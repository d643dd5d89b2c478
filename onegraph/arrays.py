"""Arrays on their way in and out of executables: alignment, layout, and what a caller may pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .errors import ArgumentError, OutOfMemoryError
from .op import Array
from .spec.dtypes import DataType
from .spec.shapes import show

ALIGNMENT = 64


def aligned_empty(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """An uninitialised C-contiguous array whose data starts at a multiple of 64 bytes."""
    size = math.prod(int(dim) for dim in shape) * dtype.itemsize
    try:
        raw = np.empty(size + ALIGNMENT, np.uint8)
    except (MemoryError, OverflowError, ValueError):
        raise OutOfMemoryError("numpy.empty", "out_of_memory", f"{size} bytes for shape {tuple(shape)}") from None
    start = -raw.__array_interface__["data"][0] % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(tuple(shape))


def as_array(name: str, value: object) -> Array:
    """The array of graph input ``name``: numpy, anything with ``__dlpack__``, or a buffer."""
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(f"input {name!r}: a masked array; expected plain data: fill it with .filled(value)")
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except Exception as error:  # whatever the producer raises
            raise ArgumentError(f"input {name!r}: {type(value).__name__} gives no array: {error}") from error
    if isinstance(value, (memoryview, bytearray, bytes)):
        return np.asarray(value)
    raise ArgumentError(f"input {name!r}: {type(value).__name__}; expected a numpy array or anything with __dlpack__")


def check_output(name: str, dtype: DataType, shape: tuple[int, ...], array: object) -> Array:
    """The array that output ``name`` is to be written into, if it fits."""
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"output {name!r}: {type(array).__name__}; expected a numpy array")
    if array.dtype != dtype.numpy:
        raise ArgumentError(f"output {name!r}: data type {array.dtype}; expected {dtype}, numpy's {dtype.numpy}")
    if array.shape != shape:
        raise ArgumentError(f"output {name!r}: shape {show(array.shape)}; expected {show(shape)}")
    if not array.flags.c_contiguous:
        raise ArgumentError(f"output {name!r}: not C-contiguous; pass np.ascontiguousarray(array) and copy back")
    if not array.flags.aligned:
        raise ArgumentError(
            f"output {name!r}: not aligned to {array.itemsize} bytes; pass an array that numpy allocated"
        )
    if not array.flags.writeable:
        raise ArgumentError(f"output {name!r}: read-only; expected an array that can be written")
    return array


def strided_empty(shape: tuple[int, ...], strides: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array with these strides in elements."""
    span = 1 + sum((max(dim, 1) - 1) * step for dim, step in zip(shape, strides, strict=True))
    memory = aligned_empty((span,), dtype)
    return np.lib.stride_tricks.as_strided(memory, shape, [step * dtype.itemsize for step in strides])


def numpy_name(dtype: DataType) -> str:
    """How Python code names the numpy type of a data type."""
    return f"ml_dtypes.{dtype.numpy}" if dtype.numpy.kind == "V" else f"np.{dtype.numpy}"
