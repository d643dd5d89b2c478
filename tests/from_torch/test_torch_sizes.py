"""Compiled modules whose sizes change share what no size reaches, and compute what eager PyTorch computes."""

import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sympy = pytest.importorskip("sympy")  # comes with it

from torch.fx.experimental.sym_node import SymNode  # noqa: E402
from torch.fx.experimental.symbolic_shapes import ShapeEnv  # noqa: E402
from torch.utils._sympy.functions import FloorDiv, ToFloat, TruncToInt  # noqa: E402

import onegraph.torch  # noqa: E402
from onegraph._util.size_symbols import OpenSizes  # noqa: E402
from onegraph.capi import compilation  # noqa: E402
from onegraph.compiler.library_steps import NoParametersError  # noqa: E402
from onegraph.errors import StatusError  # noqa: E402
from onegraph.frontends.torch import sizes  # noqa: E402
from onegraph.frontends.torch.options import options_of  # noqa: E402
from onegraph.frontends.torch.stated_sizes import StatedSizes, value_of  # noqa: E402
from onegraph.native.library import HASHES_CONSTANTS  # noqa: E402
from onegraph.runtime.executable import Executable  # noqa: E402
from onegraph.runtime.plan import EXECUTE  # noqa: E402
from onegraph.runtime.program_call import ProgramCall  # noqa: E402

functional = torch.nn.functional
pytestmark = [pytest.mark.library, pytest.mark.filterwarnings("ignore")]


def module():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32)).eval()


@pytest.mark.skipif(HASHES_CONSTANTS, reason="newer libraries find prepared constants by a hash, for one program each")
def test_close_sizes_share_prepared_weights(monkeypatch):
    model, jobs, compile_all = module(), [], compilation.compile_all
    run = torch.compile(model, backend=onegraph.torch.backend, dynamic=True)

    def counted(given, most):
        jobs.append(len(given))
        return compile_all(given, most)

    with torch.no_grad():
        for size in (36, 20, 33):
            run(torch.randn(size, 32))
        monkeypatch.setattr("onegraph.capi.postponed.compile_all", counted)
        for size in (34, 35, 18, 17, 19):
            x = torch.randn(size, 32)
            torch.testing.assert_close(run(x), model(x), rtol=1e-5, atol=1e-5)
    assert sum(jobs) == 0


def test_weights_that_change_are_seen_by_every_size():
    model = module()
    run = torch.compile(model, backend=onegraph.torch.backend, dynamic=True)
    with torch.no_grad():
        for round_ in range(3):
            for size in (5, 9, 33, 34):
                x = torch.randn(size, 32)
                torch.testing.assert_close(run(x), model(x), rtol=1e-5, atol=1e-5)
            model[round_ % 3 // 2 * 2].weight.data.mul_(1.5)


class Decoder(torch.nn.Module):
    """A layer whose caches grow, and a head; the sizes of caches may say the places of tokens."""

    def __init__(self, places):
        super().__init__()
        self.places = places
        self.heads, self.inner = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)
        self.norm, self.wide = torch.nn.LayerNorm(32), torch.nn.Linear(32, 64)

    def forward(self, x, keys, values):
        batch, tokens, width = x.shape
        if self.places:
            x = x + torch.cos((torch.arange(tokens) + keys.shape[2])[:, None] * 0.1)
        q, k, v = self.heads(self.norm(x)).view(batch, tokens, 3, 4, 8).permute(2, 0, 3, 1, 4)
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        mixed = functional.scaled_dot_product_attention(q, keys, values)
        x = x + self.inner(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return torch.nn.functional.gelu(self.wide(x)), keys, values


@pytest.mark.parametrize("places", [False, True])
def test_growing_caches_are_traced_for_two_sizes_only(places):
    torch.manual_seed(0)
    torch._dynamo.reset()
    onegraph.torch.reset()
    model = Decoder(places).eval()
    run = torch.compile(model, backend=onegraph.torch.backend, dynamic=True)
    with torch.no_grad():
        mine = theirs = (torch.randn(2, 4, 17, 8), torch.randn(2, 4, 17, 8))
        for step in range(12):
            x = torch.randn(2, 1, 32)
            (result, *mine), (expected, *theirs) = run(x, *mine), model(x, *theirs)
            torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5, msg=str(step))
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)
    found = onegraph.torch.stats()
    if not HASHES_CONSTANTS:
        assert found.reused >= 9
        assert found.compilations <= 3
        assert "made of the steps for another one" in str(found)


