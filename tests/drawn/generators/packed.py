"""Products by packed weights, and those of matrices that rows choose."""

from __future__ import annotations

from dataclasses import dataclass
from unittest.mock import patch

import numpy as np

import onegraph as og
from onegraph.arrays.packed_codes import packed
from onegraph.compiler.passes import vector_products
from tests.helpers.drawn import TYPES, Array, Wanted, sized

from ..draw import Draw, same_bits
from ..entry import draws

ULP = 2.0**-23
LIMITS = {"s4": (-8, 8), "u4": (0, 16), "s8": (-128, 128), "u8": (0, 256)}
TINY = 2.0**-126
ROUNDING = {"f32": ULP, "bf16": 2.0**-8, "f16": 2.0**-11}
LEAST_OF = {"f32": 0.0, "bf16": 2.0**-133, "f16": 2.0**-24}
HIGHEST = {"f32": np.inf, "bf16": 3.3e38, "f16": 65400.0}  # results near the end of the range may be infinite


@dataclass
class Weights:
    """Packed matrices (experts, columns, depth).

    Attributes:
        arrays: what the kernel gets.
        numbers, sizes: their numbers in float64, and the sizes of what each is the difference of.
        given: the numbers of the kernel that tell of them.
    """

    arrays: list[Array]
    numbers: Array
    sizes: Array
    given: dict[str, object]


