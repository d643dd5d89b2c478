"""What lies between the products of attention: single steps on both sides of each condition."""

from types import SimpleNamespace

import numpy as np
import pytest

import onegraph as og
from onegraph.compiler.passes import attention_scores
from onegraph.compiler.passes.attention_scores import Scores, is_plain, is_reshape, is_without_last, number_of

X = (1, 2, 3, 5)


def graph_of(*shapes, dtype=og.f32, constants=()):
    """Values 0, 1 ... of these shapes; ``constants`` are those of the first ones behind the first."""
    arrays = [None, *constants, *[None] * len(shapes)]
    values = [
        SimpleNamespace(shape=shape, dtype=og.f32, constant=one) for shape, one in zip(shapes, arrays, strict=False)
    ]
    values[0].dtype = dtype
    return SimpleNamespace(values=values)


def step(kind, inputs, outputs, part="part"):
    return SimpleNamespace(kind=kind, inputs=inputs, outputs=outputs, library_part=part)


@pytest.mark.parametrize(
    ("rank", "dtype", "part", "inputs", "outputs", "plain"),
    [
        (4, og.f32, "part", (0, 1), (2,), True),
        (5, og.f32, "part", (0, 1), (2,), True),
        (3, og.f32, "part", (0, 1), (2,), False),
        (6, og.f32, "part", (0, 1), (2,), False),
        (4, og.bf16, "part", (0, 1), (2,), False),
        (3, og.bf16, "part", (0, 1), (2,), False),
        (4, og.f32, None, (0, 1), (2,), False),
        (4, og.f32, "part", (0,), (2,), False),
        (4, og.f32, "part", (0, 1, 1), (2,), False),
        (4, og.f32, "part", (0, 1), (2, 2), False),
    ],
)
def test_plain_steps_are_those_of_the_library_on_four_or_five_axes(rank, dtype, part, inputs, outputs, plain):
    graph = graph_of(X, (), (2,) * rank, dtype=dtype)
    assert is_plain(graph, step("Add", inputs, outputs, part), 2) is plain


@pytest.mark.parametrize(("kind", "before", "after", "is_one"), [
    ("StaticReshape", X, (1, 1, 6, 5), True), ("StaticTranspose", X, (1, 1, 6, 5), False),
    ("StaticReshape", (6, 5), (1, 1, 6, 5), False), ("StaticReshape", X, (1, 1, 1, 6, 5), False),
])  # fmt: skip
def test_reshapes_of_scores_have_four_axes(kind, before, after, is_one):
    assert is_reshape(graph_of(before, after), step(kind, (0,), (1,))) is is_one
    assert not is_reshape(graph_of(before, after), step(kind, (0,), (1,), None))


@pytest.mark.parametrize(
    ("constant", "number"),
    [(None, None), ([2.5], 2.5), ([[0]], 0.0), (-np.inf, -np.inf), (np.inf, None), (np.nan, None), ([1, 2], None)],
)
def test_numbers_are_finite_or_minus_infinity(constant, number):
    array = None if constant is None else np.array(constant, np.float32)
    assert number_of(graph_of(X, (), constants=[array]), 1) == number


@pytest.mark.parametrize(("kind", "source", "shape", "ends", "found"), [
    ("Slice", 0, (1, 2, 3, 4), ([0], [4], [3]), True), ("Slice", 0, (1, 2, 3, 4), ([0], [4], [-1]), True),
    ("Slice", 0, (1, 2, 3, 4), ([0], [4], [3], [1]), True), ("Slice", 0, (1, 2, 3, 4), ([0], [4], [-1], [1]), True),
    ("Gather", 0, (1, 2, 3, 4), ([0], [4], [3]), False), ("Slice", 4, (1, 2, 3, 4), ([0], [4], [3]), False),
    ("Slice", 0, (1, 2, 3, 3), ([0], [3], [3]), False), ("Slice", 0, (1, 2, 3, 4), ([1], [5], [3]), False),
    ("Slice", 0, (1, 2, 3, 4), ([0], [4], [2]), False), ("Slice", 0, (1, 2, 3, 4), ([0], [4], [3], [2]), False),
    ("Slice", 0, (1, 2, 3, 4), ([0], [4], [3, 3]), False), ("Slice", 0, (1, 2, 3, 4), ([0], [4], None), False),
])  # fmt: skip
def test_slices_leave_out_the_last_number_of_each_row(kind, source, shape, ends, found):
    arrays = [None if one is None else np.array(one) for one in ends]
    graph = graph_of(X, *[(1,)] * len(ends), shape, constants=arrays)
    one = step(kind, (source, *range(1, len(ends) + 1)), (len(ends) + 1,))
    assert is_without_last(graph, one, 0) is found


@pytest.mark.parametrize(
    ("own", "limit", "factor", "mask", "numbers"),
    [
        (0.5, 0.0, 4.0, (), {"scale": 2.0, "masked": False}),
        (0.5, 3.0, 4.0, (7,), {"scale": 6.0, "masked": True, "softcap": 3.0}),
        (-0.5, 0.0, 1.0, (), {"scale": -0.5, "masked": False}),
        (0.5, -3.0, 4.0, (), None),
        (0.0, 0.0, 4.0, (), None),
        (np.inf, 0.0, 4.0, (), None),
        (1.0, 0.0, np.inf, (), None),
    ],
)
def test_numbers_of_the_kernel(own, limit, factor, mask, numbers):
    scores = object.__new__(Scores)
    scores._factor, scores._limit, scores.mask, scores._selects = own, limit, mask, {}
    assert scores.numbers(factor) == numbers
    assert attention_scores.SELECTS == ("where_false", "where_true")
