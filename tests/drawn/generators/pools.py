"""Pools and their gradient, resizing, and reductions to the largest or least element."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from tests.helpers.drawn import TYPES, Array, Wanted, fill, sized

from ..draw import Draw
from ..entry import draws
from ..numbers import ULP, check_near, check_numbers, dims

Window = tuple[int, int, int, int, int]  # taps, stride, dilation, padding before and behind


def window(draw: Draw, size: int) -> Window:
    """A window that fits somewhere; now and then one over the whole axis."""
    if draw.flag(0.15):
        return size, 1, 1, 0, 0
    taps, stride, step = draw.between(1, 5), draw.between(1, 3), draw.between(1, 2)
    begin, end = draw.between(0, taps), draw.between(0, taps)
    while (taps - 1) * step + 1 > size + begin + end:
        taps -= 1
    return max(taps, 1), stride, step, begin, end


def results_of(size: int, taken: Window) -> int:
    """How many windows there are along an axis."""
    taps, stride, step, begin, end = taken
    return (size + begin + end - (taps - 1) * step - 1) // stride + 1


def taps_of(size: int, results: int, taken: Window) -> list[tuple[Array, Array]]:
    """For each tap the results whose element lies in the source, and its place."""
    found = []
    for tap in range(taken[0]):
        at = np.arange(results) * taken[1] + tap * taken[2] - taken[3]
        inside = (at >= 0) & (at < size)
        found.append((np.flatnonzero(inside), at[inside]))
    return found


def image(draw: Draw, shape: Sequence[int], channels: int, dtype: str) -> Array:
    """Memory whose last axis, whose channels or any of whose axes lie side by side."""
    way = draw.between(0, 3)
    if way == 0:
        return draw.result(shape, dtype)
    others = [dim for axis, dim in enumerate(shape) if axis != channels]
    made = np.zeros(shape if way == 1 else [*others, shape[channels]], TYPES[dtype])
    return made if way == 1 else np.moveaxis(made, -1, channels)


class Pool:
    """A drawn pool.

    Attributes:
        src, found: source and result, whose channels are at the axis ``channels``.
        windows: of each spatial axis.
        numbers: what the kernels of pools get.
    """

    def __init__(self, draw: Draw, dtype: str) -> None:
        axes = draw.between(1, 3)
        shape = dims(draw, axes + 2, axes + 2)
        self.channels = draw.of([1, axes + 1])
        images, count, *size = shape
        self.windows = [window(draw, each) for each in size]
        self.size, self.counts = size, [*map(results_of, size, self.windows)]
        self.ends = (images, count)
        self.src, self.found = (image(draw, self.shape(each), self.channels, dtype) for each in (size, self.counts))
        fill(draw.rng, self.src)
        self.numbers = {"channels": self.channels, "windows": [n for each in self.windows for n in each[:4]]}
        draw.said = (
            f"{dtype} {self.src.shape} {self.src.strides} to {self.found.shape} {self.found.strides}, {self.windows}"
        )
        draw.path = "channels side by side" if self.src.strides[self.channels] == self.src.itemsize else "others"

    def shape(self, size: Sequence[int]) -> tuple[int, ...]:
        """Of a tensor with this spatial size."""
        return (*self.ends, *size) if self.channels == 1 else (self.ends[0], *size, self.ends[1])

    def first(self, array: Array) -> Array:
        """An array in float64 whose channels come first."""
        return np.moveaxis(array, self.channels, 1).astype(np.float64)

    def each_tap(self) -> list[tuple[tuple[Array, ...], tuple[Array, ...]]]:
        """For each tap of a window the places of its results and those of its elements, as indices."""
        taps = [taps_of(*each) for each in zip(self.size, self.counts, self.windows, strict=True)]
        ends = [range(each) for each in self.ends]
        return [tuple(np.ix_(*ends, *parts) for parts in zip(*chosen, strict=True)) for chosen in product(*taps)]  # type: ignore[misc]


@draws("max_pool")
def max_pool(draw: Draw) -> None:
    pool = Pool(draw, draw.dtype())
    draw.run(pool.src, pool.found, **pool.numbers)
    wide = pool.first(pool.src)
    wanted = np.full((*pool.ends, *pool.counts), -np.inf)
    for to, at in pool.each_tap():
        wanted[to] = np.maximum(wanted[to], wide[at])  # of NaN and a number: NaN
    check_numbers(np.moveaxis(pool.found, pool.channels, 1), wanted, draw)


@draws("avg_pool")
def avg_pool(draw: Draw) -> None:
    pool, excludes = Pool(draw, "f32"), draw.flag()
    draw.said += f", excludes {excludes}"
    draw.run(pool.src, pool.found, exclude_pad=excludes, **pool.numbers)
    wide = pool.first(pool.src)
    sums, sizes, counts = (np.zeros((*pool.ends, *pool.counts)) for _ in range(3))
    taps = pool.each_tap()
    for to, at in taps:
        sums[to] += wide[at]
        sizes[to] += sized(wide[at])
        counts[to] += 1
    of = np.maximum(counts, 1) if excludes else np.prod([each[0] for each in pool.windows])
    Wanted(sums / of, ULP * (len(taps) + 2) * sizes / of, sizes).check(
        np.moveaxis(pool.found, pool.channels, 1), str(draw)
    )


def reduced_axes(draw: Draw, shape: Sequence[int]) -> tuple[list[int], list[int]]:
    """Which axes are reduced, and the shape of the result."""
    reduced = [int(draw.flag()) for _ in shape]
    reduced[draw.between(0, len(shape) - 1)] = 1
    kept = draw.flag()
    return reduced, [
        1 if is_reduced else dim for dim, is_reduced in zip(shape, reduced, strict=True) if kept or not is_reduced
    ]


@draws("reduce_extreme")
def reduce_extreme(draw: Draw) -> None:
    shape, dtype, least = dims(draw, 1, 5), draw.dtype(), draw.flag()
    if draw.flag(0.004):
        shape = [draw.of([1, 2]), draw.between(131_072, 140_000)]  # lines that threads divide
    reduced, results = reduced_axes(draw, shape)
    src, found = draw.array(shape, dtype), draw.result(results, dtype)
    if draw.flag(0.3):
        src[np.isnan(src)] = 0
    draw.said = f"{dtype} {shape} {src.strides}, reduced {reduced}, to {results} {found.strides}"
    draw.path = "least" if least else "largest"
    draw.run(src, found, minimum=least, reduced=reduced)
    axes, wide = tuple(axis for axis, is_reduced in enumerate(reduced) if is_reduced), src.astype(np.float64)
    check_numbers(found, (wide.min(axes) if least else wide.max(axes)).reshape(results), draw)


@draws("guarded")
def guarded(draw: Draw) -> None:
    draw.path = draw.of(["softmax", "max_pool_backward"])
    (softmax_again if draw.path == "softmax" else max_pool_backward)(draw)


def softmax_again(draw: Draw) -> None:
    """Rows that are left as they are hold 7."""
    shape, dtype, zero = dims(draw), draw.dtype(), draw.flag()
    axis = draw.between(0, len(shape) - 1)
    src, has_stats = draw.array(shape, dtype), draw.flag()
    if draw.flag():  # masks alone
        src[~(src < np.inf)] = 1
        src[draw.rng.random(shape) < draw.of([0.3, 0.95])] = -np.inf
    results = [draw.result(shape, dtype)]
    if has_stats:
        results.append(draw.result([1 if each == axis else dim for each, dim in enumerate(shape)]))
    for each in results:
        each[...] = 7
    draw.said = f"{dtype} {shape} along {axis}, zero {zero}, {len(results)} results"
    draw.run(src, *results, results=len(results), of="softmax", axis=axis, zero=zero, windows=())
    wide = src.astype(np.float64)
    finite, masked = np.isfinite(wide), wide == -np.inf
    is_masks = bool((finite | masked).all())
    again = (masked.all(axis, keepdims=True) if is_masks else ~finite.all(axis, keepdims=True)) & ~finite.all()
    top = wide.max(axis, keepdims=True)
    total = np.exp(wide - top).sum(axis, keepdims=True)
    is_zero = zero & (top == -np.inf)
    shares = np.where(again, np.where(is_zero, 0, np.exp(wide - top) / total), 7.0)
    stats = np.where(again, np.where(is_zero, 0, top + np.log(total)), 7.0)
    for one, wanted in zip(results, (shares, stats), strict=False):
        check_near(one, wanted, 2 * ULP * sized(wanted), draw)


def max_pool_backward(draw: Draw) -> None:
    """Each diff goes to the first largest element of its window, or to its last NaN."""
    pool = Pool(draw, draw.dtype())
    draw.path = "max_pool_backward"
    if draw.flag(0.3):
        pool.src[~np.isfinite(pool.src)] = 1
    diff = image(draw, pool.found.shape, pool.channels, name_of(pool.src))
    fill(draw.rng, diff)
    result = image(draw, pool.src.shape, pool.channels, name_of(pool.src))
    result[...] = 7
    numbers = {"of": "max_pool_backward", "axis": pool.channels, "zero": 0, "windows": pool.numbers["windows"]}
    draw.run(pool.src, diff, result, **numbers)
    wide, diffs = pool.first(pool.src), pool.first(diff)
    if np.isfinite(wide).all():
        check_numbers(result, np.full(result.shape, 7.0), draw)
        return
    places = np.arange(wide.size).reshape(wide.shape)
    best, owner = np.full(diffs.shape, -np.inf), np.full(diffs.shape, -1)
    for to, at in pool.each_tap():
        x = wide[at]
        wins = (owner[to] < 0) | (x > best[to]) | np.isnan(x)
        best[to], owner[to] = np.where(wins, x, best[to]), np.where(wins, places[at], owner[to])
    sums, sizes = np.zeros(wide.size), np.zeros(wide.size)
    np.add.at(sums, owner[owner >= 0], diffs[owner >= 0])
    np.add.at(sizes, owner[owner >= 0], sized(diffs[owner >= 0]))
    wanted = sums.reshape(wide.shape).astype(np.float32).astype(result.dtype).astype(np.float64)
    error = sizes.reshape(wide.shape) * 2.0**-50
    Wanted(wanted, error, np.zeros(wide.shape)).check(np.moveaxis(result, pool.channels, 1), str(draw))


def name_of(array: Array) -> str:
    """The name of a type of 16 or 32 bits."""
    return next(name for name, kind in TYPES.items() if array.dtype == kind)


@draws("interpolate")
def interpolate(draw: Draw) -> None:
    axes, is_last, is_linear = draw.between(1, 3), draw.flag(), draw.flag()
    images, channels, *size = dims(draw, axes + 2, axes + 2)
    results = [max(1, int(n * draw.of([0.4, 0.5, 1, 1.3, 2, 3]))) for n in size]

    def shape(size: Sequence[int]) -> tuple[int, ...]:
        return (images, *size, channels) if is_last else (images, channels, *size)

    place = axes + 1 if is_last else 1
    src, found = image(draw, shape(size), place, "f32"), image(draw, shape(results), place, "f32")
    fill(draw.rng, src)
    draw.said, draw.path = f"{src.shape} {src.strides} to {found.shape}", "linear" if is_linear else "nearest"
    draw.run(src, found, channels=place, linear=is_linear)
    wide = np.moveaxis(src, place, 1).astype(np.float64)
    sizes = sized(wide)
    for axis, (n, m) in enumerate(zip(size, results, strict=True), 2):
        at = (np.arange(m, dtype=np.float32) + np.float32(0.5)) * np.float32(n) / np.float32(m) - np.float32(0.5)
        nearest = np.floor(np.abs(at) + np.float32(0.5)) * np.sign(at)
        first = np.clip(np.floor(at) if is_linear else nearest, 0, n - 1).astype(int)
        second = np.clip(np.ceil(at), 0, n - 1).astype(int)
        along = [-1 if one == axis else 1 for one in range(axes + 2)]
        share = np.where(is_linear & (first != second), at - first, 0).astype(np.float64).reshape(along)
        one, other = wide.take(first, axis), wide.take(second, axis)
        wide = one * (1 - share) + np.where(share > 0, other, 0) * share
        sizes = sizes.take(first, axis) + sizes.take(second, axis)
    Wanted(wide, 8 * ULP * sizes, sizes).check(np.moveaxis(found, place, 1), str(draw))
