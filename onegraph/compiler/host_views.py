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
    """The place of the result of a host view; None if only a copy has it."""
    if 0 in target.shape or 0 in source.shape:
        return None
    # The array stands for the layout; its memory is never read.
    row = np.empty(1, np.uint8)
    laid = np.lib.stride_tricks.as_strided(row, source.shape, source.strides)
    if op.kind in ("Reshape", "Squeeze", "Unsqueeze"):
        found = _reshaped(laid, target.shape)
    else:
        types = [None if tensor is None else tensor.type for tensor in op.inputs]
        schema = edition(HOST).schemas[op.kind]
        arrays = [None if tensor is None else tensor.value for tensor in op.inputs[1:]]
        found = np.asarray(host_function(schema)(Call(base_of(schema), op.attrs, types, 1), laid, *arrays))
    if found is None:
        return None
    first = int(found.__array_interface__["data"][0]) - int(row.__array_interface__["data"][0])
    return Place(found.strides, first)


def _reshaped(laid: Array, shape: Dims) -> Array | None:
    """The array in another shape; None if that needs a copy."""
    view = laid.view()
    try:
        return np.reshape(view, shape, copy=False) if NEW_NUMPY else _with_shape(view, shape)
    except (ValueError, AttributeError):
        return None


NEW_NUMPY = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def _with_shape(view: Array, shape: Dims) -> Array:
    view.shape = shape
    return view


def is_irregular(shape: Dims, strides: Dims) -> bool:
    """Whether elements share memory or run backwards, so that no kernel of the library takes the tensor."""
    return any(stride <= 0 and dim > 1 for dim, stride in zip(shape, strides, strict=True))
