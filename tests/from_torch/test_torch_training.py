"""Training of compiled models: gradients, losses, random numbers, and the ways to run a backward graph."""

import copy

import pytest

torch = pytest.importorskip("torch")

from helpers.torch_backend import compiled, left  # noqa: E402

import onegraph.torch  # noqa: E402
from onegraph.frontends.torch import compiled_part  # noqa: E402
from onegraph.frontends.torch.joint import without_aliases  # noqa: E402

pytestmark = [pytest.mark.library, pytest.mark.filterwarnings("ignore")]
nn, functional = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    onegraph.torch.reset()
    torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels) for _ in range(2)])

    def forward(self, x):
        return functional.relu(x + self.norms[1](self.second(functional.relu(self.norms[0](self.first(x))))))


class Residual(nn.Sequential):
    """A small ResNet."""

    def __init__(self):
        stem = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        super().__init__(*stem, Block(8), Block(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))


class Encoder(nn.Module):
    """Layers of attention over vectors, as in a GPT or a ViT."""

    def __init__(self, causal):
        super().__init__()
        self.causal, self.project, self.mix = causal, nn.Linear(16, 48), nn.Linear(16, 16)
        self.norms = nn.ModuleList([nn.LayerNorm(16) for _ in range(2)])
        self.wide, self.narrow = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        query, key, value = (
            one.unflatten(-1, (4, 4)).transpose(1, 2) for one in self.project(self.norms[0](x)).chunk(3, -1)
        )
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        x = x + self.mix(found.transpose(1, 2).flatten(2))
        return x + self.narrow(functional.gelu(self.wide(self.norms[1](x))))


class Patches(nn.Module):
    """A small ViT."""

    def __init__(self):
        super().__init__()
        self.patches, self.layer, self.head = nn.Conv2d(3, 16, 4, 4), Encoder(False), nn.Linear(16, 4)
        self.position = nn.Parameter(0.1 * torch.randn(1, 4, 16))

    def forward(self, x):
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.position
        return self.head(self.layer(tokens).mean(1))


class Text(nn.Module):
    """A small GPT whose head has the weights of the embedding."""

    def __init__(self):
        super().__init__()
        self.embedding, self.layer, self.head = nn.Embedding(11, 16), Encoder(True), nn.Linear(16, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.layer(self.embedding(tokens))).flatten(0, 1)


class Unet(nn.Module):
    """A small U-Net."""

    def __init__(self):
        super().__init__()
        self.down, self.inner = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.up, self.last = nn.GroupNorm(2, 8), nn.ConvTranspose2d(8, 8, 2, 2), nn.Conv2d(24, 4, 1)

    def forward(self, x):
        high = functional.silu(self.down(x))
        low = functional.silu(self.norm(self.inner(functional.max_pool2d(high, 2))))
        resized = functional.interpolate(low, scale_factor=2, mode="bilinear")
        return self.last(torch.cat([high, self.up(low), resized], 1)).flatten(2).transpose(1, 2).flatten(0, 1)


IMAGES = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(1))
TOKENS = torch.randint(0, 11, (4, 6), generator=torch.Generator().manual_seed(1))
MODELS = {
    "resnet": (Residual, IMAGES, torch.arange(8) % 4),
    "vit": (Patches, IMAGES, torch.arange(8) % 4),
    "gpt": (Text, TOKENS, TOKENS.roll(-1, 1).flatten()),
    "unet": (Unet, IMAGES, (IMAGES[:, 0] > 0).long().flatten() + 2 * (IMAGES[:, 1] > 0).long().flatten()),
}


def losses(module, function, x, labels, steps=8):
    """The losses of a few steps of Adam."""
    optimizer, found = torch.optim.Adam(module.parameters(), lr=2e-3), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = functional.cross_entropy(function(x), labels)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize("name", MODELS)
def test_losses_follow_those_of_eager(name):
    make, x, labels = MODELS[name]
    module = make()
    others = [copy.deepcopy(module) for _ in range(2)]
    wide = others[0].double()
    exact = losses(wide, wide, x.double() if x.is_floating_point() else x, labels)
    eager = losses(others[1], others[1], x, labels)
    found = losses(module, compiled(module), x, labels)
    assert exact[-1] < exact[0]
    assert (found - exact).abs().max() <= 4 * (eager - exact).abs().max() + 1e-5
    assert [one.kind for one in onegraph.torch.stats().regions] == ["forward", "backward"]
    assert not any("pool" in one or "upsample" in one or "convolution" in one for one in left())