def drawn_weights(draw: Draw, coding: str, columns: int, depth: int, experts: int = 1) -> Weights:
    """Random weights of codes with scales and zero points, or of numbers."""
    rng, rows = draw.rng, experts * columns
    if coding in TYPES:
        numbers = draw.dense((rows, depth), coding)
        if draw.flag():
            numbers[~np.isfinite(numbers)] = 1
        wide = numbers.astype(np.float64).reshape(experts, columns, depth)
        given = {"group": 1, "zero": 0.0, "zeros": False}
        return Weights([np.pad(numbers, ((0, 0), (0, -depth % 32)))], wide, sized(wide), given)
    bits = int(coding[-1])
    unit = 512 // bits
    group = draw.of([0, 16, 32, 64, unit, 2 * unit, 5 * unit])
    size = group or max(depth, 1)
    codes = rng.integers(*LIMITS[coding], (rows, depth))
    scales = (rng.uniform(0.01, 0.02, (rows, -(-depth // size))) * draw.of([1, 1, 1e-3, 30])).astype(
        TYPES[draw.dtype()]
    )
    if draw.flag(0.1) and scales.size:
        scales.reshape(-1)[rng.integers(scales.size)] = draw.of([0, np.inf, np.nan, -0.5, 1e-40])
    zero = 0.0 if draw.flag() else float(draw.of([-7, 0.5, 8, 128, 300]))
    points: Array = np.full(scales.shape, zero)
    arrays = [packed(codes, bits), scales]
    has_zeros = draw.flag()
    if has_zeros:
        kind = draw.of([np.dtype(np.uint8 if coding[0] == "u" else np.int8), *map(np.dtype, TYPES.values())])
        points = rng.integers(max(LIMITS[coding][0], -20), min(LIMITS[coding][1], 20), scales.shape).astype(kind)
        arrays.append(points)
    spread = [np.repeat(each.astype(np.float64), size, 1)[:, :depth] for each in (scales, points)]
    wide = ((codes - spread[1]) * spread[0]).reshape(experts, columns, depth)
    sizes = ((np.abs(codes) + np.abs(spread[1]) + 128) * sized(spread[0])).reshape(experts, columns, depth)
    whole = arrays[0].shape[1] * 8 // bits
    given = {"group": group or whole, "zero": 0.0 if has_zeros else zero, "zeros": has_zeros}
    return Weights(arrays, wide, sizes, given)


def same(one: Array, other: Array) -> Array:
    """Where both are infinite alike, or both are NaN."""
    return (one == other) | (np.isnan(one) & np.isnan(other))


def wanted_product(
    src: Array,
    numbers: Array,
    sizes: Array,
    dtype: str,
    *,
    coded: bool,
    bias: Array | None = None,
    rounds: bool = False,
) -> Wanted:
    """The product of rows (rows, depth) and columns (columns, depth).

    ``rounds``: whether both may be rounded to bf16 first. Codes of src are off by half a step.
    """
    wide, depth = src.astype(np.float64), src.shape[-1]
    result, size = wide @ numbers.T, sized(wide) @ sized(sizes).T
    error = ULP * (depth + 8) * size
    if rounds:  # products of bf16 take a number closer to 0 than any normal one for 0
        error += 2.0**-7 * size + TINY * (sized(numbers).sum(-1) + sized(wide).sum(-1, keepdims=True) + depth)
        flushed = [np.where(np.abs(side) < TINY, 0, side) for side in (wide, numbers)]
        size = np.where(np.isfinite(result), size, np.where(same(result, flushed[0] @ flushed[1].T), size, np.inf))
    if coded:
        steps = sized(wide).max(-1, initial=0, keepdims=True) / 127
        error += 0.51 * steps * sized(numbers).sum(-1) + 2.0**-149 * sized(sizes).sum(-1)
    if bias is not None:
        added = sized(bias.astype(np.float64))
        result, size = result + bias.astype(np.float64), size + added
        error += ULP * (size + depth * added)  # sums may begin with the bias
    error += ROUNDING[dtype] * sized(result) + LEAST_OF[dtype]
    near_end = np.abs(result) + error > HIGHEST[dtype]
    return Wanted(result, error, np.where(near_end & np.isfinite(result), np.inf, size))


def check_product(found: Array, wanted: Wanted, numbers: Array, said: str) -> None:
    """Compare a product; where a scale of a column is infinite, the result is any number that is not finite."""
    endless = np.isinf(numbers).any(-1)
    assert not np.isfinite(found[..., endless].astype(np.float64)).any(), f"{said}: finite, with an infinite scale"
    Wanted(*(each[..., ~endless] for each in wanted)).check(found[..., ~endless], said)


@draws("packed_product")
def packed_product(draw: Draw) -> None:
    coding = draw.of([*LIMITS, "f16", "bf16"])
    rows, columns, depth = draw.size(65, 0), draw.size(), draw.size(least=0)
    depth, columns = (draw.of([640, 1100]), 37) if draw.flag(0.03) else (depth, columns)
    dtype, to = draw.dtype(), draw.dtype()
    weights = drawn_weights(draw, coding, columns, depth)
    src = draw.dense((rows, depth), dtype)
    bias = draw.dense((columns,), draw.dtype()) if draw.flag() else None
    coded, unpacks = coding in LIMITS and draw.flag(), draw.flag(0.3)
    found = draw.result((rows, columns), to, is_dense=True)
    draw.said = f"{rows}, {depth}, {columns}, {coding}, {weights.given}, {coded=}, {unpacks=}, {dtype} to {to}"
    draw.path = f"{coding}{' coded' if coded else ''}"
    ends = [src, *weights.arrays, *([] if bias is None else [bias])]
    draw.run(*ends, found, coding=coding, **weights.given, bias=bias is not None, coded=coded, unpacks=unpacks)
    numbers, sizes = weights.numbers[0], weights.sizes[0]
    rounds = coded or dtype == "bf16"
    wanted = wanted_product(src, numbers, sizes, to, coded=coded, bias=bias, rounds=rounds)
    if coding in TYPES:
        wanted.check(found, str(draw))
    else:
        check_product(found, wanted, numbers, str(draw))
    if unpacks and rows > 1:  # each row has the bits that it has alone
        one = draw.result((1, columns), to, is_dense=True)
        ends[0] = src[-1:].copy()
        draw.run(*ends, one, coding=coding, **weights.given, bias=bias is not None, coded=coded, unpacks=True)
        assert same_bits(one, found[-1:], nan=True), f"{draw}: the last row differs alone"


@draws("packed_product", graph=True)
def packed_product_in_a_graph(draw: Draw) -> None:
    rows, depth, columns = draw.size(33), 64 * draw.between(1, 5), draw.size(65, 4)
    codes = draw.rng.integers(-128, 128, (columns, depth)).astype(np.int8)
    scales = draw.rng.uniform(0.01, 0.02, columns)
    points = draw.rng.integers(-5, 6, columns)
    g = og.Graph()
    known = g.dequantize(g.constant(codes), scales=scales.tolist(), zps=points.tolist(), qtype="per_channel", axis=0)
    g.output("y", g.matmul(g.input("x", "f32", (rows, depth)), known, transpose_b=True))
    draw.said = f"{rows}, {depth}, {columns}"
    src = draw.dense((rows, depth))
    (found,) = draw.run_graph(g, {"x": src})
    numbers = (codes - points[:, None]) * scales.astype(np.float32).astype(np.float64)[:, None]
    sizes = 384 * np.broadcast_to(scales[:, None], numbers.shape)
    wanted_product(src, numbers, sizes, "f32", coded=False).check(found, str(draw))


@draws("packed_experts")
def packed_experts(draw: Draw) -> None:
    coding = draw.of([*LIMITS, *TYPES])
    experts, rows, each = draw.between(1, 6), draw.size(33, 0), draw.between(1, 3)
    columns, depth = draw.size(70), draw.size(least=0)
    is_turned, lines = coding in LIMITS or draw.flag(), draw.of([1, 1, 2, 3])
    if not is_turned and draw.flag(0.05):
        columns, depth = 1100, 7  # more columns than are summed at once
    strict = draw.flag()
    dtype, to = draw.dtype(), draw.dtype()
    if coding in TYPES:
        numbers = draw.dense((experts, columns, depth), coding)
        arrays = [numbers if is_turned else np.ascontiguousarray(numbers.swapaxes(1, 2))]
        wide = numbers.astype(np.float64)
        weights = Weights(arrays, wide, sized(wide), {"group": 1, "zero": 0.0, "zeros": False})
    else:
        weights = drawn_weights(draw, coding, columns, depth, experts)
    low, high = (-experts, experts - 1) if strict else (-1, experts)
    places = draw.rng.integers(low, high + 1, (rows, each)).astype(draw.of([np.int32, np.int64]))
    shares = draw.flag()
    src = draw.dense((rows, lines, depth) if shares else (rows, each, lines, depth), dtype)
    coded, unpacks = coding in LIMITS and draw.flag(), draw.flag(0.3)
    found = draw.result((rows, each, lines, columns), to, is_dense=True)
    draw.said = f"{src.shape}, {places.shape}, {experts} experts, {columns}, {coding}, {weights.given}, "
    draw.said += f"{coded=}, {unpacks=}, {strict=}, {is_turned=}, {dtype} to {to}"
    draw.path = f"{coding}{' coded' if coded else ''}{'' if is_turned else ' not turned'}"
    draw.run(
        src, places, *weights.arrays, found,
        coding=coding, **weights.given, coded=coded, unpacks=unpacks, experts=experts, turned=is_turned, strict=strict
    )  # fmt: skip
    for row, column in np.ndindex(rows, each):
        place = int(places[row, column])
        place += experts if strict and place < 0 else 0
        own = src[row] if shares else src[row, column]
        if not 0 <= place < experts:
            assert not found[row, column].astype(np.float32).any(), f"{draw}: {row}, {column} chooses no expert"
            continue
        numbers, sizes = weights.numbers[place], weights.sizes[place]
        rounds = coded or dtype == "bf16"
        wanted = wanted_product(own, numbers, sizes, to, coded=coded, rounds=rounds)
        said = f"{draw}: {row}, {column}"
        if coding in TYPES:
            wanted.check(found[row, column], said)
        else:
            check_product(found[row, column], wanted, numbers, said)


@draws("packed_experts", graph=True)
def packed_experts_in_a_graph(draw: Draw) -> None:
    experts, rows, each, columns, depth = draw.between(1, 5), draw.size(17), draw.between(1, 3), draw.size(33), 64
    weights = drawn_weights(draw, "u8", columns, depth * draw.between(1, 4), experts)
    while weights.given["zero"] or weights.given["zeros"] or weights.given["group"] < 32 or weights.given["group"] > 64:
        weights = drawn_weights(draw, "u8", columns, depth * draw.between(1, 4), experts)
    depth, g = weights.numbers.shape[2], og.Graph()
    held = [array.reshape(experts, columns, -1).astype(np.uint8 if place == 0 else np.float32)
            for place, array in enumerate(weights.arrays)]  # fmt: skip
    weights_given = [*map(g.constant, held)]
    ends = g.input("x", "f32", (rows, depth)), g.input("places", "s64", (rows, each)), *weights_given
    g.output("y", g.op("PackedExperts", [*ends], {"coding": "u8", "group": weights.given["group"]}, edition="host"))
    src, places = draw.dense((rows, depth)), draw.rng.integers(0, experts, (rows, each))
    draw.said = f"{src.shape}, {places.shape}, {experts} experts, {columns}, {weights.given}"
    (found,) = draw.run_graph(g, {"x": src, "places": places})
    for row, column in np.ndindex(rows, each):
        place = places[row, column]
        numbers, sizes = weights.numbers[place], weights.sizes[place]
        wanted = wanted_product(src[row : row + 1], numbers, sizes, "f32", coded=False)
        check_product(found[row : row + 1, column], wanted, numbers, str(draw))


@draws("vector_product")
def vector_product(draw: Draw) -> None:
    rows, depth, columns = draw.between(1, 4), draw.size(least=0), draw.size(least=0)
    if draw.flag(0.02):
        depth, columns = draw.between(1, 20), draw.of([2047, 2049, 4096, 4500, 9001])
    turned = draw.flag()
    src, matrix = draw.dense((rows, depth)), draw.dense((columns, depth) if turned else (depth, columns))
    addend = draw.of([None, draw.dense((columns,)), draw.dense((rows, columns))])
    found = draw.result((rows, columns), is_dense=True)
    draw.said = f"{rows}, {depth}, {columns}, {turned=}, adds {None if addend is None else addend.shape}"
    draw.path = f"{rows} rows{' turned' if turned else ''}"
    draw.run(src, matrix, *([] if addend is None else [addend]), found, turned=turned)
    columns_of = (matrix if turned else matrix.T).astype(np.float64)
    wanted_product(src, columns_of, columns_of, "f32", coded=False, bias=addend).check(found, str(draw))


@draws("vector_product", graph=True)
def vector_product_in_a_graph(draw: Draw) -> None:
    rows, depth, columns, turned = draw.between(1, 4), draw.between(500, 530), draw.between(500, 530), draw.flag()
    g, shape = og.Graph(), (columns, depth) if turned else (depth, columns)
    src, matrix = draw.dense((rows, depth)), draw.dense(shape)
    ends = [g.input("x", "f32", src.shape), g.input("w", "f32", shape)]
    g.output("y", g.op("MatMul", ends, {"transpose_b": turned}))
    draw.said = f"{rows}, {shape}, {turned=}"
    with patch.object(vector_products, "core_cache", lambda: 0):  # however large the last cache is
        (found,) = draw.run_graph(g, {"x": src, "w": matrix})
    columns_of = (matrix if turned else matrix.T).astype(np.float64)
    wanted_product(src, columns_of, columns_of, "f32", coded=False).check(found, str(draw))
