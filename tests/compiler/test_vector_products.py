"""Products of a few rows and a large matrix, which a kernel of the package computes."""

import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph.capi.settings import has_vnni, is_native
from onegraph.compiler.kernels import native
from onegraph.compiler.lower import lower
from onegraph.compiler.options import Options
from onegraph.compiler.passes import run_passes, vector_products
from onegraph.faults.vectors import SLOW_VECTORS

TESTED_KERNELS = ("vector_product",)
RNG = np.random.default_rng(0)
DEPTH, COLUMNS = 517, 530  # no multiples of a register, of what is read at once, or of what a thread takes


@pytest.fixture(autouse=True)
def without_caches(monkeypatch):
    """Take the kernel however large the last cache is."""
    monkeypatch.setattr(vector_products, "core_cache", lambda: 0)


def drawn(*shape, dtype="f32"):
    return RNG.standard_normal(shape).astype(og.DataType[dtype].numpy)


def product(src, is_turned, dtype="f32", columns=COLUMNS, is_constant=True, bias=False, behind=None, depth=DEPTH):
    """A graph with one product, and a tensor that is added to it."""
    g = og.Graph()
    shape = (columns, depth) if is_turned else (depth, columns)
    weights = g.constant(drawn(*shape, dtype=dtype)) if is_constant else g.input("w", dtype, shape)
    ends = [g.input("x", dtype, src), weights, *([g.constant(drawn(columns, dtype=dtype))] if bias else [])]
    y = g.op("MatMul", ends, {"transpose_b": is_turned})
    if behind is not None:
        y = g.add(*([y, behind] if isinstance(behind, og.LogicalTensor) else [y, g.input("z", dtype, behind)]))
    g.output("out", y)
    return g


def compare(g):
    """Compare a graph with the reference; returns its executable."""
    given = {name: drawn(*one.shape, dtype=one.dtype.value) for name, one in g.inputs.items()}
    model, exact = g.compile(), reference.run(g, given)
    found = model(**given)
    for name, got in {"out": found}.items() if len(exact) == 1 else found._asdict().items():
        share, wanted = 1e-4 if got.dtype == np.float32 else 1e-2, exact[name].astype(np.float64)
        np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=share, atol=share * np.abs(wanted).max())
    return model


def ours(model):
    """The numbers of ops of the steps that the kernel runs."""
    return [len(part.kinds) for part in model.report().partitions if SLOW_VECTORS.reason in part.reason]


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_rows_times_a_matrix(rows, is_turned, level, monkeypatch):
    monkeypatch.setattr(native, "LEVEL", level)
    assert ours(compare(product((rows, DEPTH), is_turned))) == [1]


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("columns", [4096, 4500, 9001])
def test_wide_matrices(columns, is_turned):
    assert ours(compare(product((2, 70), is_turned, columns=columns, depth=70))) == [1]


@pytest.mark.parametrize("src", [(1, 1, DEPTH), (2, 2, DEPTH), (1, 3, 1, DEPTH)], ids=str)
def test_batches_of_one_matrix(src):
    assert ours(compare(product(src, is_turned=True))) == [1]


@pytest.mark.parametrize("is_turned", [False, True])
def test_matrices_that_are_no_constants(is_turned):
    assert ours(compare(product((1, DEPTH), is_turned, is_constant=False))) == [1]


@pytest.mark.parametrize(
    ("bias", "behind", "joined"),
    [
        (True, None, 1),
        (False, (3, COLUMNS), 2),
        (False, (COLUMNS,), 2),
        (False, (1, COLUMNS), 2),
        (False, (3, 1), 1),
        (False, (1,), 1),
        (True, (3, COLUMNS), 1),
    ],
    ids=str,
)
def test_what_is_added(bias, behind, joined):
    assert ours(compare(product((3, DEPTH), False, bias=bias, behind=behind))) == [joined]


def test_a_product_with_two_readers_is_written():
    g = product((1, DEPTH), False)
    y = g.outputs["out"]
    g.output("sum", g.add(y, g.input("z", "f32", (1, COLUMNS))))
    assert ours(compare(g)) == [1]


def test_a_sum_takes_in_one_of_its_products():
    g = og.Graph()
    ends = [g.matmul(g.input(f"x{at}", "f32", (2, DEPTH)), g.input(f"w{at}", "f32", (DEPTH, COLUMNS))) for at in "ab"]
    g.output("out", g.add(*ends))
    assert sorted(ours(compare(g))) == [1, 2]


