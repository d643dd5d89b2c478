"""Convolutions of the package: those by panels, by their definition, and by Winograd's transforms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

import onegraph as og
from onegraph.compiler.packed_weights import window_panels
from onegraph.opset.convolution_geometry import ConvolutionGeometry
from tests.helpers.drawn import Array, Wanted, sized

from ..draw import Draw
from ..entry import draws

ULP = 2.0**-23
ROUNDING = {"f32": 2.0**-24, "bf16": 2.0**-8, "f16": 2.0**-11, "float64": 0.0}
LEAST_OF = {"f32": 2.0**-149, "bf16": 2.0**-133, "f16": 2.0**-25, "float64": 0.0}
HIGHEST = {"f32": 3.4e38, "bf16": 3.3e38, "f16": 65400.0, "float64": np.inf}


class Window(NamedTuple):
    """A window along one axis: its taps, stride and dilation, and the padding before and behind."""

    taps: int
    stride: int
    step: int
    begin: int
    end: int

    def results(self, size: int) -> int:
        """The number of places of the window."""
        return (size + self.begin + self.end - (self.taps - 1) * self.step - 1) // self.stride + 1


def drawn_windows(draw: Draw, size: Sequence[int], most: int = 4) -> list[Window]:
    """Windows that fit somewhere."""
    made = []
    for n in size:
        taps, stride, step = draw.between(1, most), draw.between(1, 3), draw.between(1, 2)
        begin, end = draw.between(0, taps), draw.between(0, taps)
        while (taps - 1) * step + 1 > n + begin + end:
            taps -= 1
        made.append(Window(max(taps, 1), stride, step, begin, end))
    return made


def reach_of(size: int, results: int, window: Window) -> Iterator[tuple[slice, slice]]:
    """For each tap the places of the result whose element lies in an axis, and the places of these elements."""
    for tap in range(window.taps):
        first = tap * window.step - window.begin
        low = max(0, -(first // window.stride))
        high = max(low, min(results, -((first - size) // window.stride)))
        at = first + low * window.stride
        yield slice(low, high), slice(at, at + (high - low) * window.stride, window.stride)


def by_group(array: Array, groups: int) -> Array:
    """The groups of channels first."""
    return np.ascontiguousarray(np.moveaxis(array.reshape(*array.shape[:-1], groups, -1), -2, 0))


def summed(of: str, wide: Array, narrow: Array, weights: Array, windows: Sequence[Window], groups: int) -> Array:
    """What a convolution takes to narrow, or one of its gradients: wide or the weights, from the two others.

    Images are (images, axes ..., channels), and weights (axes ..., channels of wide in a group, channels of narrow).
    """
    sides = {
        name: by_group(array, groups) for name, array in (("wide", wide), ("narrow", narrow), ("weights", weights))
    }
    found = sides[of] = np.zeros(sides[of].shape)
    reach = [
        [*reach_of(n, m, window)] for n, m, window in zip(wide.shape[1:-1], narrow.shape[1:-1], windows, strict=True)
    ]
    every = slice(None)
    for tap in np.ndindex(*weights.shape[:-2]):
        chosen = [reach[axis][number] for axis, number in enumerate(tap)]
        at, to = ((every, every, *(pair[side] for pair in chosen)) for side in (1, 0))
        ins, outs, own = sides["wide"][at], sides["narrow"][to], sides["weights"][(every, *tap)]
        rows, columns = (part.reshape(groups, -1, part.shape[-1]) for part in (ins, outs))
        if of == "narrow":
            found[to] += (rows @ own).reshape(outs.shape)
        elif of == "wide":
            found[at] += (columns @ own.swapaxes(1, 2)).reshape(ins.shape)
        else:
            found[(every, *tap)] += rows.swapaxes(1, 2) @ columns
    whole: Array = np.moveaxis(found, 0, -2)
    return whole.reshape(*whole.shape[:-2], -1)


@draws("panel_convolution")
def panel_convolution(draw: Draw) -> None:
    axes, is_turned, groups = draw.between(1, 3), draw.flag(), draw.of([1, 1, 2, 3])
    channels, columns = draw.size(65), draw.size(65)
    if is_depthwise := draw.flag(0.3):
        groups, channels, columns = draw.size(least=2), 1, 1
    size = [draw.between(1, 7) for _ in range(axes)]
    if draw.flag(0.3) and channels * groups < 70:
        size[draw.between(0, axes - 1)] = draw.size(65)
    windows = drawn_windows(draw, size, most=3)
    if is_turned:  # of which the result is wide
        windows = [
            window._replace(begin=min(window.begin, window.taps - 1), end=min(window.end, window.taps - 1))
            for window in windows
        ]
        results = [
            (n - 1) * window.stride
            + (window.taps - 1) * window.step
            + 1
            - window.begin
            - window.end
            + draw.between(0, window.stride - 1)
            for n, window in zip(size, windows, strict=True)
        ]
    else:
        results = [window.results(n) for n, window in zip(size, windows, strict=True)]
    if min(results) < 1:
        return
    images, taps = draw.between(1, 3), [window.taps for window in windows]
    src, bias = draw.dense((images, *size, channels * groups)), draw.dense((columns * groups,))
    weights = draw.dense((*((channels * groups, columns) if is_turned else (columns * groups, channels)), *taps))
    if not is_depthwise:  # others stay with the library
        weights[~np.isfinite(weights)] = 0
    has_bias, slope = draw.flag(), draw.of([1.0, 0.0, 0.25])
    found = draw.result((images, *results, columns * groups), is_dense=True)
    geometry = ConvolutionGeometry(
        is_turned, groups, "NXC", "IOX" if is_turned else "OIX", *[None] * 6,
        *(tuple(column) for column in list(zip(*windows, strict=True))[1:]), (0,) * axes)  # fmt: skip
    given = [src, window_panels(weights, geometry), *([bias] if has_bias else [])]
    numbers = [number for window in windows for number in window[:4]]
    draw.said = f"{src.shape}, {weights.shape}, {windows}, {is_turned=}, {groups} groups, slope {slope}"
    draw.path = f"{'turned ' if is_turned else ''}{'depthwise' if is_depthwise else 'panels'}"
    draw.run(*given, found, transposed=is_turned, groups=groups, bias=has_bias, slope=slope, windows=numbers)
    ordered = np.moveaxis(weights, (0, 1), (-1, -2) if not is_turned else (-2, -1)).astype(np.float64)
    if is_turned:  # (taps ..., channels of src, columns of a group) to those of the narrow src
        by_group = ordered.reshape(*taps, groups, channels, columns)
        ordered = np.moveaxis(by_group, (-3, -2), (-2, -1)).reshape(*taps, columns, groups * channels)
    sums = []
    for change in (lambda x: x, sized):
        one, other = change(src.astype(np.float64)), change(ordered)
        sides = (np.empty(found.shape), one) if is_turned else (one, np.empty(found.shape))
        sums.append(summed("wide" if is_turned else "narrow", *sides, other, windows, groups))
    result, sizes = sums
    result, sizes = (result + bias, sizes + sized(bias)) if has_bias else (result, sizes)
    result = np.where(result < 0, result * slope if slope else 0.0, result)
    Wanted(result, ULP * (channels * np.prod(taps) + 4) * sizes, sizes).check(found, str(draw))


@draws("panel_convolution", graph=True)
def panel_convolution_in_a_graph(draw: Draw) -> None:
    channels, columns, g = draw.size(33), draw.size(33), og.Graph()
    weights = draw.rng.standard_normal((columns, channels, 3, 2)).astype(np.float32)
    window = {"strides": (1, 2), "pads_begin": (1, 1), "pads_end": (1, 0), "dilations": (1, 1)}
    x = g.relu(g.input("x", "f32", (None, None, None, channels)))
    g.output("y", g.convolution(x, g.constant(weights), **window, data_format="NXC", weights_format="OIX"))
    sizes = [(1, 4, 5), (1, 5, 7), (2, 6, 6), (draw.between(1, 3), draw.size(17, 2), draw.size(33, 2))]
    given = [{"x": draw.mild((*size, channels), special=draw.flag(0.2))} for size in sizes]
    draw.said = f"{sizes}, {channels} to {columns}"
    (found,) = draw.run_graph(g, *given)
    src = np.where(given[-1]["x"] < 0, 0, given[-1]["x"]).astype(np.float64)
    wide = np.moveaxis(weights, (0, 1), (-1, -2)).astype(np.float64)
    windows = [Window(3, 1, 1, 1, 1), Window(2, 2, 1, 1, 0)]
    result, sizes = (
        summed("narrow", change(src), np.empty(found.shape), change(wide), windows, 1)
        for change in (lambda x: x, sized)
    )
    Wanted(result, ULP * (6 * channels + 4) * sizes, sizes).check(found, str(draw))


@draws("exact_convolution")
def exact_convolution(draw: Draw) -> None:
    axes, groups, of = draw.between(1, 3), draw.of([1, 1, 2, 3]), draw.of(["narrow", "wide", "weights"])
    inner, outer = draw.size(33), draw.size(33)
    if draw.flag(0.2):
        groups, inner, outer = draw.size(33, 2), 1, 1
    size = [draw.between(1, 7) for _ in range(axes)]
    windows = drawn_windows(draw, size, most=3)
    results = [window.results(n) for n, window in zip(size, windows, strict=True)]
    images, taps = draw.between(1, 3), [window.taps for window in windows]
    is_wide, is_last = draw.flag(0.2), draw.flag()
    dtypes = ["float64"] * 3 if is_wide else [draw.dtype()] * 2 + [draw.of(["f32", "bf16", "f16"])]
    shapes = {
        "wide": (images, *size, inner * groups),
        "narrow": (images, *results, outer * groups),
        "weights": (*taps, inner, outer * groups),
    }

    def placed(name: str, dtype: str) -> tuple[Array, Array]:
        """Memory as the kernel gets it, and the same elements in the order of the shapes."""
        shape, rank = shapes[name], axes + 2
        if is_wide:
            array: Array = draw.rng.standard_normal(shape)
            array = array.T.copy().T if draw.flag() else array
        else:
            array = draw.array(shape, dtype)
        if is_last:
            return array, array
        order = [0, rank - 1, *range(1, rank - 1)] if name != "weights" else [rank - 1, rank - 2, *range(axes)]
        return array.transpose(order), array

    names = [name for name in ("wide", "narrow", "weights") if name != of]
    swapped = of == "weights" and draw.flag()
    made = {name: placed(name, dtypes[0]) for name in names}
    given = [made[name][0] for name in (names[::-1] if swapped else names)]
    bias = None
    if of == "narrow" and not is_wide and draw.flag():
        bias = draw.dense((outer * groups,), dtypes[0])
        given.append(bias)
    found, ordered = placed(of, dtypes[2])
    found[...] = np.nan
    first, rank = 0 if is_last else 2, axes + 2
    numbers = [
        number
        for axis, window in enumerate(windows)
        for number in (first + axis, window.stride, window.step, window.begin)
    ]
    draw.said = f"{of}, {shapes}, {windows}, {groups} groups, {dtypes}, {is_last=}, {swapped=}, bias {bias is not None}"
    draw.path = f"{of}{' float64' if is_wide else ''}"
    draw.run(
        *given, found,
        of=of, groups=groups, wide=is_wide, swapped=swapped, channels=rank - 1 if is_last else 1,
        outer=rank - 1 if is_last else 0, inner=rank - 2 if is_last else 1, windows=numbers
    )  # fmt: skip
    sums = []
    for change in (lambda x: x, sized):
        sides = [change(made[name][1].astype(np.float64)) if name != of else np.empty(shapes[name]) for name in shapes]
        sums.append(summed(of, *sides, windows, groups))
    result, sizes = sums
    if bias is not None:
        result, sizes = result + bias.astype(np.float64), sizes + sized(bias.astype(np.float64))
    terms = inner * groups * outer * images * int(np.prod(size)) * int(np.prod(taps))
    to = dtypes[2]
    error = 2.0**-52 * terms * sizes + ROUNDING[to] * sized(result) + LEAST_OF[to]
    near_end = np.isfinite(result) & (np.abs(result) + error > HIGHEST[to])
    way = np.where(near_end, np.inf, 0)
    Wanted(result, error, way).check(ordered, str(draw))


@draws("exact_convolution", graph=True)
def exact_convolution_in_a_graph(draw: Draw) -> None:
    dtype, channels, columns, g = draw.dtype(), draw.size(17), draw.size(17), og.Graph()
    window = {"strides": (2,), "pads_begin": (1,), "pads_end": (1,), "dilations": (1,)}
    src, weights = draw.mild((2, 9, channels), dtype), draw.mild((3, channels, columns), dtype)
    (src if draw.flag() else weights)[0, 0, 0] = np.nan
    x, w = g.input("x", dtype, src.shape), g.input("w", dtype, weights.shape)
    g.output("y", g.convolution(x, w, **window, data_format="NXC", weights_format="XIO"))
    draw.said = f"{src.shape}, {weights.shape}, {dtype}"
    (found,) = draw.run_graph(g, {"x": src, "w": weights})
    sides = src.astype(np.float64), np.empty(found.shape), weights.astype(np.float64)
    wanted = summed("narrow", *sides, [Window(3, 2, 1, 1, 1)], 1)
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), np.isnan(wanted), err_msg=str(draw))


def transformed(draw: Draw, image: Array, planes: Array, of: str, **numbers: object) -> None:
    """Run a transform; most of its numbers mean nothing for the weights."""
    none = {"slope": 1.0, "rows": 0, "columns": 0, "first": 0, "top": 0, "left": 0, "turned": False, "layout": "oix"}
    draw.run(image, planes, of=of, **{**none, **numbers})


@draws("winograd")
def winograd(draw: Draw) -> None:
    most = 40 if draw.flag(0.02) else 12  # images that are worth several threads
    images, height, width = draw.between(1, 2), draw.between(1, most), draw.between(1, most)
    channels, results = 16 * draw.between(1, 3), 16 * draw.between(1, 3)
    top, left, bottom, right = (draw.between(0, 2) for _ in range(4))
    high, wide = height + top + bottom - 2, width + left + right - 2
    if high < 1 or wide < 1:
        return
    layout, turned = draw.of(["oix", "xio"]), draw.flag()
    src = draw.mild((images, height, width, channels), special=draw.flag(0.3))
    src = np.ascontiguousarray(src)
    matrix = draw.mild((3, 3, channels, results), special=draw.flag(0.1))  # as the direct convolution has it
    plain = matrix[::-1, ::-1].swapaxes(2, 3) if turned else matrix  # those of which it is the gradient
    weights = np.ascontiguousarray(plain if layout == "xio" else plain.transpose(3, 2, 0, 1))
    planes = np.full((16, channels, results), np.nan, np.float32)
    transformed(draw, weights, planes, layout, turned=turned)
    rows, columns = -(-high // 2), -(-wide // 2)
    tiles = images * rows * columns
    slope, bias = draw.of([1.0, 0.0, 0.1, -2.5]), draw.mild((results,), special=draw.flag(0.1))
    bias = np.ascontiguousarray(bias)
    found = np.full((images, high, wide, results), np.nan, np.float32)
    cut = draw.between(1, tiles)
    draw.said = (
        f"{src.shape}, {results}, {layout}, {turned=}, {top}, {left}, {high} by {wide}, {slope=}, {cut} of {tiles}"
    )
    for first, count in ((0, cut), (cut, tiles - cut)):
        if not count:
            continue
        of_src = np.full((16, count, channels), np.nan, np.float32)
        places = {"rows": rows, "columns": columns, "first": first, "top": top, "left": left}
        transformed(draw, src, of_src, "src", **places)
        products = (of_src.astype(np.float64) @ planes.astype(np.float64)).astype(np.float32)
        none = {"slope": slope, "turned": turned, "layout": layout, **places}
        draw.run(products, bias, src, weights, found, of="dst", **none)
    window = [Window(3, 1, 1, top, bottom), Window(3, 1, 1, left, right)]
    sides = src.astype(np.float64), np.empty(found.shape)
    result = summed("narrow", *sides, matrix.astype(np.float64), window, 1) + bias
    result = np.where(result < 0, result * slope if slope else 0.0, result)
    largest = sized(src).max() * sized(matrix.astype(np.float64)).sum(2).max()
    error = np.full(result.shape, 64 * ULP * max(abs(slope), 1) * (largest + sized(bias).max()))
    Wanted(result, error, np.zeros_like(result)).check(found, str(draw))


@draws("winograd", graph=True)
def winograd_in_a_graph(draw: Draw) -> None:
    channels, results = 16 * draw.between(2, 4), 16 * draw.between(3, 5)
    shape, g = (1, draw.between(28, 33), draw.between(28, 33), channels), og.Graph()
    weights = draw.rng.standard_normal((results, channels, 3, 3)).astype(np.float32)
    window = {"pads_begin": (1, 1), "pads_end": (1, 1), "data_format": "NXC", "weights_format": "OIX"}
    g.output("y", g.abs(g.convolution(g.input("x", "f32", shape), g.constant(weights), **window)))
    src = np.ascontiguousarray(draw.mild(shape, special=draw.flag(0.3)))
    draw.said = f"{shape}, {results}"
    (found,) = draw.run_graph(g, {"x": src})
    ordered = np.moveaxis(weights, (0, 1), (-1, -2)).astype(np.float64)
    sides = src.astype(np.float64), np.empty(found.shape)
    result = np.abs(summed("narrow", *sides, ordered, [Window(3, 1, 1, 1, 1)] * 2, 1))
    error = np.full(result.shape, 64 * ULP * sized(src).max() * np.abs(ordered).sum(2).max())
    Wanted(result, error, np.zeros_like(result)).check(found, str(draw))