def gradients(module):
    return [None if one.grad is None else one.grad.clone() for one in module.parameters()]


def test_steps_with_bfloat16_parameters_follow_eager():
    module = Residual()
    other, wide = copy.deepcopy(module).bfloat16(), copy.deepcopy(module).double()
    module, labels = module.bfloat16(), torch.arange(8) % 4
    exact = losses(wide, wide, IMAGES.double(), labels)
    eager = losses(other, other, IMAGES.bfloat16(), labels)
    found = losses(module, compiled(module), IMAGES.bfloat16(), labels)
    assert (found - exact).abs().max() <= 4 * (eager - exact).abs().max() + 1e-2


def test_autocast_in_training():
    module = Residual()
    other, labels = copy.deepcopy(module), torch.arange(8) % 4
    model = compiled(module)
    with torch.autocast("cpu", torch.bfloat16):
        found = functional.cross_entropy(model(IMAGES).float(), labels)
        eager = functional.cross_entropy(other(IMAGES).float(), labels)
    found.backward()
    eager.backward()
    assert abs(found.item() - eager.item()) < 0.02
    for one, right in zip(gradients(module), gradients(other), strict=True):
        assert one.dtype == right.dtype == torch.float32
        assert (one - right).abs().max() <= 0.1 * right.abs().max() + 1e-3


@pytest.mark.parametrize("norm", [nn.BatchNorm2d(8), nn.GroupNorm(2, 8), nn.InstanceNorm2d(8, affine=True), None])
def test_norms_of_16_bits_beside_parameters_of_32(norm):
    norm = norm or nn.Sequential(nn.Flatten(2), nn.LayerNorm(36), nn.RMSNorm(36))
    module = nn.Sequential(nn.Conv2d(3, 8, 3), norm, nn.SiLU())
    other, x = copy.deepcopy(module), torch.randn(4, 3, 8, 8)
    for function in (compiled(module), other):
        with torch.autocast("cpu", torch.bfloat16):
            result = function(x)
        result.float().square().mean().backward()
    results = list(zip(gradients(module), gradients(other), strict=True))
    # The gradient of a bias before a norm is zero but for the rounding of the values that it sums.
    rounding = 1e-3 * max(right.norm() for _, right in results)
    for one, right in results:
        assert (one - right).norm() <= 0.03 * right.norm() + rounding


@pytest.mark.parametrize("affine", [True, False])
def test_group_norms_are_trained_here(affine):
    onegraph.torch.reset()
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8, affine=affine), nn.SiLU())
    other, x = copy.deepcopy(module), torch.randn(4, 3, 8, 8) + 1
    for function in (compiled(module), other):
        function(x).square().sum().backward()
    assert not onegraph.torch.stats().left
    for one, right in zip(gradients(module), gradients(other), strict=True):
        torch.testing.assert_close(one, right, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("count", [1, 8])
def test_slopes_of_a_prelu(count):
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.PReLU(count))
    nn.init.uniform_(module[1].weight, -0.5, 1.5)
    other = copy.deepcopy(module)
    for function in (compiled(module), other):
        function(IMAGES).square().sum().backward()
    for one, right in zip(gradients(module), gradients(other), strict=True):
        torch.testing.assert_close(one, right, rtol=1e-4, atol=1e-4)
    assert left() == set()


