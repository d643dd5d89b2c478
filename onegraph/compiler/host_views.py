"""Finds the strides of host ops that only rename axes or take part of a tensor, so that they cost no copy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..ir.op import Array, Op
from ..opset.editions.registry import HOST, base_of, edition
from ..opset.schema import Call
from ..reference.host import VIEWS, host_function
from .lower import Dims, Value


class Place(NamedTuple):
    """Where the elements of a view lie in the memory of its source: strides and the first element, in elements."""

    strides: Dims
    offset: int


def is_host_view(op: Op) -> bool:
    """Whether an op may be a view of its first input."""
    return op.edition == HOST and op.kind in VIEWS


def place_of(op: Op, source: Value, target: Value) -> Place | None:
    """The place of the result of a host view; None if a reshape needs a dense source."""
    if op.kind in ("Reshape", "Squeeze", "Unsqueeze"):
        return reshaped(source, target.shape)
    types = [None if tensor is None else tensor.type for tensor in op.inputs]
    schema = edition(HOST).schemas[op.kind]
    arrays = [None if tensor is None else tensor.value for tensor in op.inputs[1:]]
    row, laid = _stand_in(source)
    found = np.asarray(host_function(schema)(Call(base_of(schema), op.attrs, types, 1), laid, *arrays))
    first = int(found.__array_interface__["data"][0]) - int(row.__array_interface__["data"][0])
    return Place(found.strides, first)


def reshaped(source: Value, shape: Dims) -> Place | None:
    """The place of a value in another shape; None if it needs a dense source."""
    view = _stand_in(source)[1]
    try:
        found = np.reshape(view, shape, copy=False) if NEW_NUMPY else _with_shape(view, shape)
    except (ValueError, AttributeError):
        return None
    return Place(found.strides, 0)


def _stand_in(value: Value) -> tuple[Array, Array]:
    """Memory, and an array on it that has the layout of a value; its elements are never read."""
    row = np.empty(1, np.uint8)
    return row, np.lib.stride_tricks.as_strided(row, value.shape, value.strides)


NEW_NUMPY = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def _with_shape(view: Array, shape: Dims) -> Array:
    view.shape = shape
    return view


def is_irregular(shape: Dims, strides: Dims) -> bool:
    """Whether elements share memory or run backwards, so that no kernel of the library takes the tensor."""
    return any(stride <= 0 and dim > 1 for dim, stride in zip(shape, strides, strict=True))
