"""The backend of torch.compile: results, gradients, sharing of memory, and what is left to PyTorch."""

import copy
import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from helpers.torch_backend import Attention, Small, agree, compiled  # noqa: E402
from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count  # noqa: E402

import onegraph.torch  # noqa: E402
from onegraph.errors import ArgumentError, UnsupportedError  # noqa: E402
from onegraph.frontends.torch.options import BackendOptions  # noqa: E402

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


class Recurrent(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.layers = nn.LSTM(6, 20, **options)

    def forward(self, x):
        states, (hidden, cell) = self.layers(x)
        return torch.cat([states.flatten(), hidden.flatten(), cell.flatten()])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_convolutional_model(dtype):
    with torch.no_grad():
        agree(Small().eval(), torch.randn(2, 3, 8, 8), dtype=dtype)
    assert onegraph.torch.stats().left == ()
    assert onegraph.torch.stats().share == 1


@pytest.mark.parametrize(
    ("options", "mask"),
    [
        ({}, None),
        ({"is_causal": True}, None),
        ({"scale": 0.3}, None),
        ({}, torch.randn(6, 6)),
        ({}, torch.arange(6)[:, None] >= torch.arange(6)),
        ({}, torch.tensor([[True] * 6, [False] * 6] * 3)),
    ],
)
def test_attention(options, mask):
    with torch.no_grad():
        agree(Attention(**options).eval(), torch.randn(2, 6, 16), mask)
    assert not any("attention" in one.op for one in onegraph.torch.stats().left)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("options", "mask"), [({}, None), ({"is_causal": True, "scale": 0.3}, None), ({}, torch.randn(260, 260))]
)
def test_long_attention_runs_in_tiles(options, mask, dtype):
    with torch.no_grad():
        agree(Attention(**options).eval(), torch.randn(2, 260, 16), mask, dtype=dtype)
    assert not any("attention" in one.op for one in onegraph.torch.stats().left)


@pytest.mark.parametrize("tokens", [6, 260])
@pytest.mark.parametrize(
    ("options", "mask"),
    [({}, None), ({"is_causal": True}, None), ({"scale": 0.3}, True)],
)
def test_training_attention_runs_here(options, mask, tokens):
    module, x = Attention(**options), torch.randn(2, tokens, 16)
    mask = None if mask is None else torch.randn(tokens, tokens)
    results = []
    for one, data in ((copy.deepcopy(module).double(), x.double()), (module, x)):
        model = one if data is not x else compiled(one)
        source = data.clone().requires_grad_()
        given = None if mask is None else mask.to(data.dtype)
        (model(source, given) * torch.arange(16, dtype=data.dtype)).sum().backward()
        results.append([source.grad, one.project.weight.grad, one.project.bias.grad])
    for wanted, found in zip(*results, strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))
    assert not any("attention" in one.op for one in onegraph.torch.stats().left)
    assert {one.kind for one in onegraph.torch.stats().regions} == {"forward", "backward"}


def test_a_row_without_keys_is_zero():
    mask = torch.zeros(6, 6)
    mask[2] = -np.inf
    with torch.no_grad():
        agree(Attention().eval(), torch.randn(2, 6, 16), mask)


def test_the_least_number_as_a_mask_hides_nothing_alone():
    mask = torch.zeros(6, 6)
    mask[2] = torch.finfo(torch.float32).min
    with torch.no_grad():
        agree(Attention().eval(), torch.randn(2, 6, 16), mask)


@pytest.mark.parametrize(
    "options", [{}, {"bias": False}, {"batch_first": True, "bidirectional": True, "num_layers": 2}]
)
def test_layers_of_an_lstm_run_here(options):
    """PyTorch takes them apart for training, and makes them graph breaks unless it is told not to."""
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        agree(Recurrent(**options).eval(), torch.randn(3, 5, 6))
    stats = onegraph.torch.stats()
    assert "mkldnn_rnn_layer" not in str(stats)
    assert stats.share == 1


def test_channels_last_input_is_not_copied():
    module = Small().eval()
    x = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        model = compiled(module)
        torch.testing.assert_close(model(x), module(x))


def test_result_has_the_strides_of_eager():
    module = nn.Conv2d(3, 8, 3).eval().to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        assert compiled(module)(x).stride() == module(x).stride()


def test_parameters_are_constants():
    module, seen = Small().eval(), []
    model = compiled(module)
    original = onegraph.Graph.compile

    def recorded(graph, **options):
        seen.append([*graph.inputs.values()])
        return original(graph, **options)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(onegraph.Graph, "compile", recorded)
        model(torch.randn(2, 3, 8, 8))
    assert [len(one) for one in seen] == [1]


def test_a_written_parameter_counts():
    module, x = nn.Linear(4, 3).eval(), torch.randn(2, 4)
    model = compiled(module)
    with torch.no_grad():
        model(x)
        module.weight.mul_(2)
        torch.testing.assert_close(model(x), module(x))
        module.load_state_dict({"weight": torch.ones(3, 4), "bias": torch.zeros(3)})
        torch.testing.assert_close(model(x), module(x))