@pytest.mark.skipif(HASHES_CONSTANTS, reason="programs of newer libraries are compiled for each size")
def test_grouped_heads_of_16_bits_over_a_growing_cache_are_compiled_for_no_length(monkeypatch):
    def attended(query, keys, values, key, value):
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        return functional.scaled_dot_product_attention(query, keys, values, enable_gqa=True), keys, values

    jobs, compile_all = [], compilation.compile_all
    run = torch.compile(attended, backend=onegraph.torch.backend, dynamic=True)
    with torch.no_grad():
        mine = torch.randn(2, 1, 2, 17, 8).bfloat16().unbind()
        for step in range(6):
            if step == 3:
                monkeypatch.setattr("onegraph.capi.postponed.compile_all", lambda *a: jobs.append(a) or compile_all(*a))
            # Scores of 20 to 100, which 16 bits round by up to 0.25.
            query, key, value = (torch.randn(1, count, 1, 8).bfloat16() * 4 for count in (4, 2, 2))
            expected = attended(*(part.float() for part in (query, *mine, key, value)))[0]
            result, *mine = run(query, *mine, key, value)
            torch.testing.assert_close(result.float(), expected, rtol=0.02, atol=0.05)
    assert not jobs


@pytest.mark.skipif(HASHES_CONSTANTS, reason="programs of newer libraries are compiled for each size")
def test_later_sizes_need_no_executable_unless_a_call_does_not_fit(monkeypatch):
    model, made = module(), []
    run = torch.compile(model, backend=onegraph.torch.backend, dynamic=True)
    of_program = Executable._of_program.__func__

    def counted(cls, *arguments):
        made.append(1)
        return of_program(cls, *arguments)

    monkeypatch.setattr(Executable, "_of_program", classmethod(counted))
    with torch.no_grad():
        for size in (36, 20, 33, 34, 35):
            x = torch.randn(size, 32)
            torch.testing.assert_close(run(x), model(x), rtol=1e-5, atol=1e-5)
        assert not made
        odd = torch.from_numpy(np.frombuffer(bytearray(31 * 128 + 1), np.uint8)[1:].view(np.float32).reshape(31, 32))
        torch.testing.assert_close(run(odd.copy_(torch.randn(31, 32))), model(odd.clone()), rtol=1e-5, atol=1e-5)
        assert made


def test_a_failed_run_is_compiled_again():
    graph = onegraph.Graph()
    x = graph.input("x", "f32", [4])
    graph.output("y", graph.relu(x))
    executable = graph.compile()
    program = executable._programs.only_program()
    call = ProgramCall(program, executable._programs.options)

    def quick(arrays, out):
        raise StatusError(EXECUTE, "runtime_error")

    call._quick = quick
    with pytest.raises(StatusError):
        call(np.ones(4, np.float32))
    np.testing.assert_array_equal(call(np.array([-1, 0, 1, 2], np.float32)), [0, 0, 1, 2])


def test_lowering_asks_no_graph_which_op_was_meant(monkeypatch):
    monkeypatch.setattr("onegraph.builder.op_methods._meant", lambda *_: pytest.fail("a search for names"))
    model, x = module(), torch.randn(8, 32)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend=onegraph.torch.backend)(x), model(x))


def settle():
    """Wait for the threads that compile."""
    for thread in threading.enumerate():
        if thread.name == sizes.NAME:
            thread.join(60)


@pytest.mark.parametrize("trains", [False, True])
def test_pytorch_answers_while_sizes_are_new(trains):
    torch._dynamo.reset()
    onegraph.torch.reset()
    model = module()
    run = torch.compile(model, backend=onegraph.torch.backend, dynamic=True, options={"new_sizes": "eager"})
    with torch.set_grad_enabled(trains):
        for size in (5, 9):
            x = torch.randn(size, 32, requires_grad=trains)
            before = onegraph.torch.stats().answered
            first = run(x)
            assert onegraph.torch.stats().answered > before
            settle()
            torch.testing.assert_close(first, model(x), rtol=1e-5, atol=1e-5)
            if trains:
                first.sum().backward()
                expected, x.grad = x.grad, None
                model(x).sum().backward()
                torch.testing.assert_close(x.grad, expected, rtol=1e-5, atol=1e-5)
                continue
            now = onegraph.torch.stats().answered
            for _ in range(2):
                torch.testing.assert_close(run(x), model(x), rtol=1e-5, atol=1e-5)
            assert onegraph.torch.stats().answered == now
    assert "while sizes were new" in str(onegraph.torch.stats())
    assert onegraph.torch.stats().to_dict()["answered"] == onegraph.torch.stats().answered


def test_what_a_thread_cannot_compile_the_next_call_raises():
    calls, work = [], sizes.Work()

    def compiled(given):
        calls.append(sizes.is_background())
        raise RuntimeError("no")

    found = sizes.BySizes(compiled, 4, work, eager=lambda x: x + 1)
    assert found.run(3) == 4
    settle()
    with pytest.raises(RuntimeError, match="no"):
        found.run(3)
    assert calls == [True, False]
    with pytest.raises(onegraph.ArgumentError, match="new_sizes: 'later'; expected 'compile' or 'eager'"):
        options_of({"new_sizes": "later"})


