"""Kernels of pools, resizing and norms on drawn sizes, layouts, contents and threads.

Each is compared with its definition in float64. The report of models of open sizes proves that the kernels run there.
"""

from __future__ import annotations

from itertools import product
from zlib import crc32

import numpy as np
import pytest
from conftest import draws
from helpers.drawn import LARGEST, LEAST, TYPES, Wanted, dense_array, fill, near_size, placed_array, sized
from helpers.kernels import plan_of, run, run_compiled, values_of
from helpers.wide_reference import run_wide

import onegraph as og
from onegraph.compiler.ir.value import Value, dense_of
from onegraph.compiler.kernels.kernel import COMPILED_ANEW
from onegraph.compiler.kernels.native import compiled, packed, tensor_of
from onegraph.compiler.kernels.panel_convolution import FOR_WINDOWS
from onegraph.compiler.kernels.panel_product import FOR_SIZES
from onegraph.errors import LibraryRuntimeError
from onegraph.native.library import HASHES_CONSTANTS, ffi, lib
from onegraph.opset.dtypes import DataType
from tests.guard.memory import placed

ULP = 2.0**-23
KERNELS = {}
TESTED_KERNELS = (
    "avg_pool", "interpolate", "layer_norm", "panel_convolution", "panel_matrices", "panel_product", "rms_norm",
)  # fmt: skip


def kernel(check):
    KERNELS[check.__name__] = check
    return check


def shape_of(rng, rank):
    """Dims, one of them beside the size of a vector, of a tensor that is not large."""
    dims = [near_size(rng) if rng.integers(3) else 2, *rng.integers(1, 7, rank - 1).tolist()]
    rng.shuffle(dims)
    return dims


def image(rng, shape, channels):
    """Memory whose last axis, whose channels or any of whose axes lie side by side."""
    way = rng.integers(4)
    if way == 0:
        return placed_array(rng, shape)
    if way == 1:
        return placed(np.zeros(shape, np.float32))
    others = [dim for axis, dim in enumerate(shape) if axis != channels]
    return np.moveaxis(placed(np.zeros([*others, shape[channels]], np.float32)), -1, channels)


def threads_of(rng):
    return int(rng.integers(1, 4))


def windows_of(rng, size, *, most=5):
    """Kernel, stride, dilation and padding before and after, of a window that fits somewhere."""
    taps, stride, step = (int(rng.integers(1, end)) for end in (most, 4, 3))
    begin, end = (int(n) for n in rng.integers(0, taps + 1, 2))
    while (taps - 1) * step + 1 > size + begin + end:
        taps -= 1
    return max(taps, 1), stride, step, begin, end


def places(size, results, taps, stride, step, begin):
    """For each tap the results whose element lies in src, and its place."""
    for tap in range(taps):
        at = np.arange(results) * stride + tap * step - begin
        inside = (at >= 0) & (at < size)
        yield np.flatnonzero(inside), at[inside]


@kernel
def avg_pool(rng, said):
    axes, is_last, excludes = int(rng.integers(1, 4)), bool(rng.integers(2)), bool(rng.integers(2))
    images, channels, *size = shape_of(rng, axes + 2)
    windows = [windows_of(rng, n) for n in size]
    results = [
        (n + a + b - (taps - 1) * step - 1) // by + 1 for n, (taps, by, step, a, b) in zip(size, windows, strict=True)
    ]
    ends = (lambda dims: (images, *dims, channels)) if is_last else (lambda dims: (images, channels, *dims))
    place = axes + 1 if is_last else 1
    src, found = image(rng, ends(size), place), image(rng, ends(results), place)
    fill(rng, src)
    found[...] = np.nan
    wide = np.moveaxis(src, place, 1).astype(np.float64)
    sums, counts = np.zeros((images, channels, *results)), np.zeros(results)
    sizes = np.zeros_like(sums)
    taps = [[*places(n, m, *window[:4])] for n, m, window in zip(size, results, windows, strict=True)]
    for chosen in product(*taps):
        to, at = (np.ix_(range(images), range(channels), *parts) for parts in zip(*chosen, strict=True))
        sums[to] += wide[at]
        sizes[to] += sized(wide[at])
        counts[np.ix_(*(part for part, _ in chosen))] += 1
    of = np.maximum(counts, 1) if excludes else np.prod([window[0] for window in windows])
    error = ULP * (len([*product(*taps)]) + 2) * sizes / of
    run("avg_pool", src, found, threads=threads_of(rng), exclude_pad=excludes, channels=place,
        windows=[number for window in windows for number in window[:4]])  # fmt: skip
    Wanted(sums / of, error, sizes).check(np.moveaxis(found, place, 1), f"{said}: {src.shape}, {windows}")


