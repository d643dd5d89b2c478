"""What rounding explains, and what it does not: results beside an oracle, by hand.

Where the allowed error ends is measured, so that findings.json has digests of findings beside many errors. ``python
tests/tools/test_judging.py`` writes it anew.
"""

import itertools
from pathlib import Path

import numpy as np
import pytest
from helpers.grouped import grouped
from helpers.recorded import digest, keep, kept

from onegraph.judging.comparison import MANY, SHORTEST, Answer, compare
from onegraph.judging.contents import KINDS, LARGE, LARGE_HALF, SCALES, floats, rows_of
from onegraph.judging.judgement import SHOWN, Finding, Judgement

KEPT = Path(__file__).parents[1] / "recorded" / "findings.json"
NAN, INF = np.nan, np.inf
RNG = np.random.default_rng(0)
ROWS = RNG.uniform(0.5, 1, (2, 32))
ROWS[:, 0] = 1


def judged(got, exact, dtype="float32", peer=None, disturbed=(), **options):
    return compare(
        np.asarray(got), Answer(np.asarray(exact), peer, disturbed), dtype, name="y", run="r", contents="c", **options
    )


def problem(*given, **options):
    finding = judged(*given, **options)
    return None if finding is None else finding.problem


def moved(by, where=(1, 3)):
    found = ROWS.copy()
    found[where] += by
    return found


def test_shapes_are_compared_first():
    assert problem(np.zeros(3), np.zeros((3, 1))) == "shape"
    assert problem(np.zeros((0, 3)), np.zeros((0, 3))) is None


def test_integers_are_equal_or_rounding_decides_about_them():
    exact = np.int32([[1, 2, 3]])
    finding = judged(np.int32([[1, 4, 5]]), exact, "int32")
    assert (finding.problem, finding.where, finding.wrong) == ("numbers", (0, 1), 2)
    assert (finding.given, finding.expected) == ("4", "2")
    assert problem(exact, exact, "int32") is None
    assert problem(np.int32([[1, 4, 3]]), exact, "int32", peer=np.int32([[1, 9, 3]])) is None
    assert problem(np.int32([[1, 4, 3]]), exact, "int32", disturbed=[np.int32([[1, 9, 3]])]) is None
    assert problem(np.int32([[1, 4, 3]]), exact, "int32", peer=np.int32([[9, 2, 3]])) == "numbers"
    assert problem(np.array([True]), np.array([False]), "bool") == "numbers"


@pytest.mark.parametrize(
    ("dtype", "floor"), [("float32", 2e-5), ("bfloat16", 2.0**-7), ("float16", 2.0**-10), ("float64", 1e-9)]
)
def test_errors_are_bounded_by_the_size_of_rows(dtype, floor):
    absolute = 1e-12 if dtype == "float64" else 2.0**-19
    assert problem(moved(0.99 * floor + absolute), ROWS, dtype) is None
    finding = judged(moved(1.01 * floor + absolute), ROWS, dtype)
    assert (finding.problem, finding.where, finding.wrong) == ("numbers", (1, 3), 1)
    assert 1 < finding.units < 1.05
    assert problem(moved(1.9 * floor), ROWS, dtype, loose=2) is None


def test_small_rows_do_not_hide_behind_large_ones():
    exact = np.stack([1000 * ROWS[0], 10 * ROWS[1]])
    wrong = exact.copy()
    wrong[1, 3] += 0.01
    assert problem(wrong, exact) == "numbers"
    short = slice(None), slice(SHORTEST - 1)
    assert problem(wrong[short], exact[short]) is None
    assert problem(wrong, exact, loose=1.01) is None


@pytest.mark.parametrize(
    ("got", "wanted", "expected"),
    [
        (1.0, NAN, "NaN is lost"),
        (NAN, 1.0, "NaN"),
        (INF, 1.0, "infinity"),
        (1.0, INF, "infinity is lost"),
        (-INF, INF, "infinity"),
        (NAN, INF, "NaN"),
        (INF, NAN, "NaN is lost"),
        (NAN, NAN, None),
        (INF, INF, None),
        (1e39, INF, None),
    ],
)
def test_nan_and_infinities_are_those_of_the_oracle(got, wanted, expected):
    ours, exact = ROWS.copy(), ROWS.copy()
    ours[0, 1], exact[0, 1] = got, wanted
    finding = judged(ours, exact)
    assert (None if finding is None else (finding.problem, finding.where, finding.wrong)) == (
        None if expected is None else (expected, (0, 1), 1)
    )


