"""Computes the host ops that select elements by indices, find indices, or make tensors of indices or shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...opset.host.indexing_shapes import count_of_steps, gather_nd_shape, plain
from ...opset.schema import Call
from ...opset.shapes import known_dims

Array = NDArray[Any]
# TopK of at most one element in FEW does not sort the others, on so many elements at a time.
FEW, IN_CACHE, MOST_PLACES = 4, 1 << 16, 2**31 - 1
COMBINE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _wrapped(indices: Array, dim: int) -> Array:
    """The indices counted from 0; IndexError if one is out of range."""
    wrapped = np.where(indices < 0, indices + dim, indices)
    if wrapped.size and not ((wrapped >= 0) & (wrapped < dim)).all():
        raise IndexError(f"an index is not in the range {-dim} to {dim - 1}")
    return wrapped


def gather(call: Call, src: Array, indices: Array) -> Array:
    """The slices of src that the indices name."""
    axis = call.s64("axis")
    if src.flags.aligned or not src.flags.c_contiguous or not src.size:
        return np.take(src, indices, axis=axis)
    # numpy would copy all numbers that are not aligned. Rows of bytes always are.
    axis %= src.ndim
    rows = src.reshape(*src.shape[: axis + 1], -1)
    gathered = np.take(rows.view(np.dtype((np.void, rows.shape[-1] * src.itemsize)))[..., 0], indices, axis=axis)
    shape = *src.shape[:axis], *indices.shape, *src.shape[axis + 1 :]
    return gathered.reshape(*gathered.shape, 1).view(src.dtype).reshape(shape)


def gather_elements(call: Call, src: Array, indices: Array) -> Array:
    """The element of src that each index names along the axis."""
    axis = call.s64("axis") % src.ndim
    places: list[Array] = [*np.indices(indices.shape, sparse=True)]
    places[axis] = _wrapped(indices, src.shape[axis])
    return src[tuple(places)]


def gather_nd(call: Call, src: Array, indices: Array) -> Array:
    """The elements or slices of src that each tuple of indices names."""
    batch = call.s64("batch_dims")
    count = indices.shape[-1]
    tuples = [_wrapped(indices[..., number], src.shape[batch + number]) for number in range(count)]
    shared: tuple[Array, ...] = np.indices(src.shape[:batch], sparse=True)
    first = [axis.reshape(axis.shape + (1,) * (indices.ndim - 1 - batch)) for axis in shared]
    (wanted,) = gather_nd_shape(call)
    return np.broadcast_to(src[(*first, *tuples)], known_dims(wanted))  # tuples without numbers select all of src


def weighted_gather(call: Call, src: Array, indices: Array, weights: Array) -> Array:
    """The sums of the slices of src that the indices of each row name, times their weights."""
    axis = call.s64("axis") % src.ndim
    if indices.size and indices.max() >= src.shape[axis]:
        raise IndexError(f"an index is not below {src.shape[axis]}")
    sums = np.zeros((*src.shape[:axis], len(indices), *src.shape[axis + 1 :]), np.result_type(src.dtype, np.float32))
    for places, shares in zip(indices.T, weights.T, strict=True):
        chosen = np.flatnonzero(places >= 0)
        at: tuple[Any, ...] = (*(slice(None),) * axis, chosen)
        wide = shares[chosen].astype(sums.dtype).reshape(-1, *(1,) * (src.ndim - axis - 1))
        sums[at] += np.take(src, places[chosen], axis).astype(sums.dtype) * wide
    return sums.astype(src.dtype)


def scatter_elements(call: Call, src: Array, indices: Array, updates: Array, out: Array | None = None) -> Array:
    """src with updates at the places that the indices name along the axis."""
    axis = call.s64("axis") % src.ndim
    places: list[Array] = [*np.indices(indices.shape, sparse=True)]
    places[axis] = _wrapped(indices, src.shape[axis])
    return _scattered(call, src, tuple(places), updates, out)


def scatter_nd(call: Call, src: Array, indices: Array, updates: Array, out: Array | None = None) -> Array:
    """src with updates at the places that each tuple of indices names."""
    tuples = tuple(_wrapped(indices[..., number], src.shape[number]) for number in range(indices.shape[-1]))
    return _scattered(call, src, tuples, updates, out)


ROW = 16  # elements of a slice from which on slices are added as a whole


def _scattered(call: Call, src: Array, places: tuple[Array, ...], updates: Array, out: Array | None) -> Array:
    dst, how = np.empty_like(src) if out is None else out, call.string("reduction")
    if dst.__array_interface__["data"] != src.__array_interface__["data"]:  # out may be the memory of src
        np.copyto(dst, src)
    if how == "none":
        dst[places] = updates
    elif how == "add" and len(places) == 1 and math.prod(src.shape[1:]) >= ROW and places[0].size:
        # The gradient of an embedding: numpy's ``add.at`` takes a hundred times as long for slices.
        order = np.argsort(places[0].ravel(), kind="stable")
        rows, firsts = np.unique(places[0].ravel()[order], return_index=True)
        dst[rows] += np.add.reduceat(updates.reshape(-1, *src.shape[1:])[order], firsts, axis=0)
    else:
        COMBINE[how].at(dst, places, updates)
    return dst


def one_hot(call: Call, indices: Array, depth: Array, values: Array) -> Array:
    """values[1] at the place of each index, else values[0]."""
    size, axis = int(depth.ravel()[0]), call.s64("axis") % (indices.ndim + 1)
    wrapped = np.expand_dims(np.where(indices < 0, indices + size, indices), axis)
    numbers = np.arange(size).reshape((-1,) + (1,) * (indices.ndim - axis))
    return np.where(numbers == wrapped, values[1], values[0]).astype(values.dtype)


def _arg(call: Call, src: Array, find: Any) -> Array:
    axis, keep = call.s64("axis"), call.flag("keep_dims")
    if call.flag("last"):
        places = src.shape[axis] - 1 - find(np.flip(src, axis), axis=axis, keepdims=keep)
    else:
        places = find(src, axis=axis, keepdims=keep)
    return np.asarray(places).astype(np.int64)


def arg_max(call: Call, src: Array) -> Array:
    """The place of the largest element."""
    return _arg(call, src, np.argmax)


def arg_min(call: Call, src: Array) -> Array:
    """The place of the smallest element."""
    return _arg(call, src, np.argmin)


def _first_places(rows: Array, count: int, *, largest: bool) -> Array:
    """The places of the ``count`` largest or smallest f32 elements of each row, in order, without sorting the others.

    The numbers of a row become integers of the same order, whose low half is the place, so that no two are equal.
    """
    size = rows.shape[1]
    places_found, places, step = np.empty((len(rows), count), np.int64), np.arange(size), max(1, IN_CACHE // size)
    for start in range(0, len(rows), step):
        part = rows[start : start + step] + np.float32(0)  # -0 equals 0
        bits = np.where(np.isnan(part), MOST_PLACES, part.view(np.int32))  # no number is larger than NaN
        ordered = bits ^ (bits >> 31 & MOST_PLACES)
        keys = np.left_shift(~ordered if largest else ordered, 32, dtype=np.int64) | places
        first = np.partition(keys, count - 1, axis=1)[:, :count]
        first.sort(axis=1)
        places_found[start : start + step] = first & 0xFFFFFFFF
    return places_found


def top_k(call: Call, src: Array, k: Array) -> tuple[Array, Array]:
    """The k largest or smallest elements, sorted, and their places; of equal ones the first comes first."""
    axis, count = call.s64("axis"), int(k.ravel()[0])
    if src.dtype == np.float32 and 0 < count * FEW <= src.shape[axis] <= MOST_PLACES:
        rows = np.moveaxis(src, axis, -1)
        first_places = _first_places(rows.reshape(-1, rows.shape[-1]), count, largest=call.flag("largest"))
        places = np.moveaxis(first_places.reshape(*rows.shape[:-1], count), -1, axis)
        return np.take_along_axis(src, places, axis), places
    keys = src.astype(np.float32) if src.dtype.kind == "V" else src  # numpy sorts no NaN of bf16
    if call.flag("largest"):
        order = src.shape[axis] - 1 - np.flip(np.argsort(np.flip(keys, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(keys, axis=axis, kind="stable")
    places = np.take(order, np.arange(count), axis=axis)
    return np.take_along_axis(src, places, axis), places.astype(np.int64)


def non_zero(call: Call, src: Array) -> Array:
    """The indices of the elements other than 0, one column for each."""
    return np.array(np.nonzero(np.atleast_1d(src)), np.int64)[: src.ndim]  # of a scalar no index, once or not at all


def cum_sum(call: Call, src: Array) -> Array:
    """The sums of the elements so far; those of 16-bit floats are added up in f32."""
    return _running(call, src, np.add, 0)


def cum_prod(call: Call, src: Array) -> Array:
    """The products of the elements so far; those of 16-bit floats are multiplied in f32."""
    return _running(call, src, np.multiply, 1)


def _running(call: Call, src: Array, combine: np.ufunc, first: int) -> Array:
    axis = call.s64("axis")
    turned = np.flip(src, axis) if call.flag("reverse") else src
    wide = np.dtype(np.float32) if src.dtype.itemsize < 4 and src.dtype.kind not in "iu" else src.dtype
    if call.flag("exclusive") and src.shape[axis]:
        shape = [1 if place == axis % src.ndim else dim for place, dim in enumerate(src.shape)]
        rest = np.take(turned, range(src.shape[axis] - 1), axis)
        turned = np.concatenate([np.full(shape, first, src.dtype), rest], axis)
    running: Array = combine.accumulate(turned.astype(wide, copy=False), axis, dtype=wide).astype(src.dtype, copy=False)
    return np.flip(running, axis) if call.flag("reverse") else running


def shape(call: Call, src: Array) -> Array:
    """The dims."""
    return np.array(src.shape, np.int64)


def size(call: Call, src: Array) -> Array:
    """The number of elements."""
    return np.array(src.size, np.int64)


def range_(call: Call, start: Array, limit: Array, step: Array) -> Array:
    """Numbers from start to limit."""
    first, last, size = map(plain, (start, limit, step))
    wide = np.int64 if start.dtype.kind in "iu" else np.float64
    numbers: Array = np.arange(count_of_steps(first, last, size), dtype=wide)
    return np.asarray(first + numbers * size).astype(start.dtype)
