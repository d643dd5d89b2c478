"""Elementwise ops that run together: exact numbers, and which ops are joined."""

import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onegraph as og
from onegraph.capi.settings import has_avx512, is_native
from onegraph.compiler.kernels import native
from onegraph.compiler.kernels.pointwise import MIN_SIGMOID, MIN_SLOPES, REGISTERS
from onegraph.compiler.lower import lower
from onegraph.compiler.options import Options
from onegraph.compiler.passes import run_passes
from tests.helpers.kernels import run_compiled, values_of

TESTED_KERNELS = ("pointwise",)
RNG = np.random.default_rng(0)
ROOT = math.sqrt(2 * math.pi)
NUMBERS = {"b1": 0.9, "1-b1": 0.1, "b2": 0.999, "1-b2": 0.001, "c": 1.5, "eps": 1e-8, "lr": 0.01}


def adam(shape, gradient="f32"):
    """A graph with the update of Adam for one variable: three results of four inputs."""
    g = og.Graph()
    p, m, v = (g.input(name, "f32", shape) for name in "pmv")
    slope = g.input("slope", gradient, shape)
    if gradient != "f32":
        slope = g.type_cast(slope, dtype="f32")
    number = {name: g.constant(np.full(1, value, np.float32)) for name, value in NUMBERS.items()}
    m = g.add(g.multiply(m, number["b1"]), g.multiply(slope, number["1-b1"]))
    v = g.add(g.multiply(v, number["b2"]), g.multiply(g.square(slope), number["1-b2"]))
    root = g.add(g.multiply(g.sqrt(v), number["c"]), number["eps"])
    p = g.subtract(p, g.multiply(g.divide(m, root), number["lr"]))
    for name, tensor in (("p2", p), ("m2", m), ("v2", v)):
        g.output(name, tensor)
    return g


def expected(p, m, v, slope):
    """The same in numpy, where each op is rounded to f32."""
    slope = slope.astype(np.float32)
    number = {name: np.float32(value) for name, value in NUMBERS.items()}
    m = m * number["b1"] + slope * number["1-b1"]
    v = v * number["b2"] + slope * slope * number["1-b2"]
    return p - m / (np.sqrt(v) * number["c"] + number["eps"]) * number["lr"], m, v


@pytest.mark.parametrize("gradient", ["f32", "bf16"])
@pytest.mark.parametrize("shape", [(2,), (7,), (255,), (256,), (264,), (513,), (40, 1001), (1100, 1001)])
@pytest.mark.parametrize("level", [0, 1, 2], ids=["any CPU", "AVX2", "AVX-512"])
def test_joined_update_is_rounded_op_by_op(shape, gradient, level, monkeypatch):
    monkeypatch.setattr(native, "LEVEL", level)
    g = adam(shape, gradient)
    given = {name: np.abs(RNG.standard_normal(shape)).astype(np.float32) for name in "pmv"}
    given["slope"] = RNG.standard_normal(shape).astype(np.float32).astype(og.DataType(gradient).numpy)
    model = g.compile()
    for found, wanted in zip(model(**given), expected(**given), strict=True):
        np.testing.assert_array_equal(found, wanted)
    (part,) = model.report().partitions
    assert part.executor == "kernel"
    assert len(part.names) == len(g.ops)


BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "squared_difference": lambda a, b: (a - b) * (a - b),
}
UNARY = {"square": np.square, "sqrt": np.sqrt}


@st.composite
def updates(draw):
    """Ops on p, m, v, x and a number, each with the places of its operands, and the new values of p, m and v."""
    ops = [(draw(st.sampled_from([*BINARY])), place, 3 if place == 0 else 4 + place) for place in range(3)]
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from([*BINARY, *UNARY]))
        first = draw(st.sampled_from([place for place in range(5 + len(ops)) if place != 4]))
        operands = [first, draw(st.integers(0, 4 + len(ops)))] if kind in BINARY else [first]
        ops.append((kind, *draw(st.permutations(operands))))
    results = draw(st.permutations([5 + place for place in range(len(ops))]))[:3]
    return ops, results


