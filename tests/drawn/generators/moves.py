"""Kernels that move, cast or select elements, and those that write integers."""

from __future__ import annotations

from itertools import chain

import numpy as np

from onegraph.compiler.kernels.native import compiled, packed
from onegraph.compiler.kernels.strided_copy import backwards
from tests.helpers.drawn import TYPES
from tests.helpers.kernels import run_compiled, values_of

from ..draw import Draw, place_of
from ..entry import draws
from ..numbers import (
    ULP,
    bits,
    check,
    check_bits,
    check_near,
    check_numbers,
    contents,
    dims,
    is_refused,
    laid,
    random_bits,
    repeated,
)

COPIED = (np.int8, np.uint8, np.int32, np.bool_)


@draws("cast")
def cast(draw: Draw) -> None:
    shape = dims(draw)
    if draw.flag():
        src, kind = contents(draw, repeated(draw, shape), draw.dtype()), np.dtype(TYPES[draw.dtype()])
    else:
        kind = np.dtype(draw.of([*COPIED, *TYPES.values()]))
        src = random_bits(draw, repeated(draw, shape), kind)
    src, found = laid(draw, src), laid(draw, np.zeros(shape, kind))
    draw.said = f"{src.dtype} {src.shape} {src.strides} to {kind} {shape} {found.strides}"
    draw.path = "copy" if src.dtype == kind else f"{src.dtype} to {kind}"
    draw.run(src, found)
    wide = np.broadcast_to(src, shape)
    if src.dtype == kind:
        check_bits(found, wide, draw)
        return
    check_numbers(found, wide.astype(np.float32).astype(kind), draw)
    check(np.signbit(found) == np.signbit(wide), found, wide, draw)  # of NaN too


ENDS = np.float32([2**31, -(2.0**31), 2**31 - 128, -(2.0**31) - 256, 255.5, 256, -0.9, 127.99, -128.5])


@draws("cast_integers")
def cast_integers(draw: Draw) -> None:
    kinds, shape = (np.float32, np.int32, np.int8, np.uint8), dims(draw)
    source, kind = draw.of(kinds), np.dtype(draw.of(kinds))
    src = random_bits(draw, repeated(draw, shape), source)
    if source is np.float32:
        src = draw.dense(src.shape) * np.float32(draw.of([1, 30, 1e5, 1e9, 3e9]))
        src = np.where(draw.rng.random(src.shape) < 0.1, draw.rng.choice(ENDS, src.shape), src)
    src, found = laid(draw, src), laid(draw, np.zeros(shape, kind))
    draw.said = draw.path = f"{src.dtype} to {kind}"
    draw.run(src, found)
    wanted = np.broadcast_to(src, shape)
    if source is np.float32 and kind != np.float32:
        is_inside = (wanted >= -(2.0**31)) & (wanted < 2.0**31)
        wanted = np.where(is_inside, np.trunc(np.where(is_inside, wanted, 0).astype(np.float64)), -(2.0**31))
    check_numbers(
        found, wanted if source is np.float32 and kind == source else wanted.astype(np.int64).astype(kind), draw
    )


@draws("strided_copy")
def strided_copy(draw: Draw) -> None:
    shape = dims(draw, 1, 5)[: draw.of([0, 5, 5, 5, 5, 5, 5])]
    if draw.flag(0.3) and len(shape) > 1:
        shape[draw.between(0, len(shape) - 1)] = 3  # channels of an image
    kind = np.dtype(draw.of([np.int8, np.bool_, np.float32, np.int32, *TYPES.values(), np.int64]))
    src, found = laid(draw, random_bits(draw, shape, kind)), laid(draw, np.zeros(shape, kind))
    if draw.flag(0.3):
        src = src[tuple(slice(None, None, draw.of([1, -1])) for _ in shape)]
    if draw.flag(0.2):
        src = np.broadcast_to(src[tuple(slice(0, draw.of([1, None, None])) for _ in shape)], shape)
    draw.said = f"{kind} {shape} {src.strides} to {found.strides}"
    source, target = values_of([src, found])
    source, numbers = backwards(source)
    draw.path = "backwards" if numbers["backwards"] else ""
    draw.run_kernel(compiled(draw.kernel, [source], [target], packed(draw.kernel, numbers)), src, found)
    check_bits(found, src, draw)