@pytest.mark.parametrize("places", [(), (7,)])
def test_batch_norm_of_rows_is_trained(places):
    module, x = nn.BatchNorm1d(12), torch.randn(9, 12, *places)
    nn.init.uniform_(module.weight, 0.5, 1.5)
    other, weight = copy.deepcopy(module), torch.randn_like(x)
    for function in (compiled(module), other):
        (function(x) * weight).sum().backward()
    for one, right in zip(gradients(module), gradients(other), strict=True):
        torch.testing.assert_close(one, right, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(module.running_mean, other.running_mean)
    torch.testing.assert_close(module.running_var, other.running_var)
    assert left() <= {"add"}  # the number of batches


def test_frozen_statistics_of_a_batch_norm():
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
    module[1].running_mean.normal_()
    module[1].running_var.uniform_(0.5, 2)
    other = copy.deepcopy(module)
    compiled(module)(IMAGES).square().sum().backward()
    other(IMAGES).square().sum().backward()
    for one, right in zip(gradients(module), gradients(other), strict=True):
        torch.testing.assert_close(one, right, rtol=1e-4, atol=1e-4)
    assert left() == set()


def test_dropout_draws_the_numbers_of_eager():
    module = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8), nn.Dropout(0.2), nn.ReLU()).train()
    other, model, x = copy.deepcopy(module), compiled(module), torch.randn(16, 8)
    for seed in range(3):
        results = []
        for one, function in ((module, model), (other, other)):
            one.zero_grad()
            torch.manual_seed(seed)
            results.append(function(x))
            results[-1].square().sum().backward()
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
        for one, right in zip(gradients(module), gradients(other), strict=True):
            torch.testing.assert_close(one, right, rtol=1e-4, atol=1e-4)
    forward, backward = onegraph.torch.stats().regions
    assert (forward.partitions, backward.partitions) == (1, 1)


def test_draws_keep_their_order():
    """Some wait for products, and draws behind them wait too, whatever reads their numbers first."""

    def drawn(x, w):
        product = x @ w
        late = torch.bernoulli(torch.sigmoid(product))
        first, second = torch.rand_like(product.t()), torch.rand(5, 4)
        normal = torch.randn(5, 4) @ w + functional.dropout(product.relu(), 0.5)
        return product + second, late, first, normal, torch.randint(9, (3,)), product.new_empty(5, 4).uniform_(2, 3)

    x, w, model = torch.randn(5, 4), torch.randn(4, 4), compiled(drawn)
    results = []
    for function in (model, drawn):
        torch.manual_seed(3)
        results.append([*function(x, w), torch.rand(1)])
    for one, right in zip(*results, strict=True):
        torch.testing.assert_close(one, right)