def test_sentences_of_any_length_and_layout():
    torch.manual_seed(0)
    torch._dynamo.reset()
    onegraph.torch.reset()
    layer = torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.GELU(), torch.nn.LayerNorm(24)).eval()

    def ahead(x):
        return layer(x).transpose(0, 1), torch.softmax(x @ x.transpose(1, 2), -1)

    run = torch.compile(ahead, backend=onegraph.torch.backend, dynamic=True)
    with torch.no_grad():
        for batch, length in ((3, 9), (3, 10), (3, 11), (2, 13), (4, 13), (5, 14), (1, 14), (6, 15)):
            x = torch.randn(length, batch, 16).transpose(0, 1) if length % 2 else torch.randn(batch, length, 16)
            for result, expected in zip(run(x), ahead(x), strict=True):
                assert result.stride() == expected.stride()
                torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)


class Gated(torch.nn.Module):
    """A normalization by the root of the mean square, whose ops the library divides by size, and gated products."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(256))
        self.gate, self.up, self.down = torch.nn.Linear(256, 64), torch.nn.Linear(256, 64), torch.nn.Linear(64, 256)

    def forward(self, x):
        rows = self.scale * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
        return x + self.down(torch.nn.functional.silu(self.gate(rows)) * self.up(rows))


class Pooled(torch.nn.Module):
    """A sum of three tensors, which the library computes in the compiling thread alone, and the first of the tokens."""

    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(16, 32)

    def forward(self, x):
        tokens = torch.nn.functional.layer_norm(x + x.cos() + x.flip(2), [16])
        return torch.tanh(self.dense(tokens[:, 0])), tokens[:, -2:], tokens[:, 1::2]


class Uneven(torch.nn.Module):
    """Means of parts that share elements where no part has a whole number of them."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(16, 8, 3)

    def forward(self, x):
        return torch.nn.functional.adaptive_avg_pool2d(self.conv(x.transpose(1, 2))[:, None], (3, 5))


class Scores(torch.nn.Module):
    """Attention spelled out, and a cast of the framework's own."""

    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(16, 16)

    def forward(self, x):
        heads = self.dense(x).reshape(x.shape[0], -1, 2, 8).transpose(1, 2)
        shares = torch.softmax(heads @ heads.transpose(-1, -2) * 0.1, -1)
        return torch.ops.prims.convert_element_type(shares @ heads, torch.bfloat16).float()


class Causal(Scores):
    """Attention of which no query sees a later key."""

    def forward(self, x):
        heads = self.dense(x).reshape(x.shape[0], -1, 2, 8).transpose(1, 2)
        return functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)


