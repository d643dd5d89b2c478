"""Steps that compute on 8-bit codes: lookups, sums and products between Dequantize and Quantize."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.kernels import run
from helpers.pass_graphs.codes import requantized, two_products

import onegraph as og
from onegraph.capi.settings import has_vnni
from onegraph.compiler.codings import LARGEST_ZERO, Coding, coding
from onegraph.ir.op import LogicalTensor
from onegraph.runtime.executable import Executable

TESTED_KERNELS = ("add", "look_up", "multiply", "rescale")
NEEDS_VNNI = pytest.mark.skipif(not has_vnni(), reason="int8 kernels without VNNI saturate, so ops run one by one")
LIMITS = {"s8": (-128, 127), "u8": (0, 255)}


def codes(dtype: str, *shape: int) -> np.ndarray:
    low, high = LIMITS[dtype]
    return np.random.default_rng(0).integers(low, high + 1, shape).astype(og.DataType(dtype).numpy)


def real(array: np.ndarray, scale: float, zero: int) -> np.ndarray:
    return (array.astype(np.float32) - np.float32(zero)) * np.float32(scale)


def coded(array: np.ndarray, scale: float, zero: int, dtype: str) -> np.ndarray:
    return np.clip(np.rint(array / np.float32(scale) + zero), *LIMITS[dtype]).astype(og.DataType(dtype).numpy)


def executed(model: Executable) -> list[tuple[str, ...]]:
    return [(part.executor, *part.kinds) for part in model.report().partitions]


# Kernels -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 63, 64, 1000, 40000])
@pytest.mark.parametrize("stride", [1, 3])
def test_codes_are_looked_up_by_their_bits(count, stride):
    table, source = codes("u8", 256), codes("s8", count * stride)[::stride]
    result = np.zeros(count * stride, np.uint8)[::stride]
    run("look_up", source, table, result, threads=2)
    assert (result == table[source.view(np.uint8) if stride == 1 else source.copy().view(np.uint8)]).all()


@pytest.mark.parametrize("source", ["f32", "s8", "u8"])
@pytest.mark.parametrize("result", ["f32", "s8", "u8"])
@pytest.mark.parametrize("stride", [1, 2])
def test_codes_are_rescaled(source, result, stride):
    given = np.linspace(-90, 90, 1200, dtype=np.float32) if source == "f32" else codes(source, 1200)
    given = given[::stride]
    zero, scale = (0, 1) if source == "f32" else (5, 0.75)
    low, high = LIMITS.get(result, (0, 0))
    numbers = np.array([zero, scale, 0, 1, 1 / 0.5, 7, low, high], np.float32)
    wide = real(given, scale, zero)
    for step in (1, 3):
        found = np.zeros(given.size * step, og.DataType(result).numpy)[::step]
        run("rescale", given, numbers, found)
        assert (found == (wide if result == "f32" else coded(wide, 0.5, 7, result))).all()


def test_a_number_without_a_code_gets_an_end_of_the_range():
    given = np.tile(np.array([np.nan, -np.inf, np.inf, 0], np.float32), 5)  # a whole vector, and a rest
    numbers, found = np.array([0, 1, 0, 1, 1, 0, -100, 127], np.float32), np.empty(20, np.int8)
    run("rescale", given, numbers, found)
    assert found.reshape(5, 4).tolist() == [[-100, -100, 127, 0]] * 5


@pytest.mark.parametrize("kind", ["add", "multiply"])
@pytest.mark.parametrize("second", ["f32", "s8", "u8"])
def test_codes_are_combined_with_broadcasts(kind, second):
    first = codes("u8", 7, 9, 70)
    other = np.linspace(-3, 3, 70, dtype=np.float32) if second == "f32" else codes(second, 7, 1, 70)
    numbers = np.array([100, 0.5, 4, 0.25, 1 / 0.125, -2, -128, 127], np.float32)
    ends = real(first, 0.5, 100), real(other, 0.25, 4)
    for step in (1, 2):
        found = np.zeros((7, 9, 70 * step), np.int8)[..., ::step]
        run(kind, first, other, numbers, found)
        assert (found == coded(ends[0] + ends[1] if kind == "add" else ends[0] * ends[1], 0.125, -2, "s8")).all()


# Graphs --------------------------------------------------------------------------------------------------------------


def swish(g: og.Graph, x: LogicalTensor) -> LogicalTensor:
    return g.multiply(x, requantized(g, g.op("HardSigmoid", [x], {"alpha": 1 / 6, "beta": 0.5}), 0.0078125, -100))


def gelu(g: og.Graph, x: LogicalTensor) -> LogicalTensor:
    """GELU as ONNX spells it, with Erf, which numpy would run."""
    divided = requantized(g, g.divide(x, g.constant(np.full(1, np.sqrt(2), np.float32))))
    erf = requantized(g, g.op("Erf", [divided], edition="host"), 0.0078125, 0)
    half = requantized(g, g.multiply(x, g.constant(np.full(1, 0.5, np.float32))))
    return g.multiply(half, requantized(g, g.add(erf, g.constant(np.ones(1, np.float32))), 0.015625, -128))


@pytest.mark.parametrize("function", [swish, gelu])
@pytest.mark.parametrize("dtype", ["s8", "u8"])
def test_ops_on_one_coded_tensor_are_one_lookup(function, dtype):
    g = og.Graph()
    x = g.dequantize(g.input("x", dtype, (1, 4, 64)), scales=[0.0625], zps=[9])
    g.output("y", g.quantize(function(g, x), scales=[0.046875], zps=[-4], dtype="s8"))
    model, every = g.compile(), np.arange(256, dtype=np.uint8).view(og.DataType(dtype).numpy).reshape(1, 4, 64)
    assert [found[0] for found in executed(model)] == ["kernel"]
    assert (model(every) == og.reference.run(g, {"x": every})["y"]).all()


def test_a_coded_tensor_inside_a_chain_is_kept_for_others():
    g = og.Graph()
    x = g.dequantize(g.input("x", "s8", (8, 32)), scales=[0.0625], zps=[0])
    inner = g.quantize(g.op("Tanh", [x]), scales=[0.0078125], zps=[0], dtype="s8")
    g.output("inner", inner)
    g.output(
        "y", g.quantize(g.exp(g.dequantize(inner, scales=[0.0078125], zps=[0])), scales=[0.03125], zps=[0], dtype="u8")
    )
    given = {"x": codes("s8", 8, 32)}
    expected = og.reference.run(g, given)
    for name, found in zip(g.outputs, g.compile()(**given), strict=True):
        assert (found == expected[name]).all()


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("kind", ["Add", "Subtract", "Multiply"])
@pytest.mark.parametrize("second", ["whole", "channels", "floats"])
def test_two_coded_tensors_are_combined_in_one_pass(kind, second, relu):
    g = og.Graph()
    first = g.dequantize(g.input("x", "s8", (1, 5, 6, 24)), scales=[0.0625], zps=[9])
    if second == "floats":
        other, array = g.input("y", "f32", (24,)), np.linspace(-2, 2, 24, dtype=np.float32)
    else:
        array = codes("u8", 1, *((5, 6) if second == "whole" else (1, 1)), 24)
        other = g.dequantize(g.input("y", "u8", array.shape), scales=[0.015625], zps=[128])
    total = g.op(kind, [first, other])
    g.output("z", g.quantize(g.relu(total) if relu else total, scales=[0.0703125], zps=[-7], dtype="s8"))
    model, given = g.compile(), {"x": codes("s8", 1, 5, 6, 24), "y": array}
    assert [found[0] for found in executed(model)] == ["kernel"]
    difference = model(**given).astype(int) - og.reference.run(g, given)["z"]
    # The kernel multiplies by 1 / scale, so that a number in the middle may be rounded to the other side.
    assert abs(difference).max() <= 1
    assert (difference != 0).mean() < 0.01


@NEEDS_VNNI
def test_a_sum_behind_a_product_is_left_to_the_library():
    g = og.Graph()
    weights = g.dequantize(g.constant(codes("s8", 32, 32)), scales=[0.0625], zps=[0])
    product = g.matmul(g.dequantize(g.input("x", "u8", (4, 32)), scales=[0.0625], zps=[0]), weights)
    total = g.add(product, g.dequantize(g.input("y", "u8", (4, 32)), scales=[0.5], zps=[0]))
    g.output("z", g.quantize(total, scales=[0.5], zps=[0], dtype="u8"))
    (found,) = executed(g.compile())
    assert found[0] == "oneDNN"


@NEEDS_VNNI
@pytest.mark.parametrize("zero", [-128, 0, 5, 127])
def test_products_read_unsigned_codes(zero):
    g = og.Graph()
    g.output("y", two_products(g, g.input("x", "f32", (4, 32)), zero)[1])
    given = {"x": np.random.default_rng(2).uniform(-20, 20, (4, 32)).astype(np.float32)}
    model = g.compile()
    products = [part for part in model.report().partitions if "MatMul" in part.kinds]
    assert [part.arithmetic for part in products] == ["u8 x s8", "u8 x s8"]
    np.testing.assert_array_equal(model(**given), og.reference.run(g, given)["y"])


@pytest.mark.parametrize("reader", ["caller", "reshape"])
def test_codes_with_another_reader_stay_signed(reader):
    g = og.Graph()
    inner, y = two_products(g, g.input("x", "f32", (4, 32)), -128)
    shape = g.constant(np.array([2, 64]), dtype=og.s64)
    g.output("inner", inner if reader == "caller" else g.op("Reshape", [inner, shape], edition="host"))
    g.output("y", y)
    given = {"x": np.random.default_rng(2).uniform(-20, 20, (4, 32)).astype(np.float32)}
    found, expected = g.compile()(**given), og.reference.run(g, given)
    assert found[0].dtype == np.int8
    for name, one in zip(g.outputs, found, strict=True):
        np.testing.assert_array_equal(one, expected[name])


def test_a_sum_with_another_reader_is_computed():
    g = og.Graph()
    ends = [g.dequantize(g.input(name, "u8", (4, 32)), scales=[0.5], zps=[1]) for name in "xy"]
    total = g.add(*ends)
    g.output("total", total)
    g.output("z", g.quantize(total, scales=[0.5], zps=[0], dtype="u8"))
    given = {name: codes("u8", 4, 32) for name in "xy"}
    found, expected = g.compile()(**given), og.reference.run(g, given)
    assert all((one == expected[name]).all() for name, one in zip(g.outputs, found, strict=True))


def test_debug_computes_each_op():
    g = og.Graph()
    x = g.dequantize(g.input("x", "u8", (4, 32)), scales=[0.5], zps=[1])
    g.output("y", g.quantize(g.relu(x), scales=[0.5], zps=[0], dtype="u8"))
    assert len(executed(g.compile(policy="debug"))) == 3


@pytest.mark.parametrize("places", [(1, 1, 7, 1), (2, 6, 1, 1), (1, 1, 1, 37)])
@pytest.mark.parametrize("kind", ["Add", "Multiply"])
def test_codes_meet_numbers_that_repeat_along_some_axes(kind, places):
    shape, rng = (2, 6, 7, 37), np.random.default_rng(4)
    codes = {"scales": [0.03], "zps": [120], "qtype": "per_tensor"}
    g = og.Graph()
    ends = [g.op("Dequantize", [g.input("x", "u8", shape)], codes), g.input("w", "f32", places)]
    g.output("y", g.op("Quantize", [g.op(kind, ends)], codes, dtype="u8"))
    model, x = g.compile(), rng.integers(0, 256, shape, np.uint8)
    w = rng.uniform(0.5, 1.5, places).astype(np.float32)
    assert "8-bit codes are computed in one pass" in str(model.report())
    wide = (x.astype(np.float64) - 120) * 0.03
    wide = wide + w if kind == "Add" else wide * w
    exact = np.clip(wide / 0.03 + 120, 0, 255)
    assert np.abs(model(x=x, w=w) - exact).max() < 0.501


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({}, True),
        ({"scales": (0.0,)}, False),
        ({"scales": (-0.25,)}, True),
        ({"scales": (np.nan,)}, False),
        ({"scales": (0.5, 0.5)}, False),
        ({"zps": (LARGEST_ZERO,)}, True),
        ({"zps": (LARGEST_ZERO + 1,)}, False),
        ({"zps": (-LARGEST_ZERO - 1,)}, False),
        ({"zps": None}, True),
        ({"qtype": "per_channel"}, False),
        ({"executor": "reference"}, False),
    ],
    ids=str,
)
def test_kernels_take_one_scale_that_can_be_divided_by(given, taken):
    attrs = {"scales": (0.5,), "zps": (3,), **given}
    step = SimpleNamespace(executor=attrs.pop("executor", "library"), attrs=attrs)
    wanted = Coding(attrs["scales"][0], (attrs["zps"] or (0,))[0])
    assert coding(step) == (wanted if taken else None)