@kernel
def interpolate(rng, said):
    axes, is_last, is_linear = int(rng.integers(1, 4)), bool(rng.integers(2)), bool(rng.integers(2))
    images, channels, *size = shape_of(rng, axes + 2)
    results = [max(1, int(n * rng.choice([0.4, 0.5, 1, 1.3, 2, 3]))) for n in size]
    ends = (lambda dims: (images, *dims, channels)) if is_last else (lambda dims: (images, channels, *dims))
    place = axes + 1 if is_last else 1
    src, found = image(rng, ends(size), place), image(rng, ends(results), place)
    fill(rng, src)
    found[...] = np.nan
    wide = np.moveaxis(src, place, 1).astype(np.float64)
    sizes = sized(wide)
    for axis, (n, m) in enumerate(zip(size, results, strict=True), 2):
        at = (np.arange(m, dtype=np.float32) + np.float32(0.5)) * np.float32(n) / np.float32(m) - np.float32(0.5)
        nearest = np.floor(np.abs(at) + np.float32(0.5)) * np.sign(at)
        first = np.clip(np.floor(at) if is_linear else nearest, 0, n - 1).astype(int)
        second = np.clip(np.ceil(at), 0, n - 1).astype(int)
        dims = [-1 if one == axis else 1 for one in range(axes + 2)]
        share = np.where(is_linear & (first != second), at - first, 0).astype(np.float64).reshape(dims)
        one, other = wide.take(first, axis), wide.take(second, axis)
        wide = one * (1 - share) + np.where(share > 0, other, 0) * share
        sizes = sizes.take(first, axis) + sizes.take(second, axis)
    run("interpolate", src, found, threads=threads_of(rng), channels=place, linear=is_linear)
    Wanted(wide, 8 * ULP * sizes, sizes).check(np.moveaxis(found, place, 1), f"{said}: {src.shape} to {results}")


