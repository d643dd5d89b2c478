"""What users write for the type of a tensor, made into the one form that is stored."""

from __future__ import annotations

import math

import numpy as np

from .._util.exact_types import elements, has_type, listed, whole
from .._util.validation import integer
from ..errors import ArgumentError, shown
from ..opset.dtypes import DataType
from ..opset.schema import Shape, TensorType
from ..opset.shapes import MAX_RANK, known_dims, overlaps, show
from .op import LogicalTensor

MAX_SIZE = 2**60  # so that no number of bytes leaves 64 bits


def tensor_type(tensor: object) -> TensorType:
    """Data type and shape of a logical tensor, a (dtype, shape) pair or an array.

    Raises:
        ArgumentError: it is none of these, or its data type or shape makes no sense.
    """
    if has_type(tensor, TensorType):
        return tensor
    if has_type(tensor, LogicalTensor):
        dims = tensor.shape
        stored = dims is None or (type(dims) is tuple and all(dim is None or type(dim) is int for dim in dims))
        if stored and type(tensor.dtype) is DataType:
            return tensor.type
        # A record that was made by hand may hold anything.
        return TensorType(DataType.of(tensor.dtype), as_shape(dims), tensor.value)
    if has_type(tensor, (np.ndarray, np.generic)):
        plain = np.asarray(tensor)  # without a class that may say other things of itself
        return TensorType(DataType.s64 if plain.dtype == np.int64 else DataType.of(plain.dtype), plain.shape)
    if (pair := elements(tensor)) is not None and len(pair) == 2:
        return TensorType(DataType.of(pair[0]), as_shape(pair[1]))
    raise ArgumentError(f"{shown(tensor)} is not a logical tensor, a (dtype, shape) pair or an array")


def as_shape(shape: object) -> Shape:
    """A shape as it is stored: a tuple of non-negative dims, None for an unknown dim or as a whole for the rank.

    Raises:
        ArgumentError: it is no shape, or has more than 12 dims.
    """
    if shape is None:
        return None
    if (one := whole(shape)) is not None:
        raise ArgumentError(f"a shape is a tuple of dims; write ({shown(one)},)")
    is_vector = has_type(shape, np.ndarray) and shape.ndim == 1
    given = listed(np.asarray(shape)) if is_vector else elements(shape)
    if given is None:
        raise ArgumentError(f"a shape is a tuple of dims, not {shown(shape)}")
    dims: list[int | None] = []
    for dim in given:
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
    """The strides of a tensor of a shape, as they are stored: one for each dim; None for dense row-major.

    Raises:
        ArgumentError: they are no such strides, or several elements would share memory.
    """
    if strides is None:
        return None
    given = elements(strides)
    if given is None or dims is None or None in dims or len(given) != len(dims):
        raise ArgumentError(f"strides: {shown(strides)}; expected one integer for each dim of a shape that is known")
    expected = "a number of elements, 0 to 2**48 - 1"
    stored_strides = tuple([integer("strides", stride, 0, 2**48 - 1, expected) for stride in given])
    if overlaps(known_dims(dims), stored_strides):
        raise ArgumentError(
            f"strides: {stored_strides} for shape {show(dims)}; expected memory of its own for each element"
        )
    return stored_strides
