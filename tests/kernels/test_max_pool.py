"""The kernel for MaxPool takes the largest element of each window, NaN before every number, in every layout."""

from __future__ import annotations

from itertools import product
from math import inf, nan

import numpy as np
import pytest
from helpers.grouped import grouped

import onegraph as og

TESTED_KERNELS = ("max_pool",)


pytestmark = pytest.mark.library
FLOATS = (og.f32, og.bf16, og.f16)
# (batch, channels, sizes), kernel, strides, padding before and behind, dilations. Small and large windows, few and many
# channels, parts of channels, windows of padding, one to three spatial axes.
WINDOWS = {
    "row": ((2, 3, 17), [3], [2], [1], [1], [1]),
    "image": ((2, 16, 9, 11), [3, 3], [2, 2], [1, 1], [1, 1], [1, 1]),
    "large window": ((1, 40, 9, 9), [5, 4], [1, 1], [2, 2], [2, 1], [1, 1]),
    "large window with strides": ((1, 40, 12, 13), [5, 4], [3, 2], [0, 0], [0, 0], [1, 1]),
    "whole image": ((3, 200, 7, 7), [7, 7], [1, 1], [0, 0], [0, 0], [1, 1]),
    "dilated": ((1, 70, 11, 10), [2, 3], [1, 3], [0, 1], [1, 2], [3, 2]),
    "gaps": ((1, 5, 10, 10), [1, 2], [3, 4], [0, 0], [0, 0], [1, 1]),
    "whole rows": ((2, 5, 33), [33], [1], [0], [0], [1]),
    "whole short rows": ((1, 70, 1, 3), [1, 3], [1, 1], [0, 0], [0, 0], [1, 1]),
    "whole rows of parts": ((2, 3, 4, 70), [2, 70], [1, 1], [0, 0], [0, 0], [1, 1]),
    "one channel": ((2, 1, 8, 8), [2, 2], [2, 2], [0, 0], [0, 0], [1, 1]),
    "volume": ((1, 33, 5, 6, 7), [2, 2, 3], [1, 2, 2], [1, 0, 1], [0, 1, 1], [1, 1, 1]),
}
CONTENTS = {"numbers": [], "masks": [-inf], "all": [nan, inf, -inf, -nan, 0.0, -0.0]}


def array_of(shape, contents, dtype):
    rng = np.random.default_rng(0)
    found = rng.standard_normal(shape).astype(np.float32)
    for number in CONTENTS[contents]:
        found[rng.random(shape) < 0.1] = number
    if contents == "masks":
        found[..., : shape[-1] // 2 + 1] = -inf
    return found.astype(dtype.numpy)


def by_definition(x, kernel, strides, begin, end, dilations):
    """The largest element of each window of (batch, channels, *sizes), which is minus infinity for padding."""
    pads = [(0, 0), (0, 0), *zip(begin, end, strict=True)]
    padded = np.pad(x.astype(np.float64), pads, constant_values=-inf)
    counts = [
        (size - (k - 1) * d - 1) // s + 1
        for size, k, s, d in zip(padded.shape[2:], kernel, strides, dilations, strict=True)
    ]
    found = np.full((*x.shape[:2], *counts), -inf)
    for tap in product(*map(range, kernel)):
        starts = [at * d for at, d in zip(tap, dilations, strict=True)]
        part = tuple([slice(b, b + (n - 1) * s + 1, s) for b, n, s in zip(starts, counts, strides, strict=True)])
        found = np.maximum(found, padded[(slice(None), slice(None), *part)])  # of NaN and a number: NaN
    return found


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@grouped("name", WINDOWS, key=lambda _: "windows")
def test_takes_the_largest_element_of_each_window(name, data_format, dtype):
    (batch, channels, *sizes), *windows = WINDOWS[name]
    is_last = data_format == "NXC"
    shape = (batch, *sizes, channels) if is_last else (batch, channels, *sizes)
    attrs = dict(zip(("kernel", "strides", "pads_begin", "pads_end", "dilations"), windows, strict=True))
    g = og.Graph()
    g.output("y", g.max_pool(g.input("x", dtype, shape), data_format=data_format, **attrs))
    model = g.compile()
    assert "kernel" in str(model.report())
    for contents in CONTENTS:
        x = array_of((batch, channels, *sizes), contents, dtype)
        y = model(np.ascontiguousarray(np.moveaxis(x, 1, -1)) if is_last else x).astype(np.float64)
        expected = by_definition(x, *windows)
        np.testing.assert_array_equal(np.moveaxis(y, -1, 1) if is_last else y, expected, err_msg=contents)


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2), (1, 0, 3, 2)])
def test_takes_elements_of_any_strides(order, data_format):
    """The source and the result of a pool between two transpositions lie in the order of the graph's ends."""
    x = array_of((2, 3, 6, 8), "all", og.f32)
    g = og.Graph()
    turned = g.static_transpose(g.input("x", og.f32, x.shape), order=order)
    windows = {"kernel": [2, 2], "strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    pooled = g.max_pool(turned, data_format=data_format, **windows)
    g.output("y", g.static_transpose(pooled, order=np.argsort(order).tolist()))
    source = x.transpose(order)
    is_last = data_format == "NXC"
    expected = by_definition(np.moveaxis(source, -1, 1) if is_last else source, [2, 2], [1, 1], [0, 0], [0, 0], [1, 1])
    expected = np.moveaxis(expected, 1, -1) if is_last else expected
    np.testing.assert_array_equal(g.compile()(x), expected.transpose(np.argsort(order)))
