"""Writes in place under torch.compile: into inputs, such as the caches of a decoder, and into empty tensors."""

import pytest

torch = pytest.importorskip("torch")

import onegraph.torch  # noqa: E402, F401
from onegraph.frontends.torch import backend  # noqa: E402

pytestmark = [pytest.mark.library, pytest.mark.filterwarnings("ignore")]
WEIGHT = torch.linspace(-1, 1, 64).view(8, 8)


def rows(x):
    return (x @ WEIGHT).tanh().view(1, 1, 2, 4).transpose(1, 2)


def cache(x, place, kept):
    kept.index_copy_(2, place, rows(x))
    return torch.nn.functional.scaled_dot_product_attention(rows(x), kept, kept)


def written_twice(x, place, kept):
    kept.index_copy_(2, place, rows(x))
    kept.index_copy_(2, place + 1, rows(x) * 2)
    return kept.sum(2)


def read_before(x, place, kept):
    before = kept * 2
    kept.index_copy_(2, place, rows(x))
    return kept + before


def old_view(x, place, kept):
    old = kept.clone()
    kept.index_copy_(2, place, rows(x))
    return old[:, :, :3] + kept[:, :, :3]


def other_memory(x, place, kept):
    made = kept.index_copy(2, place, rows(x))
    kept.copy_(made)
    return made


def own_rows(x, place, kept):
    kept.index_copy_(2, place, kept[:, :, 5:6])
    return rows(x) + kept.sum()


# Functions, and the number of writes that PyTorch does in place.
WRITES = {cache: 1, written_twice: 2, read_before: None, old_view: None, other_memory: 0, own_rows: 0}


@pytest.mark.parametrize("function", WRITES, ids=lambda one: one.__name__)
def test_writes_into_inputs_are_those_of_eager(function, monkeypatch):
    modules = []

    def watched(made, written):
        in_place(made, written)
        modules.append(made)

    in_place = backend.write_in_place
    monkeypatch.setattr(backend, "write_in_place", watched)
    found = []
    for name in ("eager", "onegraph"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        kept, run = torch.randn(1, 2, 16, 4), torch.compile(function, backend=name)
        with torch.no_grad():
            for place in (3, 4):
                before = kept._version
                result = run(torch.randn(1, 1, 8), torch.tensor([place]), kept)
                assert kept._version > before
        again = result.clone()
        kept.add_(1)  # is not seen in a result with memory of its own
        found.append((kept, result, again))
    for one, wanted in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(one, wanted, rtol=1e-5, atol=1e-5)
    writes = [node for node in modules[-1].graph.nodes if str(node.target).startswith("aten.index_put_.")]
    assert WRITES[function] in (None, len(writes))


FIRST = torch.tensor([0])
EMPTY = {
    "index_fill_": lambda x: x.index_fill_(0, FIRST, 1),
    "index_copy_": lambda x: x.index_copy_(0, FIRST[:0], x[:0]),
    "index_add_": lambda x: x.index_add_(0, FIRST[:0], x[:0]),
    "index_put_": lambda x: x.index_put_((FIRST[:0],), x[:0]),
    "scatter_": lambda x: x.scatter_(0, torch.zeros(x.shape, dtype=torch.int64), 2.0),
    "masked_fill_": lambda x: x.masked_fill_(x > 0, 1),
    "masked_scatter_": lambda x: x.masked_scatter_(x > 0, x),
    "index_select": lambda x: x.index_select(0, FIRST[:0]),
}


@pytest.mark.parametrize("shape", [(0, 2, 0), (2, 0), (0,)])
def test_writes_into_nothing_are_those_of_eager(shape):
    def function(x):
        return [write(x.clone()) for write in writes]

    def told(write):
        try:
            return write(torch.zeros(shape)).shape
        except (RuntimeError, IndexError) as error:
            return type(error)

    writes = [write for write in EMPTY.values() if not isinstance(told(write), type)]
    assert len(writes) > 5
    torch._dynamo.reset()
    found = torch.compile(function, backend="onegraph")(torch.zeros(shape))
    assert [one.shape for one in found] == [told(write) for write in writes]