def test_detached_tensors_are_read_where_they_lie():
    """A second name of a picture has the strides of eager, so reading it would copy one with the channels last."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(torch.ops.aten.detach.default, (x,))
    second = graph.call_function(torch.ops.aten.detach.default, (first,))
    read = graph.call_function(torch.ops.aten.relu.default, (second,))
    end = graph.output((read, second))
    without_aliases(torch.fx.GraphModule({}, graph))
    assert read.args == (x,)
    assert end.args == ((read, second),)


def test_gradients_accumulate():
    module = Residual()
    other, model = copy.deepcopy(module), compiled(module)
    for x in (IMAGES[:4], IMAGES[4:]):
        model(x).square().sum().backward()
        other(x).square().sum().backward()
    largest = max(one.abs().max().item() for one in gradients(other))
    for one, right in zip(gradients(module), gradients(other), strict=True):
        torch.testing.assert_close(one, right, rtol=1e-3, atol=1e-5 * largest)


def test_a_graph_that_is_retained_runs_backward_again():
    x = torch.randn(4, 8, requires_grad=True)
    module = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    loss = compiled(module)(x).square().sum()
    loss.backward(retain_graph=True)
    first = x.grad.clone()
    loss.backward()
    torch.testing.assert_close(x.grad, 2 * first)
    with pytest.raises(RuntimeError, match=r"second time"):
        loss.backward()


def test_a_second_derivative_is_refused_as_by_pytorch():
    x = torch.randn(4, 8, requires_grad=True)
    loss = compiled(nn.Sequential(nn.Linear(8, 8), nn.Tanh()))(x).square().sum()
    (slope,) = torch.autograd.grad(loss, x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        slope.sum().backward()


@pytest.mark.parametrize("inside", [True, False])
def test_checkpoints(inside):
    from torch.utils.checkpoint import checkpoint

    module = nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.5), nn.GELU(), nn.Linear(32, 8)).train()
    other, x = copy.deepcopy(module), torch.randn(4, 8)

    def run(one, x):
        return checkpoint(one, x, use_reentrant=False)

    torch.manual_seed(3)
    found = compiled(lambda x: run(module, x))(x) if inside else run(compiled(module), x)
    found.square().sum().backward()
    torch.manual_seed(3)
    eager = run(other, x)
    eager.square().sum().backward()
    torch.testing.assert_close(found, eager, rtol=1e-4, atol=1e-5)
    for one, right in zip(gradients(module), gradients(other), strict=True):
        torch.testing.assert_close(one, right, rtol=1e-4, atol=1e-5)


def test_hooks_of_parameters_run_once_for_each_step():
    """Data parallel training reduces gradients in such hooks."""
    module, x, seen = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)), torch.randn(4, 8), []
    for name, one in module.named_parameters():
        one.register_post_accumulate_grad_hook(lambda one, name=name: seen.append((name, one.grad.norm().item())))
    model = compiled(module)
    for _ in range(2):
        model(x).square().sum().backward()
    assert sorted(name for name, _ in seen) == sorted([*dict(module.named_parameters())] * 2)


def test_a_parameter_without_a_gradient():
    module, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)), torch.randn(4, 8)
    module[0].requires_grad_(False)
    compiled(module)(x).sum().backward()
    assert [one is None for one in gradients(module)] == [True, True, False, False]


def test_pictures_for_the_backward_graph_have_channels_last():
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU()]
    module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(128, 2))
    eager, exact = copy.deepcopy(module), copy.deepcopy(module).double()
    x, kept = torch.randn(2, 3, 8, 8), []

    def packed(tensor):
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(packed, lambda tensor: tensor):
        results = compiled(module)(x), eager(x), exact(x.double())
    pictures = [one for one in kept if one.dtype is torch.float32 and one.dim() == 4 and not one.is_contiguous()]
    assert any(one.is_contiguous(memory_format=torch.channels_last) for one in pictures)
    for one in results:
        one.square().mean().backward()
    for own, other, right in zip(module.parameters(), eager.parameters(), exact.parameters(), strict=True):
        limit = 4 * (other.grad - right.grad).abs().max() + 1e-6 * right.grad.abs().max()
        assert (own.grad - right.grad).abs().max() <= limit


class Words(nn.Module):
    """Reads a table of words several times, also as the weight of the last layer if it is ``tied``."""

    def __init__(self, tied, reads=1, **options):
        super().__init__()
        self.words, self.places = nn.Embedding(50, 8, **options), nn.Embedding(9, 8)
        self.reads, self.last = reads, nn.Linear(8, 50, bias=False)
        if tied:
            self.last.weight = self.words.weight

    def forward(self, indices):
        x = self.places(torch.arange(indices.shape[1]))
        for _ in range(self.reads):
            x = torch.tanh(x + self.words(indices))
        return self.last(x)


TABLES = [
    (True, {}),
    (True, {"reads": 3}),
    (False, {"reads": 2}),
    (True, {"padding_idx": 4}),
    (False, {"padding_idx": 0}),
]


@pytest.mark.parametrize(("tied", "options"), TABLES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_tables(tied, options, dtype):
    indices = torch.tensor([[3, 4, 3, 0, 49], [4, 4, 0, 7, 3]])
    model = Words(tied, **options).to(dtype)
    exact = copy.deepcopy(model).double()
    exact(indices).sin().sum().backward()
    run = compiled(model)
    found = []
    for _ in range(2):
        model.zero_grad(set_to_none=True)
        run(indices).sin().sum().backward()
        found.append([one.grad.clone() for one in model.parameters()])
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))
    wanted = [one.grad for one in exact.parameters()]
    tolerance = 1e-5 if dtype is torch.float32 else 0.05
    for one, other in zip(found[0], wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=tolerance * float(other.abs().max()))
    assert left() == {"embedding", "embedding_gradient", *["add_rows_"] * (tied or "reads" in options)}


def test_rows_counted_by_frequency_stay_with_pytorch():
    indices = torch.tensor([[3, 4, 3, 0, 49]])
    model = Words(False, scale_grad_by_freq=True)
    exact = copy.deepcopy(model).double()
    exact(indices).sin().sum().backward()
    compiled(model)(indices).sin().sum().backward()
    torch.testing.assert_close(model.words.weight.grad.double(), exact.words.weight.grad, rtol=0, atol=1e-5)


def test_a_gradient_that_is_returned_too_is_not_changed():
    """The other gradient is a result of its own, so the rows go to new memory."""
    table = torch.randn(6, 4, requires_grad=True)
    given = torch.randn(6, 4, requires_grad=True)

    def rows(table, given):
        return functional.embedding(torch.tensor([1, 1, 5]), table).sum() * 2 + (table * given).sum()

    compiled(rows)(table, given).backward()
    wanted = given.detach().clone()
    wanted[1] += 4
    wanted[5] += 2
    torch.testing.assert_close(table.grad, wanted)
    torch.testing.assert_close(given.grad, table.detach())


@pytest.mark.parametrize("axes", [(0, 1), (0,)])
def test_rows_are_not_added_to_an_expanded_gradient(axes):
    """Its elements share memory."""
    table = torch.randn(6, 4, requires_grad=True)

    def loss(table):
        return functional.embedding(torch.tensor([1, 1, 5]), table).sum() + table.sum(axes).tanh().sum()

    compiled(loss)(table).backward()
    wanted = table.detach().double().requires_grad_()
    loss(wanted).backward()
    torch.testing.assert_close(table.grad.double(), wanted.grad, rtol=0, atol=1e-5)


def shapes_saved(monkeypatch, module, x):
    """The shapes of the arrays with four axes that the forward graph returns."""
    lowered, lower = [], compiled_part.lower_graph

    def recorded(*args, **options):
        lowered.append(lower(*args, **options))
        return lowered[-1]

    monkeypatch.setattr(compiled_part, "lower_graph", recorded)
    compiled(module)(x).sum().backward()
    return {tensor.shape for tensor in lowered[0].graph.outputs.values() if len(tensor.shape) == 4}


class Dense(nn.Module):
    """Joins two images, as a DenseNet does."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.last = nn.BatchNorm2d(8), nn.Conv2d(8, 5, 1)

    def forward(self, x):
        x = torch.relu(self.first(x))
        return self.last(torch.relu(self.norm(torch.cat([x, torch.relu(self.second(x))], 1))))


