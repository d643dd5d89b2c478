"""onegraph.torch.verify notices what a backend gets wrong, and passes what is right."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as functional  # noqa: E402

import onegraph as og  # noqa: E402
import onegraph.torch  # noqa: E402
from onegraph.frontends.torch.judge import verification  # noqa: E402
from onegraph.frontends.torch.judge.calls import Subject  # noqa: E402
from onegraph.frontends.torch.judge.state import WRITES  # noqa: E402
from onegraph.judging.contents import GIVEN, KINDS  # noqa: E402

pytestmark = pytest.mark.library


@pytest.fixture
def compiled_as(monkeypatch):
    """Let another function stand for the compiled module; it is made of the eager module."""

    def use(make):
        def compiled(judge, eager, backend="onegraph"):
            return Subject(make(eager.function) if backend == "onegraph" else eager.function, eager.module)

        monkeypatch.setattr(verification._Judge, "_compiled", compiled)

    return use


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Linear(16, 32), torch.nn.LayerNorm(32)

    def forward(self, x):
        return self.norm(torch.tanh(self.first(x)))


def stale(function):
    """The function with the weights of its first call."""
    kept = []

    def run(*args):
        kept.append(copy.deepcopy(function)) if not kept else None
        return kept[0](*args) if not torch.is_grad_enabled() else function(*args)

    return run


def once(function):
    """The function that hands out one result again and again."""
    kept = {}

    def run(x):
        if (key := (x.shape, torch.is_grad_enabled(), tuple(x.detach().flatten().tolist()))) not in kept:
            kept[key] = function(x)
        return kept[key]

    return run


def fixed_batch(function):
    def run(x):
        assert len(x) == 4, "compiled for 4"
        return function(x)

    return run


SMALL = torch.randn(2, 64, generator=torch.Generator().manual_seed(0)) * 1e-6
ROWS = torch.cat([torch.zeros(1, 64), torch.ones(1, 64), SMALL])
HALF = torch.tensor([[1.0, 1, 0]]).half()
# A fault: the module, its inputs, what stands for the compiled module, and the problem that is found.
FAULTS = {
    "NaN dropped": (torch.sin, torch.randn(4, 16), lambda f: lambda x: torch.nan_to_num(f(x)), "NaN is lost"),
    "infinity dropped": (
        lambda x: x * 2,
        torch.randn(4, 16),
        lambda f: lambda x: f(x).clamp(-3e38, 3e38),
        "infinity is lost",
    ),
    "NaN made": (lambda x: x - 1, torch.randn(4, 16), lambda f: lambda x: x * (f(x) / x), "NaN"),
    "epsilon twice": (
        lambda x: functional.layer_norm(x, (64,), eps=1e-12),
        ROWS,
        lambda f: lambda x: functional.layer_norm(x, (64,), eps=2e-12),
        "numbers",
    ),
    "number rounded to f16": (
        lambda x: (1 - x) * -1e9 + x,
        HALF,
        lambda f: lambda x: (1 - x) * float("-inf") + x,
        "NaN",
    ),
    "factor rounded to bf16": (
        lambda x: x * 1.003 * 1.003 * 1.003,
        torch.rand(1000).bfloat16() + 1,
        lambda f: lambda x: x * 1.0,
        "numbers",
    ),
    "exponentials not shifted": (
        lambda x: x.softmax(-1),
        torch.randn(4, 16),
        lambda f: lambda x: x.exp() / x.exp().sum(-1, keepdim=True),
        "NaN",
    ),
    "weights of the first call": (Layers(), torch.randn(4, 16), stale, "numbers"),
    "one result again": (lambda x: x + 1, torch.randn(4, 16), once, "numbers"),
    "memory apart": (
        lambda x: ((y := x + 1), y.view(-1)),
        torch.randn(4, 4),
        lambda f: lambda x: (x + 1, (x + 1).view(-1)),
        "memory",
    ),
    "memory shared": (lambda x: x.clone(), torch.randn(4, 4), lambda f: lambda x: x, "memory"),
    "gradient required": (
        lambda x: (x * 2, (x * 2).detach()),
        torch.randn(4, requires_grad=True),
        lambda f: lambda x: (x * 2, x * 2),
        "requires_grad",
    ),
    "gradient of another": (
        lambda x: x.square(),
        torch.randn(4, 4, requires_grad=True),
        lambda f: lambda x: x * x.detach() * 1.0,
        "numbers",
    ),
    "other shape": (lambda x: x.sum(0), torch.randn(4, 4), lambda f: lambda x: x.sum(0, keepdim=True), "shape"),
    "other data type": (lambda x: x.argmax(0), torch.randn(4, 4), lambda f: lambda x: f(x).int(), "data type"),
    "other elements": (lambda x: x.argmax(0), torch.randn(4, 4), lambda f: lambda x: x.argmin(0), "numbers"),
    "second batch": (lambda x: x + 1, torch.randn(4, 4), fixed_batch, "error"),
    "buffers": (
        torch.nn.BatchNorm1d(4),
        torch.randn(4, 4),
        lambda f: lambda x: functional.batch_norm(x, None, None, f.weight, f.bias, True),
        "numbers",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_noticed(name, compiled_as):
    function, x, make, problem = FAULTS[name]
    compiled_as(make)
    found = onegraph.torch.verify(function, x, dynamic=name == "second batch")
    assert not found
    assert problem in {one.problem for one in found.findings}
    assert str(found).startswith("wrong: ")


def test_eager_pytorch_is_right(compiled_as):
    compiled_as(lambda function: lambda *args: function(*args))
    found = onegraph.torch.verify(Layers(), torch.randn(4, 16), dynamic=True)
    assert not found.findings
    assert {GIVEN, *KINDS, *WRITES} <= {*found.contents}


def test_half_precision_is_right_within_its_rounding(compiled_as):
    compiled_as(lambda function: lambda x: function(x.float()).to(x.dtype))  # what a fused kernel does
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.randn(8, 64, generator=torch.Generator().manual_seed(0)).to(dtype)
        assert not onegraph.torch.verify(lambda x: functional.gelu(x.softmax(-1) * 3), x).findings


def test_compiled_functions_are_judged():
    found = onegraph.torch.verify(lambda x, y: torch.tanh(x @ y).exp() * 2, (torch.randn(4, 8), torch.randn(8, 4)))
    assert found.judged
    assert found.compared >= len(KINDS)
    assert found.oracle == "eager PyTorch in float64"


def test_what_stays_in_pytorch_is_not_judged():
    found = onegraph.torch.verify(lambda x: torch.linalg.inv(x), torch.eye(4) * 2)
    assert (bool(found), found.judged, found.compared) == (False, False, 0)
    assert "PyTorch was compared with itself" in str(found)


def test_random_numbers_are_drawn_alike(compiled_as):
    compiled_as(lambda function: lambda x: function(x))
    found = onegraph.torch.verify(lambda x: functional.dropout(x, 0.5), torch.randn(4, 16))
    assert not found.findings
    assert "draws random numbers" in str(found)


def test_the_module_does_not_change(compiled_as):
    compiled_as(lambda function: function)
    module, x = torch.nn.BatchNorm1d(4), torch.randn(4, 4)
    before = copy.deepcopy(module.state_dict())
    state = torch.get_rng_state()
    onegraph.torch.verify(module, x, gradients=False)
    assert all(torch.equal(one, before[name]) for name, one in module.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("module", "inputs", "options", "message"),
    [
        (3, torch.ones(2), {}, "verify: module: 3; expected a function"),
        (torch.sin, 3, {}, "the inputs are a tensor or a tuple"),
        (torch.sin, torch.ones(()), {"dynamic": True}, "dynamic: True; expected a first input with an axis"),
        (torch.sin, torch.ones(2), {"dynamic": 1}, "dynamic: 1; expected True or False"),
        (torch.sin, torch.ones(2), {"options": {"fast": 1}}, "unknown option 'fast'"),
        (torch.nn.Linear(3, 2), torch.ones(2), {}, "eager PyTorch fails with these inputs"),
    ],
)
def test_wrong_arguments_are_refused(module, inputs, options, message):
    with pytest.raises(og.ArgumentError, match=message):
        onegraph.torch.verify(module, inputs, **options)