def norm(rng, said, *, is_centered):
    dtype, to = (str(rng.choice([*TYPES])) for _ in range(2))
    width, rows = near_size(rng), int(rng.choice([1, 2, 5, 70]))
    width = int(rng.integers(1, 300)) if rng.random() < 0.3 else width
    epsilon, level = float(rng.choice([1e-5, 1e-3, 0.5])), int(rng.integers(0, 4))
    src = dense_array(rng, (rows, width), dtype)
    vectors = [
        dense_array(rng, (width,), str(rng.choice([*TYPES]))) for _ in range(int(rng.integers(0, 2 + is_centered)))
    ]
    found = placed(np.full((rows, width), np.nan, TYPES[to]))
    has_stats = is_centered and bool(rng.integers(2))
    stats = [placed(np.full(rows, np.nan, np.float32)) for _ in range(2 * has_stats)]
    arrays = [src, *vectors, found, *stats]
    values, name = values_of(arrays), "layer_norm" if is_centered else "rms_norm"
    split, code = len(vectors) + 1, packed(name, {"width": width, "epsilon": epsilon, "level": level})
    kernel = compiled(name, values[:split], values[split:], code)
    run_compiled(kernel, *arrays, threads=threads_of(rng), results=1 + len(stats))
    with np.errstate(all="ignore"):
        wide = src.astype(np.float64)
        mean = wide.mean(-1, keepdims=True) if is_centered else np.zeros((rows, 1))
        variance = np.square(wide - mean).mean(-1, keepdims=True)
        root = np.sqrt(variance + epsilon)
        largest = sized(wide).max(-1, keepdims=True)
        result, error = (wide - mean) / root, (8 * ULP * (sized(wide) + largest) + LEAST) / root
        way = sized(result)  # the largest number on the way to the result
        for number, vector in enumerate(vectors):
            factor = vector.astype(np.float64)
            is_lost = (sized(result) < 2 * LEAST) & np.isinf(factor)  # 0 in f32, times infinity
            way = np.where(is_lost, np.inf, way)
            result = result + factor if number else result * factor
            way = np.maximum(way, sized(result))
            error = error + ULP * sized(factor) if number else error * sized(factor) + ULP * sized(result)
        rounded = result.astype(TYPES[to]).astype(np.float64)
        error += {"f32": ULP, "bf16": 2.0**-7, "f16": 2.0**-10}[to] * sized(result) + {
            "f32": 0,
            "bf16": 2.0**-133,
            "f16": 2.0**-24,
        }[to]
    text = f"{said}: {dtype} to {to}, {rows} rows of {width}, {len(vectors)} vectors, level {level}"
    # Squares of more are infinite in f32; products of more are in the type of the result.
    over = np.where(largest > 1e17, np.inf, 0) + np.where(np.isinf(rounded) & np.isfinite(result), np.inf, 0)
    over = over + np.where(way > LARGEST, np.inf, 0)
    Wanted(result, error, over).check(found, text)
    for one, wanted, near in zip(stats, (mean, variance), (8 * ULP * largest, 32 * ULP * largest**2), strict=False):
        Wanted(wanted[:, 0], near[:, 0], over.max(-1)).check(one, text)


@kernel
def layer_norm(rng, said):
    norm(rng, said, is_centered=True)


@kernel
def rms_norm(rng, said):
    norm(rng, said, is_centered=False)


@kernel
def open_kernels(rng, said):
    """What C fills in for sizes is what kernels for these sizes get."""
    values = []
    for _ in range(int(rng.integers(1, 6))):
        shape = tuple(int(n) for n in rng.choice([0, 1, 1, 2, 17, 256], int(rng.integers(0, 5))))
        order, strides, step = rng.permutation(len(shape)), [0] * len(shape), int(rng.integers(1, 3))
        for axis in order:
            strides[axis], step = step, step * max(shape[axis], 1)
        strides = dense_of(shape) if 0 in shape or rng.integers(2) else tuple(strides)
        values.append(Value(0, DataType.f32, shape, strides, 0, ""))
    wanted = [tensor_of(value)._struct[0] for value in values]
    tensors = ffi.new("dnnl_graph_logical_tensor_t[]", wanted)
    for tensor, value in zip(tensors, values, strict=True):
        for axis in range(len(value.shape)):
            tensor.dims[axis], tensor.layout.strides[axis] = -1, -1
    codes = [int(n) for n in rng.integers(-(2**31), 2**31, int(rng.integers(0, 4)))]
    numbers = [n for value in values for n in value.shape] + [n for value in values for n in value.strides] + codes
    places = [int(n) for n in rng.integers(0, len(values), 4)]
    pointers, made = ffi.new("dnnl_graph_logical_tensor_t *[]", 4), ffi.new("int[]", max(len(codes), 1))
    steps, starts = ffi.new("onegraph_step_t[]", 2), [0, 0, 2, len(codes)]

    def fill():
        return lib.onegraph_kernels_fill(
            len(values), tensors, ffi.new("int64_t[]", numbers or [0]), len(codes), made, len(places),
            ffi.new("int64_t[]", places), pointers, 2, ffi.new("int64_t[]", starts), steps)  # fmt: skip

    assert fill() == 0, said
    for tensor, one in zip(tensors, wanted, strict=True):
        axes = range(one.ndims)
        found, right = ([(x.dims[i], x.layout.strides[i]) for i in axes] for x in (tensor, one))
        assert found == right, (said, found, right)
    assert [*made][: len(codes)] == codes
    assert all(pointers[i] == tensors + place for i, place in enumerate(places))
    assert [(one.tensors - pointers, one.code - made) for one in steps] == [(0, 0), (2, len(codes))]
    rank = sum(len(value.shape) for value in values)
    bad = [(2 * rank + number, 2**31) for number in range(len(codes))] + [
        (2 * rank + number, -(2**31) - 1) for number in range(len(codes))
    ]
    bad += [(rank + axis, -1) for axis in range(rank)]
    bad += [(axis, 2**49) for axis in range(rank) if numbers[rank + axis]]
    for place, number in bad:
        kept, numbers[place] = numbers[place], number
        assert fill() == 2, (said, place, number)
        numbers[place] = kept


