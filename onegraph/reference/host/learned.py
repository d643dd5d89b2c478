"""Computes trees and the choice of a class in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays.trees import (
    BITS,
    COMPARISONS,
    FAILS,
    HEAD,
    HOLDS,
    LEAF,
    MISSING,
    broken,
    broken_weights,
    is_ascending,
    leaf_numbers_of,
    thresholds_of,
)
from ...opset.host.learned import COMPLEMENT, LOGISTIC, MIRROR, NONE, SOFTMAX
from ...opset.schema import Call

Array = NDArray[Any]
COMPARE = dict(
    zip(COMPARISONS, (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal), strict=True)
)
TINY = np.float32(1e-7)


def tree_ensemble(
    call: Call,
    src: Array,
    nodes: Array,
    roots: Array,
    weights: Array,
    base: Array | None = None,
    targets: Array | None = None,
    starts: Array | None = None,
) -> Array:
    """The scores (rows, targets).

    Raises:
        ValueError: a walk through the nodes would leave the table, or not end.
    """
    count, n_leaves = call.s64("n_targets"), len(weights) if starts is None else len(starts) - 1
    wrong = broken(nodes, roots, src.shape[1], n_leaves) or broken_weights(starts, targets, len(weights), count)
    if wrong:
        raise ValueError(wrong)
    scores, reached = np.zeros((len(src), count), src.dtype), np.zeros((len(src), count), np.bool_)
    firsts = np.arange(len(weights)) if starts is None else starts[:-1]
    ends = firsts + 1 if starts is None else starts[1:]
    combine = {"minimum": np.minimum, "maximum": np.maximum}.get(call.string("aggregate"), np.add)
    for leaves in _leaves(src, nodes, roots).T:
        for step in range(int((ends - firsts).max(initial=0))):
            rows = np.flatnonzero(firsts[leaves] + step < ends[leaves])
            taken = firsts[leaves[rows]] + step
            columns = np.zeros(len(rows), np.int64) if targets is None else targets[taken]
            before, is_old = scores[rows, columns], reached[rows, columns]
            scores[rows, columns] = np.where(is_old, combine(before, weights[taken]), weights[taken])
            reached[rows, columns] = True
    if call.flag("absent"):
        scores[~reached] = np.nan
    if call.string("aggregate") == "average":
        scores /= np.asarray(max(len(roots), 1), src.dtype)
    return scores if base is None else scores + base


def _leaves(src: Array, nodes: Array, roots: Array) -> Array:
    """The number of the leaf (rows, trees) at which each walk ends."""
    head, thresholds = nodes[:, HEAD], thresholds_of(nodes)
    kinds = [*np.unique(head[head != LEAF] & (MISSING - 1))]
    at = np.tile(roots.astype(np.int64), (len(src), 1))
    rows = np.arange(len(src))[:, None]
    while (head[at] != LEAF).any():
        x, limit, kind = src[rows, head[at] >> BITS], thresholds[at], head[at] & (MISSING - 1)
        holds = np.isnan(x) & (head[at] & MISSING != 0)
        for mode in kinds:
            holds |= (kind == mode) & COMPARE[COMPARISONS[mode - 1]](x, limit)
        at = np.where(holds, nodes[at, HOLDS], nodes[at, FAILS])
    leaves: Array = leaf_numbers_of(nodes)[at]
    return leaves


def classify(call: Call, src: Array, classes: Array) -> tuple[Array, Array]:
    """Labels (rows,) and scores (rows, classes)."""
    scores = src
    if src.shape[1] == 1 and len(classes) == 2:
        opposite = {COMPLEMENT: 1 - src, MIRROR: -src}.get(call.string("opposite"), np.zeros_like(src))
        scores, best = np.concatenate([opposite, src], axis=1), src[:, 0] > np.float32(call.f32("threshold"))
    else:
        order = np.where(np.isnan(src), -np.inf, src)
        if call.flag("absent"):  # -inf is a score
            best = (~np.isnan(src) & (order == order.max(1, keepdims=True))).argmax(1)
        else:  # a number is larger than the first one, or it is not
            order = np.where(np.isnan(src[:, :1]), -np.inf, order)
            order[:, 0] = np.where(np.isnan(src[:, 0]), np.inf, order[:, 0])
            best = order.argmax(1)
    if call.flag("absent"):
        scores = np.where(np.isnan(scores), 0, scores)
    return classes[best.astype(np.int64)], _transformed(call.string("transform"), scores.astype(np.float32))


def _transformed(transform: str, scores: Array) -> Array:
    if transform == NONE:
        return scores
    if transform == LOGISTIC:
        tail = np.exp(-np.abs(scores))
        probabilities: Array = np.where(scores < 0, tail / (1 + tail), 1 / (1 + tail))
        return probabilities
    most = scores.max(1, keepdims=True, initial=np.finfo(np.float32).min)
    powers: Array = np.exp(scores - most)
    if transform == SOFTMAX:
        return powers / powers.sum(1, keepdims=True)
    counted = np.abs(scores) > TINY
    total = np.where(counted, powers, 0).sum(1, keepdims=True)
    return np.where(counted, powers, scores * np.exp(-most)) / total


def look_up(call: Call, src: Array, keys: Array, values: Array, default: Array) -> Array:
    """The values of keys.

    Raises:
        ValueError: the keys are not in ascending order.
    """
    if not is_ascending(keys):
        raise ValueError("keys that are not in ascending order")
    place = np.minimum(np.searchsorted(keys, src), len(keys) - 1)  # NaN comes last in numpy's order too
    same = keys[place] == src
    if keys.dtype.kind == "f":
        same |= np.isnan(keys[place]) & np.isnan(src)
    return np.where(same, values[place], default)


def couple_pairs(call: Call, src: Array) -> Array:
    """Probabilities (rows, classes), which solve the system of the paper by turns, one class after another."""
    count, rows = call.s64("classes"), len(src)
    pairs = np.zeros((rows, count, count))
    upper = np.triu_indices(count, 1)
    pairs[:, upper[0], upper[1]], pairs[:, upper[1], upper[0]] = src, 1 - src
    system = -np.swapaxes(pairs, 1, 2) * pairs
    diagonal = np.arange(count)
    system[:, diagonal, diagonal] = (pairs**2).sum(1)
    probabilities = np.full((rows, count), 1 / count)
    open_ = np.arange(rows)
    for _ in range(100):
        part, chosen = system[open_], probabilities[open_]
        products = np.einsum("nij,nj->ni", part, chosen)
        whole = (chosen * products).sum(1)
        goes_on = np.abs(products - whole[:, None]).max(1, initial=0) >= 0.005 / count
        if not goes_on.any():
            break
        open_, part, chosen, products, whole = (one[goes_on] for one in (open_, part, chosen, products, whole))
        for own in range(count):
            step = (whole - products[:, own]) / part[:, own, own]
            chosen[:, own] += step
            whole = (whole + step * (step * part[:, own, own] + 2 * products[:, own])) / (1 + step) ** 2
            products = (products + step[:, None] * part[:, own]) / (1 + step)[:, None]
            chosen /= (1 + step)[:, None]
        probabilities[open_] = chosen
    return probabilities.astype(src.dtype)


def count_tuples(call: Call, src: Array) -> Array:
    """How often each tuple stands in a row, without and with elements between its own."""
    counts = np.zeros((*src.shape[:-1], call.s64("width")), np.float32)
    length, first, tuples = src.shape[-1], 0, np.array(call.s64s("tuples"), np.int64)
    for size, column in zip(call.s64s("sizes"), call.s64s("columns"), strict=True):
        for step in range(1, 2 if size == 1 else min(call.s64("skips") + 2, length + 1)):
            starts = np.arange(max(length - (size - 1) * step, 0))
            places = starts[:, None] + step * np.arange(size)
            counts[..., column] += (src[..., places] == tuples[first : first + size]).all(-1).sum(-1)
        first += size
    return counts