def test_the_sum_of_two_products():
    g = product((1, DEPTH), False)
    other = g.matmul(g.input("a", "f32", (1, DEPTH)), g.constant(drawn(DEPTH, COLUMNS)))
    y = g.outputs["out"]
    g.output("out2", g.add(y, other))
    assert ours(compare(g)) == [1, 2]


def test_any_number_of_threads_gives_the_same_bits():
    x = drawn(2, DEPTH)
    for is_turned, columns in ((False, COLUMNS), (True, COLUMNS), (False, 5000)):
        g = product((2, DEPTH), is_turned, columns=columns)
        one, two = (g.compile(threads=count)(x) for count in (1, 2))
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (lambda: product((5, DEPTH), False), "more rows"),
        (lambda: product((1, 64), False, depth=64), "a small matrix"),
    ],
    ids=["rows", "small"],
)
def test_other_products_stay(graph, why):
    assert ours(compare(graph())) == [], why


OTHERS = {  # by what differs: the operand of the product, and its fields
    "a bias of one number": (2, {"shape": (1,), "strides": (1,)}),
    "a bias of other numbers": (2, {"dtype": og.bf16}),
    "a matrix of other numbers": (1, {"dtype": og.bf16}),
    "a matrix with gaps": (1, {"strides": (2 * COLUMNS, 1)}),
    "several matrices": (1, {"shape": (1, DEPTH, COLUMNS), "strides": (DEPTH * COLUMNS, COLUMNS, 1)}),
    "a row without the axis of rows": (0, {"shape": (DEPTH,), "strides": (1,)}),
    "rows of other numbers": (0, {"dtype": og.bf16}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_products_of_other_operands_stay(name):
    lowered = lower(product((1, DEPTH), False, bias=True))
    (step,) = lowered.steps
    assert vector_products._is_suited(lowered, step, False)
    assert not vector_products._is_suited(lowered, step._replace(executor="reference"), False)
    place, fields = OTHERS[name]
    lowered.values[step.inputs[place]] = lowered.values[step.inputs[place]]._replace(**fields)
    assert vector_products._is_suited(lowered, step, False) is False


@pytest.mark.parametrize("is_coded", [False, True])
def test_products_with_a_matrix_that_is_dequantized_stay(is_coded):
    g = og.Graph()
    codes = g.constant(np.ones((DEPTH, COLUMNS), np.int8 if is_coded else np.float32))
    weights = g.dequantize(codes, scales=[0.5], zps=[0]) if is_coded else codes
    g.output("y", g.matmul(g.input("x", "f32", (1, DEPTH)), weights))
    steps = run_passes(lower(g), Options(), ["vector_products"]).steps
    assert ("vectors" in [step.executor for step in steps]) is not is_coded


def test_products_of_bf16_stay_where_the_cpu_has_bf16():
    # Elsewhere they run in f32, between two casts.
    assert ours(compare(product((1, DEPTH), False, "bf16", 2 * COLUMNS))) == ([] if is_native(og.bf16) else [1])


def test_variables_are_read_in_place_although_they_stay_in_the_cache(monkeypatch):
    monkeypatch.setattr(vector_products, "core_cache", lambda: 1 << 40)
    assert ours(compare(product((1, DEPTH), True))) == []
    assert ours(compare(product((1, DEPTH), True, is_constant=False))) == [1]


def test_products_of_what_stays_in_the_cache_stay(monkeypatch):
    monkeypatch.setattr(vector_products, "core_cache", lambda: 1 << 20)
    assert ours(compare(product((1, DEPTH), False))) == []


def test_reproducible_programs_sum_as_for_more_rows():
    assert ours(product((1, DEPTH), False).compile(reproducible=True)) == []


def test_dequantized_matrices_are_read_as_codes():
    g = og.Graph()
    weights = g.constant(RNG.integers(-128, 128, (1100, 1000)).astype(np.int8))
    x = g.dequantize(g.input("x", "u8", (1, 1100)), scales=[0.5], zps=[0])
    g.output("out", g.matmul(x, g.dequantize(weights, scales=[0.5], zps=[0])))
    model = g.compile()
    assert ours(model) == []
    assert ("packed weights" in model.report().partitions[-1].reason) != has_vnni()  # the library's kernel needs VNNI


def test_an_output_with_strides():
    g = og.Graph()
    y = g.matmul(g.input("x", "f32", (2, DEPTH)), g.constant(drawn(DEPTH, COLUMNS)))
    g.output("out", g.static_transpose(y, order=(1, 0)))
    assert ours(compare(g)) == [1]
