"""Resizing, sampling, blocks of images and extremes in compiled models, against PyTorch in float64."""

import pytest

torch = pytest.importorskip("torch")

from helpers.torch_backend import agree, assert_as_exact, compiled, left  # noqa: E402

import onegraph.torch  # noqa: E402

pytestmark = [pytest.mark.library, pytest.mark.filterwarnings("ignore")]
interpolate = torch.nn.functional.interpolate
FORMS = [
    {"mode": "nearest", "scale_factor": 2},
    {"mode": "nearest", "size": (4, 11)},
    {"mode": "nearest", "scale_factor": (0.6, 1.7)},
    {"mode": "nearest-exact", "size": (10, 3)},
    {"mode": "bilinear", "scale_factor": 2},
    {"mode": "bilinear", "size": (9, 4)},
    {"mode": "bilinear", "size": (9, 4), "align_corners": True},
    {"mode": "bilinear", "scale_factor": 1.7},
    {"mode": "bilinear", "scale_factor": 1.7, "recompute_scale_factor": True},
    {"mode": "bilinear", "size": (3, 4), "antialias": True},
    {"mode": "bicubic", "size": (9, 4)},
    {"mode": "bicubic", "scale_factor": 2, "align_corners": True},
    {"mode": "bicubic", "size": (3, 4), "antialias": True},
    {"mode": "bilinear", "size": (1, 1), "align_corners": True},
]


class Resized(torch.nn.Module):
    def __init__(self, **form):
        super().__init__()
        self.form = form

    def forward(self, x):
        return interpolate(x, **self.form)


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    onegraph.torch.reset()
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_resized_images(form, dtype):
    if form.get("antialias") and dtype is torch.bfloat16:
        pytest.skip("PyTorch has no such filter in bf16 to compare with")
    with torch.no_grad():
        agree(Resized(**form), torch.randn(2, 3, 7, 6), dtype=dtype, fallback="error")
    assert left() == set()


@pytest.mark.parametrize(
    ("mode", "shape"),
    [("nearest", (2, 3, 5)), ("linear", (2, 3, 5)), ("nearest", (2, 3, 3, 4, 5)), ("trilinear", (1, 2, 3, 4, 5))],
)
def test_other_numbers_of_axes(mode, shape):
    with torch.no_grad():
        agree(Resized(mode=mode, scale_factor=1.7), torch.randn(shape), fallback="error")


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_gradients_of_resized_images(form):
    module, x = Resized(**form), torch.randn(2, 3, 7, 6)

    def gradient(function, x):
        x = x.clone().requires_grad_()
        result = function(x)
        (result * torch.sin(torch.arange(result.numel(), dtype=x.dtype)).reshape(result.shape)).sum().backward()
        return x.grad

    found, eager = gradient(compiled(module, smallest=1), x), gradient(module, x)
    assert_as_exact(found, eager, gradient(module, x.double()))
    assert not any("backward" in one or "index" in one for one in left())


def test_marked_sizes():
    module = Resized(scale_factor=2, mode="bilinear")
    model = compiled(module, smallest=1)
    with torch.no_grad():
        for size in (4, 6, 9):
            x = torch.randn(1, 2, size, 5)
            torch._dynamo.mark_dynamic(x, 2)
            torch.testing.assert_close(model(x), module(x), rtol=1e-5, atol=1e-5)
    assert onegraph.torch.stats().graphs == 1


class Joined(torch.nn.Module):
    def __init__(self, **form):
        super().__init__()
        self.form = form

    def forward(self, x, like):
        return torch.cat([interpolate(x, size=like.shape[2:], **self.form), like], 1)


