"""Parts of the reference, and of the inputs that are made for it, beside definitions in plain Python."""

from types import SimpleNamespace

import numpy as np
import pytest

from onegraph.opset.dtypes import DataType
from onegraph.reference.host import indexing
from onegraph.testing import calibrated_inputs
from onegraph.testing.calibrated_inputs import RmsRange

INF, NAN = float("inf"), float("nan")
ROWS = np.array(
    [
        [3, -1, 3, 0, -0.0, 7, -7, 2],
        [NAN, INF, -INF, 1, NAN, 1, -1, 0],
        [-0.0, 0, -0.0, 0, 0, -0.0, 1e-45, -1e-45],
        [5, 5, 5, 5, 5, 5, 5, 5],
    ],
    np.float32,
)


def first(row, count, largest):
    """The places of the first numbers in order: NaN is the largest, and of equal ones the first comes first."""
    keys = [(number != number, 0 if number != number else number) for number in row]
    keys = [(not is_nan, -number) for is_nan, number in keys] if largest else keys
    return sorted(range(len(row)), key=keys.__getitem__)[:count]


@pytest.mark.parametrize("in_cache", [1, 16, 24, 2**16])
@pytest.mark.parametrize("count", [1, 2, 5, 8])
@pytest.mark.parametrize("largest", [True, False])
def test_first_places_are_those_of_a_stable_order(monkeypatch, in_cache, count, largest):
    monkeypatch.setattr(indexing, "IN_CACHE", in_cache)
    found = indexing._first_places(ROWS, count, largest=largest)
    assert found.dtype == np.int64
    assert found.tolist() == [first(row.tolist(), count, largest) for row in ROWS]


@pytest.mark.parametrize(("one", "other", "both"), [
    ((1, 8, 2), (4, 16, 5), (4, 8, 4)), ((4, 16, 20), (1, 8, 2), (4, 8, 8)), ((1, 8, 2), (0, 9, 5), (1, 8, 2)),
    ((1, 2, 1.5), (2, 4, 3), (1, 2, 1.5)), ((5, 9, 6), (1, 4, 2), (5, 9, 6)),
])  # fmt: skip
def test_ranges_of_several_readers_are_joined(one, other, both):
    assert RmsRange(*one) & RmsRange(*other) == RmsRange(*both)


@pytest.mark.parametrize(("scales", "dtype", "found"), [
    ((2.0,), "s8", (8, 128, 48)), ((-2.0, 4.0), "u8", (12, 192, 72)), ((), "s8", (4, 64, 24)),
    ((0.0,), "s8", (4, 64, 24)), ((INF,), "s8", (4, 64, 24)), ((2.0,), "f8_e4m3", (1, 32, 2)),
])  # fmt: skip
def test_ranges_of_codes_follow_their_scales(scales, dtype, found):
    op = SimpleNamespace(attrs={"scales": scales}, outputs=[SimpleNamespace(dtype=DataType(dtype))])
    assert calibrated_inputs._levels(op) == RmsRange(*found)
