"""Models of PyTorch 2 Export quantization: ops ``quantized_decomposed`` in int8, through torch.compile and export."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.ao.quantization.fx._decomposed")  # defines the ops

import onegraph.torch  # noqa: E402
from onegraph.capi.settings import has_vnni  # noqa: E402
from onegraph.errors import UnsupportedError  # noqa: E402

pytestmark = [pytest.mark.library, pytest.mark.filterwarnings("ignore")]
nn, ops = torch.nn, torch.ops.quantized_decomposed
RNG = np.random.default_rng(0)
F32 = torch.float32
U8, S8 = (0, 255, torch.uint8), (-128, 127, torch.int8)
REDUCED = (0, 127, torch.uint8)


class Quantized(nn.Module):
    """A Linear or Conv2d of codes, as ``convert_pt2e`` writes it."""

    def __init__(self, inner, limits=U8, zero=3, axis=0, zeros=None):
        super().__init__()
        weights = inner.weight.detach()
        dims = [at for at in range(weights.ndim) if at != axis]
        self.limits, self.zero, self.axis, self.scale = limits, zero, axis, 0.05
        self.register_buffer("scales", weights.abs().amax(dims) / 127)
        self.register_buffer("zeros", torch.zeros(weights.shape[axis], dtype=torch.int64) if zeros is None else zeros)
        codes = ops.quantize_per_channel(weights, self.scales, self.zeros, axis, -127, 127, torch.int8)
        self.register_buffer("codes", codes)
        self.bias, self.inner = inner.bias, inner

    def source(self, x):
        ends = self.scale, self.zero, *self.limits
        return ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *ends), *ends)

    def forward(self, x):
        weights = ops.dequantize_per_channel(self.codes, self.scales, self.zeros, self.axis, -127, 127, torch.int8)
        src = self.source(x)
        if isinstance(self.inner, nn.Linear):
            return nn.functional.linear(src, weights, self.bias)
        return nn.functional.conv2d(
            src, weights, self.bias, self.inner.stride, self.inner.padding, 1, self.inner.groups
        )


class Dynamic(Quantized):
    """The scale and the zero point of the source come from its range."""

    def source(self, x):
        ends = *ops.choose_qparams(x, *self.limits[:2], 2.0**-12, self.limits[2]), *self.limits
        codes = ops.quantize_per_tensor.tensor(x, *ends)
        return ops.dequantize_per_tensor.tensor(codes, *ends)


def linear(columns=24):
    return nn.Linear(40, columns), (64, 40)


def convolution(groups=1):
    return nn.Conv2d(8, 16, 3, padding=1, groups=groups), (2, 8, 9, 7)


CASES = {
    "linear": lambda: (Quantized(linear()[0]), (64, 40)),
    "signed": lambda: (Quantized(linear()[0], S8, -5), (64, 40)),
    "reduced range": lambda: (Quantized(linear()[0], REDUCED), (64, 40)),
    "zero points of weights": lambda: (Quantized(linear()[0], zeros=torch.arange(24)), (64, 40)),
    "three axes": lambda: (Quantized(linear()[0]), (2, 5, 40)),
    "convolution": lambda: (Quantized(convolution()[0]), (2, 8, 9, 7)),
    "groups": lambda: (Quantized(convolution(2)[0]), (2, 8, 9, 7)),
    "dynamic": lambda: (Dynamic(linear()[0]), (64, 40)),
    "dynamic, signed": lambda: (Dynamic(linear()[0], S8), (64, 40)),
    "dynamic, three axes": lambda: (Dynamic(linear()[0]), (2, 5, 40)),
    "dynamic, zero points of weights": lambda: (Dynamic(linear()[0], zeros=torch.arange(24)), (64, 40)),
}
INT8 = ("linear", "three axes", "convolution", "groups", "dynamic", "dynamic, signed", "dynamic, three axes")


def drawn(shape):
    """Numbers that no scale puts between two codes, so that rounding decides nothing."""
    return torch.from_numpy((RNG.integers(-40, 60, shape) * 0.05).astype(np.float32))


@pytest.fixture(autouse=True)
def _same_numbers():
    torch.manual_seed(0)
    torch._dynamo.reset()


@pytest.mark.parametrize("name", CASES)
def test_compiled_and_exported_models_agree_with_eager(name):
    module, shape = CASES[name]()
    module, x = module.eval(), drawn(shape)
    wanted = module(x).detach().numpy()
    limit = 1e-5 * np.abs(wanted).max()
    exported = onegraph.torch.export(module, (x,)).compile()
    np.testing.assert_allclose(exported(x.numpy()), wanted, atol=limit)
    with torch.no_grad():
        found = torch.compile(module, backend="onegraph", options={"fallback": "error"})(x)
    np.testing.assert_allclose(found.numpy(), wanted, atol=limit)
    products = [part for part in exported.report().partitions if {"MatMul", "Convolution"} & {*part.kinds}]
    if name in INT8 and has_vnni():
        assert [part.kinds[:2] for part in products] == [("Dequantize", "Dequantize")]


@pytest.mark.parametrize("dtype", [torch.int16, torch.uint8])
def test_codes_keep_within_their_limits(dtype):
    class Codes(nn.Module):
        def forward(self, x):
            return ops.quantize_per_tensor(x, 0.1, 7, 3, 90, dtype)

    x = torch.linspace(-30, 30, 301)
    found = onegraph.torch.export(Codes(), (x,)).compile()(x.numpy())
    wanted = Codes()(x).numpy()
    assert found.dtype == wanted.dtype
    assert (found.min(), found.max()) == (3, 90)
    assert np.abs(found.astype(int) - wanted).max() <= 1


def test_a_range_without_numbers_of_its_own_spreads():
    """An infinite scale makes each number NaN, as in PyTorch."""
    module, x = Dynamic(linear()[0]).eval(), torch.ones(8, 40)
    x[3, 5] = torch.inf
    found = onegraph.torch.export(module, (x,)).compile()(x.numpy())
    assert np.isnan(module(x).detach().numpy()).all()
    assert np.isnan(found).all()
    x[3, 5] = torch.nan
    assert np.isnan(onegraph.torch.export(module, (x,)).compile()(x.numpy())).all()


def test_limits_with_scales_of_a_run_are_refused():
    class Codes(nn.Module):
        def forward(self, x, scale):
            return ops.quantize_per_tensor.tensor(x, scale, torch.zeros(1, dtype=torch.int64), 0, 90, torch.uint8)

    with pytest.raises(UnsupportedError, match=r"codes from 0 to 90"):
        onegraph.torch.export(Codes(), (torch.ones(4), torch.ones(1, dtype=torch.float64)))


def test_integer_products_of_pytorch_are_exact():
    class Product(nn.Module):
        def forward(self, x, weights):
            return torch._int_mm(x, weights)

    x, weights = (torch.from_numpy(RNG.integers(-128, 128, shape).astype(np.int8)) for shape in ((24, 32), (32, 16)))
    wanted = Product()(x, weights)
    found = onegraph.torch.export(Product(), (x, weights)).compile()(x.numpy(), weights.numpy())
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, wanted.numpy())
    with torch.no_grad():
        compiled = torch.compile(Product(), backend="onegraph", options={"fallback": "error"})
        np.testing.assert_array_equal(compiled(x, weights).numpy(), wanted.numpy())


class Rows(nn.Module):
    """A Linear of s8 codes on rows that a run quantizes, as torchao writes it for processors that multiply u8 by s8."""

    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.randint(-127, 128, (40, 24), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(24) / 50)

    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True) / 127
        codes = (x / scale).round().clamp(-128, 127).to(torch.int8)
        unsigned = (codes.to(torch.int32) + 128).to(torch.uint8)
        product = torch._int_mm(unsigned, self.codes) - 128 * self.codes.sum(0, dtype=torch.int32)
        return product.to(F32) * scale * self.scales


def test_integers_between_codes_leave_one_part():
    model, x = Rows().eval(), torch.from_numpy(RNG.standard_normal((3, 40), np.float32))
    onegraph.torch.reset()
    with torch.no_grad():
        found = torch.compile(model, backend="onegraph")(x)
        torch.testing.assert_close(found, model(x), rtol=1e-5, atol=1e-5)
    stats = onegraph.torch.stats()
    assert (stats.partitions, sum(left.count for left in stats.left)) == (1, 0)


# Blocks of torchao ----------------------------------------------------------------------------------------------------


def dequantized(codes, block_size, scale, zero_point, input_dtype, quant_min, quant_max, *, output_dtype=F32):
    """What torchao's op is defined as, for blocks of rows."""
    spread = [None if one is None else one.repeat_interleave(block_size[1], 1) for one in (scale, zero_point)]
    numbers = codes.to(F32) if spread[1] is None else codes.to(F32) - spread[1].to(F32)
    return (numbers * spread[0].to(F32)).to(output_dtype)


