"""The core ATen ops that export takes: how many, and the numbers of those that are joined of other ops."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import onegraph.torch  # noqa: E402
from onegraph.errors import ArgumentError, UnsupportedError  # noqa: E402
from onegraph.frontends.torch.capture import decompositions  # noqa: E402
from onegraph.frontends.torch.node import LOWERINGS, PARTS  # noqa: E402
from onegraph.lowering import fourier  # noqa: E402

pytestmark = [pytest.mark.library, pytest.mark.filterwarnings("ignore")]
NAN, INF = float("nan"), float("inf")
X = torch.tensor([[-2.5, -1.0, -0.5, -0.0], [0.0, 1e-6, 0.5, 3.0], [7.0, -7.0, 1e-30, 20.0]])
Y = torch.tensor([[1.5, -1.0, 0.25, -2.0], [-3.0, 2.0, -0.0, 1.0], [2.0, 2.0, -1e-30, -3.0]])
SPECIAL = torch.tensor([INF, -INF, NAN, 0.0, -0.0, 1.0])
WHOLE = torch.tensor([[7, -7, 7, -7], [5, 6, -1, 0], [9, 1, 2, 3]])
STEPS = torch.tensor([[2, 2, -2, -2], [3, -4, 5, 6], [1, 1, 1, 1]])
PLACES = torch.tensor([[0, 2, 1, 0], [1, 1, 0, 2]])
LENGTHS = torch.tensor([2, 0, 1])
ROWS, BAGS = torch.tensor([2, 0, 1, 2, 2]), torch.tensor([0, 2, 2])
F = torch.nn.functional

AVERAGE = torch.ops.aten._adaptive_avg_pool2d_backward


def squares(count):
    """As many matrices of 4 rows and columns."""
    return torch.stack([torch.cat([X, Y[:1]]), torch.cat([Y, X[:1]]), torch.cat([X[1:], Y[:2]])][:count])


def grids(count):
    """As many matrices of 8 rows and columns in 16 bits, whose rows lie at multiples of 16 bytes."""
    return torch.stack([one.repeat(4, 2)[:8] for one in (STEPS, WHOLE, PLACES)][:count]).bfloat16()


def picture():
    """A picture whose elements keep all digits between pixels."""
    return (WHOLE.abs() + 1).float()[None, None]


ELEMENTS = {
    "remainder": lambda: X % Y,
    "remainder of a number": lambda: X % 0.75,
    "remainder of integers": lambda: WHOLE % STEPS,
    "fmod": lambda: torch.fmod(X, Y),
    "fmod of integers": lambda: torch.fmod(WHOLE, 3),
    "trunc": lambda: torch.trunc(X),
    "floored": lambda: torch.div(X, Y, rounding_mode="floor"),
    "floored at a limit": lambda: torch.div(X.abs() + 1, 0.1, rounding_mode="floor"),
    "floored integers": lambda: torch.div(WHOLE, STEPS, rounding_mode="floor"),
    "truncated": lambda: torch.div(X, Y, rounding_mode="trunc"),
    "truncated integers": lambda: torch.div(WHOLE, STEPS, rounding_mode="trunc"),
    "log2": lambda: torch.log2(X.abs()),
    "log10": lambda: torch.log10(X.abs()),
    "log1p": lambda: torch.log1p(torch.cat([X.abs().reshape(-1), SPECIAL])),
    "expm1": lambda: torch.expm1(torch.cat([X.reshape(-1), SPECIAL])),
    "expm1 of a narrow type": lambda: torch.expm1(X.bfloat16()),
    "isinf": lambda: torch.isinf(SPECIAL),
    "isinf of integers": lambda: torch.isinf(WHOLE),
    "atan2": lambda: torch.atan2(X, Y),
    "atan2 of special numbers": lambda: torch.atan2(SPECIAL[:, None].expand(6, 6), SPECIAL),
}
PLACED = {
    "scatter": lambda: X.scatter(0, PLACES, Y),
    "scatter of a number": lambda: X.scatter(1, PLACES, 1.5),
    "scatter_add": lambda: X.scatter_add(0, PLACES, Y),
    "largest": lambda: X.scatter_reduce(0, PLACES, Y, "amax"),
    "product without self": lambda: X.scatter_reduce(0, PLACES, Y, "prod", include_self=False),
    "index_put": lambda: X.index_put((ROWS[:3],), Y),
    "index_put with accumulation": lambda: X.index_put((ROWS, torch.tensor([1, 1, 2, 1, 1])), Y[0, 1], accumulate=True),
    "index_put of columns": lambda: torch.ops.aten.index_put(X, [None, torch.tensor([3, -4])], Y[:, :2]),
    "several indices": lambda: X[ROWS, torch.tensor([1, 0, 2, 1, -1])],
    "several indices behind an axis": lambda: X.reshape(2, 2, 3)[:, torch.tensor([1, 0]), torch.tensor([2, 1])],
    "sort": lambda: torch.sort(X, 1),
    "sort downwards": lambda: torch.sort(WHOLE, dim=0, descending=True, stable=True),
    "sort with NaN": lambda: torch.sort(SPECIAL[:4]),
    "diagonal": lambda: torch.diagonal(X.reshape(2, 3, 2), 1, 0, 1),
    "diagonal below": lambda: torch.diagonal(X, -1),
    "argmax of all": lambda: torch.argmax(X),
    "argmin of all": lambda: torch.argmin(X, keepdim=True),
    "bags": lambda: F.embedding_bag(ROWS, X, BAGS, mode="sum"),
    "means of bags": lambda: F.embedding_bag(ROWS, X, BAGS, mode="mean"),
    "largest of bags": lambda: F.embedding_bag(ROWS, X, BAGS, mode="max"),
    "sums of segments": lambda: torch.segment_reduce(X, "sum", lengths=LENGTHS),
    "sums of segments from a number": lambda: torch.segment_reduce(X, "sum", lengths=LENGTHS.int(), initial=0.5),
    "means of segments": lambda: torch.segment_reduce(X, "mean", lengths=LENGTHS),
    "largest of segments": lambda: torch.segment_reduce(SPECIAL[:3], "max", lengths=LENGTHS),
    "smallest of segments": lambda: torch.segment_reduce(Y[..., None], "min", lengths=LENGTHS),
    "smallest of segments or a number": lambda: torch.segment_reduce(Y, "min", lengths=LENGTHS, initial=0.5),
    "parts": lambda: F.adaptive_max_pool2d(squares(2)[None], (3, 2)),
    "parts of a row": lambda: F.adaptive_max_pool1d(Y, 4),
    "parts of volumes": lambda: F.adaptive_max_pool3d(squares(2)[None, None], (1, 3, 4)),
    "places among edges": lambda: torch.bucketize(Y, torch.tensor([-3.0, -1.0, 0.0, 1.0, 2.0])),
    "places behind edges": lambda: torch.bucketize(Y, torch.tensor([-3.0, -1.0, 2.0]), right=True, out_int32=True),
    "places of special numbers": lambda: torch.bucketize(SPECIAL, torch.tensor([-1.0, 0.0, INF])),
    "places in rows": lambda: torch.searchsorted(X.sort(-1)[0], X[:, 1:3].contiguous(), side="right"),
    "places of integers": lambda: torch.searchsorted(WHOLE.sort(-1)[0], STEPS),
    "weighted bags": lambda: F.embedding_bag(ROWS, X, BAGS, mode="sum", per_sample_weights=Y[0, :1].expand(5)),
    "reflected": lambda: F.pad(X[None], (2, 1), mode="reflect"),
    "replicated": lambda: F.pad(X[None, None], (2, 1, 0, 3), mode="replicate"),
    "circular": lambda: F.pad(X[None, None], (2, 1, 1, 3), mode="circular"),
    "filled": lambda: torch.fill(X, 2.5),
}
JOINED = {
    "distances": lambda: torch.cdist(X[None], Y),
    "sums of distances": lambda: torch.cdist(X, Y[:2], p=1),
    "largest distances": lambda: torch.cdist(X, Y, p=torch.inf),
    "distances of pairs": lambda: F.pdist(X),
    "masked_scatter": lambda: X.masked_scatter(Y > 0, X.reshape(-1)),
    "masked_scatter of a row": lambda: X.masked_scatter(Y[0] > 0, Y),
    "products of groups": lambda: torch._grouped_mm(grids(1)[0, :3], grids(2), offs=BAGS[1:].int() + 1),
    "products of few rows": lambda: torch._grouped_mm(grids(1)[0, :3], grids(3), offs=BAGS.int() + 1),
    "products of many rows": lambda: torch._grouped_mm(
        grids(1)[0].repeat(9, 1), grids(3), offs=BAGS.int() * 0 + torch.tensor([31, 31, 72], dtype=torch.int32)
    ),
    "products of pairs": lambda: torch._grouped_mm(grids(2), grids(3)[1:]),
    "histogram": lambda: torch.histc(X, 5, -3, 3),
    "gradient of a pool": lambda: AVERAGE(squares(2)[None, :, :2, :3].contiguous(), squares(2)[None]),
    "nearest by factors": lambda: torch.ops.aten.upsample_nearest2d.vec(squares(2)[None], None, [2.0, 1.5]),
    "linear by factors": lambda: torch.ops.aten.upsample_bilinear2d.vec(picture(), None, False, [2.0, 4.0]),
    "linear to a size": lambda: torch.ops.aten.upsample_bilinear2d.vec(picture(), [5, 7], True, None),
}
GROUPS = {"elements": ELEMENTS, "places": PLACED, "joined": JOINED}


class Group(torch.nn.Module):
    """All cases of a group, from tensors that are inputs, so that nothing is computed at export."""

    NAMES = ("X", "Y", "SPECIAL", "WHOLE", "STEPS", "PLACES", "ROWS", "BAGS")

    def __init__(self, cases):
        super().__init__()
        self.cases = cases

    def forward(self, *tensors):
        own = dict(zip(self.NAMES, tensors, strict=True))
        found = []
        for case in self.cases:
            before = dict(case.__globals__)
            case.__globals__.update(own)
            try:
                found.append(case())
            finally:
                case.__globals__.update({name: before[name] for name in own})
        return found


@pytest.mark.parametrize("cases", GROUPS.values(), ids=GROUPS)
def test_ops_joined_of_others_agree_with_eager(cases):
    tensors = [globals()[name] for name in Group.NAMES]
    graph = onegraph.torch.export(Group([*cases.values()]), tuple(tensors))
    found = iter(graph.compile()(*[one.numpy() for one in tensors]))
    wrong = []
    for name, case in cases.items():
        results = case()
        for wanted in results if isinstance(results, tuple) else (results,):
            one = np.asarray(next(found))
            if one.dtype.itemsize == 2:
                one, wanted = one.astype(np.float32), wanted.float()
            other = wanted.numpy()
            same_signs = one.dtype.kind != "f" or (np.signbit(one) == np.signbit(other))[~np.isnan(other)].all()
            close = np.allclose(one, other, rtol=3e-6, atol=1e-37, equal_nan=True)
            if one.dtype != other.dtype or one.shape != other.shape or not close or not same_signs:
                wrong.append(f"{name}: {one} of {one.dtype}, not {other} of {other.dtype}")
    assert not wrong, "\n".join(wrong)


fft, HANN = torch.fft, torch.hann_window(8)
SIGNAL = torch.stack([torch.arange(24.0) % 5 - 2, torch.arange(24.0) ** 2 % 7 - 3])
WAVES = {
    "half of one": lambda x: torch.view_as_real(fft.rfft(x)),
    "all of an odd number": lambda x: fft.fft(x[:, :15]).real,
    "back": lambda x: fft.irfft(fft.rfft(x, norm="ortho") * 2, norm="ortho"),
    "back to an odd number": lambda x: fft.irfft(fft.rfft(x[:, :15]), n=15),
    "two axes": lambda x: fft.irfft2(fft.rfft2(x.view(2, 4, 6), dim=(0, 1)), s=(2, 4), dim=(0, 1)),
    "complex numbers": lambda x: fft.ifftn(torch.complex(x, x.flip(1)), dim=(1, 0)).imag,
    "frames": lambda x: torch.stft(x, 8, 4, window=HANN, return_complex=True).abs() ** 2,
    "frames and back": lambda x: torch.istft(
        torch.stft(x, 8, 4, window=HANN, return_complex=True), 8, 4, window=HANN, center=True
    ),
    "wide frames": lambda x: torch.cat([x, -x, x, -x], -1).unfold(-1, 70, 9).square().sum(-1),
    "spectrum": lambda x: fft.fftshift(fft.fft2(x)).abs(),
    "convolution": lambda x: fft.irfft(fft.rfft(x, n=32) * fft.rfft(x[0, :4], n=32), n=32)[..., :24],
    "angles": lambda x: torch.angle(fft.rfft(x)) * torch.tensor([0.0] + [1.0] * 11 + [0.0]),
    "conjugates": lambda x: (fft.fft(x) * fft.fft(x.flip(0)).conj()).real,
    "quotients": lambda x: torch.view_as_real((fft.rfft(x) / (fft.rfft(x.flip(0)) + 0.5) - 2j) / 3),
    "turns": lambda x: torch.view_as_real(torch.polar(x**2 + 1, x) + torch.exp(1j * x)),
    "products": lambda x: (fft.fft(x.view(2, 4, 6)) @ torch.complex(x, -x).view(2, 6, 4)).imag,
    "moves": lambda x: fft.rfft(torch.cat([x, x[:, :2].roll(1, 1)], -1))[:, 1:].t().sum(0).real,
    "joined": lambda x: torch.view_as_real(torch.cat([fft.rfft(x).roll(1, 1), fft.rfft(x)[:, ::2]], -1)),
}


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("longest", [512, 4], ids=["at once", "in parts"])
def test_transforms_and_complex_numbers_agree_with_eager(monkeypatch, longest):
    monkeypatch.setattr(fourier, "MOST_DIRECT", longest)
    names = [*WAVES][: None if longest == 512 else 6]
    graph = onegraph.torch.export(Function(lambda x: [WAVES[name](x) for name in names]), (SIGNAL,))
    (source,) = graph.inputs.values()
    for name, output in zip(names, [*graph.outputs.values()], strict=True):
        ones = graph.constant(np.ones(output.shape, np.float32))
        graph.output(f"gradient of {name}", graph.gradient([output], [source], [ones])[0])
    results = graph.compile()(SIGNAL.numpy())
    wrong = []
    for place, name in enumerate(names):
        x = SIGNAL.clone().requires_grad_()
        wanted = WAVES[name](x)
        wanted.sum().backward()
        for one, other in ((results[place], wanted.detach()), (results[len(names) + place], x.grad)):
            close = np.allclose(one, other, rtol=0, atol=3e-6 * float(other.abs().max() + 1))
            if one.shape != other.shape or not close:
                wrong.append(f"{name}: {one}, not {other}")
    assert not wrong, "\n".join(wrong)


class Segments(torch.nn.Module):
    """Sums of segments of rows, or what else is asked for."""

    def __init__(self, **asked):
        super().__init__()
        self.asked = {"reduce": "sum", **asked}

    def forward(self, rows, lengths):
        """The segments."""
        return torch.segment_reduce(rows, lengths=lengths, **self.asked)


def test_lengths_of_segments_add_up_to_the_number_of_rows():
    model = onegraph.torch.export(Segments(), (X, LENGTHS)).compile()
    np.testing.assert_allclose(model(X.numpy(), np.array([0, 2, 1])), torch.stack([X[0] * 0, X[0] + X[1], X[2]]))
    for lengths in ([2, 0, 2], [1, 1, 0], [4, -1, 0], [-1, 2, 2], [0, 0, 0]):
        with pytest.raises(ArgumentError, match="out of range"):
            model(X.numpy(), np.array(lengths))


@pytest.mark.parametrize("asked", [{"reduce": "prod"}, {"reduce": "mean", "initial": 0.5}, {"unsafe": True}])
def test_other_segments_are_refused(asked):
    with pytest.raises(UnsupportedError, match="segment_reduce"):
        onegraph.torch.export(Segments(**asked), (X, LENGTHS))


def test_absolute_values_take_no_square_of_large_and_small_numbers():
    pairs = torch.tensor([[0, 0], [1e30, 1e30], [3e-30, 4e-30], [3, 4], [INF, 1], [1, NAN]])
    graph = onegraph.torch.export(Function(lambda x: torch.view_as_complex(x).abs()), (pairs,))
    found = graph.compile()(pairs.numpy())
    assert np.allclose(found, torch.view_as_complex(pairs).abs(), rtol=1e-6, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("function", "x", "text"),
    [
        (fft.fft, SIGNAL, "_fft_r2c: a complex tensor; expected its parts, as torch.view_as_real returns them"),
        (torch.abs, SIGNAL + 0j, "x: a complex tensor; expected its parts"),
        (lambda x: fft.rfft(x).abs(), torch.zeros(2053), "a transform of 2053 numbers, which is a prime number above"),
    ],
    ids=["result", "input", "prime"],
)
def test_export_says_why_it_refuses_complex_numbers(function, x, text):
    with pytest.raises(UnsupportedError, match=text):
        onegraph.torch.export(Function(function), (x,))


def core_ops():
    """The overloads that PyTorch tags as core, without those that write into an argument."""
    found = set()
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            op = getattr(packet, overload)
            if torch.Tag.core in op.tags and not op._schema.is_mutable:
                found.add(str(op))
    return found


# What is left: data-dependent shapes and numbers, random numbers, and numbers that no op computes: those of the
# framework are known, or follow from the sizes of inputs, when a graph is made.
LACKING = {
    "aten._local_scalar_dense.default",
    "aten.nonzero.default",
    "aten.rand.default",
    "aten.randn.default",
    "aten.randperm.default",
    "aten.sym_is_contiguous.default",
    "aten.sym_numel.default",
    "aten.sym_size.int",
    "aten.sym_storage_offset.default",
    "aten.sym_stride.int",
}


def test_export_lowers_the_core_ops():
    decomposed = {str(op) for op in decompositions()}
    assert core_ops() - LOWERINGS.keys() - PARTS.keys() - decomposed <= LACKING
