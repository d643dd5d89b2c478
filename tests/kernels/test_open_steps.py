"""Steps that kernels of the package take where sizes are open, as the library would compile them for each size."""

from itertools import product

import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph.compiler.kernels.kernel import COMPILED_ANEW
from onegraph.compiler.lower import lower
from onegraph.compiler.options import Options
from onegraph.compiler.passes import run_passes
from onegraph.compiler.passes.open_steps import TAKEN
from onegraph.compiler.rewrites.open_forms import GRADIENTS, NORMS, SPREAD
from onegraph.errors import LibraryRuntimeError
from onegraph.native.library import HASHES_CONSTANTS
from tests.helpers.kernels import run
from tests.helpers.pass_graphs.on_images import OPS, drawn, on_images

TESTED_KERNELS = ("avg_pool", "interpolate", "panel_matrices")
# Dims of images, and for each axis kernel, stride, dilation and padding on both sides.
POOLS = {
    "2x2": ((7, 8), ((2, 2, 1, 0), (2, 2, 1, 0))),
    "padding": ((5, 9), ((3, 1, 1, 1), (3, 2, 1, 1))),
    "a row": ((11,), ((4, 3, 1, 2),)),
    "a volume": ((3, 4, 5), ((2, 1, 1, 1), (2, 2, 1, 0), (3, 2, 1, 1))),
    "as large as the image": ((4, 6), ((4, 1, 1, 0), (6, 1, 1, 0))),
}
CHANNELS = (1, 15, 16, 17, 130)
RESIZES = {
    "twice": ((4, 5), (8, 10)),
    "other ratios": ((7, 6), (10, 4)),
    "a row": ((9,), (4,)),
    "a volume": ((2, 3, 4), (3, 6, 5)),
    "one element": ((1, 5), (6, 5)),
}


def images(size, channels, is_last):
    """Two images, of which the channels of one place lie side by side, or the places of one channel."""
    return drawn(2, *size, channels) if is_last else drawn(2, channels, *size)


def pooled(src, windows, is_last, excludes):
    kernel, strides, _, pads = zip(*windows, strict=True)
    g = og.Graph()
    attrs = {"kernel": kernel, "strides": strides, "pads_begin": pads, "pads_end": pads, "exclude_pad": excludes}
    g.output("y", g.avg_pool(g.input("x", "f32", src.shape), data_format="NXC" if is_last else "NCX", **attrs))
    return reference.run(g, {"x": src})["y"]


@pytest.mark.parametrize("excludes", [False, True], ids=["all places", "without padding"])
@pytest.mark.parametrize("is_last", [False, True], ids=["NCX", "NXC"])
@pytest.mark.parametrize("case", POOLS)
def test_averages_of_windows(case, is_last, excludes):
    size, windows = POOLS[case]
    for channels, threads in product(CHANNELS, (1, 2)):
        src = images(size, channels, is_last)
        wanted = pooled(src, windows, is_last, excludes)
        found = np.full_like(wanted, np.nan)
        numbers = {"exclude_pad": excludes, "channels": src.ndim - 1 if is_last else 1, "windows": sum(windows, ())}
        run("avg_pool", src, found, threads=threads, **numbers)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("is_last", [False, True], ids=["NCX", "NXC"])
@pytest.mark.parametrize("case", RESIZES)
def test_resized_images(case, is_last, mode):
    size, sizes = RESIZES[case]
    named = mode if mode == "nearest" else {1: "linear", 2: "bilinear", 3: "trilinear"}[len(size)]
    for channels, threads in product(CHANNELS, (1, 2)):
        src = images(size, channels, is_last)
        g, data_format = og.Graph(), "NXC" if is_last else "NCX"
        g.output("y", g.interpolate(g.input("x", "f32", src.shape), mode=named, sizes=sizes, data_format=data_format))
        wanted = reference.run(g, {"x": src})["y"]
        found = np.full_like(wanted, np.nan)
        numbers = {"channels": src.ndim - 1 if is_last else 1, "linear": mode == "linear"}
        run("interpolate", src, found, threads=threads, **numbers)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("is_last", [False, True], ids=["NCX", "NXC"])
