"""Checks and converts arrays that callers pass, and allocates aligned arrays."""

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
from .dlpack import CODES, DLPackArray, from_dlpack

LARGE = 1 << 20  # bytes
ALIGNMENT = 64  # bytes, one cache line; alignment of the memory that the library gets
BYTE = np.dtype(np.uint8)
FORMATS = frozenset("?bBhHiIlLqQefd")


def aligned_empty(shape: Sequence[int], dtype: np.dtype[Any], *, zeroed: bool = False, skew: int = 0) -> Array:
    """A C-contiguous array whose data starts ``skew`` bytes behind a multiple of 64; its elements are 0 if ``zeroed``.

    Raises:
        OutOfMemoryError: there is not enough memory.
    """
    dims = tuple(map(int, shape))
    size = math.prod(dims) * dtype.itemsize
    try:
        allocated = (np.zeros if zeroed else np.empty)(size + ALIGNMENT - 1 + skew, BYTE)
        memory: Any = allocated  # Any: no buffer for type checkers before Python 3.12
        # The fastest way to get the address of an array without C code.
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        array: Array = np.ndarray(dims, dtype, memory, -address % ALIGNMENT + skew)
        if not array.flags.writeable:  # numpy returns a read-only array if it has no memory for the buffer object
            raise MemoryError
        return array
    except (MemoryError, OverflowError, ValueError):
        raise OutOfMemoryError("numpy.empty", "out_of_memory", f"{size} bytes for shape {dims}") from None


def aligned_copy(array: Array, *, skew: int = 0) -> Array:
    """A C-contiguous copy, placed as by ``aligned_empty``. Large zeros take no memory until they change.

    Raises:
        OutOfMemoryError: there is not enough memory.
    """
    if array.nbytes >= LARGE and _is_zeros(array):
        return aligned_empty(array.shape, array.dtype, zeroed=True, skew=skew)
    copied = aligned_empty(array.shape, array.dtype, skew=skew)
    copied[...] = array
    return copied


def _is_zeros(array: Array) -> bool:
    """Whether all bits of an array are zero, as far as one look at contiguous memory shows."""
    repeats = not any(array.strides)
    if not (repeats or array.flags.c_contiguous):
        return False
    numbers = array[(slice(1),) * array.ndim] if repeats else array
    return not numbers.reshape(-1).view(np.uint8).view(np.bool_).any()


def as_array(name: str, value: object) -> Array:
    """View ``value`` as the array for graph input ``name``; see :func:`array_of`."""
    if type(value) is np.ndarray:
        return value
    return array_of(f"input {name!r}", value)


def is_numpy(value: object) -> TypeGuard[Array]:
    """Whether ``value`` is a numpy array or scalar."""
    return has_type(value, (np.ndarray, np.generic))


def numpy_array(argument_name: str, value: object, expected: str) -> Array:
    """View a numpy array or scalar as a plain array; see :func:`array_of`.

    Raises:
        ArgumentError: ``value`` is not a numpy array or scalar, or is a masked array.
    """
    if not is_numpy(value):
        raise ArgumentError(f"{argument_name}: {shown(value)}; expected {expected}")
    return array_of(argument_name, value)


def array_of(argument_name: str, value: object) -> Array:
    """View the memory of ``value`` as a plain array, without a copy.

    The array keeps the memory alive. Some producers can still move it, such as torch's ``resize_``.

    Args:
        argument_name: purpose of the array; messages begin with it.
        value: a numpy array or scalar; a CPU tensor with ``__dlpack__``; or an object with the buffer protocol whose
            elements are numbers or bools, such as a memoryview, ``array.array`` or bytes.

    Raises:
        ArgumentError: ``value`` is none of these, or cannot be read without a copy.
    """
    # Do not import numpy.ma here: a fork may leave the import lock taken. No masked array exists before the import.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())
    if has_type(value, masked):
        raise ArgumentError(f"{argument_name}: a masked array; expected plain data: fill it with .filled(value)")
    if is_numpy(value):
        return np.asarray(value)
    class_name = class_of(value)
    try:
        if hasattr(value, "__dlpack__"):
            return from_dlpack(value)
        try:
            buffer = memoryview(value)  # type: ignore[arg-type]
        except TypeError:
            buffer = None
        if buffer is not None:
            return _from_buffer(buffer)
    except Exception as error:  # the producer may raise anything
        raise ArgumentError(f"{argument_name}: {class_name} gives no array: {error}") from error
    raise ArgumentError(
        f"{argument_name}: {class_name}; expected a numpy array or anything with __dlpack__ or the buffer protocol"
    )


def as_dlpack(array: object) -> DLPackArray:
    """Give a numpy array of any data type to another library without a copy: ``torch.from_dlpack(og.as_dlpack(y))``.

    numpy's own ``__dlpack__`` refuses bf16 and the 8-bit floats. The other library keeps the memory alive and may
    write to it.

    Raises:
        ArgumentError: it is no numpy array, or of a type with less than a byte for each element.
    """
    if not is_numpy(array):
        raise ArgumentError(f"as_dlpack: {class_of(array)}; expected a numpy array")
    values = array_of("as_dlpack", array)
    if values.dtype not in CODES and values.dtype.kind not in "biufc":
        raise ArgumentError(f"as_dlpack: an array of {values.dtype}; expected numbers of whole bytes")
    return DLPackArray(values)


