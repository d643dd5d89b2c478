"""The backend of torch.compile computes what eager mode computes: epsilons, 16-bit numbers, random elements, layers."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: E402
from torch.utils.flop_counter import register_flop_formula  # noqa: E402

import onegraph.torch  # noqa: E402
from onegraph.errors import UnsupportedError  # noqa: E402
from onegraph.frontends.torch.resizing import MODES, whole_ops  # noqa: E402

pytestmark = [pytest.mark.library, pytest.mark.filterwarnings("ignore")]
nn, functional = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    onegraph.torch.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def compiled(function, **options):
    return torch.compile(function, backend="onegraph", options=options)


NORMS = {
    "layer": lambda x: functional.layer_norm(x, (64,), eps=1e-12),
    "batch": lambda x: functional.batch_norm(x.T, None, None, training=True, eps=1e-12),
    "group": lambda x: functional.group_norm(x, 1, eps=1e-12),
    "instance": lambda x: functional.instance_norm(x[None], eps=1e-12),
    "rms": lambda x: functional.rms_norm(x, (64,), eps=1e-12),
    "normalize": lambda x: functional.normalize(x, eps=1e-12),
    "cosine": lambda x: functional.cosine_similarity(x, x.flip(1), eps=1e-12)[:, None],
}


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_gradients_add_no_epsilon_of_their_own(norm):
    rows = torch.stack([torch.randn(64) * scale for scale in (1e-6, 1e-5, 1.0)])

    def gradient(function, dtype):
        x = rows.to(dtype, copy=True).requires_grad_()
        found = function(x)
        (found * torch.arange(found.numel(), dtype=dtype).reshape(found.shape).cos()).sum().backward()
        return x.grad.double()

    exact = gradient(norm, torch.float64)
    found, eager = (gradient(one, torch.float32) for one in (compiled(norm), norm))
    apart, usual = ((one - exact).norm(dim=1) / exact.norm(dim=1) for one in (found, eager))
    assert bool((apart <= 4 * usual + 1e-5).all())


MIXED = {
    "mask": lambda x, t: (1 - x.clamp(0, 1)) * -1e9 + x,
    "large": lambda x, t: (x * 1e5).relu() + 1,
    "divided": lambda x, t: (x / 1e5).relu() + 1e-7,
    "tensor": lambda x, t: (x * t).relu() / 2,
    "quotient": lambda x, t: (x / t).relu() * 3,
    "small": lambda x, t: ((x * 1.003) * 1.003).relu() * 1.003,
    "reversed": lambda x, t: 1e5 / (x.abs() + 1),
    "addcmul": lambda x, t: torch.addcmul(x, x, x, value=0.1).relu(),
    "addcdiv": lambda x, t: torch.addcdiv(x, x, x.abs() + 1, value=1e5).relu(),
    "lerp": lambda x, t: torch.lerp(x, x * 2, 0.3).relu(),
    "alpha": lambda x, t: torch.add(x, x, alpha=0.1).relu(),
    "compared": lambda x, t: torch.where(x < 0.1, x, x * 2).relu(),
    "power": lambda x, t: (x.abs() ** 1.5).relu() * 2,
    "product": lambda x, t: torch.addmm(x[:1], x.view(1, -1), x.view(-1, 1), alpha=0.1, beta=0.3),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("function", MIXED.values(), ids=MIXED)
def test_numbers_beside_16_bits_are_not_rounded(function, dtype):
    x = torch.cat([torch.tensor([1e-3, 0.1, 1.0, 300.0, -2.0]), torch.rand(59)]).to(dtype)
    given = x, torch.tensor(1e5)
    with torch.no_grad():
        found, eager = compiled(function)(*given), function(*given)
    assert found.dtype == eager.dtype
    assert torch.equal(torch.isfinite(found), torch.isfinite(eager))
    kept = torch.isfinite(eager)
    torch.testing.assert_close(found[kept], eager[kept], rtol=2 * torch.finfo(dtype).eps, atol=1e-7)


LAYOUTS = {
    "rows": lambda x: x,
    "channels last": lambda x: x.to(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(1, 2),
    "parts": lambda x: x[..., ::2],
    "repeated": lambda x: x[:1].expand(4, -1, -1, -1),
}


@pytest.mark.parametrize("p", [0.5, 1.0, 0.0])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_dropout_takes_the_elements_of_eager(layout, p):
    x = layout(torch.rand(2, 3, 4, 6) + 1)
    results = []
    # Of p = 1 PyTorch draws nothing without compilation, and aot_eager draws all the same.
    for backend in ("onegraph", "eager" if p == 1 else "aot_eager"):
        torch._dynamo.reset()
        torch.manual_seed(3)
        function = torch.compile(lambda x: functional.dropout(x * 2, p) + 1, backend=backend)
        results.append((function(x), torch.rand(2)))
    torch.testing.assert_close(*results)


def test_dropout_of_an_encoder_layer_is_eager():
    layer, x = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), torch.randn(2, 5, 16)
    torch.manual_seed(1)
    wanted = layer(x)
    torch.manual_seed(1)
    torch.testing.assert_close(compiled(layer)(x), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("mode", "antialias"), MODES)
def test_resizing_trains_with_smaller_last_batch(mode, antialias):
    rank = {"linear": 1, "trilinear": 3}.get(mode, 2)
    step = compiled(lambda x: functional.interpolate(x * 2, scale_factor=2, mode=mode, antialias=antialias))
    for batch in (4, 4, 3, 1):
        x = torch.randn(batch, 2, *[4] * rank, requires_grad=True)
        twin = x.detach().clone().requires_grad_()
        step(x).square().sum().backward()
        functional.interpolate(twin * 2, scale_factor=2, mode=mode, antialias=antialias).square().sum().backward()
        torch.testing.assert_close(x.grad, twin.grad, rtol=1e-4, atol=1e-4)


def test_pytorch_tables_stay_as_they_are():
    names = ("upsample_bilinear2d", "upsample_nearest2d", "native_dropout", "detach")
    ops = [
        getattr(getattr(torch.ops.aten, name), one)
        for name in names
        for one in getattr(torch.ops.aten, name).overloads()
    ]
    before = [dict(op.py_kernels) for op in ops]
    with whole_ops():
        assert [dict(op.py_kernels) for op in ops] == before


@pytest.mark.parametrize("batch", [0, 2])
def test_empty_batches_run(batch):
    function = torch.compile(
        lambda x: functional.interpolate(functional.conv2d(x, torch.ones(3, 3, 1, 1)), scale_factor=2).relu(),
        backend="onegraph",
        dynamic=True,
    )
    with torch.no_grad():
        assert function(torch.ones(3, 3, 4, 4)).shape == (3, 3, 8, 8)
        assert function(torch.ones(batch, 3, 4, 4)).shape == (batch, 3, 8, 8)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.flip(-1) * 2 + 1,
        lambda x: x.softmax(0) * 2 + 1,
        lambda x: x.log_softmax(-1) * 2 + 1,
        lambda x: x.cumsum(0).exp() + x.sum(-1),
        lambda x: x.amax(0) + x.amin(-1) * 2,
        lambda x: torch.stack([x, x], -1).softmax(-1).sum(),
    ],
)
def test_tensors_of_one_number_have_gradients(function):
    x = torch.tensor(0.7, requires_grad=True)
    twin = x.detach().clone().requires_grad_()
    compiled(function, smallest=1)(x).backward()
    function(twin).backward()
    torch.testing.assert_close(x.grad, twin.grad)


MASKS = {
    "none": {},
    "padding": {"src_key_padding_mask": torch.tensor([[False] * 4 + [True], [False, True, True, True, True]])},
    "causal": {"src_mask": torch.full((5, 5), -torch.inf).triu(1), "is_causal": True},
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"activation": "gelu"}, {"batch_first": False}])
def test_encoder_layers_in_inference_run_here(options, mask):
    options = {"batch_first": True, **options}
    layer = nn.TransformerEncoderLayer(16, 2, 32, **options).eval()
    x = torch.randn(2, 5, 16) if options["batch_first"] else torch.randn(5, 2, 16)
    with torch.no_grad():
        wanted = layer(x, **MASKS[mask])
        torch.testing.assert_close(compiled(layer)(x, **MASKS[mask]), wanted, rtol=1e-4, atol=1e-5)
    found = onegraph.torch.stats()
    assert found.share == 1
    assert found.compilations == found.partitions > 0
    assert not any("encoder" in one.op or "head" in one.op for one in found.left)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("options", [{}, {"need_weights": False}, {"average_attn_weights": False}])
def test_attention_layers_in_inference_run_here(options, batch_first):
    layer, x = nn.MultiheadAttention(16, 2, batch_first=batch_first).eval(), torch.randn(3, 5, 16)
    mask = torch.ones(x.shape[1 if batch_first else 0], x.shape[1 if batch_first else 0]).triu(1).bool()
    with torch.no_grad():
        wanted, found = (one(x, x, x, attn_mask=mask, **options) for one in (layer, compiled(layer)))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert onegraph.torch.stats().share == 1


CAUSAL = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu")
SLOPES = torch.tensor([0.5, 2.0])
FLEXIBLE = {
    "mask": {"score_mod": lambda s, b, h, i, j: torch.tanh(s * SLOPES[h]), "block_mask": CAUSAL, "return_lse": True},
    "groups": {"score_mod": lambda s, b, h, i, j: s + (i - j) * 0.1, "enable_gqa": True, "scale": 0.2},
}


class Flexible(nn.Module):
    """Attention whose scores a function changes."""

    def __init__(self, options):
        super().__init__()
        self.options = options

    def forward(self, x):
        key = x[:, :1] if "enable_gqa" in self.options else x
        found = flex_attention(x * 2, key, key.cos(), **self.options)
        return found if isinstance(found, torch.Tensor) else found[0] + found[1][..., None]


@pytest.mark.parametrize("options", FLEXIBLE.values(), ids=FLEXIBLE)
def test_attention_with_functions_of_scores_runs_here(options):
    module, x = Flexible(options), torch.randn(2, 2, 16, 8)
    with torch.no_grad():
        wanted, found = module(x), compiled(module)(x)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert found.stride() == wanted.stride()
    assert onegraph.torch.stats().share == 1
    graph = onegraph.torch.export(torch.export.export(module, (x,)))
    np.testing.assert_allclose(graph.compile()(x.numpy()), wanted.numpy(), rtol=1e-4, atol=1e-5)


def _written(x):
    made = x * 2
    torch.ops.onegraph_tests.add_one(made)
    return made.relu()


def _shifted(x):
    made = x * 2
    torch.ops.onegraph_tests.add_product(made, x)
    return made.relu()


LIBRARY = torch.library.Library("onegraph_tests", "DEF")
LIBRARY.define("double(Tensor x) -> Tensor")
LIBRARY.define("add_one(Tensor(a!) x) -> ()")
LIBRARY.impl("double", lambda x: x * 2, "CompositeExplicitAutograd")
LIBRARY.impl("add_one", lambda x: x.add_(1) and None if x.numel() == 1 else (x.add_(1), None)[1], "CPU")
LIBRARY.impl("add_one", lambda x: None, "Meta")
LIBRARY.define("add_product(Tensor(a!) x, Tensor y) -> ()")
LIBRARY.impl("add_product", lambda x, y: (x.add_(y @ y), None)[1], "CPU")
LIBRARY.impl("add_product", lambda x, y: None, "Meta")


@register_flop_formula(torch.ops.onegraph_tests.add_product)
def _products_added(x, y, *args, out_val=None, **kwargs):
    return 2 * x[0] * x[1] * x[2] * x[3] * y[3]


FOREIGN = {
    "onegraph_tests.add_product.default": (_shifted, 2 * 16**3),
    "onegraph_tests.double.default": (lambda x: torch.ops.onegraph_tests.double(x), 0),
    "onegraph_tests.add_one.default": (_written, 0),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_ops_are_counted_and_refused(name):
    function, products = FOREIGN[name]
    x = torch.randn(1, 2, 16, 16)
    with torch.no_grad():
        compiled(function)(x)
        found = onegraph.torch.stats()
        assert {one.op: one.products for one in found.left}[name] == products
        assert found.share == 0
        assert "100" not in str(found)
        torch._dynamo.reset()
        with pytest.raises(UnsupportedError, match=name):
            compiled(function, fallback="error")(x)


def test_compilations_of_sizes_are_counted():
    function = torch.compile(
        lambda x: (x @ x.mT).relu(), backend="onegraph", dynamic=True, options={"cache_capacity": 2}
    )
    with torch.no_grad():
        for size in (3, 4):
            function(torch.randn(2, size, 4))
        with pytest.warns(UserWarning, match="cache_capacity"):
            function(torch.randn(2, 5, 4))
        function(torch.randn(2, 3, 4))
    found = onegraph.torch.stats()
    assert (found.compilations, found.dropped) == (2, 2)  # a further size takes the steps of the second one
    assert "2 were dropped" in str(found)


@pytest.mark.parametrize("grad", [False, True])
def test_unread_draws_move_the_generator(grad):
    def function(x):
        torch.randn_like(x)
        return functional.softmax(x * 2, -1)

    states = []
    for backend in ("onegraph", "aot_eager"):
        torch._dynamo.reset()
        torch.manual_seed(2)
        torch.compile(function, backend=backend)(torch.ones(3, 4, requires_grad=grad))
        states.append(torch.rand(3))
    assert torch.equal(*states)
