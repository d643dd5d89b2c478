"""Export with open dims: one graph computes what eager PyTorch computes for every size."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import onegraph as og  # noqa: E402
import onegraph.torch  # noqa: E402
from onegraph.errors import ArgumentError, UnsupportedError  # noqa: E402

pytestmark = [pytest.mark.library, pytest.mark.filterwarnings("ignore")]
nn, Dim = torch.nn, torch.export.Dim
AUTO = Dim.AUTO


class Attention(nn.Module):
    """Attention over (batch, tokens, 8)."""

    def __init__(self):
        super().__init__()
        self.norm, self.heads, self.inner = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.heads(self.norm(x)).view(batch, tokens, 3, 2, 4).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.inner(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Parts(nn.Module):
    """Joins, slices, sums, and a reshape to products of sizes."""

    def forward(self, x, y):
        batch, tokens, width = x.shape
        rows = (x * y[:, None]).reshape(batch * tokens, width)
        again = torch.cat([rows, rows * 2], 0).reshape(2, batch, tokens, width)
        return rows, again.sum(0), x[1:], x[:, -2:, ::3], x[:, :-1], x.softmax(1).mean(0), x.transpose(0, 1).exp()


class Tokens(nn.Module):
    """What language models and vision transformers make of the numbers of batches and tokens."""

    def __init__(self):
        super().__init__()
        self.first, self.places = nn.Parameter(torch.randn(1, 1, 8)), nn.Embedding(80, 8)

    def forward(self, x):
        batch, tokens, width = x.shape
        place = torch.arange(tokens)
        sees = place[None, :] <= place[:, None]
        scores = x @ x.transpose(1, 2)
        later = torch.full((tokens, tokens), float("-inf")).triu(1)
        angles = torch.outer(torch.arange(tokens).float(), 10000 ** -(torch.arange(0, 4) / 4))
        return (
            torch.cat([self.first.expand(batch, -1, -1), x + self.places(place)], 1) + x.new_zeros(batch, 1, width),
            x + self.places.weight[:tokens] - self.places.weight[2 : 2 * tokens + 2 : 2],
            (scores + later).softmax(-1),
            scores.masked_fill(~sees, -1e9).softmax(-1) * torch.ones(batch, 1, tokens),
            x * torch.cat([angles.cos(), angles.sin()], -1) / tokens,
            nn.functional.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], is_causal=True),
            torch.arange(2, 2 * tokens + 1, 2, dtype=torch.float32),
            torch.where(sees.view(1, -1), 1.5, 0.0),
            x[:, -1] + x[:, 1] * x[:, -2],
            sees[place, torch.zeros_like(place)],
        )


class Ends(nn.Module):
    """What counts from the end of an open axis, writes into a part of it, or divides by its size."""

    def forward(self, x):
        tokens = x.shape[1]
        inner, even, last = x.clone(), x.clone(), x.clone()
        inner[:, 1:-1] += 1
        even[:, ::2] = x[:, 1 : tokens // 2 + 1].sum(1, keepdim=True)
        last[:, -1] = x[:, tokens // 2]
        scores = x @ x.mT
        return (
            *(x.flip(1), x.flip(0, -1), x.roll((-1, 2), (0, 1)), x[:, : tokens // 2], inner, even, last),
            torch.slice_scatter(x, x[:, 1::3] * 2, 1, 1, None, 3),
            *(x.std(1), x.var((0, 1)), x.var(1, unbiased=False), *torch.var_mean(x, (0, 1), keepdim=True)),
            nn.functional.pad(x, (1, -1, 2, 1, -1, 0), value=3.0),
            nn.functional.pad(x.mT, (1, 2), mode="circular"),
            *(x[:, torch.tensor([0, 1, 0])], x.scatter(1, x.argsort(1), 1.5)),
            *(*x.sort(1), x.cumprod(1), scores.diagonal(-1, 1, 2), scores + torch.eye(tokens)),
        )


def pictures():
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))


# A module, example inputs, open dims, and further shapes.
CASES = {
    "attention": (Attention, [(3, 5, 8)], ({0: Dim("b"), 1: Dim("t")},), [[(1, 1, 8)], [(4, 64, 8)]]),
    "parts": (
        Parts,
        [(4, 5, 6), (4, 6)],
        ({0: AUTO, 1: AUTO}, {0: AUTO}),
        [[(3, 9, 6), (3, 6)], [(7, 2, 6), (7, 6)], [(2, 3, 6), (2, 6)]],
    ),
    "tokens": (Tokens, [(3, 7, 8)], ({0: AUTO, 1: Dim("t", max=39)},), [[(1, 5, 8)], [(4, 39, 8)]]),
    "ends": (Ends, [(3, 7, 8)], ({0: AUTO, 1: AUTO},), [[(2, 33, 8)], [(5, 4, 8)], [(2, 16, 8)]]),
    "pictures": (pictures, [(2, 3, 16, 18)], ({0: AUTO, 2: AUTO, 3: AUTO},), [[(1, 3, 16, 18)], [(3, 3, 7, 30)]]),
}


@pytest.mark.parametrize("name", CASES)
def test_one_graph_computes_every_size(name, tmp_path):
    torch.manual_seed(0)
    make, shapes, dims, others = CASES[name]
    module = make().eval()
    examples = tuple(map(torch.randn, shapes))
    if name == "attention":
        graph = onegraph.torch.export(module, examples, dynamic_shapes=dims)
    else:
        program = torch.export.export(module, examples, dynamic_shapes=dims, strict=False)
        torch.export.save(program, tmp_path / "open.pt2")
        graph = onegraph.torch.export(tmp_path / "open.pt2")
    opened = [[axis for axis, dim in enumerate(one.shape) if dim is None] for one in graph.inputs.values()]
    assert opened == [[*one] for one in dims]
    graph.save(tmp_path / "open.json")
    models = [graph.compile(), og.load(tmp_path / "open.json").compile()]
    for some in [shapes, *others]:
        given = [torch.randn(shape) for shape in some]
        expected = torch.utils._pytree.tree_leaves(module(*given))
        for model in models:
            results = torch.utils._pytree.tree_leaves(model(*[one.numpy() for one in given]))
            for found, wanted in zip(results, expected, strict=True):
                np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


class Windows(nn.Module):
    def forward(self, x):
        return x.unfold(1, 2, 1)


class Scaled(nn.Module):
    def forward(self, x):
        return x * (1 / x.shape[1])


@pytest.mark.parametrize(
    ("module", "dims", "reason"),
    [
        (Windows(), {1: Dim("t", min=3, max=64)}, r"unfold.* other sizes, such as \w+ = 3 \(from 3 to 64\); narrow"),
        (Scaled(), {1: AUTO}, "no size follows from an open dim|is lowered otherwise for other sizes"),
    ],
    ids=["windows", "number"],
)
def test_what_does_not_hold_for_all_sizes_is_refused(module, dims, reason):
    with pytest.raises(UnsupportedError, match=reason):
        onegraph.torch.export(module.eval(), (torch.randn(2, 7, 8),), dynamic_shapes=(dims,))


class Ordered(nn.Module):
    def forward(self, x):
        return torch.take_along_dim(x, x.argsort(1), 1)


def test_sizes_that_pytorch_fixes_become_known():
    x = torch.randn(3, 7, 8)
    found = onegraph.torch.export(Ordered(), (x,), dynamic_shapes=({0: AUTO, 1: AUTO},)).compile()(x.numpy())
    np.testing.assert_array_equal(found, x.sort(1)[0].numpy())


def test_a_program_has_dynamic_shapes_of_its_own():
    program = torch.export.export(nn.Linear(3, 3), (torch.ones(2, 3),))
    with pytest.raises(ArgumentError, match="dynamic shapes"):
        onegraph.torch.export(program, dynamic_shapes=({0: AUTO},))
