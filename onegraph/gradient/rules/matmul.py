"""Gradients of MatMul. A vector is seen as a matrix, and weights that all batches share get one product."""

from __future__ import annotations

from ...lowering.emitter import Emitter, Value, known_rank, numbers, rank_of
from ...lowering.layers import matmul
from ...lowering.movement import reshape, unsqueeze
from ...lowering.reduction import reduce
from ...opset.shapes import known, known_dims
from ..use import GradientUse, MatrixGradient
from .binary import operand
from .table import gradient_of


@gradient_of("MatMul", "src")
def src(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    weights, diff = _matrix(emit, use, "weights", diff), _matrices(emit, use, diff)
    turned, turned_weights = _turned(use, "transpose_a", "src"), _turned(use, "transpose_b", "weights")
    if turned:
        product = matmul(emit, weights, diff, transpose_a=turned_weights, transpose_b=True)
    else:
        product = matmul(emit, diff, weights, transpose_b=not turned_weights)
    return _without_axis(emit, use, product, "src", -2)


@gradient_of("MatMul", "weights")
def weights(emit: Emitter, use: GradientUse, diff: Value) -> Value | MatrixGradient:
    source, diff = _matrix(emit, use, "src", diff), _matrices(emit, use, diff)
    turned, turned_src = _turned(use, "transpose_a", "src"), _turned(use, "transpose_b", "weights")
    if rank_of(use["weights"]) in (1, 2) and known_rank(source) > 2 and not turned and _fits(source, diff):
        source, diff = (reshape(emit, one, numbers(-1, known_dims(one.shape)[-1])) for one in (source, diff))
    if not turned and use.call.rank("weights") == 2 and _are_few(source, diff):
        return MatrixGradient(diff, source) if turned_src else MatrixGradient(source, diff)
    if turned_src:
        product = matmul(emit, diff, source, transpose_a=True, transpose_b=turned)
    else:
        product = matmul(emit, source, diff, transpose_a=not turned)
    return _without_axis(emit, use, product, "weights", -1)


@gradient_of("MatMul", "bias")
def bias(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    return diff


def _fits(source: Value, diff: Value) -> bool:
    """Whether both have the same batches and known columns, so that they can be seen as matrices."""
    rows, columns = known_dims(source.shape), known_dims(diff.shape)
    return known(source.shape) and rows[:-1] == columns[:-1] and columns[-1] != 0


def _are_few(source: Value, diff: Value) -> bool:
    """Whether both are matrices of few rows, whose copy takes less time than a sum of gradients of the weights."""
    if not known(source.shape) or not known(diff.shape) or len(source.shape) != 2:
        return False
    (rows, inputs), (_, outputs) = source.shape, diff.shape
    return 2 * rows * (inputs + outputs) <= inputs * outputs


def _turned(use: GradientUse, attribute: str, port: str) -> bool:
    return use.call.flag(attribute) and use.rank(port) > 1


def _matrix(emit: Emitter, use: GradientUse, port: str, diff: Value) -> Value:
    """An input as matrices: a vector is one row of src, or one column of the weights."""
    value = operand(emit, use, port, diff)
    return unsqueeze(emit, value, [0 if port == "src" else 1]) if rank_of(value) == 1 else value


def _matrices(emit: Emitter, use: GradientUse, diff: Value) -> Value:
    """The gradient with the axes that a vector lacks."""
    if use.rank("weights") == 1:
        diff = unsqueeze(emit, diff, [-1])
    return unsqueeze(emit, diff, [-2]) if use.rank("src") == 1 else diff


def _without_axis(emit: Emitter, use: GradientUse, gradient_: Value, port: str, axis: int) -> Value:
    """The gradient with respect to a vector: summed over the batches, without the axis that the vector lacks."""
    if use.call.rank(port) != 1:
        return gradient_
    rank = known_rank(gradient_)
    vector_axis = rank + (-1 if axis == -2 else -2)
    axes = [axis_ for axis_ in range(rank) if axis_ != vector_axis]
    return reduce(emit, "ReduceSum", gradient_, axes, keep=False)
