"""Lays out decision trees as a table of nodes, which a kernel reads word by word."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._util.counted import counted

Array = NDArray[Any]

# The comparisons of a number x with the threshold of a node; 0 is a leaf.
COMPARISONS = ("<=", "<", ">=", ">", "==", "!=")
LEAF, MISSING, BITS = 0, 8, 4  # a missing number goes where the comparison holds; bits of a word behind the feature
HEAD, HOLDS, FAILS = 0, 1, 2  # the first words of a node
MOST_FEATURES = 1 << 27


def words_of(dtype: np.dtype[Any]) -> int:
    """The 32-bit words of a node with a threshold of a data type."""
    return 4 if dtype.itemsize == 4 else 6


def thresholds_of(nodes: Array) -> Array:
    """The thresholds in a table of nodes; that of a leaf has no meaning."""
    first, dtype = (3, np.float32) if nodes.shape[1] == 4 else (4, np.float64)
    thresholds: Array = np.ascontiguousarray(nodes[:, first:]).view(dtype)[:, 0]
    return thresholds


def leaf_numbers_of(nodes: Array) -> Array:
    """The numbers of the leaves in a table of nodes; that of another node has no meaning."""
    return nodes[:, 3 if nodes.shape[1] == 4 else 4]


class Trees(NamedTuple):
    """Nodes in any order, by their numbers.

    Attributes:
        feature, threshold: what is compared.
        comparison: 1 + the place in ``COMPARISONS``; 0 for a leaf.
        missing: whether a missing number goes where the comparison holds.
        holds, fails: the next node; of a leaf any number.
        roots: the first node of each tree.
    """

    feature: Array
    threshold: Array
    comparison: Array
    missing: Array
    holds: Array
    fails: Array
    roots: Array


def ordered(trees: Trees) -> Array:
    """The nodes that the roots reach, each in front of the next ones: tree by tree, unless trees share nodes.

    Raises:
        ValueError: a node does not exist, or nodes lead back to themselves.
    """
    count = len(trees.feature)
    for name in ("holds", "fails", "roots"):
        chosen = slice(None) if name == "roots" else trees.comparison != LEAF
        wrong = [number for number in getattr(trees, name)[chosen] if not 0 <= number < count]
        if wrong:
            raise ValueError(f"node {wrong[0]} of {count}")
    tree, level = np.full(count, -1), np.zeros(count, np.int64)
    tree[trees.roots] = np.arange(len(trees.roots))
    places = np.unique(trees.roots)
    for depth in range(count + 1):
        level[places] = depth  # of several ways to a node, the longest one
        inner = places[trees.comparison[places] != LEAF]
        if not len(inner):
            break
        following = np.concatenate([trees.holds[inner], trees.fails[inner]])
        is_new = tree[following] < 0
        tree[following[is_new]] = np.tile(tree[inner], 2)[is_new]
        places = np.unique(following)
    else:
        raise ValueError("nodes that lead back to themselves")
    reached = np.flatnonzero(tree >= 0)
    in_level_order = reached[np.lexsort((level[reached], tree[reached]))]
    place = np.zeros(count, np.int64)
    place[in_level_order] = np.arange(len(in_level_order))
    inner = in_level_order[trees.comparison[in_level_order] != LEAF]
    in_order = (place[trees.holds[inner]] > place[inner]) & (place[trees.fails[inner]] > place[inner])
    by_level: Array = reached[np.argsort(level[reached], kind="stable")]
    return in_level_order if in_order.all() else by_level


def table_of(trees: Trees, order: Array, leaves: Array) -> tuple[Array, Array]:
    """The table (nodes, words) of nodes in an order in which each node is in front of the next ones, and the roots.

    ``leaves`` has the number of each leaf.
    """
    place = np.zeros(len(trees.feature), np.int64)
    place[order] = np.arange(len(order))
    dtype = trees.threshold.dtype
    is_leaf, own = trees.comparison[order] == LEAF, np.arange(len(order))
    table = np.zeros((len(order), words_of(dtype)), np.int32)
    head = (trees.feature[order] << BITS) + trees.comparison[order] + MISSING * trees.missing[order]
    table[:, HEAD] = np.where(is_leaf, LEAF, head)
    for word, following in ((HOLDS, trees.holds), (FAILS, trees.fails)):
        table[:, word] = np.where(is_leaf, own, place[np.where(is_leaf, 0, following[order])])
    first = 3 if dtype.itemsize == 4 else 4
    table[:, first:] = trees.threshold[order][:, None].view(np.int32)
    table[is_leaf, first:] = 0
    table[is_leaf, first] = leaves[order][is_leaf]
    return table, place[trees.roots].astype(np.int32)


def broken(nodes: Array, roots: Array, features: int, leaves: int) -> str:
    """What is wrong with a table of nodes; an empty text if a walk from a root ends at a leaf."""
    own, head = np.arange(len(nodes)), nodes[:, HEAD]
    is_leaf, comparison = head == LEAF, head & (MISSING - 1)
    following = nodes[:, HOLDS : FAILS + 1]
    if ((roots < 0) | (roots >= len(nodes))).any():
        return f"a root beyond {counted(len(nodes), 'node')}"
    if (~is_leaf & ((head < 0) | (comparison == LEAF) | (comparison > len(COMPARISONS)))).any():
        return "a node without a comparison"
    if (~is_leaf & (head >> BITS >= features)).any():
        return f"feature {(head[~is_leaf] >> BITS).max()} of {features}"
    if (
        (following >= len(nodes)) | (following < own[:, None]) | ((following == own[:, None]) != is_leaf[:, None])
    ).any():
        return "a node that leads to one before it, or to none"
    numbers = leaf_numbers_of(nodes)[is_leaf]
    return f"a leaf beyond {leaves}" if ((numbers < 0) | (numbers >= leaves)).any() else ""


def broken_weights(starts: Array | None, targets: Array | None, weights: int, count: int) -> str:
    """What is wrong with the weights of leaves for ``count`` targets; an empty text if nothing is."""
    if starts is not None and (not len(starts) or starts[0] < 0 or starts[-1] > weights or (np.diff(starts) < 0).any()):
        return f"a leaf with weights beyond {weights}"
    if targets is not None and len(targets) and not 0 <= targets.min() <= targets.max() < count:
        return f"a target beyond {count}"
    return ""


def is_ascending(keys: Array) -> bool:
    """Whether each key is larger than the one before it, apart from a NaN at the end."""
    numbers = keys[:-1] if keys.dtype.kind == "f" and len(keys) and np.isnan(keys[-1]) else keys
    return bool((numbers[1:] > numbers[:-1]).all() and not (numbers != numbers).any())