@settings(max_examples=60, deadline=None)
@given(updates(), st.sampled_from([2, 15, 127, 128, 129, 256, 700, 4097]), st.sampled_from([0, 1, 2]))
def test_any_update_is_rounded_op_by_op_and_reads_the_old_values(update, size, level):
    ops, results = update
    rng = np.random.default_rng(size)
    first = {name: rng.uniform(0.5, 2, size).astype(np.float32) for name in "pmv"}
    x = rng.standard_normal(size).astype(np.float32)
    g = og.Graph()
    nodes = [*(g.variable(name, array) for name, array in first.items()), g.input("x", "f32", (size,))]
    nodes.append(g.constant(np.full(1, 0.75, np.float32)))
    for kind, *operands in ops:
        nodes.append(getattr(g, kind)(*(nodes[place] for place in operands)))
    for variable, place in zip(nodes, results, strict=False):
        g.assign(variable, nodes[place])
    with patch.object(native, "LEVEL", level):
        model = g.compile()
    for _ in range(2):
        model(x=x)
        values = [first["p"], first["m"], first["v"], x, np.float32(0.75)]
        with np.errstate(all="ignore"):
            for kind, *operands in ops:
                values.append((BINARY | UNARY)[kind](*(values[place] for place in operands)))
        first = {name: values[place] for name, place in zip("pmv", results, strict=True)}
        for name, wanted in first.items():
            np.testing.assert_array_equal(model.variables[name], wanted)


def test_result_can_be_narrow():
    g = og.Graph()
    x, y, z = (g.input(name, "f32", (1000,)) for name in "xyz")
    total = g.add(g.multiply(x, y), z)
    g.output("total", total)
    g.output("narrow", g.type_cast(total, dtype="bf16"))
    given = [RNG.standard_normal(1000).astype(np.float32) for _ in range(3)]
    found = g.compile()(*given)
    np.testing.assert_array_equal(found[0], given[0] * given[1] + given[2])
    np.testing.assert_array_equal(found[1], (given[0] * given[1] + given[2]).astype(og.bf16.numpy))


def test_single_number_can_come_first():
    g = og.Graph()
    x, y, z, one = (*(g.input(name, "f32", (20,)) for name in "xyz"), g.input("one", "f32", (1,)))
    first = g.subtract(one, g.multiply(x, y))
    g.output("first", first)
    g.output("second", g.divide(one, g.add(first, z)))
    x, y, z = (RNG.uniform(1, 2, 20).astype(np.float32) for _ in range(3))
    one = np.full(1, 5, np.float32)
    found = g.compile()(x=x, y=y, z=z, one=one)
    np.testing.assert_array_equal(found[0], one - x * y)
    np.testing.assert_array_equal(found[1], one / (one - x * y + z))


def joined(g):
    return [len(step.members) for step in run_passes(lower(g), Options(), ["pointwise"]).steps if step.members]


def test_ops_around_a_product_are_not_joined():
    g = og.Graph()
    x, y, z = (g.input(name, "f32", (4, 4)) for name in "xyz")
    first = g.add(g.multiply(x, y), z)
    second = g.add(g.add(g.matmul(first, x), first), z)
    g.output("first", first)
    g.output("second", second)
    assert max(joined(g), default=0) < len(g.ops) - 1
    given = [RNG.integers(-3, 4, (4, 4)).astype(np.float32) for _ in range(3)]
    x, y, z = given
    found = g.compile()(*given)
    np.testing.assert_array_equal(found[0], x * y + z)
    np.testing.assert_array_equal(found[1], (x * y + z) @ x + x * y + 2 * z)


def test_chain_with_one_result_stays_with_the_library():
    g = og.Graph()
    x, y = g.input("x", "f32", (4, 4)), g.input("y", "f32", (4, 4))
    g.output("z", g.sqrt(g.add(g.multiply(x, y), x)))
    assert joined(g) == []