class Masked(Scores):
    """The mean of as many frames as a length says, and numbers that follow from a size."""

    def forward(self, x):
        frames = self.dense(x)[:, ::2]
        count = torch.tensor([x.shape[1] // 2, 3])
        kept = torch.arange(frames.shape[1])[None] < count[:, None]
        return (frames * kept[..., None]).sum(1) / count[:, None] + torch.full((1, 16), x.shape[1])


class Shifted(Scores):
    """Scores by relative positions, which rows of zeros in front shift to their places."""

    def forward(self, x):
        batch, length, _ = x.shape
        places = torch.arange(2 * length - 1, dtype=torch.float32)[:, None].expand(-1, 16) / length
        scores = torch.nn.functional.pad(self.dense(x) @ self.dense(places).T, (1, 0))
        rows = scores.view(batch, 2 * length, length)[:, 1:].reshape(batch, length, 2 * length - 1)
        return torch.softmax(rows[:, :, :length], -1) @ x


@pytest.mark.skipif(HASHES_CONSTANTS, reason="newer libraries find prepared constants by a hash, for one program each")
@pytest.mark.parametrize(
    ("model", "width"),
    [(Gated, 256), (Pooled, 16), (Scores, 16), (Causal, 16), (Masked, 16), (Shifted, 16), (Uneven, 16)],
)
def test_later_lengths_have_the_steps_of_others(model, width):
    torch.manual_seed(0)
    torch._dynamo.reset()
    onegraph.torch.reset()
    model = model().eval()
    run = torch.compile(model, backend=onegraph.torch.backend, dynamic=True)
    with torch.no_grad():
        for length in (17, 18, 19, 23, 31, 30, 29):
            x = torch.randn(2 if width == 16 else 1, length, width)
            torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)
    found = onegraph.torch.stats()
    assert len({one.work for one in found.regions}) == 1
    assert found.reused >= 3 * found.partitions, str(found)


class Sequence(torch.nn.Module):
    """Parts of sequences whose lengths are functions of a size, such as a half of it."""

    def __init__(self):
        super().__init__()
        self.dense, self.folded = torch.nn.Linear(8, 8), torch.nn.Linear(32, 8)

    def forward(self, x):
        half = torch.nn.functional.glu(self.dense(x), 1)
        rolled = torch.roll(half, half.shape[1] // 2, 1)
        frames = self.folded(rolled.unfold(1, 4, 2).flatten(2))
        return self.dense(torch.cat([x, x.flip(1)], 1)).sum(1) + frames.repeat_interleave(2, 1).sum(1)


class Picture(torch.nn.Module):
    """Images that are enlarged and shrunk, whose gradients state the sizes of their results."""

    def __init__(self):
        super().__init__()
        self.conv, self.last = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 8, 3)

    def forward(self, x):
        image = self.conv(x)
        small = torch.nn.functional.max_pool2d(self.last(image), 2)
        resize = torch.nn.functional.interpolate
        large = resize(small, scale_factor=1.5, mode="bicubic").mean() + resize(small, size=x.shape[2:]).square().mean()
        aligned = resize(small, scale_factor=2, mode="bilinear", align_corners=True)
        return large + aligned.square().mean() + torch.nn.functional.pixel_shuffle(image, 2).square().mean()


class Normalized(torch.nn.Module):
    """Images whose variances PyTorch corrects by their number of elements, and returns with the results."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 8, 3, bias=False), torch.nn.BatchNorm2d(8)

    def forward(self, x):
        self.norm.running_var.fill_(0.5)  # two modules of one test count alike
        image = self.norm(self.conv(x))
        return torch.cat([image.flatten(1).std(1), self.norm.running_var.exp(), image.square().mean((0, 2, 3))])


@pytest.mark.skipif(HASHES_CONSTANTS, reason="newer libraries find prepared constants by a hash, for one program each")
@pytest.mark.parametrize(
    ("model", "shapes"),
    [
        (Sequence, [(2, 2 * length, 8) for length in (14, 15, 18, 21, 13)]),
        (Picture, [(1, 3, size, size + 2) for size in (14, 18, 22, 26)]),
        (Normalized, [(2, 3, size, size + 2) for size in (14, 18, 22, 26)]),
    ],
)
def test_gradients_for_later_sizes_have_the_steps_of_others(model, shapes):
    torch.manual_seed(0)
    torch._dynamo.reset()
    onegraph.torch.reset()
    model = model()
    run = torch.compile(model, backend=onegraph.torch.backend, dynamic=True)
    for shape in shapes:
        x = torch.randn(shape)
        results = run(x), model(x)
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
        found, expected = (torch.autograd.grad(one.square().mean(), [*model.parameters()]) for one in results)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
    found = onegraph.torch.stats()
    assert len(found.regions) == 2
    assert found.reused >= (len(shapes) - 3) * found.partitions, str(found)


def stated(environment, expression, hint):
    """A size of PyTorch that is an expression of symbols."""
    node = SymNode(expression, environment, int, hint)
    return torch.SymInt(node)


def test_dims_give_the_symbols_of_what_is_stated_of_them():
    environment = ShapeEnv()
    s, t = sympy.symbols("s t", integer=True, positive=True)
    values = {s: 14, t: 5}
    quotient = FloorDiv(s + 1, 3)
    expressions = [2 * s - 3, 4 * quotient + t, -t, s * t, quotient]
    dims = [int(one.subs(values)) for one in expressions]
    sizes = StatedSizes([stated(environment, *both) for both in zip(expressions, dims, strict=True)], dims)
    assert sizes.sizes(dims) == [14, 5]
    assert [repr(dim) for dim in sizes.opened(dims, OpenSizes([14, 5]).symbols)][2:4] == ["((-1)*s[1])", "(s[0]*s[1])"]
    assert sizes.sizes([2 * 20 - 3, 4 * 7 + 6, -6, 120, 7]) == [20, 6]
    assert sizes.sizes([2 * 20 - 3, 4 * 7 + 6, -6, 121, 7]) is None


def test_symbols_that_no_dim_gives_are_left_in_what_is_stated():
    environment = ShapeEnv()
    s, t = sympy.symbols("s t", integer=True, positive=True)
    sizes = StatedSizes([stated(environment, s * t, 12), stated(environment, 2 * s * t + 1, 25)], [12, 25])
    assert sizes.sizes([20, 41]) == [20]
    with pytest.raises(NoParametersError, match="a size is s"):
        value_of(s, sizes.known)
    scaled = TruncToInt(ToFloat(s * t) * sympy.Float(0.4))
    sizes.opened([12, 25], OpenSizes([12]).symbols)
    assert [value_of(scaled, {s: size, t: 1}) for size in (5, 12, 14)] == [int(0.4 * size) for size in (5, 12, 14)]
    assert repr(value_of(scaled, sizes.known)) == "(int(0.4*(s[0])))"
