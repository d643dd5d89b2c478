"""A MatMul with few rows and variable weights runs on four axes: the numbers, and when it happens."""

import numpy as np
import pytest

import onegraph as og
from onegraph.capi.settings import has_avx512
from onegraph.compiler.lifting import lifted_rank
from onegraph.compiler.lower import lower
from onegraph.native.library import VERSION

# The fusions and kernels of the library are compared.
pytestmark = pytest.mark.usefixtures("finite_math")

RNG = np.random.default_rng(0)
OLD = VERSION < (3, 3)


def values(*shape):
    return RNG.integers(-4, 5, shape).astype(np.float32)


def product(rows, *, weights_are_constant=False, transpose_b=True, behind=()):
    g = og.Graph()
    w = values(7, 5) if transpose_b else values(5, 7)
    x, bias = g.input("x", "f32", (rows, 5)), g.input("bias", "f32", (7,))
    given = g.constant(w) if weights_are_constant else g.input("w", "f32", w.shape)
    y = g.matmul(x, given, bias, transpose_b=transpose_b)
    for kind in behind:
        y = getattr(g, kind)(y, *([g.input("other", "f32", (rows, 7))] if kind == "add" else []))
    g.output("y", y)
    return g, w


@pytest.mark.parametrize("behind", [(), ("relu",), ("add",), ("add", "relu")])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("transpose_b", [True, False])
def test_lifted_product_is_exact(rows, behind, transpose_b):
    g, w = product(rows, behind=behind, transpose_b=transpose_b)
    given = {name: values(*tensor.shape) for name, tensor in g.inputs.items()} | {"w": w}
    expected = given["x"] @ (w.T if transpose_b else w) + given["bias"] + given.get("other", 0)
    if "relu" in behind:
        expected = np.maximum(expected, 0)
    model = g.compile()
    np.testing.assert_array_equal(model(**given), expected)
    (part,) = model.report().partitions
    assert ("on four axes" in part.reason) == (OLD and (transpose_b or has_avx512()))


@pytest.mark.parametrize("other", [(), (7,), (1, 7), (6, 7), (1, 6, 7), (3, 6, 7), (3, 6, 1), (3, 1, 1)])
@pytest.mark.parametrize("batches", [(3, 3), (3, 1), (1, 3)])
@pytest.mark.parametrize("transpose_b", [True, False])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_lifted_products_of_a_batch_are_exact(transpose_b, batches, other, dtype):
    kind, (first, second) = og.DataType(dtype).numpy, batches
    x, w = values(first, 6, 5), values(second, *((7, 5) if transpose_b else (5, 7)))
    given = {"x": x.astype(kind), "w": w.astype(kind), "other": values(*other).astype(kind)}
    g = og.Graph()
    ends = {name: g.input(name, dtype, array.shape) for name, array in given.items()}
    g.output("y", g.relu(g.add(g.matmul(ends["x"], ends["w"], transpose_b=transpose_b), ends["other"])))
    model = g.compile()
    expected = np.maximum(x @ (w.swapaxes(1, 2) if transpose_b else w) + given["other"].astype(np.float32), 0)
    np.testing.assert_array_equal(model(**given).astype(np.float32), expected)
    lowered = lower(g)
    products = [step for step in lowered.steps if step.kind == "MatMul"]
    rank = lifted_rank(products, lowered.values)
    assert rank == 3 * (OLD and (transpose_b or has_avx512()))


@pytest.mark.parametrize(
    ("rows", "options", "expected"),
    [
        (512, {}, True),
        (513, {}, False),
        (3, {"weights_are_constant": True}, False),
        (256, {"transpose_b": False}, has_avx512()),
        (257, {"transpose_b": False}, False),
        (3, {"behind": ("relu",)}, True),
        (3, {"behind": ("softmax",)}, False),
    ],
)
def test_few_rows_of_variable_weights_are_lifted(rows, options, expected):
    g, _ = product(rows, **options)
    lowered = lower(g)
    assert lifted_rank(lowered.steps, lowered.values) == 2 * (expected and OLD)


@pytest.mark.parametrize(
    ("columns", "dtype", "expected"), [(256, "f32", True), (257, "f32", False), (256, "bf16", False)]
)
def test_constant_batches_with_short_rows_are_read_where_they_lie(columns, dtype, expected):
    kind = og.DataType(dtype).numpy
    x, w = values(3, 20, 5), values(3, 5, columns)
    g = og.Graph()
    g.output("y", g.matmul(g.input("x", dtype, x.shape), g.constant(w.astype(kind))))
    lowered = lower(g)
    assert lifted_rank(lowered.steps, lowered.values) == 3 * (expected and OLD and has_avx512())
    np.testing.assert_array_equal(g.compile()(x.astype(kind)).astype(np.float32), (x @ w).astype(kind))


def test_layers_of_equal_form_share_a_lifted_partition():
    g = og.Graph()
    x, matrices = g.input("x", "f32", (2, 6)), [values(6, 6) for _ in range(3)]
    y = x
    for number, matrix in enumerate(matrices):
        y = g.matmul(y, g.input(f"w{number}", "f32", matrix.shape), transpose_b=True)
    g.output("y", y)
    given = values(2, 6)
    found = g.compile()(given, *matrices)
    np.testing.assert_array_equal(found, given @ matrices[0].T @ matrices[1].T @ matrices[2].T)


@pytest.mark.parametrize("count", [1, 3])
def test_weights_with_gaps_between_rows_are_copied_once_for_several_products(count):
    g, w = og.Graph(), values(32, 25)
    weights = g.input("w", "f32", (32, 24), strides=(25, 1))
    xs = [g.input(f"x{at}", "f32", (8, 32)) for at in range(count)]
    for at, x in enumerate(xs):
        g.output(f"y{at}", g.matmul(x, weights))
    given = {x.name: values(8, 32) for x in xs}
    model = g.compile()
    found = model(w=w[:, :24], **given)
    for one, x in zip(found if count > 1 else [found], given.values(), strict=True):
        np.testing.assert_array_equal(one, x @ w[:, :24])
    copies = [part for part in model.report().partitions if part.ops[0].startswith("copy of")]
    assert len(copies) == (count > 1)
