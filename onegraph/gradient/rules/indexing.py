"""Gradients of host ops that select elements by indices: elements come from places, gradients go back to them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...lowering.elementwise import binary, filled, multiply, select
from ...lowering.emitter import Emitter, Value, dtype_of, known_rank, numbers
from ...lowering.movement import as_s64, concat, dims_of, expand, reshape, transpose, unsqueeze
from ...lowering.reduction import reduce
from ...lowering.shares import Shares
from ...opset.shapes import known, known_dims
from ..use import GradientUse, Scattered
from .elementwise import one_minus
from .table import flat, gradient_of, refused

flat("ArgMax, ArgMin, NonZero", "its result is an index")
flat("Shape, Size", "its result depends on the shape alone")
refused("host Range", "its inputs decide the shape of its result")


def zeros_like(emit: Emitter, like: Value, diff: Value) -> Value:
    """Zeros of a shape, in the data type of a gradient."""
    zero = filled(0, diff)
    if not known(like.shape):
        return expand(emit, zero, dims_of(emit, like))
    # Large zeros of numpy take no memory as long as they are only read.
    return np.zeros(known_dims(like.shape), np.asarray(zero).dtype)


def axis_of(use: GradientUse) -> int:
    """The attribute ``axis``, counted from the first axis of src."""
    return use.call.s64("axis") % use.rank("src")


@gradient_of("Gather", "src")
def gather(emit: Emitter, use: GradientUse, diff: Value) -> Value | Scattered:
    axis = axis_of(use)
    if axis:
        return taken_back(emit, use["src"], use["indices"], diff, axis)
    return rows_taken_back(emit, use["indices"], diff)


def rows_taken_back(emit: Emitter, indices: Value, diff: Value) -> Scattered:
    """The gradient of the slices at indices along the first axis."""
    return Scattered(diff, "ScatterND", unsqueeze(emit, as_s64(emit, indices), [-1]), {"reduction": "add"})


def taken_back(emit: Emitter, src: Value, indices: Value, diff: Value, axis: int) -> Value:
    """The gradient with respect to src of the slices of src at indices along an axis."""
    rank, count = known_rank(src), known_rank(indices)
    front = [axis, *(axis_ for axis_ in range(rank) if axis_ != axis)]
    zeros = transpose(emit, zeros_like(emit, src, diff), front)
    order = [*range(axis, axis + count), *range(axis), *range(axis + count, rank - 1 + count)]
    places = unsqueeze(emit, as_s64(emit, indices), [-1])
    scattered = emit.op("ScatterND", [zeros, places, transpose(emit, diff, order)], {"reduction": "add"})
    return transpose(emit, scattered, np.argsort(front).tolist())


@gradient_of("GatherElements", "src")
def gather_elements(emit: Emitter, use: GradientUse, diff: Value) -> Scattered:
    return Scattered(diff, "ScatterElements", use["indices"], {"axis": use.call.s64("axis"), "reduction": "add"})


@gradient_of("GatherND", "src")
def gather_nd(emit: Emitter, use: GradientUse, diff: Value) -> Scattered:
    indices, batch = as_s64(emit, use["indices"]), use.call.s64("batch_dims")
    if batch:
        dims = use.dims("indices")
        own = np.moveaxis(np.indices(dims[:-1], np.int64)[:batch], 0, -1)
        indices = concat(emit, [np.ascontiguousarray(own), indices], -1)
    return Scattered(diff, "ScatterND", indices, {"reduction": "add"})


@gradient_of("WeightedGather", "src")
def weighted(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    axis = axis_of(use)
    indices = np.reshape(use.value("indices"), use.dims("indices")).astype(np.int64)
    places = np.arange(float(indices.size)).reshape(indices.shape)
    turned, places = Shares(indices, places).turned(use.dims("src")[axis])
    weights = emit.op("Gather", [reshape(emit, use["weights"], numbers(-1)), places.astype(np.int64)], {"axis": 0})
    return emit.op("WeightedGather", [diff, turned, weights], {"axis": axis})


@gradient_of("WeightedGather", "weights")
def weights(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    """The sums of the products of the gradient and the elements at the indices; 0 where an index adds nothing."""
    axis, rank = axis_of(use), use.rank("src")
    indices = as_s64(emit, use["indices"])
    counts = binary(emit, "GreaterEqual", indices, np.array(0))
    elements = emit.op("Gather", [use["src"], binary(emit, "Maximum", indices, np.array(0))], {"axis": axis})
    products = multiply(emit, elements, unsqueeze(emit, diff, [axis + 1]))
    sums = reduce(emit, "ReduceSum", products, [a for a in range(rank + 1) if a not in (axis, axis + 1)], keep=False)
    return select(emit, counts, sums, filled(0, sums))


@gradient_of("ScatterElements, ScatterND", "src")
def scattered_into(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    reduction = use.call.string("reduction")
    if reduction == "add":
        return diff
    if reduction == "none":
        return _scatter(emit, use, diff, zeros_like(emit, use["updates"], diff), "none")
    if reduction == "mul":
        factors = _scatter(emit, use, _ones(emit, use["src"]), use["updates"], "mul")
        return multiply(emit, diff, factors)
    return multiply(emit, _best(emit, use["src"], use.result("dst")), _share(emit, use, diff))


@gradient_of("ScatterElements, ScatterND", "updates")
def updates(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    reduction = use.call.string("reduction")
    if reduction in ("add", "none"):
        return _gather(emit, use, diff)
    if reduction == "mul":
        return multiply(emit, _gather(emit, use, diff), _other_factors(emit, use))
    best = _best(emit, use["updates"], _gather(emit, use, use.result("dst")))
    return multiply(emit, best, _gather(emit, use, _share(emit, use, diff)))


def _other_factors(emit: Emitter, use: GradientUse) -> Value:
    """For each update, the product of src and of the other updates of its element, of which some may be 0."""
    updates = use["updates"]
    zero, unit = filled(0, updates), _ones(emit, updates)
    is_zero = binary(emit, "Equal", updates, zero)
    safe, lone = select(emit, is_zero, unit, updates), select(emit, is_zero, unit, zero)
    product = binary(emit, "Divide", _gather(emit, use, _scatter(emit, use, use["src"], safe, "mul")), safe)
    zeros = _gather(emit, use, _scatter(emit, use, zeros_like(emit, use["src"], updates), lone, "add"))
    return select(emit, binary(emit, "Equal", zeros, lone), product, zero)


def _ones(emit: Emitter, like: Value) -> Value:
    return expand(emit, filled(1, like), dims_of(emit, like))


def _best(emit: Emitter, value: Value, extreme: Value) -> Value:
    """1 where a value is the extreme, else 0."""
    return select(emit, binary(emit, "Equal", value, extreme), _ones(emit, value), filled(0, value))


def _share(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    """The gradient divided by the number of equal extremes."""
    best = _best(emit, use["src"], use.result("dst"))
    best_update = _best(emit, use["updates"], _gather(emit, use, use.result("dst")))
    return binary(emit, "Divide", diff, _scatter(emit, use, best, best_update, "add"))


def _scatter(emit: Emitter, use: GradientUse, src: Value, values: Value, reduction: str) -> Value:
    attrs = {**use.call.given, "reduction": reduction}
    return emit.op(_kind(use), [src, use["indices"], values], attrs)


def _gather(emit: Emitter, use: GradientUse, src: Value) -> Value:
    if _kind(use) == "ScatterND":
        return emit.op("GatherND", [src, use["indices"]])
    return emit.op("GatherElements", [src, use["indices"]], {"axis": use.call.s64("axis")})


def _kind(use: GradientUse) -> str:
    return use.base.kind.removeprefix("host ")


@gradient_of("TopK", "src")
def top_k(emit: Emitter, use: GradientUse, diff: Value | None, _indices: None = None) -> Scattered | None:
    attrs = {"axis": use.call.s64("axis"), "reduction": "add"}
    return None if diff is None else Scattered(diff, "ScatterElements", use.result("indices"), attrs)


@gradient_of("CumSum", "src")
def cum_sum(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    attrs: Mapping[str, object] = {**use.call.given, "reverse": not use.call.flag("reverse")}
    return emit.op("CumSum", [diff], attrs)


@gradient_of("OneHot", "values")
def one_hot(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    """The sum of the gradient where values[0] is, and where values[1] is."""
    ends = np.array([0, 1], dtype_of(diff).numpy)
    hot = emit.op("OneHot", [use["indices"], use["depth"], ends], dict(use.call.given))
    sums = [
        reduce(emit, "ReduceSum", multiply(emit, diff, indicator), None, keep=False)
        for indicator in (one_minus(emit, hot), hot)
    ]
    return concat(emit, [unsqueeze(emit, indicator, [0]) for indicator in sums], 0)
