"""Convolutions of any number of windows with constant f32 weights, which lie in panels of channels."""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

import onegraph as og
from onegraph.compiler.kernels.kernel import refusal
from onegraph.compiler.kernels.panel_convolution import FOR_WINDOWS, TAKES, PanelConvolution
from onegraph.compiler.packed_weights import window_panels
from onegraph.native.library import HASHES_CONSTANTS
from onegraph.opset.convolution_geometry import ConvolutionGeometry
from tests.helpers.kernels import run

TESTED_KERNELS = ("panel_convolution",)


class Case(NamedTuple):
    """A convolution: spatial dims of src, channels of src and of dst in a group, and the attributes of each axis."""

    size: tuple[int, ...]
    channels: int
    columns: int
    window: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    groups: int = 1
    turned: bool = False
    added: int = 0

    @property
    def result(self):
        """Spatial dims of dst."""
        reach = [(tap - 1) * step for tap, step in zip(self.window, self.dilations, strict=True)]
        if self.turned:
            sizes = zip(self.size, self.strides, self.pads, reach, strict=True)
            return [(size - 1) * stride - 2 * pad + far + 1 + self.added for size, stride, pad, far in sizes]
        sizes = zip(self.size, self.strides, self.pads, reach, strict=True)
        return [(size + 2 * pad - far - 1) // stride + 1 for size, stride, pad, far in sizes]


CASES = {
    "3x3": Case((9, 14), 5, 40, (3, 3), (1, 1), (1, 1), (1, 1)),
    "long rows, of which parts are copied": Case((5, 7), 64, 33, (3, 3), (1, 1), (1, 1), (1, 1)),
    "strides and dilations": Case((11, 13), 3, 17, (3, 2), (2, 3), (2, 3), (2, 1)),
    "single elements": Case((6, 9), 40, 70, (1, 1), (1, 1), (1, 1), (0, 0)),
    "single elements whose rows share sets of a cache": Case((4, 5), 512, 32, (1, 1), (1, 1), (1, 1), (0, 0)),
    "single elements of every other place": Case((6, 9), 8, 16, (1, 1), (2, 2), (1, 1), (0, 0)),
    "padding beyond the window": Case((2, 3), 4, 16, (3, 3), (1, 1), (2, 2), (4, 4)),
    "a row": Case((40,), 6, 20, (5,), (2,), (1,), (2,)),
    "a volume": Case((3, 5, 4), 7, 9, (2, 3, 2), (1, 2, 1), (1, 1, 2), (1, 0, 1)),
    "groups": Case((7, 8), 6, 20, (3, 3), (1, 1), (1, 1), (1, 1), groups=3),
    "depthwise": Case((9, 30), 1, 1, (3, 5), (1, 1), (1, 1), (1, 2), groups=50),
    "depthwise with strides": Case((9, 11), 1, 1, (3, 3), (2, 2), (1, 2), (1, 1), groups=32),
    "depthwise of few channels": Case((9, 11), 1, 1, (3, 3), (1, 1), (1, 1), (1, 1), groups=3),
    "transposed": Case((5, 6), 8, 20, (2, 2), (2, 2), (1, 1), (0, 0), turned=True),
    "transposed with overlaps": Case((5, 6), 8, 33, (4, 3), (2, 2), (1, 1), (1, 1), turned=True, added=1),
    "transposed with gaps": Case((5, 6), 8, 33, (2, 1), (3, 3), (1, 1), (0, 0), turned=True, added=2),
    "transposed with dilations": Case((5, 6), 4, 16, (3, 3), (2, 3), (3, 2), (2, 2), turned=True),
    "transposed groups": Case((4, 3), 8, 16, (3, 3), (2, 2), (1, 1), (1, 1), groups=2, turned=True),
    "transposed depthwise": Case((7, 20), 1, 1, (4, 4), (2, 2), (1, 1), (1, 1), groups=40, turned=True),
    "transposed row": Case((9,), 5, 8, (6,), (3,), (1,), (2,), turned=True),
}


def drawn(*shape):
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def weights_of(case):
    """OIX, or IOX of a ConvTranspose."""
    ends = (case.channels * case.groups, case.columns) if case.turned else (case.columns * case.groups, case.channels)
    return drawn(*ends, *case.window)


def exact(case, src, weights):
    """The convolution tap by tap in float64; src (images, axes ..., channels)."""
    wide = [*src.shape[1:-1]] if not case.turned else case.result
    padded = np.zeros((len(src), *[n + 2 * pad for n, pad in zip(wide, case.pads, strict=True)]), np.float64)
    narrow = case.result if not case.turned else [*src.shape[1:-1]]
    columns, of_wide = case.columns * case.groups, case.channels if not case.turned else case.columns
    padded = np.repeat(padded[..., None], of_wide * case.groups, -1)
    inner = tuple(slice(pad, pad + n) for n, pad in zip(wide, case.pads, strict=True))
    dst = np.zeros((len(src), *case.result, columns), np.float64)
    if not case.turned:
        padded[(slice(None), *inner)] = src
    for tap, group in product(np.ndindex(*case.window), range(case.groups)):
        begins = [place * step for place, step in zip(tap, case.dilations, strict=True)]
        places = tuple(
            slice(begin, begin + (count - 1) * stride + 1, stride)
            for begin, count, stride in zip(begins, narrow, case.strides, strict=True)
        )
        ins, outs = (slice(group * n, (group + 1) * n) for n in (case.channels, case.columns))
        if case.turned:
            padded[(slice(None), *places, outs)] += src[..., ins].astype(np.float64) @ weights[(ins, slice(None), *tap)]
        else:
            dst[..., outs] += padded[(slice(None), *places, ins)] @ weights[(outs, slice(None), *tap)].T
    return padded[(slice(None), *inner)] if case.turned else dst


def convolved(case, src, weights, bias=None, *, slope=1.0, level=4, threads=1, turns_weights=False):
    """The convolution by the kernel."""
    n = len(case.window)
    layout = "IOX" if case.turned else "OIX"
    if turns_weights:
        layout, weights = layout[::-1], np.ascontiguousarray(np.moveaxis(weights, (0, 1), (-1, -2)))
    attrs = case.strides, case.dilations, case.pads, case.pads, (0,) * n
    geometry = ConvolutionGeometry(case.turned, case.groups, "NXC", layout, *[None] * 6, *attrs)
    out = np.full((len(src), *case.result, case.columns * case.groups), np.nan, np.float32)
    windows = [number for each in zip(case.window, *attrs[:3], strict=True) for number in each]
    ends = [src, window_panels(weights, geometry), *([] if bias is None else [bias])]
    numbers = {"transposed": case.turned, "groups": case.groups, "bias": bias is not None, "windows": windows}
    run("panel_convolution", *ends, out, threads=threads, slope=slope, level=level, **numbers)
    return out


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("name", CASES)
def test_each_geometry(name, level):
    case = CASES[name]
    src, weights = drawn(2, *case.size, case.channels * case.groups), weights_of(case)
    bias = drawn(case.columns * case.groups)
    expected = exact(case, src, weights)
    limit = 2e-6 * (case.channels * np.prod(case.window) + 10)
    np.testing.assert_allclose(convolved(case, src, weights, level=level), expected, atol=limit)
    expected += bias
    found = convolved(case, src, weights, bias, slope=0.25, level=level, turns_weights=True)
    np.testing.assert_allclose(found, np.where(expected < 0, expected / 4, expected), atol=limit)
    for threads in (2, 3):
        np.testing.assert_array_equal(
            convolved(case, src, weights, bias, slope=0.25, level=level, threads=threads), found
        )


@pytest.mark.parametrize("name", ["3x3", "depthwise"])
def test_windows_have_the_same_bits_in_every_image(name):
    case = CASES[name]
    src, weights = drawn(3, *case.size, case.channels * case.groups), weights_of(case)
    whole = convolved(case, src, weights)
    for image in range(3):
        np.testing.assert_array_equal(convolved(case, src[image : image + 1], weights)[0], whole[image])


@pytest.mark.parametrize("name", ["3x3", "depthwise", "transposed with overlaps"])
@pytest.mark.parametrize("slope", [1.0, 0.0])
def test_special_numbers_reach_their_windows_alone(name, slope):
    case = CASES[name]
    src, weights = drawn(2, *case.size, case.channels * case.groups), weights_of(case)
    src[0, 1, 2, 0], src[1, 3, 1, 2] = np.nan, -np.inf
    with np.errstate(all="ignore"):
        expected = exact(case, src, weights)
        expected = np.where(expected < 0, expected * slope if slope else 0, expected)
    found = convolved(case, src, weights, slope=slope)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        (PanelConvolution(4, 3, 16, 1, True), "more than 3 axes"),
        (PanelConvolution(2, 2, 2, 8, True), "fewer than 4 channels in a group"),
        (PanelConvolution(2, 3, 16, 1, False), "not finite"),
        (PanelConvolution(2, 1, 1, 8, False), ""),
        (PanelConvolution(2, 3, 4, 1, True), ""),
    ],
)
def test_reasons(candidate, reason):
    found = refusal(TAKES, candidate)
    assert reason in found
    assert bool(found) == bool(reason)