def test_new_value_takes_the_place_of_the_old_one_last():
    """An update runs behind the readers of the old value, and before ops that need neither."""
    g = og.Graph()
    w, m, x = (g.input(name, "f32", (8, 8)) for name in "wmx")
    slope = g.matmul(x, x)
    speed = g.add(g.multiply(m, g.constant(np.full(1, 0.5, np.float32))), slope)
    g.output("speed", speed)
    g.output("new", g.subtract(w, speed))
    y = g.matmul(x, w)
    for _ in range(3):
        y = g.matmul(y, x)
    g.output("y", y)
    kinds = ["update" if step.members else step.kind for step in run_passes(lower(g), Options(), ["pointwise"]).steps]
    assert kinds == ["MatMul", "MatMul", "update", "MatMul", "MatMul", "MatMul"]


@pytest.mark.parametrize(
    "place", ["a transposed input", "a slice as input", "a transposed result", "an output with strides"]
)
def test_joined_ops_honour_views_and_strides(place):
    g = og.Graph()
    x, y, z = (g.input(name, "f32", (30, 40)) for name in "xyz")
    given = [RNG.standard_normal((30, 40)).astype(np.float32) for _ in "xyz"]
    a, b, c = given
    if place == "a transposed input":
        source = g.input("w", "f32", (40, 30))
        given.append(RNG.standard_normal((40, 30)).astype(np.float32))
        x, a = g.static_transpose(source, order=[1, 0]), given[-1].T
    if place == "a slice as input":
        source = g.input("w", "f32", (60, 40))
        given.append(RNG.standard_normal((60, 40)).astype(np.float32))
        limits = (g.constant(np.array([number], np.int64), dtype=og.s64) for number in (30, 60))
        x, a = g.op("Slice", [source, *limits], edition="host"), given[-1][30:]
    product = g.multiply(x, y)
    total, less = g.add(product, z), g.subtract(product, z)
    wanted = [a * b + c, a * b - c]
    g.output("less", less)
    if place == "a transposed result":
        total, wanted[0] = g.static_transpose(total, order=[1, 0]), wanted[0].T
    g.output("total", total, strides=(1, 30) if place == "an output with strides" else None)
    found = g.compile()(*given)
    np.testing.assert_array_equal(found.total, wanted[0])
    np.testing.assert_array_equal(found.less, wanted[1])


def silu(shape, **more):
    """A graph with x * Sigmoid(x)."""
    g = og.Graph()
    x = g.input("x", "f32", shape, **more)
    g.output("y", g.multiply(x, g.sigmoid(x)))
    return g


def kinds(model):
    return [(part.executor, part.kinds) for part in model.report().partitions]


@pytest.mark.parametrize("size", [100, 1 << 15, (1 << 15) + 3, 100_001])
def test_silu_is_one_kernel(size):
    x = np.linspace(-95, 95, size).astype(np.float32)
    model = silu((size,)).compile()
    wide = x.astype(np.float64)
    np.testing.assert_allclose(model(x), wide / (1 + np.exp(-wide)), rtol=4e-7, atol=2e-36)
    assert kinds(model) == [("kernel", ("Sigmoid", "Multiply"))]


def test_silu_of_special_numbers():
    x = np.zeros(1 << 15, np.float32)
    x[:7] = np.nan, np.inf, -np.inf, -3e38, 3e38, -0.0, 1e-45
    found = silu(x.shape).compile()(x)
    np.testing.assert_array_equal(found[:7], np.array([np.nan, np.inf, np.nan, -0.0, 3e38, -0.0, 0.0], np.float32))


def test_small_silu_stays_with_the_product_before():
    g = og.Graph()
    x = g.matmul(g.input("x", "f32", (4, 8)), g.constant(RNG.standard_normal((8, 16)).astype(np.float32)))
    g.output("y", g.multiply(x, g.sigmoid(x)))
    assert [kind for kind, _ in kinds(g.compile())] == ["oneDNN"]