@draws("select")
def select(draw: Draw) -> None:
    shape, dtype = dims(draw), draw.dtype()
    condition = draw.rng.integers(0, 2, repeated(draw, shape)).astype(np.bool_)
    first, second = (random_bits(draw, repeated(draw, shape), TYPES[dtype]) for _ in range(2))
    arrays = [laid(draw, array) for array in (condition, first, second)]
    found = laid(draw, np.zeros(shape, TYPES[dtype]))
    draw.said = f"{dtype} {shape} {[array.strides for array in (*arrays, found)]}"
    draw.run(*arrays, found)
    check(bits(found) == np.where(condition, bits(first), bits(second)), found, found, draw)


@draws("replace_nan")
def replace_nan(draw: Draw) -> None:
    shape, dtype = dims(draw), draw.dtype()
    src, value = contents(draw, repeated(draw, shape), dtype), contents(draw, [1] * len(shape), dtype)
    if draw.flag(0.2):
        value = contents(draw, repeated(draw, shape), dtype)
    src, found = laid(draw, src), laid(draw, np.zeros(shape, TYPES[dtype]))
    draw.said = f"{dtype} {shape} {src.strides} to {found.strides}"
    draw.run(src, value, found)
    check(bits(found) == np.where(np.isnan(src), bits(value), bits(src)), found, found, draw)


@draws("extend_cache")
def extend_cache(draw: Draw) -> None:
    batch, heads, size, room = draw.between(1, 3), draw.between(1, 3), draw.size(65), draw.size(draw.of([33, 33, 257]))
    before, new = draw.of([room, draw.between(0, room)]), draw.between(1, room)
    kind = np.dtype(draw.of([*TYPES.values(), np.int8, np.uint8]))
    past, rows = (random_bits(draw, (batch, heads, count, size), kind) for count in (before, new))
    lengths = draw.rng.integers(0, room + 1, batch)
    is_wrong = draw.flag(0.05)
    if is_wrong:
        lengths[draw.between(0, batch - 1)] = draw.of([-1, room + 1, 2**62, -(2**63)])
    found = np.zeros((heads, batch, room, size), kind).swapaxes(0, 1)
    found = found if draw.flag() else found.copy()
    draw.path = draw.of(["over past", ""]) if before == room else ""
    draw.said = f"{kind} {past.shape} {new} rows, room {room}, lengths {lengths}, {draw.path}"
    numbers = {"takes_back": draw.flag()}
    given, rows = (place_of(found) if draw.path else laid(draw, past) if past.size else past), laid(draw, rows)
    given[...] = past

    def run() -> None:
        if not draw.path:
            draw.run(given, rows, lengths, found, **numbers)
            return
        ends = values_of([given, rows, lengths, found])
        kernel = compiled(draw.kernel, ends[:3], ends[3:], packed(draw.kernel, numbers))
        run_compiled(kernel, given, rows, lengths, found, threads=draw.threads, over=0)
        draw.runs += 1

    if is_refused(draw, run, "lengths", is_wrong=is_wrong):
        return
    wanted = np.zeros(found.shape, kind)
    for image, length in enumerate(lengths.tolist()):
        start = max(length - new, 0)
        wanted[image, :, :before] = past[image]
        wanted[image, :, before:start] = 0
        wanted[image, :, start : start + new] = rows[image]
    check_bits(found, wanted, draw)


CODES = {"s4": (4, -8, 8), "u4": (4, 0, 16), "s8": (8, -128, 128), "u8": (8, 0, 256)}


