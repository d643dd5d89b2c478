"""Lowerings that users give to custom ops of PyTorch."""

import numpy as np
import pytest

import onegraph as og
import onegraph.capi

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import onegraph.torch  # noqa: E402


@pytest.fixture
def op():
    """An op of two results: x * factor + shift, and its ReLU."""
    library = torch.library.Library("onegraph_test", "FRAGMENT")
    library.define("scaled(Tensor x, Tensor? shift, float factor=2.0) -> (Tensor, Tensor)")

    def eager(x, shift, factor=2.0):
        found = x * factor if shift is None else x * factor + shift
        return found, found.relu()

    library.impl("scaled", eager, "CompositeExplicitAutograd")
    library._register_fake("scaled", lambda x, shift, factor=2.0: (torch.empty_like(x), torch.empty_like(x)))
    overload = torch.ops.onegraph_test.scaled.default
    yield overload
    onegraph.torch.register(overload, None)
    torch._dynamo.reset()
    library._destroy()


class Module(torch.nn.Module):
    def __init__(self, op, shift):
        super().__init__()
        self.op, self.linear = op, torch.nn.Linear(3, 3)
        self.shift = torch.nn.Parameter(torch.ones(3)) if shift else None

    def forward(self, x):
        first, second = self.op(self.linear(x), self.shift, 3.0)
        return first - second


def lowered(calls):
    def function(call):
        calls.append((call.name, call.args["factor"], call.args["shift"] is None, call.like[0].shape))
        g, x = call.graph, call.args["x"]
        found = x * call.args["factor"]
        if call.args["shift"] is not None:
            found = found + call.args["shift"]
        return found, g.relu(found)

    return function


@pytest.mark.parametrize("shift", [False, True])
def test_a_registered_op_is_exported_and_compiled(op, shift):
    module, src, calls = Module(op, shift).eval(), torch.randn(4, 3), []
    with pytest.raises(og.UnsupportedError, match=r"scaled.*; onegraph\.torch\.register gives an op a lowering"):
        onegraph.torch.export(module, (src,))
    onegraph.torch.register(op, lowered(calls))
    with torch.no_grad():
        wanted = module(src).numpy()
        np.testing.assert_allclose(onegraph.torch.export(module, (src,)).compile()(src.numpy()), wanted, atol=1e-5)
        assert calls[-1] == ("onegraph_test.scaled.default", 3.0, not shift, (4, 3))
        torch._dynamo.reset()
        onegraph.torch.reset()
        found = torch.compile(module, backend="onegraph")(src)
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-5)
    assert "scaled" not in str(onegraph.torch.stats().left)


def test_a_wrong_registration_is_refused(op):
    for given in ("mine.scale", torch.ops.aten.relu.default, torch.ops.onegraph_test.scaled):
        with pytest.raises(og.ArgumentError, match="op:"):
            onegraph.torch.register(given, lowered([]))
    with pytest.raises(og.ArgumentError, match="function"):
        onegraph.torch.register(op, 3)
    onegraph.torch.register(op, lambda call: call.args["x"])
    with pytest.raises(og.UnsupportedError, match="1 result; expected a tensor of the graph for each of 2"):
        onegraph.torch.export(Module(op, False).eval(), (torch.randn(4, 3),))
