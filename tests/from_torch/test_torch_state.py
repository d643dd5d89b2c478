"""Compiled modules over time: modes, copies, threads, other devices and other layouts of tensors."""

import copy
import io
import logging
import pickle
import threading
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from helpers.torch_backend import compiled, left  # noqa: E402

import onegraph.torch  # noqa: E402

pytestmark = [pytest.mark.library, pytest.mark.filterwarnings("ignore")]
nn = torch.nn


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    onegraph.torch.reset()
    torch.manual_seed(0)


def small():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))


X = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(2))


def test_modes_of_a_module_are_guarded():
    module = small()
    other, model = copy.deepcopy(module), compiled(module)
    for mode in (False, True, False):
        module.train(mode)
        other.train(mode)
        with torch.no_grad():
            torch.testing.assert_close(model(X), other(X), rtol=1e-4, atol=1e-5)


def test_inference_sees_the_steps_of_an_optimizer():
    module = small().eval()
    model, optimizer = compiled(module), torch.optim.SGD(module.parameters(), lr=1e-3)
    for _ in range(6):
        model(X).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            torch.testing.assert_close(model(X), module(X), rtol=1e-4, atol=1e-4)


class Counting(nn.Module):
    """Counts calls in a buffer, and scales by what follows from its number before and behind a count."""

    def __init__(self, read):
        super().__init__()
        self.read = read
        self.register_buffer("steps", torch.ones(6, 6))

    def forward(self, source):
        scale = self.read(self.steps).exp()
        self.steps += 0.1
        return source * scale * (1 + self.read(self.steps))


@pytest.mark.parametrize("read", [lambda steps: steps, lambda steps: steps.t()[:1]], ids=["whole", "a view"])
def test_gradients_read_buffers_that_forward_changes(read):
    module = Counting(read)
    other, model = copy.deepcopy(module), torch.compile(module, backend="onegraph")
    for _ in range(2):
        x, y = torch.ones(6, 6, requires_grad=True), torch.ones(6, 6, requires_grad=True)
        model(x).sum().backward()
        other(y).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
        torch.testing.assert_close(module.steps, other.steps)


def test_a_copy_has_parameters_of_its_own():
    model = compiled(small().eval())
    with torch.no_grad():
        before = model(X)
        other = copy.deepcopy(model)
        for one in other.parameters():
            one.mul_(0.5)
        torch.testing.assert_close(model(X), before)
        torch.testing.assert_close(other(X), other._orig_mod(X))


def test_saved_weights_and_modules():
    model = torch.compile(small().eval(), backend="onegraph")
    with torch.no_grad():
        before = model(X)
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        other = torch.compile(small().eval(), backend="onegraph")
        other.load_state_dict(torch.load(file))
        torch.testing.assert_close(other(X), before)
        again = pickle.loads(pickle.dumps(model))
        torch.testing.assert_close(again(X), before, rtol=1e-4, atol=1e-5)


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = small()

    def forward(self, x):
        return self.inner(x)


def test_a_module_compiled_in_place():
    module = Wrapped().eval()
    with torch.no_grad():
        before = module(X)
        module.compile(backend="onegraph")
        torch.testing.assert_close(module(X), before, rtol=1e-4, atol=1e-5)
    assert onegraph.torch.stats().taken > 0


@pytest.mark.parametrize("more", [{"fullgraph": True}, {"dynamic": True}, {"mode": "default"}])
def test_arguments_of_compile(more):
    module = small().eval()
    model = torch.compile(module, backend="onegraph", **more)
    with torch.no_grad():
        torch.testing.assert_close(model(X), module(X), rtol=1e-4, atol=1e-5)


def test_threads_share_a_model():
    module = small().eval()
    model, inputs = compiled(module), [torch.randn(4, 3, 8, 8) for _ in range(4)]
    results = [[] for _ in inputs]

    def run(x, found):
        with torch.no_grad():
            found.extend(model(x) for _ in range(20))

    if torch.__version__.startswith("2.6."):  # while a thread compiles, it refuses the calls of all others
        run(inputs[0], [])
    threads = [threading.Thread(target=run, args=pair) for pair in zip(inputs, results, strict=True)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    with torch.no_grad():
        for x, found in zip(inputs, results, strict=True):
            assert len(found) == 20
            for one in found:
                torch.testing.assert_close(one, module(x), rtol=1e-4, atol=1e-5)


def test_the_number_of_threads_is_that_of_pytorch():
    seen, before = [], torch.get_num_threads()
    original = onegraph.Graph.compile

    def recorded(graph, **options):
        seen.append(options["threads"])
        return original(graph, **options)

    model = compiled(small().eval())
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(onegraph.Graph, "compile", recorded)
        try:
            for count in (1, 2, 1):
                torch.set_num_threads(count)
                model(X)
                assert torch.get_num_threads() == count
        finally:
            torch.set_num_threads(before)
    assert seen == [1, 2]


def test_layouts_of_results():
    model = compiled(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2)).eval())
    x = X.contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        for one in (X, x, x[:, :, ::2], x[1:]):
            found, eager = model(one), model._orig_mod(one)
            torch.testing.assert_close(found, eager, rtol=1e-4, atol=1e-5)
            assert found.stride() == eager.stride()