@draws("packed_gather")
def packed_gather(draw: Draw) -> None:
    coding, target = draw.of([*CODES, "f16", "bf16"]), draw.dtype()
    rows, depth = draw.between(1, 9), draw.of([draw.size(), draw.between(1, 1300), 512, 513])
    count = draw.of([1, 2, draw.between(1, 40)])
    indices = draw.rng.integers(-rows, rows, count).astype(draw.of([np.int32, np.int64]))
    is_wrong = draw.flag(0.05)
    if is_wrong:
        indices[draw.between(0, count - 1)] = draw.of([rows, -rows - 1, 2**31 - 1, -(2**31)])
    group = draw.of([0, 1, 16, 32, 128, draw.between(1, 300)])
    group = group if group < depth else 0
    zero, has_zeros, error = draw.of([0.0, 8.0, 128.0, -3.0, 1.5]), coding in CODES and draw.flag(), np.zeros((rows, 1))
    if coding in CODES:
        table, codes = packed_codes(draw, coding, rows, depth)
        scales = draw.dense((rows, -(-depth // (group or depth))), draw.dtype())
        points = np.full(scales.shape, zero)
        inputs = [table, indices, scales]
        if has_zeros:
            points = draw.rng.integers(0, 127, scales.shape).astype(draw.of([np.int8, np.uint8]))
            points = draw.dense(scales.shape, draw.dtype()) if draw.flag(0.3) else points
            inputs.append(points)
        at = np.arange(depth) // (group or depth)
        factors, points = (array.astype(np.float64)[:, at] for array in (scales, points))
        wide = (codes - points) * factors
        error = np.nan_to_num(ULP * (np.abs(wide) + np.abs(points * factors)), posinf=0)
    else:
        table = contents(draw, [rows, depth + draw.of([0, 0, 3])], coding)
        inputs, wide = [table, indices], table[:, :depth].astype(np.float64)
    found = draw.result((count, depth), target, is_dense=True)
    draw.said = f"{coding}, {rows} rows of {depth}, groups of {group}, to {target}, zeros {has_zeros}, {indices}"
    draw.path = coding
    numbers = {"coding": coding, "group": group, "zero": zero, "zeros": has_zeros}
    if is_refused(draw, lambda: draw.run(*inputs, found, **numbers), "indices", is_wrong=is_wrong):
        return
    check_near(found, wide[indices], np.broadcast_to(error, wide.shape)[indices], draw)


def packed_codes(draw, coding, rows, depth):
    """A table of codes, and the codes."""
    width, low, high = CODES[coding]
    codes = draw.rng.integers(low, high, (rows, depth))
    table = (codes & (2**width - 1)).astype(np.uint8)
    if width == 4:
        odd = draw.rng.integers(0, 16, (rows, depth % 2)).astype(np.uint8)
        table = np.concatenate([table, odd], 1)
        table = table[:, ::2] | table[:, 1::2] << 4
    if draw.flag(0.2):  # bytes behind the codes of a row
        table = np.concatenate([table, draw.rng.integers(0, 256, (rows, 3)).astype(np.uint8)], 1)
    return table.view(draw.of([np.int8, np.uint8])), codes


@draws("written_sizes")
def written_sizes(draw: Draw) -> None:
    kind, count = np.dtype(draw.of([np.int32, np.int64])), draw.size(least=0)
    draw.path = draw.of(["range", "dims"])
    of = draw.rng.integers(-(2**31), 2**31, 2 if draw.path == "range" else count).tolist()
    if draw.path == "range":
        of[1] = draw.of([of[1], 1, -1, 0, 7])
        wanted = [of[0] + number * of[1] for number in range(count)]
        if kind == np.int32 and wanted and not -(2**31) <= wanted[-1] < 2**31:
            of, wanted = [0, 1], [*range(count)]
    else:
        wanted = of
    found = np.zeros(count, kind)
    draw.said = f"{kind} {count} {of[:2]}"
    draw.run(found, is_range=draw.path == "range", of=of)
    assert found.tolist() == wanted, str(draw)


@draws("count_tuples")
def count_tuples(draw: Draw) -> None:
    kind = np.dtype(draw.of([np.int32, np.int64]))
    far = [2**31 - 1, -(2**31)] if kind == np.int32 else [2**33, -(2**33), 2**31, 2**32]
    letters, count = draw.rng.choice([0, 1, 2, -1, *far], 3), draw.between(1, 8)
    tuples = [draw.rng.choice(letters, draw.between(1, 4)).tolist() for _ in range(count)]
    width, length, skips = draw.between(1, count + 1), draw.size(33), draw.of([0, 1, 2, 5, 40])
    columns, src = draw.rng.integers(0, width, count).tolist(), draw.rng.choice(letters, (draw.size(65), length))
    wanted = np.zeros((len(src), width), np.float32)
    for each, column in zip(tuples, columns, strict=True):
        for step in range(1, skips + 2 if len(each) > 1 else 2):
            last = max(length - step * (len(each) - 1), 0)
            parts = [src[:, at * step : at * step + last] == number for at, number in enumerate(each)]
            wanted[:, column] += np.logical_and.reduce(parts).sum(1)
    halves = [half for element in chain(*tuples) for half in ((element + 2**31) % 2**32 - 2**31, element >> 32)]
    found = draw.result(wanted.shape, is_dense=True)
    draw.said = f"{kind} {src.shape}, {tuples}, {skips} skips"
    draw.run(src.astype(kind), found, skips=skips, contents=[count, *map(len, tuples), *columns, *halves])
    check_numbers(found, wanted, draw)
