"""Sums of disjoint parts of a tensor become one tensor that is made of the parts, and pairs of transposes nothing."""

import pytest

torch = pytest.importorskip("torch")

from helpers.torch_backend import compiled, left  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import onegraph.torch  # noqa: E402
from onegraph.frontends.torch.folding import without_returns  # noqa: E402
from onegraph.frontends.torch.partitions import without_dead  # noqa: E402
from onegraph.frontends.torch.parts import join_parts  # noqa: E402

aten = torch.ops.aten


def put(part, axis, start, end=None, step=1):
    """Zeros with a part in its place; one index if there is no end."""
    size = [3, 4, 6]
    zeros = part.new_zeros(size)
    if end is None:
        return aten.select_scatter(zeros, part, axis, start)
    return aten.slice_scatter(zeros, part, axis, start, end, step)


def joined(function, *shapes):
    """The names of the ops after the parts are joined, with the results compared."""
    given = [torch.randn(shape) for shape in shapes]
    gm = make_fx(function, tracing_mode="fake")(*given)
    join_parts(gm)
    gm.recompile()
    for found, right in zip(gm(*given), function(*given), strict=True):
        torch.testing.assert_close(found, right)  # the terms are added in another order
    for node in gm.graph.nodes:
        if node.op == "call_function":
            expected = node.target(*torch.fx.node.map_arg(node.args, lambda one: one.meta["val"]), **node.kwargs)
            assert (node.meta["val"].shape, node.meta["val"].stride()) == (expected.shape, expected.stride())
    return [str(node.target).split(".")[1] for node in gm.graph.nodes if node.op == "call_function"]


ROWS, HALF = (4, 6), (3, 4, 3)


def test_selected_rows_are_stacked():
    names = joined(lambda a, b, c: [put(c, 0, 2) + put(a, 0, 0) + put(b, 0, -2)], ROWS, ROWS, ROWS)
    assert names == ["unsqueeze", "unsqueeze", "unsqueeze", "cat"]


def test_halves_are_joined_beside_other_terms():
    names = joined(
        lambda a, b, c: [c.sin() + (put(a, 2, 3, 2**63 - 1) + (c + put(b, -1, 0, 3)))], HALF, HALF, (3, 4, 6)
    )
    assert names == ["sin", "cat", "add", "add"]


def test_gaps_are_zeros():
    names = joined(lambda a, b: [put(b, 2, 4, 5) + put(a, 2, 1, 3)], (3, 4, 2), (3, 4, 1))
    assert names == ["new_zeros", "new_zeros", "new_zeros", "cat"]


def test_a_sum_that_counts_twice_is_joined_once():
    names = joined(lambda a, b: [(one := put(a, 2, 0, 3) + put(b, 2, 3, 6)) + one], HALF, HALF)
    assert names == ["cat", "add"]


def test_each_axis_is_joined():
    names = joined(lambda a, b: [put(a, 0, 0) + put(b, 2, 0, 3) + put(a, 0, 2) + put(b, 2, 3, 6)], ROWS, HALF)
    assert names == ["unsqueeze", "unsqueeze", "new_zeros", "cat", "cat", "add"]


@pytest.mark.parametrize(
    "function",
    [
        lambda a: [put(a, 2, 0, 3) + put(a, 2, 2, 5)],  # they overlap
        lambda a: [put(a, 2, 0, 6, 2) + put(a, 2, 1, 6, 2)],  # steps
        lambda a: [put(a, 2, 0, 3) + 2.0 * put(a, 2, 3, 6)],  # only one is a term
        lambda a: [torch.add(put(a, 2, 0, 3), put(a, 2, 3, 6), alpha=2)],
        lambda a: [aten.slice_scatter(torch.ones_like(torch.cat([a, a], 2)), a, 2, 0, 3) + put(a, 2, 3, 6)],
        lambda a: [(one := put(a, 2, 0, 3)) + put(a, 2, 3, 6), one],  # the part is a result
        lambda a: [((one := put(a, 2, 0, 3)) + one) + put(a, 2, 3, 6)],  # a part counts twice
    ],
)
def test_other_sums_stay(function):
    names = joined(function, HALF)
    assert names.count("slice_scatter") == 2
    assert "add" in names


@pytest.mark.library
@pytest.mark.filterwarnings("ignore")
def test_gradients_of_queries_keys_and_values():
    torch._dynamo.reset()
    onegraph.torch.reset()
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(2, 5, 8, requires_grad=True)
    (right,) = torch.autograd.grad(module(x, x, x)[0].square().sum(), x)
    (found,) = torch.autograd.grad(compiled(module)(x, x, x)[0].square().sum(), x)
    torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-5)
    assert not left()


@pytest.mark.library
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", [(0, 2), (1, 2), (2, 3), (1, 6), (0, 4), (3, 2)])
def test_one_element_of_every_few_is_replaced(place):
    start, step = place
    torch._dynamo.reset()
    onegraph.torch.reset()
    x, part = torch.randn(8, 6, 128), torch.randn(8, 6, 128)[:, start::step]

    def function(x, part):
        return (x + 1).slice_scatter(part * 2, 1, start, 6, step) @ torch.ones(128, 8)

    with torch.no_grad():
        torch.testing.assert_close(compiled(function)(x, part), function(x, part))
    assert ("slice_scatter" in left()) == (6 % step > 0 or start >= step)