def test_peers_and_disturbed_runs_may_be_infinite():
    ours, other = ROWS.copy(), ROWS.copy()
    ours[0, 1] = other[0, 1] = INF
    assert problem(ours, ROWS) == "infinity"
    assert problem(ours, ROWS, peer=other) is None
    assert problem(ours, ROWS, disturbed=[other]) is None
    assert problem(ours, ROWS, peer=other[0]) == "infinity"
    finding = judged(np.full((2, 32), NAN), ROWS, peer=np.full((2, 32), INF))
    assert finding.expected == "inf"


@pytest.mark.parametrize(
    ("exact", "got", "fits"), [(65000, INF, True), (58000, INF, False), (72000, 60000, True), (73000, 60000, False)]
)
def test_rounding_decides_near_the_largest_number(exact, got, fits):
    ours, wide = ROWS.copy(), ROWS.copy()
    ours[0, 1], wide[0, 1] = got, exact
    assert (problem(ours, wide, "float16") is None) is fits


@pytest.mark.parametrize(("exact", "got", "told"), [
    (0.9 * 65504.0, INF, "infinity"), (65504.0 / 0.9, 60000.0, "infinity is lost"), (1.0, 65504.0, "numbers"),
    (1.0, -65504.0, "numbers"), (1.0, 65505.0, "infinity is lost"),
])  # fmt: skip
def test_bounds_of_what_is_infinite(exact, got, told):
    ours, wide = ROWS.copy(), ROWS.copy()
    ours[0, 1], wide[0, 1] = got, exact
    assert problem(ours, wide, "float16") == told


def test_an_error_may_be_as_large_as_what_is_allowed():
    zeros, got = np.zeros((2, 32)), np.zeros((2, 32))
    got[0, 1] = 2.0**-19
    assert problem(got, zeros) is None
    got[1, 2] = 2.0**-18
    finding = judged(got, zeros)
    assert (finding.where, finding.units, finding.wrong) == ((1, 2), 2.0, 1)


def test_multiples_of_the_error_of_peers_are_allowed():
    assert problem(moved(3.9e-3), ROWS, peer=moved(1e-3)) is None
    assert problem(moved(4.2e-3), ROWS, peer=moved(1e-3)) == "numbers"
    assert problem(moved(7.9e-3), ROWS, disturbed=[moved(1e-3)]) is None
    assert problem(moved(8.3e-3), ROWS, disturbed=[moved(1e-3)]) == "numbers"
    assert problem(moved(7.9e-3), ROWS, disturbed=[moved(5e-4), moved(5e-4)]) is None
    assert problem(moved(3.9e-3), ROWS, peer=moved(1e-3, (0, 3))) == "numbers"


def test_errors_that_all_elements_share_are_no_rounding():
    """All errors are within what one element may have."""
    assert ROWS.size == MANY
    assert problem(ROWS * (1 + 1.6e-5), ROWS) == "numbers"
    assert problem(ROWS[:, :-1] * (1 + 1.6e-5), ROWS[:, :-1]) is None
    signs = np.resize([1, -1], ROWS.shape)
    assert problem(ROWS * (1 + 0.9e-5 * signs), ROWS) is None


@pytest.mark.parametrize(
    ("shape", "rows"),
    [((), (1, 1)), ((5,), (1, 5)), ((2, 3), (2, 3)), ((2, 3, 4), (6, 4)), ((2, 3, 4, 5), (6, 20)), ((0, 3), (1, 0))],
)
def test_rows_are_last_axes_or_images(shape, rows):
    assert rows_of(shape) == rows


