"""Kernels on dense arrays: they compute what the numpy functions of the ops do, and what other packages do."""

from collections import Counter
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from conftest import draws
from helpers.array_uses import DRAWS, LARGE, NUMBERS, Draw, Large, close, computed, op_of
from helpers.onnx_session import session_of

import onegraph as og
import onegraph.onnx
from benchmarks import kinds
from onegraph.compiler.array_kernels import FUNCTIONS, convolution, detection, nodes, with_kernel
from onegraph.compiler.array_kernels.arrays import LIMIT, place_for
from onegraph.compiler.ir.value import Value, dense_of
from onegraph.compiler.kernels.arrays import RECORDS, SCHEMAS, _fits
from onegraph.compiler.kernels.kernel import call_of
from onegraph.compiler.kernels.native import value_of
from onegraph.opset.dtypes import OF_NUMPY
from onegraph.opset.editions.registry import edition
from onegraph.opset.schema import Call
from onegraph.opset.traits import Trait
from onegraph.reference import run_op

pytestmark = pytest.mark.library
TESTED_KERNELS = ("arrays",)
# Ops whose results follow from places or shapes, or element by element: whole models measure them.
PLAIN = Trait.POINTWISE | Trait.VIEW | Trait.MOVES | Trait.SHAPE_ONLY


def test_a_result_is_written_where_the_caller_wants_it_if_it_fits():
    wanted, kind = np.empty((2, 3), np.float32), np.dtype(np.float32)
    assert place_for([wanted], 0, [2, 3], kind) is wanted
    memory = np.empty(25, np.int8)
    others = (np.empty((3, 2), kind), np.empty((2, 3)), np.empty((3, 2), kind).T, memory[1:].view(kind).reshape(2, 3))
    for other in others:
        found = place_for([wanted, other], 1, (2, 3), kind)
        assert found is not other
        assert (found.shape, found.dtype, found.flags.c_contiguous, found.flags.aligned) == ((2, 3), kind, True, True)
    assert place_for([wanted], 1, (2, 3), kind) is not wanted