def test_small_sum_between_kernels_is_a_kernel():
    """The code of the library is not in the cache there."""
    src, residual = (RNG.standard_normal((2, 32)).astype(np.float32) for _ in range(2))
    codes, scale = RNG.integers(-8, 8, (32, 32)).astype(np.int8), 0.1
    for is_last in (True, False):
        g = og.Graph()
        weights = g.dequantize(g.constant(codes), scales=[scale])
        total = g.add(g.matmul(g.input("src", "f32", (2, 32)), weights), g.input("residual", "f32", (2, 32)))
        g.output("y", total if is_last else g.matmul(total, g.input("w", "f32", (32, 5))))
        assert (("kernel", ("Add",)) in kinds(g.compile())) == is_last
        wanted = src.astype(np.float64) @ (codes * scale) + residual
        if is_last:
            np.testing.assert_allclose(g.compile()(src, residual), wanted, rtol=1e-5, atol=1e-5)


def test_gate_behind_a_product_reads_both_products_once():
    g = og.Graph()
    x = g.input("x", "f32", (64, 8))
    left, right = (RNG.standard_normal((8, 512)).astype(np.float32) for _ in range(2))
    g.output("y", g.multiply(g.matmul(x, g.constant(left)), g.sigmoid(g.matmul(x, g.constant(right)))))
    model, given = g.compile(), RNG.standard_normal((64, 8)).astype(np.float32)
    wide = given.astype(np.float64)
    wanted = wide @ left / (1 + np.exp(-(wide @ right)))
    np.testing.assert_allclose(model(given), wanted, rtol=1e-4, atol=1e-5)
    assert ("kernel", ("Sigmoid", "Multiply")) in kinds(model)


def test_lone_sigmoid_stays_in_the_library():
    g = og.Graph()
    g.output("y", g.sigmoid(g.input("x", "f32", (1 << 15,))))
    assert joined(g) == []


@pytest.mark.parametrize("channels", [2, 3, 8, 48, 96, 100, 241, 256, 257, 300, 513, 1000, 1023, 1025, 5000])
def test_factor_of_each_channel_is_exact(channels):
    """The factors are computed, as in a squeeze-and-excitation block, and another op reads the image too."""
    shape, row = (1, 7, 20_000 // channels // 7 + 1, channels), (1, 1, 1, channels)
    g = og.Graph()
    x, y = g.input("x", "f32", shape), g.input("y", "f32", row)
    g.output("scaled", g.multiply(g.square(y), x))
    g.output("root", g.sqrt(x))
    model = g.compile()
    given = [RNG.uniform(0, 2, one).astype(np.float32) for one in (shape, row)]
    np.testing.assert_array_equal(model(*given).scaled, given[1] * given[1] * given[0])
    assert ("kernel", ("Multiply",)) in kinds(model)


def test_factor_of_each_row_stays_in_the_library():
    g = og.Graph()
    x, y = g.input("x", "f32", (1, 100, 100, 8)), g.input("y", "f32", (1, 100, 1, 1))
    g.output("scaled", g.multiply(g.square(y), x))
    g.output("root", g.sqrt(x))
    assert joined(g) == []


def test_product_of_two_sigmoids_has_one_gate():
    g = og.Graph()
    x, y = (g.input(name, "f32", (1 << 15,)) for name in "xy")
    g.output("z", g.multiply(g.sigmoid(x), g.sigmoid(y)))
    model, given = g.compile(), [RNG.standard_normal(1 << 15).astype(np.float32) for _ in "xy"]
    wanted = 1 / (1 + np.exp(-given[0].astype(np.float64))) / (1 + np.exp(-given[1].astype(np.float64)))
    np.testing.assert_allclose(model(*given), wanted, rtol=1e-6)
    assert kinds(model) == [("kernel", ("Sigmoid", "Sigmoid", "Multiply"))]


@pytest.mark.parametrize("number", [0.0, 80.0, -80.0, -100.0, np.inf, -np.inf, np.nan])
def test_gate_of_special_numbers(number):
    """A gate is 0 below the least number that the kernel has, and NaN stays NaN."""
    g = og.Graph()
    x, y = (g.input(name, "f32", (1 << 15,)) for name in "xy")
    g.output("z", g.multiply(x, g.sigmoid(y)))
    found = g.compile()(np.full(1 << 15, 3, np.float32), np.full(1 << 15, number, np.float32))
    np.testing.assert_allclose(found, 3 / (1 + np.exp(-np.float64(number))), rtol=1e-6, atol=1e-37)


@pytest.mark.skipif(not has_avx512(), reason="the library computes bf16 in f32 there, with a cast behind each op")
def test_gate_of_bf16_is_rounded_once():
    size = (1 << 15) + 3
    g = og.Graph()
    x, y = (g.input(name, "bf16", (size,)) for name in "xy")
    g.output("z", g.multiply(x, g.sigmoid(y)))
    model, given = g.compile(), [RNG.standard_normal(size).astype(og.bf16.numpy) for _ in "xy"]
    wide = [one.astype(np.float64) for one in given]
    wanted = wide[0] / (1 + np.exp(-wide[1]))
    error = np.abs(model(*given).astype(np.float64) - wanted)
    assert (error <= 1.001 * 2.0**-8 * np.exp2(np.floor(np.log2(np.abs(wanted) + 2.0**-126)))).all()
    assert kinds(model) == [("kernel", ("Sigmoid", "Multiply"))]


SPECIAL = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38, 87.5, -87.5, -89.0, -100.0]
GATES = {
    "silu and factor": lambda g, x, y: g.multiply(g.multiply(x, g.sigmoid(x)), y),
    "gate": lambda g, x, y: g.multiply(x, g.sigmoid(y)),
    "gate and factor": lambda g, x, y: g.multiply(g.multiply(y, g.sigmoid(x)), x),
    "gradient": lambda g, x, y: g.op("GELUBackward", [x, y]),
}