@pytest.mark.parametrize("shape", [(6, 5), (3,), (), (2, 3, 2, 2), (0, 4), (4, 0)], ids=str)
@grouped("kind", KINDS, key=lambda _: "kinds")
def test_contents_are_those_of_their_names(kind, shape):
    found, half = (floats(kind, shape, 1, half=flag) for flag in (False, True))
    assert found.shape == half.shape == shape
    np.testing.assert_array_equal(found, floats(kind, shape, 1, half=False))
    assert np.abs(half[np.isfinite(half)]).max(initial=0) < 65504
    if not found.size:
        return
    count, length = rows_of(shape)
    special = {"some NaN": np.isnan, "some infinities": np.isposinf, "rows of -inf": np.isneginf}
    number = special[kind](found).sum() if kind in special else np.isfinite(found).all() - 1
    if kind == "rows of -inf":
        per = shape[-1] if shape else 1
        assert number == (1 if found.size == per else found.size // per // 2 * per)
    else:
        assert number == (max(1, found.size // 8) if kind in special else 0)
    if kind == "rows of equal numbers":
        assert all(len(set(row)) == 1 for row in found.reshape(count, length).tolist())
    if kind == "large numbers":
        np.testing.assert_allclose(found / LARGE, half / LARGE_HALF)
    if kind == "rows near zero":
        for place, row in enumerate(found.reshape(count, length)):
            scale = SCALES[place % len(SCALES)]
            assert (row == 1).all() if scale is None else (np.abs(row) <= 5 * scale).all()


def test_findings_and_judgements_say_what_was_found():
    first = Finding("y", "inference", "zeros", "numbers", "1", "2", (0, 1), 3.5, 2)
    assert (
        str(first) == "y (inference, zeros): numbers at [0, 1]: 1; expected 2; 3.5 times the allowed error, 2 elements"
    )
    assert str(Finding("y", "r", "c", "shape", "1", "2")) == "y (r, c): shape: 1; expected 2"
    right, nothing = Judgement("eager", (), 1, ("zeros",)), Judgement("eager", (), 0, (), ("a note",))
    assert (bool(right), bool(nothing), right.judged, nothing.judged) == (True, False, True, False)
    assert str(right).splitlines() == ["right: 1 result compared with eager", "inputs: zeros"]
    assert str(nothing).splitlines() == ["not judged: no result was compared with an oracle", "note: a note"]
    second = Finding("y", "inference", "some NaN", "numbers", "1", "2")
    wrong = Judgement("eager", (first, second, second), 2, ())
    assert not wrong
    lines = str(wrong).splitlines()
    assert lines[0] == "wrong: 3 findings; 2 results compared with eager"
    assert lines[1].endswith("2 elements; also with some NaN")
    many = Judgement("eager", tuple(Finding(f"y{n}", "r", "c", "NaN", "", "") for n in range(SHOWN + 2)), 0, ())
    assert str(many).splitlines()[-1] == "  and 2 more results, in .findings"
    assert len(str(many).splitlines()) == SHOWN + 2


def findings():
    """What is found for results that differ in several ways and by several sizes, by data type."""
    rng = np.random.default_rng(5)
    for dtype, shape in itertools.product(("float32", "float16", "bfloat16", "int32"), ((4, 5), (3, 40))):
        exact = rng.standard_normal(shape) * 40
        exact = np.round(exact) if dtype == "int32" else exact
        signs, first = rng.choice((-1.0, 1.0), shape), np.arange(exact.size).reshape(shape) == 3
        ways = {
            "noise": signs * np.abs(exact),
            "bias": np.abs(exact),
            "one": first * 40.0,
            "far": first * 1e38,
            "infinity": np.where(first, np.inf, 0),
            "nan": np.where(first, np.nan, 0),
        }
        near = exact + signs * np.abs(exact) * 2.0**-14
        answers = [Answer(exact, None), Answer(exact, near), Answer(exact, near, (near, exact)), Answer(exact, first)]
        for (way, step), power in itertools.product(ways.items(), range(-23, 2, 2)):
            for (number, answer), loose in itertools.product(enumerate(answers), (1.0, 4.0)):
                got = exact + step * 2.0**power
                found = compare(got, answer, dtype, name="y", run="r", contents="c", loose=loose)
                told = found and (found.problem, found.given, found.expected, found.where, found.wrong)
                yield dtype, f"{shape} {way} {power} {number} {loose} {told} {found and f'{found.units:.3g}'}"


def contents():
    """The numbers of all kinds of contents."""
    for kind, shape, half in itertools.product(KINDS, ((6, 5), (20,), (), (2, 3, 2, 2)), (False, True)):
        numbers = floats(kind, shape, 3, half=half).ravel().tolist()
        yield kind, f"{shape} {[f'{number:.3e}' for number in numbers]}"


def recorded():
    lines = {}
    for dtype, line in (*findings(), *contents()):
        lines.setdefault(dtype, []).append(line)
    return {dtype: digest(told) for dtype, told in lines.items()}


def test_findings_are_those_of_the_record():
    assert recorded() == kept(KEPT)


if __name__ == "__main__":
    keep(KEPT, recorded())
    print(*(line for _, line in (*findings(), *contents())), sep="\n")
