"""Tables of decision trees and packed codes, by hand: what is laid out, and what is refused."""

import ml_dtypes
import numpy as np
import pytest

from onegraph.arrays import trees as tables
from onegraph.arrays.packed_codes import filled_up, packed, unit_of, unpacked
from onegraph.arrays.trees import Trees, broken, broken_weights, is_ascending, ordered, table_of

# Node 2 is the root: x[1] <= 0.5 leads to node 0, which compares x[0] > 2, and else to the leaf 4.
TREES = Trees(
    feature=np.array([0, 0, 1, 0, 0]),
    threshold=np.float32([2, 0, 0.5, 0, 0]),
    comparison=np.array([4, 0, 1, 0, 0]),
    missing=np.array([0, 0, 1, 0, 0]),
    holds=np.array([3, 0, 0, 0, 0]),
    fails=np.array([1, 0, 4, 0, 0]),
    roots=np.array([2]),
)
LEAVES = np.array([-1, 0, -1, 1, 2])


def changed(name, place, value):
    array = getattr(TREES, name).copy()
    array[place] = value
    return TREES._replace(**{name: array})


def walked(table, roots, row):
    """The number of the leaf of a row, by the meaning of the words of nodes."""
    (node,) = roots
    compare = {1: np.less_equal, 2: np.less, 3: np.greater_equal, 4: np.greater, 5: np.equal, 6: np.not_equal}
    thresholds = tables.thresholds_of(table)
    while head := int(table[node, 0]):
        number = row[head >> 4]
        holds = bool(head & 8) if np.isnan(number) else compare[head & 7](number, thresholds[node])
        node = table[node, 1 if holds else 2]
    return int(tables.leaf_numbers_of(table)[node])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("row", "leaf"),
    [((3, 0.5), 1), ((2, 0.5), 0), ((2, 0.6), 2), ((3, np.nan), 1), ((np.nan, 0), 0), ((np.nan, np.nan), 0)],
)
def test_a_table_leads_to_the_leaf_by_hand(dtype, row, leaf):
    trees = TREES._replace(threshold=TREES.threshold.astype(dtype))
    order = ordered(trees)
    table, roots = table_of(trees, order, LEAVES)
    assert table.shape == (5, 4 if dtype is np.float32 else 6)
    assert walked(table, roots, row) == leaf
    assert broken(table, roots, 2, 3) == ""
    inner = table[:, 0] != 0
    assert (table[inner, 1:3] > np.flatnonzero(inner)[:, None]).all()


def test_nodes_are_ordered_tree_by_tree():
    assert ordered(TREES).tolist() == [2, 0, 4, 1, 3]
    two = TREES._replace(roots=np.array([0, 4]))
    assert ordered(two).tolist() == [0, 1, 3, 4]
    shared = TREES._replace(roots=np.array([0, 2]))
    assert {*ordered(shared).tolist()} == {0, 1, 2, 3, 4}
    place = {node: at for at, node in enumerate(ordered(shared).tolist())}
    assert place[2] < place[0] < min(place[1], place[3])


def test_trees_that_share_a_node_are_ordered_by_levels():
    """Node 1 is a leaf of the first tree, and lies one level deeper in the second one."""
    zeros = np.zeros(7, np.int64)
    inner = np.array([1, 0, 0, 1, 1, 0, 0])
    holds, fails = np.array([1, 0, 0, 4, 1, 0, 0]), np.array([2, 0, 0, 5, 6, 0, 0])
    shared = Trees(zeros, zeros.astype(np.float32), inner, zeros, holds, fails, np.array([0, 3]))
    assert ordered(shared).tolist() == [0, 3, 2, 4, 5, 1, 6]


@pytest.mark.parametrize(
    ("trees", "text"),
    [
        (changed("holds", 0, 5), "node 5 of 5"),
        (changed("fails", 2, -1), "node -1 of 5"),
        (changed("roots", 0, 5), "node 5 of 5"),
        (changed("holds", 0, 2), "lead back to themselves"),
        (changed("holds", 0, 0), "lead back to themselves"),
    ],
)
def test_malformed_trees_are_refused(trees, text):
    with pytest.raises(ValueError, match=text):
        ordered(trees)
    assert ordered(changed("holds", 1, 99)).tolist() == [2, 0, 4, 1, 3]  # a leaf leads nowhere