def _from_buffer(buffer: memoryview) -> Array:
    if buffer.format.lstrip("@=<>!") not in FORMATS or buffer.suboffsets:
        raise BufferError(f"its format is {buffer.format!r}; expected f (f32), e (f16), b (s8), B (u8), i (s32) or ?")
    return np.asarray(buffer)


def check_output(
    name: str, dtype: DataType, shape: tuple[int, ...], strides: tuple[int, ...] | None, array: object
) -> Array:
    """Check the array that output ``name`` is written into and return it as a plain array.

    The array must be C-contiguous, or have the given ``strides`` (in elements). A DLPack tensor older than version 1.0
    counts as writable, because it cannot be marked read-only.

    Raises:
        ArgumentError: the array has another data type, shape or layout, or is unaligned or read-only.
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
    """View ``value`` as the array for output ``name``; see :func:`array_of`.

    Raises:
        ArgumentError: ``value`` is a numpy scalar, or :func:`array_of` refuses it.
    """
    if has_type(value, np.generic):
        raise ArgumentError(f"output {name!r}: {class_of(value)}; expected an array: scalars cannot be written")
    return array_of(f"output {name!r}", value)


def owners(array: Array) -> Iterator[Array]:
    """The array and every array whose memory it views, also through memoryviews.

    numpy does not resize an array that has a weak reference.
    """
    base: object = array
    while has_type(base, np.ndarray):
        yield base
        base = np.ndarray.base.__get__(base)
        if has_type(base, memoryview):
            base = base.obj


def is_read_only(array: Array) -> bool:
    """Whether nothing can write to the memory of this plain array after the array itself is made read-only."""
    base: object = array.base
    return base is None or (has_type(base, np.ndarray) and not np.asarray(base).flags.writeable)


class Held(dict[str, Array]):
    """Plain views of arrays by name. While this object lives, numpy does not resize the arrays.

    Setting ``dtype`` or ``shape`` of an array does not change its view.

    Attributes:
        given: the original arrays, by name.
    """

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.given = arrays
        self._watches = [weakref.ref(owner) for array in arrays.values() for owner in owners(array)]
        # Take the views last: creating objects may run the garbage collector, and with it Python code of the user.
        super().__init__({name: np.asarray(array).view() for name, array in arrays.items()})


def cast_to(dtype: DataType, value: object) -> str:
    """A suggestion for messages: how to convert ``value`` to ``dtype``."""
    if is_numpy(value):
        return f"convert it with .astype({numpy_name(dtype)})"
    return f"convert it to {dtype} first"


def place_of(array: Array) -> object:
    """What is equal for views of the same numbers of memory in the same order, as long as one of them lives."""
    if not array.size or not array.ndim:  # numpy returns numbers for arrays without axes
        return id(array)
    return array.ctypes.data, array.shape, array.strides, array.dtype


def has_strides(array: Array, strides: Sequence[int]) -> bool:
    """Whether an array has these strides, in elements; the strides of axes of size 1 are ignored."""
    return all(
        dim == 1 or stride == declared * array.itemsize
        for dim, stride, declared in zip(array.shape, array.strides, strides, strict=True)
    )


def strided_empty(shape: tuple[int, ...], strides: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array with these strides, in elements.

    Raises:
        OutOfMemoryError: there is not enough memory.
    """
    span = 1 + sum((max(dim, 1) - 1) * stride for dim, stride in zip(shape, strides, strict=True))
    return strided(aligned_empty((span,), dtype), shape, strides)


def laid_empty(shape: tuple[int, ...], strides: Sequence[int] | None, dtype: np.dtype[Any]) -> Array:
    """An uninitialised array with these strides, in elements; None is dense row-major.

    Raises:
        OutOfMemoryError: there is not enough memory.
    """
    return aligned_empty(shape, dtype) if strides is None else strided_empty(shape, strides, dtype)


def strided(array: Array, shape: Sequence[int], strides: Sequence[int], shift: int = 0) -> Array:
    """View the memory of an array with another shape and other strides, in elements, from byte ``shift`` on."""
    size = array.itemsize
    plain = array.view(f"V{size}")  # as_strided does not support every data type of ml_dtypes
    if shift:
        # The memory as one row, because the view may begin anywhere in it and have negative strides.
        reach = sum((max(dim, 1) - 1) * step for dim, step in zip(array.shape, array.strides, strict=True))
        plain = np.lib.stride_tricks.as_strided(plain, (1 + reach // size,), (size,))[shift // size :]
    view: Array = np.lib.stride_tricks.as_strided(plain, shape, [stride * size for stride in strides])
    return view.view(array.dtype)


def numpy_name(dtype: DataType) -> str:
    """The numpy type of a data type as Python code: ``np.float32``, ``ml_dtypes.bfloat16``."""
    module = "np" if dtype.numpy.isbuiltin == 1 else "ml_dtypes"
    return f"{module}.{dtype.numpy.type.__name__}"
