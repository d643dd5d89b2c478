"""Arrays on their way in and out of executables: what a caller may pass, and aligned memory."""

from __future__ import annotations

import ctypes
import math
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from .._util.exact_types import has_type
from ..errors import ArgumentError, OutOfMemoryError, class_of, shown
from ..ir.op import Array
from ..opset.dtypes import DataType
from ..opset.shapes import show
from .dlpack import from_dlpack

ALIGNMENT = 64  # bytes, of what the library is handed: those of a cache line
BYTE = np.dtype(np.uint8)
FORMATS = frozenset("?bBhHiIlLqQefd")


def aligned_empty(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """An uninitialised C-contiguous array whose data starts at a multiple of 64 bytes.

    Raises:
        OutOfMemoryError: there is not so much memory.
    """
    dims = tuple(map(int, shape))
    size = math.prod(dims) * dtype.itemsize
    try:
        memory: Any = np.empty(size + ALIGNMENT - 1, BYTE)  # no buffer in the eyes of type checkers, until Python 3.12
        # The quickest way to the address of an array without C of one's own.
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        made: Array = np.ndarray(dims, dtype, memory, -address % ALIGNMENT)
        if not made.flags.writeable:  # as numpy makes it where it finds no memory for a buffer
            raise MemoryError
        return made
    except (MemoryError, OverflowError, ValueError):
        raise OutOfMemoryError("numpy.empty", "out_of_memory", f"{size} bytes for shape {dims}") from None


def as_array(name: str, value: object) -> Array:
    """The array of graph input ``name``, over the memory of ``value``; see :func:`array_of`."""
    if type(value) is np.ndarray:
        return value
    return array_of(f"input {name!r}", value)


def is_numpy(value: object) -> TypeGuard[Array]:
    """Whether ``value`` is an array or a scalar of numpy."""
    return has_type(value, (np.ndarray, np.generic))


def numpy_array(what: str, value: object, expected: str) -> Array:
    """A plain array over the memory of a numpy array or scalar; see :func:`array_of`.

    Raises:
        ArgumentError: it is none, or masked.
    """
    if not is_numpy(value):
        raise ArgumentError(f"{what}: {shown(value)}; expected {expected}")
    return array_of(what, value)


def array_of(what: str, value: object) -> Array:
    """An array over the memory of ``value``; nothing is copied.

    The memory lives as long as the array. Not every producer keeps it in place: torch's ``resize_`` moves it.

    Args:
        what: what the array is for, the beginning of messages.
        value: a numpy array or scalar; a CPU tensor with ``__dlpack__``; or an object with the buffer protocol, such as
            a memoryview, ``array.array`` or bytes, with a format of one number or bool.

    Raises:
        ArgumentError: it is none of these, or cannot be read without a copy.
    """
    # Without an import at this moment, whose lock a fork may find taken; before that there are no masked arrays.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())
    if has_type(value, masked):
        raise ArgumentError(f"{what}: a masked array; expected plain data: fill it with .filled(value)")
    if is_numpy(value):
        return np.asarray(value)
    given = class_of(value)
    try:
        if hasattr(value, "__dlpack__"):
            return from_dlpack(value)
        try:
            buffer = memoryview(value)  # type: ignore[arg-type]
        except TypeError:
            buffer = None
        if buffer is not None:
            return _from_buffer(buffer)
    except Exception as error:  # whatever the producer raises
        raise ArgumentError(f"{what}: {given} gives no array: {error}") from error
    raise ArgumentError(f"{what}: {given}; expected a numpy array or anything with __dlpack__ or the buffer protocol")


def _from_buffer(buffer: memoryview) -> Array:
    if buffer.format.lstrip("@=<>!") not in FORMATS or buffer.suboffsets:
        raise BufferError(f"its format is {buffer.format!r}; expected f (f32), e (f16), b (s8), B (u8), i (s32) or ?")
    return np.asarray(buffer)


def check_output(
    name: str, dtype: DataType, shape: tuple[int, ...], strides: tuple[int, ...] | None, array: object
) -> Array:
    """The array that output ``name`` is to be written into: C-contiguous, or with ``strides`` in elements.

    That is the array of :func:`array_of`, without a class that may say other things of itself than are so. A DLPack
    tensor from before version 1.0 counts as writable, as it cannot say otherwise.

    Raises:
        ArgumentError: its data type or shape is another, or it cannot be written to as it lies.
    """
    plain = output_array(name, array)
    if plain.dtype != dtype.numpy:
        raise ArgumentError(f"output {name!r}: data type {plain.dtype}; expected {dtype}, numpy's {dtype.numpy}")
    if plain.shape != shape:
        raise ArgumentError(f"output {name!r}: shape {show(plain.shape)}; expected {show(shape)}")
    flags = plain.flags
    if not flags.c_contiguous and (strides is None or not has_strides(plain, strides)):
        declared = "" if strides is None else f", and not of the strides {strides} in elements"
        fix = "pass a contiguous copy, np.ascontiguousarray(array) for one, and copy back"
        raise ArgumentError(f"output {name!r}: not C-contiguous{declared}; {fix}")
    if not flags.aligned:
        raise ArgumentError(
            f"output {name!r}: not aligned to {plain.itemsize} bytes; pass an array that numpy allocated"
        )
    if not flags.writeable:
        raise ArgumentError(f"output {name!r}: read-only; expected an array that can be written")
    return plain


def output_array(name: str, value: object) -> Array:
    """The array of output ``name``, over the memory of ``value``; see :func:`array_of`."""
    if has_type(value, np.generic):
        raise ArgumentError(f"output {name!r}: {class_of(value)}; expected an array: scalars cannot be written")
    return array_of(f"output {name!r}", value)


def owners(array: Array) -> Iterator[Array]:
    """The array and those whose memory it is a view of, by way of memoryviews too.

    numpy resizes none of them that has a weak reference.
    """
    base: object = array
    while has_type(base, np.ndarray):
        yield base
        base = np.ndarray.base.__get__(base)
        if has_type(base, memoryview):
            base = base.obj


def is_read_only(array: Array) -> bool:
    """Whether neither this plain array nor anybody else writes to its memory once the array is read-only."""
    base: object = array.base
    return base is None or (has_type(base, np.ndarray) and not np.asarray(base).flags.writeable)


class Held(dict[str, Array]):
    """Plain views of arrays by name. As long as they live, numpy resizes none of the arrays.

    A view stays as it is where ``dtype`` or ``shape`` of its array is set.

    Attributes:
        given: the arrays, by name.
    """

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.given = arrays
        self._watches = [weakref.ref(owner) for array in arrays.values() for owner in owners(array)]
        # Not before: making an object may run the garbage collector, and with it Python code.
        super().__init__({name: np.asarray(array).view() for name, array in arrays.items()})


def cast_to(dtype: DataType, value: object) -> str:
    """The cast of ``value`` that mends its data type, as a user writes it."""
    if is_numpy(value):
        return f"convert it with .astype({numpy_name(dtype)})"
    return f"convert it to {dtype} first"


def has_strides(array: Array, strides: Sequence[int]) -> bool:
    """Whether an array has these strides in elements; axes of size 1 do not count."""
    return all(
        dim == 1 or stride == declared * array.itemsize
        for dim, stride, declared in zip(array.shape, array.strides, strides, strict=True)
    )


def strided_empty(shape: tuple[int, ...], strides: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array with these strides in elements."""
    span = 1 + sum((max(dim, 1) - 1) * stride for dim, stride in zip(shape, strides, strict=True))
    return strided(aligned_empty((span,), dtype), shape, strides)


def laid_empty(shape: tuple[int, ...], strides: Sequence[int] | None, dtype: np.dtype[Any]) -> Array:
    """An uninitialised array with these strides in elements; None is dense row-major."""
    return aligned_empty(shape, dtype) if strides is None else strided_empty(shape, strides, dtype)


def strided(array: Array, shape: Sequence[int], strides: Sequence[int]) -> Array:
    """The memory of an array by other axes; strides in elements."""
    size = array.itemsize
    plain = array.view(f"V{size}")  # numpy cannot do it with all of the data types of ml_dtypes
    seen: Array = np.lib.stride_tricks.as_strided(plain, shape, [stride * size for stride in strides])
    return seen.view(array.dtype)


def numpy_name(dtype: DataType) -> str:
    """How Python code names the numpy type of a data type."""
    module = "np" if dtype.numpy.isbuiltin == 1 else "ml_dtypes"
    return f"{module}.{dtype.numpy.type.__name__}"
