"""Attention, as commits of the oneDNN library mended it; it is fused since 3.3."""

from __future__ import annotations

from typing import Any

from onegraph import Graph, LogicalTensor

from .builders import Shape, inputs, tries

HEADS = (2, 4, 5, 8)


def softmax(g: Graph, scores: LogicalTensor, dtype: str = "f32") -> LogicalTensor:
    return g.op("SoftMax", [scores], {"axis": -1}, outputs=[], dtype=dtype)


def attention(
    dtype: str = "f32",
    scale: Shape | None = None,
    mask: Shape | None = None,
    keys: Shape = (2, 4, 7, 8),
    values: int = 8,
    joined: bool = False,
) -> Any:
    """Of two batches with four heads of five queries."""

    def build(g: Graph) -> LogicalTensor:
        q, k, v = inputs(g, dtype, HEADS, keys, (*keys[:3], values))
        scores = g.matmul(q, k, transpose_b=True)
        if scale is not None:
            scores = g.op("Multiply", [scores, g.input("scale", dtype, scale)])
        if mask is not None:
            scores = g.add(scores, g.input("mask", dtype, mask))
        mixed = g.matmul(softmax(g, scores, dtype), v)
        return (
            g.static_reshape(g.static_transpose(mixed, order=[0, 2, 1, 3]), shape=[2, 5, 4 * values])
            if joined
            else mixed
        )

    return build


tries(
    "masks of attention",
    *[
        attention(dtype, scale, mask)
        for dtype in ("f32", "bf16")
        for scale in (None, (1,), (1, 1, 1, 1))
        for mask in (None, (2, 1, 1, 7), (2, 1, 5, 7), (1, 1, 5, 7), (2, 4, 5, 7), (1, 4, 1, 7), (5, 7))
    ],
    *[attention("f32", scale) for scale in ((1, 4, 1, 1), (2, 1, 1, 7), (2, 1, 5, 1), (2, 1, 5, 7), (7,))],
    *[attention("f32", (1,), (2, 1, 1, count), (2, 4, count, 8), values) for count in (1, 5, 33) for values in (8, 12)],
    *[attention(dtype, (1,), (2, 1, 1, 7), joined=True) for dtype in ("f32", "bf16")],
)


def grouped(dtype: str, mask: bool) -> Any:
    """Two queries of each head of keys, as an axis more."""

    def build(g: Graph) -> LogicalTensor:
        q, k, v = inputs(g, dtype, (2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8))
        rows = g.static_reshape(q, shape=[2, 2, 2, 5, 8])
        columns, values = (g.static_reshape(x, shape=[2, 2, 1, 7, 8]) for x in (k, v))
        scores = g.op("Multiply", [g.matmul(rows, columns, transpose_b=True), g.input("scale", dtype, (1,))])
        if mask:
            scores = g.add(scores, g.static_reshape(g.input("mask", dtype, (2, 1, 1, 7)), shape=[2, 1, 1, 1, 7]))
        return g.static_reshape(g.matmul(softmax(g, scores, dtype), values), shape=[2, 4, 5, 8])

    return build


tries(
    "attention with fewer heads of keys",
    *[
        attention(dtype, (1,), keys=keys)
        for dtype in ("f32", "bf16")
        for keys in ((2, 1, 7, 8), (1, 4, 7, 8), (1, 1, 7, 8))
    ],
    *[grouped(dtype, mask) for dtype in ("f32", "bf16") for mask in (False, True)],
)


def of_codes(
    source: str,
    cast: bool = False,
    *,
    zero: int = 0,
    turned: bool = False,
    values: str = "u8",
    mask: bool = True,
    plain: str = "",
    joined: bool = True,
) -> Any:
    """Attention of codes; ``plain`` names the tensors that are no codes, ``turned`` whether keys are turned apart."""
    dtype = "bf16" if cast else "f32"

    def build(g: Graph) -> LogicalTensor:
        def read(name: str, code: str, shape: Shape, zero: int = 0) -> LogicalTensor:
            if name in plain:
                return g.input(name, dtype, shape)
            tensor = g.dequantize(g.input(name, code, shape), scales=[0.0078125], zps=[zero])
            return g.type_cast(tensor, dtype="bf16") if cast else tensor

        q, k, v = read("q", source, HEADS, zero), read("k", values, (2, 4, 7, 8)), read("v", values, (2, 4, 7, 8))
        columns = g.static_transpose(k, order=[0, 1, 3, 2]) if turned else k
        scores = g.matmul(q, columns, transpose_b=not turned)
        scores = g.op("Divide", [scores, g.input("divisor", dtype, (1,))]) if "s" not in plain else scores
        scores = g.add(scores, g.input("mask", dtype, (2, 1, 1, 7))) if mask else scores
        shares = softmax(g, scores, dtype)
        if "p" not in plain:
            shares = g.type_cast(shares, dtype="f32") if cast else shares
            shares = g.dequantize(
                g.quantize(shares, scales=[0.00390625], zps=[0], dtype="u8"), scales=[0.00390625], zps=[0]
            )
            shares = g.type_cast(shares, dtype="bf16") if cast else shares
        mixed = g.matmul(shares, v)
        if not joined:
            return mixed
        rows = g.static_reshape(g.static_transpose(mixed, order=[0, 2, 1, 3]), shape=[2, 5, 32])
        rows = g.type_cast(rows, dtype="f32") if cast else rows
        return g.quantize(rows, scales=[0.015625], zps=[0], dtype=source)

    return build