def chosen(x):
    """A mixture of experts: rows in the order of their experts, and the products of each group."""
    shares, places = torch.topk(x[:, :8].softmax(-1), 2)
    experts, order = places.flatten().sort()
    ends = torch.histc(experts.float(), 8, 0, 7).cumsum(0, dtype=torch.int32)
    made = torch.nn.functional.grouped_mm(x[order // 2].bfloat16(), MATRICES, offs=ends).float()
    return torch.zeros_like(made).index_put((order,), made * shares.flatten()[order, None]).view(-1, 2, 16).sum(1)


def found_places(x):
    return (x @ x.T).gather(1, (x @ x.T).topk(2)[1]).tanh() @ torch.ones(2, 3)


def given_places(x):
    return (x @ x.T).gather(1, PLACES).tanh() @ torch.ones(2, 3)


def many_places(x):
    return (x @ x.T)[:, MANY_PLACES].tanh() @ torch.ones(2000, 3)


MATRICES, PLACES, MANY_PLACES = torch.randn(8, 16, 16).bfloat16(), torch.tensor([[0, 2]] * 6), torch.arange(2000) % 6


@pytest.mark.library
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("function", "wanted"),
    [(chosen, set()), (found_places, set()), (given_places, {"gather"}), (many_places, {"index"})],
)
def test_few_selected_elements_stay_in_a_part(function, wanted):
    torch._dynamo.reset()
    onegraph.torch.reset()
    x = torch.randn(6, 16)
    with torch.no_grad():
        torch.testing.assert_close(
            torch.compile(lambda x: function(x), backend="onegraph")(x), function(x), rtol=1e-2, atol=1e-2
        )
    assert left() == wanted


@pytest.mark.library
@pytest.mark.filterwarnings("ignore")
def test_gradients_of_merged_patches():
    torch._dynamo.reset()
    onegraph.torch.reset()
    layer = torch.nn.Linear(16, 8)

    def merged(x):
        x = torch.relu(x)
        return layer(torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1))

    x = torch.randn(2, 6, 8, 4, requires_grad=True)
    (right,) = torch.autograd.grad(merged(x).square().sum(), x)
    (found,) = torch.autograd.grad(compiled(merged)(x).square().sum(), x)
    torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-5)
    assert not left()


@pytest.mark.library
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("strides", [(8, 4, 1, 1), (4, 1, 1, 20), (1, 8, 1, 2)])
def test_elements_that_share_memory_are_copied(strides):
    size, shape = 64, (3, 1, 6, 2)

    class Windows(torch.nn.Module):
        def forward(self, x):
            windows = x.as_strided(shape, strides)  # as attention of Longformer: PyTorch makes them
            return (windows * windows).sum(-1)

    torch._dynamo.reset()
    with torch.no_grad():
        x = torch.randn(size)
        found = torch.compile(Windows(), backend=onegraph.torch.backend)(x)
    torch.testing.assert_close(found, Windows()(x))


def test_comparisons_run_in_the_parts_around_them():
    torch._dynamo.reset()
    onegraph.torch.reset()
    module = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.LeakyReLU(), torch.nn.Linear(32, 4))
    x, gradients = torch.randn(8, 16), []
    for function in (module, torch.compile(module, backend="onegraph")):
        module.zero_grad()
        function(x).square().mean().backward()
        gradients.append([one.grad.clone() for one in module.parameters()])
    torch.testing.assert_close(gradients[1], gradients[0])
    assert "aten.gt" not in str(onegraph.torch.stats())


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: (x.t().t() * 2,), ["mul"]),
        (lambda x: (x[None].permute(1, 2, 0).permute(2, 0, 1) * 2,), ["unsqueeze", "mul"]),
        (lambda x: (x[None].permute(1, 2, 0).permute(1, 2, 0) * 2,), ["unsqueeze", "permute", "permute", "mul"]),
        (lambda x: (x[None].transpose(-1, 1).transpose(2, 1) * 2,), ["unsqueeze", "mul"]),
        (lambda x: (x[None].transpose(0, 1).transpose(2, 1) * 2,), ["unsqueeze", "transpose", "transpose", "mul"]),
        (lambda x: ((x * 2).t().t(),), ["mul"]),
        (lambda x: (x.t().t(),), ["t", "t"]),
        (lambda x: ((y := x * 2), y.t().t()), ["mul", "t", "t"]),
    ],
    ids=["t", "permute", "permutes", "transpose", "transposes", "result", "input", "twice"],
)
def test_transposes_that_undo_each_other_are_left_out(function, expected):
    x = torch.randn(3, 4)
    gm = make_fx(function, tracing_mode="fake")(x)
    without_returns(gm)
    without_dead(gm.graph)
    gm.recompile()
    for found, right in zip(gm(x), function(x), strict=True):
        assert torch.equal(found, right)
        assert found.stride() == right.stride()
    assert [str(node.target).split(".")[1] for node in gm.graph.nodes if node.op == "call_function"] == expected