def drawn_weights():
    return {"first": drawn(24, 6, 3, 3), "depthwise": drawn(24, 1, 3, 3), "bias": drawn(24), "last": drawn(24, 9, 2, 2)}


def network(dims, weights):
    """A Convolution with an activation, a depthwise one, and a ConvTranspose."""
    g = og.Graph()
    attrs = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1), "data_format": "NXC"}
    x = g.input("x", "f32", (None if dims is None else dims[0], *(dims or (0, None, None))[1:], 6))
    x = g.relu(g.convolution(x, g.constant(weights["first"]), **attrs, weights_format="OIX"))
    x = g.convolution(x, g.constant(weights["depthwise"]), **attrs, groups=24, weights_format="OIX")
    x = g.leaky_relu(g.bias_add(x, g.constant(weights["bias"]), data_format="NXC"), alpha=0.5)
    attrs = {**attrs, "strides": (2, 2), "pads_begin": (0, 0), "pads_end": (0, 0)}
    g.output("y", g.conv_transpose(x, g.constant(weights["last"]), **attrs, weights_format="IOX"))
    return g


@pytest.mark.library
def test_open_sizes_meet_weights_in_panels():
    weights = {
        "first": drawn(24, 6, 3, 3),
        "depthwise": drawn(24, 1, 3, 3),
        "bias": drawn(24),
        "last": drawn(24, 9, 2, 2),
    }
    model = network(None, weights).compile()
    for dims in ((1, 9, 12), (2, 10, 7), (3, 5, 16), (2, 30, 31)):
        src = drawn(*dims, 6)
        expected = network(dims, weights).compile()(src)
        np.testing.assert_allclose(model(src), expected, atol=2e-5)
    assert str(model.report()).count(FOR_WINDOWS) == 3
    assert "compiled for these sizes" not in str(model.report())
    assert model.cache_info().reused >= 1


@pytest.mark.library
@pytest.mark.skipif(HASHES_CONSTANTS, reason="each size is compiled as a whole where the library keeps constants")
def test_weights_that_are_not_finite_are_left_to_the_library():
    weights = {
        "first": drawn(24, 6, 3, 3),
        "depthwise": drawn(24, 1, 3, 3),
        "bias": drawn(24),
        "last": drawn(24, 9, 2, 2),
    }
    weights["first"][3, 2, 1, 1] = np.inf
    model = network(None, weights).compile()
    for dims in ((1, 9, 12), (2, 10, 7), (3, 5, 16)):
        model(drawn(*dims, 6))
    assert str(model.report()).count(FOR_WINDOWS) == 2
    assert "panel_convolution: weights that are not finite" in str(model.report())
