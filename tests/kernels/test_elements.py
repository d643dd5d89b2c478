"""The kernel for elements of any data type, compared with numpy."""

import numpy as np
import pytest

import onegraph as og
from onegraph.compiler.kernels.elements import ELEMENTS
from onegraph.errors import LibraryRuntimeError
from onegraph.lowering.emitter import Emitter
from onegraph.lowering.movement import cast
from onegraph.opset.dtypes import OF_NUMPY
from tests.drawn.generators.elements import FLOATS, INTEGERS, NUMBERS, ONE_OPERAND
from tests.drawn.generators.elements import OPS as KNOWN
from tests.helpers.kernels import run

pytestmark = pytest.mark.library
TESTED_KERNELS = ("elements",)
CAST = ("s8", "u8", "s32", "s64", "f32", "boolean")  # data types that a graph of a user has


def quotient(first, second):
    """Rounded towards 0; that of an integer by 0 is the integer, and that of the lowest one by -1 wraps around."""
    if first.dtype.kind == "f":
        return first / second
    pairs = [(int(a), int(b) or 1) for a, b in np.broadcast(first, second)]
    exact = [abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1) for a, b in pairs]
    wrapped = [number % 2**64 for number in exact]
    return np.array(wrapped, np.uint64).reshape(np.broadcast(first, second).shape).astype(first.dtype)


OPS = {**KNOWN, "Divide": (quotient, NUMBERS), "Cast": (None, (*NUMBERS, "boolean"))}


