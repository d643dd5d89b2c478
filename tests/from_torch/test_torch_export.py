"""Export of modules to graphs that need PyTorch no more."""

import copy
import warnings

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from helpers.torch_backend import Attention, Small  # noqa: E402

import onegraph.torch  # noqa: E402
from onegraph.errors import ArgumentError, UnsupportedError  # noqa: E402
from onegraph.reference import run  # noqa: E402

pytestmark = [pytest.mark.library, pytest.mark.filterwarnings("ignore")]
nn = torch.nn


def takes_recurrent_networks():
    """Whether PyTorch's own export takes them; that of 2.6 does not."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.export.export(nn.RNN(2, 2).eval(), (torch.zeros(1, 1, 2),), strict=False)
        except ValueError as error:
            return "were assigned during export" not in str(error)
    return True


recurrent = pytest.mark.skipif(not takes_recurrent_networks(), reason="torch.export refuses recurrent networks")


@pytest.fixture(autouse=True)
def _same_numbers():
    torch.manual_seed(0)


def test_export_runs_without_pytorch():
    module, x = Small().eval(), torch.randn(2, 3, 8, 8)
    graph = onegraph.torch.export(module, (x,))
    assert list(graph.inputs) == ["x"]
    assert list(graph.outputs) == ["output"]
    expected = module(x).detach().numpy()
    np.testing.assert_allclose(graph.compile()(x.numpy()), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run(graph, {"x": x.numpy()})["output"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "mask"),
    [
        ({}, None),
        ({"is_causal": True}, None),
        ({"scale": 0.3}, torch.randn(6, 6)),
        ({}, torch.tensor([[True] * 6, [False] * 6] * 3)),
    ],
)
def test_attention_is_exported(options, mask):
    module, x = Attention(**options).eval(), torch.randn(2, 6, 16)
    found = onegraph.torch.export(module, (x, mask)).compile()
    given = {"x": x.numpy()} if mask is None else {"x": x.numpy(), "mask": mask.numpy()}
    np.testing.assert_allclose(found(**given), module(x, mask).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_attention_with_a_trained_mask_is_exported():
    class Biased(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.randn(1, 2, 5, 5))

        def forward(self, x):
            return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=self.bias)

    module, x = Biased(), torch.randn(3, 2, 5, 4)
    found = onegraph.torch.export(module, (x,)).compile()
    np.testing.assert_allclose(found(x.numpy()), module(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_a_trained_mask_is_fused_with_attention():
    """PyTorch spells attention out if the mask has three axes or a gradient."""
    module, x = Attention(heads=2).eval(), torch.randn(2, 6, 16)
    mask = torch.randn(2, 6, 6)
    mask[0, 1, 2:] = -torch.inf

    class Biased(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.mask = module, nn.Parameter(mask)

        def forward(self, x):
            return self.attention(x, self.mask)

    graph = onegraph.torch.export(Biased(), (x,))
    kinds = [op.kind for op in graph.ops if op.kind not in ("StaticReshape", "StaticTranspose", "Slice")]
    assert kinds == ["MatMul", "MatMul", "Divide", "Add", "SoftMax", "MatMul"]
    np.testing.assert_allclose(graph.compile()(x.numpy()), module(x, mask).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_export_warns_of_no_deprecated_call():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        onegraph.torch.export(nn.Linear(4, 3), (torch.ones(2, 4),))
    assert [str(one.message) for one in found if one.category is FutureWarning] == []


def test_an_exported_graph_stays_as_it_is_when_the_module_changes():
    module = nn.Sequential(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3), nn.Flatten(), nn.Linear(12, 2)).eval()
    x = torch.randn(2, 2, 4)
    graph = onegraph.torch.export(module, (x,))
    wanted = module(x).detach().numpy()
    for one in module.parameters():
        one.data.mul_(3)
    np.testing.assert_allclose(graph.compile()(x.numpy()), wanted, rtol=1e-4, atol=1e-5)


def test_export_names_what_it_cannot_lower():
    class Inverse(nn.Module):
        def forward(self, x):
            return torch.linalg.inv(x)

    with pytest.raises(UnsupportedError, match="linalg_inv_ex"):
        onegraph.torch.export(Inverse(), (torch.eye(3),))


def test_export_names_an_op_of_several_results_alone():
    class Decomposed(nn.Module):
        def forward(self, x):
            return torch.linalg.svd(x)[0]

    with pytest.raises(UnsupportedError, match="_linalg_svd") as caught:
        onegraph.torch.export(Decomposed(), (torch.ones(3, 3),))
    assert len(str(caught.value).splitlines()) == 2


def test_constants_have_the_names_of_parameters():
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    graph = onegraph.torch.export(module, (torch.ones(3, 4),))
    for name, tensor in module.state_dict().items():
        np.testing.assert_array_equal(graph.constants[name], tensor.numpy())
    assert {*graph.with_variables().variables} == {*module.state_dict()}


def test_a_weight_that_is_read_transposed_too_is_one_constant():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(7, 4)

        def forward(self, words):
            return self.table(words) @ self.table.weight.T

    module, words = Tied(), torch.tensor([[1, 2, 6]])
    graph = onegraph.torch.export(module, (words,))
    assert [*graph.constants] == ["table.weight"]
    expected = module(words).detach().numpy()
    with torch.no_grad():
        module.table.weight.zero_()  # which the graph does not see
    np.testing.assert_allclose(graph.compile()(words), expected, rtol=1e-5, atol=1e-6)


def test_export_refuses_what_is_no_module():
    with pytest.raises(ArgumentError, match=r"torch\.nn\.Module"):
        onegraph.torch.export(torch.tanh, (torch.ones(3),))


@recurrent
@pytest.mark.parametrize(
    "options", [{}, {"bias": False, "batch_first": True}, {"bidirectional": True, "num_layers": 2}]
)
@pytest.mark.parametrize(
    "kind", [nn.LSTM, nn.GRU, nn.RNN, lambda *sizes, **o: nn.RNN(*sizes, nonlinearity="relu", **o)]
)
@pytest.mark.parametrize("given", ["no first states", "first states"])
def test_recurrent_networks_are_exported(kind, options, given):
    """Each layer is one op; the results are the states of all steps, and the last ones of each layer."""
    module, x = kind(6, 20, **options).eval(), torch.randn(3, 5, 6)
    layers = options.get("num_layers", 1)
    first = torch.randn(layers * (1 + options.get("bidirectional", 0)), 3 if options.get("batch_first") else 5, 20)
    args = {"no first states": (x,), "first states": (x, (first, first.cos()) if kind is nn.LSTM else first)}[given]
    graph = onegraph.torch.export(module, args)
    assert [op.kind for op in graph.ops].count("Recurrence") == layers
    expected = torch.utils._pytree.tree_leaves(module(*args))
    flat = [one.numpy() for one in torch.utils._pytree.tree_leaves(args)]
    for found, wanted in zip(graph.compile()(*flat), expected, strict=True):
        np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


@recurrent
def test_a_recurrent_network_of_bf16_is_exported():
    module, x = nn.GRU(6, 20).to(torch.bfloat16).eval(), torch.randn(3, 5, 6)
    graph = onegraph.torch.export(module, (x.to(torch.bfloat16),))
    wanted = copy.deepcopy(module).float()(x.to(torch.bfloat16).float())[0].detach().numpy()
    found = graph.compile()(x.numpy().astype(ml_dtypes.bfloat16))[0]
    assert str(found.dtype) == "bfloat16"
    np.testing.assert_allclose(found.astype(np.float32), wanted, rtol=2**-8, atol=1e-6)


@recurrent
@pytest.mark.parametrize(
    ("options", "reason"),
    [({"proj_size": 3}, "projections"), ({"dropout": 0.5, "num_layers": 2}, "dropout between the layers")],
)
def test_other_recurrent_networks_are_refused(options, reason):
    with pytest.raises(UnsupportedError, match=reason):
        onegraph.torch.export(nn.LSTM(6, 20, **options).train(), (torch.randn(3, 5, 6),))


@pytest.mark.parametrize("result", [lambda x: 3, lambda x: "text", lambda x: x.shape[0]])
def test_results_that_are_no_tensors_are_refused(result):
    class Two(nn.Module):
        def forward(self, x):
            return 2 * x, result(x)

    with pytest.raises(UnsupportedError, match="no tensor"):
        onegraph.torch.export(Two(), (torch.randn(3, 5),), dynamic_shapes={"x": {0: torch.export.Dim("rows")}})


def test_checks_of_an_exported_program_are_left_out():
    """A cast makes PyTorch add a check of the data type before it."""

    class Wide(nn.Module):
        def forward(self, x):
            return x.to(torch.float64).to(torch.float32).exp()

    x = torch.randn(4)
    found = onegraph.torch.export(Wide(), (x,)).compile()(x.numpy())
    np.testing.assert_allclose(found, x.exp().numpy(), rtol=1e-6)


def test_images_keep_channels_last_in_training():
    """A norm over (N, C, X) beside convolutions over (N, X, C) would copy each image twice."""
    layers = [layer for width in (3, 8) for layer in (nn.Conv2d(width, 8, 3), nn.BatchNorm2d(8), nn.SiLU())]
    module, x = nn.Sequential(*layers, nn.MaxPool2d(2)).train(), torch.randn(2, 3, 12, 12)
    graph = onegraph.torch.export(module, (x,))
    assert {op.attrs["data_format"] for op in graph.ops if "data_format" in op.attrs} == {"NXC"}
    assert sum(op.kind == "StaticTranspose" for op in graph.ops) == 2
    np.testing.assert_allclose(graph.compile()(x.numpy()), module(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_programs_and_their_files_are_exported(tmp_path):
    module, x = nn.Linear(3, 3), torch.randn(2, 3)
    program = torch.export.export(module, (x,))
    torch.export.save(program, tmp_path / "small.pt2")
    expected = module(x).detach().numpy()
    for source in (program, tmp_path / "small.pt2", str(tmp_path / "small.pt2")):
        graph = onegraph.torch.export(source)
        np.testing.assert_allclose(graph.compile()(x.numpy()), expected, rtol=1e-4, atol=1e-5)


def test_programs_that_do_not_fit_are_refused(tmp_path):
    module, x = nn.Linear(3, 3), torch.randn(4, 3)
    with pytest.raises(ArgumentError, match="has its own example inputs"):
        onegraph.torch.export(torch.export.export(module, (x,)), (x,))
    (tmp_path / "junk.pt2").write_bytes(b"junk")
    with pytest.raises(onegraph.FormatError, match=r"a file of torch\.export\.save"):
        onegraph.torch.export(tmp_path / "junk.pt2")


class Codes(torch.nn.Module):
    """A linear layer with weights of 8 bits and a scale for each output, as packages for quantization make it."""

    def __init__(self, dtype):
        super().__init__()
        low = 0 if dtype is torch.uint8 else -127
        generator = torch.Generator().manual_seed(0)
        self.register_buffer("codes", torch.randint(low, 128, (96, 64), dtype=dtype, generator=generator))
        self.register_buffer("scales", torch.rand(96, generator=generator) / 64)

    def forward(self, x):
        return torch.mm(x, self.codes.t().to(x.dtype)) * self.scales


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
@pytest.mark.parametrize("number", [torch.float32, torch.bfloat16])
def test_weights_of_codes_are_read_packed(dtype, number):
    module, x = Codes(dtype), torch.rand((3, 64), generator=torch.Generator().manual_seed(1)).to(number)
    module.scales = module.scales.to(number)
    graph = onegraph.torch.export(module, (x,))
    model = graph.compile()
    result = torch.from_dlpack(onegraph.as_dlpack(model(x)))
    torch.testing.assert_close(result, module(x))
    reasons = [part.reason for part in model.report().partitions if "MatMul" in part.kinds]
    assert number is torch.bfloat16 or "reads packed weights" in reasons[0]
    assert {array.dtype.name for array in graph.constants.values() if array.ndim == 2} <= {"int8", "uint8"}