@pytest.mark.skipif(not has_avx512(), reason="the library computes bf16 in f32 there, with a cast behind each op")
@pytest.mark.parametrize("size", [1 << 15, (1 << 15) + 9])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("form", GATES)
def test_gates_have_the_same_bits_on_every_instruction_set(form, dtype, size, monkeypatch):
    """With tensors of whole vectors, which are read and written where they lie, and others."""
    kind = og.DataType(dtype).numpy
    given = {
        "x": np.resize(SPECIAL, size).astype(kind),
        "y": np.concatenate([RNG.standard_normal(size - 600) * 30, np.resize(SPECIAL, 600)]).astype(kind),
    }
    with np.errstate(invalid="ignore"):
        given["x"][1000:] = (RNG.standard_normal(size - 1000) * 30).astype(kind)
    results = []
    for level in (0, 1, 2):
        monkeypatch.setattr(native, "LEVEL", level)
        g = og.Graph()
        x, y = (g.input(name, dtype, (size,)) for name in given)
        g.output("z", GATES[form](g, x, y))
        model = g.compile()
        assert [part.executor for part in model.report().partitions] == ["kernel"]
        results.append(model(**given))
    bits = np.uint32 if dtype == "f32" else np.uint16
    for other in results[1:]:
        np.testing.assert_array_equal(other.view(bits), results[0].view(bits))


@pytest.mark.skipif(not has_avx512(), reason="the library computes bf16 in f32 there, with a cast behind each op")
def test_other_ops_of_16_bits_are_rounded_one_by_one():
    g = og.Graph()
    x, y, z = (g.input(name, "bf16", (64, 64)) for name in "xyz")
    product = g.multiply(x, y)
    g.output("more", g.multiply(g.multiply(product, z), x))
    g.output("less", g.multiply(product, y))
    assert joined(g) == []


def slope_of_gelu(x):
    """The slope of GELU in float64, by its definition."""
    return np.array([0.5 * math.erfc(-one / math.sqrt(2)) + one * math.exp(-one * one / 2) / ROOT for one in x])


