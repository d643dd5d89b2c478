"""Offsets in one block of memory for values with different lifetimes."""

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from onegraph.compiler.memory_planner import ALIGNMENT, Lifetimes, aligned

LIFETIMES = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 30), st.integers(0, 12)), max_size=40)
STEPS = 45


def planned(drawn, wishes=None):
    """The pieces in the order of their first steps, their offsets, the size of the block, and its rooms."""
    pieces = sorted([(start, start + length, size) for size, start, length in drawn])
    numbers = range(len(pieces))
    starts, ends = ({number: pieces[number][side] for number in numbers} for side in (0, 1))
    lifetimes = Lifetimes(starts, ends, STEPS)
    offsets, end, rooms = lifetimes.planned([size for _, _, size in pieces], lifetimes.sources(wishes or {}))
    return pieces, offsets.tolist(), end, rooms.tolist()


@pytest.mark.library
@seed(3)
@settings(max_examples=150, deadline=None, database=None)
@given(LIFETIMES, st.data())
def test_live_pieces_do_not_overlap(drawn, data):
    numbers = st.integers(0, max(len(drawn) - 1, 0))
    wishes = data.draw(st.dictionaries(numbers, numbers, max_size=10))
    pieces, offsets, end, _ = planned(drawn, wishes)
    for (_, _, size), offset in zip(pieces, offsets, strict=True):
        assert offset % ALIGNMENT == 0
        assert 0 <= offset <= end - aligned(size)
    for one, (start, last, size) in enumerate(pieces):
        for two, (other_start, other_last, other_size) in enumerate(pieces[:one]):
            apart = last < other_start or other_last < start
            place, other_place = offsets[one], offsets[two]
            clear = place + aligned(size) <= other_place or other_place + aligned(other_size) <= place
            handed_on = (
                place == other_place
                and aligned(size) == aligned(other_size)
                and (
                    (wishes.get(one) == two and other_last == start) or (wishes.get(two) == one and last == other_start)
                )
            )
            assert apart or clear or handed_on
    alive = [sum(aligned(size) for start, last, size in pieces if start <= step <= last) for step in range(STEPS)]
    assert end <= sum(aligned(size) for _, _, size in pieces)
    if not wishes:
        assert end >= max(alive, default=0)


@pytest.mark.library
@seed(5)
@settings(max_examples=80, deadline=None, database=None)
@given(LIFETIMES)
def test_room_is_the_largest_part_that_no_live_piece_uses(drawn):
    pieces, offsets, end, rooms = planned(drawn)
    for step, (start, size) in enumerate(rooms):
        units = [False] * (end // ALIGNMENT)
        for (begin, last, length), offset in zip(pieces, offsets, strict=True):
            if begin <= step <= last:
                first, count = offset // ALIGNMENT, aligned(length) // ALIGNMENT
                units[first : first + count] = [True] * count
        free = "".join("x" if used else "." for used in units).split("x")
        assert size == max(map(len, free)) * ALIGNMENT
        assert not any(units[start // ALIGNMENT : (start + size) // ALIGNMENT])


@pytest.mark.library
@seed(4)
@settings(max_examples=60, deadline=None, database=None)
@given(st.integers(1, 4000), st.integers(1, STEPS - 1))
def test_chain_needs_two_places(size, length):
    """A chain of equal pieces, each read by the next step only, needs two places and no more."""
    chain = [(size, number, 1) for number in range(length)]
    assert planned(chain)[2] == min(length, 2) * aligned(size)
    assert planned(chain, {number: number - 1 for number in range(1, length)})[2] == aligned(size)


@pytest.mark.library
def test_a_gap_is_filled_before_the_block_grows():
    """The smallest gap that holds a piece is taken, and the gap at the end is extended."""
    drawn = [(640, 0, 1), (64, 0, 9), (128, 0, 1), (64, 0, 9), (128, 2, 5), (1280, 3, 1)]
    pieces, offsets, end, _ = planned(drawn)
    place = dict(zip(pieces, offsets, strict=True))
    blocks = np.cumsum([0, *[size for start, _, size in pieces if start == 0]])
    assert place[2, 7, 128] == place[0, 1, 128]
    assert (place[3, 4, 1280], end) == (blocks[-1], blocks[-1] + 1280)


@pytest.mark.library
def test_a_plan_is_kept_for_sizes_that_round_to_the_same():
    lifetimes = Lifetimes({0: 0, 1: 1, 2: 2}, {0: 1, 1: 2, 2: 3}, 4)
    apart, joined = lifetimes.sources({}), lifetimes.sources({1: 0})
    first = lifetimes.planned([100, 100, 100], apart)
    assert lifetimes.planned([128, 65, 100], apart) is first
    assert lifetimes.planned([100, 100, 100], joined)[0].tolist() == [0, 0, 128]
    assert lifetimes.planned([100, 100, 100], apart)[0].tolist() == first[0].tolist() == [0, 128, 0]
    assert lifetimes.planned([129, 100, 100], apart)[1] == 320