tries(
    "attention of codes",
    *[
        of_codes(source, cast, turned=turned, values=values, mask=mask, plain=plain, joined=joined)
        for source in ("u8", "s8")
        for cast in (False, True)
        for turned in (False, True)
        for values in ("u8", "s8")
        for mask, plain, joined in ((True, "", True), (False, "s", True), (True, "s", False), (True, "qp", False))
    ],
    *[of_codes("s8", plain=plain, joined=False) for plain in ("k", "v", "qkp", "qvp", "kvp")],
)


def dynamic(qtype: str, which: str) -> Any:
    """Attention whose keys or values are codes with a scale that is an input."""

    def build(g: Graph) -> LogicalTensor:
        def read(name: str) -> LogicalTensor:
            if name not in which:
                return g.input(name, "f32", (2, 4, 7, 8))
            scale = g.input(f"scale_{name}", "f32", (1,) if qtype == "per_tensor" else (8,))
            codes = g.input(name, "s8", (2, 4, 7, 8))
            return g.op("DynamicDequantize", [codes, scale], {"qtype": qtype, "axis": 3})

        scores = g.matmul(g.input("q", "f32", HEADS), read("k"), transpose_b=True)
        return g.matmul(softmax(g, g.op("Multiply", [scores, g.input("scale", "f32", (1,))])), read("v"))

    return build


tries(
    "attention of codes with a scale that is an input",
    *[dynamic(qtype, which) for qtype in ("per_tensor", "per_channel") for which in ("k", "v", "kv")],
)


def chosen(first: bool, condition: Shape, before: bool = False) -> Any:
    """Attention that a Select masks, whose scores are its second or third input."""

    def build(g: Graph) -> LogicalTensor:
        q, k, v = inputs(g, "f32", HEADS, (2, 4, 7, 8), (2, 4, 7, 8))
        scores = g.op("Multiply", [g.matmul(q, k, transpose_b=True), g.input("scale", "f32", (1,))])
        scores = g.add(scores, g.input("mask", "f32", (2, 1, 1, 7))) if before else scores
        other = g.input("low", "f32", (1, 1, 1, 1))
        pair = [scores, other] if first else [other, scores]
        return g.matmul(softmax(g, g.op("Select", [g.input("cond", "boolean", condition), *pair])), v)

    return build


tries(
    "attention with Select",
    *[
        chosen(first, condition, before)
        for first in (False, True)
        for condition in ((2, 1, 5, 7), (2, 4, 5, 7), (1, 1, 5, 7))
        for before in (False, True)
    ],
)


def causal(ranks: int) -> Any:
    """Attention with a mask that comes from the places of queries and keys."""

    def build(g: Graph) -> LogicalTensor:
        lead = (2, 4, 2)[: ranks - 2]
        q, k, v = inputs(g, "f32", (*lead, 5, 8), (*lead, 7, 8), (*lead, 7, 8))
        scores = g.matmul(q, k, transpose_b=True)
        rows = g.op("GenIndex", [scores], {"axis": ranks - 2})
        columns = g.op("GenIndex", [scores], {"axis": ranks - 1})
        seen = g.op("GreaterEqual", [rows, columns])
        low = g.input("low", "f32", (1,) * ranks)
        return g.matmul(softmax(g, g.op("Select", [seen, scores, low])), v)

    return build


tries("attention masked by place", *[causal(ranks) for ranks in (3, 4, 5)])


def heads_in_one_axis(dtype: str, mask: bool) -> Any:
    """Attention of one head of keys, with the queries of all heads in one axis, as JAX writes it."""

    def build(g: Graph) -> LogicalTensor:
        k, q, v = inputs(g, dtype, (3, 7, 8), (3, 8, 20), (3, 8, 7))
        scores = g.static_reshape(g.matmul(k, q), shape=[3, 7, 5, 4])
        scores = g.static_transpose(scores, order=[0, 2, 3, 1])
        scores = g.add(scores, g.input("mask", dtype, (3, 5, 1, 7))) if mask else scores
        shares = g.static_transpose(softmax(g, scores, dtype), order=[0, 3, 1, 2])
        return g.matmul(v, g.static_reshape(shares, shape=[3, 7, 20]))

    return build


tries(
    "attention of heads in one axis",
    *[heads_in_one_axis(dtype, mask) for dtype in ("f32", "bf16") for mask in (True, False)],
)
