"""Convolutions by their definition: of float64, and again where NaN or an infinity would meet zeros of the library."""

import numpy as np
import pytest
from helpers.convolution_by_definition import convolution, gradient_by_data, gradient_by_weights

import onegraph as og
from onegraph.compiler.kernels.exact_convolution import KINDS, numbers_of
from onegraph.opset.editions.registry import BASE
from onegraph.opset.schema import Call, TensorType
from tests.helpers.kernels import kernel_for, run_compiled

TESTED_KERNELS = ("exact_convolution",)

pytestmark = pytest.mark.library
RNG = np.random.default_rng(0)
# groups, channels of wide and narrow in a group, kernel, stride, dilation, padding, size of wide
GEOMETRIES = [
    (1, 3, 8, (3, 3), (1, 1), (1, 1), (1, 1), (7, 9)),
    (2, 5, 17, (3, 1), (2, 1), (1, 1), (1, 0), (8, 7)),
    (3, 1, 1, (2, 3), (1, 2), (2, 1), (1, 2), (6, 5)),
    (1, 16, 3, (5,), (1,), (1,), (4,), (9,)),
    (1, 2, 20, (1, 2, 2), (1, 1, 2), (1, 2, 1), (0, 0, 1), (2, 5, 4)),
    (2, 12, 5, (3, 3), (1, 1), (1, 1), (3, 3), (1, 2)),  # windows that lie in padding
]
SHARED = (2, 20, 18, (3, 2), (1, 1), (1, 1), (1, 0), (9, 20))  # which is worth several threads
DTYPES = {"f32": og.f32, "bf16": og.bf16, "f16": og.f16}


def sides(geometry):
    """The shapes of wide, narrow and weights in the order NCX and OIX, and the arguments of the definition."""
    groups, inner, outer, kernel, strides, dilations, pads, size = geometry
    counts = tuple(
        (n + 2 * pad - (k - 1) * dilation - 1) // stride + 1
        for n, k, stride, dilation, pad in zip(size, kernel, strides, dilations, pads, strict=True)
    )
    shapes = (2, inner * groups, *size), (2, outer * groups, *counts), (outer * groups, inner, *kernel)
    return shapes, (strides, dilations, pads, groups)


def by_definition(kind, first, second, shapes, rest):
    """The result of an op for inputs in the order NCX and OIX."""
    wide, narrow, weights = shapes
    with np.errstate(invalid="ignore"):
        if kind in ("Convolution", "ConvTransposeBackwardData"):
            return convolution(first, second, narrow[2:], *rest)
        if kind in ("ConvTranspose", "ConvolutionBackwardData"):
            return gradient_by_data(first, second, wide[2:], *rest)
        images = (second, first) if kind.startswith("ConvTranspose") else (first, second)
        return gradient_by_weights(*images, weights[2:], *rest)


def op_of(kind, shapes, rest, data="NCX", filters="OIX"):
    """The attributes of an op, and the shapes of its inputs and of its result, as they lie in memory."""
    (wide, narrow, weights), (strides, dilations, pads, groups) = shapes, rest
    images = [(s[0], *s[2:], s[1]) if data == "NXC" else s for s in (wide, narrow)]
    weights = (*weights[2:], weights[1], weights[0]) if filters == "XIO" else weights
    letters = {"OIX": "IOX", "XIO": "XOI"}[filters] if kind.startswith("ConvTranspose") else filters
    attrs = {"strides": [*strides], "dilations": [*dilations], "pads_begin": [*pads], "pads_end": [*pads]}
    attrs |= {"groups": groups, "data_format": data, "weights_format": letters}
    if kind == "ConvolutionBackwardData":
        attrs["dst_shape"] = [*images[0]]
    if kind == "ConvTranspose":
        attrs["output_padding"] = [
            (size + 2 * pad - (kernel - 1) * dilation - 1) % stride
            for size, kernel, stride, dilation, pad in zip(
                wide[2:], shapes[2][2:], strides, dilations, pads, strict=True
            )
        ]
    if "Weights" in kind:
        attrs["weights_shape"] = [*weights]
        ends = [images[1], images[0]] if kind.startswith("ConvTranspose") else images
        return attrs, ends, weights
    reads = 0 if kind in ("Convolution", "ConvTransposeBackwardData") else 1
    return attrs, [images[reads], weights], images[1 - reads]


