"""Products and convolutions of 8-bit codes, whose sums are exact."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

import onegraph as og
from onegraph.compiler.packed_weights import PANEL, channel_lines, code_panels
from tests.helpers.drawn import Array
from tests.helpers.pass_graphs import code_products

from ..draw import Draw
from ..entry import draws
from .windows import Window, drawn_windows, summed

f32 = np.float32
SPECIAL = (np.nan, np.inf, -np.inf, 0.0)


def codes_of(draw: Draw, kind: type, shape: tuple[int, ...]) -> Array:
    """Codes of any value; in some uses the ends of the range alone, whose sums are largest."""
    info = np.iinfo(kind)
    if draw.flag(0.1):
        return draw.rng.choice([info.min, info.max], shape).astype(kind)
    return draw.rng.integers(info.min, info.max + 1, shape).astype(kind)


def filled(array: Array, columns: int, groups: int) -> Array:
    """Numbers of columns, filled up to whole panels of each group."""
    found = np.zeros((groups, -(-columns // PANEL) * PANEL), array.dtype)
    found[:, :columns] = array.reshape(groups, -1)
    return found.reshape(-1)


def drawn_steps(draw: Draw, shape: tuple[int, ...], rows: bool) -> tuple[list[str], list[Array], dict[str, Any]]:
    """Steps of f32 behind the sums, their operands, and the numbers of the kernel for them and for rounding."""
    words = [draw.of(["add", "subtract", "multiply", "divide", "activate"]) for _ in range(draw.between(0, 5))]
    slopes = {
        "slope": draw.of([1.0, 0.0, 0.1, -0.5]),
        "factor": draw.of([0.5, 0.01, 3.0]),
        "dst_zero": float(draw.between(0, 9)),
    }
    operands = []
    for word in words:
        if word == "activate":
            continue
        shapes = [(1,), shape, *([(shape[-1],)] if rows else [])]
        operand = draw.rng.standard_normal(draw.of(shapes)).astype(f32)
        if draw.flag(0.2):
            operand.reshape(-1)[draw.between(0, operand.size - 1)] = draw.of(SPECIAL)
        operands.append(operand)
    return words, operands, slopes


def after_steps(found: Array, words: list[str], operands: list[Array], numbers: dict[str, Any], to: np.dtype) -> Array:
    """What follows from sums in f32, op by op."""
    rest = iter(operands)
    functions = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}
    for word in words:
        if word == "activate":
            found = np.where(found < 0, found * f32(numbers["slope"]) if numbers["slope"] else f32(0), found)
        else:
            found = functions[word](found, next(rest))
    if to == f32:
        return found
    info = np.iinfo(to)
    scaled = found * f32(numbers["factor"]) + f32(numbers["dst_zero"])
    return np.rint(np.fmin(np.fmax(scaled, f32(info.min)), f32(info.max))).astype(to)


def check(found: Array, wanted: Array, said: str) -> None:
    """The numbers must be the same, or both be NaN."""
    places = np.argwhere(~((found == wanted) | ((found != found) & (wanted != wanted))))
    if len(places):
        raise AssertionError(f"{said}: {found[tuple(places[0])]}, not {wanted[tuple(places[0])]} at {places[:3]}")


@draws("code_product")
def code_product(draw: Draw) -> None:
    kind, to = draw.of([np.uint8, np.int8]), np.dtype(draw.of([f32, np.uint8, np.int8]))
    axes = draw.of([0, 0, 1, 2, 3])
    groups = draw.of([1, 1, 2, 3]) if axes else 1
    channels, columns = draw.size(129 if groups > 1 else 257), draw.size(70)
    is_large = draw.flag(0.02)  # worth several threads, which share rows, or panels of few rows
    if is_depthwise := axes > 0 and draw.flag(0.3):
        groups, channels, columns = draw.size(80, 2), 1, 1
    windows: list[Window] = []
    if axes:
        size = [draw.between(1, 8) for _ in range(axes)]
        windows = drawn_windows(draw, size)
        results = [window.results(n) for n, window in zip(size, windows, strict=True)]
        src_shape, dst_shape = [draw.between(1, 2), *size], None
        dst_shape = [src_shape[0], *results]
    else:
        src_shape = [draw.size(70)] if draw.flag(0.7) else [draw.between(1, 3), draw.size(17)]
        if is_large:
            src_shape, channels, columns = draw.of([([200], 257, 70), ([33], 513, 200)])
        dst_shape, size, results = [*src_shape], [], []
    taps = [window.taps for window in windows]
    src = codes_of(draw, kind, (*src_shape, groups * channels))
    weights = codes_of(draw, np.int8, (groups, *taps, channels, columns)).astype(np.int32)
    has_zeros = not is_depthwise and draw.flag(0.3)
    zeros = draw.rng.integers(-5, 6, (groups, columns)).astype(np.int32) * has_zeros
    info = np.iinfo(kind)
    zero = draw.of([0, 3, int(info.min), int(info.max)])
    dynamic = draw.flag(0.3)
    scales = draw.rng.uniform(0.001, 2, groups * columns).astype(f32)
    plain = weights.reshape(groups, -1, columns)
    sums = (plain - zeros[:, None]).sum(1).astype(np.int32)
    if is_depthwise:
        width = max(groups, PANEL)
        ends = [channel_lines(plain.astype(np.int32)), np.resize(scales, width), np.resize(sums.reshape(-1), width)]
    else:
        ends = [code_panels(plain), filled(scales, columns, groups), filled(sums, columns, groups)]
        if has_zeros:
            ends.append(filled(zeros, columns, groups))
    if dynamic:
        ends.append(np.array([zero], draw.of([kind, np.int32])))
    shape = (*dst_shape, groups * columns)
    words, operands, tail = drawn_steps(draw, shape, rows=True)
    found = np.full(shape, 77, to)
    numbers = [n for window in windows for n in (window.taps, window.stride, window.step, window.begin)]
    draw.said = (
        f"{src.shape} {kind.__name__}, {weights.shape}, {zero=}, {dynamic=}, {windows}, {words}, {tail}, to {to}"
    )
    draw.path = "depthwise" if is_depthwise else f"{axes} axes" if axes else "rows"
    draw.run(
        src, *ends, *operands, found,
        groups=groups, axes=axes, zero=0 if dynamic else zero, zeros=has_zeros, dynamic=dynamic,
        steps=[*numbers, *words], **tail
    )  # fmt: skip
    wide, own = (
        src.astype(np.float64) - zero,
        weights - zeros.reshape(groups, *[1] * (axes + 1), columns).astype(np.float64),
    )
    ordered = np.moveaxis(own, 0, -2).reshape(*taps, channels, groups * columns)
    if not axes:  # all axes but the last one are rows
        wide, dst_shape = wide.reshape(-1, channels), [wide[..., 0].size]
    total = summed("narrow", wide, np.empty((*dst_shape, groups * columns)), ordered, windows, groups)  # exact
    wanted = total.reshape(shape).astype(f32) * scales
    check(found, after_steps(wanted, words, operands, tail, to), str(draw))


@draws("code_matrices")
def code_matrices(draw: Draw) -> None:
    kinds = draw.of([*product([np.uint8, np.int8], repeat=2)])
    to = np.dtype(draw.of([f32, np.uint8, np.int8]))
    rows, depth, columns = draw.size(70), draw.size(), draw.size(70)
    if draw.flag(0.02):  # worth several threads
        rows, depth, columns = draw.of([(200, 257, 70), (33, 513, 200)])
    dims = tuple(draw.between(1, 3) for _ in range(draw.between(0, 2)))
    turned = draw.flag()

    def operand(kind: type, height: int, width: int) -> Array:
        """A matrix of any strides."""
        whole = codes_of(draw, kind, (*dims, height, width))
        order = [*draw.rng.permutation(whole.ndim)] if draw.flag(0.7) else [*range(whole.ndim)]
        return np.ascontiguousarray(whole.transpose(order)).transpose(np.argsort(order))

    src = operand(kinds[0], rows, depth)
    weights = operand(kinds[1], *((columns, depth) if turned else (depth, columns)))
    right = weights.swapaxes(-1, -2) if turned else weights
    zero, weights_zero = (draw.between(int(np.iinfo(kind).min), int(np.iinfo(kind).max)) for kind in kinds)
    zero, weights_zero = draw.of([0, zero]), draw.of([0, weights_zero])
    scale = float(f32(draw.of([1.0, 0.25, 0.013])))
    words, operands, tail = drawn_steps(draw, (*dims, rows, columns), rows=False)
    found = np.full((*dims, rows, columns), 77, to)
    draw.said = f"{src.shape} {src.strides} by {weights.shape} {weights.strides}, {kinds}, {turned=}"
    draw.said += f", {zero}, {weights_zero}, {words}"
    draw.path = "turned" if turned else "plain"
    draw.run(
        src, weights, *operands, found,
        turned=turned, zero=zero, weights_zero=weights_zero, scale=scale, steps=words, **tail
    )  # fmt: skip
    total = (src.astype(np.int64) - zero) @ (right.astype(np.int64) - weights_zero)
    wanted = total.astype(f32) * f32(scale)
    check(found, after_steps(wanted, words, operands, tail, to), str(draw))


def check_graph(draw: Draw, build: Any, shape: tuple[int | None, ...], sizes: list[tuple[int, ...]]) -> None:
    """A graph of open sizes, whose results may be off by one code of the reference."""
    g = build(shape)
    given = [{"x": (draw.rng.standard_normal((*size, 48)) * 2).astype(f32)} for size in sizes]
    draw.said = f"{build.__name__}, {sizes}"
    (found,) = draw.run_graph(g, *given)
    wanted = og.reference.run(g, given[-1])["y"].astype(np.float64)
    off = np.abs(found - wanted)
    assert off.max(initial=0) < 1.6, f"{draw}: {off.max()}"
    assert (off > 1e-4 * np.abs(wanted).max(initial=1)).mean() < 0.02, f"{draw}"


@draws("code_product", graph=True)
def code_product_in_a_graph(draw: Draw) -> None:
    sizes = [(2, 3), (3, 5), (2, draw.size(33)), (draw.between(4, 5), draw.size(65, 2))]
    check_graph(draw, code_products.a_product, (None, None, 48), sizes)


@draws("code_matrices", graph=True)
def code_matrices_in_a_graph(draw: Draw) -> None:
    sizes = [(2, 3), (3, 5), (2, draw.size(33)), (draw.between(4, 5), draw.size(65, 2))]
    check_graph(draw, code_products.a_product_of_results, (None, None, 48), sizes)
