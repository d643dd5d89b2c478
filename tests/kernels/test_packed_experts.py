"""Products of rows and the packed matrices that they have chosen of several."""

import ml_dtypes
import numpy as np
import pytest
from helpers.grouped import grouped

import onegraph as og
from onegraph.arrays.packed_codes import packed
from tests.helpers.kernels import run

TESTED_KERNELS = ("packed_experts",)
LIMITS = {"s4": (-8, 8), "u4": (0, 16), "s8": (-128, 128), "u8": (0, 256)}
EXPERTS, COLUMNS, DEPTH = 5, 37, 333


class Experts:
    """Random packed matrices, and what they stand for in float64."""

    def __init__(self, coding, group=0, zeros=True, seed=0, columns=COLUMNS):
        rng = self.rng = np.random.default_rng(seed)
        self.coding, self.group, size = coding, group, group or DEPTH
        codes = rng.integers(*LIMITS[coding], (EXPERTS, columns, DEPTH))
        rows = packed(codes.reshape(-1, DEPTH), int(coding[1]))
        scales = rng.uniform(0.01, 0.02, (EXPERTS, columns, -(-DEPTH // size))).astype(np.float32)
        points = rng.integers(max(LIMITS[coding][0], -9), 9, scales.shape)
        self.arrays = [rows, scales.reshape(len(rows), -1)]
        if zeros:
            self.arrays.append(points.astype(np.int8 if coding[0] == "s" else np.uint8).reshape(len(rows), -1))
        spread = [np.repeat(each, size, 2)[..., :DEPTH] for each in (scales.astype(np.float64), points * zeros)]
        self.numbers = (codes - spread[1]) * spread[0]

    def run(self, src, places, *, level=4, threads=1, **numbers):
        out = np.full((*places.shape, self.numbers.shape[1]), np.nan, np.float32)
        whole = self.arrays[0].shape[1] * (2 if self.coding.endswith("4") else 1)
        given = {"coding": self.coding, "group": self.group or whole, "zero": 0, "zeros": len(self.arrays) > 2}
        given |= {
            "coded": False,
            "unpacks": False,
            "experts": EXPERTS,
            "turned": True,
            "strict": False,
            "level": level,
            **numbers,
        }
        run("packed_experts", src, places, *self.arrays, out, threads=threads, **given)
        return out

    def exact(self, src, places):
        rows = src if src.ndim == 3 else np.repeat(src[:, None], places.shape[1], 1)
        found = np.zeros((*places.shape, self.numbers.shape[1]))
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


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("rows", [1, 40])
def test_threads_divide_the_columns_of_a_matrix(rows, coded):
    experts = Experts("u4", 64, columns=300)
    places = experts.rng.integers(0, EXPERTS, (rows, 2))
    src = experts.rng.standard_normal((rows, DEPTH)).astype(np.float32)
    alone = experts.run(src, places, coded=coded)
    exact = experts.exact(src, places)
    np.testing.assert_allclose(alone, exact, rtol=0, atol=(2e-2 if coded else 4e-6) * np.abs(exact).max())
    for threads in (2, 3):
        np.testing.assert_array_equal(experts.run(src, places, threads=threads, coded=coded), alone)


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


NUMBERS = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}


def matrices(coding, depth, columns=COLUMNS):
    """Random matrices (experts, columns, depth)."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((EXPERTS, columns, depth)).astype(NUMBERS[coding])


def products(src, places, numbers):
    """The products in float64, of src (places, rows, depth)."""
    wide, found = numbers.astype(np.float64), np.zeros((*places.shape, src.shape[-2], numbers.shape[1]))
    for at in np.ndindex(*places.shape):
        found[at] = src[at].astype(np.float64) @ wide[places[at]].T
    return found


@pytest.mark.parametrize("level", [0, 1, 2, 4])
@pytest.mark.parametrize("coding", NUMBERS)
@grouped("depth", [1, 15, 64, 333], key=lambda _: "depths")
def test_numbers_are_read_as_they_lie(depth, coding, level):
    """Of either layout, with guard numbers behind them that no result may hold."""
    for count, lines, is_turned, dtype, columns in (
        (1, 1, True, np.int64, COLUMNS),
        (90, 1, True, np.int32, COLUMNS),
        (40, 3, False, np.int64, COLUMNS),
        (6, 1, False, np.int64, COLUMNS),
        (6, 1, False, np.int64, 300),  # which threads divide
    ):
        numbers = matrices(coding, depth, columns)
        rng = np.random.default_rng(count)
        places = rng.integers(-EXPERTS, EXPERTS, (count,)).astype(dtype)
        src = rng.standard_normal((count, lines, depth)).astype(NUMBERS[coding] if count > 1 else np.float32)
        held = numbers if is_turned else np.ascontiguousarray(numbers.transpose(0, 2, 1))
        exact = products(src, places, numbers)
        given = {"coding": coding, "group": 0, "zero": 0, "zeros": False, "coded": False, "unpacks": False}
        given |= {"experts": EXPERTS, "turned": is_turned, "strict": True, "level": level}
        for threads in (1, 3):
            out = np.full((count, lines, columns), np.nan, np.float32)
            run("packed_experts", src, places, held, out, threads=threads, **given)
            np.testing.assert_allclose(out, exact, rtol=0, atol=2e-6 * max(np.abs(exact).max(), 1))


@pytest.mark.parametrize("level", [0, 1, 2, 4])
@pytest.mark.parametrize("coding", NUMBERS)
def test_few_rows_meet_wide_matrices_that_are_not_turned(coding, level):
    """The sums of more than 1,024 columns, with special numbers in their own column or row alone."""
    rng, depth, columns = np.random.default_rng(0), 7, 1100
    weights = rng.standard_normal((2, depth, columns)).astype(NUMBERS[coding])
    weights[0, 3, 1050], weights[1, 6, 0] = np.nan, np.inf
    for count in range(1, 6):
        src, places = rng.standard_normal((count, 1, depth)).astype(np.float32), np.zeros(count, np.int64)
        src[-1, 0, 2], places[-1] = np.nan if count > 1 else 0, count % 2
        exact = src.astype(np.float64) @ weights[places].astype(np.float64)
        given = {"coding": coding, "group": 0, "zero": 0, "zeros": False, "coded": False, "unpacks": False}
        given |= {"experts": 2, "turned": False, "strict": True, "level": level}
        for threads in (1, 3):
            out = np.full(exact.shape, np.inf, np.float32)
            run("packed_experts", src, places, weights, out, threads=threads, **given)
            np.testing.assert_allclose(out, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("coding", NUMBERS)
def test_places_share_several_rows(coding):
    numbers, rng = matrices(coding, 64), np.random.default_rng(0)
    src, places = rng.standard_normal((4, 1, 3, 64)).astype(np.float32), rng.integers(0, EXPERTS, (4, 2))
    out = np.full((4, 2, 3, COLUMNS), np.nan, np.float32)
    given = {"coding": coding, "group": 0, "zero": 0, "zeros": False, "coded": False, "unpacks": False}
    run("packed_experts", src, places, numbers, out, experts=EXPERTS, turned=True, strict=True, level=4, **given)
    exact = products(np.repeat(src, 2, 1), places, numbers)
    np.testing.assert_allclose(out, exact, rtol=0, atol=2e-6 * np.abs(exact).max())


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("coding", NUMBERS)
def test_rows_that_are_unpacked_do_not_depend_on_each_other(coding, is_turned):
    numbers, rng = matrices(coding, 333), np.random.default_rng(0)
    held = numbers if is_turned else np.ascontiguousarray(numbers.transpose(0, 2, 1))
    src, given = rng.standard_normal((9, 1, 333)).astype(np.float32), {"group": 0, "zero": 0, "zeros": False}
    given |= {"coding": coding, "coded": False, "unpacks": True, "experts": EXPERTS, "turned": is_turned}
    found = []
    for rows in (9, 4, 1):
        out = np.full((rows, 1, COLUMNS), np.nan, np.float32)
        run("packed_experts", src[:rows], np.zeros(rows, np.int64), held, out, strict=True, level=4, **given)
        found.append(out)
    for out in found[1:]:
        np.testing.assert_array_equal(out, found[0][: len(out)])


def gathered(kind, src, places, weights, *, turned=False, first=False):
    """A model of a product with gathered matrices."""
    g = og.Graph()
    rows, chosen = g.input("x", kind, src), g.input("places", "s64", places)
    own = g.op("Gather", [g.constant(weights), chosen], {"axis": 0}, edition="host")
    ends, name = ([own, rows], "transpose_a") if first else ([rows, own], "transpose_b")
    g.output("y", g.op("MatMul", ends, {name: turned}))
    return g.compile()


# Shapes of src and of the places; whether the matrices are turned, and the first operand.
FORMS = [
    ((6, 1, DEPTH), (6,), False, False),
    ((6, 1, DEPTH), (6,), True, False),
    ((6, DEPTH, 1), (6,), False, True),
    ((6, DEPTH, 1), (6,), True, True),
    ((4, 1, 1, DEPTH), (4, 2), True, False),
    ((4, 2, 3, DEPTH), (4, 2), False, False),
    ((1, DEPTH), (4, 2), False, False),
]


@pytest.mark.parametrize(("src", "places", "turned", "first"), FORMS)
def test_no_matrix_that_rows_name_is_copied(src, places, turned, first):
    numbers, rng = matrices("f32", DEPTH), np.random.default_rng(1)
    weights = numbers if turned != first else np.ascontiguousarray(numbers.transpose(0, 2, 1))
    model = gathered("f32", src, places, weights, turned=turned, first=first)
    x, at = rng.standard_normal(src).astype(np.float32), rng.integers(-EXPERTS, EXPERTS, places)
    own = weights[at].astype(np.float64)
    own = own.swapaxes(-1, -2) if turned else own
    exact = np.matmul(own, x) if first else np.matmul(x.astype(np.float64), own)
    np.testing.assert_allclose(model(x, at), exact, rtol=0, atol=1e-4)
    assert [part.kinds for part in model.report().partitions if "Gather" in str(part.kinds)] == []
    for beyond in (EXPERTS, -EXPERTS - 1):
        with pytest.raises(og.ArgumentError, match=rf"Gather: indices: {beyond} at place 0"):
            model(x, np.full(places, beyond))


@pytest.mark.parametrize(
    ("src", "places"),
    [((6, 40, DEPTH), (6,)), ((3, 6, 1, DEPTH), (6,)), ((1, 2, 1, DEPTH), (4, 2))],
    ids=["many rows", "more rows than places", "places that share rows along a first axis"],
)
def test_other_products_of_gathered_matrices_stay(src, places):
    weights, rng = np.ascontiguousarray(matrices("f32", DEPTH).transpose(0, 2, 1)), np.random.default_rng(1)
    model = gathered("f32", src, places, weights)
    x, at = rng.standard_normal(src).astype(np.float32), rng.integers(0, EXPERTS, places)
    np.testing.assert_allclose(model(x, at), np.matmul(x.astype(np.float64), weights[at]), rtol=0, atol=1e-4)
    assert any("Gather" in str(part.kinds) for part in model.report().partitions)