def test_joined_images_are_saved_with_the_channels_last(monkeypatch):
    shapes = shapes_saved(monkeypatch, Dense(), torch.randn(2, 3, 6, 7))
    assert (2, 6, 7, 8) in shapes
    assert all(shape[:3] == (2, 6, 7) for shape in shapes - {(2, 5, 6, 7)})


def test_scores_are_saved_as_they_are(monkeypatch):
    class Biased(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.randn(3, 5, 5))

        def forward(self, x):
            query, key, value = (one.transpose(1, 2) for one in x.view(2, 5, 9, 4).split(3, 2))
            return functional.scaled_dot_product_attention(query, key, value, attn_mask=self.bias)

    x = torch.randn(2, 5, 36, requires_grad=True)
    assert (2, 5, 5, 3) not in shapes_saved(monkeypatch, Biased(), x)


def test_the_graph_of_a_later_step_is_kept():
    module = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
    model, x = compiled(module), torch.randn(4, 6, requires_grad=True)
    for retained in (False, True, False):
        x.grad = None
        loss = model(x).square().sum()
        for _ in range(1 + retained):
            loss.backward(retain_graph=retained)
        (right,) = torch.autograd.grad(module(x).square().sum(), x)
        torch.testing.assert_close(x.grad, right * (1 + retained))


def test_view_of_a_result_that_pytorch_states_otherwise():
    """The norm of a transposed tensor has the columns behind each other, unlike PyTorch states: a view is a copy."""

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.linear = nn.BatchNorm1d(4), nn.Linear(4, 3)

        def forward(self, x):
            return self.linear(self.norm(x.transpose(1, 2)).transpose(1, 2))

    module, x = Norm(), torch.randn(2, 5, 4)
    found = torch.compile(module, backend="onegraph")(x)
    gradient = torch.autograd.grad(found.sum(), module.linear.weight)[0]
    wanted = module(x)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(gradient, torch.autograd.grad(wanted.sum(), module.linear.weight)[0])
