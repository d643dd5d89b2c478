"""Attention that is spelled out."""

from __future__ import annotations

import numpy as np

import onegraph as og

HALF = np.array(0.5, np.float32)


def attention(
    queries=8,
    keys=64,
    *,
    kind=og.f32,
    key="rows",
    scale=HALF,
    by="multiply",
    mask=(8, 64),
    is_mask_first=False,
    axis=-1,
    turned="",
    returned=None,
):
    """The steps of a chain of attention after the pass, and how they are scaled and masked."""
    g = og.Graph()
    sizes = {"": (keys, 16), "rows": (queries, 16), "values": (16, keys)}[turned]
    q, v = g.input("q", kind, (1, 2, queries, 16)), g.input("v", kind, (1, 2, *sizes))
    if key == "rows":
        scores = g.matmul(q, g.input("k", kind, (1, 2, keys, 16)), transpose_b=True)
    elif key == "columns":
        scores = g.matmul(q, g.input("k", kind, (1, 2, 16, keys)))
    else:
        scores = g.matmul(q, g.static_transpose(g.input("k", kind, (1, 2, keys, 16)), order=(0, 1, 3, 2)))
    made = {"scores": scores}
    if scale is not None:
        factor = g.input("scale", kind, (1,)) if isinstance(scale, str) else g.constant(scale.astype(kind.numpy))
        scores = made["scaled"] = getattr(g, by)(scores, factor)
    if mask is not None:
        added = g.input("mask", kind, mask)
        scores = made["masked"] = g.add(added, scores) if is_mask_first else g.add(scores, added)
    shares = made["shares"] = g.softmax(scores, axis=axis)
    g.output("y", g.matmul(shares, v, transpose_a=turned == "rows", transpose_b=turned == "values"))
    if returned:
        g.output("z", made[returned])
    return g
