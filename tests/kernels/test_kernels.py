"""The package's own C++ kernels: casts, copies between layouts, and Select."""

import ml_dtypes
import numpy as np
import pytest
from helpers.grouped import grouped
from helpers.kernels import run

import onegraph as og
from onegraph.arrays.ndarrays import strided
from onegraph.native.library import DTYPES, RUNTIME, address_of, ffi, lib
from onegraph.opset.dtypes import DataType

TESTED_KERNELS = ("cast", "cast_integers", "replace_nan", "select")
BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng(0)
EVERY_HALF = np.arange(1 << 16, dtype=np.uint16)
# Numbers on both sides of every f16 and of every middle between two, and of the limits of f32.
STEPS = np.arange(0x33000000, 0x47900000, 0x1000, dtype=np.uint32)
LIMITS = np.uint32([0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF])


def many_floats() -> np.ndarray:
    """Bits of f32 numbers, with NaN, infinities, subnormal numbers and ties of f16 and bf16."""
    drawn = np.random.default_rng(0).integers(0, 1 << 32, 1 << 20, dtype=np.uint32)
    ties = np.arange(1 << 16, dtype=np.uint32) << 16 | 0x8000
    found = np.concatenate([drawn, STEPS - 1, STEPS, STEPS + 1, ties - 1, ties, ties + 1, LIMITS])
    return np.concatenate([found, found | 0x80000000])


def cast_elements(array: np.ndarray, dtype: DataType, portable: bool) -> np.ndarray:
    target = np.empty(array.shape, dtype.numpy)
    source, result = (ffi.cast("void *", address_of(each)) for each in (array, target))
    lib.onegraph_cast_elements(DTYPES[DataType.of(array.dtype)], source, DTYPES[dtype], result, array.size, portable)
    return target


def bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.itemsize}")


# Casts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("portable", [False, True])
def test_every_f16_is_cast_to_f32_exactly(portable):
    halves = EVERY_HALF.view(np.float16)
    quiet = np.where(np.isnan(halves), 0x400000, 0).astype(np.uint32)
    with np.errstate(all="ignore"):
        expected = bits(halves.astype(np.float32)) | quiet
    assert (bits(cast_elements(halves, og.f32, portable)) == expected).all()


@pytest.mark.parametrize("portable", [False, True])
def test_f32_is_rounded_to_the_nearest_f16(portable):
    given = many_floats()
    with np.errstate(all="ignore"):
        expected = bits(given.view(np.float32).astype(np.float16))
    # A quiet NaN with the sign and the first digits of the given one; numpy keeps it signalling.
    nan = (given >> 16 & 0x8000 | 0x7E00 | given >> 13 & 0x3FF).astype(np.uint16)
    expected = np.where(given & 0x7FFFFFFF > 0x7F800000, nan, expected)
    assert (bits(cast_elements(given.view(np.float32), og.f16, portable)) == expected).all()


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_casts_of_bf16_are_those_of_ml_dtypes(portable):
    halves, floats = EVERY_HALF.view(BF16), many_floats().view(np.float32)
    assert (bits(cast_elements(halves, og.f32, portable)) == EVERY_HALF.astype(np.uint32) << 16).all()
    assert (bits(cast_elements(floats, og.bf16, portable)) == bits(floats.astype(BF16))).all()


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize(("source", "target"), [(og.f16, og.bf16), (og.bf16, og.f16)])
def test_casts_of_16_bits_round_once(source, target, portable):
    given = EVERY_HALF.view(source.numpy)
    given = given[~np.isnan(given.astype(np.float64))]
    with np.errstate(all="ignore"):
        expected = given.astype(np.float32).astype(target.numpy)
    assert (bits(cast_elements(given, target, portable)) == bits(expected)).all()


