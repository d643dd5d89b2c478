"""Results of compiled functions belong to the caller, and share memory as those of PyTorch do."""

import pytest

torch = pytest.importorskip("torch")

from helpers.torch_backend import compiled  # noqa: E402

pytestmark = [pytest.mark.library, pytest.mark.filterwarnings("ignore")]
linear, convolution = torch.nn.Linear(4, 4), torch.nn.Conv2d(1, 3, 2)


def body(x):
    return (x * 2).relu() + 1


def view_beside_its_base(x):
    y = body(x)
    return y, y.view(-1), (y.view(-1) * 3).sigmoid()


def view_that_is_read(x):
    y = body(x).view(-1)
    return y, (y * 3).sigmoid() + 1


def views_of_views(x):
    y = body(x)
    return y[0], y.t()[1:], y.t().exp() + 1, y.t()


def pieces(x):
    y = body(x)
    first, second = y.split(2, 1)
    return first, second, (first * 2).relu() + 1, *y.unbind(0)


def expanded(x):
    y = body(x)
    return y.expand(3, 4, 4), y.expand(3, 4, 4) * 2 + 1, y


def inputs(x):
    return x, x.view(-1), x.t(), (x.t() * 2).relu() + 1


def detached(x):
    y = linear(x)
    number, log = y.square().mean(), y.detach()
    return number, y, log.squeeze(0), log, log[0], log.mT, (log * 2).relu()


def constants(x):
    return torch.zeros(2, 3), torch.zeros(2, 3), x * 2 + 1, torch.arange(3), torch.tensor([1.0, 2.0])


def views_of_a_constant(x):
    zeros = torch.zeros(4, 4)
    return zeros, zeros.view(-1), (x + zeros).relu() + 1, zeros.expand(2, 4, 4), zeros + 1


def weights(x):
    return linear.weight, linear.weight.t(), linear.weight.clone(), x + linear.weight.sum(), linear.weight * 2


def one_result_twice(x):
    y = body(x)
    return y, y, y.contiguous(), y.reshape(4, 4), y.to(torch.float32)


def flattened_pictures(x):
    y = convolution(x[None, None]).relu()
    return y, y.flatten(1), y.flatten(1) * 2 + 1


FUNCTIONS = [
    *(view_beside_its_base, view_that_is_read, views_of_views, pieces, expanded, inputs, detached, constants),
    *(views_of_a_constant, weights, one_result_twice, flattened_pictures),
]
MODES = {"no_grad": torch.no_grad, "inference": torch.inference_mode, "grad": torch.enable_grad}


def shared(results, x):
    """For each result: the results before it, the weights and the input that lie in the same memory."""
    memory = [one.untyped_storage().data_ptr() for one in (x, linear.weight, *results)]
    return [
        [place for place, other in enumerate(memory[:at]) if other == memory[at]] for at in range(2, len(results) + 2)
    ]


def written(one):
    """What becomes of a write to a result: its sum, or the class of the error."""
    try:
        with torch.no_grad():
            return float(one.add_(1).double().sum())
    except RuntimeError as error:
        return type(error)


def told(function, backend, mode, dynamic):
    """All that a caller sees of two calls, with writes to the results of the first one."""
    torch._dynamo.reset()
    x = torch.arange(16.0).view(4, 4) / 16
    with MODES[mode]():
        model = torch.compile(function, backend=backend, dynamic=dynamic)
        results = model(x)
        kinds = [(one.shape, one.stride(), one.requires_grad, one.is_leaf, one.dtype) for one in results]
        memory = shared(results, x)
        own = [one for one, places in zip(results, memory, strict=True) if not {0, 1} & {*places}]
        values = [one.detach().clone() for one in results]
        writes = [written(one) for one in own]
        again = [one.detach().clone() for one in model(x)]
    return kinds, memory, writes, [*values, *again]


@pytest.mark.parametrize(("mode", "dynamic"), [("no_grad", False), ("inference", True), ("grad", False)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_results_are_those_of_pytorch(function, mode, dynamic):
    from onegraph.torch import backend

    *found, values = told(function, backend, mode, dynamic)
    *expected, right = told(function, "aot_eager", mode, dynamic)
    assert found[:2] == expected[:2]
    for one, other in zip(found[2], expected[2], strict=True):
        assert one == other or one == pytest.approx(other, rel=1e-5)
    for one, other in zip(values, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_gradients_that_are_constant_are_new_in_each_step():
    x = torch.ones(3, 4, requires_grad=True)
    model = compiled(lambda x: (x + 1).sum())
    for _ in range(3):
        x.grad = None
        model(x).backward()
        assert torch.equal(x.grad, torch.ones(3, 4))
        x.grad.add_(5)


def test_the_sum_of_an_embedding_and_a_constant_starts_anew():
    table = torch.nn.Parameter(torch.zeros(5, 3))

    def function(places):
        return torch.nn.functional.embedding(places, table).sum() + (table * 0 + 1).sum() + table.sum()

    places = torch.tensor([1, 1, 2])
    for _ in range(3):
        table.grad = None
        compiled(function)(places).backward()
        assert torch.equal(table.grad[:, 0], torch.tensor([1.0, 3, 2, 1, 1]))


def test_results_stay_while_the_next_calls_run():
    model = compiled(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 8)).eval())
    kept = []
    with torch.no_grad():
        for _ in range(20):
            result = model(torch.randn(4, 8))
            kept.append((result, result.clone()))
    assert all(torch.equal(*pair) for pair in kept)
