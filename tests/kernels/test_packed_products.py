"""Products by constant weights of 4, 8 and 16 bits, which a kernel of the package reads as they are packed."""

from zlib import crc32

import ml_dtypes
import numpy as np
import pytest
from helpers.grouped import grouped

import onegraph as og
from onegraph.arrays.packed_codes import packed
from onegraph.capi.settings import has_vnni
from onegraph.compiler import packed_weights
from onegraph.compiler.passes import packed_products
from tests.helpers.kernels import run

TESTED_KERNELS = ("packed_product",)
RNG = np.random.default_rng(0)
LIMITS = {"s4": (-8, 8), "u4": (0, 16), "s8": (-128, 128), "u8": (0, 256)}
PACKED = (*LIMITS, "f16", "bf16")
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}
DEPTH, COLUMNS = 333, 37  # no multiples of what is read at once


@pytest.fixture(autouse=True)
def numbers_of_the_test(request):
    """A test draws the same numbers, whichever tests run before it."""
    RNG.bit_generator.state = np.random.default_rng(crc32(request.node.name.encode())).bit_generator.state


def unit(coding):
    return 512 // int(coding[-1])


class Product:
    """Random packed weights, and what they stand for in float64."""

    zero = 0.0  # the zero point of all codes

    def __init__(self, coding, group=0, zeros=None, scales="f32", depth=DEPTH, columns=COLUMNS):
        self.coding, self.group, self.depth, self.zeros = coding, group, depth, zeros
        if coding in DTYPES:
            weights = RNG.standard_normal((columns, depth)).astype(DTYPES[coding])
            self.arrays, self.numbers = [np.pad(weights, ((0, 0), (0, -depth % 32)))], weights.astype(np.float64)
            return
        size = group or depth
        codes = RNG.integers(*LIMITS[coding], (columns, depth))
        factors = RNG.uniform(0.01, 0.02, (columns, -(-depth // size))).astype(DTYPES[scales])
        self.arrays, points = [packed(codes, int(coding[-1])), factors], np.zeros(factors.shape)
        if zeros is not None:
            points = RNG.integers(max(LIMITS[coding][0], -20), min(LIMITS[coding][1], 20), factors.shape).astype(zeros)
            self.arrays.append(points)
        spread = [np.repeat(one.astype(np.float64), size, 1)[:, :depth] for one in (factors, points)]
        self.numbers = (codes - spread[1]) * spread[0]

    def run(self, src, *, level=4, threads=1, bias=None, coded=False, unpacks=False, dtype=None):
        """The product by the kernel."""
        ends = [src, *map(np.ascontiguousarray, self.arrays), *([] if bias is None else [bias])]
        out = np.full((*src.shape[:-1], len(self.numbers)), np.nan, dtype or src.dtype)
        whole = self.arrays[0].shape[1] * (2 if self.coding.endswith("4") else 1)
        group = (self.group or whole) if self.coding not in DTYPES else 1
        flags = {"zeros": self.zeros is not None, "bias": bias is not None, "coded": coded, "unpacks": unpacks}
        numbers = {"coding": self.coding, "group": group, "zero": self.zero, "level": level, **flags}
        run("packed_product", *ends, out, threads=threads, **numbers)
        return out

    def exact(self, src, bias=None):
        """The product in float64."""
        with np.errstate(all="ignore"):
            found = src.astype(np.float64) @ self.numbers.T
        return found if bias is None else found + bias


def drawn(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def assert_near(found, exact, share=2e-6):
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=0, atol=share * np.abs(exact).max())


def groups(coding):
    return (0, 16, 32, unit(coding), 2 * unit(coding)) if coding in LIMITS else (0,)


CASES = [(coding, group) for coding in PACKED for group in groups(coding)]


def test_every_coding_has_cases():
    assert {coding for coding, _ in CASES} == set(PACKED)


@pytest.mark.parametrize("level", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(("coding", "group"), CASES, ids=str)
def test_few_and_many_rows(coding, group, level):
    for zeros in (None, np.uint8 if coding[0] == "u" else np.int8, np.float32) if coding in LIMITS else (None,):
        product, bias = Product(coding, group, zeros), drawn(COLUMNS)
        for rows in (1, 2, 3, 7, 9, 20, 33):
            src = drawn(rows, DEPTH)
            assert_near(product.run(src, level=level, bias=bias), product.exact(src, bias))
            assert_near(product.run(src, level=level, unpacks=True), product.exact(src))


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@grouped("coding, group", [case for case in CASES if case[0] in LIMITS], key=lambda case: case[0])
def test_codes_of_src_are_multiplied_exactly(coding, group, level):
    """src of whole numbers up to 127 in each block has exact codes, so that only scales are rounded."""
    for zeros in (None, np.uint8 if coding[0] == "u" else np.int8, np.float32):
        product = Product(coding, group, zeros)
        for rows in (1, 2, 3, 5, 8, 14, 19):
            src = RNG.integers(-127, 128, (rows, DEPTH)).astype(np.float32)
            src[:, ::16] = 127
            assert_near(product.run(src, level=level, coded=True), product.exact(src))


@pytest.mark.parametrize("zero", [-7, 0.5, 300])
@pytest.mark.parametrize("coding", ["u4", "s8"])
def test_one_zero_point_of_all_codes(coding, zero):
    product = Product(coding, 32)
    product.zero, spread = zero, np.repeat(product.arrays[1], 32, 1)[:, :DEPTH]
    for rows in (1, 3, 16):
        src = RNG.integers(-127, 128, (rows, DEPTH)).astype(np.float32)
        src[:, ::16] = 127
        exact = product.exact(src) - zero * (src.astype(np.float64) @ spread.T)
        assert_near(product.run(src, coded=True), exact)
        assert_near(product.run(src), exact)


@pytest.mark.parametrize("coding", LIMITS)
def test_codes_of_src_have_errors_of_half_a_step(coding):
    """Many rows are rounded to 16 bits, which are more."""
    for rows in (3, 40):
        product, src = Product(coding, 32), drawn(rows, DEPTH)
        most = np.abs(product.numbers).sum(1).max() * np.abs(src).max() / 127 / 2
        error = np.abs(product.run(src, coded=True) - product.exact(src)).max()
        assert 0 < error < most


@pytest.mark.parametrize("level", [0, 1, 2])
def test_more_than_16_rows_are_no_codes_without_sums_of_bytes(level):
    product, src = Product("u4", 32), drawn(17, DEPTH)
    assert_near(product.run(src, coded=True, level=level), product.exact(src))
    rounded = product.run(src[1:], coded=True, level=level) - product.exact(src[1:])
    assert np.abs(rounded).max() > 1e-4 * np.abs(product.exact(src)).max()


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("coding", LIMITS)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_special_numbers_reach_their_rows(coding, special, coded):
    product = Product(coding, 32, np.uint8 if coding[0] == "u" else np.int8)
    for rows in (1, 5, 12, 34):
        src = drawn(rows, DEPTH)
        src[-1, 40] = special
        found, exact = product.run(src, coded=coded), product.exact(src)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
        np.testing.assert_array_equal(np.isposinf(found), np.isposinf(exact))
        assert_near(found[:-1], exact[:-1], 2e-2 if coded else 2e-6) if rows > 1 else None


@pytest.mark.parametrize("coded", [False, True])
def test_an_infinite_scale_makes_infinite_columns(coded):
    product = Product("s4", 32)
    product.arrays[1][3, 1] = np.inf
    src = drawn(2, DEPTH)
    found = product.run(src, unpacks=True, coded=coded)
    assert not np.isfinite(found[:, 3]).any()
    assert np.isfinite(np.delete(found, 3, 1)).all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("coding", PACKED)
def test_halves_on_both_sides(coding, dtype):
    product = Product(coding, 32 if coding in LIMITS else 0, scales="f16")
    for rows in (1, 12, 41):
        src = drawn(rows, DEPTH, dtype=dtype)
        assert_near(product.run(src), product.exact(src), 5e-3)


@pytest.mark.parametrize("scales", DTYPES)
def test_scales_of_every_float(scales):
    product, src = Product("u4", 32, scales=scales, zeros=np.float32), drawn(2, DEPTH)
    assert_near(product.run(src), product.exact(src))


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("coding", LIMITS)
def test_any_number_of_threads_gives_the_same_bits(coding, coded):
    product = Product(coding, 32, depth=512, columns=530)
    for rows in (2, 30):
        src = drawn(rows, 512)
        one, three = (product.run(src, coded=coded, threads=count) for count in (1, 3))
        np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize(
    ("coding", "dtype"),
    [("s4", "f32"), ("u4", "bf16"), ("s8", "f16"), ("u8", "f32"), ("f16", "f32"), ("bf16", "bf16")],
)
def test_more_rows_columns_and_depth_than_are_computed_at_once(coding, dtype):
    """Numbers of src that each way of computing has exactly, and rows of NaN in each block of them."""
    product = Product(coding, 64 if coding in LIMITS else 0, np.float32 if coding in LIMITS else None, "f32", 1100, 270)
    bias = drawn(270)
    for rows, level, coded in ((270, 4, False), (270, 4, True), (7, 1, True), (260, 1, False)):
        if coded and coding not in LIMITS:
            continue
        src = RNG.integers(-127, 128, (rows, 1100)).astype(DTYPES[dtype])
        src[:, ::16], special = 127, [2, rows - 3]
        exact = product.exact(src, bias)
        src[special] = np.nan
        found = product.run(src, level=level, coded=coded, threads=2, bias=bias)
        assert np.isnan(found[special].astype(np.float32)).all()
        rest = np.delete(np.arange(rows), special)
        assert_near(found[rest], exact[rest], 2e-6 if dtype == "f32" and not coded else 8e-3)


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("size", [1e-36, 1e-22, 1e30, 2e38])
def test_rows_of_every_size_keep_their_digits(size, coded):
    """Sums of products with codes do not overflow, and parts of 16 bits are not lost."""
    product, src = Product("u8", 32, np.uint8), drawn(9, DEPTH) / 4
    product.arrays[1] = product.arrays[1] / 16
    product.numbers = product.numbers / 16
    src[[0, 5]] *= size
    for rows in (3, 9):
        found, exact = product.run(src[:rows], coded=coded), product.exact(src[:rows])
        for row in range(rows):
            if coded:  # half a step of the codes of a row, for each of its elements
                step = np.abs(src[row]).max() / 127
                assert np.all(np.abs(found[row] - exact[row]) <= 0.51 * step * np.abs(product.numbers).sum(1))
            else:
                assert_near(found[row], exact[row])


def test_tiles_take_groups_longer_than_what_they_read_at_once():
    product, src = Product("u4", 640, depth=1900), drawn(20, 1900)
    assert_near(product.run(src), product.exact(src))


def test_unpacked_rows_do_not_depend_on_each_other():
    product, src = Product("s8", 32), drawn(9, DEPTH)
    whole = product.run(src, unpacks=True)
    for rows in (1, 2, 5):
        np.testing.assert_array_equal(product.run(src[:rows], unpacks=True), whole[:rows])


def test_subnormal_numbers_have_codes():
    product, src = Product("s8", 32), np.full((1, DEPTH), 1e-42, np.float32)
    assert np.isfinite(product.run(src, coded=True)).all()


# The pass -------------------------------------------------------------------------------------------------------------


def weights_only(way, rows, is_turned, *, dtype="s8", depth=128, columns=70, behind=None):
    """A product by weights of codes, and the product in float64."""
    low, high = LIMITS[dtype]
    codes = RNG.integers(low, high, (depth, columns))
    shape = (columns, depth) if is_turned else (depth, columns)
    g = og.Graph()
    w = g.constant((codes.T if is_turned else codes).astype(og.DataType[dtype].numpy))
    axis = 0 if is_turned else 1
    scales = RNG.uniform(0.01, 0.02, columns).astype(np.float32)
    points = RNG.integers(max(low, -5), min(high, 6), columns)
    factors, zeros = scales[None], points[None]
    if way == "per_tensor":
        factors, zeros = scales[:1], points[:1]
        d = g.dequantize(w, scales=scales[:1].tolist(), zps=points[:1].tolist())
    elif way == "per_channel":
        d = g.dequantize(w, scales=scales.tolist(), zps=points.tolist(), qtype="per_channel", axis=axis)
    elif way == "dynamic":
        zps = g.constant(points.astype(np.int32))
        d = g.dynamic_dequantize(w, g.constant(scales), zps, qtype="per_channel", axis=axis)
    else:
        size = int(way)
        factors = RNG.uniform(0.01, 0.02, (depth // size, columns)).astype(np.float32)
        given, group, zeros = (factors.T, [1, size], 0) if is_turned else (factors, [size, 1], 0)
        d = g.dynamic_dequantize(w, g.constant(given), qtype="per_group", group_shape=group)
        factors = np.repeat(factors, size, 0)
    y = g.matmul(g.input("x", "f32", (rows, depth)), d, transpose_b=is_turned)
    g.output("y", y if behind is None else behind(g, y))
    assert w.shape == shape
    return g, (codes - zeros) * factors.astype(np.float64)


def packed_steps(model):
    return [part for part in model.report().partitions if packed_products.NOTE in part.reason]


@pytest.mark.library
@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("way", ["per_tensor", "per_channel", "dynamic", "16", "32", "128"])
def test_dequantized_weights_are_read_packed(way, is_turned):
    for rows in (1, 20):
        g, weights = weights_only(way, rows, is_turned)
        model, x = g.compile(), drawn(rows, 128)
        assert_near(model(x), x.astype(np.float64) @ weights)
        assert len(packed_steps(model)) == len(model.report().partitions) == 1


@pytest.mark.library
@pytest.mark.parametrize("rows", [1, 20])
def test_weights_that_become_bf16_are_read_packed(rows):
    codes = RNG.integers(-128, 128, (70, 40)).astype(np.int8)
    g = og.Graph()
    weights = g.type_cast(g.dequantize(g.constant(codes), scales=[0.25]), dtype="bf16")
    g.output("y", g.matmul(g.input("x", "bf16", (rows, 70)), weights))
    model, x = g.compile(), drawn(rows, 70, dtype=ml_dtypes.bfloat16)
    others = [part for part in model.report().partitions if part not in packed_steps(model)]
    assert len(packed_steps(model)) == 1
    assert all(part.kinds == ("MatMul: TypeCast",) for part in others)  # where the CPU has no products of bf16
    assert_near(model(x), x.astype(np.float64) @ (codes * 0.25), 1e-2)


@pytest.mark.library
def test_scales_of_one_constant_stay_apart():
    codes, x = RNG.integers(-9, 9, (64, 64)).astype(np.int8), drawn(2, 64)
    g = og.Graph()
    w, src = g.constant(codes), g.input("x", "f32", (2, 64))
    for at, (scale, is_turned) in enumerate([(0.5, False), (2.0, False), (0.5, True)]):
        g.output(f"y{at}", g.matmul(src, g.dequantize(w, scales=[scale]), transpose_b=is_turned))
    model = g.compile()
    assert len(packed_steps(model)) == 3
    for found, weights in zip(model(x), [codes * 0.5, codes * 2.0, codes.T * 0.5], strict=True):
        assert_near(found, x.astype(np.float64) @ weights)


@pytest.mark.library
@pytest.mark.parametrize("dtype", ["s8", "u8"])
def test_reproducible_products_are_the_same_in_any_batch(dtype):
    g, weights = weights_only("per_channel", None, True, dtype=dtype)
    model, x = g.compile(reproducible=True), drawn(12, 128)
    whole = model(x)
    assert_near(whole, x.astype(np.float64) @ weights)
    np.testing.assert_array_equal(model(x[:1]), whole[:1])


@pytest.mark.library
@pytest.mark.parametrize("coding", ["s4", "u4"])
@pytest.mark.parametrize("group", [16, 48, 96])
def test_groups_of_four_bit_codes(coding, group):
    depth, columns = 4 * group, 10
    codes = RNG.integers(*LIMITS[coding], (depth, columns)).astype(og.DataType[coding].numpy)
    scales = RNG.uniform(0.01, 0.02, (4, columns)).astype(np.float32)
    g = og.Graph()
    d = g.dynamic_dequantize(g.constant(codes), g.constant(scales), qtype="per_group", group_shape=[group, 1])
    g.output("y", g.matmul(g.input("x", "f32", (3, depth)), d))
    model, x = g.compile(), drawn(3, depth)
    assert len(packed_steps(model)) == 1
    assert_near(model(x), x.astype(np.float64) @ (codes.astype(np.float64) * np.repeat(scales, group, 0)))


@pytest.mark.library
@pytest.mark.parametrize("depth", [64, 100, 128])
@pytest.mark.parametrize("is_gathered", [False, True])
def test_a_last_group_may_be_short(depth, is_gathered):
    """Of groups of 48, which the kernel counts as three."""
    product, g = Product("u4", 48, np.uint8, depth=depth), og.Graph()
    ends, attrs = list(map(g.constant, product.arrays)), {"coding": "u4", "group": 48}
    if is_gathered:
        table, *others = ends
        ends, kind, x = [table, g.input("x", "s64", (3,)), *others], "PackedGather", np.array([2, 0, -1])
        attrs, exact = attrs | {"depth": depth}, product.numbers[x]
    else:
        ends, kind, x = [g.input("x", "f32", (3, depth)), *ends], "PackedMatMul", drawn(3, depth)
        exact = x.astype(np.float64) @ product.numbers.T
    g.output("y", g.op(kind, ends, attrs, edition="host"))
    assert_near(g.compile()(x), exact)


@pytest.mark.library
def test_scales_along_the_depth_are_folded():
    codes = RNG.integers(-9, 9, (32, 8)).astype(np.int8)
    scales = RNG.uniform(0.01, 0.02, 32).astype(np.float32)
    g = og.Graph()
    d = g.dequantize(g.constant(codes), scales=scales.tolist(), qtype="per_channel", axis=0)
    g.output("y", g.matmul(g.input("x", "f32", (3, 32)), d))
    model, x = g.compile(), drawn(3, 32)
    assert [part.executor for part in model.report().partitions] == ["oneDNN", "constant"]
    assert_near(model(x), x.astype(np.float64) @ (codes * scales[:, None].astype(np.float64)))


PLAIN, BY_COLUMN = {"scales": [0.5]}, {"scales": [0.5] * 800, "qtype": "per_channel", "axis": 1}


@pytest.mark.library
@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "coding", "count"),
    [
        (4, 8, "i1", PLAIN, 0),
        (5, 800, "i1", PLAIN, 0),
        (4, 800, "i1", PLAIN, not has_vnni()),
        (1, 800, "i1", BY_COLUMN, not has_vnni()),
        (4, 800, "i1", {**PLAIN, "zps": [3]}, not has_vnni()),
        (4, 800, "u1", PLAIN, not has_vnni()),
        (1, 800, "u1", {**BY_COLUMN, "zps": [3] * 800}, not has_vnni()),
        (4, 800, "u1", {**BY_COLUMN, "zps": [3, 5] * 400}, 1),
        (9, 800, "u1", {**BY_COLUMN, "zps": [3, 5] * 400}, 0),
    ],
)
def test_products_of_codes_stay_with_the_library_but_for_few_rows(rows, columns, dtype, coding, count):
    g = og.Graph()
    src = g.dequantize(g.input("x", "u8", (rows, 700)), scales=[0.1])
    codes = RNG.integers(0, 9, (700, columns)).astype(dtype)
    g.output("y", g.matmul(src, g.dequantize(g.constant(codes), **coding)))
    model, x = g.compile(), RNG.integers(0, 256, (rows, 700)).astype(np.uint8)
    assert len(packed_steps(model)) == count
    zeros = np.resize(np.float64(coding.get("zps", [0])), columns)
    assert_near(model(x), x * 0.1 @ ((codes - zeros) * 0.5))


@pytest.mark.library
@pytest.mark.parametrize("dtype", ["u4", "s8"])
def test_weights_that_no_int8_kernel_takes_are_packed_for_any_number_of_rows(dtype):
    codes, x = RNG.integers(0, 9, (128, 48)), RNG.integers(0, 256, (64, 128)).astype(np.uint8)
    scales = RNG.uniform(0.01, 0.02, (4, 48)).astype(np.float32)
    g = og.Graph()
    src = g.dequantize(g.input("x", "u8", (64, 128)), scales=[0.1])
    known = g.constant(codes.astype(og.DataType[dtype].numpy)), g.constant(scales)
    weights = g.dynamic_dequantize(*known, qtype="per_group", group_shape=[32, 1])
    g.output("y", g.matmul(src, weights))
    model = g.compile()
    assert len(packed_steps(model)) == 1
    assert_near(model(x), x * 0.1 @ (codes * np.repeat(scales, 32, 0).astype(np.float64)))


@pytest.mark.library
@pytest.mark.parametrize(("shape", "is_constant"), [((24,), True), ((1, 1, 24), True), ((1,), True), ((24,), False)])
@pytest.mark.parametrize("rows", [1, 3, 20])
def test_a_constant_row_is_added_in_the_step_of_the_product(rows, shape, is_constant):
    codes, bias = RNG.integers(-8, 8, (64, 24)).astype(np.int8), drawn(*shape)
    g = og.Graph()
    x, weights = g.input("x", "f32", (rows, 64)), g.dequantize(g.constant(codes), scales=[0.5])
    row = g.constant(bias) if is_constant else g.input("b", "f32", shape)
    g.output("y", g.add(g.matmul(x, weights), row))
    model, src = g.compile(), drawn(rows, 64)
    (step,) = packed_steps(model)
    assert (step.kinds == ("MatMul", "Add")) is (is_constant and shape[-1] == 24)
    found = model(src) if is_constant else model(src, bias)
    assert_near(found, src.astype(np.float64) @ (codes * 0.5) + bias)


@pytest.mark.library
def test_products_between_codes_stay_with_the_library():
    g = og.Graph()
    src = g.dequantize(g.input("x", "u8", (1, 700)), scales=[0.1])
    codes = RNG.integers(-9, 9, (700, 800)).astype(np.int8)
    y = g.matmul(src, g.dequantize(g.constant(codes), scales=[0.5]))
    g.output("y", g.quantize(y, scales=[1.0], dtype="s8"))
    assert packed_steps(g.compile()) == []


@pytest.mark.library
@pytest.mark.parametrize("rows", [1, 4])
def test_large_bf16_weights_meet_few_rows(rows):
    g = og.Graph()
    weights = RNG.standard_normal((600, 512)).astype(ml_dtypes.bfloat16)
    g.output("y", g.matmul(g.input("x", "bf16", (rows, 600)), g.constant(weights)))
    model, x = g.compile(), drawn(rows, 600, dtype=ml_dtypes.bfloat16)
    assert_near(model(x), x.astype(np.float64) @ weights.astype(np.float64), 1e-2)


@pytest.mark.parametrize("rows", [3, None])
@pytest.mark.parametrize("way", ["codes", "bf16", "f32", "rows"])
def test_products_of_constants_are_computed_once(way, rows):
    """Neither the packed weights nor the panels of open sizes stand for the constants."""
    g, ends = og.Graph(), {"src": RNG.integers(-4, 5, (2, 5, 40)), "w": RNG.integers(-4, 5, (40, 64))}
    dtype = way if way in DTYPES else "f32"
    src, w = (g.constant(end.astype(DTYPES[dtype]), dtype=og.DataType(dtype)) for end in ends.values())
    if way in ("codes", "rows"):
        w = g.dequantize(g.constant(ends["w"].astype(np.int8)), scales=[1.0], zps=[0])
    src = g.static_transpose(g.static_transpose(src, order=[1, 0, 2]), order=[1, 0, 2])
    if way == "rows":
        g.output("y", g.op("Gather", [w, g.constant(np.int32([3, 1]))], {"axis": 0}, edition="host"))
    else:
        g.output("y", g.matmul(src, w))
    g.output("z", g.relu(g.input("x", "f32", (rows, 4))))
    wanted = ends["w"][[3, 1]] if way == "rows" else ends["src"] @ ends["w"]
    model = g.compile()
    for size in [rows] if rows else [3, 4, 5, 6]:
        np.testing.assert_allclose(model(np.ones((size, 4), np.float32)).y.astype(np.float64), wanted, rtol=2**-7)
    executors = {kind: part.executor for part in model.report().partitions for kind in part.kinds}
    assert executors["Gather" if way == "rows" else "MatMul"] == "constant"


@pytest.mark.parametrize(("soft", "hard", "threads"), [(-1, -1, 3), (2**33, -1, 1), (-1, 2**33, 3), (2**33, 2**33, 1)])
def test_one_thread_copies_weights_where_memory_is_limited(monkeypatch, soft, hard, threads):
    resource, seen = pytest.importorskip("resource"), []

    class Kernel:
        def run_once(self, *_, threads):
            seen.append(threads)

    monkeypatch.setattr(packed_weights, "compiled", lambda *_: Kernel())
    monkeypatch.setattr(packed_weights, "get_num_threads", lambda: 3)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    packed_weights._copy(np.zeros(4, np.float32), np.zeros(4, np.float32))
    assert seen == [threads]
