"""Numbers drawn at random that are compared, and tables of trees that are examined: materials of :mod:`draws`."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from onegraph.arrays import trees
from onegraph.judging.comparison import MANY, NEAR_MOST, ROUNDINGS, SHORTEST, Answer, compare
from onegraph.judging.contents import KINDS, floats
from tests.lowering import test_recorded_graphs as recorded

from .draws import material
from .recorded import numbers_of

SHAPES = ((), (3,), (SHORTEST,), (SHORTEST - 1,), (4, SHORTEST), (2, 3), (MANY,), (2, 2, 4, 4), (8, 8), (0, 4), (63,))
SHARES = (0.0, 0.5, 0.999, 1.0, 1.001, 2.0, 8.0)


def answers(name: str, drawn: Random) -> tuple[Any, Answer, float]:
    """A result, what an oracle gives, and how loose a comparison is: errors lie around the allowed ones."""
    rounding, shape = ROUNDINGS[name], drawn.choice(SHAPES)
    rng = np.random.default_rng(drawn.randrange(2**32))
    exact: Any = np.asarray(rng.standard_normal(shape) * drawn.choice((0.0, 1.0, 1.0, 1e-6)))
    loose = drawn.choice((1.0, 1.0, 0.5, 4.0))
    peer = None if drawn.random() < 0.4 else exact + rng.standard_normal(shape) * drawn.choice((0, rounding.unit))
    moved = [exact + rng.standard_normal(shape) * rounding.unit for _ in range(drawn.choice((0, 0, 1, 2)))]
    allowed = rounding.absolute + loose * rounding.floor * float(np.abs(exact).max(initial=0))
    errors = np.full(shape, allowed * drawn.choice(SHARES))
    if drawn.random() < 0.5:
        errors = np.where(rng.random(shape) < drawn.choice((0.1, 0.5)), errors, 0)
    signs = np.where(rng.random(shape) < drawn.choice((0.0, 0.5)), -1, 1)
    got: Any = np.asarray(exact + signs * errors)
    ends = (np.inf, -np.inf, np.nan, rounding.most, -rounding.most, NEAR_MOST * rounding.most, rounding.most * 1.05)
    arrays = [got, exact, *([] if peer is None else [peer]), *moved]
    for _ in range(drawn.choice((0, 0, 1, 2)) if got.size else 0):
        place, end = drawn.randrange(got.size), drawn.choice(ends)
        for array in arrays:
            array.flat[place] = end if drawn.random() < 0.6 else drawn.choice((*ends, 0.0))
    if peer is not None and drawn.random() < 0.1:
        peer = peer[..., None]
    return got, Answer(exact, peer, moved), loose


def whole_answers(drawn: Random) -> tuple[Any, Answer, float]:
    """Integers, of which some differ."""
    rng = np.random.default_rng(drawn.randrange(2**32))
    shape = drawn.choice(SHAPES)
    exact, *others = (np.asarray(rng.integers(0, 3, shape)) for _ in range(4))
    got = np.where(rng.random(shape) < drawn.choice((0.0, 0.1)), others[0], exact)
    agreeing = [np.where(rng.random(shape) < 0.3, one, exact) for one in others[1:]]
    return got, Answer(exact, drawn.choice((None, agreeing[0])), agreeing[1 : drawn.choice((1, 2))]), 1.0


@material(lambda: (*ROUNDINGS, "int64"))
def compared(name: str, number: int) -> list[str]:
    """What is said of results with errors around those that rounding explains."""
    drawn = Random(f"{name} {number}")
    got, answer, loose = whole_answers(drawn) if name == "int64" else answers(name, drawn)
    if drawn.random() < 0.05:
        got = got[..., None]
    said = compare(got, answer, name, name="y", run="first", contents="numbers", loose=loose)
    return [str(said)]


@material(lambda: KINDS)
def contents(name: str, number: int) -> list[str]:
    """Inputs for a judgement."""
    drawn = Random(f"{name} {number}")
    return [numbers_of(floats(name, drawn.choice(SHAPES), number, half=drawn.random() < 0.5))]


def forest(drawn: Random) -> trees.Trees:
    """Few nodes, most of which lead to later ones."""
    count = drawn.choice((1, 2, 3, 5, 7, 9))
    dtype = drawn.choice((np.float32, np.float64))
    leaves = [drawn.random() < 0.4 or place >= count - 2 for place in range(count)]
    order = [*range(count)]
    if drawn.random() < 0.5:
        drawn.shuffle(order)

    def later(place: int) -> int:
        if drawn.random() < 0.03:
            return drawn.choice((-1, place, count, 0))
        return drawn.randrange(place + 1, count) if place + 1 < count else place

    where = {place: order[place] for place in range(count)}
    fields: dict[str, Any] = {name: [0] * count for name in ("feature", "comparison", "holds", "fails")}
    for place in range(count):
        at = where[place]
        fields["feature"][at] = drawn.randrange(4)
        fields["comparison"][at] = trees.LEAF if leaves[place] else drawn.randrange(6) + (trees.LEAF == 0)
        for side in ("holds", "fails"):
            to = later(place)
            fields[side][at] = where.get(to, to)
    made = {name: np.array(one, np.int64) for name, one in fields.items()}
    roots = [where[0], *(drawn.randrange(count) for _ in range(drawn.choice((0, 0, 1))))]
    return trees.Trees(
        made["feature"],
        np.array([drawn.choice((0.5, -1.0, 2.0)) for _ in range(count)], dtype),
        made["comparison"],
        np.array([drawn.random() < 0.3 for _ in range(count)]),
        made["holds"],
        made["fails"],
        np.array(roots, np.int64),
    )


@material(lambda: ("tables", "weights"))
def tables(name: str, number: int) -> list[str]:
    """The order of the nodes of trees, their table, and what is wrong with it after a change."""
    return recorded.outcome(weighed if name == "weights" else tabled, Random(f"{name} {number}"), also=[ValueError])


def tabled(drawn: Random) -> str:
    made = forest(drawn)
    order = trees.ordered(made)
    table, roots = trees.table_of(made, order, np.arange(len(made.feature)))
    lines = [str(order.tolist()), numbers_of(table), str(roots.tolist())]
    for _ in range(3):
        changed, ends = table.copy(), roots.copy()
        place, word = drawn.randrange(len(table)), drawn.randrange(table.shape[1])
        bound = drawn.choice((-1, 0, 1, place - 1, place, place + 1, len(table) - 1, len(table), 4 << trees.BITS, 7, 8))
        changed[place, word] = bound if drawn.random() < 0.7 else changed[place, word]
        if drawn.random() < 0.2:
            ends[0] = drawn.choice((-1, 0, len(table) - 1, len(table)))
        lines.append(trees.broken(changed, ends, drawn.choice((2, 3, 4)), drawn.choice((2, len(table)))))
    return "\n".join(lines)


def weighed(drawn: Random) -> str:
    count = drawn.choice((0, 1, 3))
    starts = sorted(drawn.randrange(0, 4) for _ in range(drawn.choice((0, 1, 2, 3))))
    if starts and drawn.random() < 0.4:
        starts[drawn.randrange(len(starts))] = drawn.choice((-1, 0, 3, 4, 5))
    targets = [drawn.choice((-1, 0, 0, 1, 1, 2, 3)) for _ in range(drawn.choice((0, 1, 3)))]
    known = [None if drawn.random() < 0.3 else np.array(one, np.int64) for one in (starts, targets)]
    return trees.broken_weights(known[0], known[1], count, drawn.choice((1, 2, 3)))