def test_parameters_that_are_written_often_become_inputs():
    module, x = nn.Linear(4, 3).eval(), torch.randn(2, 4)
    model = compiled(module)
    with torch.no_grad():
        for _ in range(8):
            module.weight.mul_(1.5)
            torch.testing.assert_close(model(x), module(x))
    found = onegraph.torch.stats()
    assert (found.graphs, [*found.programs.values()]) == (1, [4, 1])  # 4 with constants, and the last
    assert "4 prepared for the weights of one module, 1 reading the weights in each call" in str(found)


def test_parameters_made_in_inference_mode():
    with torch.inference_mode():
        module, x = nn.Linear(4, 3).eval(), torch.randn(2, 4)
        model = compiled(module)
        torch.testing.assert_close(model(x), module(x))
        module.weight.mul_(2)
        torch.testing.assert_close(model(x), module(x))


def test_two_modules_of_one_class_keep_their_parameters():
    first, second, x = nn.Linear(4, 3), nn.Linear(4, 3), torch.randn(2, 4)
    with torch.no_grad():
        torch.testing.assert_close(compiled(first)(x), first(x))
        torch.testing.assert_close(compiled(second)(x), second(x))
        torch.testing.assert_close(compiled(first)(x), first(x))


def test_tied_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens):
            return self.head(torch.tanh(self.embedding(tokens)))

    with torch.no_grad():
        agree(Tied().eval(), torch.arange(6).reshape(2, 3))


def test_updates_in_place_and_views():
    def function(x):
        y = torch.tanh(x)
        y[1:] += 2
        z = y.view(-1)
        z.mul_(3)
        return y, x.t()

    x = torch.randn(3, 4)
    expected, found = function(x), compiled(function, smallest=1)(x)
    torch.testing.assert_close(found[0], expected[0])
    assert found[1].data_ptr() == x.data_ptr()


def test_an_input_that_is_written_in_place():
    def function(x):
        x.add_(torch.sigmoid(x))
        return x * 2

    x = torch.randn(3, 4)
    y = x.clone()
    torch.testing.assert_close(compiled(function, smallest=1)(x), function(y))
    torch.testing.assert_close(x, y)


def test_buffers_of_a_training_batch_norm():
    module = Small().train()
    other, x = copy.deepcopy(module), torch.randn(4, 3, 8, 8)
    with torch.no_grad():
        model = compiled(module)
        for _ in range(3):
            torch.testing.assert_close(model(x), other(x), rtol=1e-4, atol=1e-5)
    for one, right in zip(module.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(one, right, rtol=1e-4, atol=1e-6)


def test_marked_dims_need_no_new_graph():
    module = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)).eval()
    model = compiled(module)
    with torch.no_grad():
        for size in (3, 5, 7, 3):
            x = torch.randn(size, 8)
            torch._dynamo.mark_dynamic(x, 0)
            torch.testing.assert_close(model(x), module(x), rtol=1e-5, atol=1e-5)
    assert onegraph.torch.stats().graphs == 1


def test_sizes_in_the_arguments_of_views():
    model = compiled(Attention().eval())
    with torch.no_grad():
        for tokens in (4, 6, 9):
            x = torch.randn(2, tokens, 16)
            torch._dynamo.mark_dynamic(x, 1)
            torch.testing.assert_close(model(x), model._orig_mod(x), rtol=1e-5, atol=1e-5)


def test_autocast_to_bfloat16():
    module, x = Small().eval(), torch.randn(2, 3, 8, 8)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found, expected = compiled(module)(x), module(x)
    assert found.dtype == expected.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.05)


class Trained(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8)
        self.inner, self.layer, self.outer = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4)

    def forward(self, x):
        x = functional.silu(self.norm(self.convolution(x)))
        x = functional.avg_pool2d(x, 2).mean((2, 3))
        return self.outer(self.layer(functional.gelu(self.inner(x)))).log_softmax(-1)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (Trained, (4, 3, 16, 16)),
        (lambda: nn.Sequential(nn.Flatten(1, 2), nn.Linear(8, 16), Attention()), (4, 3, 2, 8)),
    ],
)
def test_gradients(make, shape):
    module, x = make(), torch.randn(shape)

    def gradients(module, function, x):
        module.zero_grad()
        function(x).square().mean().backward()
        return [one.grad.clone().double() for one in module.parameters()]

    wide = copy.deepcopy(module).double()
    exact = gradients(wide, wide, x.double())
    eager = gradients(module, module, x)
    found = gradients(module, compiled(module), x)
    kinds = [one.kind for one in onegraph.torch.stats().regions]
    assert kinds == ["forward", "backward"]
    largest = max(one.abs().max() for one in exact)
    for one, other, right in zip(found, eager, exact, strict=True):
        assert (one - right).abs().max() <= 8 * (other - right).abs().max() + 2e-6 * largest


def test_logarithms_of_numbers_near_one():
    x = 1 + torch.linspace(-1e-4, 1e-4, 64)
    found = compiled(lambda x: torch.log(torch.sigmoid(x) / torch.sigmoid(x.detach().clone()) * x), smallest=1)(x)
    torch.testing.assert_close(found, torch.log(x), rtol=1e-2, atol=2.5e-7)


