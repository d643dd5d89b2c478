"""Attention to caches of codes."""

from __future__ import annotations


def dequantized(g, way, name, shape, dtype="s8"):
    """A cache of codes behind what dequantizes it."""
    src, (batch, heads, _, size) = g.input(name, dtype, shape), shape
    number = dict(zip("kv", (0.01, 0.02), strict=True))[name]
    if way == "tensor":
        return g.dequantize(src, scales=[number], zps=[3])
    if way == "head":
        return g.dequantize(src, scales=[number * (at + 1) for at in range(heads)], qtype="per_channel", axis=1)
    if way == "dynamic":
        ends = g.input(f"{name}_scale", "f32", (heads,)), g.input(f"{name}_zero", "s32", (heads,))
        return g.dynamic_dequantize(src, *ends, qtype="per_channel", axis=1)
    scale = g.input(f"{name}_scale", "f32", (batch, heads, shape[2], 1))
    if way == "token":
        return g.dynamic_dequantize(src, scale, qtype="per_group", group_shape=[1, 1, 1, size], axis=3)
    return g.multiply(g.op("Cast", [src], {}, edition="host", dtype="f32"), scale)


WAYS = ("tensor", "head", "dynamic", "token", "spelled out")


def products(g, query, key, value):
    return g.matmul(g.softmax(g.matmul(g.multiply(query, query), key, transpose_b=True), axis=3), value)


def cached(g, query, key, value):
    ends = [query, key, value, g.input("lengths", "s64", (1,))]
    return g.op("CachedAttention", ends, {"scale": 0.5}, edition="host")


def whole(g, query, key, value):
    return g.op("Attention", [query, key, value], {"scale": 0.5}, edition="host")
