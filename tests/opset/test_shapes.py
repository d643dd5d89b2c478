"""Shapes and strides by hand: unknown dims, broadcasting, dense and overlapping memory."""

import itertools

import numpy as np
import pytest

from onegraph.opset import shapes
from onegraph.serialize.structure import MAX_STRIDE, useful_strides


@pytest.mark.parametrize(
    ("first", "second", "merged", "fits"),
    [
        (None, (2, 3), (2, 3), True),
        ((2, 3), None, (2, 3), True),
        (None, None, None, True),
        ((None, 3), (2, None), (2, 3), True),
        ((None, 3), (2, 4), (2, 3), False),
        ((2,), (2, 3), (2,), False),
        ((0, None), (0, 5), (0, 5), True),
        ((), (), (), True),
    ],
)
def test_partly_known_shapes_are_merged(first, second, merged, fits):
    assert shapes.merge(first, second) == merged
    assert shapes.compatible(first, second) is fits
    assert shapes.compatible(second, first) is fits


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        ((2, 1), (3,), (2, 3)),
        ((2, 3), (), (2, 3)),
        ((), (2, 3), (2, 3)),
        ((None,), (1,), (None,)),
        ((1,), (None,), (None,)),
        ((None,), (4,), (4,)),
        ((4,), (None,), (4,)),
        ((None,), (None,), (None,)),
        ((0,), (1,), (0,)),
        ((1,), (0,), (0,)),
        (None, (2,), None),
        ((2,), None, None),
    ],
)
def test_shapes_are_broadcast(first, second, result):
    assert shapes.broadcast(first, second) == result


@pytest.mark.parametrize(("first", "second"), [((2,), (3,)), ((0,), (2,)), ((2, 3), (3, 3))])
def test_shapes_that_differ_are_not_broadcast(first, second):
    with pytest.raises(ValueError, match=r"2 and 3|0 and 2"):
        shapes.broadcast(first, second)


@pytest.mark.parametrize(
    ("shape", "is_known", "dims"),
    [(None, False, ()), ((), True, ()), ((2, None), False, (2, 0)), ((2, 0), True, (2, 0))],
)
def test_unknown_dims_count_as_zero(shape, is_known, dims):
    assert (shapes.known(shape), shapes.known_dims(shape)) == (is_known, dims)


def test_huge_ranks_take_no_memory():
    assert shapes.of_rank(None) is None
    assert shapes.of_rank(2) == (None, None)
    assert len(shapes.of_rank(2**60)) == shapes.MAX_RANK + 1


@pytest.mark.parametrize(
    ("dims", "strides", "is_dense", "has_gaps", "overlaps"),
    [
        ((2, 3), (3, 1), True, False, False),
        ((2, 3), (1, 2), False, False, False),
        ((2, 3), (4, 1), False, True, False),
        ((2, 3), (2, 1), False, True, True),
        ((2, 3), (3, 2), False, True, True),  # rows lie between each other, without a shared place
        ((2, 3), (1, 1), False, True, True),
        ((2, 3), (0, 1), False, True, True),
        ((1, 3), (99, 1), True, False, False),
        ((3, 1), (1, 99), True, False, False),
        ((2, 1, 3), (3, 7, 1), True, False, False),
        ((), (), True, False, False),
        ((1,), (5,), True, False, False),
    ],
)
def test_layouts_by_hand(dims, strides, is_dense, has_gaps, overlaps):
    found = shapes.is_dense(dims, strides), shapes.has_gaps(dims, strides), shapes.overlaps(dims, strides)
    assert found == (is_dense, has_gaps, overlaps)


def test_every_small_layout_overlaps_as_its_places_do():
    """Strides that may overlap are refused too early at most: never where two elements share a place."""
    for strides in itertools.product(range(8), repeat=2):
        places = np.add.outer(np.arange(2) * strides[0], np.arange(3) * strides[1]).ravel()
        if len({*places.tolist()}) < places.size:
            assert shapes.overlaps((2, 3), strides), strides
    assert not shapes.overlaps((0, 3), (0, 0))


@pytest.mark.parametrize(
    ("dims", "strides"), [((2, 3, 4), (12, 4, 1)), ((2, 0, 4), (4, 4, 1)), ((), ()), ((5,), (1,)), ((2, 1), (1, 1))]
)
def test_dense_strides_are_those_of_rows(dims, strides):
    assert shapes.dense_strides(dims) == strides


def test_gaps_count_from_the_smallest_stride():
    assert not shapes.has_gaps((2, 3), (6, 2), apart=2)
    assert shapes.has_gaps((2, 3), (6, 2))


@pytest.mark.parametrize(
    ("dims", "strides", "beyond", "settled"),
    [
        ((2, 1, 3), (3, 5, 1), (3, 6, 1), (3, 3, 1)),
        ((1, 1), (7, 9), (1, 1), (1, 1)),
        ((2, 3), (4, 1), (4, 1), (4, 1)),
        ((1, 3), (50, 2), (6, 2), (6, 2)),
        ((3, 1), (2, 50), (2, 6), (2, 1)),
    ],
)
def test_strides_of_single_axes_are_settled(dims, strides, beyond, settled):
    assert shapes.beyond_single_axes(dims, strides) == beyond
    assert shapes.settled_strides(dims, strides) == settled


@pytest.mark.parametrize(
    ("axis", "rank", "found"), [(0, 2, 0), (1, 2, 1), (2, 2, None), (-1, 2, 1), (-2, 2, 0), (-3, 2, None), (0, 0, None)]
)
def test_axes_count_from_both_ends(axis, rank, found):
    assert shapes.normalize_axis(axis, rank) == found
    dims = (7, None)[:rank]
    assert shapes.dim_at(dims, axis) == (None if found is None else dims[found])
    assert shapes.dim_at(None, axis) is None


@pytest.mark.parametrize(
    ("strides", "shape", "useful"),
    [
        (None, (2, 3), None),
        ((1, 2), None, None),
        ((1, 2), (None, 3), None),
        ((3, 1), (2, 3), None),
        ((2, 1), (2, 3), None),
        ((1, 2), (2, 3), (1, 2)),
        ((4, 1), (2, 3), (4, 1)),
        ((MAX_STRIDE - 1, 1), (2, 3), (MAX_STRIDE - 1, 1)),
        ((MAX_STRIDE, 1), (2, 3), None),
    ],
)
def test_useful_strides_of_a_file_are_kept(strides, shape, useful):
    assert useful_strides(strides, shape) == useful