@pytest.mark.parametrize("level", [0, 1, 2], ids=["any CPU", "AVX2", "AVX-512"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("f32", 6e-7), ("bf16", 2**-8)])
def test_gradient_of_a_large_gelu_is_one_kernel(dtype, tolerance, level, monkeypatch):
    monkeypatch.setattr(native, "LEVEL", level)
    g = og.Graph()
    x = np.linspace(-15, 15, MIN_SLOPES + 3).astype(og.DataType(dtype).numpy)
    diff = RNG.choice([-0.5, 1, 2], x.size).astype(x.dtype)
    ends = g.input("x", dtype, x.shape), g.input("diff", dtype, x.shape)
    g.output("y", g.op("GELUBackward", ends))
    model = g.compile()
    if is_native(og.DataType(dtype)):
        assert [part.executor for part in model.report().partitions] == ["kernel"]
    found, expected = model(x, diff).astype(np.float64), diff.astype(float) * slope_of_gelu(x.astype(float))
    np.testing.assert_allclose(found, expected, rtol=0 if dtype == "f32" else tolerance, atol=tolerance)
    tail = (x < -2) & (x > -12)
    np.testing.assert_allclose(found[tail], expected[tail], rtol=1e-5 if dtype == "f32" else tolerance)


@pytest.mark.parametrize(
    ("kind", "attrs"), [("GELUBackward", {}), ("GELUBackward", {"mode": "gelu_tanh"}), ("MishBackward", {})]
)
def test_infinite_gradients_meet_slopes_of_zero(kind, attrs):
    g = og.Graph()
    x = np.resize(np.float32([-3e38, 3e38]), MIN_SLOPES)
    g.output("y", g.op(kind, [g.input("x", "f32", x.shape), g.input("diff", "f32", x.shape)], attrs))
    found = g.compile()(x, np.full_like(x, np.inf))[:2]
    np.testing.assert_array_equal(found, [np.nan, np.inf])


def test_gradient_of_a_gelu_of_special_numbers():
    g = og.Graph()
    special = np.array([np.inf, -np.inf, 3e38, -3e38, 1e-40, -0.0, np.nan], np.float32)
    x = np.resize(special, MIN_SLOPES)
    g.output("y", g.op("GELUBackward", [g.input("x", "f32", x.shape), g.input("diff", "f32", x.shape)]))
    found = g.compile()(x, np.ones_like(x))[: special.size]
    np.testing.assert_allclose(found, [np.nan, np.nan, 1, 0, 0.5, 0.5, np.nan], atol=1e-30)  # inf * 0


def test_gradient_of_a_small_gelu_stays_in_the_library():
    g = og.Graph()
    shape = (MIN_SLOPES - 1,)
    g.output("y", g.op("GELUBackward", [g.input("x", "f32", shape), g.input("diff", "f32", shape)]))
    assert joined(g) == []


BY_RESULT = {"SigmoidBackward": lambda s: s * (1 - s), "TanhBackward": lambda t: (1 - t) * (1 + t)}


@pytest.mark.parametrize("level", [0, 1, 2], ids=["any CPU", "AVX2", "AVX-512"])
@pytest.mark.parametrize("turned", [False, True], ids=["by the result", "by the gradient"])
@pytest.mark.parametrize("kind", BY_RESULT)
def test_slopes_beside_other_ops_are_exact(kind, turned, level, monkeypatch):
    """Also where the result is close to 1, of which the slope keeps the distance alone."""
    monkeypatch.setattr(native, "LEVEL", level)
    size = MIN_SIGMOID + 3
    near = np.float32([0, 1, 1 - 2.0**-24, 1 - 2.0**-12, 2.0**-20, 1e-30])
    result = np.concatenate([np.resize(near, 600), RNG.uniform(0, 1, size - 600).astype(np.float32)])
    diff, other = RNG.uniform(0.5, 2, (2, size)).astype(np.float32)
    g = og.Graph()
    ends = [g.input(name, "f32", (size,)) for name in ("result", "diff", "other")]
    wide = [one.astype(np.float64) for one in (result, diff, other)]
    if turned:  # the op reads what was computed right before it as the gradient
        g.output("y", g.op(kind, [ends[0], g.multiply(ends[1], ends[2])]))
    else:
        g.output("y", g.op(kind, [g.multiply(ends[0], ends[2]), ends[1]]))
        wide[0] = (result * other).astype(np.float64)
    model = g.compile()
    assert [part.executor for part in model.report().partitions] == ["kernel"]
    expected = BY_RESULT[kind](wide[0]) * wide[1] * (wide[2] if turned else 1)
    np.testing.assert_allclose(model(result, diff, other), expected, rtol=4e-7, atol=1e-37)


