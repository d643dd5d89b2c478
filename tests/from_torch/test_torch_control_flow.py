"""Conditions, loops, scans and maps of PyTorch as subprograms, compared with eager."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch._higher_order_ops import while_loop  # noqa: E402
from torch._higher_order_ops.associative_scan import associative_scan  # noqa: E402
from torch._higher_order_ops.map import map as mapped  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402

import onegraph as og  # noqa: E402
import onegraph.torch  # noqa: E402

LINEAR = torch.nn.Linear(4, 4)


def chosen(x):
    return torch.cond(x.sum() > 0, lambda x: torch.relu(LINEAR(x)), lambda x: x * 2, (x,))


def nested(x):
    def inner(x):
        return torch.cond(x.max() > 1, lambda x: x - 1, torch.tanh, (x,))

    return torch.cond(x.sum() > 0, inner, lambda x: x * 2, (x,))


def counted(x, n):
    return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, torch.tanh(LINEAR(x))), (torch.tensor(0), x))


def summed(first, x):
    return scan(lambda state, x: (state + x, state * x), first, x, dim=0)


def backwards(first, x):
    return scan(lambda state, x: (state + x, state * x), first, x, dim=1, reverse=True)


def applied(x, y):
    return mapped(lambda x, y: torch.relu(LINEAR(x)) + y, x, y)


def associated(x):
    return associative_scan(lambda a, b: a * b, x, dim=0, combine_mode="generic")


def numbers(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


CASES = {
    "cond": (chosen, [(numbers(3, 4).abs(),), (-numbers(3, 4).abs(),)]),
    "cond in cond": (nested, [(numbers(3, 4).abs(),), (numbers(3, 4).abs() / 9,), (-numbers(3, 4).abs(),)]),
    "while_loop": (counted, [(numbers(2, 4), torch.tensor(5)), (numbers(2, 4), torch.tensor(0))]),
    "scan": (summed, [(numbers(4), numbers(7, 4))]),
    "scan backwards": (backwards, [(numbers(4), numbers(4, 7))]),
    "map": (applied, [(numbers(5, 2, 4), numbers(4))]),
    "associative_scan": (associated, [(numbers(6, 4),)]),
}


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.linear, self.function = LINEAR, function

    def forward(self, *args):
        return self.function(*args)


@pytest.mark.parametrize(("function", "calls"), CASES.values(), ids=CASES)
def test_exported_control_flow_agrees_with_eager(function, calls):
    graph = onegraph.torch.export(Module(function), calls[0])
    assert "OnnxNode" not in {op.kind for op in graph.ops}
    executable = graph.compile()
    for args in calls:
        with torch.no_grad():
            wanted = function(*args)
        found = executable(*[one.numpy() for one in args])
        pairs = zip(
            found if isinstance(found, tuple) else [found],
            wanted if isinstance(wanted, (list, tuple)) else [wanted],
            strict=True,
        )
        for one, other in pairs:
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=1e-6)


def test_a_call_in_a_body_that_nothing_computes_is_named():
    class Odd(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: torch.nextafter(x, -x), lambda x: x * 2, (x,))

    with pytest.raises(og.UnsupportedError, match=r"cond: in a body, aten\.nextafter"):
        onegraph.torch.export(Odd(), (numbers(3, 3),))


@pytest.mark.parametrize("name", ["cond", "while_loop", "scan"])
def test_compiled_control_flow_runs_here(name):
    torch._dynamo.reset()  # sizes that differ from an earlier case would be symbolic
    function, calls = CASES[name]
    module = Module(function)
    compiled = torch.compile(module, backend="onegraph", fullgraph=True, options={"fallback": "error"})
    for args in calls:
        with torch.no_grad():
            found, wanted = compiled(*args), module(*args)
        torch.testing.assert_close(found, wanted)


def test_pytorch_runs_bodies_of_changing_sizes():
    torch._dynamo.reset()
    compiled = torch.compile(chosen, backend="onegraph", dynamic=True)
    for rows in (2, 5):
        with torch.no_grad():
            torch.testing.assert_close(compiled(numbers(rows, 4).abs()), chosen(numbers(rows, 4).abs()))