@pytest.mark.library
@pytest.mark.parametrize("name", KERNELS)
def test_drawn_uses_are_right(name):
    with np.errstate(all="ignore"):
        for seed in range(draws(40, 1000)):
            KERNELS[name](np.random.default_rng(crc32(f"{name} {seed}".encode())), f"{name} {seed}")


# What the kernels refuse ----------------------------------------------------------------------------------------------

# The shapes of a use of each kernel, its numbers, and the axes of each tensor of which another size does not fit.
WINDOW = (2, 1, 1, 0)
USES = {
    "avg_pool": ([(2, 5, 4), (2, 5, 3)], {"exclude_pad": False, "channels": 1, "windows": WINDOW}, [(0, 1), (0, 1)]),
    "interpolate": ([(2, 5, 4), (2, 5, 8)], {"channels": 1, "linear": True}, [(0, 1), (0, 1)]),
    "panel_matrices": (
        [(3, 5, 4), (3, 4, 7), (3, 5, 7)],
        {"turned_src": False, "turned": False},
        [(0, 1, 2), (0, 1, 2), (0, 1, 2)],
    ),
    "panel_product": (
        [(5, 4), (2, 4, 32), (40,), (5, 40)],
        {"bias": True},
        [(0, 1), (0, 1, 2), (0,), (0, 1)],
    ),
    "panel_convolution": (
        [(2, 6, 8), (4, 8, 32), (80,), (2, 5, 80)],
        {"transposed": False, "groups": 2, "bias": True, "slope": 1.0, "windows": WINDOW},
        [(0, 2), (0, 1, 2), (0,), (0, 2)],
    ),
    "layer_norm": (
        [(4, 16), (16,), (16,), (4, 16), (4,), (4,)],
        {"width": 16, "epsilon": 1e-5},
        [(0, 1), (0,), (0,), (0, 1), (0,), (0,)],
    ),
    "rms_norm": ([(4, 16), (16,), (4, 16)], {"width": 16, "epsilon": 1e-5}, [(0, 1), (0,), (0, 1)]),
}
N_RESULTS = {"layer_norm": 3}


def made(name, values, numbers):
    split = len(values) - N_RESULTS.get(name, 1)
    kernel = compiled(name, values[:split], values[split:], packed(name, numbers))
    return plan_of(kernel, len(values), results=len(values) - split)


def test_each_kernel_has_a_use():
    assert USES.keys() == {*TESTED_KERNELS}


@pytest.mark.library
@pytest.mark.parametrize("name", USES)
def test_tensors_that_do_not_fit_are_refused(name):
    """No run may read beside a tensor, also where a damaged file of a kept program says so."""
    shapes, numbers, axes = USES[name]
    values = values_of([np.zeros(shape, np.float32) for shape in shapes])
    made(name, values, numbers)
    taken = []

    def refused(place, changed, said):
        others = [*values[:place], *changed, *values[place + 1 :]]
        try:
            made(name, others, numbers)
        except LibraryRuntimeError:
            return
        taken.append(f"{said} of tensor {place}")

    for place, (value, shape) in enumerate(zip(values, shapes, strict=True)):
        for axis in axes[place]:
            for size in (shape[axis] + 1, shape[axis] - 1, 2 * shape[axis], 0):
                other = tuple(size if one == axis else dim for one, dim in enumerate(shape))
                refused(place, [value._replace(shape=other, strides=dense_of(other))], f"{other} in the place")
        is_float = name.endswith("norm") and place < len(shapes) - 2 * ("layer" in name)
        for dtype in [DataType.s32, *([] if is_float else [DataType.f16])]:
            refused(place, [value._replace(dtype=dtype)], dtype)
    if name in ("interpolate", "panel_convolution"):  # an average of padding alone is 0
        refused(
            0, [values[0]._replace(shape=(2, 0, *shapes[0][2:]) if name != "interpolate" else (2, 5, 0))], "no place"
        )
    if numbers.get("windows"):
        flat = [(2, 5), (2, 5)] if name == "avg_pool" else [(2, 8), (4, 4, 32), (80,), (2, 80)]
        with pytest.raises(LibraryRuntimeError):  # no axis has windows
            made(name, values_of([np.zeros(shape, np.float32) for shape in flat]), numbers | {"windows": ()})
    for changed in ([], [values[-1], values[-1]]):
        refused(len(values) - 1, changed, f"{len(changed)} results")
    assert not taken


