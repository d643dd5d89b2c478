"""Checks the contents of constants, and copies or keeps the caller's array."""

from __future__ import annotations

import weakref

import numpy as np

from ..arrays.ndarrays import aligned_copy, array_of, is_numpy, is_read_only, owners
from ..errors import ArgumentError, class_of
from ..ir.op import Array
from ..opset.dtypes import DataType
from ..opset.shapes import MAX_RANK


def contents_of(array: object, dtype: object, *, copy: bool) -> tuple[DataType, Array, tuple[weakref.ref[Array], ...]]:
    """Check an array for :meth:`onegraph.Graph.constant`, and copy it if ``copy`` is True.

    Returns:
        The data type; the array to store, which is still writable; and weak references to the arrays that own its
        memory, so that numpy does not resize them.

    Raises:
        ArgumentError: as documented for ``Graph.constant``.
    """
    if not (is_numpy(array) or hasattr(array, "__dlpack__")):
        fix = ", as np.array(..., np.float32)," if class_of(array) in ("list", "tuple", "int", "float") else ""
        raise ArgumentError(f"constant: {class_of(array)}; expected a numpy array{fix} or anything with __dlpack__")
    values = array_of("constant", array)
    dtype_ = _data_type(values, dtype)
    if values.ndim > MAX_RANK:
        raise ArgumentError(f"constant: rank {values.ndim}; expected at most {MAX_RANK} dimensions")
    if not copy:
        _refuse_unfit(values)
        return dtype_, values, tuple(weakref.ref(owner) for owner in owners(values))
    return dtype_, aligned_copy(values), ()


def first_contents_of(array: object, dtype: object) -> tuple[DataType, Array]:
    """Check an array for :meth:`onegraph.Graph.variable`; returns its data type and a read-only copy.

    A copy of one repeated number, as ``numpy.broadcast_to`` makes it, takes the memory of one number.

    Raises:
        ArgumentError: as documented for ``Graph.variable``.
    """
    values = array_of("constant", array) if is_numpy(array) else None
    if values is not None and values.size > 1 and not any(values.strides):
        dtype_, number, _ = contents_of(values[(slice(1),) * values.ndim], dtype, copy=True)
        return dtype_, np.broadcast_to(number, values.shape)
    dtype_, kept, _ = contents_of(array, dtype, copy=True)
    kept.flags.writeable = False
    return dtype_, kept


def _data_type(values: Array, dtype: object) -> DataType:
    """The data type of a constant: ``dtype`` if given, which must match the array, else that of the array."""
    if dtype is not None:
        wanted = DataType.of(dtype)
        if values.dtype != wanted.numpy:
            text = f"constant: an array of {values.dtype}; expected {wanted.numpy}, as dtype is {wanted}"
            raise ArgumentError(f"{text}; convert it with .astype(og.{wanted}.numpy)")
        return wanted
    try:
        return DataType.of(values.dtype)
    except ArgumentError as error:
        if values.dtype != np.int64:
            raise
        raise ArgumentError(f"{error}, or pass dtype=og.s64 where the specification wants s64") from None


def _refuse_unfit(array: Array) -> None:
    """Raise ArgumentError if an array cannot be a constant without a copy."""
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise ArgumentError("constant: an array that is not C-contiguous and aligned; expected copy=True")
    if not is_read_only(array):
        raise ArgumentError("constant: a view of memory that can still be written; expected copy=True")