def test_a_share_of_zero_reads_nothing(is_last):
    src = images((3, 3), 20, is_last)
    (src[:, 1, 1] if is_last else src[:, :, 1, 1])[...] = np.nan
    shape = (2, 9, 9, 20) if is_last else (2, 20, 9, 9)
    found = np.empty(shape, np.float32)
    run("interpolate", src, found, channels=3 if is_last else 1, linear=True)
    rows = np.isnan(found[0, :, :, 0] if is_last else found[0, 0])
    np.testing.assert_array_equal(rows, np.outer(*[[False, False, True, True, True, True, True, False, False]] * 2))


def test_strides_of_any_kind():
    src, found = drawn(2, 9, 14, 12)[:, ::3, ::2, ::3], np.zeros((2, 6, 5, 8), np.float32)[:, ::2, :, ::2]
    run("avg_pool", src, found, exclude_pad=False, channels=1, windows=(3, 1, 1, 0, 1, 1, 1, 0))
    np.testing.assert_allclose(found, np.stack([src[:, :, i : i + 5] for i in range(3)]).mean(0), rtol=1e-4, atol=1e-6)
    wide = np.zeros((2, 6, 14, 8), np.float32)[:, ::2, :, ::2]
    run("interpolate", src, wide, channels=1, linear=False)
    np.testing.assert_array_equal(wide, src.repeat(2, axis=2))


@pytest.mark.parametrize("kernel", ["avg_pool", "interpolate"])
def test_a_result_with_other_channels_is_refused(kernel):
    numbers = {"exclude_pad": 0, "windows": (1, 1, 1, 0)} if kernel == "avg_pool" else {"linear": False}
    with pytest.raises(LibraryRuntimeError, match="another size"):
        run(kernel, drawn(1, 3, 4), drawn(1, 2, 4), channels=1, **numbers)


OVER_IMAGES = ("BatchNormTrainingBackward", "ReduceSum")  # which sum over all images

# Graphs --------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(HASHES_CONSTANTS, reason="newer libraries find prepared constants by a hash")
@pytest.mark.parametrize("kind", sorted(TAKEN.keys() | NORMS.keys() | GRADIENTS))
def test_a_new_size_compiles_nothing(kind):
    g = on_images(OPS[kind])
    model = g.compile()
    for size in ((2, 6, 9, 8), (1, 6, 7, 9), (3, 6, 10, 11), (1, 6, 12, 5)):
        x = drawn(*size)
        np.testing.assert_allclose(model(x), reference.run(g, {"x": x})["y"], rtol=1e-4, atol=1e-5)
    report = str(model.report())
    assert kind in ("BatchNormInference", *GRADIENTS) or COMPILED_ANEW in report  # steps of norms are joined
    assert "compiled for these sizes" not in report, report
    exact = g.compile(reproducible=True)
    for size in ((2, 6, 9, 8), (1, 6, 7, 9)) if kind not in OVER_IMAGES else ():
        x = drawn(*size)
        np.testing.assert_array_equal(exact(x), np.concatenate([exact(image[None]) for image in x]))


PRODUCTS = [
    ((3, 7), (7, 5)),
    ((2, 17, 33), (2, 33, 31)),
    ((1, 600, 20), (1, 20, 70)),
    ((2, 1, 15, 64), (3, 64, 65)),
    ((4, 1, 40), (40, 300)),
    ((2, 20, 512), (512, 257)),
]


