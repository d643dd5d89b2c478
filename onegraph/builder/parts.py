"""Reads an index as numpy writes it, such as ``x[:, -1]``, for the ops that take a part of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._util.counted import counted
from .._util.exact_types import has_type, whole
from ..arrays.ndarrays import is_numpy
from ..errors import ArgumentError, shown
from ..ir.op import Array, LogicalTensor
from ..opset.dtypes import DataType
from ..opset.editions.registry import HOST

LAST = 2**63 - 1  # an end of a slice behind every axis; its negative is before every axis
MEANT = "expected integers, slices, ..., None, and at most one tensor or list of integers"


class Index(NamedTuple):
    """What an index takes: cuts, slices, rows by indices, then axes of one number that go, then axes that come."""

    cuts: list[tuple[int, int, int]]  # start, end and axis
    starts: list[int]
    ends: list[int]
    axes: list[int]
    steps: list[int]
    gathers: list[tuple[int, LogicalTensor | Array]]  # axis and indices, in the order to take them
    dropped: list[int]
    added: list[int]


def add_part(op: Callable[..., Any], tensor: LogicalTensor, place: object) -> LogicalTensor:
    """Add the ops that take ``tensor[place]``: at most two Slices, then Gathers, a Squeeze and an Unsqueeze.

    Args:
        op: the method of the graph that adds an op.
        tensor: a tensor of that graph.
        place: the index, as the user gave it.

    Raises:
        ArgumentError: the index is none that ops compute.
    """
    index = index_of(tensor, place)
    if index.cuts:
        tensor = op("Slice", [tensor, *np.array(index.cuts, np.int64).T], edition=HOST)
    if index.axes:
        bounds = [np.array(one, np.int64) for one in (index.starts, index.ends, index.axes, index.steps)]
        tensor = op("Slice", [tensor, *bounds], edition=HOST)
    for axis, indices in index.gathers:
        tensor = op("Gather", [tensor, indices], {"axis": axis}, edition=HOST)
    if index.dropped:
        tensor = op("Squeeze", [tensor], {"axes": index.dropped}, edition=HOST)
    if index.added:
        tensor = op("Unsqueeze", [tensor], {"axes": index.added}, edition=HOST)
    return tensor


def index_of(tensor: LogicalTensor, place: object) -> Index:
    """What ``tensor[place]`` takes.

    Raises:
        ArgumentError: the index is none that ops compute, or has an integer that the axis does not have.
    """
    items = list(place) if has_type(place, tuple) else [place]
    if tensor.shape is None:
        raise _refused(tensor, place, "expected a tensor of known rank; g.slice takes axes of others")
    dots = sum(item is Ellipsis for item in items)
    taking = sum(item is not None and item is not Ellipsis for item in items)
    if dots > 1 or taking > len(tensor.shape):
        raise _refused(tensor, place, f"expected at most {counted(len(tensor.shape), 'index')}, and ... once")
    rest = [slice(None)] * (len(tensor.shape) - taking)
    at = next((number for number, item in enumerate(items) if item is Ellipsis), len(items))
    items[at : at + 1] = rest
    part = Index([], [], [], [], [], [], [], [])
    listed = False
    axis = end = 0  # of the tensor, and of the result
    for item in items:
        if item is None:
            part.added.append(end)
            end += 1
            continue
        if (number := whole(item)) is not None:
            _take_one(part, tensor, place, axis, number)
        elif has_type(item, slice):
            _take_slice(part, tensor, place, axis, item)
            end += 1
        else:
            indices = _indices(item)
            if indices is None or listed:
                raise _refused(tensor, place, MEANT + _mask_fix(item))
            listed = True
            part.gathers.insert(0, (axis, indices))  # the last axis first, so that the numbers of others stay
            end += len(indices.shape or ())
        axis += 1
    if listed and part.dropped:  # numpy would move axes to the front
        raise _refused(tensor, place, "expected no integer beside a list of indices; index twice")
    return part


def _take_one(part: Index, tensor: LogicalTensor, place: object, axis: int, number: int) -> None:
    assert tensor.shape is not None
    size = tensor.shape[axis]
    if size is not None and not -size <= number < size:
        raise _refused(tensor, place, f"expected an index from {-size} to {size - 1} along axis {axis}")
    if size is None:  # a slice beyond the axis would be empty; Gather refuses such an index in the run
        part.gathers.insert(0, (axis, np.array([number], np.int64)))
    else:
        _add(part, axis, number, number + 1 or LAST, 1)
    part.dropped.append(axis)


def _take_slice(part: Index, tensor: LogicalTensor, place: object, axis: int, item: slice) -> None:
    bounds = (item.start, item.stop, item.step)
    numbers = [None if one is None else whole(one) for one in bounds]
    if any(one is not None and number is None for one, number in zip(bounds, numbers, strict=True)):
        raise _refused(tensor, place, "expected integers in a slice; g.slice takes tensors")
    start, stop, step = numbers
    if step == 0:
        raise _refused(tensor, place, "expected a step other than 0")
    if (start, stop, step or 1) == (None, None, 1):
        return
    step = step or 1
    first, last = (0, LAST) if step > 0 else (LAST, -LAST)
    if step < 0 and start is not None and start < -1:  # Slice would begin with element 0 where numpy takes none
        part.cuts.append((0 if stop is None else stop + 1 or LAST, start + 1, axis))
        start = stop = None
    _add(part, axis, first if start is None else start, last if stop is None else stop, step)


def _add(part: Index, axis: int, start: int, end: int, step: int) -> None:
    for numbers, number in zip(part[1:5], (start, end, axis, step), strict=True):
        numbers.append(number)


def _indices(item: object) -> LogicalTensor | Array | None:
    """Indices along one axis: a tensor of s32 or s64, or integers; None for other objects."""
    if has_type(item, LogicalTensor):
        return item if item.dtype in (DataType.s32, DataType.s64) and item.shape is not None else None
    if is_numpy(item) or has_type(item, list):
        array = np.asarray(item)
        return array.astype(np.int64) if array.dtype.kind in "iu" else None
    return None


def _mask_fix(item: object) -> str:
    mask = has_type(item, LogicalTensor) and item.dtype is DataType.boolean
    return "; g.compress takes the rows of a mask, and g.select chooses elements by one" if mask else ""


def _refused(tensor: LogicalTensor, place: object, expected: str) -> ArgumentError:
    shown_place = place.name if has_type(place, LogicalTensor) else shown(place)
    return ArgumentError(f"{tensor.name}[...]: index {shown_place}; {expected}")
