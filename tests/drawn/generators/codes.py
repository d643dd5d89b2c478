"""Arithmetic on 8-bit codes."""

from __future__ import annotations

import numpy as np

from onegraph.compiler.kernels.native import compiled, packed
from tests.helpers.drawn import Array
from tests.helpers.kernels import values_of

from ..draw import Draw
from ..entry import draws
from ..numbers import ULP, check, check_near, check_numbers, dims, laid, random_bits, repeated

LIMITS = {np.dtype(np.int8): (-128, 127), np.dtype(np.uint8): (0, 255)}
NUMBERS = 8  # two zero points with their scales, a factor, a zero point, and the ends of the codes


def run(draw: Draw, *arrays: Array) -> None:
    """Run a kernel that finds a table, or numbers, behind the first element of its last input."""
    *inputs, output = values_of(arrays)
    inputs[-1] = inputs[-1]._replace(shape=(1,), strides=(1,))
    draw.run_kernel(compiled(draw.kernel, inputs, [output], packed(draw.kernel, {})), *arrays)


@draws("look_up")
def look_up(draw: Draw) -> None:
    shape = dims(draw)
    kinds = [draw.of([*LIMITS]) for _ in range(3)]
    src, table = random_bits(draw, repeated(draw, shape), kinds[0]), random_bits(draw, (256,), kinds[1])
    src, found = laid(draw, src), laid(draw, np.zeros(shape, kinds[2]))
    draw.said = f"{shape} {src.strides} to {found.strides}"
    run(draw, src, table, found)
    wanted = table.view(np.uint8)[np.ascontiguousarray(src).view(np.uint8).reshape(src.shape)]
    check_numbers(found, np.broadcast_to(wanted, shape).copy().view(kinds[2]), draw)


def operand(draw: Draw, shape: list[int]) -> Array:
    """Codes or numbers."""
    kind = draw.of([*LIMITS, np.dtype(np.float32)])
    own = repeated(draw, shape)
    return laid(draw, draw.dense(own) if kind == np.float32 else random_bits(draw, own, kind))


@draws("rescale", "add", "multiply")
def scaled(draw: Draw) -> None:
    shape, kind = dims(draw), draw.of([*LIMITS, np.dtype(np.float32)])
    sources = [operand(draw, shape) for _ in range(1 + (draw.kernel != "rescale"))]
    numbers = np.zeros(NUMBERS, np.float32)
    numbers[:4:2], numbers[1:4:2] = draw.of([0, 3, 128]), draw.rng.uniform(0.001, 2, 2)
    numbers[4:6] = draw.of([1.0, 0.1, 20.0]), draw.of([0, 5, 128])
    numbers[6:] = LIMITS.get(kind, (-1, 1))
    if draw.flag(0.3):
        numbers[6] += draw.between(0, 100)  # of a ReLU
    found = laid(draw, np.zeros(shape, kind))
    draw.said = (
        f"{[(one.dtype, one.shape, one.strides) for one in sources]} to {kind} {shape} {found.strides}, {numbers}"
    )
    draw.path = f"to {kind}"
    run(draw, *sources, numbers, found)
    wide = [
        (source.astype(np.float64) - zero) * scale
        for source, zero, scale in zip(sources, numbers[:4:2].astype(float), numbers[1:4:2].astype(float), strict=False)
    ]
    sizes = [
        (np.abs(np.nan_to_num(source.astype(np.float64), posinf=0, neginf=0)) + zero) * scale
        for source, zero, scale in zip(sources, numbers[:4:2].astype(float), numbers[1:4:2].astype(float), strict=False)
    ]
    result, error = wide[0], 2 * ULP * sizes[0]
    if draw.kernel == "add":
        result, error = wide[0] + wide[1], 2 * ULP * (sizes[0] + sizes[1])
    if draw.kernel == "multiply":
        result, error = wide[0] * wide[1], 4 * ULP * sizes[0] * sizes[1] + 2.0**-149 * (sizes[0] + sizes[1])
    result, error = (np.broadcast_to(each, shape) for each in (result, error))
    infinite = np.isfinite(result) & (np.abs(result) > 3e38)  # in f32
    for one in wide:
        infinite = infinite | (np.isfinite(one) & (np.abs(one) > 3e38))
        infinite = infinite | ((one != 0) & (np.abs(one) < 2.0**-149) & ~np.isfinite(result))  # 0 in f32
    if kind == np.float32:
        check_near(found, result, error, draw, but=infinite)
        return
    factor, zero, low, high = numbers[4:].astype(np.float64)
    exact = result * factor + zero
    room = error * factor + 2 * ULP * (np.abs(np.nan_to_num(exact, posinf=0, neginf=0)) + zero)
    wanted = [np.rint(np.clip(np.where(np.isnan(exact), low, exact) + side * room, low, high)) for side in (-1, 1)]
    code = found.astype(np.float64)
    check(((wanted[0] <= code) & (code <= wanted[1])) | infinite, found, wanted[0], draw)


@draws("dynamic_quantize")
def dynamic_quantize(draw: Draw) -> None:
    src, kind = draw.dense(dims(draw)), draw.of([*LIMITS])
    if draw.flag():
        src[~np.isfinite(src)] = draw.of([0, 1])
    if draw.flag(0.3):
        src[np.abs(src) > 1e30] = 1
    if draw.flag(0.2):
        src = np.abs(src) * np.float32(draw.of([1, -1]))
    low, high = LIMITS[kind]
    least = np.float32(draw.of([0, 2.0**-12, 1e-3]))
    found, scale, zero = np.zeros(src.shape, kind), np.zeros((), np.float32), np.zeros((), kind)
    draw.said = f"{src.shape} to {kind}, least {least}"
    draw.run(src, found, scale, zero, results=3, low=low, high=high, least=float(least))
    # The formulas of ONNX, in f32.
    has_nan = bool(np.isnan(src).any())
    first, last = (
        np.float32(each) for each in (np.fmin.reduce(src, None, initial=0), np.fmax.reduce(src, None, initial=0))
    )
    wanted = np.float32(np.nan) if has_nan else np.maximum((last - first) / np.float32(high - low), least)
    wanted = np.float32(1) if wanted == 0 else wanted
    raw = np.float32(low) - first / wanted
    point = low if np.isnan(raw) else int(np.rint(np.clip(raw, low, high)))
    quotient = src / wanted
    codes = np.clip(
        np.rint(np.where(np.isnan(quotient), np.float32(low - point), quotient)) + np.float32(point), low, high
    )
    draw.path = "NaN" if has_nan else "numbers"
    check_numbers(scale, np.asarray(wanted), draw)
    assert int(zero) == point, f"{draw}: zero {zero}, not {point}"
    check_numbers(found, codes, draw)
