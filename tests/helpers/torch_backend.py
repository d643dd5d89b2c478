"""Compiles modules with the backend of torch.compile, and compares them with PyTorch in float64."""

import copy

import pytest

torch = pytest.importorskip("torch")

import onegraph.torch  # noqa: E402

nn, functional = torch.nn, torch.nn.functional


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.linear = nn.Linear(8, 4)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.norm(self.convolution(x))), 2)
        return self.linear(x.mean((2, 3)))


class Attention(nn.Module):
    def __init__(self, heads=4, **options):
        super().__init__()
        self.project, self.heads, self.options = nn.Linear(16, 48), heads, options

    def forward(self, x, mask=None):
        parts = self.project(x).chunk(3, -1)
        split = [one.unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in parts]
        found = functional.scaled_dot_product_attention(*split, attn_mask=mask, **self.options)
        return found.transpose(1, 2).flatten(2)


def compiled(module, **options):
    """The module, compiled here."""
    return torch.compile(module, backend=onegraph.torch.backend, options=options)


def cast(value, dtype):
    """A floating-point tensor in a data type; anything else as it is."""
    return value.to(dtype) if torch.is_tensor(value) and value.is_floating_point() else value


def assert_as_exact(found, eager, exact, times=4.0):
    """Whether a result is at most ``times`` as far from that in float64 as eager's."""
    assert found.dtype == eager.dtype
    assert found.shape == eager.shape
    limit = times * (eager.double() - exact).abs().max() + 1e-6 * exact.abs().max()
    assert (found.double() - exact).abs().max() <= limit


def agree(module, *args, dtype=torch.float32, **options):
    """Compare with PyTorch in float64; a compiled result may be 4 times as far from it as eager's."""
    exact = copy.deepcopy(module).double()(*[cast(one, torch.float64) for one in args])
    module = copy.deepcopy(module).to(dtype)
    given = [cast(one, dtype) for one in args]
    assert_as_exact(compiled(module, **options)(*given), module(*given), exact)


def left():
    """The names of the ops that were left to PyTorch."""
    return {one.op.split(".")[1] for one in onegraph.torch.stats().left}