@pytest.mark.parametrize("count", [1, 7, 8, 9, 511, 513, 1500])
def test_casts_write_exactly_the_result(count):
    memory = np.full(count + 8, 7, np.float16)
    run("cast", np.arange(count, dtype=np.float32), memory[:count])
    assert (memory[:count] == np.arange(count)).all()
    assert (memory[count:] == 7).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("source", [np.float32, np.float16, BF16])
@pytest.mark.parametrize("target", [np.float32, np.float16, BF16])
@grouped("order", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0)], key=lambda _: "orders")
def test_casts_take_any_strides(order, target, source, threads):
    shape = (3, 5, 70, 33)
    given = (np.arange(np.prod(shape)) % 251 - 125).reshape(shape).astype(source)
    laid = np.empty([shape[axis] for axis in order], target).transpose(np.argsort(order))
    run("cast", given, laid, threads=threads)
    assert (laid == given.astype(target)).all()
    back = np.empty(shape, source)
    run("cast", laid, back, threads=threads)
    assert (back == given).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(64, 48, 3, 3), (512, 33, 4, 4), (97, 101, 2, 2), (1, 9000, 1, 7), (128, 96, 16, 1)])
def test_casts_turn_windows_of_weights(shape, threads):
    given = RNG.standard_normal(shape).astype(np.float32)
    memory = np.full((shape[2], shape[3], shape[0], shape[1]), 7, BF16)
    run("cast", given, memory.transpose(2, 3, 0, 1), threads=threads)
    assert (memory == given.astype(BF16).transpose(2, 3, 0, 1)).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@grouped("channels", [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 33, 100, 1025, 2100], key=lambda _: "channels")