def test_a_module_on_another_device():
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to("meta").eval()
    with torch.no_grad():
        assert compiled(module)(torch.ones(2, 8, device="meta")).device.type == "meta"
    assert onegraph.torch.stats().taken == 0
    assert all("the device meta" in one.reason for one in onegraph.torch.stats().left)


OTHERS = {
    "sparse_coo": (lambda: torch.eye(4).to_sparse(), lambda x: torch.sparse.mm(x, torch.ones(4, 2))),
    "sparse_csr": (lambda: torch.eye(4).to_sparse_csr(), lambda x: x @ torch.ones(4, 2)),
    "mkldnn": (lambda: torch.ones(2, 3, 4, 4).to_mkldnn(), lambda x: torch.relu(x)),
    "quantized": (
        lambda: torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.quint8),
        lambda x: x.dequantize() * 2,
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds_of_tensors_run_in_pytorch(name):
    make, function = OTHERS[name]
    x = make()
    found, eager = compiled(function)(x), function(x)
    assert found.layout == eager.layout
    torch.testing.assert_close(*[one.to_dense() if one.is_mkldnn else one for one in (found, eager)])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.eye(4).to_sparse(), "sparse"),
        (lambda: torch.eye(4).to_sparse_csr(), "sparse"),
        (lambda: torch.quantize_per_tensor(torch.ones(4, 4), 0.1, 0, torch.quint8), "quantized"),
        (lambda: torch.ones(4, 4, device="meta"), "aten.relu.default: a tensor on the device meta"),
        (lambda: torch.ones(4, 4, dtype=torch.complex64), "aten.mul.Tensor: data type torch.complex64"),
        (lambda: torch.ones(4, 4, dtype=torch.float64), "aten.relu.default: float64 is no data type of the op"),
    ],
)
def test_other_kinds_of_tensors_raise_on_request(make, text):
    def function(x):
        return x * x if x.is_complex() else torch.relu(x)

    x = make()
    strict = torch.compile(function, backend="onegraph", fullgraph=True, options={"fallback": "error"})
    with pytest.raises(Exception, match=text):
        strict(x)
    torch._dynamo.reset()
    assert compiled(function)(x).shape == x.shape


def test_the_log_names_what_is_left(monkeypatch):
    logger, lines = logging.getLogger("onegraph.torch"), []
    monkeypatch.setattr(logger, "isEnabledFor", lambda level: level >= logging.INFO)  # which is remembered by level
    monkeypatch.setattr(logger, "handle", lambda record: lines.append(record.getMessage()))
    compiled(lambda x: torch.linalg.inv(x @ x))(torch.eye(4) + 0.1)
    assert any("PyTorch runs 1 aten.linalg_inv_ex.default" in line for line in lines)
    assert left() == {"linalg_inv_ex", "mm"} or left() == {"linalg_inv_ex"}


def test_a_function_that_is_not_traced_counts_as_a_graph_break():
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.GRU(X.shape[-1], 3)

        def forward(self, x):
            return self.layer(x.tanh())[0]

    network = Network()
    with torch.no_grad():
        compiled(network)(X[:, :, 0])
    told = onegraph.torch.stats()
    assert told.graphs == 0
    assert [*told.breaks.values()] == [1]
    assert "graph breaks: 1\n" in str(told)
    assert "GRU" in str(told)


def test_graph_breaks_count_from_the_last_reset():
    class Broken(torch.nn.Module):
        def forward(self, x):
            x = x * 2
            torch._dynamo.graph_break()
            return x + 1

    with torch.no_grad():
        assert torch.equal(compiled(Broken())(X), X * 2 + 1)
    told = onegraph.torch.stats()
    assert (told.graphs, sum(told.breaks.values())) == (2, 1)
    assert "graph breaks: 1\n" in str(told)
    onegraph.torch.reset()
    assert onegraph.torch.stats().breaks == {}
    torch._dynamo.reset()
    with torch.no_grad():
        compiled(Broken())(X)
    assert sum(onegraph.torch.stats().breaks.values()) == 1
    torch._dynamo.utils.counters.clear()
    assert onegraph.torch.stats().breaks == {}


def test_a_tensor_that_goes_as_the_interpreter_ends_is_forgotten(monkeypatch):
    """The names of a module are None by then."""
    from onegraph.frontends.torch import programs

    owner = SimpleNamespace(programs={(1,): SimpleNamespace(calls=3)}, in_vain=0)
    monkeypatch.setattr(programs, "PAID", None)
    programs.Programs._forget(owner, (1,))
    assert (owner.programs, owner.in_vain) == ({}, 1)