@pytest.mark.parametrize(
    "form", [{"mode": "nearest"}, {"mode": "bilinear", "align_corners": True}, {"mode": "bicubic"}], ids=str
)
def test_images_are_resized_to_the_shape_of_another(form):
    module, options = Joined(**form), {"smallest": 1}
    model = torch.compile(module, backend=onegraph.torch.backend, options=options, dynamic=True)
    with torch.no_grad():
        for size in (5, 7, 10):
            given = torch.randn(2, 3, size, size + 1), torch.randn(2, 3, 2 * size, size + 4)
            torch.testing.assert_close(model(*given), module(*given), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_an_exported_graph_resizes(mode):
    module, x = Resized(scale_factor=1.7, mode=mode), torch.randn(1, 2, 5, 6)
    graph = onegraph.torch.export(module, (x,))
    torch.testing.assert_close(torch.from_numpy(graph.compile()(x.numpy())), module(x), rtol=1e-5, atol=1e-5)


class Sampled(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, x, grid):
        return torch.nn.functional.grid_sample(x, grid, **self.options)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic", "volumes"])
def test_images_are_sampled_at_a_grid(mode, padding_mode, align_corners):
    sizes, mode = ((4, 5, 3), "bilinear") if mode == "volumes" else ((5, 4), mode)
    module = Sampled(mode=mode, padding_mode=padding_mode, align_corners=align_corners)
    x, grid = torch.randn(2, 3, *sizes), torch.rand(2, *sizes, len(sizes)) * 3.4 - 1.7
    with torch.no_grad():
        agree(module, x, grid, fallback="error")
    assert left() == set()


BLOCKS = {"kernel_size": (3, 2), "dilation": (1, 2), "padding": (1, 0), "stride": (2, 3)}


class Blocks(torch.nn.Module):
    def forward(self, x):
        blocks = torch.nn.functional.unfold(x, **BLOCKS)
        return torch.nn.functional.fold(blocks * blocks, (6, 9), **BLOCKS)


@pytest.mark.parametrize("shape", [(2, 3, 6, 9), (3, 6, 9)])
def test_blocks_of_images(shape):
    agree(Blocks(), torch.randn(*shape), fallback="error")
    assert left() == set()


@pytest.mark.parametrize("window", [(1, 3, 1), (1, 2, 3), (-1, 4, 4), (0, 2, 1)], ids=str)
def test_windows_along_an_axis(window):
    class Windows(torch.nn.Module):
        def forward(self, x):
            return x.unfold(*window) * 2

    with torch.no_grad():
        agree(Windows(), torch.randn(2, 7, 4), fallback="error")
    assert left() == set()


@pytest.mark.parametrize("take", ["max", "min"])
def test_extremes_along_an_axis_have_places(take):
    x = torch.randn(3, 5, 4)
    x[1, 2:4, 1] = x.max() + 1  # the first of two is taken

    class Extremes(torch.nn.Module):
        def forward(self, x):
            values, places = getattr(torch, take)(x, 1, keepdim=True)
            return values * 2 + places + getattr(torch, take)(x, -1).values[:, :1, None]

    class Values(torch.nn.Module):
        def forward(self, x):
            return getattr(torch, take)(x, 1).values * 2

    with torch.no_grad():
        agree(Extremes(), x, fallback="error")
        agree(Values(), x, fallback="error")
    assert left() == set()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_normalized_rows_have_no_spatial_axes(dtype):
    norm = torch.nn.BatchNorm1d(5).eval()
    norm.running_mean[:], norm.running_var[:] = torch.randn(5), torch.rand(5) + 0.5
    with torch.no_grad():
        agree(norm, torch.randn(7, 5), dtype=dtype, fallback="error")
    assert left() == set()


def test_other_backends_decompose_as_before():
    kernels = dict(torch.ops.aten.upsample_bilinear2d.vec.py_kernels)
    compiled(Resized(scale_factor=2))(torch.ones(1, 1, 2, 2))
    assert torch.ops.aten.upsample_bilinear2d.vec.py_kernels == kernels


def test_networks_with_unused_statistics_run_here_at_any_size():
    """A BatchNorm in inference returns statistics without elements, which nobody reads."""
    nn = torch.nn
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
    torch._dynamo.reset()
    onegraph.torch.reset()
    model = torch.compile(module, backend="onegraph", dynamic=True)
    with torch.no_grad():
        for size in (8, 12):
            x = torch.randn(2, 3, size, size)
            torch.testing.assert_close(model(x), module(x), rtol=1e-4, atol=1e-5)
    assert onegraph.torch.stats().compilations == 2