ROUNDS = draws(20, 40)
NARROWED = ("f2", ml_dtypes.bfloat16, "?", "i1", "u2", "i4", "f4", "f8")
# By kind, the verdicts on changed uses.
TAKEN = {
    "Gather": "x-2222222x222xx2x22x--23x-23222-23x22x22x2xx3-x2222-xx2x-223",
    "GatherElements": "333-x3-32-x-33x223-x2x2223x2x33232x3-233xx2x3--232x-23-33-xx",
    "GatherND": "2333x3323333322-333x33-3-x3333333-33222--3333-xx3xx-23-x-313",
    "WeightedGather": "xxx22xx2xxxx-2x33x3xx3xx23x2xxx3x-203x33xxxxx3xxx33x33-0xxx0",
    "ScatterElements": "3xx-xx202xx--xx-x0-xxx20x3x23x3x3x23x03-00xxx-x03x3x0xxxx-33",
    "ScatterND": "-0-x0x-03xxx330-xx33x3x0xx33xxx0303330-x0x-x0-xxx3x-xx--x-x-",
    "CumSum": "-3333x1333x333333x-313333x331333333x-x333x3331313133x33xx3x3",
    "Compress": "11x111111101111-1xx1x111x011x1111111x1x010-111x11111xx-01x11",
    "TopK": "1x33xx13x3333x3-333xx33133333x3x3-xx3313xx3333x33xx-x3-33-x3",
    "NonZero": "000011111000110100001100010101000001111001110100110100010100",
    "NonMaxSuppression": "xx111x1xxxx11xx1xx-x11x111x-x111x1xx11xxxx111x11-x1-x1-1111x",
    "RoiAlign": "x1x01x-1x1xx-1x-xx-xxx11101xxx-x0-xxxxx111100-xxxxx1x0x1x1xx",
    "MaxPoolPlaces": "0x0-0x-11-x1-11-111x1111-1x1xxx10-11-x0-101111xx-10-1x10x11x",
    "MaxUnpool": "3xx3-x33x3x3-3x33-3x3-xxx3x33x333333xxx33-x3xxxxxxx333-3x3x3",
    "DeformColumns": "110xxxxx11xx11x1x11x0xxx0xx-x00x0xxx11xx0x-x0xx1xxx-x0-xx-1x",
    "GridSample": "x223012x3-xx-3x-xxx3x33xxx33xxx2x2xx-3x3xx22x-3x-33xx2x2xxxx",
    "MatMul": "1xx33x3xx330-xx-131xx3x23xx33x-00-103x13x33xxx321x1x3x-xx-1x",
    "Triangle": "33x2333333xx333223-3333x22x-33333322-3x-3x3233x332333x-3x233",
    "ArgMax": "2x00202x222-2-22022x2222220222x022220x2222--220222x-22222xx2",
    "OneHot": "-222x22x222xxx2xxx2xx2xx22x22x2xx0x22x2-xx22x22x2x2-x22222x2",
    "Concat": "22xxxx-xx2x22x2-xxx22-222222222x2x2222x-xx2xx2x222x-2x2xxxx2",
    "ReduceSum": "0x00000000x0002-x00x002202xxx20xx0x200x0x002x02x022020-x0002",
    "ReduceProd": "0x00000000x0002-200x002202xxx00xx0x200x0x202x02x022020-x0002",
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_kernels_agree_with_numpy(kind):
    taken = Counter()
    for seed in range(ROUNDS):
        arrays, attrs, *known = DRAWS[kind](Draw(seed))
        try:
            op = op_of(kind, arrays, attrs, *known)
        except og.SpecError:  # a window that does not fit
            continue
        arrays = arrays[: len(op.inputs)]

        def host(kind, function):
            def kept(*given):
                taken["numpy"] += 1
                return function(*given)

            taken["all"] += 1
            return with_kernel(kind, kept)

        results, wanted = computed(op, arrays, host), computed(op, arrays)
        if isinstance(wanted, og.ArgumentError):
            assert isinstance(results, og.ArgumentError), (seed, wanted)
        else:
            assert all(close(*pair) for pair in zip(results, wanted, strict=True)), (seed, attrs)
    assert taken["all"] - taken["numpy"] > ROUNDS / 5


def changed_use(kind, seed):
    """A use of which an array has another data type, rank or order, no element, or an address that is not aligned."""
    d = Draw(seed)
    arrays, attrs, *known = DRAWS[kind](d)
    given = [
        place for place, array in enumerate(arrays) if array is not None and place not in (known[0] if known else ())
    ]
    place, change = (
        d.one(*given[:1], *given),
        d.one("type", "type", "types", "empty", "scalar", "order", "address", "row"),
    )
    array, dtype = arrays[place], np.dtype(d.one(*NARROWED))
    with np.errstate(all="ignore"):
        if change == "types":  # of all arrays of this type
            same = [one is not None and one.dtype == array.dtype for one in arrays]
            arrays = [one.astype(dtype) if is_same else one for one, is_same in zip(arrays, same, strict=True)]
        else:
            arrays[place] = {
                "type": lambda: array.astype(dtype),
                "empty": lambda: np.repeat(array, 0, d.number(0, max(array.ndim - 1, 0))) if array.ndim else array,
                "scalar": lambda: np.array(array.reshape(-1)[:1].sum(), array.dtype),
                "order": lambda: np.asfortranarray(array),
                "address": lambda: unaligned(array),
                "row": lambda: array.reshape(-1),
            }[change]()
    return arrays, attrs, *known


def unaligned(array):
    memory = np.empty(array.nbytes + 1, np.uint8)[1:]
    memory[:] = array.reshape(-1).view(np.uint8)
    return memory.view(array.dtype).reshape(array.shape)


def verdict_on(kind, seed):
    """What a changed use is: 1 if the kernel computes it, and 2 if a plan has it; x if it is none; - if it fails."""
    arrays, attrs, *known = changed_use(kind, seed)
    try:
        op = op_of(kind, arrays, attrs, *known or [()], has_shapes=seed % 3 > 0)
    except og.OneGraphError:
        return "x"
    by_numpy = []

    def host(kind, function):
        return with_kernel(kind, lambda *given: by_numpy.append(1) or function(*given))

    arrays = arrays[: len(op.inputs)]
    results, wanted = computed(op, arrays, host), computed(op, arrays)
    if isinstance(wanted, og.OneGraphError):
        assert isinstance(results, type(wanted)), (seed, wanted)
        return "-"
    for found, one in zip(results, wanted, strict=True):
        assert (found.shape, found.dtype) == (one.shape, one.dtype), seed
        is_narrow = one.dtype.itemsize == 2 and one.dtype.kind not in "iu"
        share = 1e-2 if is_narrow else 3e-5
        exact, other = (each.astype(np.float64) for each in (one, found))
        np.testing.assert_allclose(
            other, exact, share, share * np.abs(exact[np.isfinite(exact)]).max(initial=1), str(seed)
        )
    return "0123"[(not by_numpy) + 2 * (kind in RECORDS and is_planned(kind, op, arrays, wanted))]


def is_planned(kind, op, arrays, results):
    ends = []
    for array in (*arrays[: RECORDS[kind].n_read], *results):
        strides = tuple([stride // array.itemsize for stride in array.strides])
        strides = dense_of(array.shape) if array.flags.c_contiguous else strides
        ends.append(Value(0, OF_NUMPY[array.dtype], array.shape, strides, 0, ""))
    return not _fits(call_of(SimpleNamespace(op=op)), kind, ends)


@pytest.mark.parametrize("kind", TAKEN)
def test_kernels_take_the_recorded_forms(kind):
    with np.errstate(all="ignore"):
        assert "".join(verdict_on(kind, seed) for seed in range(len(TAKEN[kind]))) == TAKEN[kind]


def test_planes_of_many_elements_are_left_to_numpy(monkeypatch):
    """More places than a 32-bit integer counts."""
    forms = {
        "RoiAlign": ([np.zeros((1, 1, 3, 4), "f4"), np.zeros((1, 4), "f4"), np.int64([0])], {"rows": 1, "columns": 1}),
        "GridSample": ([np.zeros((1, 1, 3, 4), "f4"), np.zeros((1, 1, 1, 2), "f4")], {}),
        "DeformColumns": (
            [np.zeros((1, 1, 3, 4), "f4"), np.zeros((1, 2, 3, 4), "f4"), None],
            {"kernel": [1, 1], "strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]},
        ),
        "NonMaxSuppression": (
            [np.zeros((1, 12, 4), "f4"), np.ones((1, 1, 12), "f4"), np.int64(2), np.float32(0), np.float32(0)],
            {},
        ),
    }
    for kind, (arrays, attrs) in forms.items():
        op = op_of(kind, arrays, attrs)
        for most, computes in ((12, True), (11, False)):
            monkeypatch.setattr(detection, "MOST_ELEMENTS", most)
            given = arrays[: len(op.inputs)]
            found = FUNCTIONS[kind](call_of(SimpleNamespace(op=op)), given, ())
            assert (found is not None) == computes, (kind, most)


@pytest.mark.parametrize(
    ("forked", "limit", "all_", "wanted"), [(1, 3, 2, 1), (0, 3, 2, 3), (0, 0, 2, 2), (0, 0, None, 1)]
)
def test_a_convolution_of_float64_takes_the_threads_that_it_may(forked, limit, all_, wanted, monkeypatch):
    g, taken, window = og.Graph(), [], {name: [1] for name in ("strides", "dilations")}
    ends = [g.input("x", og.f32, (1, 2, 3)), g.input("w", og.f32, (1, 3, 1))]
    g.convolution(*ends, **window, pads_begin=[0], pads_end=[0])
    kernel = SimpleNamespace(run_once=lambda *given, threads: taken.append(threads))
    for name, one in {
        "is_forked": lambda: bool(forked),
        "LIMIT": SimpleNamespace(threads=limit),
        "get_num_threads": lambda: all_,
        "compiled": lambda *given: kernel,
    }.items():
        monkeypatch.setattr(convolution, name, one)
    arrays = [np.ones(end.shape) for end in ends]
    convolution.convolved(call_of(SimpleNamespace(op=g.ops[0])), arrays, (1, 2, 1))
    assert taken == [wanted]


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_threads_divide_large_arrays(kind, monkeypatch):
    for seed in range(draws(4, 40)):
        draw = LARGE[kind]
        arrays, attrs, *known = DRAWS[kind](Large(seed, draw)) if isinstance(draw, int) else draw(Draw(seed))
        try:
            op = op_of(kind, arrays, attrs, *known)
        except og.SpecError:  # a window that does not fit
            continue
        arrays = arrays[: len(op.inputs)]
        wanted = computed(op, arrays)
        for threads in (1, 3):
            monkeypatch.setattr(LIMIT, "threads", threads)
            results = computed(op, arrays, with_kernel)
            if isinstance(wanted, og.ArgumentError):
                assert isinstance(results, og.ArgumentError), (seed, wanted)
            else:
                assert all(close(*pair) for pair in zip(results, wanted, strict=True)), (seed, threads, attrs)


@pytest.mark.parametrize("kind", RECORDS)
def test_steps_of_a_plan_agree_with_numpy(kind):
    """With known sizes, and for those that lie next to one another in memory or not."""
    taken = 0
    for seed in range(ROUNDS):
        d = Draw(seed)
        arrays, attrs, *known = DRAWS[kind](d)
        op = op_of(kind, arrays, attrs, *known)
        g, inputs = og.Graph(), {}
        for place, array in enumerate(arrays):
            if place not in (known[0] if known else ()):
                inputs[f"x{place}"] = array
        ends = [
            g.input(f"x{place}", OF_NUMPY[array.dtype], array.shape)
            if f"x{place}" in inputs
            else g.constant(array, dtype=OF_NUMPY[array.dtype])
            for place, array in enumerate(arrays)
        ]
        outs = g.op(kind, ends, attrs, edition="host")
        for place, out in enumerate(outs if isinstance(outs, tuple) else (outs,)):
            g.output(f"y{place}", out)
        model = g.compile(threads=d.number(1, 2))
        executors = {part.executor for part in model.report().partitions}
        taken += executors == {"kernel"}
        wanted = computed(op, arrays)
        if isinstance(wanted, og.ArgumentError):
            with pytest.raises(og.ArgumentError, match=kind):
                model(**inputs)
            continue
        results = model(**inputs)
        for found, one in zip(results if isinstance(results, tuple) else [results], wanted, strict=True):
            assert close(found, one), (seed, attrs)
    assert taken > ROUNDS / 3


def test_one_program_gathers_for_all_sizes():
    g = og.Graph()
    src, indices = g.input("src", "f32", (None, 3)), g.input("indices", "s64", (None,))
    g.output("y", g.op("Gather", [src, indices], {"axis": 0}, edition="host"))
    g.output("best", g.op("ArgMax", [src], {"axis": 0, "keep_dims": False}, edition="host"))
    model = g.compile()
    for rows_, count in ((5, 2), (2, 9), (40, 1), (3, 0)):
        array, places = np.random.default_rng(rows_).random((rows_, 3), np.float32), np.arange(count) % rows_
        y, best = model(array, places)
        np.testing.assert_array_equal(y, array[places])
        np.testing.assert_array_equal(best, array.argmax(0))
    with pytest.raises(og.ArgumentError, match=r"index 7 at \[0\] of indices is out of range"):
        model(array, np.int64([7]))


BAD = {
    "Gather": ([np.zeros((5, 3000), "f4"), np.int64([[0, 1], [2, 7]])], {}, r"7 at \[1, 1\] of indices"),
    "GatherElements": ([np.zeros((5, 2), "f4"), np.int64([[0, -6]])], {}, r"-6 at \[0, 1\] of indices"),
    "GatherND": ([np.zeros((5, 2), "f4"), np.int64([[0, 0], [1, 2]])], {}, r"2 at \[1, 1\] of indices"),
    "WeightedGather": (
        [np.zeros((5, 2), "f4"), np.int64([[0, -9], [4, 5]]), np.zeros((2, 2), "f4")],
        {},
        r"5 at \[1, 1\] of indices",
    ),
    "ScatterElements": (
        [np.zeros((5, 2), "f4"), np.int64([[5, 0]]), np.zeros((1, 2), "f4")],
        {},
        r"5 at \[0, 0\] of indices",
    ),
    "ScatterND": ([np.zeros((5, 2), "f4"), np.int64([[-9]]), np.zeros((1, 2), "f4")], {}, r"-9 at \[0, 0\] of indices"),
    "MaxUnpool": ([np.zeros(2, "f4"), np.int64([0, -1]), np.int64([4])], {}, r"-1 at \[1\] of indices"),
    "RoiAlign": (
        [np.zeros((1, 1, 4, 4), "f4"), np.zeros((2, 4), "f4"), np.int64([0, 1])],
        {"rows": 1, "columns": 1},
        r"1 at \[1\] of images",
    ),
}

KNOWN = {"MaxUnpool": (2,)}  # by kind, the last inputs, which decide a shape


@pytest.mark.parametrize("kind", sorted(BAD.keys() & RECORDS))
def test_a_plan_names_the_op_of_a_bad_index(kind):
    arrays, attrs, text = BAD[kind]
    g = og.Graph()
    inputs = {f"x{place}": array for place, array in enumerate(arrays) if place not in KNOWN.get(kind, ())}
    ends = [g.input(name, OF_NUMPY[array.dtype], array.shape) for name, array in inputs.items()]
    ends += [g.constant(arrays[place], dtype=og.s64) for place in KNOWN.get(kind, ())]
    g.output("y", g.op(kind, ends, attrs, edition="host", name="\x7f\x80 up"))
    model = g.compile()
    assert [part.executor for part in model.report().partitions] == ["kernel"]
    with pytest.raises(og.ArgumentError, match=rf"{kind} '\\x7f\\x80 up': index {text} is out of range"):
        model(**inputs)


@pytest.mark.parametrize("kind", BAD)
def test_an_index_out_of_range_is_named(kind):
    arrays, attrs, text = BAD[kind]
    op = op_of(kind, arrays, attrs, KNOWN.get(kind, ()))
    with pytest.raises(og.ArgumentError, match=f"{kind} .*index {text} is out of range"):
        run_op(op, arrays, host=with_kernel)


@pytest.mark.parametrize("name", kinds.KINDS)
def test_other_runtimes_compute_the_kinds(name):
    pytest.importorskip("onnx")
    kind = kinds.KINDS[name]
    arrays = kind.inputs(lambda size: max(size // 32, 4))
    for threads in (1, 2):
        runs = kinds.runs_of(kind, arrays, threads, quick=True)
        wanted = runs.pop("onegraph")()
        for other, run in runs.items():
            kinds.agree(f"{name}, {other}", kind, run(), wanted)


def test_every_host_op_is_measured_or_has_a_reason():
    measured = {host for kind in kinds.KINDS.values() for host in kind.hosts}
    others = {kind for kind, schema in edition("host").schemas.items() if not schema.traits & PLAIN}
    assert measured.isdisjoint(kinds.ELSEWHERE)
    assert measured >= FUNCTIONS.keys()
    assert measured | kinds.ELSEWHERE.keys() >= others


@pytest.mark.parametrize("dtype", NUMBERS)
def test_few_elements_are_distinct_as_in_numpy(dtype):
    for size in (1, 2, 8, 300):
        src = np.random.default_rng(size).integers(0, 1 + size // 2, size).astype(dtype)
        if src.dtype.kind == "f":
            src[src == 1], src[0] = np.nan, -0.0
        for found, wanted in zip(nodes.distinct(src), np.unique(src, True, True, True), strict=True):
            np.testing.assert_array_equal(found, wanted)
    assert nodes.distinct(src[:0]) is None
    assert nodes.distinct(src[None]) is None
    assert nodes.distinct(np.zeros(2, np.float16)) is None


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_determinants_are_those_of_numpy(dtype):
    for shape in ((1, 1), (3, 3), (2, 5, 4, 4), (30, 30)):
        src = np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)
        np.testing.assert_allclose(nodes.determinants(src), np.linalg.det(src.astype("f8")), rtol=1e-6)
    far = np.diag(np.array([1e38] * 9 + [1e-38] * 9, dtype))
    special = np.array([[[0, np.nan], [0, 1]], [[np.inf, 0], [0, 0]], [[1, np.nan], [0, 1]], [[1, 2], [2, 4]]], dtype)
    np.testing.assert_allclose(nodes.determinants(far), 1, rtol=1e-5)
    np.testing.assert_array_equal(nodes.determinants(special), [0, np.nan, np.nan, 0])
    assert nodes.determinants(np.zeros(4, dtype)) is None
    assert nodes.determinants(np.zeros((2, 3), dtype)) is None
    assert nodes.determinants(np.zeros((nodes.SMALL,) * 2, dtype)) == 0
    assert nodes.determinants(np.zeros((nodes.SMALL + 1,) * 2, dtype)) is None
    assert nodes.determinants(np.zeros((0, 0), dtype)) is None
    assert nodes.determinants(np.zeros((2, 2), np.float16)) is None


def test_images_of_bytes_are_resized_as_elsewhere():
    image = np.random.default_rng(0).integers(0, 256, (1, 3, 20, 30)).astype(np.uint8)
    sizes = np.array([1, 3, 33, 17])
    for mode in ("linear", "nearest"):
        kind = kinds.Kind((), "Resize", lambda s: (), {"mode": mode}, constants=(3,), opset=19)
        text = kinds.model_of(kind, [image, None, None, sizes])
        session = session_of(text)
        (wanted,) = session.run(None, {"x0": image})
        np.testing.assert_array_equal(og.onnx.load(text).compile()(image), wanted)


@pytest.mark.parametrize("dtype", ["u1", "i1"])
def test_an_even_image_of_bytes_stays_even(dtype):
    image = np.full((1, 1, 7, 5), -77 if dtype == "i1" else 201, dtype)
    kind = kinds.Kind((), "Resize", lambda s: (), {"mode": "linear"}, constants=(3,), opset=19)
    text = kinds.model_of(kind, [image, None, None, np.array([1, 1, 31, 23])])
    assert {*np.unique(og.onnx.load(text).compile()(image))} == {image[0, 0, 0, 0]}


@pytest.mark.parametrize(
    ("kind", "shapes", "message"),
    [
        ("GatherElements", [(3, 4), (300, 40)], r"indices: shape \[300, 40\]; expected dims of at most \[3, 40\]"),
        ("ScatterElements", [(3, 4), (300, 4), (300, 4)], r"indices: shape \[300, 4\]; expected dims of at most"),
        ("ScatterElements", [(3, 4), (3, 4), (2, 4)], r"updates: shape \[2, 4\]; expected shape \[3, 4\]"),
        ("ScatterND", [(3, 4), (2, 1), (1, 4)], r"updates: shape \[1, 4\]; expected shape \[2, 4\]"),
    ],
)
def test_indices_beyond_the_source_are_refused_where_sizes_change(kind, shapes, message):
    g, arrays = og.Graph(), []
    for number, shape in enumerate(shapes):
        arrays.append(np.zeros(shape, np.int64 if number == 1 else np.float32))
        g.input(f"x{number}", og.s64 if number == 1 else og.f32, (None,) * len(shape))
    attrs = {} if kind == "ScatterND" else {"axis": 1}
    g.output("y", g.op(kind, [*g.inputs.values()], attrs, edition="host"))
    with pytest.raises(og.OneGraphError, match=message):
        g.compile()(*arrays)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u1"])
def test_all_elements_are_sorted_with_ties_in_order(dtype, largest):
    rng = np.random.default_rng(0)
    src = np.round(rng.standard_normal((3, 5000)) * 30).astype(dtype)  # many are equal
    if dtype.startswith("f"):
        src[0, ::7], src[1, ::9], src[1, 1::9] = np.nan, np.inf, -np.inf
        src[2] *= rng.choice([1e-30, 1e30], 5000).astype(dtype)
    g = og.Graph()
    x = g.op("Cast", [g.input("x", og.f32, src.shape)], dtype=OF_NUMPY[src.dtype], edition="host")
    count = g.constant(np.int64([5000]), dtype=og.s64)
    values, places = g.op("TopK", [x, count], {"axis": -1, "largest": largest}, edition="host")
    g.output("values", values)
    g.output("places", places)
    found = g.compile()(src.astype(np.float32))
    exact = src.astype(np.float32).astype(dtype)
    for row, taken in zip(exact, zip(*found, strict=True), strict=True):
        keys = np.unique(row, return_inverse=True)[1]  # NaN is the last
        order = np.argsort(-keys if largest else keys, kind="stable")
        np.testing.assert_array_equal(taken[1], order)
        np.testing.assert_array_equal(taken[0], row[order])


def test_numpy_gathers_few_rows_of_a_source_with_strides():
    g = og.Graph()
    x, at = g.input("x", og.f32, (30, 5), strides=(1, 30)), g.input("at", og.s64, (2,))
    g.output("y", g.op("Gather", [x, at], {"axis": 0}, edition="host"))
    model, source = g.compile(), np.arange(150, dtype=np.float32).reshape(5, 30).T
    np.testing.assert_array_equal(model(source, np.int64([1, 1])), source[[1, 1]])
    assert [part.executor for part in model.report().partitions] == ["host"]


def test_what_c_lacks_is_said():
    number, matrix = (value_of(np.zeros(shape, np.float32)) for shape in ((), (3, 4)))
    indices = value_of(np.zeros((2, 1), np.int32))
    scatter = Call(SCHEMAS["ScatterND"], {"reduction": "none"}, [], 1)
    assert _fits(scatter, "CumSum", [number, number]) == "a tensor has no axis"
    assert _fits(scatter, "ScatterND", [matrix, indices, matrix]) == "shapes do not fit"
    rows = value_of(np.zeros((2, 4), np.float32))
    assert not _fits(scatter, "ScatterND", [matrix, indices, rows])
