"""NaN and infinities stay in their rows and pixels in products of 16 bits, and windows may span the source."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import onegraph as og
from onegraph._util.open_numbers import numbers_of
from onegraph._util.size_symbols import OpenSizes
from onegraph.capi import settings
from onegraph.capi.settings import is_native
from onegraph.compiler.ir.part import Part
from onegraph.compiler.ir.step import Step
from onegraph.compiler.ir.value import Value
from onegraph.compiler.kernels.native import compiled, packed
from onegraph.compiler.lower import lower
from onegraph.compiler.passes import row_leaks
from onegraph.compiler.passes.magnitudes import LARGEST, MOST_ELEMENTS, _bound, _is_small, finite_values
from onegraph.compiler.row_leaks import AGAIN, BOUNDS
from onegraph.compiler.steps import CompiledStep
from onegraph.faults.leaks import SOURCES
from onegraph.faults.ops.spanned_source import SPANNED_SOURCE, spans_source
from onegraph.native.library import address_of
from onegraph.opset.schema import TensorType
from onegraph.runtime.plan import Plan, PlanSource
from tests.helpers.kernels import run, values_of

TESTED_KERNELS = ("unbounded", "when_special", "when_special_end")


pytestmark = pytest.mark.library
IMAGE = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
RNG = np.random.default_rng(5)


def numbers(*shape):
    """Multiples of 1/4, whose sums of products are exact."""
    return (RNG.integers(-8, 8, shape) / 4).astype(og.bf16.numpy)


def spoilt(*shape):
    """Numbers with a row of NaN, an infinity at the end of a row, and one at the beginning of another."""
    found = numbers(*shape)
    rows = found.reshape(-1, shape[-1])
    rows[len(rows) // 2] = np.nan
    rows[0, -1], rows[-1, 0] = np.inf, -np.inf
    return found


def classes(array):
    wide = np.asarray(array).astype(np.float64)
    return np.select([np.isnan(wide), np.isposinf(wide), np.isneginf(wide)], [2, 1, -1], 0)


def is_guarded(model):
    return any(AGAIN in part.reasons for part in model.report().partitions)


def convolved(x, w):
    """The convolution of images (n, h, w, c) and weights (h, w, c, k) in float64, by its definition."""
    windows = sliding_window_view(x.astype(np.float64), w.shape[:2], (1, 2))  # n, h, w, c, window
    with np.errstate(invalid="ignore"):
        terms = windows[..., None] * np.moveaxis(w.astype(np.float64), 2, 0)[:, :, :, :]
        return terms.sum((3, 4, 5))


def product(x, w):
    with np.errstate(invalid="ignore"):
        return (x.astype(np.float64)[..., None] * w.astype(np.float64)).sum(-2)


BEHIND = {
    "nothing": lambda g, y, r: y,
    "a residual": lambda g, y, r: g.add(y, r),
    "a sigmoid": lambda g, y, r: g.sigmoid(y),
    "a cast": lambda g, y, r: g.type_cast(y, dtype="f32"),
}
AFTER = {
    "nothing": lambda y, r: y,
    "a residual": lambda y, r: y + r.astype(np.float64),
    "a sigmoid": lambda y, r: 1 / (1 + np.exp(-y)),
    "a cast": lambda y, r: y,
}


def check(build, expected, feeds):
    """Compare a product, and ops behind it, with float64, for numbers and for NaN; in this order, and back again."""
    for name, behind in BEHIND.items():
        g = og.Graph()
        y = build(g)
        r = g.input("r", "bf16", y.shape) if name == "a residual" else None
        g.output("z", behind(g, y, r))
        model, spare = g.compile(), numbers(*y.shape)
        for x in feeds:
            arrays = {"x": x, "r": spare} if name == "a residual" else {"x": x}
            with np.errstate(all="ignore"):
                want = AFTER[name](expected(x), spare)
            got = model(**arrays)
            np.testing.assert_array_equal(classes(got), classes(want), err_msg=name)
            finite = np.isfinite(want)
            np.testing.assert_allclose(got.astype(np.float64)[finite], want[finite], rtol=0.02, atol=0.02, err_msg=name)


@pytest.mark.parametrize("rows", [(40,), (3, 40)])
@pytest.mark.parametrize("terms", [3, 33, 64, 70])
@pytest.mark.parametrize("is_constant", [False, True])
def test_rows_of_a_product_are_apart(rows, terms, is_constant):
    w = numbers(terms, 48)

    def build(g):
        x = g.input("x", "bf16", (*rows, terms))
        return g.matmul(x, g.constant(w) if is_constant else g.reorder(g.constant(w)))

    clean = numbers(*rows, terms)
    check(build, lambda x: product(x, w), [clean, spoilt(*rows, terms), clean])


@pytest.mark.parametrize(("window", "channels"), [(1, 40), (1, 64), (1, 17), (3, 2), (5, 1), (5, 10)])
def test_pixels_of_a_convolution_are_apart(window, channels):
    w, side = numbers(window, window, channels, 24), 12

    def build(g):
        return g.op("Convolution", [g.input("x", "bf16", (2, side, side, channels)), g.constant(w)], IMAGE)

    check(build, lambda x: convolved(x, w), [numbers(2, side, side, channels), spoilt(2, side, side, channels)])


def graph_of(kind, window=1, channels=40):
    """A product of one kind whose kernel may let NaN into other rows."""
    g = og.Graph()
    if kind == "MatMul":
        g.output("y", g.matmul(g.input("x", "bf16", (40, channels)), g.input("w", "bf16", (channels, 24))))
        return g
    order = (24, channels) if kind in ("ConvolutionBackwardData", "ConvTranspose") else (channels, 24)
    x, w = g.input("x", "bf16", (2, 9, 9, channels)), g.input("w", "bf16", (window, window, *order))
    attrs = {**IMAGE, "weights_format": "XOI" if kind.startswith("ConvTranspose") else "XIO"}
    if kind == "ConvolutionBackwardData":
        attrs["dst_shape"] = [2, 8 + window, 8 + window, 24]
    g.output("y", g.op(kind, [x, w], attrs))
    return g


@pytest.mark.parametrize("kind", sorted(SOURCES))
def test_every_kind_is_guarded_where_it_leaks(kind):
    torch = pytest.importorskip("torch")
    for window, channels in ((1, 40), (1, 17), (2, 33), (3, 2)) if kind != "MatMul" else ((1, 40),):
        g = graph_of(kind, window, channels)
        feeds = {"x": spoilt(*g.inputs["x"].shape), "w": numbers(*g.inputs["w"].shape)}
        wide = {name: torch.from_numpy(array.astype(np.float64)) for name, array in feeds.items()}
        x, w = wide.values()
        if kind == "MatMul":
            want = x @ w
        else:
            x = x.permute(0, 3, 1, 2)
            is_forward = kind in ("Convolution", "ConvTransposeBackwardData")
            w = w.permute(3, 2, 0, 1)  # as a Convolution takes them: results, channels, window
            call = torch.nn.functional.conv2d if is_forward else torch.nn.functional.conv_transpose2d
            want = call(x, w).permute(0, 2, 3, 1)
        got = g.compile()(**feeds)
        np.testing.assert_array_equal(classes(got), classes(want.numpy()), err_msg=f"{window}, {channels}")


def test_numbers_take_the_kernel_of_finite_math():
    g = graph_of("MatMul")
    feeds = {"x": numbers(40, 40), "w": numbers(40, 24)}
    fast, guarded = g.compile(finite_math=True), g.compile()
    np.testing.assert_array_equal(fast(**feeds), guarded(**feeds))
    assert not is_guarded(fast)
    call = og.check_op("MatMul", inputs=[("bf16", (40, 40)), ("bf16", (40, 24))], library="3.13")
    assert [one.rule for one in call if one.rule == "matmul_row_leaks"]


@pytest.mark.parametrize(
    ("isa", "version", "dtype", "terms", "leaks"),
    [
        ("avx512_core_bf16", (3, 13, 0), og.bf16, 33, True),  # which are read by twos
        ("avx512_core_bf16", (3, 13, 0), og.bf16, 34, False),
        ("avx512_core_amx", (3, 13, 0), og.bf16, 34, True),
        ("avx512_core_amx", (3, 13, 0), og.bf16, 64, False),
        ("avx512_core_amx", (3, 2, 0), og.bf16, 34, False),
        ("avx512_core_amx", (3, 13, 0), og.f16, 34, False),
        ("avx512_core_amx_fp16", (3, 13, 0), og.f16, 34, True),
    ],
)
def test_products_leak_where_tiles_end(isa, version, dtype, terms, leaks, monkeypatch):
    monkeypatch.setattr(settings.library, "newest_isa", lambda _: isa)
    monkeypatch.setattr(row_leaks, "VERSION", version)
    types = tuple([TensorType(dtype, shape) for shape in ((4, terms), (terms, 8), (4, 8))])
    part = Part("MatMul", {}, (0, 1), types[:2], types[2:])
    assert row_leaks._leaks(Step(0, "library", "MatMul", (0, 1), (2,), None, {}, part=part)) is leaks
    assert row_leaks._leaks(Step(0, "reference", "MatMul", (0, 1), (2,), None, {})) is False


def test_whole_tiles_are_not_guarded():
    assert not is_guarded(graph_of("MatMul", channels=64).compile())
    assert not is_guarded(graph_of("Convolution", 3, 64).compile())


def test_rows_of_open_sizes_are_apart():
    g = og.Graph()
    w = numbers(70, 48)
    g.output("y", g.matmul(g.input("x", "bf16", (None, 70)), g.constant(w)))
    model = g.compile()
    for rows in (37, 41, 43, 75):
        x = spoilt(rows, 70)
        np.testing.assert_array_equal(classes(model(x=x)), classes(product(x, w)))


# Windows that span the source ----------------------------------------------------------------------------------------


def spanning(kind, dtype, rows=2, dilation=5, before=2, after=3):
    """A convolution whose windows have two rows, with the whole source between them."""
    g = og.Graph()
    x, w = g.input("x", dtype, (1, 8, rows, 6, 16)), g.input("w", dtype, (1, 2, 2, 16, 16))
    ends = [x, w]
    if dtype in ("u8", "s8"):
        ends = [g.dequantize(x, scales=[0.5], zps=[0]), g.dequantize(w, scales=[0.5], zps=[0])]
    attrs = {"strides": [1] * 3, "dilations": [1, dilation, 1], "pads_begin": [0, before, 0], "pads_end": [0, after, 0]}
    g.output("y", g.op(kind, ends, attrs))
    return g


@pytest.mark.parametrize("mode", ["strict", "bf16"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "s8"])
def test_windows_may_span_the_source(dtype, mode):
    g = spanning("Convolution", dtype)
    feeds = {name: np.ones(tensor.shape, tensor.dtype.numpy) for name, tensor in g.inputs.items()}
    got = g.compile(fpmath_mode=mode)(**feeds).astype(np.float64)
    factor = 0.25 if dtype == "s8" else 1
    # The first windows begin in rows -2, -1, 0 of padding: those of row -2 end in row 3, behind the source.
    want = [32 * factor if start in (0, 1) or start + 5 in (0, 1) else 0 for start in range(-2, got.shape[2] - 2)]
    assert 0 in want
    np.testing.assert_array_equal(got[0, 0, :, 0, 0], want)


@pytest.mark.parametrize(
    ("rows", "dilation", "pads", "spans"),
    [(2, 5, (2, 3), True), (1, 3, (1, 2), True), (2, 2, (1, 1), False), (2, 5, (0, 5), False), (1, 3, (0, 3), False)],
)
def test_spanning_windows_are_recognised(rows, dilation, pads, spans):
    from onegraph.opset.editions.registry import BASE
    from onegraph.opset.schema import Call, TensorType

    (op,) = spanning("Convolution", "bf16", rows, dilation, *pads).ops
    call = Call(BASE["Convolution"], op.attrs, [TensorType(one.dtype, one.shape) for one in op.inputs], 1)
    assert spans_source(call) == spans
    assert bool(SPANNED_SOURCE.when(call)) == spans


# Clamps of products whose inputs are bounded ------------------------------------------------------------------------


def clamped(dtype, weights, limits=(0.0, 6.0)):
    """Two convolutions with a Clamp behind each, of which the second is behind a sum, too."""
    g = og.Graph()
    y = g.input("x", dtype, (2, 7, 7, 8))
    for each in weights:
        y = g.clamp(g.op("Convolution", [y, g.constant(each)], IMAGE), min=limits[0], max=limits[1])
    g.output("y", y)
    return g


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_clamps_of_convolutions_are_fused_and_keep_nan(dtype):
    numpy_dtype = og.DataType[dtype].numpy
    weights = [numbers(2, 2, 8, 8).astype(numpy_dtype) / 4 for _ in range(2)]
    model = clamped(dtype, weights).compile()
    parts = model.report().partitions
    if is_native(og.DataType[dtype]):  # otherwise the ops compute in f32, with a cast behind each
        assert [part.kinds for part in parts] == [("Convolution", "Clamp")] * 2
        assert all(BOUNDS in part.reasons for part in parts)
    for number in (0.5, np.nan, np.inf, -np.inf, 3e38, 2e6, np.nan, 0.5):
        x = numbers(2, 7, 7, 8).astype(numpy_dtype)
        x[1, 2, 3, 4] = number
        want = x.astype(np.float64)
        for each in weights:
            want = np.clip(convolved(want, each), 0, 6).astype(numpy_dtype).astype(np.float64)
        found = model(x=x)
        np.testing.assert_array_equal(classes(found), classes(want), err_msg=str(number))
        finite = np.isfinite(want)
        np.testing.assert_allclose(found.astype(np.float64)[finite], want[finite], rtol=0.02, atol=0.02)


def test_clamps_that_bound_nothing_are_steps_of_their_own():
    """By weights that are not finite or no constants, or with a limit that is infinite, products may be NaN."""
    weights = numbers(2, 2, 8, 8).astype(np.float32)
    spoilt_weights = weights.copy()
    spoilt_weights[0, 0, 0, 0] = np.nan
    variable = og.Graph()
    inputs = [variable.input("x", "f32", (2, 7, 7, 8)), variable.input("w", "f32", weights.shape)]
    variable.output("y", variable.clamp(variable.op("Convolution", inputs, IMAGE), min=0.0, max=6.0))
    for g in (clamped("f32", [spoilt_weights]), clamped("f32", [weights], (0.0, np.inf)), variable):
        assert [part.kinds for part in g.compile().report().partitions] == [("Convolution",), ("Clamp",)]


def beside(kind, bound, **attrs):
    """An op of an input and a number."""
    return lambda g, x: g.op(kind, [x, g.constant(np.array([[bound]], np.float32))], attrs)


def summed(bias):
    def product(g, x):
        weights, end = g.constant(np.full((3, 4), -2, np.float32)), g.constant(np.full(4, bias, np.float32))
        return g.matmul(x, weights, end)

    return product


LIMITS = {  # of results, by the largest magnitude of the input
    "a product": (summed(0), lambda most: most * 2 * 12),
    "a product and a bias": (summed(-5e36), lambda most: most * 2 * 12 + 5e36),
    "a sum": (beside("Add", 4e36), lambda most: most + 4e36),
    "a difference": (beside("Subtract", 4e36), lambda most: most + 4e36),
    "a factor": (beside("Multiply", -300), lambda most: most * 300),
    "a square": (beside("SquaredDifference", 1e18), lambda most: (most + 1e18) ** 2),
    "what is no larger": (lambda g, x: g.relu(x), lambda most: most),
    "limits": (lambda g, x: g.multiply(g.clamp(x, min=-3, max=2), g.multiply(x, x)), lambda most: 3 * most**2),
    "a share": (lambda g, x: g.multiply(g.sigmoid(x), x), lambda most: most),
}


@pytest.mark.parametrize("name", LIMITS)
def test_results_are_finite_up_to_their_bound(name):
    build, bound = LIMITS[name]
    low, high = 0.0, 1e37
    while high - low > high * 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if bound(middle) < LARGEST else (low, middle)
    for most, is_finite in ((low * (1 - 1e-5), True), (high * (1 + 1e-5), False)):
        g = og.Graph()
        x = g.input("x", "f32", (2, 3))
        y = build(g, x)
        g.output("y", y)
        assert (y.id in finite_values(lower(g), {x.id: most})) is is_finite


@pytest.mark.parametrize(("scale", "zero"), [(LARGEST / 256, 0), (LARGEST / 356, 100), (LARGEST / 356, -100)])
def test_codes_stand_for_bounded_numbers(scale, zero):
    for factor, is_finite in ((0.999, True), (1.001, False)):
        g = og.Graph()
        y = g.dequantize(g.input("x", "s8", (2, 3)), scales=[scale * factor], zps=[zero])
        g.output("y", g.relu(y))
        assert (y.id in finite_values(lower(g))) is is_finite


@pytest.mark.parametrize(
    ("count", "number", "is_small"),
    [(1, 2, True), (1 << 16, 2, True), ((1 << 16) + 1, 2, False), (2, np.inf, False), (2, np.nan, False)],
)
def test_constants_of_few_elements_are_looked_at(count, number, is_small):
    value = Value(0, og.f32, (count,), (1,), 0, "bias", np.full(count, number, np.float32))
    assert _is_small(value) is is_small
    assert not _is_small(value._replace(constant=None))


LAYOUTS = {
    "dense": lambda a: a,
    "turned": lambda a: a.transpose(2, 0, 1),
    "every second row": lambda a: a[:, ::2],
    "parts of rows": lambda a: a[1:, :, 3:-2],
    "every third number": lambda a: a[:, 1:, ::3],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_a_look_finds_numbers_in_every_place(dtype, layout):
    """And none beside a tensor, in rows that threads share."""
    array = LAYOUTS[layout](np.full((4, 70, 190), np.nan, og.DataType(dtype).numpy))
    array[...], answer = 1, np.zeros(1, np.float32)
    found, least = [np.nan, -np.inf, -(2.0**20)], 2.0**20 * (1 - 2**-8)
    for number in [*found, least] if dtype != "f16" else [*found[:2], 65504]:
        for place in (0, array.size // 2, array.size - 1):
            at = np.unravel_index(place, array.shape)
            array[at] = number
            for threads in (1, 3):
                run("unbounded", array, answer, threads=threads)
                assert np.isnan(answer[0]) == any(number is each for each in found)
            array[at] = -1


@pytest.mark.parametrize("number", [2.0**21, -3e38, np.nan, np.inf])
def test_steps_run_again_for_special_numbers_alone(number):
    """Not for large ones, which lose nothing."""
    x, y = np.full((5, 40), 2, np.float32), np.zeros((5, 40), np.float32)
    x[3, 7], (first, second) = number, values_of([x, y])
    kernels = [
        (compiled("when_special", [first], [], packed("when_special", {"shown": 0, "hidden": 0})), (0,), 1),
        (compiled("abs", [first], [second]), (0, 1), 1),
        (compiled("when_special_end", [], []), (), 0),
    ]
    steps = [CompiledStep(kernel, kernel, places, count, (), 0, 0) for kernel, places, count in kernels]
    plan = Plan(PlanSource(steps, {place: (place, 0) for place in range(3)}, 3, 1, {}))
    for place, array in enumerate((x, y)):
        plan.bind(place, address_of(array))
    plan.run_steps(0, 3)
    assert y.any() == (not np.isfinite(number))


def test_open_sizes_are_bounded_numbers():
    sizes = Value(1, og.f32, (2,), (1,), 1, "sizes", constant=numbers_of([OpenSizes([5]).symbols[0], 3], (2,)))
    assert _bound(sizes, {}) == _bound(sizes, {1: 2.0}) == MOST_ELEMENTS
