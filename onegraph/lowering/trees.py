"""Adds decision trees, and the choice of a class, to a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..arrays.trees import LEAF, MOST_FEATURES, Trees, ordered, table_of
from ..opset.host.learned import SUM
from .emitter import Array, Emitter, Value


class LeafWeights(NamedTuple):
    """What leaves add to targets.

    Attributes:
        node: the leaf of each weight, as a node of the trees; a weight of another node has no meaning.
        target: the target of each weight.
        number: the weights, in the data type of the thresholds.
    """

    node: Array
    target: Array
    number: Array


def tree_ensemble(
    emit: Emitter,
    src: Value,
    trees: Trees,
    weights: LeafWeights,
    n_targets: int,
    *,
    aggregate: str = SUM,
    base: Array | None = None,
    absent: bool = False,
) -> Value:
    """The scores (rows, targets) of rows of features, in the data type of the thresholds, which src has.

    Raises:
        ValueError: the trees are malformed.
    """
    order = ordered(trees)
    inner = order[trees.comparison[order] != LEAF]
    wrong = trees.feature[inner][(trees.feature[inner] < 0) | (trees.feature[inner] >= MOST_FEATURES)]
    if len(wrong):
        raise ValueError(f"feature {wrong[0]}; expected one from 0 to {MOST_FEATURES - 1}")
    if ((weights.node < 0) | (weights.node >= len(trees.feature))).any():
        raise ValueError("a weight of a node that does not exist")
    out = weights.target[(weights.target < 0) | (weights.target >= n_targets)]
    if len(out):
        raise ValueError(f"target {out[0]} of {n_targets}")
    leaves = np.full(len(trees.feature), -1)
    ends = order[trees.comparison[order] == LEAF]
    leaves[ends] = np.arange(len(ends))
    owner = leaves[weights.node]
    by_leaf = np.argsort(owner, kind="stable")[np.count_nonzero(owner < 0) :]
    counts = np.bincount(owner[by_leaf], minlength=len(ends))
    table, roots = table_of(trees, order, leaves)
    contributions = weights.number[by_leaf], weights.target[by_leaf].astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    has_starts = bool((counts != 1).any())
    has_targets = has_starts or n_targets > 1
    if has_targets and base is None:  # an absent input has none behind it
        base = np.zeros(n_targets, trees.threshold.dtype)
    optional = [base, contributions[1] if has_targets else None, starts if has_starts else None]
    inputs = [src, table, roots, contributions[0], *optional]
    attrs: Mapping[str, object] = {"n_targets": n_targets, "aggregate": aggregate, "absent": absent}
    return emit.op("TreeEnsemble", inputs, attrs)


def classify(emit: Emitter, src: Value, classes: Array, attrs: Mapping[str, object]) -> tuple[Value, Value]:
    """The label of each row of scores, and the scores behind a transform; see the host op Classify for ``attrs``."""
    results: Any = emit.op("Classify", [src, classes.astype(np.int64)], attrs)
    return results[0], results[1]