def numbers(dtype, *shape):
    """Numbers of both signs and at the limits of the data type."""
    kind = og.DataType[dtype].numpy
    rng = np.random.default_rng(len(shape))
    if kind == np.bool_:
        return rng.integers(0, 2, shape).astype(kind)
    if kind.kind == "f":
        return rng.choice(np.array([0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 3e38], kind), shape)
    limits = np.iinfo(kind)
    return rng.choice(np.array([limits.min, limits.max, 0, 1, 2, 100, limits.max // 2], kind), shape)


def operands(kind, dtype):
    first, second = numbers(dtype, 3, 1, 2), numbers(dtype, 4, 1)
    if kind == "Where":
        return [numbers("boolean", 3, 4, 2), first, second]
    return [first] if kind in ONE_OPERAND else [first, second]


def targets(kind, dtype):
    """The data types that a Cast of this one is computed to; None for other ops."""
    return CAST if kind == "Cast" else [None]


def test_every_op_of_the_kernel_has_a_case():
    assert {*OPS} == {*ELEMENTS.kinds}


@pytest.mark.parametrize("kind", OPS)
def test_few_elements_agree_with_numpy(kind):
    compute, dtypes = OPS[kind]
    g, arrays, wanted = og.Graph(), {}, {}
    for dtype in dtypes:
        for target in targets(kind, dtype):
            given = operands(kind, dtype)
            names = [f"{dtype}_{target}_{place}" for place in range(len(given))]
            tensors = [g.input(name, OF_NUMPY[one.dtype], one.shape) for name, one in zip(names, given, strict=True)]
            turned = [
                g.op("Transpose", [one], {"order": [*range(len(one.shape))][::-1]}, edition="host") for one in tensors
            ]
            back = [
                g.op("Transpose", [one], {"order": [*range(len(one.shape))][::-1]}, edition="host") for one in turned
            ]
            result = g.op(kind, back, dtype=target, edition="host")
            g.output(f"{dtype}_{target}", result)
            arrays |= dict(zip(names, given, strict=True))
            with np.errstate(all="ignore"):
                wanted[f"{dtype}_{target}"] = (
                    given[0].astype(og.DataType[target].numpy) if compute is None else compute(*given)
                )
    model = g.compile()
    found = model(**arrays)
    for name, one in zip(wanted, found if isinstance(found, tuple) else [found], strict=True):
        np.testing.assert_array_equal(one, wanted[name], name)
        assert one.dtype == wanted[name].dtype
    steps = [part for part in model.report().partitions if part.kinds == (kind,)]
    assert {part.executor for part in steps} <= {"kernel", "oneDNN"}
    assert any(part.executor == "kernel" for part in steps)


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_of_any_layout_agree_with_numpy(threads):
    """Axes that lie together are one; a row ends in the middle of a vector, and threads in the middle of a row."""
    rng = np.random.default_rng(0)
    whole = rng.integers(-99, 99, (5, 300, 67))
    operands = {
        "whole": whole,
        "row": whole[0, 0],
        "column": whole[:, :, :1],
        "number": np.array(7),
        "turned": np.ascontiguousarray(whole.transpose(2, 0, 1)),
    }
    g, wanted = og.Graph(), {}
    tensors = {name: g.input(name, "s64", array.shape) for name, array in operands.items()}
    turned = g.op("Transpose", [tensors["turned"]], {"order": [1, 2, 0]}, edition="host")
    others = {**{name: tensors[name] for name in ("row", "column", "number")}, "turned": turned}
    for name, other in others.items():
        array = whole if name == "turned" else operands[name]
        g.output(f"{name} sum", g.op("Add", [tensors["whole"], other], edition="host"))
        g.output(f"{name} less", g.op("Less", [other, tensors["whole"]], edition="host"))
        wanted |= {f"{name} sum": whole + array, f"{name} less": array < whole}
    model = g.compile(threads=threads)
    assert {part.executor for part in model.report().partitions} == {"kernel", "view"}
    for name, found in zip(wanted, model(**operands), strict=True):
        np.testing.assert_array_equal(found, wanted[name], name)


@pytest.mark.parametrize("dtype", ["f2", "bf16"])
def test_host_ops_of_16_bits_compute_in_f32(dtype):
    """Comparisons see what was rounded; results are rounded once."""
    kind = og.DataType[{"f2": "f16"}.get(dtype, dtype)].numpy
    array = np.random.default_rng(1).normal(size=(70, 90)).astype(kind)
    array[0, :3] = np.nan, np.inf, -0.0
    wide = array.astype(np.float32)
    g = og.Graph()
    x, k = g.input("x", og.DataType.of(kind), array.shape), g.constant(np.int64([5]), dtype=og.s64)
    values, places = g.op("TopK", [x, k], {"axis": 1}, edition="host")
    with np.errstate(invalid="ignore"):
        wanted = [np.less(wide, wide[:1]), np.floor(wide), np.isnan(wide), wide.argmax(0), np.sin(wide)]
    first = g.op("Slice", [x, *(g.constant(np.int64([n]), dtype=og.s64) for n in (0, 1))], edition="host")
    ops = [g.op("Less", [x, first], edition="host"), *(g.op(kind, [x], edition="host") for kind in ("Floor", "IsNaN"))]
    ops += [g.op("ArgMax", [x], {"axis": 0, "keep_dims": False}, edition="host"), g.op("Sin", [x], edition="host")]
    for place, out in enumerate((*ops, values, places)):
        g.output(f"y{place}", out)
    *found, best, at = g.compile()(array)
    with np.errstate(invalid="ignore"):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one.astype(np.float32), other.astype(one.dtype).astype(np.float32))
    np.testing.assert_array_equal(best.astype(np.float32), np.take_along_axis(wide, at, 1))
    np.testing.assert_array_equal(best[1:], -np.sort(-wide[1:], 1)[:, :5].astype(kind))


@pytest.mark.parametrize("kind", ["Sin", "Cos"])
def test_angles_of_f32_are_rounded_once(kind):
    """Near to whole quarters of a turn, a result has its digits, too; far angles go another way."""
    quarters = np.arange(-40, 40) * (np.pi / 2)
    around = np.float32(2.0) ** np.arange(-140, 127)
    angles = np.float32([*quarters, *np.nextafter(np.float32(quarters), 9), *around, *-around, -0.0, np.inf, np.nan])
    g = og.Graph()
    g.output("y", g.op(kind, [g.input("x", "f32", (2, len(angles)))], edition="host"))
    both = np.stack([angles, np.random.default_rng(0).uniform(-99, 99, len(angles)).astype(np.float32)])
    with np.errstate(invalid="ignore"):
        wanted = getattr(np, kind.lower())(both.astype(np.float64)).astype(np.float32)
    found = g.compile()(both)
    np.testing.assert_array_max_ulp(found, wanted, 1)
    assert np.mean(found == wanted) > 0.99
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_remainders_of_both_kinds_have_the_right_sign():
    first, second = np.int64([7, -7, 7, -7, 5, -(2**63)]), np.int64([2, 2, -2, -2, 0, -1])
    for truncate, wanted in ((False, [1, 1, -1, -1, 0, 0]), (True, [1, -1, 1, -1, 0, 0])):
        g = og.Graph()
        ends = [g.input(name, "s64", (6,)) for name in "ab"]
        g.output("y", g.op("Mod", ends, {"truncate": truncate}, edition="host"))
        model = g.compile()
        assert [part.executor for part in model.report().partitions] == ["kernel"]
        np.testing.assert_array_equal(model(first, second), wanted)


def test_few_elements_of_two_repeated_operands_need_no_library():
    for first, second, executor in (((2, 9, 1), (9, 9), "kernel"), ((9, 9), (2, 9, 9), "oneDNN")):
        a, b = (np.random.default_rng(len(shape)).random(shape, np.float32) for shape in (first, second))
        g = og.Graph()
        g.output("y", g.add(g.input("a", "f32", first), g.input("b", "f32", second)))
        model = g.compile()
        assert {part.executor for part in model.report().partitions} == {executor}
        np.testing.assert_array_equal(model(a, b), a + b)


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", INTEGERS)
def test_casts_of_floats_agree_with_numpy_beyond_the_range(source, target):
    ends = np.array([2.0**bits for bits in (7, 8, 15, 16, 31, 32, 63, 64)])
    near = np.concatenate([ends - 1, ends, ends * 1.0001, ends + 0.7, [0.0, 5.9, 300.7, 3e38, np.inf, np.nan]])
    is_left = target in ("uint32", "uint64")  # what they become beyond the range depends on numpy's loop
    chosen = np.array([0.0, 5.9, 300.7, 2.0**31]) if is_left else np.concatenate([near, -near])
    array = np.resize(chosen, (3, 41)).astype(og.DataType[source].numpy)
    g = og.Graph()
    x = g.op("Transpose", [g.input("x", OF_NUMPY[array.dtype], (41, 3))], {"order": [1, 0]}, edition="host")
    g.output("y", cast(Emitter(g), x, og.DataType[target]))
    model = g.compile()
    with np.errstate(invalid="ignore"):
        wanted = array.astype(og.DataType[target].numpy)
    np.testing.assert_array_equal(model(np.ascontiguousarray(array.T)), wanted)
    assert ("host" in {part.executor for part in model.report().partitions}) == is_left


@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_remainders_of_floats_have_the_bits_of_numpy(dtype, truncate):
    """Blocks of small quotients, blocks with a large one, and numbers that are no quotient's end."""
    kind, rng = og.DataType[dtype].numpy, np.random.default_rng(0)
    first, second = (rng.normal(size=(4, 700)) * 10.0 ** rng.integers(-3, 4, (4, 700)) for _ in range(2))
    first[1] = second[1] * rng.integers(-(2**21), 2**21, 700)  # multiples, or next to one
    first[2] = np.nextafter(first[1].astype(kind), kind.type(np.inf))
    special = np.array([0.0, -0.0, 1.5, -1.5, 1e-45, -3e38, 3e38, np.inf, -np.inf, np.nan])
    first[3, :100], second[3, :100] = np.repeat(special, 10), np.tile(special, 10)
    first, second = first.astype(kind), second.astype(kind)
    g = og.Graph()
    ends = [g.input(name, OF_NUMPY[kind], first.shape) for name in "ab"]
    g.output("y", g.op("Mod", ends, {"truncate": truncate}, edition="host"))
    model = g.compile()
    assert [part.executor for part in model.report().partitions] == ["kernel"]
    with np.errstate(all="ignore"):
        wanted = (np.fmod if truncate else np.mod)(first, second)
    found = model(first, second)
    np.testing.assert_array_equal(found, wanted)
    is_number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(wanted)[is_number])


def test_quotients_of_integers_are_cut_where_their_floats_are_close():
    """All pairs of small numbers, and multiples of 32 bits with the numbers beside them."""
    grid = np.arange(-128, 128)
    eight = (np.repeat(grid, 256).astype(np.int8), np.tile(grid, 256).astype(np.int8))
    parts = np.random.default_rng(0).integers(-(2**15), 2**15, (2, 3000))
    many = (
        (parts[0] * parts[1] + np.random.default_rng(1).integers(-1, 2, 3000)).astype(np.int32),
        parts[1].astype("i4"),
    )
    ends = np.array([-(2**31), 2**31 - 1, -1, 1, 0], np.int32)
    limits = np.repeat(ends, 5), np.tile(ends, 5)
    for first, second in (eight, many, limits):
        g = og.Graph()
        tensors = [g.input(name, OF_NUMPY[first.dtype], first.shape) for name in "ab"]
        g.output("y", g.op("Divide", tensors, edition="host"))
        np.testing.assert_array_equal(g.compile()(first, second), quotient(first, second))


@pytest.mark.parametrize("shape", [(2, 4), (3, 5), (3,)])
def test_operands_that_are_not_broadcast_are_refused(shape):
    for kernel, before in (("abs", []), ("cast", []), ("select", [np.ones((3, 4), np.bool_), np.ones(4, np.float32)])):
        run(kernel, *before, np.ones((1, 4), np.float32), np.zeros((3, 4), np.float32))
        with pytest.raises(LibraryRuntimeError, match="other sizes"):
            run(kernel, *before, np.ones(shape, np.float32), np.zeros((3, 4), np.float32))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 70)])
def test_no_elements_are_computed(shape):
    run("abs", np.zeros(shape, np.float32), np.zeros(shape, np.float32))
