"""Gradients of tensors whose open dims a call broadcasts, of repeated intermediates, and of random programs."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from helpers.gradient_programs import differences, program  # noqa: E402

import onegraph as og  # noqa: E402

pytestmark = pytest.mark.library
RNG = np.random.default_rng(0)


def positive(*shape):
    return RNG.uniform(0.5, 1.5, shape).astype(np.float32)


# Each op that broadcasts: ours, PyTorch's, the declared shapes, and the shapes of calls.
BROADCASTS = {
    "add": (lambda g, x, y: g.add(x, y), lambda x, y: x + y),
    "subtract": (lambda g, x, y: g.subtract(x, y), lambda x, y: x - y),
    "multiply": (lambda g, x, y: g.multiply(x, y), lambda x, y: x * y),
    "divide": (lambda g, x, y: g.divide(x, y), lambda x, y: x / y),
    "maximum": (lambda g, x, y: g.maximum(x, y), torch.maximum),
    "minimum": (lambda g, x, y: g.minimum(x, y), torch.minimum),
    "squared difference": (lambda g, x, y: g.squared_difference(x, y), lambda x, y: (x - y) ** 2),
    "select": (
        lambda g, x, y: g.select(g.greater_equal(x, y), g.square(x), g.square(y)),
        lambda x, y: torch.where(x >= y, x * x, y * y),
    ),
    "power": (lambda g, x, y: x**y, lambda x, y: x**y),
    "host power": (lambda g, x, y: g.op("Pow", [x, y], edition="host"), lambda x, y: x**y),
    "host where": (
        lambda g, x, y: g.op("Where", [g.greater_equal(x, y), x, y], edition="host"),
        lambda x, y: torch.where(x >= y, x, y),
    ),
}
SHAPES = [
    ((None, 4), (3, 4), [((1, 4), (3, 4)), ((3, 4), (3, 4))]),
    ((None, 4), (None, 4), [((1, 4), (3, 4)), ((3, 4), (1, 4)), ((3, 4), (3, 4)), ((1, 4), (1, 4))]),
    ((None, None), (2, 3, None), [((1, 4), (2, 3, 1)), ((3, 1), (2, 3, 4))]),
    ((None,), (None, 1), [((4,), (3, 1)), ((1,), (3, 1))]),
]


def agree(build, theirs, shapes, calls):
    """Compare a graph with two inputs of open dims with PyTorch in float64, compiled and in the reference."""
    g = og.Graph()
    tensors = [g.input(name, og.f32, shape) for name, shape in zip("xy", shapes, strict=True)]
    result = build(g, *tensors)
    for name, one in zip(("dx", "dy"), g.gradient(result, tensors), strict=True):
        g.output(name, one)
    model = g.compile()
    for call in calls:
        arrays = [positive(*shape) for shape in call]
        leaves = [torch.from_numpy(array).double().requires_grad_() for array in arrays]
        wanted = torch.autograd.grad(theirs(*leaves).sum(), leaves)
        inputs = dict(zip("xy", arrays, strict=True))
        known = g.specialise(dict(zip("xy", call, strict=True))).compile()
        for found in (model(*arrays), og.reference.run(g, inputs).values(), known(*arrays)):
            for ours, want in zip(found, wanted, strict=True):
                assert ours.shape == want.shape
                np.testing.assert_allclose(ours, want, rtol=1e-4, atol=1e-4)
    return g, model


@pytest.mark.parametrize("shapes", SHAPES, ids=lambda one: f"{one[0]} {one[1]}")
@pytest.mark.parametrize("name", BROADCASTS)
def test_broadcast_along_open_dims_is_summed(name, shapes):
    agree(*BROADCASTS[name], shapes[:2], shapes[2])


@pytest.mark.parametrize(
    ("shapes", "calls"),
    [
        (((None, 3, 4), (5, 4, 2)), [((1, 3, 4), (5, 4, 2)), ((5, 3, 4), (5, 4, 2))]),
        (((None, 3, 4), (None, 4, 2)), [((1, 3, 4), (5, 4, 2)), ((5, 3, 4), (1, 4, 2))]),
        (((None, None, 4), (None, 4, 2)), [((1, 3, 4), (5, 4, 2)), ((5, 1, 4), (1, 4, 2))]),
        (((None, 4), (4, 2)), [((1, 4), (4, 2)), ((3, 4), (4, 2))]),
        (((4,), (None, 4, 2)), [((4,), (1, 4, 2)), ((4,), (3, 4, 2))]),
    ],
)
def test_products_of_open_batches_are_summed(shapes, calls):
    agree(lambda g, x, y: g.matmul(x, y), lambda x, y: x @ y, shapes, calls)


def test_an_expanded_open_dim_is_summed():
    def build(g, x, y):
        shape = g.op("Shape", [y], edition="host")
        return g.multiply(g.op("Expand", [x, shape], edition="host"), y)

    agree(build, lambda x, y: x.expand_as(y) * y, ((None, 4), (None, 4)), [((1, 4), (3, 4)), ((3, 4), (3, 4))])


def test_a_slope_of_open_dims_is_summed():
    def build(g, x, y):
        return g.prelu(x - 1.0, y, data_format="NXC")

    shapes = ((None, 4), (4,))
    agree(build, lambda x, y: torch.where(x > 1, x - 1, (x - 1) * y), shapes, [((1, 4), (4,)), ((3, 4), (4,))])


def test_sums_vanish_where_nothing_was_repeated():
    g, model = agree(*BROADCASTS["multiply"], ((None, 4), (None, 4)), [((3, 4), (3, 4))])
    assert "SumTo" in [op.kind for op in g.ops]
    model(positive(3, 4), positive(3, 4))
    assert {kind for part in model.report().partitions for kind in part.kinds} <= {"Multiply", "StaticReshape"}


def test_ops_that_cannot_repeat_get_no_sum():
    g = og.Graph()
    x, w = g.input("x", og.f32, (None, 4)), g.input("w", og.f32, (4, 2))
    y = g.softmax(g.relu(g.add(g.matmul(x, w), g.input("b", og.f32, (2,)))), axis=-1)
    g.gradient(g.reduce_mean(y, axes=[0, 1]), [x, w, "b"])
    assert "SumTo" not in [op.kind for op in g.ops]


# Second derivatives by repeated intermediates -------------------------------------------------------------------------


def chain(keep, again):
    """A chain with two gradients, of which the first keeps the intermediates ``keep``, the second ``again``."""
    g = og.Graph()
    x = g.input("x", og.f32, (3,))
    a = g.square(x, name="a")
    b = g.tanh(a, name="b")
    y = g.multiply(b, a, name="y")
    named = {"a": a, "b": b, "y": y}
    kept = [None if one is None else [named[name] for name in one] for one in (keep, again)]
    (first,) = g.gradient(y, a, checkpoint=kept[0])
    (second,) = g.gradient(first, a, checkpoint=kept[1])
    (third,) = g.gradient(second, a)
    for name, one in (("d", first), ("e", second), ("f", third)):
        g.output(name, one)
    return g


@pytest.mark.parametrize("again", [None, ["y"], ["a"]])
@pytest.mark.parametrize("keep", [None, ["y"], ["b"], ["a"]])
def test_derivatives_by_repeated_intermediates(keep, again, tmp_path):
    x = np.float32([0.3, 0.5, 1])
    a = torch.from_numpy(x.astype(np.float64) ** 2).requires_grad_()
    wanted, one = [], torch.tanh(a) * a
    for _ in range(3):
        (one,) = torch.autograd.grad(one.sum(), a, create_graph=True)
        wanted.append(one.detach().numpy())
    g = chain(keep, again)
    g.save(tmp_path / "g.json")
    for graph in (g, g.copy(), og.Graph.load(tmp_path / "g.json")):
        for found, want in zip(graph.compile()(x), wanted, strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


def test_repeated_ops_of_a_read_graph_are_known(tmp_path):
    chain(["y"], None).save(tmp_path / "g.json")
    read = og.Graph.load(tmp_path / "g.json")
    makers = {op.name: op for op in read.ops}
    (found,) = read.gradient("d", makers["a"].outputs[0])
    read.output("again", found)
    result = read.compile()(np.float32([0.3, 0.5, 1]))
    np.testing.assert_allclose(result.again, result.e, rtol=1e-5)


def test_equal_ops_of_the_user_are_no_repetitions():
    g = og.Graph()
    x = g.input("x", og.f32, (3,))
    a, other = g.square(x, name="a"), g.square(x, name="b")
    (found,) = g.gradient(g.multiply(a, other), a)
    g.output("d", found)
    np.testing.assert_allclose(g.compile()(np.float32([1, 2, 3])), [1, 4, 9])


@pytest.mark.parametrize("seed", range(24))
def test_random_programs_agree_with_pytorch(seed):
    assert differences(program(seed)) == []
