"""Offsets in one block of memory for values with different lifetimes."""

from hypothesis import given, seed, settings
from hypothesis import strategies as st

from onegraph.compiler.memory_planner import ALIGNMENT, Lifetime, aligned, free_rooms, plan_memory

LIFETIMES = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 30), st.integers(0, 12)), max_size=40)


@seed(3)
@settings(max_examples=150, deadline=None, database=None)
@given(LIFETIMES, st.data())
def test_live_pieces_do_not_overlap(drawn, data):
    pieces = [Lifetime(n, aligned(size), start, start + length) for n, (size, start, length) in enumerate(drawn)]
    numbers = st.integers(0, max(len(pieces) - 1, 0))
    wishes = data.draw(st.dictionaries(numbers, numbers, max_size=10))
    offsets, end = plan_memory(pieces, wishes)
    assert set(offsets) == {piece.number for piece in pieces}
    for piece in pieces:
        assert offsets[piece.number] % ALIGNMENT == 0
        assert 0 <= offsets[piece.number] <= end - aligned(piece.size)
    for one in pieces:
        for two in pieces[: one.number]:
            apart = one.end < two.start or two.end < one.start
            first, last = offsets[one.number], offsets[two.number]
            clear = first + aligned(one.size) <= last or last + aligned(two.size) <= first
            handed_on = (
                first == last
                and aligned(one.size) == aligned(two.size)
                and (
                    (wishes.get(one.number) == two.number and two.end == one.start)
                    or (wishes.get(two.number) == one.number and one.end == two.start)
                )
            )
            assert apart or clear or handed_on
    alive = [sum(aligned(p.size) for p in pieces if p.start <= step <= p.end) for step in range(45)]
    assert end <= sum(aligned(piece.size) for piece in pieces)
    if not wishes:
        assert end >= max(alive, default=0)


@seed(5)
@settings(max_examples=80, deadline=None, database=None)
@given(LIFETIMES)
def test_room_is_the_largest_part_that_no_live_piece_uses(drawn):
    pieces = [Lifetime(n, aligned(size), start, start + length) for n, (size, start, length) in enumerate(drawn)]
    offsets, end = plan_memory(pieces, {})
    for step, (start, size) in enumerate(free_rooms(pieces, offsets, end, 45)):
        units = [False] * (end // ALIGNMENT)
        for piece in pieces:
            if piece.start <= step <= piece.end:
                first = offsets[piece.number] // ALIGNMENT
                units[first : first + piece.size // ALIGNMENT] = [True] * (piece.size // ALIGNMENT)
        free = "".join("x" if used else "." for used in units).split("x")
        assert size == max(map(len, free)) * ALIGNMENT
        assert not any(units[start // ALIGNMENT : (start + size) // ALIGNMENT])


@seed(4)
@settings(max_examples=60, deadline=None, database=None)
@given(st.integers(1, 4000), st.integers(1, 60))
def test_chain_needs_two_places(size, length):
    """A chain of equal pieces, each read by the next step only, needs two places and no more."""
    chain = [Lifetime(number, aligned(size), number, number + 1) for number in range(length)]
    assert plan_memory(chain, {})[1] == min(length, 2) * aligned(size)
    in_place = {number: number - 1 for number in range(1, length)}
    assert plan_memory(chain, in_place)[1] == aligned(size)
