"""Kernels that compute an op as it is, on drawn shapes, layouts, contents, instruction sets and numbers of threads.

One generator serves all of them. The report proves that the kernel ran; the oracle is the reference in float64.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest
from conftest import draws
from helpers.drawn import SIZES, TYPES, drawn_array, placed_array
from helpers.kernels import DRAWN, NOT_DRAWN, run
from helpers.wide_reference import run_wide

import onegraph as og
from onegraph import reference
from onegraph.compiler.kernels import native
from onegraph.compiler.kernels.elementwise import BY_NAME, KERNELS
from onegraph.compiler.kernels.registry import kernels
from onegraph.compiler.passes.open_steps import ELEMENTWISE
from onegraph.opset.editions.registry import edition

pytestmark = pytest.mark.library
# Largest error, relative and absolute; near the middle of two numbers of 16 bits, either is right.
ERRORS = {"f32": (1e-5, 1e-37), "bf16": (2**-7, 1e-37), "f16": (2**-10, 2**-24)}
# From 0: derivatives there may be less than f32 can tell, and NaN or infinite times infinity.
FAR, FAR_OF = 60.0, {"gelu_tanh_backward": 9.5}
# Kernels whose error is absolute, as that of the formula in f32 is.
ABSOLUTE = {"gelu_tanh": 4e-7, "gelu_tanh_backward": 1e-6, "mish_backward": 1e-6}
# Attributes of ops and, where several kernels compute an op, which one.
ATTRS = {
    "clamp": {"min": -1.0, "max": 2.0},
    "clamp_backward": {"min": -1.0, "max": 2.0},
    "elu": {"alpha": 0.75},
    "elu_backward_by_dst": {"alpha": 0.75, "use_dst": True},
    "elu_backward_by_src": {"alpha": 0.75, "use_dst": False},
    "fake_quantize": {"step": 0.125, "low": -20.0, "high": 30.0},
    "gelu_erf": {"mode": "gelu_erf"},
    "gelu_tanh": {"mode": "gelu_tanh"},
    "gelu_tanh_backward": {"mode": "gelu_tanh"},
    "leaky_relu": {"alpha": 0.125},
    "hard_sigmoid": {"alpha": 0.2, "beta": 0.5},
    "hard_sigmoid_backward": {"alpha": 0.2, "beta": 0.5},
    "relu_backward": {"use_dst": False},
    "softplus": {"beta": 1.0},
}
OF_F32 = {"fake_quantize"}
KINDS = {kernel.name: kernel.kinds[0] for kernel in KERNELS if kernel.kinds}
OPEN = {name: kind for kind, name in ELEMENTWISE.items()}  # kernels of ops that the library computes for known sizes
KINDS.update(OPEN)


def test_each_elementwise_kernel_is_drawn():
    assert NOT_DRAWN.keys() | {*DRAWN} == {kernel.name for kernel in KERNELS}
    assert {*ATTRS} <= {*DRAWN} <= {kernel.name for kernel in kernels()}


def drawn_shape(rng):
    size, rank = int(rng.choice(SIZES)), int(rng.integers(1, 5))
    dims = [size, *rng.integers(1, 4, rank - 1).tolist()]
    rng.shuffle(dims)
    return tuple(dims)


def graph_of(name, arrays):
    g, kind = og.Graph(), KINDS[name]
    ends = []
    for place, array in enumerate(arrays):
        strides = tuple(stride // array.itemsize for stride in array.strides)
        ends.append(g.input(f"x{place}", og.DataType.of(array.dtype), array.shape, strides=strides))
    home = {} if edition("onednn-3.13").schema(kind) else {"edition": "host"}
    g.output("y", g.op(kind, ends, ATTRS.get(name, {}), **home))
    return g


def run_graph(g, given, threads):
    model = g.compile(threads=threads)
    assert [part.executor for part in model.report().partitions] == ["kernel"], model.report()
    return model(**given)


def run_alone(name, rng, arrays, threads):
    """The result of a kernel, of other strides."""
    result = placed_array(rng, arrays[0].shape, str(og.DataType.of(arrays[0].dtype)))
    attrs = [np.full((1,) * result.ndim, ATTRS[name][attr], np.float32) for attr in BY_NAME[name].attrs]
    run(name, *arrays, *attrs, result, threads=threads)
    return result


def check(name, seed, monkeypatch):
    rng = np.random.default_rng(crc32(f"{name} {seed}".encode()))
    dtype, shape = "f32" if name in OF_F32 else str(rng.choice(list(TYPES))), drawn_shape(rng)
    level, threads = int(rng.integers(0, 4)), int(rng.integers(1, 4))
    schema = edition("onednn-3.13").schema(KINDS[name]) or edition("host").schema(KINDS[name])
    arrays = [drawn_array(rng, shape, dtype) for _ in range(schema.required_inputs)]
    monkeypatch.setattr(native, "LEVEL", level)
    g = graph_of(name, arrays)
    given = {f"x{place}": array for place, array in enumerate(arrays)}
    result = run_alone(name, rng, arrays, threads) if name in OPEN or seed % 3 == 0 else run_graph(g, given, threads)
    found, (wide,) = result.astype(np.float64), run_wide(g, given, [g.outputs["y"]])
    with np.errstate(all="ignore"):
        wanted, rounded = (y.astype(TYPES[dtype]).astype(np.float64) for y in (wide, reference.run(g, given)["y"]))
    # Where f32 underflows, and float64 does not, a product with infinity is NaN in one of both.
    is_same = (np.isnan(wanted) == np.isnan(rounded)) & (np.isinf(wanted) == np.isinf(rounded))
    relative, absolute = ERRORS[dtype]
    if name.endswith("backward") or "_backward_" in name:  # the derivative has this error, and may underflow
        gradient = np.abs(arrays[-1].astype(np.float64))
        is_same &= np.isfinite(gradient) | (np.abs(arrays[0].astype(np.float64)) < FAR_OF.get(name, FAR))
        absolute = absolute + ABSOLUTE.get(name, 0) * np.where(np.isfinite(gradient), gradient, 1)
    found, wanted = np.where(is_same, found, 0), np.where(is_same, wanted, 0)
    absolute = np.maximum(absolute, ABSOLUTE.get(name, 0))
    with np.errstate(all="ignore"):
        is_near = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        is_near |= np.abs(found - wanted) <= relative * np.abs(wanted) + absolute
    said = f"{name} {seed}: {dtype} {shape}, level {level}, {threads} threads"
    assert is_near.all(), f"{said}: {found[~is_near][:5]}, not {wanted[~is_near][:5]}"


@pytest.mark.parametrize("name", DRAWN)
def test_drawn_uses_are_right(name, monkeypatch):
    with np.errstate(all="ignore"):
        for seed in range(draws(10, 1000)):
            check(name, seed, monkeypatch)


@pytest.mark.parametrize("name", DRAWN)
def test_threads_change_no_bits(name):
    """Of rows of two layouts that are worth several threads."""
    rng = np.random.default_rng(crc32(name.encode()))
    schema = edition("onednn-3.13").schema(KINDS[name]) or edition("host").schema(KINDS[name])
    for order in ("C", "F"):
        arrays = [rng.standard_normal((67, 257), np.float32) for _ in range(schema.required_inputs)]
        results = [np.full((67, 257), np.nan, np.float32, order) for _ in range(2)]
        attrs = [np.full((1, 1), ATTRS[name][attr], np.float32) for attr in BY_NAME[name].attrs]
        for threads, result in zip((1, 3), results, strict=True):
            run(name, *arrays, *attrs, result, threads=threads)
        np.testing.assert_array_equal(*results)
        assert np.isfinite(results[0]).any()
