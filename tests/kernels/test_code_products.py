"""Products and convolutions of 8-bit codes, whose weights lie in panels, with the steps behind them."""

import numpy as np
import pytest

import onegraph as og
from onegraph import reference
from onegraph.capi.settings import has_vnni
from onegraph.compiler.kernels.code_product import CODE_MATRICES, FOR_CODES, MOST_DEPTH
from onegraph.compiler.lower import lower
from onegraph.compiler.options import Options
from onegraph.compiler.packed_weights import PANEL, channel_lines, code_panels
from onegraph.compiler.passes import code_products, run_passes
from onegraph.native.library import HASHES_CONSTANTS
from tests.helpers.kernels import run
from tests.helpers.pass_graphs.code_products import (
    a_convolution,
    a_product,
    a_product_of_results,
    a_sum_of_products,
    drawn,
)

TESTED_KERNELS = ("code_product", "code_matrices")
LEVELS = [0, 1, 3, 4]
f32 = np.float32
# Rows, depth, columns: no multiple of a panel or a tile, and less than one.
SIZES = [(1, 7, 5), (3, 64, 32), (17, 130, 40), (70, 33, 100), (200, 260, 37)]
NONE = {"slope": 1.0, "factor": 1.0, "dst_zero": 0.0}


def filled(array, columns, groups=1):
    found = np.zeros((groups, -(-columns // PANEL) * PANEL), array.dtype)
    found[:, :columns] = array.reshape(groups, -1)
    return found.reshape(-1)


def product(src, weights, scales, zero=0, zeros=None, steps=(), operands=(), dtype=f32, threads=1, **numbers):
    """The product of rows by the kernel, with f32 steps behind it."""
    columns, wide = weights.shape[1], weights.astype(np.int32)
    sums = (wide - (0 if zeros is None else zeros)).sum(0).astype(np.int32)
    ends = [src, code_panels(wide[np.newaxis]), filled(scales, columns), filled(sums, columns)]
    if zeros is not None:
        ends.append(filled(zeros.astype(np.int32), columns))
    is_dynamic = isinstance(zero, np.ndarray)
    ends += [zero] if is_dynamic else []
    out = np.full((*src.shape[:-1], columns), 77, dtype)
    given = {"groups": 1, "axes": 0, "zeros": zeros is not None, "dynamic": is_dynamic, "steps": steps}
    run(
        "code_product",
        *ends,
        *operands,
        out,
        threads=threads,
        zero=0 if is_dynamic else zero,
        **given,
        **NONE | numbers,
    )
    return out


def exact(src, weights, zero=0, zeros=0):
    return (src.astype(np.int64) - int(zero)) @ (weights.astype(np.int64) - zeros)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(("rows", "depth", "columns"), SIZES, ids=str)
def test_sums_are_exact(rows, depth, columns, dtype, level):
    src, weights = drawn(dtype, rows, depth), drawn(np.int8, depth, columns)
    scales = np.linspace(0.1, 2, columns).astype(f32)
    for zero in (0, 3, np.array([-5 if dtype is np.int8 else 250], dtype)):
        expected = exact(src, weights, np.ravel(zero)[0]).astype(f32) * scales
        np.testing.assert_array_equal(product(src, weights, scales, zero, level=level), expected)
    zeros = np.arange(columns) % 7 - 3
    expected = exact(src, weights, 9, zeros).astype(f32) * scales
    np.testing.assert_array_equal(product(src, weights, scales, 9, zeros, level=level), expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("columns", [5, 32, 70])
def test_steps_are_rounded_one_after_the_other(columns, level):
    rng = np.random.default_rng(columns)
    src, weights = drawn(np.uint8, 37, 50), drawn(np.int8, 50, columns)
    row, one, full = (rng.standard_normal(shape).astype(f32) for shape in (columns, 1, (37, columns)))
    full[3, 1], full[5, 2], full[6, 3] = np.nan, np.inf, -np.inf
    steps = ("subtract", "multiply", "add", "activate", "divide")
    operands = (row, one, full, row)
    plain = (exact(src, weights).astype(f32) * f32(0.01) - row) * one + full
    with np.errstate(invalid="ignore"):
        expected = np.where(plain < 0, plain * f32(0.1), plain) / row
        codes = np.rint(np.fmin(np.fmax(expected * f32(0.5) + f32(7), -128), 127)).astype(np.int8)
    scales, given = np.full(columns, 0.01, f32), {"steps": steps, "operands": operands, "slope": 0.1, "level": level}
    np.testing.assert_array_equal(product(src, weights, scales, **given), expected)
    rounded = product(src, weights, scales, **given, dtype=np.int8, factor=0.5, dst_zero=7.0)
    np.testing.assert_array_equal(rounded, codes)


@pytest.mark.parametrize("rows", [1, 40, 200])
def test_any_number_of_threads_gives_the_same_bits(rows):
    src, weights, scales = drawn(np.uint8, rows, 512), drawn(np.int8, 512, 300), np.ones(300, f32)
    whole = product(src, weights, scales, 5)
    for threads in (2, 3, 4):
        np.testing.assert_array_equal(product(src, weights, scales, 5, threads=threads), whole)


def convolution(src, weights, zero, strides, dilations, pads, groups):
    """The sums by definition: src (N, H, W, C), weights (groups, taps, channels, columns of a group)."""
    taps, (n, height, width, _) = weights.shape[1:3], src.shape
    padded = np.full((n, height + 2 * pads[0], width + 2 * pads[1], src.shape[-1]), zero, np.int64)
    padded[:, pads[0] : pads[0] + height, pads[1] : pads[1] + width] = src
    padded -= zero
    sizes = [(padded.shape[1 + i] - (taps[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(2)]
    parts = []
    for group in range(groups):
        channels = weights.shape[3]
        own, total = padded[..., group * channels : (group + 1) * channels], 0
        for y in range(taps[0]):
            for x in range(taps[1]):
                rows = y * dilations[0] + np.arange(sizes[0]) * strides[0]
                places = x * dilations[1] + np.arange(sizes[1]) * strides[1]
                total = total + own[:, rows][:, :, places] @ weights[group, y, x].astype(np.int64)
        parts.append(total)
    return np.concatenate(parts, -1)


WINDOWS = [((1, 1), (1, 1), (1, 1)), ((2, 1), (1, 2), (0, 2)), ((1, 3), (2, 1), (2, 1))]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("strides", "dilations", "pads"), WINDOWS, ids=str)
@pytest.mark.parametrize(("groups", "channels", "columns"), [(1, 3, 40), (2, 20, 8), (40, 1, 1), (8, 1, 1)], ids=str)
def test_windows_are_those_of_a_convolution(groups, channels, columns, strides, dilations, pads, level):
    src, weights = drawn(np.int8, 2, 9, 11, groups * channels), drawn(np.int8, groups, 3, 3, channels, columns)
    expected = convolution(src, weights, -3, strides, dilations, pads, groups)
    matrices = weights.reshape(groups, -1, columns).astype(np.int32)
    if is_depthwise := channels == columns == 1:
        ends = [channel_lines(matrices), *[np.ones(max(groups, PANEL), dtype) for dtype in (f32, np.int32)]]
    else:
        numbers = np.ones(columns * groups, f32), matrices.sum(1).astype(np.int32)
        ends = [code_panels(matrices), *[filled(array, columns, groups) for array in numbers]]
    out = np.full(expected.shape, 77, f32)
    windows = [number for i in range(2) for number in (3, strides[i], dilations[i], pads[i])]
    given = {"groups": groups, "axes": 2, "zero": -3, "zeros": 0, "dynamic": 0, "steps": windows, "level": level}
    for threads in (1, 3):
        run("code_product", src, *ends, out, threads=threads, **given, **NONE)
        np.testing.assert_array_equal(out, expected.astype(f32), f"{is_depthwise=}")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtypes", [(np.uint8, np.uint8), (np.int8, np.int8), (np.uint8, np.int8)], ids=str)
@pytest.mark.parametrize(("rows", "depth", "columns"), SIZES[:4], ids=str)
def test_matrices_of_any_strides(rows, depth, columns, dtypes, level):
    first = drawn(dtypes[0], 2, rows, 3, depth).transpose(0, 2, 1, 3)
    second = drawn(dtypes[1], 2, depth, 3, columns).transpose(0, 2, 1, 3)
    expected = (first.astype(np.int64) - 4) @ (second.astype(np.int64) - 100)
    full = np.random.default_rng(0).standard_normal(expected.shape).astype(f32)
    expected = expected.astype(f32) * f32(0.25) + full
    given = {"zero": 4, "weights_zero": 100, "scale": 0.25, "steps": ("add",), "level": level, **NONE}
    sides = [first, np.ascontiguousarray(first.swapaxes(2, 3)).swapaxes(2, 3)]
    others = [(second, False), (np.ascontiguousarray(second.swapaxes(2, 3)), True)]
    for src in sides:
        for weights, turned in others:
            for threads in (1, 3):
                out = np.full(expected.shape, 77, f32)
                run("code_matrices", src, weights, full, out, threads=threads, turned=turned, **given)
                np.testing.assert_array_equal(out, expected)


# In graphs ------------------------------------------------------------------------------------------------------------


@pytest.mark.library
@pytest.mark.parametrize(
    ("model", "shape", "sizes"),
    [
        (a_sum_of_products, (None, None, 48), [(2, 3), (3, 5), (2, 17), (5, 9)]),
        (a_product_of_results, (None, None, 48), [(2, 3), (3, 5), (2, 17), (5, 9)]),
        (a_product, (None, None, 48), [(2, 3), (3, 5), (2, 17), (5, 9)]),
        (a_convolution, (None, None, None, 48), [(2, 6, 7), (2, 8, 9), (3, 9, 12), (2, 11, 14)]),
    ],
)
def test_sizes_have_the_bits_of_known_dims(model, shape, sizes):
    if not has_vnni():
        pytest.skip("without VNNI the library computes in f32")
    opened = model(shape).compile()
    for size in sizes:
        src = np.random.default_rng(size).standard_normal((*size, 48)).astype(f32) * 2
        found, known = opened(src), model(src.shape).compile()(src)
        if HASHES_CONSTANTS and found.dtype == f32:  # newer libraries round a sum of products elsewhere
            np.testing.assert_allclose(found, known, rtol=1e-6, atol=1e-6)
        else:
            np.testing.assert_array_equal(found, known)
    assert FOR_CODES in str(opened.report())
    assert opened.cache_info().reused >= 1


@pytest.mark.parametrize(
    ("zero", "is_weight"), [(-129, False), (255, False), ("s32", False), (-129, True), (255, True)], ids=str
)
def test_zero_points_that_are_no_codes(zero, is_weight):
    """No code stands for padding then, and sums of products may leave s32."""
    g = og.Graph()
    x, weights = g.input("x", "s8", (None, None, 6)), drawn(np.int8, 3, 6, 8)
    if zero == "s32":
        src = g.dynamic_dequantize(x, g.constant(f32([0.1])), g.input("zero", "s32", (1,)))
    else:
        src = g.dequantize(x, scales=(0.1,), zps=(0 if is_weight else zero,))
    known = g.dequantize(g.constant(weights), scales=(0.1,), zps=(zero if is_weight else 0,))
    window = {"strides": (1,), "dilations": (1,), "pads_begin": (1,), "pads_end": (1,)}
    g.output("y", g.convolution(src, known, **window, data_format="NXC", weights_format="XIO"))
    model = g.compile()
    for size in ((2, 5), (3, 7), (2, 9)):
        arrays = {"x": drawn(np.int8, *size, 6)} | ({"zero": np.array([1000], np.int32)} if zero == "s32" else {})
        np.testing.assert_allclose(model(**arrays), reference.run(g, arrays)["y"], rtol=1e-4, atol=1e-2)
    assert FOR_CODES not in str(model.report())


@pytest.mark.parametrize(
    ("first", "second", "is_taken"),
    [
        ((2, 3, 48), (2, 48, 5), True),
        ((3, 48), (48, 5), True),
        ((2, 3, 48), (1, 48, 5), False),
        ((2, 3, 48), (48, 5), False),
        ((48,), (48, 5), False),
        ((3, MOST_DEPTH), (MOST_DEPTH, 5), True),
        ((3, MOST_DEPTH + 1), (MOST_DEPTH + 1, 5), False),
    ],
    ids=str,
)
def test_matrices_of_one_batch_are_multiplied_as_codes(first, second, is_taken, monkeypatch):
    monkeypatch.setattr(code_products, "has_vnni", lambda: True)
    g = og.Graph()
    codes = [g.input(name, "u8", shape) for name, shape in (("x", first), ("z", second))]
    g.output("y", g.matmul(*[g.dequantize(one, scales=[0.5], zps=[3]) for one in codes]))
    steps = run_passes(lower(g, opens=True), Options(opens=True), ["code_products"]).steps
    assert (CODE_MATRICES.executor in [step.executor for step in steps]) is is_taken
