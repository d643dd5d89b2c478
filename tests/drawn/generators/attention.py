"""Attention and its gradient: of numbers and of codes, with masks, limits, sinks, lengths and windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import onegraph as og
from onegraph.compiler.kernels import attention as kernel
from tests.helpers.drawn import TYPES, Array, Wanted

from ..draw import Draw
from ..entry import draws

ULP = 2.0**-23
ROUNDING = {"f32": ULP, "bf16": 2.0**-8, "f16": 2.0**-11}
# Axes of (batch, heads, tokens, size) that scales of codes have for themselves.
SCALES = ((), (1,), (0, 1, 2), (1, 3), (0, 1, 2, 3))


@dataclass
class Scores:
    """The scores of an attention in float64 (batch, heads, queries, keys), and how far they may be off."""

    scores: Array
    error: Array
    sees: Array  # which keys are computed at all


@dataclass
class Use:
    """The operands of an attention, with keys and values of all heads in float64."""

    query: Array
    key: Array
    value: Array
    group: int
    dtype: str
    numbers: dict[str, Any]


def of_heads(array: Array, group: int) -> Array:
    """Keys or values in float64, repeated for the queries of each head."""
    return np.repeat(array.astype(np.float64), group, 1)


def seen_keys(use: Use, lengths: Array | None) -> Array:
    """Which keys each query sees: up to its own place, and no further back than a window."""
    batch, heads, queries, _ = use.query.shape
    keys, numbers = use.key.shape[2], use.numbers
    ends = np.full(batch, keys) if lengths is None else lengths
    pasts = np.full(batch, numbers["past"]) if lengths is None else np.maximum(ends - queries, 0)
    behind = np.arange(queries)[:, None] + pasts[:, None, None] - np.arange(keys)
    sees = np.arange(keys) < ends[:, None, None]
    if numbers["causal"]:
        sees = sees & (behind >= 0)
        if numbers["window"]:
            sees = sees & (behind < numbers["window"])
    return np.broadcast_to(sees[:, None], (batch, heads, queries, keys))


def scores_of(use: Use, mask: Array | None, lengths: Array | None) -> Scores:
    """By the definition."""
    query, key, numbers = use.query.astype(np.float64), of_heads(use.key, use.group), use.numbers
    products = query @ key.swapaxes(2, 3) * numbers["scale"]
    with np.errstate(all="ignore"):
        sizes = np.nan_to_num(np.abs(query), posinf=0) @ np.nan_to_num(np.abs(key), posinf=0).swapaxes(2, 3)
    error = sizes * abs(numbers["scale"]) * ULP * (use.query.shape[3] + 8)
    if numbers["softcap"]:
        products = numbers["softcap"] * np.tanh(products / numbers["softcap"])
        error = error + 8 * ULP * numbers["softcap"]
    if mask is not None and mask.dtype == bool:
        if numbers["selects"] == "none":
            products = products + np.where(mask, 0, -np.inf)
        else:
            hidden = np.float32(numbers["hidden"]).astype(np.float64)
            products = np.where(mask == (numbers["selects"] == "where_true"), hidden, products)
    elif mask is not None:
        products = products + mask.astype(np.float64)
    error = error + 4 * ULP * np.where(np.isfinite(products), np.abs(products), 0)
    sees = seen_keys(use, lengths)
    return Scores(np.where(sees, products, -np.inf), error, sees)


def drawn_mask(draw: Draw, shape: tuple[int, ...], special: bool) -> Array:
    """Numbers that are added, or whether a key is seen; some axes are 1 or missing."""
    dims = [1 if draw.flag(0.3) else dim for dim in shape][draw.between(0, 3) if draw.flag(0.3) else 0 :]
    if draw.flag(0.3):
        return draw.rng.random(dims) < draw.of([0.3, 0.7, 1.0])
    mask = draw.mild(dims, draw.dtype(), special=special)
    hidden = draw.rng.random(mask.shape) < draw.of([0, 0.3, 0.8])
    mask[hidden] = draw.of([-np.inf, -1e4])
    return mask


def drawn_use(draw: Draw, *, is_backward: bool = False) -> Use:
    dtype = draw.dtype()
    batch, heads, group = draw.between(1, 2), draw.between(1, 3), draw.of([1, 1, 2, 4])
    queries, keys = draw.of([1, draw.size(17), draw.size(65)]), draw.size()
    size, value_size = draw.size(65), draw.size(65)
    if draw.flag(0.02):
        size, value_size = draw.of([256, 257, 520]), draw.of([257, 520])
    causal = draw.flag()
    numbers: dict[str, Any] = dict(kernel.PLAIN)
    numbers |= {"backward": is_backward, "mask": False, "lengths": False, "plain": False, "causal": causal}
    numbers |= {"scale": float(draw.of([size**-0.5, 1.0, 0.25])), "past": draw.of([0, max(keys - queries, 0), 7])}
    numbers["past"] *= causal
    numbers["window"] = draw.of([0, 3, 20]) if causal else 0
    special, place = draw.flag(0.15), draw.between(0, 2)
    shapes = (batch, heads * group, queries, size), (batch, heads, keys, size), (batch, heads, keys, value_size)
    own = [dtype, *[dtype if dtype == "bf16" or draw.flag(0.8) or is_backward else draw.dtype() for _ in range(2)]]
    ends = [draw.mild(shape, one, special=special and at == place, size=0.7)
            for at, (shape, one) in enumerate(zip(shapes, own, strict=True))]  # fmt: skip
    return Use(ends[0], ends[1], ends[2], group, dtype, numbers)


def check_rows(found: Array, use: Use, at: Scores, sink: Array | None, value: Array, to: str, said: str) -> Array:
    """Compare the results of an attention; returns the logsumexp in float64.

    A row with NaN or +inf among its scores is NaN. A row that sees no key is 0, or NaN if it is plain. NaN or an
    infinity in a value that a row gives no share may count or not; with a share, the result is infinite or NaN.
    """
    scores = at.scores
    column = np.full((*scores.shape[:3], 1), -np.inf) if sink is None else np.broadcast_to(sink, (*scores.shape[:3], 1))
    whole = np.concatenate([scores, column.astype(np.float64)], -1)
    most = whole.max(-1, keepdims=True)
    least = np.where(np.isfinite(most), most, 0)
    powers = np.exp(whole - least)
    total = powers.sum(-1, keepdims=True)
    shares = (powers / np.where(total > 0, total, 1))[..., :-1]
    is_lost = np.isnan(whole).any(-1) | np.isposinf(whole).any(-1)
    is_empty = np.isneginf(whole).all(-1)
    is_finite = np.isfinite(value)
    plain = np.where(is_finite, value, 0)
    result = shares @ plain
    off = np.where(at.sees, at.error, 0).max(-1, keepdims=True, initial=0)
    sizes = shares @ np.abs(plain)
    rounding = 2.0**-8 if use.dtype == "bf16" else 0
    error = (2 * off + ULP * (scores.shape[-1] + 16) + rounding) * sizes + ROUNDING[to] * np.abs(result) + 2.0**-24
    touched = (shares > 1e-30).astype(np.float64) @ ~is_finite > 0
    any_touch = np.ones_like(shares) @ ~is_finite > 0
    is_nan = is_lost | (is_empty & use.numbers["plain"])
    wide = found.astype(np.float64)
    assert np.isnan(wide[is_nan]).all(), f"{said}: numbers in rows without shares"
    assert not np.isfinite(wide[touched & ~is_nan[..., None]]).any(), f"{said}: finite results of values that are not"
    rest = ~is_nan[..., None] & ~any_touch
    assert not wide[rest & is_empty[..., None]].any(), f"{said}: rows that see no key are not 0"
    Wanted(result, error, np.where(rest, 0, np.inf)).check(wide, said)
    return np.where(is_lost, np.nan, (np.log(total) + least)[..., 0])


@draws("attention")
def attention(draw: Draw) -> None:
    draw.of([attention_of_numbers, attention_of_numbers, attention_gradient, attention_of_codes])(draw)


def attention_of_numbers(draw: Draw) -> None:
    use = drawn_use(draw)
    numbers = use.numbers
    batch, heads, queries, _ = use.query.shape
    keys, value_size = use.key.shape[2], use.value.shape[3]
    ends: list[Array] = [use.query, use.key, use.value]
    lengths = mask = sink = None
    if draw.flag(0.3):
        lengths, numbers["lengths"], numbers["past"] = draw.rng.integers(0, keys + 1, batch), True, 0
        ends.append(lengths)
    elif draw.flag(0.3) and not numbers["causal"]:
        numbers["plain"] = True
    if draw.flag(0.4):
        mask = drawn_mask(draw, (batch, heads, queries, keys), draw.flag(0.1))
        numbers["mask"] = True
        ends.append(mask)
        if mask.dtype == bool and numbers["plain"] and draw.flag():
            numbers["selects"] = draw.of(["where_false", "where_true"])
            numbers["hidden"] = draw.of([-1e9, -np.inf, -2.5])
    if draw.flag(0.2):
        numbers["softcap"] = draw.of([2.0, 30.0])
    if draw.flag(0.2):
        sink = draw.mild(
            [1 if draw.flag() else dim for dim in (batch, heads, queries, 1)], special=draw.flag(0.1), size=3
        )
        numbers["sink"] = True
        ends.append(sink)
    to = draw.dtype()
    found = [draw.result((batch, heads, queries, value_size), to)]
    if draw.flag():
        found.append(draw.result((batch, heads, queries), "f32"))
    draw.said = f"{use.query.shape}, {use.key.shape}, {[str(one.dtype) for one in ends]} to {to}, {numbers}"
    draw.path = f"{use.dtype}{''.join(' ' + name for name in ('mask', 'lengths', 'causal', 'sink') if numbers[name])}"
    draw.run(*ends, *found, results=len(found), **numbers)
    at = scores_of(use, mask, lengths)
    total = check_rows(found[0], use, at, sink, of_heads(use.value, use.group), to, str(draw))
    if len(found) > 1:
        off = np.where(at.sees, at.error, 0).max(-1, initial=0) + 16 * ULP * np.where(
            np.isfinite(total), np.abs(total), 0
        )
        is_free = np.isnan(total) | (np.isneginf(total) & numbers["plain"])
        Wanted(total, off + 64 * ULP, np.where(is_free, np.inf, 0)).check(found[1], f"{draw}, logsumexp")


def attention_of_codes(draw: Draw) -> None:
    use = drawn_use(draw)
    while use.dtype != "f32":
        use = drawn_use(draw)
    numbers, (batch, heads, queries, _) = use.numbers, use.query.shape
    ends, held, extra = [use.query], [], []
    which = draw.of([(True, True), (True, False), (False, True)])
    for array, is_coded in zip((use.key, use.value), which, strict=True):
        if not is_coded:
            ends.append(array)
            held.append(array)
            continue
        kind = draw.of([np.int8, np.uint8])
        codes = draw.rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, array.shape).astype(kind)
        if draw.flag():
            codes = np.ascontiguousarray(codes.swapaxes(1, 2)).swapaxes(1, 2)
        axes = draw.of(SCALES)
        dims = [dim if axis in axes else 1 for axis, dim in enumerate(array.shape)]
        scale = draw.rng.uniform(0.005, 0.02, dims).astype(np.float32)
        zero = draw.rng.integers(-5, 6, dims).astype(draw.of([np.int32, np.int8, np.float32]))
        ends.append(codes)
        extra += [scale, zero]
        held.append((codes - zero.astype(np.float64)) * scale)
    found = draw.result((batch, heads, queries, use.value.shape[3]))
    draw.said = f"{use.query.shape}, {use.key.shape}, {[str(one.dtype) for one in (*ends, *extra)]}, {numbers}"
    draw.path = "codes"
    draw.run(*ends, *extra, found, **numbers)
    use = Use(use.query, held[0], held[1], use.group, "f32", numbers)
    at = scores_of(use, None, None)
    at.error *= 4
    check_rows(found, use, at, None, of_heads(use.value, use.group), "f32", str(draw))


def attention_gradient(draw: Draw) -> None:
    use = drawn_use(draw, is_backward=True)
    numbers, (batch, heads, queries, _) = use.numbers, use.query.shape
    for array in (use.query, use.key, use.value):
        array[~np.isfinite(array.astype(np.float32))] = 1
    mask = drawn_mask(draw, (batch, heads, queries, use.key.shape[2]), False) if draw.flag(0.4) else None
    numbers["mask"] = mask is not None
    grad = draw.mild((batch, heads, queries, use.value.shape[3]), use.dtype)
    place, special = -1, [use.query, use.key, use.value, grad]
    if draw.flag(0.2):  # one number is not finite
        place = draw.between(0, 3)
        at_special = tuple(draw.between(0, dim - 1) for dim in special[place].shape)
        special[place][at_special] = draw.of([np.nan, np.inf, -np.inf])
    at, value = scores_of(use, mask, None), of_heads(use.value, use.group)
    most = at.scores.max(-1, keepdims=True, initial=-np.inf)
    powers = np.exp(at.scores - np.where(np.isneginf(most), 0, most))
    total = powers.sum(-1, keepdims=True)
    dst = (powers / np.where(total == 0, 1, total) @ value).astype(TYPES[use.dtype])
    logsumexp = (np.log(total) + np.where(np.isneginf(most), 0, most))[..., 0].astype(np.float32)
    ends = [use.query, use.key, use.value, dst, logsumexp, grad, *([] if mask is None else [mask])]
    found = [draw.result(array.shape, use.dtype) for array in (use.query, use.key, use.value)]
    draw.said = f"{use.query.shape}, {use.key.shape}, {use.dtype}, {None if mask is None else mask.dtype}, {numbers}"
    draw.path = f"{use.dtype} gradient"
    if place >= 0:
        draw.said += f", {special[place][at_special]} in {('query', 'key', 'value', 'grad')[place]}"
        draw.path += " of a number that is not finite"
    draw.run(*ends, *found, results=3, any_threads=False, **numbers)
    shares = np.where(np.isneginf(logsumexp)[..., None], 0, np.exp(at.scores - logsumexp[..., None].astype(np.float64)))
    sides = gradients_of(use, at, shares, dst, logsumexp, grad)
    for name, array, (result, error) in zip(("query", "key", "value"), found, sides, strict=True):
        error = error + ROUNDING[use.dtype] * np.abs(result) + 2.0**-24
        free = np.where(np.isfinite(result), 0, np.inf)  # by the definition; a kernel may leave out shares of 0
        Wanted(result, error, free).check(array, f"{draw}, {name}")
    if place >= 0:
        check_lost(draw, use, at.sees & (shares != 0), place, at_special, found)


def gradients_of(
    use: Use, at: Scores, shares: Array, dst: Array, logsumexp: Array, grad: Array
) -> list[tuple[Array, Array]]:
    """Those of query, key and value in float64, each with how far it may be off."""
    scale, value = use.numbers["scale"], of_heads(use.value, use.group)
    query, key, wide = use.query.astype(np.float64), of_heads(use.key, use.group), grad.astype(np.float64)
    inner, outer = wide @ value.swapaxes(2, 3), (wide * dst.astype(np.float64)).sum(-1, keepdims=True)
    inner_size = np.abs(wide) @ np.abs(value).swapaxes(2, 3)
    inner_size += np.abs(wide * dst.astype(np.float64)).sum(-1, keepdims=True)
    slope = shares * (inner - outer)
    off = at.error + 8 * ULP * np.nan_to_num(np.abs(logsumexp[..., None]), nan=0, posinf=0) + ULP * 32
    rounding = 2.0**-7 if use.dtype == "bf16" else 0
    slope_error = shares * inner_size * (2 * off + ULP * (use.value.shape[3] + 16) + rounding)
    share_error = shares * (2 * off + rounding)

    def summed(array: Array) -> Array:
        return array.reshape(len(array), -1, use.group, *array.shape[2:]).sum(2)

    terms = ULP * (use.query.shape[2] * use.group + use.key.shape[2] + 8)
    slope_size = slope_error + terms * np.abs(slope)
    return [
        (slope @ key * scale, slope_size @ np.abs(key) * scale),
        (summed(slope.swapaxes(2, 3) @ query) * scale, summed(slope_size.swapaxes(2, 3) @ np.abs(query)) * scale),
        (summed(shares.swapaxes(2, 3) @ wide), summed((share_error + terms * shares).swapaxes(2, 3) @ np.abs(wide))),
    ]


def check_lost(draw: Draw, use: Use, sees: Array, place: int, at: tuple[int, ...], found: list[Array]) -> None:
    """No finite gradient stands where a query with a share of a key meets a number that is not finite."""
    batch, head, row, column = at
    group = range(head, head + 1) if place in (0, 3) else range(head * use.group, (head + 1) * use.group)
    for own in group:
        queries = found[0][batch, own].astype(np.float32)
        if place in (0, 3):
            keys = sees[batch, own, row]
            lost = [queries[row], *([found[2][batch, own // use.group, keys, column]] if place == 3 else [])]
            has = keys.any()
        elif place == 1:
            lost, has = [queries[sees[batch, own, :, row]]], True
        else:
            lost, has = [found[1][batch, head, row]], sees[batch, own, :, row].any()
        for results in lost:
            assert not has or not np.isfinite(results.astype(np.float32)).any(), f"{draw}: finite gradients {at}"


@draws("attention", graph=True)
def attention_in_a_graph(draw: Draw) -> None:
    use = drawn_use(draw)
    g = og.Graph()
    ends = []
    for name, array in (("q", use.query), ("k", use.key), ("v", use.value)):
        array[~np.isfinite(array.astype(np.float32))] = 1
        shape = [None if draw.flag(0.3) and axis == 2 else dim for axis, dim in enumerate(array.shape)]
        ends.append(g.input(name, use.dtype, shape))
    attrs = {name: use.numbers[name] for name in ("causal", "scale", "past", "window")}
    dst, _ = g.op("Attention", ends, attrs, edition="host", outputs=["dst", "logsumexp"])
    g.output("y", dst)
    given = {
        name: array.astype(TYPES[use.dtype]) for name, array in zip("qkv", (use.query, use.key, use.value), strict=True)
    }
    use = Use(given["q"], given["k"], given["v"], use.group, use.dtype, use.numbers)
    draw.said = f"{use.query.shape}, {use.key.shape}, {use.dtype}, {attrs}"
    (found,) = draw.run_graph(g, given)
    check_rows(found, use, scores_of(use, None, None), None, of_heads(use.value, use.group), use.dtype, str(draw))