def channels_last(array, what):
    """An image or weights of the order NCX or OIX in the order NXC or XIO."""
    return np.ascontiguousarray(np.moveaxis(array, *((1, -1) if what == "image" else ((0, 1), (-1, -2)))))


def reversed_axes(array):
    """The same array, whose first axis lies side by side in memory."""
    return np.ascontiguousarray(array.T).T


@pytest.mark.parametrize("geometry", [*GEOMETRIES, SHARED])
@pytest.mark.parametrize("kind", KINDS)
def test_float64_is_computed_by_definition(kind, geometry):
    """On every instruction set, of both layouts, and on threads that share the work."""
    shapes, rest = sides(geometry)
    if min(shapes[1][2:]) < 1:
        return
    attrs, ends, out = op_of(kind, shapes, rest)
    inputs = [RNG.standard_normal(shape) for shape in ends]
    wanted = by_definition(kind, *inputs, shapes, rest)
    numbers = numbers_of(Call(BASE[kind], attrs, [TensorType(og.DataType.float64, shape) for shape in ends], 1))
    for level, threads, laid in ((0, 1, np.asarray), (1, 2, reversed_axes), (2, 1, np.asarray), (4, 3, reversed_axes)):
        arrays = [laid(array) for array in (*inputs, np.full(out, 7.0))]
        kernel = kernel_for("exact_convolution", arrays, {**numbers, "level": level})
        run_compiled(kernel, *arrays, threads=threads)
        found = arrays[-1]
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def classes(array):
    wide = np.asarray(array).astype(np.float64)
    return np.select([np.isnan(wide), np.isposinf(wide), np.isneginf(wide)], [2, 1, -1], 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_nan_meets_no_padding_and_no_other_group(kind, dtype):
    for place, geometry in enumerate(GEOMETRIES):
        shapes, rest = sides(geometry)
        data, filters = (("NCX", "OIX"), ("NXC", "XIO"))[place % 2]
        attrs, ends, _ = op_of(kind, shapes, rest, data, filters)
        g = og.Graph()
        g.output("y", g.op(kind, [g.input(f"x{at}", dtype, shape) for at, shape in enumerate(ends)], attrs))
        model = g.compile()
        gives_weights = "Weights" in kind
        order = channels_last if data == "NXC" else lambda array, _: array
        for port, number in ((0, np.nan), (0, np.inf), (1, np.nan), (1, np.inf)):
            inputs = [RNG.standard_normal(shape).astype(DTYPES[dtype].numpy) for shape in op_of(kind, shapes, rest)[1]]
            inputs[port].reshape(-1)[RNG.integers(inputs[port].size)] = number
            want = by_definition(kind, *[array.astype(np.float64) for array in inputs], shapes, rest)
            want = order(want, "weights" if gives_weights else "image")
            found = model(x0=order(inputs[0], "image"), x1=order(inputs[1], "image" if gives_weights else "weights"))
            np.testing.assert_array_equal(classes(found), classes(want), err_msg=f"{geometry} {port} {number}")
            finite = np.isfinite(want)
            np.testing.assert_allclose(found.astype(np.float64)[finite], want[finite], rtol=0.05, atol=0.05)


def steps_of_training():
    """Two convolutions whose weights are variables, and all gradients."""
    g = og.Graph()
    y = x = g.input("x", "f32", (2, 9, 9, 16))
    weights = [g.variable(f"w{at}", RNG.standard_normal((3, 3, 16, 16)).astype(np.float32) / 12) for at in range(2)]
    for each in weights:
        y = g.relu(g.convolution(y, each, strides=1, pads_begin=1, pads_end=1, dilations=1))
    for at, gradient in enumerate(g.gradient([y], [*weights, x], [g.input("d", "f32", y.shape)])):
        g.output(f"g{at}", gradient)
    return g


def test_finite_numbers_take_the_kernels_of_finite_math():
    g = steps_of_training()
    feeds = {name: RNG.standard_normal((2, 9, 9, 16)).astype(np.float32) for name in ("x", "d")}
    exact = g.compile()
    for found, wanted in zip(exact(**feeds), g.compile(finite_math=True)(**feeds), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