@pytest.fixture(scope="module")
def torchao_ops():
    """The op of torchao, which is not installed."""
    if hasattr(torch.ops.torchao, "dequantize_affine"):
        yield torch.ops.torchao
        return
    library = torch.library.Library("torchao", "FRAGMENT")
    types = "ScalarType input_dtype, int? quant_min, int? quant_max, *, ScalarType output_dtype=float"
    library.define(
        f"dequantize_affine(Tensor input, int[] block_size, Tensor scale, Tensor? zero_point, {types}) -> Tensor"
    )
    library.impl("dequantize_affine", dequantized, "CompositeExplicitAutograd")
    yield torch.ops.torchao
    library._destroy()


class Blocks(nn.Module):
    """A Linear with a scale for each block of a row, as torchao's tensors are exported."""

    def __init__(self, op, limits, size, dtype, zero):
        super().__init__()
        low, high = self.limits = limits
        self.op, self.size, self.dtype = op, size, dtype
        kind = torch.uint8 if low == 0 else torch.int8
        self.register_buffer("codes", torch.randint(low, high + 1, (24, 64), dtype=kind))
        self.register_buffer("scales", (torch.rand(24, 64 // size) / 50 + 0.01).to(dtype))
        self.register_buffer("zeros", torch.full((24, 64 // size), zero, dtype=torch.int8))

    def forward(self, x):
        ends = self.codes.dtype, *self.limits
        return nn.functional.linear(
            x, self.op(self.codes, [1, self.size], self.scales, self.zeros, *ends, output_dtype=self.dtype)
        )


@pytest.mark.parametrize("dtype", [F32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("limits", "size", "zero"),
    [((-8, 7), 32, 0), ((0, 15), 16, 7), ((-128, 127), 32, 3), ((-128, 127), 64, 0)],
    ids=str,
)
def test_blocks_of_codes_are_read_packed(torchao_ops, dtype, limits, size, zero):
    model = Blocks(torchao_ops.dequantize_affine, limits, size, dtype, zero).eval()
    x = torch.from_numpy(RNG.standard_normal((3, 64)).astype(np.float32)).to(dtype)
    exact = x.double() @ dequantized(model.codes, [1, size], model.scales, model.zeros, *[None] * 3).double().T
    share = 2e-6 if dtype is F32 else 1e-2
    with torch.no_grad():
        graph = onegraph.torch.export(model, (x,))
        executable, found = graph.compile(), torch.compile(model, backend="onegraph")(x)
    assert graph.ops[0].kind == "PackedMatMul" or limits[1] > 15  # two codes of 4 bits in a byte
    assert [part.reason[:34] for part in executable.report().partitions] == ["by onegraph, which reads packed we"]
    assert (found.double() - exact).abs().max() <= share * exact.abs().max()


class Tokens(nn.Module):
    """Codes of activations with a scale and a zero point for each token, as torchao's dynamic models have them."""

    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True) / 100
        zero = (x.mean(-1, keepdim=True) * 8).round().to(torch.int8)
        codes = ((x / scale).round() + zero).clamp(-128, 127).to(torch.int8)
        return self.op(codes, [1, x.shape[1]], scale, zero, torch.int8, -128, 127)


def test_codes_of_a_run_have_a_scale_for_each_token(torchao_ops):
    model, x = Tokens(torchao_ops.dequantize_affine).eval(), torch.from_numpy(RNG.standard_normal((3, 64), np.float32))
    scale, zero = x.abs().amax(-1, keepdim=True) / 100, (x.mean(-1, keepdim=True) * 8).round()
    exact = (((x / scale).round() + zero).clamp(-128, 127) - zero) * scale
    found = onegraph.torch.export(model, (x,)).compile()(x.numpy())
    np.testing.assert_allclose(found, exact, rtol=1e-6)