def test_rows_are_copied_into_parts_of_rows(channels, dtype, threads):
    """As a Concat copies each of its sources; the shares of threads begin and end within rows."""
    shape, room = (3, 23000 // channels // 3, channels), channels + 21
    whole = np.full((*shape[:2], room), 7, dtype)
    given = (np.arange(np.prod(shape)) % 2048).reshape(shape).astype(dtype)
    run("cast", given, whole[..., 11:-10], threads=threads)
    assert (whole[..., 11:-10] == given).all()
    assert (whole[..., :11] == 7).all()
    assert (whole[..., -10:] == 7).all()
    back = np.full((*shape[:2], room), 7, dtype)
    run("cast", whole[..., 11:-10], back[..., 1 : channels + 1], threads=threads)
    assert (back[..., 1 : channels + 1] == given).all()
    assert (back == 7).sum() >= back.size - given.size


@pytest.mark.parametrize(("shape", "strides"), [((4, 6), (20, 3)), ((70, 9), (1, 100)), ((9, 130), (1, 12))])
def test_casts_leave_gaps_alone(shape, strides):
    size = 1 + sum((dim - 1) * stride for dim, stride in zip(shape, strides, strict=True))
    given = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for source, target in ((np.float32, np.float16), (np.float16, np.float32)):
        whole = np.full(size, -1, target)
        laid = strided(whole, shape, strides)
        run("cast", given.astype(source), laid)
        assert (laid == given).all()
        assert (whole == -1).sum() == size - given.size


# Select --------------------------------------------------------------------------------------------------------------

SHAPES = [
    [(), (), (), ()],
    [(5,), (5,), (5,), (5,)],
    [(1,), (2, 3, 4), (4,), (2, 3, 4)],
    [(2, 1, 4), (2, 3, 4), (1, 1, 1), (2, 3, 4)],
    [(3, 1), (3, 40), (1, 40), (3, 40)],
    [(4, 1, 1, 33), (4, 9, 70, 33), (1,), (4, 9, 70, 33)],
    [(4, 9, 70, 33), (70, 1), (33,), (4, 9, 70, 33)],
    [(9000, 1), (9000, 3), (1, 3), (9000, 3)],
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
@grouped("shapes", SHAPES, key=lambda _: "shapes")
def test_select_broadcasts_as_numpy(shapes, dtype, threads):
    drawn = np.random.default_rng(0)
    cond = drawn.random(shapes[0]) < 0.5 if shapes[0] else np.array(True)
    size = np.dtype(dtype).itemsize
    first, second = (np.frombuffer(drawn.bytes(size * max(int(np.prod(shape)), 1)), dtype) for shape in shapes[1:3])
    first, second = first.reshape(shapes[1]), second.reshape(shapes[2])
    result = np.empty(shapes[3], dtype)
    run("select", cond, first, second, result, threads=threads)
    assert (bits(result) == bits(np.where(cond, first, second))).all()


def test_select_takes_every_byte_but_zero_for_true():
    cond = np.arange(256, dtype=np.uint8).view(np.bool_)
    result = np.empty(256, np.float32)
    run("select", cond, np.ones(256, np.float32), np.zeros(1, np.float32), result)
    assert result[0] == 0
    assert (result[1:] == 1).all()


@pytest.mark.parametrize("order", [(2, 0, 1), (1, 2, 0)])
def test_select_takes_any_strides(order):
    shape, back = (6, 40, 50), np.argsort(order)
    first = np.arange(12000, dtype=np.float32).reshape(shape)
    turned = np.empty([shape[axis] for axis in order], np.float32).transpose(back)
    cond = (first % 3 == 0).transpose(order).copy().transpose(back)
    run("select", cond, first, -first, turned)
    assert (turned == np.where(cond, first, -first)).all()


# Graphs --------------------------------------------------------------------------------------------------------------


def masked(dtype: str, shape: tuple[int, ...] = (2, 3, 8)) -> og.Graph:
    g = og.Graph()
    ends = g.input("c", "boolean", (2, 1, 8)), g.input("x", dtype, shape), g.input("y", dtype, (1,))
    g.output("z", g.op("Select", ends))
    return g


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_select_runs_in_one_call_into_c(dtype):
    model = masked(dtype).compile()
    (part,) = model.report().partitions
    assert (part.executor, part.threads) == ("copy", int(RUNTIME == "OpenMP"))
    cond = np.arange(16).reshape(2, 1, 8) % 3 == 0
    x, y = np.arange(48).reshape(2, 3, 8).astype(DataType(dtype).numpy), np.array([-1]).astype(DataType(dtype).numpy)
    assert (model(cond, x, y) == np.where(cond, x, y)).all()
    assert model._programs.quick((cond, x, y), None) is not None


def test_a_number_of_threads_can_be_set_for_a_kernel():
    g = masked("f32", (2, 4096, 8))
    model = g.compile(threads={0: 2})
    assert model.report().partitions[0].threads == (2 if RUNTIME == "OpenMP" else 0)
    given = {"c": np.ones((2, 1, 8), bool), "x": np.ones((2, 4096, 8), np.float32), "y": np.zeros(1, np.float32)}
    assert (model(**given) == 1).all()
    assert list(model.profile(**given, runs=2)) == [0]
    assert model.report(implementations=True).partitions[0].implementation == ""


@pytest.mark.library
@pytest.mark.parametrize(("source", "target"), [("f32", "bf16"), ("f16", "f32"), ("bf16", "f16"), ("f16", "bf16")])
def test_a_cast_op_between_floats_is_one_step(source, target):
    g = og.Graph()
    g.output("y", g.cast(g.tanh(g.input("x", source, (3, 5))), dtype=target))
    model = g.compile()
    x = np.linspace(-3, 3, 15, dtype=np.float32).reshape(3, 5).astype(DataType.of(source).numpy)
    np.testing.assert_array_equal(model(x), og.reference.run(g, {"x": x})["y"])
    assert [part.executor for part in model.report().partitions if "Cast" in part.kinds] == ["copy"]


def test_an_op_in_f32_between_casts_runs_in_one_call_into_c():
    g = og.Graph()
    window = {"strides": [2], "kernel": [3], "pads_begin": [1], "pads_end": [1], "data_format": "NCX"}
    g.output("y", g.op("AvgPool", [g.input("x", "f16", (2, 4, 9))], {**window, "exclude_pad": False}))
    model = g.compile()
    x = np.arange(72, dtype=np.float16).reshape(2, 4, 9)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1)))
    averages = [padded[..., start : start + 3].mean(-1) for start in range(0, 9, 2)]
    assert (model(x) == np.stack(averages, -1).astype(np.float16)).all()
    assert model._programs.quick((x,), None) is not None