# Models of open sizes, each with what a report says of the kernel -----------------------------------------------------

WEIGHTS = {name: np.random.default_rng(len(name)).normal(0, 1, shape).astype(np.float32) for name, shape in
           {"matrix": (17, 33), "filter": (9, 6, 3, 2), "vector": (17,)}.items()}  # fmt: skip
MODELS = {
    "avg_pool": (
        (None, 3, None, None),
        COMPILED_ANEW,
        lambda g, x: g.avg_pool(
            x, kernel=(3, 2), strides=(2, 1), pads_begin=(1, 0), pads_end=(1, 1), exclude_pad=False, data_format="NCX"
        ),
    ),
    "interpolate": (
        (None, 3, None, None),
        COMPILED_ANEW,
        lambda g, x: g.interpolate(x, mode="bilinear", scales=(2.0, 1.5), data_format="NCX"),
    ),
    "layer_norm": (
        (None, None, 17),
        COMPILED_ANEW,
        lambda g, x: g.layer_norm(x, WEIGHTS["vector"], WEIGHTS["vector"][::-1].copy(), keep_stats=False),
    ),
    "panel_matrices": ((None, None, None), COMPILED_ANEW, lambda g, x: g.matmul(x, g.abs(x), transpose_b=True)),
    "panel_product": ((None, 17), FOR_SIZES, lambda g, x: g.matmul(x, g.constant(WEIGHTS["matrix"]))),
    "panel_convolution": (
        (None, None, None, 6),
        FOR_WINDOWS,
        lambda g, x: g.convolution(
            x,
            g.constant(WEIGHTS["filter"]),
            strides=(1, 2),
            pads_begin=(1, 1),
            pads_end=(1, 0),
            dilations=(1, 1),
            data_format="NXC",
            weights_format="OIX",
        ),
    ),
}


@pytest.mark.library
@pytest.mark.skipif(HASHES_CONSTANTS, reason="each size is compiled as a whole where the library keeps constants")
@pytest.mark.parametrize("name", MODELS)
def test_models_run_the_kernel_at_any_size(name):
    shape, reason, build = MODELS[name]
    g, rng = og.Graph(), np.random.default_rng(crc32(name.encode()))
    x = g.input("x", "f32", shape)
    g.output("y", build(g, g.relu(x)))
    model = g.compile(threads=int(rng.integers(1, 4)))
    # The first sizes may be compiled as they are.
    for sizes in ((1, 1, 1), (2, 16, 33), (1, 32, 257), (3, 15, 17), (0, 5, 6), (2, 31, 4)):
        free = iter(sizes)
        src = dense_array(rng, [next(free) if dim is None else dim for dim in shape])
        src[np.abs(src) > LARGEST] = 1
        found = model(src)
        (wide,) = run_wide(g, {"x": src}, [g.outputs["y"]])
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(wide), err_msg=f"{name} {src.shape}")
        near = np.where(np.isfinite(wide), np.abs(wide), 0)
        np.testing.assert_allclose(np.where(near > 0, found, 0), np.where(near > 0, wide, 0), rtol=1e-4, atol=1e-3)
    assert reason in str(model.report()), f"{name}: {model.report()}"
