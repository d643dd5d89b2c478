"""NaN and infinities pass through compiled modules as through PyTorch's own, forward and backward."""

from __future__ import annotations

from math import inf, nan

import pytest

torch = pytest.importorskip("torch")

import onegraph.torch  # noqa: E402, F401

F = torch.nn.functional
pytestmark = [pytest.mark.library, pytest.mark.filterwarnings("ignore")]
ROW = [nan, 1.0, -2.0, inf, 0.5, -inf, 0.0, 3.0]
FUNCTIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp_min": lambda x: x.clamp_min(0.25),
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "elu": F.elu,
    "leaky_relu": F.leaky_relu,
    "prelu": lambda x: F.prelu(x, torch.tensor([0.25], dtype=x.dtype)),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "exp": torch.exp,
    "abs": torch.abs,
    "maximum": lambda x: torch.maximum(x, torch.zeros_like(x)),
    "minimum": lambda x: torch.minimum(torch.ones_like(x), x),
    "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin(-1),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "max_pool": lambda x: F.max_pool2d(x.reshape(1, 3, 4, 4), 2),
    "where": lambda x: torch.where(x > 0, x, x * 2),
}
# Functions that are compared in f32 alone, on rows or on an image, by their results and gradients.
WEIGHTS = torch.linspace(-1, 1, 54).reshape(2, 3, 3, 3)
ON_ROWS = {
    "argmax": lambda x: x.argmax(-1),
    "clamp_tensor": lambda x: torch.clamp(x, torch.full_like(x, -1), torch.ones_like(x)),
    "cumsum": lambda x: x.cumsum(-1),
    "layer_norm": lambda x: F.layer_norm(x, (8,)),
    "logsumexp": lambda x: x.logsumexp(-1),
    "masked_softmax": lambda x: x.masked_fill(torch.arange(8) > 5, -inf).softmax(-1),
    "mish": F.mish,
    "nan_to_num": torch.nan_to_num,
    "norm": lambda x: x.norm(dim=-1),
    "pow": lambda x: x**3,
    "rsqrt": torch.rsqrt,
    "sign": torch.sign,
    "softplus": F.softplus,
    "std": lambda x: x.std(-1),
}
ON_IMAGES = {
    "avg_pool": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "batch_norm_relu": lambda x: F.relu(F.batch_norm(x, None, None, training=True)),
    "conv_relu": lambda x: F.relu(F.conv2d(x, WEIGHTS, padding=1)),
    "max_pool_strided": lambda x: F.max_pool2d(x, 3, 2, 1),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "adaptive_pool": lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
    "adaptive_pool_1d": lambda x: F.adaptive_avg_pool1d(x[0], 3),
    "bicubic": lambda x: F.interpolate(x, (13, 5), mode="bicubic"),
    "bicubic_corners": lambda x: F.interpolate(x, (15, 11), mode="bicubic", align_corners=True),
    "bicubic_wide": lambda x: F.interpolate(x, (3, 5), mode="bicubic", antialias=True),
    "bilinear_corners": lambda x: F.interpolate(x, (15, 5), mode="bilinear", align_corners=True),
    "bilinear_wide": lambda x: F.interpolate(x, (3, 5), mode="bilinear", antialias=True),
    "linear_corners": lambda x: F.interpolate(x[0], 15, mode="linear", align_corners=True),
    "reflected": lambda x: F.pad(x, (1, 2, 3, 0), "reflect"),
    "replicated": lambda x: F.pad(x, (1, 2, 3, 0), "replicate"),
    "circular": lambda x: F.pad(x, (1, 2, 3, 0), "circular"),
    "blocks": lambda x: F.unfold(x, 3, padding=1, stride=2),
    "images_of_blocks": lambda x: F.fold(F.unfold(x, 3, padding=1), (8, 8), 3, padding=1),
    "response": lambda x: F.local_response_norm(x, 3),
    "average_all": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "average_by": lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=7),
    "average_volumes": lambda x: F.avg_pool3d(x, 2, 2, 1, ceil_mode=True),
    "norm_pool": lambda x: F.lp_pool2d(x, 2, 3, 2),
}


