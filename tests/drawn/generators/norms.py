"""Normalizations, softmaxes and rotary embeddings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.helpers.drawn import LARGEST, LEAST, TYPES, Array, Wanted, sized

from ..draw import Draw, place_of
from ..entry import draws
from ..numbers import ULP, check, check_bits, check_near, dims, is_refused, turned


def along(vector: Array, axis: int, rank: int) -> Array:
    """A vector in float64 along one of several axes."""
    return vector.astype(np.float64).reshape([-1 if each == axis else 1 for each in range(rank)])


def normalized(src: Array, statistics: Sequence[Array], epsilon: float) -> tuple[Array, Array, Array]:
    """(src - mean) * (gamma / root of the variance) + beta in float64, what rounding in f32 comes to, and where f32 has
    0 or an infinity on the way and float64 has not.
    """
    mean, variance, gamma, beta = statistics
    factor = gamma / np.sqrt(variance + epsilon)
    difference = src - mean
    product = difference * factor
    result = product + beta
    error = ULP * (4 * sized(product) + 4 * sized((sized(src) + sized(mean)) * factor) + sized(beta))
    is_far = np.zeros(result.shape, bool)
    for part in (variance + epsilon, gamma, factor, difference, product, result):
        is_far |= (sized(part) > LARGEST) | ((sized(part) < 1e-37) & (sized(part) > 0))
    return result, np.where(np.isfinite(error), error, 0), is_far


def rows_side_by_side(draw: Draw, shape: Sequence[int], dtype: str) -> tuple[Array, Array]:
    """A source and memory for a result, in both of which the same axis comes last and has no gaps."""
    src = turned(draw, draw.dense(shape, dtype))
    memory = sorted(range(src.ndim), key=lambda axis: (src.shape[axis] != 1, -src.strides[axis]))
    back, inner = np.argsort(memory), src.transpose(memory)
    if draw.flag():
        room = np.zeros([*inner.shape[:-1], inner.shape[-1] + draw.between(1, 3)], inner.dtype)
        room[..., : inner.shape[-1]] = inner
        src = room[..., : inner.shape[-1]].transpose(back)
    if draw.flag():
        return src, place_of(src)
    order = [*draw.rng.permutation(len(memory) - 1), len(memory) - 1]
    found = np.zeros([inner.shape[axis] for axis in order], src.dtype)
    return src, found.transpose(np.argsort(order)).transpose(back)


@draws("batch_norm")
def batch_norm(draw: Draw) -> None:
    shape, dtype, relu = dims(draw, 1, 5), draw.dtype(), draw.flag()
    axis, epsilon = draw.between(0, len(shape) - 1), float(np.float32(draw.of([1e-5, 1e-3, 0.5])))
    src, found = rows_side_by_side(draw, shape, dtype)
    vectors = [draw.array((shape[axis],), draw.of([dtype, "f32", draw.dtype()])) for _ in range(4)]
    for vector in vectors:
        if draw.flag():
            vector[~np.isfinite(vector.astype(np.float32))] = 1
    vectors[3][...] = np.abs(vectors[3])
    draw.said = f"{dtype} {shape} {src.strides} to {found.strides}, channels {axis}, epsilon {epsilon}, relu {relu}"
    draw.path = dtype
    draw.run(src, *vectors, found, channels=axis, relu=relu, epsilon=epsilon)
    gamma, beta, mean, variance = (along(vector, axis, len(shape)) for vector in vectors)
    wanted, error, is_far = normalized(src.astype(np.float64), (mean, variance, gamma, beta), epsilon)
    check_near(found, np.where(relu & (wanted <= 0), 0, wanted), error, draw, but=is_far)


@draws("norm_relu")
def norm_relu(draw: Draw) -> None:
    shape, dtype, gamma, beta = dims(draw, 2, 5), draw.dtype(), draw.flag(), draw.flag()
    axis, epsilon = draw.between(0, len(shape) - 1), float(np.float32(draw.of([1e-5, 0.5])))
    src, found = draw.array(shape, dtype), draw.result(shape, dtype)
    found[...] = 7
    vectors = [draw.dense((shape[axis],)) for _ in range(2 + gamma + beta)]
    vectors[1][...] = np.abs(vectors[1])
    draw.said = f"{dtype} {shape}, channels {axis}, gamma {gamma}, beta {beta}"
    draw.run(src, *vectors, found, channels=axis, gamma=gamma, beta=beta, epsilon=epsilon)
    mean, variance, *rest = (along(vector, axis, len(shape)) for vector in vectors)
    scale, shift = rest[0] if gamma else np.ones_like(mean), rest[gamma] if beta else np.zeros_like(mean)
    statistics = mean, variance, scale, shift
    wanted, error, is_far = normalized(src.astype(np.float64), statistics, epsilon)
    again = np.logical_and.reduce([np.isfinite(one) for one in statistics])
    again = np.broadcast_to(~again, found.shape)
    draw.path = "again" if again.any() else "nothing"
    wanted = np.where(again, np.where(wanted <= 0, 0, wanted), 7)
    check_near(found, wanted, np.where(again, error, 0), draw, but=is_far & again)


@draws("layer_norm", "rms_norm")
def row_norms(draw: Draw) -> None:
    is_centered, to = draw.kernel == "layer_norm", draw.dtype()
    width, rows, epsilon = (
        draw.of([draw.size(), draw.between(1, 300)]),
        draw.of([1, 2, 5, 70]),
        draw.of([1e-5, 1e-3, 0.5]),
    )
    src = draw.dense((rows, width), draw.dtype())
    vectors = [draw.dense((width,), draw.dtype()) for _ in range(draw.between(0, 1 + is_centered))]
    found = draw.result((rows, width), to, is_dense=True)
    stats = [draw.result((rows,), is_dense=True) for _ in range(draw.of([0, 2]) if is_centered else 0)]
    draw.said = f"{src.dtype} to {to}, {rows} rows of {width}, {len(vectors)} vectors, epsilon {epsilon}"
    draw.path = "statistics" if stats else ""
    draw.run(src, *vectors, found, *stats, results=1 + len(stats), width=width, epsilon=epsilon)
    wide = src.astype(np.float64)
    mean = wide.mean(-1, keepdims=True) if is_centered else np.zeros((rows, 1))
    variance = np.square(wide - mean).mean(-1, keepdims=True)
    root, largest = np.sqrt(variance + epsilon), sized(wide).max(-1, keepdims=True)
    result, error = (wide - mean) / root, (8 * ULP * (sized(wide) + largest) + LEAST) / root
    way = sized(result)  # the largest number on the way to the result
    for number, vector in enumerate(vectors):
        factor = vector.astype(np.float64)
        is_lost = (sized(result) < 2 * LEAST) & np.isinf(factor)  # 0 in f32, times infinity
        way = np.where(is_lost, np.inf, way)
        result = result + factor if number else result * factor
        way = np.maximum(way, sized(result))
        error = error + ULP * sized(factor) if number else error * sized(factor) + ULP * sized(result)
    digit, least = {"f32": (ULP, 0), "bf16": (2.0**-7, 2.0**-133), "f16": (2.0**-10, 2.0**-24)}[to]
    error = error + digit * sized(result) + least
    # Squares of more are infinite in f32; products of more are in the type of the result.
    is_over = np.isinf(result.astype(TYPES[to]).astype(np.float64)) & np.isfinite(result)
    over = np.where((largest > 1e17) | is_over | (way > LARGEST), np.inf, 0)
    Wanted(result, error, over).check(found, str(draw))
    for one, wanted, near in zip(stats, (mean, variance), (8 * ULP * largest, 32 * ULP * largest**2), strict=False):
        Wanted(wanted[:, 0], near[:, 0], over.max(-1)).check(one, str(draw))


@draws("softmax", "log_softmax")
def softmax(draw: Draw) -> None:
    shape, is_log = dims(draw), draw.kernel == "log_softmax"
    axis, src = draw.between(0, len(shape) - 1), draw.dense(shape, draw.dtype())
    found = draw.result(shape, draw.dtype(), is_dense=True)
    if draw.flag():
        src[np.abs(src.astype(np.float32)) > 1e30] = 1
    if draw.flag(0.2):  # masks, some of whole rows
        src[draw.rng.random(shape) < draw.of([0.3, 0.95])] = -np.inf
    draw.said = f"{src.dtype} to {found.dtype}, {shape} along {axis}"
    draw.path = "rows" if int(np.prod(shape[axis + 1 :])) == 1 and shape[axis] > 1 else "columns"
    draw.run(src, found, axis=axis)
    wide = src.astype(np.float64)
    below = wide - wide.max(axis, keepdims=True)
    total = np.exp(below).sum(axis, keepdims=True)
    if is_log:
        wanted, error = below - np.log(total), 1e-6 + 2 * ULP * (sized(below) + sized(np.log(total)))
    else:
        wanted = np.exp(below) / total
        error = np.nan_to_num(2 * ULP * (4 + np.minimum(sized(below), 90)) * wanted) + np.where(below < -85, 2e-37, 0)
    check_near(found, wanted, error, draw, but=sized(below) > np.finfo(np.float32).max)


@draws("log_softmax_gradient")
def log_softmax_gradient(draw: Draw) -> None:
    shape = dims(draw)
    src, sums = draw.dense(shape) * np.float32(draw.of([1, 10, 30])), draw.dense([*shape[:-1], 1])
    if draw.flag():  # log-probabilities
        src = -np.abs(src)
    found = draw.result(shape, is_dense=True)
    draw.said = f"{shape}"
    draw.run(src, sums, found)
    power, factor = np.exp(src.astype(np.float64)), sums.astype(np.float64)
    # f32 has 0 in the place of a power less than its normal numbers, and an infinity in that of a large one.
    is_none, is_over = power < 2e-38, power > np.finfo(np.float32).max
    error = sized(power * factor) * ULP * (4 + np.minimum(sized(src), 90)) + np.where(is_none, 2e-38 * sized(factor), 0)
    check(~(is_over & np.isfinite(found)), found, -power * factor, draw)
    check_near(found, -power * factor, error, draw, but=(is_none & np.isinf(factor)) | is_over)


@draws("rotary")
def rotary(draw: Draw) -> None:
    batch, heads, tokens = draw.between(1, 3), draw.between(1, 4), draw.of([1, 2, 7, draw.size(33)])
    size = draw.of([draw.size(least=2), draw.between(2, 70), 64, 128])
    pairs = draw.of([size // 2, draw.between(1, size // 2)])
    interleaved, whole, has_lengths = draw.flag(), draw.flag(), draw.flag()
    angles, room = 2 * pairs if whole else pairs, tokens + draw.between(0, 8)
    src = draw.array((batch, heads, tokens, size), draw.dtype())
    found = draw.result(src.shape, draw.dtype())
    shape = [draw.of([1, batch]), draw.of([1, heads]), draw.of([1, tokens]), angles][draw.of([0, 0, 0, 1, 2, 3]) :]
    shape = [room, angles] if has_lengths else shape
    cos, sin = (draw.array(shape, draw.dtype()) for _ in range(2))
    lengths = draw.rng.integers(0, room + 1, batch)
    is_wrong = has_lengths and draw.flag(0.05)
    if is_wrong:
        lengths[draw.between(0, batch - 1)] = draw.of([-1, room + 1, 2**62])
    draw.said = f"{src.dtype} to {found.dtype}, {src.shape} {src.strides}, angles {cos.shape}, lengths {lengths}"
    draw.path = f"{'neighbours' if interleaved else 'halves'}{' whole' * whole}{' lengths' * has_lengths}"
    inputs = [src, cos, sin, *([lengths] if has_lengths else [])]
    numbers = {"interleaved": interleaved, "whole": whole, "lengths": has_lengths}
    if is_refused(draw, lambda: draw.run(*inputs, found, **numbers), "lengths", is_wrong=is_wrong):
        return
    places = np.maximum(lengths - tokens, 0)[:, None, None] + np.arange(tokens)
    full = (batch, heads, tokens, angles)
    c, s = (
        np.broadcast_to(table.astype(np.float64)[places] if has_lengths else table.astype(np.float64), full)
        for table in (cos, sin)
    )
    wide = src.astype(np.float64)
    first = 2 * np.arange(pairs) if interleaved else np.arange(pairs)
    second = first + (1 if interleaved else pairs)
    of_first, of_second = (first, second) if whole else (np.arange(pairs),) * 2
    a, b, wanted, largest = wide[..., first], wide[..., second], wide.copy(), np.zeros_like(wide)
    for to, at, ends in ((first, of_first, (a, -b)), (second, of_second, (b, a))):
        parts = ends[0] * c[..., at], ends[1] * s[..., at]
        wanted[..., to] = parts[0] + parts[1]
        largest[..., to] = np.maximum(*map(sized, parts))
    check_near(found, wanted, 2 * ULP * largest, draw, but=largest > LARGEST)
    if found.dtype == src.dtype == np.float32:
        check_bits(found[..., 2 * pairs :], src[..., 2 * pairs :], draw)
