"""Writes in place under torch.compile: into inputs, such as the caches of a decoder, and into empty tensors."""

from concurrent.futures import ThreadPoolExecutor

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


def summed(x, place, kept):
    """As ``cache``, and a sum of three tensors, which the library computes in the compiling thread alone."""
    tokens = rows(x)
    return cache(x, place, kept) + tokens.cos() + tokens.flip(3)


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


def scattered(x, place, kept):
    kept.scatter_(2, place.view(1, 1, 1, 1).expand(1, 2, 1, 4), rows(x))
    return kept * 2


def a_part(x, place, kept):
    kept[:, :, 3:4] = rows(x)
    kept[:, :, 5] = rows(x)[:, :, 0]
    return kept * 2


def doubled(x, place, kept):
    kept.mul_(2).add_(1).tanh_()
    return rows(x)


# Functions, whether the cache is written in place, and by how many calls of PyTorch.
WRITES = {
    cache: (True, 0),
    summed: (True, 0),
    written_twice: (True, 2),
    read_before: (True, None),
    old_view: (None, None),
    other_memory: (False, 0),
    own_rows: (False, 0),
    scattered: (True, 0),
    a_part: (False, 0),
    doubled: (None, 0),
}


@pytest.fixture
def in_place(monkeypatch):
    """For each graph, whether an input is written in place, and the calls of PyTorch that do so."""
    seen, original = [], backend.write_in_place

    def watched(made, written):
        places = original(made, written)
        ops = [str(node.target) for node in made.graph.nodes if node.op == "call_function"]
        seen.append((bool(places), [name for name in ops if "_." in name]))
        return places

    monkeypatch.setattr(backend, "write_in_place", watched)
    return seen


def both(function, shape, options=None):
    """What eager and the compiled function leave in a cache and return, with two tokens; and a later result."""
    found = []
    for name in ("eager", "onegraph"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        kept, run = torch.randn(shape), torch.compile(function, backend=name, **(options or {}))
        with torch.no_grad():
            for place in (3, 4):
                before = kept._version
                result = run(torch.randn(1, 1, 8), torch.tensor([place]), kept)
                assert kept._version > before
        again = result.clone()
        kept.add_(1)  # is not seen in a result with memory of its own
        found.append((kept, result, again))
    return zip(found[1], found[0], strict=True)


@pytest.mark.parametrize("function", WRITES, ids=lambda one: one.__name__)
def test_writes_into_inputs_are_those_of_eager(function, in_place):
    for one, wanted in both(function, (1, 2, 16, 4)):
        torch.testing.assert_close(one, wanted, rtol=1e-5, atol=1e-5)
    is_in_place, calls = WRITES[function]
    assert is_in_place in (None, in_place[-1][0])
    assert calls in (None, len(in_place[-1][1]))


@pytest.mark.parametrize("dynamic", [False, True])
def test_pytorch_writes_parts_of_large_inputs(in_place, dynamic):
    for one, wanted in both(a_part, (1, 2, 16 << 11, 4), {"dynamic": dynamic}):
        torch.testing.assert_close(one, wanted, rtol=1e-5, atol=1e-5)
    assert in_place[-1] == (True, ["onegraph.slice_.default", "onegraph.select_.default"])


def test_an_input_at_another_address_is_written_too():
    """The library takes no address that is no multiple of 64, or of 16, so the call copies the result."""
    for offset in (0, 1):
        results = []
        for name in ("eager", "onegraph"):
            torch._dynamo.reset()
            torch.manual_seed(0)
            kept = torch.randn(129)[offset : offset + 128].view(1, 2, 16, 4)
            with torch.no_grad():
                result = torch.compile(cache, backend=name)(torch.randn(1, 1, 8), torch.tensor([3]), kept)
            results += [result, kept]
        torch.testing.assert_close(results[2:], results[:2], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("function", [cache, summed], ids=lambda one: one.__name__)
def test_another_thread_writes_into_an_input_too(function):
    torch._dynamo.reset()
    torch.manual_seed(0)
    kept = torch.randn(1, 2, 16, 4)
    wanted, run = kept.clone(), torch.compile(function, backend="onegraph")

    def token(place):
        with torch.no_grad():
            x = torch.randn(1, 1, 8)
            torch.testing.assert_close(
                run(x, torch.tensor([place]), kept), function(x, torch.tensor([place]), wanted), rtol=1e-5, atol=1e-5
            )

    with ThreadPoolExecutor(1) as elsewhere:
        for place in (3, 4, 5):
            token(place)
            elsewhere.submit(token, place + 5).result()
    torch.testing.assert_close(kept, wanted, rtol=1e-5, atol=1e-5)


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