@pytest.mark.parametrize(
    "dtype", ["f32", pytest.param("bf16", marks=pytest.mark.skipif(not has_avx512(), reason="no bf16"))]
)
@pytest.mark.parametrize("kind", ["sigmoid", "tanh"])
def test_gradient_of_a_gate_is_one_kernel(kind, dtype):
    g, shape = og.Graph(), (4, MIN_SIGMOID // 4 + 1)
    x, diff = (g.input(name, dtype, shape) for name in ("x", "diff"))
    gate = getattr(g, kind)(x)
    g.output("gate", gate)
    (by_x,) = g.gradient(g.multiply(x, gate), [x], [diff])
    g.output("by_x", by_x)
    model = g.compile()
    given = [RNG.uniform(-4, 4, shape).astype(og.DataType(dtype).numpy) for _ in "xd"]
    wide = [one.astype(np.float64) for one in given]
    curve = np.tanh(wide[0]) if kind == "tanh" else 1 / (1 + np.exp(-wide[0]))
    slope = BY_RESULT[f"{kind.capitalize()}Backward"](curve)
    tolerance = {"f32": 2e-6, "bf16": 2**-6}[dtype]
    found = model(*given).by_x.astype(np.float64)
    np.testing.assert_allclose(found, wide[1] * (curve + wide[0] * slope), rtol=tolerance, atol=4 * tolerance)
    joined_kinds = {kind for executor, part in kinds(model) if executor == "kernel" for kind in part}
    assert f"{kind.capitalize()}Backward" in joined_kinds


def test_slopes_of_a_source_stay_in_the_library():
    g = og.Graph()
    x, diff = (g.input(name, "f32", (MIN_SIGMOID,)) for name in ("x", "diff"))
    g.output("y", g.multiply(g.op("SigmoidBackward", [x, diff], {"use_dst": False}), diff))
    assert joined(g) == []


def test_a_group_of_more_tensors_than_the_kernel_has_registers_stays():
    g = og.Graph()
    x = g.sigmoid(g.input("x", "f32", (MIN_SIGMOID,)))
    for place in range(REGISTERS):
        x = g.multiply(x, g.input(f"x{place}", "f32", (MIN_SIGMOID,)))
    g.output("y", x)
    given = [np.ones(MIN_SIGMOID, np.float32) for _ in range(REGISTERS + 1)]
    np.testing.assert_allclose(g.compile()(*given), 1 / (1 + np.exp(-1)), rtol=1e-6)


@pytest.mark.parametrize("rows", [4, None])
def test_a_group_that_nobody_reads_is_no_kernel(rows):
    g = og.Graph()
    x = g.input("x", "f32", (rows, 8))
    gate = g.multiply(x, g.sigmoid(x))
    g.multiply(gate, g.sigmoid(gate))
    g.output("y", g.abs(x))
    given = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(g.compile()(given), abs(given))


@pytest.mark.parametrize(("register", "fits"), [(2, True), (REGISTERS - 1, True), (REGISTERS, False)])
def test_a_kernel_of_more_registers_than_there_is_room_for_is_refused(register, fits):
    x, y = np.arange(1, 200, dtype=np.float32), np.empty(199, np.float32)
    ops = ["square", register, 0, 0, "add", 1, register, 0]
    first, result = values_of([x, y])
    kernel = native.compiled("pointwise", [first], [result], native.packed("pointwise", {"ops": ops}))
    if fits:
        run_compiled(kernel, x, y)
        np.testing.assert_array_equal(y, x * x + x)
    else:
        with pytest.raises(og.OneGraphError, match="registers"):
            run_compiled(kernel, x, y)
