"""Lowers support vector machines."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from ...._util.counted import counted
from ....lowering.elementwise import add, binary, filled, multiply, negative, select, unary
from ....lowering.emitter import Array, Value
from ....lowering.layers import matmul
from ....lowering.movement import cast, concat
from ....lowering.reduction import reduce
from ....opset.dtypes import DataType
from ..node import Node, lowers
from ..proven import ML
from .ml import labels_of, refused, rows_of

KINDS = ("LINEAR", "POLY", "RBF", "SIGMOID")
LEAST = 1e-7  # of a probability of one class of a pair


def _floats(node: Node, name: str) -> Array:
    return np.array(node.attr(name, []), np.float32)


def _kernel(node: Node, count: int) -> Value:
    """The kernel of each row with each of the support vectors, (rows, vectors)."""
    emit, src, vectors = node.emit, cast(node.emit, rows_of(node), DataType.f32), _floats(node, "support_vectors")
    kind, parameters = node.attr("kernel_type", "LINEAR"), _floats(node, "kernel_params")
    if kind not in KINDS or len(vectors) % count or not len(vectors):
        raise node.invalid(
            f"kernel_type {kind}, {counted(len(vectors), 'support_vector')}",
            f"{', '.join(KINDS)}; {counted(count, 'vector')}",
        )
    gamma, coef, degree = (float(one) for one in (parameters if len(parameters) == 3 else [0, 0, 0]))
    vectors = vectors.reshape(count, -1)
    if kind == "RBF":  # around the mean of the vectors, so that the squares do not cancel
        mean = vectors.mean(0)
        src, vectors = binary(emit, "Subtract", src, mean), vectors - mean
    products = matmul(emit, src, np.ascontiguousarray(vectors.T))
    if kind == "LINEAR":
        return products
    if kind == "RBF":
        squares = reduce(emit, "ReduceSum", multiply(emit, src, src), [-1], keep=True)
        sums = add(emit, squares, (vectors**2).sum(1, dtype=np.float32))
        distance = unary(emit, "ReLU", binary(emit, "Subtract", sums, multiply(emit, products, filled(2, products))))
        return unary(emit, "Exp", multiply(emit, distance, filled(-gamma, distance)))
    inner = add(emit, multiply(emit, products, filled(gamma, products)), filled(coef, products))
    return unary(emit, "Tanh", inner) if kind == "SIGMOID" else unary(emit, "Pow", inner, {"beta": degree})


@lowers("SVMRegressor", domain=ML)
def regressor(node: Node) -> Value:
    """Sums of the kernel of each support vector with a coefficient, plus rho; or the side on which they are."""
    count, weights, rho = node.attr("n_supports", 0), _floats(node, "coefficients"), _floats(node, "rho")
    if count < 1 or node.attr("post_transform", "NONE") != "NONE":
        raise refused(node, "no support vectors, or a post_transform")
    if len(weights) != count or len(rho) != 1:
        raise node.invalid(f"{counted(len(weights), 'coefficient')}, {len(rho)} rho", f"{count} and 1")
    emit = node.emit
    result = matmul(emit, _kernel(node, count), weights[:, None], rho)
    if not node.attr("one_class", 0):
        return result
    return select(emit, binary(emit, "Greater", result, filled(0, result)), filled(1, result), filled(-1, result))


@lowers("SVMClassifier", domain=ML)
def classifier(node: Node) -> tuple[Value, Value]:
    """The class for which most pairs decide, and the scores of pairs, or probabilities."""
    emit, classes = node.emit, labels_of(node, "classlabels_ints")
    sizes, rho = [int(one) for one in node.attr("vectors_per_class", [])], _floats(node, "rho")
    if not sum(sizes) or node.attr("post_transform", "NONE") != "NONE":
        raise refused(node, "no support vectors, or a post_transform")
    pairs = [*combinations(range(len(classes)), 2)]
    scores = matmul(emit, _kernel(node, sum(sizes)), _pair_weights(node, sizes, pairs), rho[: len(pairs)])
    decides = cast(emit, binary(emit, "Greater", scores, filled(0, scores)), DataType.f32)
    votes = add(emit, matmul(emit, decides, _votes(pairs, len(classes))), _against(pairs, len(classes)))
    best = emit.op("ArgMax", [votes], {"axis": 1, "keep_dims": False})
    label = emit.op("Gather", [classes, best], {"axis": 0})
    first, second = _floats(node, "prob_a"), _floats(node, "prob_b")
    if len(first) or len(second):
        if len(first) < len(pairs) or len(second) < len(pairs):
            raise node.invalid(f"{len(first)} prob_a and {len(second)} prob_b", f"{len(pairs)}, one for each pair")
        return label, _probabilities(node, scores, first[: len(pairs)], second[: len(pairs)], len(classes))
    return label, scores if len(classes) > 2 else concat(emit, [negative(emit, scores), scores], 1)


def _pair_weights(node: Node, sizes: list[int], pairs: list[Any]) -> Array:
    """What each support vector adds to the score of each pair of classes."""
    weights, total = _floats(node, "coefficients"), sum(sizes)
    rows = len(sizes) - 1
    if len(pairs) < 1 or len(weights) < rows * total or min(sizes) < 0 or len(node.attr("rho", [])) < len(pairs):
        expected = f"{rows * total} coefficients and {len(pairs)} rho for {counted(len(sizes), 'class')}"
        raise node.invalid(f"{counted(len(weights), 'coefficient')}, {len(node.attr('rho', []))} rho", expected)
    if len(sizes) * (len(sizes) - 1) // 2 != len(pairs):
        raise node.invalid(f"vectors_per_class of {counted(len(sizes), 'element')}", "one for each class")
    table, ends = weights[: rows * total].reshape(rows, total), np.cumsum([0, *sizes])
    result = np.zeros((total, len(pairs)), np.float32)
    for place, (first, second) in enumerate(pairs):
        for own, row in ((first, second - 1), (second, first)):
            members = slice(ends[own], ends[own + 1])
            result[members, place] = table[row, members]
    return result


def _votes(pairs: list[Any], count: int) -> Array:
    """By pair and class: 1 for the first class, and -1 for the second one, which has lost."""
    result = np.zeros((len(pairs), count), np.float32)
    for place, (first, second) in enumerate(pairs):
        result[place, first], result[place, second] = 1, -1
    return result


def _against(pairs: list[Any], count: int) -> Array:
    """The votes if the second class of each pair wins."""
    return np.bincount([second for _, second in pairs], minlength=count).astype(np.float32)


def _probabilities(node: Node, scores: Value, first: Array, second: Array, count: int) -> Value:
    emit = node.emit
    inner = negative(emit, add(emit, multiply(emit, scores, first), second))
    pairs = unary(emit, "Sigmoid", inner)
    pairs = emit.op("Clamp", [pairs], {"min": LEAST, "max": 1 - LEAST})
    return emit.op("CouplePairs", [pairs], {"classes": count})