def compiled(function):
    torch._dynamo.reset()
    return torch.compile(function, backend="onegraph", options={"smallest": 1, "fallback": "error"})


def rows(dtype):
    ordinary = torch.linspace(-2, 3, 8)
    masked = torch.full((8,), -inf)
    return torch.stack([torch.tensor(ROW), ordinary, masked, ordinary.flip(0), *[ordinary + 1] * 2]).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_numbers_are_those_of_eager(name, dtype):
    x = rows(dtype)
    with torch.no_grad():
        found, expected = compiled(FUNCTIONS[name])(x), FUNCTIONS[name](x)
    torch.testing.assert_close(found, expected, equal_nan=True, rtol=0.02, atol=1e-3)


# PyTorch's gradient of hardswish passes that of NaN on. The formula of the specification gives NaN.
DIFFERENTIABLE = sorted(FUNCTIONS.keys() - {"maximum", "minimum", "where", "hardswish"})


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_at_special_numbers_are_those_of_its_decompositions(name):
    results = []
    oracle = torch.compile(FUNCTIONS[name], backend="aot_eager_decomp_partition")
    for function in (oracle, compiled(FUNCTIONS[name])):
        x = rows(torch.float32).requires_grad_()
        y = function(x)
        y.backward(torch.linspace(1, 2, y.numel()).reshape(y.shape))
        results.append(x.grad)
    torch.testing.assert_close(results[1], results[0], equal_nan=True, rtol=1e-3, atol=1e-4)


def with_special(shape):
    x = torch.linspace(-2, 3, 192).reshape(-1)
    x[torch.arange(0, 120, 31)] = torch.tensor([nan, inf, -inf, 0.0])
    return x.reshape(shape)


@pytest.mark.parametrize("name", [*ON_ROWS, *ON_IMAGES])
def test_results_and_gradients_are_those_of_eager(name):
    function, shape = (ON_ROWS[name], (24, 8)) if name in ON_ROWS else (ON_IMAGES[name], (1, 3, 8, 8))
    found = []
    for one in (function, compiled(function)):
        x = with_special(shape).requires_grad_()
        y = one(x)
        if y.is_floating_point():
            y.backward(torch.arange(y.numel()).sin().reshape(y.shape))
        found.append((y.detach(), x.grad))
    torch.testing.assert_close(found[1], found[0], equal_nan=True, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("axes", [1, 2])
def test_gradients_of_max_pools_go_to_the_last_nan(axes):
    pool, found = (F.max_pool1d, F.max_pool2d)[axes - 1], []
    for function in (pool, compiled(pool)):
        x = torch.arange(2 * 3 * 7**axes).sin().reshape(2, 3, *(7,) * axes)
        x.reshape(-1)[::3] = nan
        x.requires_grad_()
        y = function(x, 3, 2, 1)
        y.backward(torch.arange(y.numel()).cos().reshape(y.shape))
        found.append(x.grad)
    torch.testing.assert_close(found[1], found[0])


def test_infinite_gradients_stop_where_relu_is_flat():
    gradients = []
    for function in (F.relu, compiled(F.relu)):
        x = torch.tensor([-1.0, 2.0, -3.0, 0.0] * 8, requires_grad=True)
        function(x).backward(torch.tensor([inf, inf, nan, nan] * 8))
        gradients.append(x.grad)
    torch.testing.assert_close(gradients[1], gradients[0], equal_nan=True)


def test_diverged_training_shows_in_loss_and_gradients():
    shares = []
    for backend in ("eager", "onegraph"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(72, 2),
        )
        images = torch.randn(4, 3, 8, 8)
        images[1] = nan
        loss = torch.compile(net, backend=backend)(images).square().mean()
        loss.backward()
        shares.append([loss.isnan().item(), *[p.grad.isnan().float().mean().item() for p in net.parameters()]])
    assert shares[0] == shares[1]
    assert shares[0][0]


def test_finite_math_is_an_option():
    torch._dynamo.reset()
    function = torch.compile(F.relu, backend="onegraph", options={"smallest": 1, "finite_math": True})
    assert not function(torch.full((64,), nan)).isnan().any()
