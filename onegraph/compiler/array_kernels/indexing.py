"""Calls the kernels of the ops that select elements by indices, find indices, or go along an axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...ir.op import Array
from ...opset.schema import Call
from .arrays import dense, is_number, place_for, run, wide

Found = Sequence[Array] | None
Arrays = Sequence[Any]  # of an absent input, None

LONG = 64  # bytes of a slice, from which on numpy copies slices as fast
REDUCED = frozenset(["float32", "float64", "int8", "uint8", "int32", "int64"])
REDUCTIONS = {"none": 0, "add": 1, "mul": 2, "max": 3, "min": 4}
S64 = np.dtype(np.int64)
SMALL = 1 << 12  # elements, up to which a call of numpy takes less time
PART = 4096  # of NonZero: elements that are counted together
IN_PLACE = ("src", "indices", "updates")


def _axis(call: Call, array: Array) -> int:
    return call.s64("axis") % array.ndim


def gather(kind: str, call: Call, arrays: Arrays, results: Sequence[Array]) -> Found:
    """Elements or slices at indices."""
    src, indices = arrays
    if not src.flags.aligned or not src.size or not indices.size:
        return None
    if kind == "GatherND":
        batch = call.s64("batch_dims")
        if src.shape[:batch] != indices.shape[:batch]:
            return None
        shape, numbers = (*indices.shape[:-1], *src.shape[batch + indices.shape[-1] :]), [batch]
    else:
        axis = _axis(call, src)
        numbers = [axis]
        if kind == "GatherElements":
            _check_indices(axis, src, indices)
        shape = (
            indices.shape if kind == "GatherElements" else (*src.shape[:axis], *indices.shape, *src.shape[axis + 1 :])
        )
    if kind == "Gather" and (prod(shape) < SMALL or not src.flags.c_contiguous):
        return None
    result = place_for(results, 0, shape, src.dtype)
    run(kind, [dense(src), dense(indices, S64)], [result], numbers, ports=("src", "indices"), moves=True)
    return [result]


def _check_updates(kind: str, axis: int, src: Array, indices: Array, updates: Array) -> None:
    """Raise ValueError for shapes with which the kernel would leave an array: rules see no shape that contents give."""
    is_tuples = kind == "ScatterND"
    expected = (*indices.shape[:-1], *src.shape[indices.shape[-1] :]) if is_tuples else indices.shape
    if updates.shape != expected:
        raise ValueError(f"updates: shape {[*updates.shape]}; expected shape {[*expected]}")
    if not is_tuples:
        _check_indices(axis, src, indices)


def _check_indices(axis: int, src: Array, indices: Array) -> None:
    """Raise ValueError for indices of elements that lie beyond the source along another axis than their own."""
    limits = [*src.shape]
    limits[axis] = max(indices.shape[axis], limits[axis])
    if any(dim > most for dim, most in zip(indices.shape, limits, strict=True)):
        raise ValueError(f"indices: shape {[*indices.shape]}; expected dims of at most {limits}")


def scatter(kind: str, call: Call, arrays: Arrays, results: Sequence[Array]) -> Found:
    """A tensor with updates at indices."""
    src, indices, updates = arrays
    how = REDUCTIONS[call.string("reduction")]
    if (how and src.dtype.name not in REDUCED) or not indices.size or not src.size:
        return None
    axis = 0 if kind == "ScatterND" else _axis(call, src)
    _check_updates(kind, axis, src, indices, updates)
    result = place_for(results, 0, src.shape, src.dtype)
    ends = [dense(src), dense(indices, S64), dense(updates)]
    run(kind, ends, [result], [axis, how], ports=IN_PLACE, moves=not how)
    return [result]


def weighted(call: Call, arrays: Arrays, results: Sequence[Array]) -> Found:
    """Sums of elements along an axis, each times a weight."""
    src, indices, weights = arrays
    if src.dtype.name not in ("float32", "float64") or not src.size or not indices.size:
        return None
    axis = _axis(call, src)
    result = place_for(results, 0, (*src.shape[:axis], len(indices), *src.shape[axis + 1 :]), src.dtype)
    ends = [dense(src), dense(indices, S64), dense(weights)]
    run("WeightedGather", ends, [result], [axis], ports=("src", "indices", "weights"))
    return [result]


def top_k(call: Call, arrays: Arrays, results: Sequence[Array]) -> Found:
    """The first elements of a sort along an axis, and their places."""
    src, k = arrays
    axis = _axis(call, src)
    shape = (*src.shape[:axis], int(k.reshape(-1)[0]), *src.shape[axis + 1 :])
    source = wide(src)
    values, places = place_for(results, 0, shape, source.dtype), place_for(results, 1, shape, S64)
    run("TopK", [source], [values, places], [axis, call.flag("largest")])
    return values.astype(src.dtype, copy=False), places


def running(kind: str, call: Call, arrays: Arrays, results: Sequence[Array]) -> Found:
    """Sums or products of the elements so far."""
    (src,) = arrays
    source = wide(src)
    result = place_for(results, 0, src.shape, source.dtype)
    run(kind, [source], [result], [_axis(call, src), call.flag("exclusive"), call.flag("reverse")])
    return [result.astype(src.dtype, copy=False)]


def non_zero(call: Call, arrays: Arrays, results: Sequence[Array]) -> Found:
    """The indices of the elements other than 0."""
    (src,) = arrays
    source = src.view(np.uint8) if src.dtype == np.bool_ and src.flags.c_contiguous else src
    if src.size < SMALL or not is_number(source):
        return None
    source, counts = dense(source), np.empty(-(-src.size // PART), np.int64)
    run("NonZero", [source, counts], [None])
    ends = np.cumsum(counts)
    result = np.empty((src.ndim, int(ends[-1])), np.int64)
    run("NonZero", [source, ends - counts], [result])
    return [result]


def compress(call: Call, arrays: Arrays, results: Sequence[Array]) -> Found:
    """The slices where a condition holds."""
    src, condition = arrays
    axis = _axis(call, src)
    if not src.size or (src[0].nbytes >= LONG and not axis):
        return None
    places = np.flatnonzero(condition)
    result = np.empty((*src.shape[:axis], len(places), *src.shape[axis + 1 :]), src.dtype)
    if len(places):
        run("Gather", [dense(src), places], [result], [axis], moves=True)
    return [result]


FUNCTIONS: Mapping[str, Callable[[Call, Arrays, Sequence[Array]], Found]] = {
    "Gather": partial(gather, "Gather"),
    "GatherElements": partial(gather, "GatherElements"),
    "GatherND": partial(gather, "GatherND"),
    "WeightedGather": weighted,
    "ScatterElements": partial(scatter, "ScatterElements"),
    "ScatterND": partial(scatter, "ScatterND"),
    "CumSum": partial(running, "CumSum"),
    "CumProd": partial(running, "CumProd"),
    "Compress": compress,
    "TopK": top_k,
    "NonZero": non_zero,
}
