"""Computes nodes that select, order and rewrite elements by their contents."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...._util.counted import counted
from ....errors import LibraryError
from ....lowering.elementwise import binary, filled, select
from ....lowering.emitter import Array, Value, numbers, rank_of, shape_of
from ....lowering.movement import as_s64, cast, concat, reshape
from ....opset.shapes import known_dims
from ..node import Node, NotLowered, Unsettled, computes, lowers
from .indexing import running

MOST_PLACES = 1 << 24  # of an axis, which a constant numbers


@lowers("Hardmax")
def hardmax(node: Node) -> Value:
    """1 at the first of the largest elements along an axis, and 0 elsewhere."""
    axis, shape = node.attr("axis", -1), node.shape()
    if shape is None or shape[axis] is None:
        raise NotLowered("the size of the axis is unknown")
    if shape[axis] == 0:
        return node.value(0)
    if shape[axis] > MOST_PLACES:
        raise NotLowered("numbers of so many places take memory")
    axis %= len(shape)
    places = np.arange(shape[axis]).reshape(-1, *(1,) * (len(shape) - axis - 1))
    largest = node.emit.op("ArgMax", [node.value(0)], {"axis": axis, "keep_dims": True, "last": False})
    return cast(node.emit, binary(node.emit, "Equal", largest, places), node.dtype())


@lowers("Compress")
def compress(node: Node) -> Value:
    """The elements or slices where a condition holds."""
    src, axis = node.value(0), node.attr("axis")
    src = reshape(node.emit, src, numbers(-1)) if axis is None else src
    condition = node.value(1)
    condition = condition if rank_of(condition) == 1 else reshape(node.emit, condition, numbers(-1))
    return node.emit.op("Compress", [src, condition], {"axis": axis or 0})


@lowers("ReverseSequence")
def reverse_sequence(node: Node) -> Value:
    """Sequences of given lengths, each from its end to its begin. A wrong length becomes an index out of range."""
    emit, src, lengths, shape = node.emit, node.value(0), as_s64(node.emit, node.value(1)), node.shape()
    batch, time = node.attr("batch_axis", 1), node.attr("time_axis", 0)
    if shape is None or None in shape[:2]:
        raise Unsettled("unknown dims")
    dims = [*known_dims(shape[:2])]
    count, size = dims[batch], dims[time]
    if shape_of(lengths) not in ((count,), (None,)):
        raise node.invalid(f"{shape_of(lengths)} as the shape of lengths", f"({count},)")
    lengths = emit.op("Where", [binary(emit, "Less", lengths, numbers(0)), numbers(size + 1), lengths])
    lengths = reshape(emit, lengths, [count if axis == batch else 1 for axis in (0, 1)])
    grid = np.ogrid[: dims[0], : dims[1]]
    steps, images = grid[time], grid[batch]
    turned = binary(emit, "Subtract", binary(emit, "Subtract", lengths, numbers(1)), steps)
    places = emit.op("Where", [binary(emit, "Less", steps, lengths), turned, steps])
    ends = [places, np.broadcast_to(images, dims)]
    tuples = concat(emit, [reshape(emit, one, [*dims, 1]) for one in (ends if time == 0 else ends[::-1])], 2)
    return emit.op("GatherND", [src, tuples], {"batch_dims": 0})


@cache
def _kernels() -> Any:
    """The kernels of nodes; None where there is no library."""
    try:
        from ....compiler.array_kernels import nodes
    except LibraryError:
        return None
    return nodes


def _distinct(src: Array) -> tuple[Array, Array, Array, Array]:
    """As numpy's unique, whose calls take longer than few elements need; NaN is one element."""
    kernels = _kernels()
    found: tuple[Array, Array, Array, Array] | None = None if kernels is None else kernels.distinct(src)
    if found is not None:
        return found
    order = src.argsort(kind="stable")
    ordered, begins = src[order], np.ones(src.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    if src.dtype.kind == "f":  # NaN comes last
        begins[np.searchsorted(ordered, np.nan) + 1 :] = False
    (places,), inverse = begins.nonzero(), np.empty(src.size, np.int64)
    inverse[order] = begins.cumsum() - 1
    counts = np.empty(places.size, np.int64)
    np.subtract(places[1:], places[:-1], out=counts[:-1])
    counts[-1:] = src.size - places[-1:]
    return ordered[places], order[places], inverse, counts


@computes("Unique")
def unique(node: Node) -> tuple[Array, ...]:
    """Each element or slice once, with its first place, the places of all, and their number."""
    axis, src = node.attr("axis"), node.array(0)
    along = 0 if axis is None else axis
    src = src.reshape(-1) if axis is None else src
    values, first, inverse, counts = _distinct(src) if src.ndim == 1 else np.unique(src, True, True, True, axis=along)
    inverse = inverse.reshape(-1)
    if not node.attr("sorted", 1):
        order = np.argsort(first)
        rank = np.argsort(order)
        values, first, inverse, counts = np.take(values, order, along), first[order], rank[inverse], counts[order]
    return values.astype(src.dtype, copy=False), *[one.astype(np.int64, copy=False) for one in (first, inverse, counts)]


def _tuples_of(node: Node) -> dict[tuple[int, ...], int]:
    """The tuples of the lengths that a TfIdfVectorizer counts, each with its number; of equal ones the last number."""
    pool, places, columns = (node.attr(name, []) for name in ("pool_int64s", "ngram_counts", "ngram_indexes"))
    ends, lengths = [*places[1:], len(pool)], range(node.attr("min_gram_length"), node.attr("max_gram_length") + 1)
    found, number = dict[tuple[int, ...], int](), 0
    if places[:1] != [0] or sorted(ends) != ends or min(columns, default=-1) < 0:
        raise node.invalid(f"ngram_counts {places} and ngram_indexes {columns}", "the begins of lists, and columns")
    for size, (begin, end) in enumerate(zip(places, ends, strict=True), 1):
        for first in range(begin, end, size):
            if size in lengths:
                found[tuple(pool[first : first + size])] = number
            number += 1
        if (end - begin) % size:
            raise node.invalid(f"{end - begin} elements of tuples of {size}", f"a multiple of {size}")
    if number != len(columns):
        raise node.invalid(f"{counted(len(columns), 'column')} in ngram_indexes", f"{number}, one for each tuple")
    return found


@lowers("TfIdfVectorizer")
def tf_idf_vectorizer(node: Node) -> Value:
    """How often tuples stand in rows, or whether they do, times the weights of the tuples."""
    if node.attr("pool_strings"):
        raise NotLowered("strings, which no tensor of a graph has")
    emit, tuples, columns, mode = node.emit, _tuples_of(node), node.attr("ngram_indexes"), node.attr("mode")
    width, given = max(columns) + 1, np.array(node.attr("weights", []), np.float32)
    if mode not in ("TF", "IDF", "TFIDF") or len(given) not in (0, len(columns)):
        raise node.invalid(f"mode {mode} with {counted(len(given), 'weight')}", "TF, IDF or TFIDF, a weight a tuple")
    places, weights = [columns[number] for number in tuples.values()], np.ones(width, np.float32)
    if len(given) and mode != "TF":
        chosen = given[[*tuples.values()]]
        weights[places] = chosen
        if not np.array_equal(weights[places], chosen):
            raise NotLowered("tuples with other weights in one column")
    attrs = {
        "tuples": [element for one in tuples for element in one],
        "sizes": [*map(len, tuples)],
        "columns": places,
        "width": width,
        "skips": node.attr("max_skip_count"),
    }
    counts = emit.op("CountTuples", [node.value(0)], attrs)
    if mode == "IDF":
        return select(emit, binary(emit, "Greater", counts, filled(0, counts)), weights, filled(0, counts))
    return binary(emit, "Multiply", counts, weights) if mode == "TFIDF" and len(given) else counts


@computes("TensorScatter")
def tensor_scatter(node: Node) -> Array:
    """A cache with updates, for each image from a place on."""
    cache, update, axis = node.array(0).copy(), node.array(1), node.attr("axis", -2)
    starts = np.zeros(cache.shape[0], np.int64) if node.known(2) is None else node.array(2)
    size, count = cache.shape[axis], update.shape[axis]
    whole, part = np.moveaxis(cache, axis, 1), np.moveaxis(update, axis, 1)
    circular = node.attr("mode", "linear") == "circular"
    if not circular and ((starts < 0).any() or (starts + count > size).any()):
        raise node.invalid(
            f"write_indices {starts.tolist()} and {counted(count, 'update')}", f"places in a cache of {size}"
        )
    for place, start in enumerate(starts.tolist()):
        at = np.arange(start, start + count)
        whole[place, at % size if circular else at] = part[place]
    return cache


@lowers("CumProd")
def cum_prod(node: Node) -> Value:
    """Products along an axis."""
    return running(node)


@computes("BitCast", shaped=True)
def bit_cast(node: Node) -> Array:
    """The same bits as another data type."""
    wanted = node.importer.dtype(node.attr("to"), node.where).numpy
    src = node.array(0)
    if src.dtype.itemsize != wanted.itemsize:
        raise node.invalid(f"{src.dtype} as {wanted}", "a data type of as many bits")
    result: Array = np.ascontiguousarray(src).view(wanted).reshape(src.shape)
    return result


@computes("Det", shaped=True)
def determinant(node: Node) -> Array:
    """The determinant of each matrix."""
    src, kernels = node.array(0), _kernels()
    result: Array | None = None if kernels is None else kernels.determinants(src)
    return np.asarray(np.linalg.det(node.wide(0))).astype(src.dtype) if result is None else result
