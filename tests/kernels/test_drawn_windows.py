"""What kernels of pools, resizing, products and norms refuse, and models of open sizes whose reports name them."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest
from conftest import draws
from helpers.drawn import LARGEST, dense_array
from helpers.kernels import plan_of, values_of
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

TESTED_KERNELS = (
    "avg_pool", "interpolate", "layer_norm", "panel_convolution", "panel_matrices", "panel_product", "rms_norm",
)  # fmt: skip


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
def test_kernels_are_filled_in_for_drawn_sizes():
    for seed in range(draws(40, 1000)):
        open_kernels(np.random.default_rng(crc32(f"open_kernels {seed}".encode())), f"open_kernels {seed}")


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