@pytest.mark.parametrize("level", [0, 1, 2], ids=["any CPU", "AVX2", "AVX-512"])
@pytest.mark.parametrize(("first", "second"), PRODUCTS, ids=lambda shape: "x".join(map(str, shape)))
def test_products_of_matrices_that_a_run_computes(first, second, level):
    a, b = drawn(*first), drawn(*second)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    for turned_src, turned, threads in product((False, True), (False, True), (1, 3)):
        src = np.ascontiguousarray(a.swapaxes(-1, -2)) if turned_src else a
        weights = np.ascontiguousarray(b.swapaxes(-1, -2)) if turned else b
        found = np.full(wanted.shape, np.nan, np.float32)
        numbers = {"turned_src": turned_src, "turned": turned, "level": level}
        run("panel_matrices", src, weights, found, threads=threads, **numbers)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
        alone = np.full(wanted.shape, np.nan, np.float32)
        run("panel_matrices", src, weights, alone, **numbers)
        np.testing.assert_array_equal(found, alone)


def test_matrices_that_do_not_fit_are_refused():
    for first, second in (((2, 3), (4, 5)), ((3, 2, 4), (2, 4, 5))):
        with pytest.raises(LibraryRuntimeError, match=r"sizes|broadcast"):
            run("panel_matrices", drawn(*first), drawn(*second), drawn(*first[:-1], 5), turned_src=False, turned=False)


@pytest.mark.parametrize("kind", sorted(SPREAD))
def test_the_library_gets_no_empty_operand(kind):
    """It would write a result over its other operand, which has more elements."""
    g = og.Graph()
    x = g.input("x", "f32", (None, None, None))
    g.output("y", g.op(kind, [g.reduce_sum(x, axes=(1, 2), keep_dims=True), x]))
    model = g.compile()
    for size in ((7, 7, 7), (7, 0, 7), (5, 0, 5)):
        x = drawn(*size)
        np.testing.assert_allclose(model(x), reference.run(g, {"x": x})["y"], rtol=1e-5, atol=1e-5)
    assert {part.executor for part in model.report().partitions} == {"reference"}


SHAPES = [
    ((6, 1, 1), (5, 6, 4, 3)),
    ((5, 1, 1, 3), (5, 6, 4, 3)),
    ((4, 1), (5, 6, 4, 3)),
    ((5, 6, 1, 1), (5, 6, 4, 3)),
    ((1, 6, 40, 1), (2, 6, 40, 30)),
]


@pytest.mark.parametrize("level", [0, 1, 2], ids=["any CPU", "AVX2", "AVX-512"])
@pytest.mark.parametrize(("shape", "result"), SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_operands_that_are_broadcast(shape, result, level):
    """Two operands that are broadcast along different axes, beside a row and a whole tensor."""
    x, y, row = drawn(*result), drawn(*shape), drawn(result[-1])
    found = np.empty(result, np.float32)
    # (x * y + row) * y
    ops = ["multiply", 4, 0, 1, "add", 5, 4, 2, "multiply", 3, 5, 1]
    run("pointwise", x, y, row, found, ops=ops, level=level)
    np.testing.assert_array_equal(found, (x * y + row) * y)


@pytest.mark.parametrize(
    ("data_format", "shape", "seen"), [("NXC", (2, 4, 5, 3), (1, 1, 1, 3)), ("NCX", (2, 3, 4, 5), (1, 3, 1, 1))]
)
def test_normalizations_by_constants_are_products_and_sums(data_format, shape, seen):
    numbers = {"gamma": [1, 4, 9], "beta": [0, 1, 2], "mean": [1, 0, -1], "variance": [0, 3, 8]}
    for is_known in (True, False):
        g = og.Graph()
        ends = [g.constant(np.array(one, np.float32)) for one in numbers.values()]
        if not is_known:
            ends[1] = g.input("beta", "f32", (3,))
        x = g.input("x", "f32", shape)
        g.output("y", g.batch_norm_inference(x, *ends, epsilon=1.0, data_format=data_format))
        made = run_passes(lower(g, opens=True), Options(opens=True), ["open_steps"])
        kinds = [step.kind for step in made.steps]
        assert kinds == (["Multiply", "Add"] if is_known else ["BatchNormInference"])
        if is_known:
            vectors = [made.values[step.inputs[1]].constant for step in made.steps]
            assert [one.shape for one in vectors] == [seen, seen]
            assert [one.ravel().tolist() for one in vectors] == [[1, 2, 3], [-1, 1, 5]]
