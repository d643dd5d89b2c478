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


def other_views(x):
    y = body(x)
    return y, y.unfold(0, 1, 1), y.as_strided((4, 4), (4, 1)), y.diagonal(), (y.unfold(0, 2, 1) * 2).relu() + 1


FUNCTIONS = [
    other_views,
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


def rows(*shape):
    return torch.randn(shape)


def turned(*shape):
    """Axes in the opposite order in memory."""
    return torch.randn(shape[::-1]).permute(*range(len(shape))[::-1])


def last(*shape):
    """The channels last in memory."""
    return torch.randn(shape[0], *shape[2:], shape[1]).movedim(-1, 1)


F = torch.nn.functional
# A function, and what it reads.
LAID_OUT = {
    "convolution of a sequence": (F.conv1d, last(2, 3, 4), rows(2, 3, 2)),
    "sequence of one channel": (F.conv1d, rows(2, 4, 1).mT, rows(3, 1, 2)),
    "weights of a sequence": (F.conv1d, rows(2, 3, 4), last(2, 3, 2)),
    "convolution of pictures": (F.conv2d, last(2, 3, 4, 5), rows(2, 3, 2, 2)),
    "small 3D kernels": (F.conv3d, last(2, 3, 4, 4, 4), rows(2, 3, 1, 1, 1)),
    "transposed 3D convolution": (F.conv_transpose3d, last(2, 3, 4, 4, 4), rows(3, 2, 2, 2, 2)),
    "rows that are picked": (
        lambda x, w: F.conv2d(x[torch.tensor([0])], w, None, 1, 1, 2, 8),
        turned(1, 8, 1, 2).bfloat16(),
        rows(8, 1, 1, 1).bfloat16(),
    ),
    "axes of one element": (lambda x: F.adaptive_avg_pool2d(x / x, 2), last(8, 5, 1, 1)),
    "batch normalization": (lambda x: F.batch_norm(x, None, None, training=True), turned(5, 2, 1, 1, 4)),
    "logarithm of a sigmoid": (lambda x: torch.full_like(F.logsigmoid(x), 1), turned(4, 3)),
    "number for each element": (
        lambda x, w: F.conv_transpose2d(torch.full_like(x, 0), w),
        *(turned(1, 5, 4, 1), rows(5, 4, 1, 1)),
    ),
    "number beside a tensor": (lambda x: F.conv2d(x.remainder(2.0), torch.ones(3, 5, 1, 1)), turned(1, 5, 4, 1)),
    "sign": (lambda x: torch.copysign(x, -1.0), turned(4, 3)),
    "filled places": (lambda x, y: x.masked_fill(y, 0.5), rows(3, 1), turned(3, 3) > 0),
    "filled with a tensor": (lambda x, y: x.masked_fill(y, torch.tensor(0.5)), rows(3, 1), turned(3, 3) > 0),
    "scaled rows": (lambda x: torch.renorm(x, 2, 0, 1.0), turned(3, 4)),
    "types of empty tensors": (lambda x, y: torch.cat([x, y[:, 3:]], 1) * 1.5, rows(2, 3).half(), rows(2, 3)),
    "floor of a quotient": (lambda x, y: x // y - 1.5, rows(3, 3) > 0, turned(3, 3)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", LAID_OUT)
def test_strides_are_those_of_eager(name, dynamic):
    function, *given = LAID_OUT[name]
    torch._dynamo.reset()
    options = {"smallest": 1}
    with torch.no_grad():
        found = torch.compile(function, backend="onegraph", dynamic=dynamic, options=options)(*given)
        expected = function(*given)
    steps = [[step for step, dim in zip(one.stride(), one.shape, strict=True) if dim > 1] for one in (found, expected)]
    assert steps[0] == steps[1]
    torch.testing.assert_close(found, expected, rtol=2e-2 if found.dtype is torch.bfloat16 else 1e-4, atol=1e-4)


LOSSES = [
    *(F.huber_loss, F.smooth_l1_loss, F.mse_loss, F.l1_loss, F.binary_cross_entropy_with_logits),
    F.soft_margin_loss,
]


@pytest.mark.parametrize("is_narrow", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_losses_of_two_data_types_are_those_of_eager(loss, is_narrow):
    given = torch.linspace(-2, 3, 12).view(3, 4), torch.linspace(0, 1, 12).view(3, 4)
    first, second = (one.bfloat16() if place != is_narrow else one for place, one in enumerate(given))
    results = []
    for function in (loss, compiled(lambda x, y: loss(x, y))):
        x = first.clone().requires_grad_()
        result = function(x, second)
        seen = [result.detach()]
        if loss is not F.huber_loss:  # eager refuses its gradient for two data types
            result.backward()
            seen.append(x.grad)
        results.append(seen)
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=2e-2, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int8, torch.bfloat16], ids=str)
def test_dropping_everything_draws_no_random_numbers(dtype):
    after = []
    for backend in ("eager", "onegraph"):
        torch._dynamo.reset()
        torch.manual_seed(1)
        result = torch.compile(lambda x: F.dropout(x, 1.0), backend=backend)(torch.ones(3, 4).to(dtype))
        after.append((result.dtype, result.sum().item(), torch.rand(2).tolist()))
    assert after[0] == after[1]


def test_moved_elements_of_channels_last_lie_as_eager_puts_them():
    images = torch.randn(1, 4, 6, 6).to(memory_format=torch.channels_last)
    module = torch.nn.Conv2d(4, 4, 3, padding=1)
    with torch.no_grad():
        for axes in ((1, -1), ((1, 2), (0, 2)), (3,)):
            result = torch.compile(lambda x, axes=axes: module(x).roll(*axes), backend="onegraph")(images)
            expected = module(images).roll(*axes)
            torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
            assert result.stride() == expected.stride()
