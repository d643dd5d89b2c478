"""Products of rows and the packed matrices that they have chosen of several."""

import numpy as np
import pytest

import onegraph as og
from onegraph.arrays.packed_codes import packed
from tests.helpers.kernels import run

TESTED_KERNELS = ("packed_experts",)
LIMITS = {"s4": (-8, 8), "u4": (0, 16), "s8": (-128, 128), "u8": (0, 256)}
EXPERTS, COLUMNS, DEPTH = 5, 37, 333


class Experts:
    """Random packed matrices, and what they stand for in float64."""

    def __init__(self, coding, group=0, zeros=True, seed=0):
        rng = self.rng = np.random.default_rng(seed)
        self.coding, self.group, size = coding, group, group or DEPTH
        codes = rng.integers(*LIMITS[coding], (EXPERTS, COLUMNS, DEPTH))
        rows = packed(codes.reshape(-1, DEPTH), int(coding[1]))
        scales = rng.uniform(0.01, 0.02, (EXPERTS, COLUMNS, -(-DEPTH // size))).astype(np.float32)
        points = rng.integers(max(LIMITS[coding][0], -9), 9, scales.shape)
        self.arrays = [rows, scales.reshape(len(rows), -1)]
        if zeros:
            self.arrays.append(points.astype(np.int8 if coding[0] == "s" else np.uint8).reshape(len(rows), -1))
        spread = [np.repeat(each, size, 2)[..., :DEPTH] for each in (scales.astype(np.float64), points * zeros)]
        self.numbers = (codes - spread[1]) * spread[0]

    def run(self, src, places, *, level=4, threads=1, **numbers):
        out = np.full((*places.shape, COLUMNS), np.nan, np.float32)
        whole = self.arrays[0].shape[1] * (2 if self.coding.endswith("4") else 1)
        given = {"coding": self.coding, "group": self.group or whole, "zero": 0, "zeros": len(self.arrays) > 2}
        given |= {"coded": False, "unpacks": False, "experts": EXPERTS, "level": level, **numbers}
        run("packed_experts", src, places, *self.arrays, out, threads=threads, **given)
        return out

    def exact(self, src, places):
        rows = src if src.ndim == 3 else np.repeat(src[:, None], places.shape[1], 1)
        found = np.zeros((*places.shape, COLUMNS))
        for at in np.ndindex(*places.shape):
            if 0 <= places[at] < EXPERTS:
                found[at] = self.numbers[places[at]] @ rows[at].astype(np.float64)
        return found


@pytest.mark.parametrize("level", [0, 1, 2, 4])
@pytest.mark.parametrize("coding", LIMITS)
@pytest.mark.parametrize("tokens", [1, 7, 90])
def test_each_row_meets_the_matrix_it_has_chosen(tokens, coding, level):
    for group, zeros in ((0, False), (16, True), (64, True)):
        experts = Experts(coding, group, zeros)
        places = experts.rng.integers(-1, EXPERTS + 1, (tokens, 2))
        for shape in ((tokens, DEPTH), (tokens, 2, DEPTH)):
            src = experts.rng.standard_normal(shape).astype(np.float32)
            exact = experts.exact(src, places)
            for threads in (1, 3):
                found = experts.run(src, places, level=level, threads=threads)
                np.testing.assert_allclose(found, exact, rtol=0, atol=4e-6 * max(np.abs(exact).max(), 1))


def test_special_numbers_stay_in_their_rows():
    experts, places = Experts("u4", 32), np.array([[0, 1], [1, 2], [4, 0]])
    src = experts.rng.standard_normal((3, DEPTH)).astype(np.float32)
    src[1, 7] = np.nan
    found = experts.run(src, places)
    assert np.isnan(found[1]).all()
    np.testing.assert_allclose(found[::2], experts.exact(src, places)[::2], rtol=0, atol=1e-4)


@pytest.mark.parametrize("has_zeros", [False, True])
def test_the_pass_packs_the_experts(has_zeros):
    """On codes whose rows and groups are filled up for the kernel."""
    experts, g = Experts("u4", 48, has_zeros), og.Graph()
    rows, *others = [array.reshape(EXPERTS, COLUMNS, -1) for array in experts.arrays]
    ends = g.input("x", "f32", (4, DEPTH)), g.input("places", "s64", (4, 2)), *map(g.constant, (rows, *others))
    g.output("y", g.op("PackedExperts", [*ends], {"coding": "u4", "group": 48}, edition="host"))
    model = g.compile()
    src, places = experts.rng.standard_normal((4, DEPTH)).astype(np.float32), experts.rng.integers(0, EXPERTS, (4, 2))
    np.testing.assert_allclose(model(src, places), experts.exact(src, places), rtol=0, atol=1e-4)
    assert [part.executor for part in model.report().partitions] == ["kernel"]