@pytest.mark.parametrize(
    ("place", "number", "features", "leaves", "text"),
    [
        ((0, 0), 0 << 4 | 7, 2, 3, "a node without a comparison"),
        ((0, 0), 1 << 4, 2, 3, "a node without a comparison"),
        ((0, 0), -1, 2, 3, "a node without a comparison"),
        ((0, 0), 1 << 4 | 6, 2, 3, ""),
        ((0, 0), 2 << 4 | 1, 2, 3, "feature 2 of 2"),
        ((0, 0), 1 << 4 | 1, 1, 3, "feature 1 of 1"),
        ((0, 1), 5, 2, 3, "a node that leads to one before it, or to none"),
        ((0, 1), 0, 2, 3, "a node that leads to one before it, or to none"),
        ((1, 2), 0, 2, 3, "a node that leads to one before it, or to none"),
        ((2, 1), 3, 2, 3, "a node that leads to one before it, or to none"),
        ((2, 3), 3, 2, 3, "a leaf beyond 3"),
        ((2, 3), -1, 2, 3, "a leaf beyond 3"),
        ((2, 3), 2, 2, 3, ""),
        ((2, 3), 2, 2, 2, "a leaf beyond 2"),
    ],
)
def test_broken_tables_are_found(place, number, features, leaves, text):
    table, roots = table_of(TREES, ordered(TREES), LEAVES)
    table[place] = number
    assert broken(table, roots, features, leaves) == text


@pytest.mark.parametrize(("root", "text"), [(4, ""), (5, "a root beyond 5 nodes"), (-1, "a root beyond 5 nodes")])
def test_roots_are_nodes(root, text):
    table, _ = table_of(TREES, ordered(TREES), LEAVES)
    assert broken(table, np.array([root]), 2, 3) == text


@pytest.mark.parametrize(
    ("starts", "targets", "text"),
    [
        (None, None, ""),
        ([0, 2, 4], [0, 1, 2, 2], ""),
        ([0, 0, 4], [], ""),
        ([], None, "a leaf with weights beyond 4"),
        ([-1, 4], None, "a leaf with weights beyond 4"),
        ([0, 5], None, "a leaf with weights beyond 4"),
        ([0, 3, 2, 4], None, "a leaf with weights beyond 4"),
        (None, [0, 3], "a target beyond 3"),
        (None, [-1, 2], "a target beyond 3"),
    ],
)
def test_weights_belong_to_leaves_and_targets(starts, targets, text):
    starts, targets = (None if one is None else np.array(one, np.int32) for one in (starts, targets))
    assert broken_weights(starts, targets, 4, 3) == text


@pytest.mark.parametrize(
    ("keys", "rises"),
    [
        ([1, 2, 3], True),
        ([1, 1], False),
        ([2, 1], False),
        ([], True),
        ([1.0, np.nan], True),
        ([np.nan], True),
        ([np.nan, 1.0], False),
        ([np.nan, np.nan], False),
        ([1.0, np.nan, np.nan], False),
        ([2.0, 1.0, np.nan], False),
    ],
)
def test_keys_rise_up_to_a_nan(keys, rises):
    assert is_ascending(np.array(keys)) is rises


@pytest.mark.parametrize("coding", ["s4", "u4", "s8", "u8"])
def test_codes_are_packed_and_unpacked(coding):
    bits = int(coding[1])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if coding[0] == "s" else (0, (1 << bits) - 1)
    codes = np.resize(np.arange(low, high + 1), (3, 77)).astype(np.int16)
    rows = packed(codes, bits)
    assert rows.shape == (3, -(-77 // unit_of(bits)) * 64)
    np.testing.assert_array_equal(unpacked(rows, coding, 77), codes)
    narrow = {"s4": ml_dtypes.int4, "u4": ml_dtypes.uint4, "s8": np.int8, "u8": np.uint8}[coding]
    np.testing.assert_array_equal(packed(codes.astype(narrow), bits), rows)
    assert not unpacked(rows, coding.replace("s", "u"), rows.shape[1] * 8 // bits)[:, 77:].any()
    if bits == 4:
        assert rows[0, 0] == int(codes[0, 0]) & 15 | (int(codes[0, 1]) & 15) << 4


@pytest.mark.parametrize(("length", "whole"), [(64, 64), (65, 128), (1, 64), (128, 128)])
def test_rows_are_filled_up_for_kernels(length, whole):
    rows = np.ones((2, length), np.uint8)
    found = filled_up(rows)
    assert found.shape == (2, whole)
    assert found.sum() == rows.sum()
    assert (found[:, :length] == 1).all()