# ReplaceNaN ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
@pytest.mark.parametrize("shapes", [((70, 300), ()), ((70, 300), (300,)), ((4, 3), (4, 1)), ((9,), (1,))], ids=str)
def test_replace_nan_keeps_all_other_bits(shapes, dtype, threads):
    drawn, size = np.random.default_rng(0), np.dtype(dtype).itemsize
    src = np.frombuffer(drawn.bytes(size * int(np.prod(shapes[0]))), dtype).reshape(shapes[0]).copy()
    src.reshape(-1)[:8] = [np.nan, -np.nan, np.inf, -np.inf, 0, -0.0, 1, np.nan]
    value = np.arange(int(np.prod(shapes[1])), dtype=np.float32).reshape(shapes[1]).astype(dtype)
    result = np.empty(shapes[0], dtype)
    run("replace_nan", src, value, result, threads=threads)
    with np.errstate(invalid="ignore"):  # ml_dtypes says so of NaN that signal
        wanted = np.where(np.isnan(src), value, src)
    assert (bits(result) == bits(wanted)).all()


def test_replace_nan_takes_any_strides():
    src = np.where(np.eye(40, 30, dtype=bool), np.nan, 2).astype(np.float32)
    result = np.empty((30, 40), np.float32).T
    run("replace_nan", src[::1, :], np.float32([7]), result)
    assert (result == np.where(np.eye(40, 30, dtype=bool), 7, 2)).all()


@pytest.mark.parametrize("kind", ["log_softmax", "relu"])
def test_reshaped_result_of_a_kernel_needs_no_copy(kind):
    g = og.Graph()
    result = getattr(g, kind)(g.input("x", og.f32, (4, 8)))
    g.output("y", g.static_reshape(result, shape=[2, 2, 8], special_zero=False))
    x, compiled = RNG.standard_normal((4, 8)).astype(np.float32), g.compile()
    assert [one.executor for one in compiled.report().partitions][1:] == ["view"]
    np.testing.assert_allclose(compiled(x), og.reference.run(g, {"x": x})["y"], rtol=1e-5, atol=1e-6)


# Integers -------------------------------------------------------------------------------------------------------------

NUMBERS = [0, -0.0, 0.5, -0.9, 1.5, 126.9, 127, 128, -128, -129, 255, 256, 300, 2**24 + 1, 2**31, -(2**31), -3e9, 1e30]


@pytest.mark.parametrize("source", [np.float32, np.int32, np.int8, np.uint8])
@pytest.mark.parametrize("target", [np.float32, np.int32, np.int8, np.uint8])
def test_casts_of_integers_are_those_of_numpy(source, target):
    with np.errstate(invalid="ignore"):
        given = np.array([*NUMBERS, np.nan, np.inf, -np.inf] if source is np.float32 else NUMBERS, np.float64)
        given = np.resize(given.astype(np.int64).astype(source) if source is not np.float32 else given, 103)
        given = given.astype(source)
        is_wide = source is np.float32 and target is not np.float32
        middle = np.where(np.abs(given) < 2.0**31, given, -(2.0**31)).astype(np.int64) if is_wide else given
        wanted = middle.astype(np.int32).astype(target) if is_wide else middle.astype(target)
    for array in (given, given[::3]):
        found = np.empty(array.shape, target)
        run("cast_integers", array, found)
        np.testing.assert_array_equal(found, wanted if array is given else wanted[::3])
