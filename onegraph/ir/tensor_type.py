"""Converts tensor types, shapes and strides from users into the form that graphs store."""

from __future__ import annotations

import math

import numpy as np

from .._util.exact_types import elements, has_type, listed, whole
from .._util.open_sizes import is_whole
from .._util.validation import integer
from ..errors import ArgumentError, shown
from ..opset.dtypes import DataType
from ..opset.schema import TensorType
from ..opset.shapes import MAX_RANK, known_dims, overlaps, show
from ..opset.signature import Shape
from .op import LogicalTensor

MAX_SIZE = 2**60  # elements; the size in bytes always fits in 64 bits


def tensor_type(tensor: object) -> TensorType:
    """Data type and shape of a logical tensor, a (dtype, shape) pair or an array.

    Raises:
        ArgumentError: ``tensor`` is none of these, or its data type or shape is invalid.
    """
    if has_type(tensor, TensorType):
        return tensor
    if has_type(tensor, LogicalTensor):
        dims = tensor.shape
        stored = dims is None or (type(dims) is tuple and all(dim is None or is_whole(dim) for dim in dims))
        if tensor.value is not None and not has_type(tensor.value, np.ndarray):
            raise ArgumentError(f"value: {shown(tensor.value)}; expected an array, or None")
        if stored and type(tensor.dtype) is DataType:
            return tensor.type
        # A record that a user made directly may hold any object.
        return TensorType(DataType.of(tensor.dtype), as_shape(dims), tensor.value)
    if has_type(tensor, (np.ndarray, np.generic)):
        plain = np.asarray(tensor)  # a subclass may report a false shape or dtype
        dtype = DataType.s64 if plain.dtype == np.int64 else DataType.of(plain.dtype)
        # The elements of a shape or of axes decide the result; no rule reads those of other tensors.
        is_read = plain.ndim == 1 and dtype in (DataType.s32, DataType.s64)
        return TensorType(dtype, plain.shape, plain if is_read else None)
    if (pair := elements(tensor)) is not None and len(pair) == 2:
        return TensorType(DataType.of(pair[0]), as_shape(pair[1]))
    raise ArgumentError(f"{shown(tensor)} is not a logical tensor, a (dtype, shape) pair or an array")


def as_shape(shape: object) -> Shape:
    """Convert ``shape`` to a tuple of non-negative dims, with None for an unknown dim; None is an unknown rank.

    Raises:
        ArgumentError: ``shape`` is not a shape, has more than 12 dims, or has 2**60 elements or more.
    """
    if shape is None:
        return None
    if (size := whole(shape)) is not None:
        raise ArgumentError(f"a shape is a tuple of dims; write ({shown(size)},)")
    is_vector = has_type(shape, np.ndarray) and shape.ndim == 1
    listed_dims = listed(np.asarray(shape)) if is_vector else elements(shape)
    if listed_dims is None:
        raise ArgumentError(f"a shape is a tuple of dims, not {shown(shape)}")
    dims: list[int | None] = []
    for dim in listed_dims:
        number = whole(dim)
        if number is None and dim is not None:
            raise ArgumentError(f"a dim is an integer, or None where it is unknown, not {shown(dim)}")
        if number is not None and not 0 <= number < 2**63:
            raise ArgumentError(f"dim {shown(number)} is out of range; an unknown dim is written None")
        dims.append(number)
    if len(dims) > MAX_RANK:
        raise ArgumentError(f"a tensor has at most {MAX_RANK} dimensions, not {len(dims)}")
    if math.prod(dim for dim in dims if dim) >= MAX_SIZE:
        raise ArgumentError(f"shape {shown(tuple(dims))}; a tensor has fewer than 2**60 elements")
    return tuple(dims)


def as_strides(strides: object, dims: Shape) -> tuple[int, ...] | None:
    """Convert ``strides``, in elements, to a tuple with one stride for each dim; None stays None (dense row-major).

    Raises:
        ArgumentError: a dim is unknown, the strides are not one integer for each dim, or elements would share memory.
    """
    if strides is None:
        return None
    listed_strides = elements(strides)
    if listed_strides is None or dims is None or None in dims or len(listed_strides) != len(dims):
        raise ArgumentError(f"strides: {shown(strides)}; expected one integer for each dim of a shape that is known")
    expected = "a number of elements, 0 to 2**48 - 1"
    stored_strides = tuple([integer("strides", stride, 0, 2**48 - 1, expected) for stride in listed_strides])
    if overlaps(known_dims(dims), stored_strides):
        raise ArgumentError(
            f"strides: {stored_strides} for shape {show(dims)}; expected memory of its own for each element"
        )
    return stored_strides