def test_results_of_one_call_are_read_by_several_parts():
    def function(x):
        first, second, third = torch.tanh(x @ x).split(4, 1)
        return torch.linalg.inv(first @ second.T + torch.eye(12)) @ third

    x = torch.eye(12) + 0.1 * torch.randn(12, 12)
    torch.testing.assert_close(compiled(function)(x), function(x), rtol=1e-4, atol=1e-5)
    assert onegraph.torch.stats().partitions == 2


def test_a_mask_that_starts_from_zeros_is_a_constant():
    def function(x):
        y = torch.tanh(x @ x)
        mask = y.new_zeros(4, 4)
        mask[1:, :2] = 3
        return torch.sigmoid(y + mask.masked_fill(mask != 0, -1.0) + torch.full_like(y, 2) @ y)

    x = torch.randn(4, 4)
    torch.testing.assert_close(compiled(function)(x), function(x))
    found = onegraph.torch.stats()
    assert (found.partitions, found.left) == (1, ())


def test_statistics_name_what_is_left():
    def function(x):
        return torch.linalg.inv(x @ x) @ x

    x = torch.eye(4) + 0.1
    torch.testing.assert_close(compiled(function)(x), function(x))
    found = onegraph.torch.stats()
    assert [one.op for one in found.left] == ["aten.linalg_inv_ex.default"]
    assert "linalg_inv_ex" in str(found)
    assert found.to_dict()["left"][0]["count"] == 1


def test_products_of_parameters_alone_do_not_count():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = (nn.Parameter(torch.randn(4, 4)) for _ in range(2))

        def forward(self, x):
            return x @ (self.first @ self.second)

    with torch.no_grad():
        compiled(Twice().eval())(torch.ones(2, 4))
    assert onegraph.torch.stats().regions[0].products == (2 * 4 * 4, 2 * 4 * 4)


@pytest.mark.parametrize("keys", [7, 300])
def test_products_of_attention_are_those_of_pytorch(keys):
    shapes = (2, 4, 300, 16), (2, 4, keys, 16), (2, 4, keys, 16)
    query, key, value = (torch.randn(shape, requires_grad=True) for shape in shapes)
    compiled(functional.scaled_dot_product_attention)(query, key, value).sum().backward()
    counted = {one.kind: one.products[0] for one in onegraph.torch.stats().regions}
    forward = sdpa_flop_count(*shapes) // 2
    backward = sdpa_backward_flop_count(shapes[0], *shapes) // 2
    assert counted == {"forward": forward, "backward": backward}


def test_products_of_grouped_queries_count_each_head():
    query, key = torch.randn(1, 8, 5, 16), torch.randn(1, 2, 6, 16)
    with torch.no_grad():
        compiled(lambda *given: functional.scaled_dot_product_attention(*given, enable_gqa=True))(query, key, key)
    assert onegraph.torch.stats().regions[0].products[0] == 8 * 5 * 6 * (16 + 16)


def test_an_unsupported_op_raises_on_request():
    with pytest.raises(Exception, match=r"linalg_inv_ex") as caught:
        compiled(torch.linalg.inv, fallback="error")(torch.eye(4))
    assert UnsupportedError.__name__ in repr(caught.value) or "UnsupportedError" in str(caught.getrepr())


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.randn(4, 4, dtype=torch.complex64), "complex64"),
        (lambda: torch.randn(4, 4, dtype=torch.float64), "float64"),
    ],
)
def test_other_data_types_run_in_pytorch(make, text):
    x = make()
    torch.testing.assert_close(compiled(lambda x: torch.tanh(x) @ x)(x), torch.tanh(x) @ x)
    assert any(text in one.reason or "numpy" in one.reason for one in onegraph.torch.stats().left)


@pytest.mark.parametrize(
    "options", [{"fallback": "never"}, {"thread": 1}, {"threads": 0}, {"prepare": 1}, {"frozen": "yes"}]
)
def test_wrong_options_are_refused(options):
    with pytest.raises(Exception, match="expected") as caught:
        compiled(torch.tanh, **options)(torch.ones(3))
    assert ArgumentError.__name__ in str(caught.getrepr())


def test_rows_without_keys_of_a_trained_mask_are_zero():
    mask = torch.randn(4, 6, 6)
    mask[1, 3], mask[2, 5, 1] = -torch.inf, -torch.inf
    module, x = Attention().eval(), torch.randn(2, 6, 16)
    with torch.no_grad():
        agree(module, x, mask)


def test_page_of_the_backend_lists_every_option():
    page = Path(__file__).parents[2] / "docs" / "api" / "torch.md"
    listed = dict(re.findall(r"^\| `(\w+)` \| `?([^`|]+?)`? \|", page.read_text(), flags=re.MULTILINE))
    stated = {
        name: json.dumps(value) if isinstance(value, str) else str(value)
        for name, value in BackendOptions()._asdict().items()
    }
    assert listed == {**stated, "threads": "that of PyTorch"}
